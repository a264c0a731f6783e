//! Shared reservations of a site, which belong to no job: an operator asks for them, and jobs that
//! name them run on their processors.
//!
//! Each is a reservation at the site, under a tag of ours that names no job
//! ([`ReservationTag::shared`](crate::reservation::ReservationTag::shared)). The next call to the site
//! follows from the record alone, so that the same call is made again after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::{KeyName, ReservationName, SiteName};
use crate::reservation::{
    ReservationOutcome, ReservationRequest, ReservationSerial, StartWindow, TimeSpan,
};
use crate::resources::Resources;
use crate::site::joint_reservation::{JointPartState, JointReservationState};
use crate::site::site_command::SiteRejection;
use crate::site::site_event::SiteEventKind;
use crate::site::site_state::SiteRecord;
use crate::units::{DurationMs, Timestamp};

/// The most shared reservations of a site that have not ended.
pub const MAX_SHARED: usize = 32;
/// The most that have ended and are kept to be shown; the oldest goes first.
pub const ENDED_SHARED: usize = 16;
/// The most keys that one may be for.
pub const MAX_ALLOWED: usize = 256;

/// The terms of a shared reservation, as an operator asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedReservationTerms {
    /// The name by which jobs use it.
    pub name: ReservationName,
    /// Keys whose jobs may use it; none: every key's.
    pub allowed: BTreeSet<KeyName>,
    pub resources: Resources,
    /// The window for the beginning of the reserved span.
    pub window: StartWindow,
    /// Time from the beginning of the reserved span to the start, so that wrappers come to their
    /// gates.
    pub lead: DurationMs,
    /// From the start to the end.
    pub length: DurationMs,
    /// Time from the end to the end of the reserved span.
    pub margin: DurationMs,
    /// All sites that are to reserve, with the resources of each, if there are several: all of them
    /// do, or none.
    pub parts: BTreeMap<SiteName, Resources>,
    /// The largest distance between the beginnings at several sites.
    pub tolerance: DurationMs,
}

/// A shared reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedReservation {
    /// The terms; their length includes extensions.
    pub wish: SharedReservationTerms,
    /// The number among those of its site, by which the site knows it; never used again.
    pub serial: ReservationSerial,
    /// The key that asked for it.
    pub by: KeyName,
    /// The beginning of its reserved span, once the site has named it.
    pub granted: Option<Timestamp>,
    pub stage: SharedReservationStage,
    /// True if a job has used it, or waits to.
    pub used: bool,
    /// The joint reservation that it is a part of, if there are several.
    pub together: Option<JointPartState>,
    /// The number of its extensions, as [`together`](crate::site::joint_reservation) counts them.
    pub extension: u32,
}

/// The state of a shared reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedReservationStage {
    /// It is requested from the site.
    Asked,
    /// The site offers it, and gets a confirmation.
    Granted,
    /// The site has confirmed it.
    Confirmed,
    /// The site has confirmed it, and is asked to extend it.
    Extending {
        /// From the start to the new end.
        length: DurationMs,
    },
    /// It is being cancelled.
    Releasing(SharedReservationEnd),
    /// Nothing of it is left at the site.
    Ended(SharedReservationEnd),
}

/// The reason why a shared reservation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedReservationEnd {
    /// The site refused.
    Refused {
        /// The time from which it may grant the same, if it said so.
        next: Option<Timestamp>,
    },
    /// The site granted another start than was asked for.
    WrongStart,
    /// The site has lost it.
    Lost,
    /// No job used it for too long after its start: it was cancelled.
    NoShow,
    /// It was cancelled.
    Cancelled {
        /// The key that asked.
        by: KeyName,
    },
    /// Another site could not at that time: all are asked for a later one.
    AskedAnew,
}

/// A call to a site about a shared reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedReservationCall {
    /// Requests it, if it is not offered yet.
    Request,
    /// Confirms it.
    Confirm,
    /// Extends it to this length.
    Extend(DurationMs),
    /// Cancels it.
    Release,
}

