//! Joint reservations: shared reservations at several sites. All of them reserve for about the same
//! time, or none does.
//!
//! Each site's record has a part. The part at the first site, by name, is the root. It alone
//! decides if there is a reservation, and the others follow what is durable there. The sites are
//! called one after the other, in the order of their names, so that two reservations of the same
//! sites never wait for each other. The next move of a part follows from the records alone, and
//! goes to its own site's record as a [`JointReservationStep`]: an actor that was killed takes the
//! same step again, and nothing is left behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{KeyName, SiteName};
use crate::reservation::{ReservationSerial, StartWindow};
use crate::site::shared_reservation::{
    SharedReservation, SharedReservationEnd, SharedReservationStage, SharedReservationTerms,
};
use crate::site::site_event::SiteEventKind;
use crate::site::site_state::SiteRecord;
use crate::units::{DurationMs, Timestamp};

/// The most starts that are tried until all sites agree.
pub const MAX_TRIES: u32 = 32;
/// The most sites of a joint reservation.
pub const MAX_PARTS: usize = 32;

/// The knowledge that the parts of one joint reservation have of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JointPartState {
    /// The number of the root at its site: each start that is tried has another one.
    pub root: ReservationSerial,
    /// Starts that were tried before.
    pub tries: u32,
    /// The state of all of them, as this part knows it.
    pub accord: JointReservationState,
}

/// The state of the parts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JointReservationState {
    /// Sites are asked; if one refuses, all is cancelled.
    Looking,
    /// All offer their parts, and get a confirmation.
    Agreed,
    /// All have confirmed them. If one loses its part from now on, the others stay as they are.
    Kept,
}

/// The next step of a site's record that follows from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JointReservationStep {
    /// Requests its part.
    Join {
        /// The terms of the root for this site.
        wish: Box<SharedReservationTerms>,
        /// The root's number.
        root: ReservationSerial,
        /// The key that asked for the reservation.
        by: KeyName,
    },
    /// Requests a later start at all sites.
    Again {
        /// The root's number up to now.
        serial: ReservationSerial,
        /// The earliest start.
        from: Timestamp,
    },
    /// Notes a new state of all parts.
    Settle {
        /// The number of this site's part.
        serial: ReservationSerial,
        /// The new state.
        accord: JointReservationState,
    },
    /// Cancels its part.
    Leave {
        serial: ReservationSerial,
        why: SharedReservationEnd,
    },
    /// Extends its part, as another is extended.
    Extend {
        serial: ReservationSerial,
        /// From its start to its end.
        length: DurationMs,
        /// The number of the extension.
        number: u32,
        /// The key that asked for it.
        by: KeyName,
    },
    /// Allows the same keys for its part as the first part has.
    Allow {
        serial: ReservationSerial,
        allowed: BTreeSet<KeyName>,
        /// The key that asked for the reservation.
        by: KeyName,
    },
}

impl JointPartState {
    /// Starts with a root of this number, after so many tries.
    pub fn new(root: ReservationSerial, tries: u32) -> Self {
        Self {
            root,
            tries,
            accord: JointReservationState::Looking,
        }
    }
}

impl SharedReservation {
    /// The state of its parts; one that has none counts as [`JointReservationState::Kept`].
    pub fn joint_state(&self) -> JointReservationState {
        self.together
            .map_or(JointReservationState::Kept, |together| together.accord)
    }

    /// Returns the number of an extension that an operator asks for. It is odd; the even one after
    /// it takes it back.
    pub(super) fn next_extension_number(&self) -> u32 {
        (self.extension + 1) | 1
    }

    fn home_site(&self) -> Option<&SiteName> {
        self.wish.parts.keys().next()
    }

    /// Returns true if both are parts of one reservation, for the same start that is tried.
    fn belongs_with(&self, other: &Self) -> bool {
        self.together.is_some()
            && self.together.map(|together| together.root)
                == other.together.map(|together| together.root)
            && self.home_site() == other.home_site()
            && self.wish.name == other.wish.name
    }

    /// The reason why it is cancelled or has ended, if so.
    pub fn end_reason(&self) -> Option<&SharedReservationEnd> {
        match &self.stage {
            SharedReservationStage::Releasing(why) | SharedReservationStage::Ended(why) => {
                Some(why)
            }
            _ => None,
        }
    }

    fn is_live(&self, now: Timestamp) -> bool {
        self.end_reason().is_none() && !self.is_over(now)
    }
}

/// The lookup of a site's record by name.
pub type SiteRecordLookup<'f, 'v> = &'f dyn Fn(&SiteName) -> Option<&'v SiteRecord>;

