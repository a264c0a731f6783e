//! Reservations at a site that belong to no job: an operator has them made, and jobs that name
//! them run on their processors.
//!
//! Each is a lease at the site, under a tag of ours that names no job
//! ([`ReservationTag::shared`](crate::reserve::ReservationTag::shared)). What the site is to be
//! asked follows from the record alone, so that the same is asked again after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::{KeyName, ReservationName, SiteName};
use crate::planted::{Bug, bug};
use crate::reserve::{ReservationOutcome, ReservationRequest, Serial, Span, StartWindow};
use crate::resources::Resources;
use crate::site::command::SiteRejection;
use crate::site::event::SiteHappening;
use crate::site::state::SiteRecord;
use crate::site::together::{JointPart, JointState};
use crate::units::{DurationMs, Timestamp};

/// Shared reservations of a site that have not ended.
pub const MAX_SHARED: usize = 32;
/// Those that have ended and are kept to be looked at; the oldest goes first.
pub const ENDED_SHARED: usize = 16;
/// Keys that one may be for.
pub const MAX_ALLOWED: usize = 256;

/// What an operator wants reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedTerms {
    /// What jobs call it.
    pub name: ReservationName,
    /// Keys whose jobs may use it; none: every key's.
    pub allowed: BTreeSet<KeyName>,
    /// How much.
    pub resources: Resources,
    /// When its lease may begin.
    pub window: StartWindow,
    /// The lease begins so long before the start, so that wrappers come to their gates.
    pub lead: DurationMs,
    /// From the start to the end.
    pub length: DurationMs,
    /// The lease ends so long after the end.
    pub margin: DurationMs,
    /// All sites that are to reserve, and what each is to, if there are several: all of them do, or
    /// none.
    pub parts: BTreeMap<SiteName, Resources>,
    /// How far apart the leases at several sites may begin.
    pub tolerance: DurationMs,
}

/// A reservation that jobs share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedReservation {
    /// What was asked for; its length as it was extended.
    pub wish: SharedTerms,
    /// Its number among those of its site, by which the site knows it; never used again.
    pub serial: Serial,
    /// The key that had it made.
    pub by: KeyName,
    /// When its lease begins, once the site has said so.
    pub granted: Option<Timestamp>,
    /// How far it is.
    pub stage: SharedStage,
    /// A job has made use of it, or waits to.
    pub used: bool,
    /// What it is a part of, if there are several.
    pub together: Option<JointPart>,
    /// How often it was to last longer, as [`together`](crate::site::together) counts that.
    pub extension: u32,
}

/// How far a shared reservation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedStage {
    /// The site is asked for it.
    Asked,
    /// The site has granted it, and is told to keep it.
    Granted,
    /// The site keeps it.
    Confirmed,
    /// The site keeps it, and is asked to keep it longer.
    Extending {
        /// From the start to the new end.
        length: DurationMs,
    },
    /// It is given back.
    Releasing(SharedEnd),
    /// Nothing of it is left at the site.
    Ended(SharedEnd),
}

/// Why there is no such reservation any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedEnd {
    /// The site said no.
    Refused {
        /// From when on it may grant the same, if it said so.
        next: Option<Timestamp>,
    },
    /// The site granted another start than was asked for.
    WrongStart,
    /// The site has it no more.
    Lost,
    /// No job made use of it for too long after its start: it was given back.
    NoShow,
    /// It was given back.
    Cancelled {
        /// By which key.
        by: KeyName,
    },
    /// Another site could not at that time: all are asked for a later one.
    AskedAnew,
}

/// What a site is asked about one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedQuestion {
    /// To grant it, if it has not yet.
    Request,
    /// To keep it.
    Confirm,
    /// To keep it for so long.
    Extend(DurationMs),
    /// To take it back.
    Release,
}

impl SharedQuestion {
    /// The names of all, as [`SharedQuestion::name`] gives them.
    pub const NAMES: [&str; 4] = [
        "RequestShared",
        "ConfirmShared",
        "ExtendShared",
        "ReleaseShared",
    ];

    /// Its name among the effects that crash points are named after.
    pub fn name(self) -> &'static str {
        let [request, confirm, extend, release] = Self::NAMES;
        match self {
            Self::Request => request,
            Self::Confirm => confirm,
            Self::Extend(_) => extend,
            Self::Release => release,
        }
    }
}

impl SharedReservation {
    /// When it begins for those who use it; as asked for until it is granted.
    pub fn start(&self) -> Timestamp {
        self.granted.unwrap_or(self.wish.window.earliest) + self.wish.lead
    }

    /// When it ends for those who use it.
    pub fn until(&self) -> Timestamp {
        self.start() + self.wish.length
    }

    /// What the site keeps free for it, once it has granted it.
    pub fn lease(&self) -> Option<Span> {
        self.granted
            .map(|from| Span::new(from, from + self.lease_length(self.wish.length)))
    }