impl SharedReservationCall {
    pub const NAMES: [&str; 4] = [
        "RequestShared",
        "ConfirmShared",
        "ExtendShared",
        "ReleaseShared",
    ];

    /// The name among the effects that crash points are named after.
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
    /// Returns the start for its users; as asked for until it is granted.
    pub fn start(&self) -> Timestamp {
        self.granted.unwrap_or(self.wish.window.earliest) + self.wish.lead
    }

    /// Returns the end for its users.
    pub fn end(&self) -> Timestamp {
        self.start() + self.wish.length
    }

    /// Returns the span that the site keeps for it, once it has granted it.
    pub fn reserved_span(&self) -> Option<TimeSpan> {
        self.granted
            .map(|from| TimeSpan::new(from, from + self.reserved_length(self.wish.length)))
    }

    /// Returns true if jobs can run in it, now or later.
    pub fn is_kept(&self, now: Timestamp) -> bool {
        let kept = matches!(
            self.stage,
            SharedReservationStage::Confirmed | SharedReservationStage::Extending { .. }
        );
        kept && self.joint_state() == JointReservationState::Kept && !self.is_over(now)
    }

    /// Returns true if no job can run in it any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        matches!(self.stage, SharedReservationStage::Ended(_))
            || self.reserved_span().is_some_and(|l| l.to <= now)
    }

    /// Returns true if something of it may be at the site, and must not be taken for an orphan.
    pub fn may_exist_at_site(&self) -> bool {
        !matches!(self.stage, SharedReservationStage::Ended(_))
    }

    /// Returns true if jobs of this key may use it.
    pub fn allows_key(&self, key: &KeyName) -> bool {
        let allowed = &self.wish.allowed;
        allowed.is_empty() || allowed.contains(key)
    }

    /// Returns the time when it is cancelled unless a job has used it by then: this long after its
    /// start.
    pub fn no_show_time(&self, patience: Option<DurationMs>) -> Option<Timestamp> {
        let waits = self.stage == SharedReservationStage::Confirmed && !self.used;
        patience
            .filter(|_| waits)
            .map(|patience| self.start() + patience)
    }

    /// Returns why no job of this key that waits for it will run in it, if none will. Another
    /// reservation may have taken its name since the job was submitted, and be for other keys.
    pub fn exclusion_reason(&self, key: &KeyName, now: Timestamp) -> Option<&'static str> {
        if self.is_over(now) || matches!(self.stage, SharedReservationStage::Releasing(_)) {
            Some("has ended")
        } else {
            (!self.allows_key(key)).then_some("is not for its key")
        }
    }

    /// Returns the next call to the site.
    pub fn due_call(&self) -> Option<SharedReservationCall> {
        match self.stage {
            SharedReservationStage::Asked => Some(SharedReservationCall::Request),
            // Not before every site has offered its part.
            SharedReservationStage::Granted
                if self.joint_state() == JointReservationState::Looking =>
            {
                None
            }
            SharedReservationStage::Granted => Some(SharedReservationCall::Confirm),
            SharedReservationStage::Extending { length } => {
                Some(SharedReservationCall::Extend(length))
            }
            SharedReservationStage::Releasing(_) => Some(SharedReservationCall::Release),
            SharedReservationStage::Confirmed | SharedReservationStage::Ended(_) => None,
        }
    }

    /// Builds the request to the site for this length.
    pub fn build_request(&self, length: DurationMs) -> ReservationRequest {
        ReservationRequest {
            resources: self.wish.resources.clone(),
            length: self.reserved_length(length),
            window: self
                .granted
                .map_or(self.wish.window, StartWindow::single_start),
            flexible: false,
        }
    }

    fn reserved_length(&self, length: DurationMs) -> DurationMs {
        self.wish.lead + length + self.wish.margin
    }

    /// Applies the answer to its call.
    fn apply_answer(&mut self, outcome: ReservationOutcome) {
        let before = std::mem::replace(
            &mut self.stage,
            SharedReservationStage::Ended(SharedReservationEnd::Lost),
        );
        self.stage = match (before, outcome) {
            (SharedReservationStage::Asked, ReservationOutcome::Granted { start }) => {
                self.granted = Some(start);
                if self.wish.window.contains(start) {
                    SharedReservationStage::Granted
                } else {
                    SharedReservationStage::Releasing(SharedReservationEnd::WrongStart)
                }
            }
            (
                SharedReservationStage::Asked,
                ReservationOutcome::Refused { next } | ReservationOutcome::Lost { next },
            ) => SharedReservationStage::Ended(SharedReservationEnd::Refused { next }),
            (SharedReservationStage::Granted, ReservationOutcome::Done) => {
                SharedReservationStage::Confirmed
            }
            // A reservation that moved is of no use to users that were given the old start.
            (SharedReservationStage::Extending { .. }, ReservationOutcome::Granted { start })
                if self.granted != Some(start) =>
            {
                SharedReservationStage::Releasing(SharedReservationEnd::WrongStart)
            }
            (SharedReservationStage::Extending { length }, ReservationOutcome::Granted { .. }) => {
                self.wish.length = length;
                SharedReservationStage::Confirmed
            }
            // The site has less than it had agreed to, and the rest cannot be got back.
            (SharedReservationStage::Extending { length }, ReservationOutcome::Refused { .. })
                if length == self.wish.length =>
            {
                SharedReservationStage::Releasing(SharedReservationEnd::Lost)
            }
            (SharedReservationStage::Extending { .. }, ReservationOutcome::Refused { .. }) => {
                SharedReservationStage::Confirmed
            }
            (SharedReservationStage::Releasing(why) | SharedReservationStage::Ended(why), _) => {
                SharedReservationStage::Ended(why)
            }
            (_, ReservationOutcome::Lost { .. } | ReservationOutcome::Refused { .. }) => {
                SharedReservationStage::Ended(SharedReservationEnd::Lost)
            }
            (stage, _) => stage,
        };
    }
}