/// All known parts of one reservation, by site; a reservation at one site has one.
#[derive(Debug, Clone)]
pub struct JointReservation<'v>(Vec<(&'v SiteName, &'v SharedReservation)>);

impl<'v> JointReservation<'v> {
    /// Collects the parts of the reservation that this one belongs to.
    pub fn around_part(
        site: &'v SiteName,
        shared: &'v SharedReservation,
        find: SiteRecordLookup<'_, 'v>,
    ) -> Self {
        if shared.together.is_none() {
            return Self(vec![(site, shared)]);
        }
        let parts = shared.wish.parts.keys().filter_map(|site| {
            let record = find(site)?;
            let part = record
                .shared
                .iter()
                .rfind(|part| part.belongs_with(shared))?;
            Some((&record.site, part))
        });
        Self(parts.collect())
    }

    pub fn parts(&self) -> &[(&'v SiteName, &'v SharedReservation)] {
        &self.0
    }

    /// Returns the part that commands go to: the first that has not ended, else the first.
    pub fn leading_part(&self, now: Timestamp) -> Option<(&'v SiteName, &'v SharedReservation)> {
        let live = self.0.iter().find(|(_, part)| part.is_live(now));
        live.or(self.0.first()).copied()
    }

    /// Lists the parts in which jobs can run, now or later.
    pub fn usable_parts(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = (&'v SiteName, &'v SharedReservation)> {
        self.0
            .iter()
            .copied()
            .filter(move |(_, part)| part.is_kept(now))
    }

    /// Lists those that have not ended, else all.
    fn relevant_parts(&self, now: Timestamp) -> impl Iterator<Item = &'v SharedReservation> {
        let any = self.0.iter().any(|(_, part)| part.is_live(now));
        self.0
            .iter()
            .map(|(_, part)| *part)
            .filter(move |part| !any || part.is_live(now))
    }

    /// Returns the time when all parts that are left have begun.
    pub fn start(&self, now: Timestamp) -> Timestamp {
        self.relevant_parts(now)
            .map(SharedReservation::start)
            .max()
            .unwrap_or_default()
    }

    /// When the first of the parts that are left ends.
    pub fn end(&self, now: Timestamp) -> Timestamp {
        // Each is longer by the distance that their starts may have.
        let shortest = self.relevant_parts(now).map(|part| part.wish.length).min();
        self.start(now) + shortest.unwrap_or_default()
    }

    /// Returns true if a site is being asked to extend its part, or will be.
    pub fn is_extending(&self, now: Timestamp) -> bool {
        let Some((_, leader)) = self.leading_part(now) else {
            return false;
        };
        self.usable_parts(now).any(|(_, part)| {
            let extends =
                matches!(part.stage, SharedReservationStage::Extending { .. }) && part.is_kept(now);
            let settled = leader.extension % 2 == 0 && part.extension >= leader.extension;
            let lags = part.wish.length != leader.wish.length && !settled;
            extends || lags
        })
    }
}

/// Returns the next step of a site's record that follows from the durable records of others.
pub fn next_step<'v>(
    own: &SiteRecord,
    all: impl Iterator<Item = &'v SiteRecord>,
    find: SiteRecordLookup<'_, 'v>,
    now: Timestamp,
) -> Option<JointReservationStep> {
    let parts = own
        .shared
        .iter()
        .filter(|part| part.together.is_some() && part.is_live(now));
    let mut steps = parts.filter_map(|part| {
        let others = PartAmongOthers::of_part(own, part, find);
        match part.joint_state() {
            JointReservationState::Kept => others.follow_changes(now),
            _ if part.home_site() == Some(&own.site) => others.lead_as_root(),
            _ => others.follow_root(),
        }
    });
    steps.next().or_else(|| {
        all.filter(|record| !record.shared.is_empty())
            .find_map(|record| {
                record
                    .shared
                    .iter()
                    .find_map(|root| join_step(own, record, root, find))
            })
    })
}

/// A part of a site, and the others of its reservation.
struct PartAmongOthers<'p, 'v> {
    site: &'p SiteName,
    part: &'p SharedReservation,
    others: Vec<(&'v SiteName, &'v SharedReservation)>,
}

impl<'p, 'v> PartAmongOthers<'p, 'v> {
    fn of_part(
        own: &'p SiteRecord,
        part: &'p SharedReservation,
        find: SiteRecordLookup<'_, 'v>,
    ) -> Self {
        let elsewhere = part.wish.parts.keys().filter(|site| **site != own.site);
        let others = elsewhere.filter_map(|site| {
            let record = find(site)?;
            let other = record
                .shared
                .iter()
                .rfind(|other| other.belongs_with(part))?;
            Some((&record.site, other))
        });
        Self {
            site: &own.site,
            part,
            others: others.collect(),
        }
    }