    /// Whether jobs can run in it, now or later.
    pub fn is_kept(&self, now: Timestamp) -> bool {
        let kept = matches!(
            self.stage,
            SharedStage::Confirmed | SharedStage::Extending { .. }
        );
        kept && self.accord() == JointState::Kept && !self.is_over(now)
    }

    /// Whether nobody can run in it any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        matches!(self.stage, SharedStage::Ended(_)) || self.lease().is_some_and(|l| l.to <= now)
    }

    /// Whether something of it may be at the site, and is not to be taken for an orphan.
    pub fn needs_lease(&self) -> bool {
        !matches!(self.stage, SharedStage::Ended(_))
    }

    /// Whether jobs of this key may use it.
    pub fn serves(&self, key: &KeyName) -> bool {
        let allowed = &self.wish.allowed;
        allowed.is_empty() || allowed.contains(key) || bug(Bug::LetAllIn)
    }

    /// When it is given back unless a job has made use of it by then: so long after its start.
    pub fn no_show_at(&self, patience: Option<DurationMs>) -> Option<Timestamp> {
        let waits = self.stage == SharedStage::Confirmed && !self.used;
        patience
            .filter(|_| waits)
            .map(|patience| self.start() + patience)
    }

    /// Why no job of this key that waits for it will run in it, if none will. It may be another
    /// one than there was under its name when the job was submitted, and be for other keys.
    pub fn turns_away(&self, key: &KeyName, now: Timestamp) -> Option<&'static str> {
        if self.is_over(now) || matches!(self.stage, SharedStage::Releasing(_)) {
            Some("has ended")
        } else {
            (!self.serves(key)).then_some("is not for its key")
        }
    }

    /// What the site is to be asked.
    pub fn question(&self) -> Option<SharedQuestion> {
        match self.stage {
            SharedStage::Asked => Some(SharedQuestion::Request),
            // Not before every site has granted its part.
            SharedStage::Granted if self.accord() == JointState::Looking => None,
            SharedStage::Granted => Some(SharedQuestion::Confirm),
            SharedStage::Extending { length } => Some(SharedQuestion::Extend(length)),
            SharedStage::Releasing(_) => (!bug(Bug::KeepShared)).then_some(SharedQuestion::Release),
            SharedStage::Confirmed | SharedStage::Ended(_) => None,
        }
    }

    /// What is asked of the site for this length.
    pub fn request(&self, length: DurationMs) -> ReservationRequest {
        ReservationRequest {
            resources: self.wish.resources.clone(),
            length: self.lease_length(length),
            window: self.granted.map_or(self.wish.window, StartWindow::exactly),
            flexible: false,
        }
    }

    fn lease_length(&self, length: DurationMs) -> DurationMs {
        self.wish.lead + length + self.wish.margin
    }

    /// What follows from an answer to its question.
    fn answered(&mut self, outcome: ReservationOutcome) {
        let lost = || SharedStage::Ended(SharedEnd::Lost);
        self.stage = match (std::mem::replace(&mut self.stage, lost()), outcome) {
            (SharedStage::Asked, ReservationOutcome::Granted { start }) => {
                self.granted = Some(start);
                if self.wish.window.contains(start) {
                    SharedStage::Granted
                } else {
                    SharedStage::Releasing(SharedEnd::WrongStart)
                }
            }
            (
                SharedStage::Asked,
                ReservationOutcome::Refused { next } | ReservationOutcome::Lost { next },
            ) => SharedStage::Ended(SharedEnd::Refused { next }),
            (SharedStage::Granted, ReservationOutcome::Done) => SharedStage::Confirmed,
            // Moved, it is of no use to those who were told when it begins.
            (SharedStage::Extending { .. }, ReservationOutcome::Granted { start })
                if self.granted != Some(start) =>
            {
                SharedStage::Releasing(SharedEnd::WrongStart)
            }
            (SharedStage::Extending { length }, ReservationOutcome::Granted { .. }) => {
                self.wish.length = length;
                SharedStage::Confirmed
            }
            // It has less than it had agreed to, and cannot have it back.
            (SharedStage::Extending { length }, ReservationOutcome::Refused { .. })
                if length == self.wish.length =>
            {
                SharedStage::Releasing(SharedEnd::Lost)
            }
            (SharedStage::Extending { .. }, ReservationOutcome::Refused { .. }) => {
                SharedStage::Confirmed
            }
            (SharedStage::Releasing(why) | SharedStage::Ended(why), _) => SharedStage::Ended(why),
            (_, ReservationOutcome::Lost { .. } | ReservationOutcome::Refused { .. }) => lost(),
            (stage, _) => stage,
        };
    }
}