impl SiteRecord {
    /// Finds the shared reservation with this name that has not ended, else the last that has.
    pub fn shared_reservation_named(&self, name: &ReservationName) -> Option<&SharedReservation> {
        self.shared.iter().rfind(|shared| shared.wish.name == *name)
    }

    /// Finds the shared reservation with this number.
    pub fn shared_reservation_numbered(
        &self,
        serial: ReservationSerial,
    ) -> Option<&SharedReservation> {
        self.shared.iter().find(|shared| shared.serial == serial)
    }

    /// Returns the next call to the site about its shared reservations.
    pub fn next_shared_call(&self) -> Option<(&SharedReservation, SharedReservationCall)> {
        self.shared
            .iter()
            .find_map(|shared| Some((shared, shared.due_call()?)))
    }

    /// Finds the one of this name that is not over.
    pub(super) fn live_serial(
        &self,
        name: &ReservationName,
        now: Timestamp,
    ) -> Result<ReservationSerial, SiteRejection> {
        let shared = self
            .shared_reservation_named(name)
            .filter(|shared| !shared.is_over(now));
        shared
            .map(|shared| shared.serial)
            .ok_or(SiteRejection::NoSuchReservation)
    }
}

/// Decides on a new one that an operator asks for.
pub(super) fn decide_request(
    record: &SiteRecord,
    wish: SharedReservationTerms,
    by: KeyName,
    now: Timestamp,
) -> Result<SiteEventKind, SiteRejection> {
    if record.live_serial(&wish.name, now).is_ok() {
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
    let serial = ReservationSerial(record.last_shared.0 + 1);
    let together = (!wish.parts.is_empty()).then_some(JointPartState::new(serial, 0));
    Ok(SiteEventKind::SharedWanted {
        serial,
        wish: Arc::new(wish),
        by,
        together,
    })
}

/// Decides on a later end that an operator asks for. An earlier one is refused: a job that runs in
/// it may have been let in to run up to its end.
pub(super) fn decide_extension(
    record: &SiteRecord,
    name: &ReservationName,
    until: Timestamp,
    now: Timestamp,
    by: KeyName,
) -> Result<SiteEventKind, SiteRejection> {
    let serial = record.live_serial(name, now)?;
    let shared = record
        .shared_reservation_numbered(serial)
        .ok_or(SiteRejection::NoSuchReservation)?;
    if shared.stage != SharedReservationStage::Confirmed
        || shared.joint_state() != JointReservationState::Kept
    {
        return Err(SiteRejection::ReservationBusy);
    }
    if until <= shared.end() {
        return Err(SiteRejection::EndsLater);
    }
    let number = shared.next_extension_number();
    Ok(SiteEventKind::SharedExtensionWanted {
        serial,
        length: until.since(shared.start()),
        number,
        by,
    })
}

/// Decides on a cancellation that an operator asks for.
pub(super) fn decide_cancellation(
    record: &SiteRecord,
    name: &ReservationName,
    now: Timestamp,
    by: KeyName,
) -> Result<SiteEventKind, SiteRejection> {
    let serial = record.live_serial(name, now)?;
    match record
        .shared_reservation_numbered(serial)
        .map(|shared| &shared.stage)
    {
        Some(SharedReservationStage::Releasing(_)) | None => Err(SiteRejection::AlreadySo),
        Some(_) => Ok(SiteEventKind::SharedCancelled { serial, by }),
    }
}

/// Decides on an answer of the site, or on the knowledge that it did not do what it was asked.
pub(super) fn decide_answer(
    record: &SiteRecord,
    serial: ReservationSerial,
    asked: SharedReservationCall,
    outcome: ReservationOutcome,
) -> Vec<SiteEventKind> {
    let waits = record
        .shared_reservation_numbered(serial)
        .and_then(SharedReservation::due_call)
        == Some(asked);
    waits
        .then_some(SiteEventKind::SharedAnswered { serial, outcome })
        .into_iter()
        .collect()
}

/// Decides on reservations that the site has lost, or has for another time, as far as it was to
/// keep them.
pub(super) fn decide_missing(
    record: &SiteRecord,
    gone: &BTreeSet<ReservationSerial>,
    changed: &BTreeSet<ReservationSerial>,
    now: Timestamp,
) -> Vec<SiteEventKind> {
    let kept = record
        .shared
        .iter()
        .filter(|shared| shared.stage == SharedReservationStage::Confirmed);
    let kept = kept
        .filter(|shared| !shared.is_over(now))
        .map(|shared| shared.serial);
    let happened = kept.filter_map(|serial| {
        if gone.contains(&serial) {
            Some(SiteEventKind::SharedLost { serial })
        } else {
            changed
                .contains(&serial)
                .then_some(SiteEventKind::SharedChanged { serial })
        }
    });
    happened.collect()
}

/// Returns the reservation that the site was to keep, and that an event shows to be lost.
pub(super) fn reservation_lost_by<'r>(
    record: &'r SiteRecord,
    what: &SiteEventKind,
    now: Timestamp,
) -> Option<&'r SharedReservation> {
    let (serial, outcome) = match what {
        SiteEventKind::SharedLost { serial } => (serial, ReservationOutcome::Lost { next: None }),
        SiteEventKind::SharedAnswered { serial, outcome } => (serial, *outcome),
        _ => return None,
    };
    let before =
        record
            .shared_reservation_numbered(*serial)
            .filter(|shared: &&SharedReservation| {
                let kept = matches!(
                    shared.stage,
                    SharedReservationStage::Confirmed | SharedReservationStage::Extending { .. }
                );
                kept && !shared.is_over(now)
            })?;
    let mut after = before.clone();
    after.apply_answer(outcome);
    matches!(
        after.end_reason(),
        Some(SharedReservationEnd::Lost | SharedReservationEnd::WrongStart)
    )
    .then_some(before)
}