    fn leave_step(&self, why: SharedReservationEnd) -> Option<JointReservationStep> {
        Some(JointReservationStep::Leave {
            serial: self.part.serial,
            why,
        })
    }

    fn settle_step(&self, accord: JointReservationState) -> Option<JointReservationStep> {
        let serial = self.part.serial;
        (self.part.joint_state() != accord)
            .then_some(JointReservationStep::Settle { serial, accord })
    }

    /// Moves the root on when all have come as far, and gives all up when one has not.
    fn lead_as_root(&self) -> Option<JointReservationStep> {
        let ended = self.others.iter().find_map(|(_, other)| other.end_reason());
        if let Some(why) = ended {
            return self.after_ended_part(why);
        }
        match self.part.joint_state() {
            JointReservationState::Looking
                if self.are_all_at_stage(&SharedReservationStage::Granted) =>
            {
                self.settle_step(JointReservationState::Agreed)
            }
            JointReservationState::Agreed
                if self.are_all_at_stage(&SharedReservationStage::Confirmed) =>
            {
                self.settle_step(JointReservationState::Kept)
            }
            _ => None,
        }
    }

    /// True if all parts are known and at this stage.
    fn are_all_at_stage(&self, stage: &SharedReservationStage) -> bool {
        self.others.len() + 1 == self.part.wish.parts.len()
            && self.part.stage == *stage
            && self.others.iter().all(|(_, other)| other.stage == *stage)
    }

    /// Reacts to a part that has ended: perhaps all sites can reserve later.
    fn after_ended_part(&self, why: &SharedReservationEnd) -> Option<JointReservationStep> {
        let SharedReservationEnd::Refused { next: Some(next) } = why else {
            return self.leave_step(why.clone());
        };
        let part = self.part;
        let tries = self.part.together.map_or(0, |together| together.tries);
        let granted = part.granted.unwrap_or(part.wish.window.earliest);
        let from = (*next - part.wish.tolerance).max(granted + DurationMs(1));
        let may = part.joint_state() == JointReservationState::Looking && tries + 1 < MAX_TRIES;
        if may && from <= part.wish.window.latest {
            Some(JointReservationStep::Again {
                serial: part.serial,
                from,
            })
        } else {
            self.leave_step(why.clone())
        }
    }

    /// Follows the root, in a part that is not the root.
    fn follow_root(&self) -> Option<JointReservationStep> {
        let root = self
            .others
            .iter()
            .find(|(site, _)| self.part.home_site() == Some(site));
        let Some((_, root)) = root else {
            return self.leave_step(SharedReservationEnd::Lost);
        };
        match (root.joint_state(), root.end_reason()) {
            (JointReservationState::Kept, _) => self.settle_step(JointReservationState::Kept),
            (_, Some(why)) => self.leave_step(why.clone()),
            (accord, None) => self.settle_step(accord),
        }
    }

    /// Applies to this part what was asked for another: a cancellation, an extension, other keys.
    fn follow_changes(&self, now: Timestamp) -> Option<JointReservationStep> {
        let mut ends = self
            .others
            .iter()
            .filter_map(|(_, other)| other.end_reason());
        if let Some(why) = ends.find(|why: &&SharedReservationEnd| {
            matches!(
                why,
                SharedReservationEnd::Cancelled { .. } | SharedReservationEnd::NoShow
            )
        }) {
            return self.leave_step(why.clone());
        }
        let part = self.part;
        let mut live = self.others.iter().filter(|(_, other)| other.is_live(now));
        let before = live.clone().find(|(site, _)| *site < self.site);
        let Some((_, leader)) = before else {
            let shorter = live.find(|(_, other)| {
                let asked = other.extension == part.extension && other.stage == part.stage;
                asked && other.wish.length != part.wish.length
            });
            // A site refused the extension: no part is kept longer than all.
            let (_, shorter) = shorter.filter(|_| part.extension % 2 == 1)?;
            return self.extend_step(shorter.wish.length, part.extension + 1, &part.by);
        };
        if leader.wish.allowed != part.wish.allowed {
            let serial = part.serial;
            let allowed = leader.wish.allowed.clone();
            return Some(JointReservationStep::Allow {
                serial,
                allowed,
                by: leader.by.clone(),
            });
        }
        let lags = leader.extension > part.extension && leader.wish.length != part.wish.length;
        if lags && leader.stage == SharedReservationStage::Confirmed {
            self.extend_step(leader.wish.length, leader.extension, &leader.by)
        } else {
            None
        }
    }