impl SiteRecord {
    /// The shared reservation with this name that has not ended, else the last that has.
    pub fn shared_named(&self, name: &ReservationName) -> Option<&SharedReservation> {
        self.shared.iter().rfind(|shared| shared.wish.name == *name)
    }

    /// The shared reservation with this number.
    pub fn shared_with(&self, serial: Serial) -> Option<&SharedReservation> {
        self.shared.iter().find(|shared| shared.serial == serial)
    }

    /// What the site is to be asked next about its shared reservations.
    pub fn shared_question(&self) -> Option<(&SharedReservation, SharedQuestion)> {
        self.shared
            .iter()
            .find_map(|shared| Some((shared, shared.question()?)))
    }

    /// The one of this name that is not over.
    pub(super) fn live(
        &self,
        name: &ReservationName,
        now: Timestamp,
    ) -> Result<Serial, SiteRejection> {
        let shared = self
            .shared_named(name)
            .filter(|shared| !shared.is_over(now));
        shared
            .map(|shared| shared.serial)
            .ok_or(SiteRejection::NoSuchReservation)
    }
}

/// An operator wants one made.
pub(super) fn want(
    record: &SiteRecord,
    wish: SharedTerms,
    by: KeyName,
    now: Timestamp,
) -> Result<SiteHappening, SiteRejection> {
    if record.live(&wish.name, now).is_ok() {
        return Err(SiteRejection::ReservationExists);
    }
    if wish.window.is_empty() || wish.window.latest < now || wish.length == DurationMs::ZERO {
        return Err(SiteRejection::EmptyWindow);
    }
    if record
        .shared
        .iter()
        .filter(|shared| !shared.is_over(now))
        .count()
        >= MAX_SHARED
    {
        return Err(SiteRejection::TooManyReservations);
    }
    if wish.allowed.len() > MAX_ALLOWED {
        return Err(SiteRejection::TooManyKeys);
    }
    let serial = Serial(record.last_shared.0 + 1);
    let together = (!wish.parts.is_empty()).then_some(JointPart::new(serial, 0));
    Ok(SiteHappening::SharedWanted {
        serial,
        wish: Arc::new(wish),
        by,
        together,
    })
}

/// An operator wants one to end later. Not earlier: what runs in it may have been let in to run
/// up to its end.
pub(super) fn extend(
    record: &SiteRecord,
    name: &ReservationName,
    until: Timestamp,
    now: Timestamp,
    by: KeyName,
) -> Result<SiteHappening, SiteRejection> {
    let serial = record.live(name, now)?;
    let shared = record
        .shared_with(serial)
        .ok_or(SiteRejection::NoSuchReservation)?;
    if shared.stage != SharedStage::Confirmed || shared.accord() != JointState::Kept {
        return Err(SiteRejection::ReservationBusy);
    }
    if until <= shared.until() {
        return Err(SiteRejection::EndsLater);
    }
    let number = shared.ordered_extension();
    Ok(SiteHappening::SharedExtensionWanted {
        serial,
        length: until.since(shared.start()),
        number,
        by,
    })
}

/// An operator gives one back.
pub(super) fn cancel(
    record: &SiteRecord,
    name: &ReservationName,
    now: Timestamp,
    by: KeyName,
) -> Result<SiteHappening, SiteRejection> {
    let serial = record.live(name, now)?;
    match record.shared_with(serial).map(|shared| &shared.stage) {
        Some(SharedStage::Releasing(_)) | None => Err(SiteRejection::AlreadySo),
        Some(_) => Ok(SiteHappening::SharedCancelled { serial, by }),
    }
}

/// The site answered, or is known not to have done what it was asked.
pub(super) fn answered(
    record: &SiteRecord,
    serial: Serial,
    asked: SharedQuestion,
    outcome: ReservationOutcome,
) -> Vec<SiteHappening> {
    let waits = record
        .shared_with(serial)
        .and_then(SharedReservation::question)
        == Some(asked);
    let counts = waits || bug(Bug::AnswerOfBefore);
    counts
        .then_some(SiteHappening::SharedAnswered { serial, outcome })
        .into_iter()
        .collect()
}

/// The site does not have these any more, or has them for another time, as far as it was to keep
/// them.
pub(super) fn missing(
    record: &SiteRecord,
    gone: &BTreeSet<Serial>,
    changed: &BTreeSet<Serial>,
    now: Timestamp,
) -> Vec<SiteHappening> {
    let kept = record
        .shared
        .iter()
        .filter(|shared| shared.stage == SharedStage::Confirmed);
    let kept = kept
        .filter(|shared| !shared.is_over(now))
        .map(|shared| shared.serial);
    let happened = kept.filter_map(|serial| {
        if gone.contains(&serial) {
            Some(SiteHappening::SharedLost { serial })
        } else {
            changed
                .contains(&serial)
                .then_some(SiteHappening::SharedChanged { serial })
        }
    });
    happened.collect()
}