/// Decides if one is cancelled whose time without use is over, after its use was checked.
pub(super) fn decide_unused(
    record: &SiteRecord,
    serial: ReservationSerial,
    used: bool,
    patience: Option<DurationMs>,
    now: Timestamp,
) -> Option<SiteEventKind> {
    let shared = record.shared_reservation_numbered(serial)?;
    let due = shared
        .no_show_time(patience)
        .filter(|due| *due <= now && !shared.is_over(now));
    due.map(|_| {
        if used {
            SiteEventKind::SharedUsed { serial }
        } else {
            SiteEventKind::SharedUnused { serial }
        }
    })
}

/// Applies an event of a shared reservation; others change nothing.
pub(super) fn evolve_shared(record: &mut SiteRecord, what: &SiteEventKind, at: Timestamp) {
    match what {
        SiteEventKind::SharedWanted {
            serial,
            wish,
            by,
            together,
        } => {
            drop_ended(record, &wish.name, at);
            record.last_shared = record.last_shared.max(*serial);
            record.shared.push(SharedReservation {
                wish: (**wish).clone(),
                serial: *serial,
                by: by.clone(),
                granted: None,
                stage: SharedReservationStage::Asked,
                used: false,
                together: *together,
                extension: 0,
            });
        }
        SiteEventKind::SharedExtensionWanted {
            serial,
            length,
            number,
            ..
        } => {
            change_shared(record, *serial, &|shared| {
                shared.stage = SharedReservationStage::Extending { length: *length };
                shared.extension = *number;
            });
        }
        SiteEventKind::SharedAllowed {
            serial, allowed, ..
        } => {
            change_shared(record, *serial, &|shared| {
                shared.wish.allowed.clone_from(allowed)
            });
        }
        SiteEventKind::SharedSettled { serial, accord } => {
            change_shared(record, *serial, &|shared| {
                shared.together = shared.together.map(|it| JointPartState {
                    accord: *accord,
                    ..it
                });
            })
        }
        SiteEventKind::SharedLeft { serial, why } => {
            change_shared(record, *serial, &|shared| {
                shared.stage = SharedReservationStage::Releasing(why.clone())
            });
        }
        SiteEventKind::SharedCancelled { serial, by } => {
            change_shared(record, *serial, &|shared| {
                shared.stage = SharedReservationStage::Releasing(SharedReservationEnd::Cancelled {
                    by: by.clone(),
                });
            })
        }
        SiteEventKind::SharedAnswered { serial, outcome } => {
            change_shared(record, *serial, &|shared| shared.apply_answer(*outcome));
        }
        SiteEventKind::SharedUsed { serial } => {
            change_shared(record, *serial, &|shared| shared.used = true)
        }
        SiteEventKind::SharedUnused { serial } => change_shared(record, *serial, &|shared| {
            shared.stage = SharedReservationStage::Releasing(SharedReservationEnd::NoShow);
        }),
        // The next call asks for what it should have.
        SiteEventKind::SharedChanged { serial } => change_shared(record, *serial, &|shared| {
            shared.stage = SharedReservationStage::Extending {
                length: shared.wish.length,
            };
        }),
        SiteEventKind::SharedLost { serial } => {
            change_shared(record, *serial, &|shared| {
                shared.stage = SharedReservationStage::Ended(SharedReservationEnd::Lost)
            });
        }
        _ => {}
    }
}

fn change_shared(
    record: &mut SiteRecord,
    serial: ReservationSerial,
    change: &dyn Fn(&mut SharedReservation),
) {
    record
        .shared
        .iter_mut()
        .filter(|shared| shared.serial == serial)
        .for_each(change);
}

/// Makes room by dropping reservations that have ended: of the same name at once, of others when
/// there are too many.
fn drop_ended(record: &mut SiteRecord, name: &ReservationName, at: Timestamp) {
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