    fn extend_step(
        &self,
        length: DurationMs,
        number: u32,
        by: &KeyName,
    ) -> Option<JointReservationStep> {
        let serial = self.part.serial;
        let by = by.clone();
        let can = self.part.stage == SharedReservationStage::Confirmed;
        can.then_some(JointReservationStep::Extend {
            serial,
            length,
            number,
            by,
        })
    }
}

/// Requests a site's part once all sites before it offer theirs.
fn join_step<'v>(
    own: &SiteRecord,
    home: &'v SiteRecord,
    root: &'v SharedReservation,
    find: SiteRecordLookup<'_, 'v>,
) -> Option<JointReservationStep> {
    let together = root.together.filter(|it| it.root == root.serial)?;
    let resources = root.wish.parts.get(&own.site)?;
    let is_root = root.home_site() == Some(&home.site) && home.site != own.site;
    if !is_root
        || root.stage != SharedReservationStage::Granted
        || root.joint_state() != JointReservationState::Looking
        || own.shared.iter().any(|part| part.belongs_with(root))
    {
        return None;
    }
    let group = JointReservation::around_part(&home.site, root, find);
    let mut before = root.wish.parts.keys().take_while(|site| **site != own.site);
    let start = root.granted.filter(|_| {
        before.all(|site: &SiteName| {
            let part = group.parts().iter().find(|(at, _)| *at == site);
            part.is_some_and(|(_, part)| part.stage == SharedReservationStage::Granted)
        })
    })?;
    let latest = (start + root.wish.tolerance).min(root.wish.window.latest);
    let window = StartWindow::new(start, latest);
    let wish = SharedReservationTerms {
        resources: resources.clone(),
        window,
        ..root.wish.clone()
    };
    Some(JointReservationStep::Join {
        wish: Box::new(wish),
        root: together.root,
        by: root.by.clone(),
    })
}

/// Returns the events of a step, if it still fits.
pub(super) fn events_of_step(
    record: &SiteRecord,
    step: JointReservationStep,
) -> Vec<SiteEventKind> {
    let next = ReservationSerial(record.last_shared.0 + 1);
    let wanted = |wish: SharedReservationTerms, by: KeyName, together: JointPartState| {
        SiteEventKind::SharedWanted {
            serial: next,
            wish: Arc::new(wish),
            by,
            together: Some(together),
        }
    };
    match step {
        JointReservationStep::Join { wish, root, by } => {
            vec![wanted(*wish, by, JointPartState::new(root, 0))]
        }
        JointReservationStep::Again { serial, from } => {
            let Some(part) = live_part(record, serial) else {
                return Vec::new();
            };
            let tries = part.together.map_or(0, |together| together.tries) + 1;
            let window = StartWindow::new(from, part.wish.window.latest);
            let wish = SharedReservationTerms {
                window,
                ..part.wish.clone()
            };
            let again = wanted(wish, part.by.clone(), JointPartState::new(next, tries));
            vec![
                SiteEventKind::SharedLeft {
                    serial,
                    why: SharedReservationEnd::AskedAnew,
                },
                again,
            ]
        }
        JointReservationStep::Settle { serial, accord } => live_part(record, serial)
            .map(|_| SiteEventKind::SharedSettled { serial, accord })
            .into_iter()
            .collect(),
        JointReservationStep::Leave { serial, why } => live_part(record, serial)
            .map(|_| SiteEventKind::SharedLeft { serial, why })
            .into_iter()
            .collect(),
        JointReservationStep::Extend {
            serial,
            length,
            number,
            by,
        } => {
            let can = live_part(record, serial)
                .filter(|part| part.stage == SharedReservationStage::Confirmed);
            let what = SiteEventKind::SharedExtensionWanted {
                serial,
                length,
                number,
                by,
            };
            can.map(|_| what).into_iter().collect()
        }
        JointReservationStep::Allow {
            serial,
            allowed,
            by,
        } => {
            let what = SiteEventKind::SharedAllowed {
                serial,
                allowed,
                by,
            };
            live_part(record, serial)
                .map(|_| what)
                .into_iter()
                .collect()
        }
    }
}

fn live_part(record: &SiteRecord, serial: ReservationSerial) -> Option<&SharedReservation> {
    record
        .shared_reservation_numbered(serial)
        .filter(|part| part.end_reason().is_none())
}