/// What the site was to keep and does not any more, by this.
pub(super) fn lost_by<'r>(
    record: &'r SiteRecord,
    what: &SiteHappening,
    now: Timestamp,
) -> Option<&'r SharedReservation> {
    let (serial, outcome) = match what {
        SiteHappening::SharedLost { serial } => (serial, ReservationOutcome::Lost { next: None }),
        SiteHappening::SharedAnswered { serial, outcome } => (serial, *outcome),
        _ => return None,
    };
    let before = record
        .shared_with(*serial)
        .filter(|shared: &&SharedReservation| {
            let kept = matches!(
                shared.stage,
                SharedStage::Confirmed | SharedStage::Extending { .. }
            );
            kept && !shared.is_over(now)
        })?;
    let mut after = before.clone();
    after.answered(outcome);
    matches!(after.end(), Some(SharedEnd::Lost | SharedEnd::WrongStart)).then_some(before)
}

/// Somebody looked whether jobs make use of one whose time to be given back has come.
pub(super) fn looked_at(
    record: &SiteRecord,
    serial: Serial,
    used: bool,
    patience: Option<DurationMs>,
    now: Timestamp,
) -> Option<SiteHappening> {
    let shared = record.shared_with(serial)?;
    let due = shared
        .no_show_at(patience)
        .filter(|due| *due <= now && !shared.is_over(now));
    due.map(|_| {
        if used {
            SiteHappening::SharedUsed { serial }
        } else {
            SiteHappening::SharedUnused { serial }
        }
    })
}

/// Applies an event of a shared reservation; others change nothing.
pub(super) fn evolve(record: &mut SiteRecord, what: &SiteHappening, at: Timestamp) {
    let of = |record: &mut SiteRecord, serial: &Serial, change: &dyn Fn(&mut SharedReservation)| {
        record
            .shared
            .iter_mut()
            .filter(|shared| shared.serial == *serial)
            .for_each(change);
    };
    match what {
        SiteHappening::SharedWanted {
            serial,
            wish,
            by,
            together,
        } => {
            make_room(record, &wish.name, at);
            record.last_shared = record.last_shared.max(*serial);
            record.shared.push(SharedReservation {
                wish: (**wish).clone(),
                serial: *serial,
                by: by.clone(),
                granted: None,
                stage: SharedStage::Asked,
                used: false,
                together: *together,
                extension: 0,
            });
        }
        SiteHappening::SharedExtensionWanted {
            serial,
            length,
            number,
            ..
        } => {
            of(record, serial, &|shared| {
                shared.stage = SharedStage::Extending { length: *length };
                shared.extension = *number;
            });
        }
        SiteHappening::SharedAllowed {
            serial, allowed, ..
        } => {
            of(record, serial, &|shared| {
                shared.wish.allowed.clone_from(allowed)
            });
        }
        SiteHappening::SharedSettled { serial, accord } => of(record, serial, &|shared| {
            shared.together = shared.together.map(|it| JointPart {
                accord: *accord,
                ..it
            });
        }),
        SiteHappening::SharedLeft { serial, why } => {
            of(record, serial, &|shared| {
                shared.stage = SharedStage::Releasing(why.clone())
            });
        }
        SiteHappening::SharedCancelled { serial, by } => of(record, serial, &|shared| {
            shared.stage = SharedStage::Releasing(SharedEnd::Cancelled { by: by.clone() });
        }),
        SiteHappening::SharedAnswered { serial, outcome } => {
            of(record, serial, &|shared| shared.answered(*outcome));
        }
        SiteHappening::SharedUsed { serial } => of(record, serial, &|shared| shared.used = true),
        SiteHappening::SharedUnused { serial } => of(record, serial, &|shared| {
            shared.stage = SharedStage::Releasing(SharedEnd::NoShow);
        }),
        // It is asked for what it should have.
        SiteHappening::SharedChanged { serial } => of(record, serial, &|shared| {
            shared.stage = SharedStage::Extending {
                length: shared.wish.length,
            };
        }),
        SiteHappening::SharedLost { serial } => {
            of(record, serial, &|shared| {
                shared.stage = SharedStage::Ended(SharedEnd::Lost)
            });
        }
        _ => {}
    }
}

/// What has ended makes room: of the same name at once, of others when there are too many.
fn make_room(record: &mut SiteRecord, name: &ReservationName, at: Timestamp) {
    record
        .shared
        .retain(|shared| shared.wish.name != *name || !shared.is_over(at));
    let ended = record
        .shared
        .iter()
        .filter(|shared| shared.is_over(at))
        .count();
    let mut surplus = ended.saturating_sub(ENDED_SHARED - 1);
    record.shared.retain(|shared| {
        let goes = surplus > 0 && shared.is_over(at);
        surplus -= usize::from(goes);
        !goes
    });
}
