//! Messages about a reserved start to receivers who want to know of its job: that it comes, and
//! that it was rescheduled. Messages that are owed are in the record until each receiver got them.

use std::collections::BTreeSet;

use super::JobReservations;
use crate::ids::TargetName;
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{Job, JobPhase};
use crate::units::Timestamp;

/// Most messages that are owed at a time: beyond that the oldest is dropped.
const OWED_MAX: usize = 8;

/// The kind of a message about a reserved start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StartNoticeKind {
    /// The start comes soon.
    StartsSoon,
    /// The job was rescheduled to another start.
    StartMoved,
}

impl StartNoticeKind {
    /// Returns its name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            StartNoticeKind::StartsSoon => "start-soon",
            StartNoticeKind::StartMoved => "start-moved",
        }
    }
}

/// A message that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartNotice {
    /// The number of the message; never used again for this job.
    pub id: u32,
    pub kind: StartNoticeKind,
    /// The time since when it is owed.
    pub at: Timestamp,
    /// The reserved start.
    pub start: Timestamp,
    /// Receivers who got it, or could not be reached.
    pub told: BTreeSet<TargetName>,
}

/// The messages about the reserved starts of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartNotices {
    /// The last start that was announced.
    pub announced: Option<Timestamp>,
    /// Messages that are to be sent.
    pub owed: Vec<StartNotice>,
    /// The last number of a message.
    pub last: u32,
}

impl StartNotices {
    fn push_notice(&mut self, kind: StartNoticeKind, start: Timestamp, at: Timestamp) {
        self.last += 1;
        self.owed.push(StartNotice {
            id: self.last,
            kind,
            at,
            start,
            told: BTreeSet::new(),
        });
        if self.owed.len() > OWED_MAX {
            self.owed.remove(0);
        }
    }
}

impl Job {
    /// Returns the time at which its reserved start is announced; `None` if it was announced, or
    /// was reserved later than that.
    pub fn announcement_time(&self, parameters: &JobParameters) -> Option<Timestamp> {
        let JobPhase::Placed { at: placed_at, .. } = self.phase else {
            return None;
        };
        let reservation = self
            .reservation
            .as_deref()
            .filter(|reservation| !reservation.spent)?;
        let start = self.reserved_start()?;
        let at = start - parameters.reservation_notice;
        (reservation.notices.announced != Some(start) && at > placed_at).then_some(at)
    }

    /// Iterates over the messages that are still to be sent before it ends, with their receivers.
    pub fn unsent_notices(&self) -> impl Iterator<Item = (&StartNotice, &TargetName)> {
        let reservation = self.reservation.as_deref().filter(|_| !self.is_final());
        let owed = reservation
            .into_iter()
            .flat_map(|reservation| &reservation.notices.owed);
        owed.flat_map(|notice| {
            self.spec
                .run
                .notify
                .difference(&notice.told)
                .map(move |target| (notice, target))
        })
    }

    /// Returns true if a message about it is still to be sent.
    pub fn has_unsent_messages(&self) -> bool {
        self.pending_end_receivers().next().is_some() || self.unsent_notices().next().is_some()
    }

    pub(in crate::job) fn owe_notice(&mut self, kind: StartNoticeKind, at: Timestamp) {
        let held = self
            .reservation
            .as_deref()
            .and_then(JobReservations::last_begin);
        let moved = held.map(|begins| self.start_for_begin(begins));
        let start = match kind {
            StartNoticeKind::StartsSoon => self.reserved_start(),
            StartNoticeKind::StartMoved => moved,
        };
        let Some(start) = start else { return };
        let nobody = self.spec.run.notify.is_empty();
        let Some(reservation) = &mut self.reservation else {
            return;
        };
        if kind == StartNoticeKind::StartsSoon {
            reservation.notices.announced = Some(start);
        }
        if !nobody {
            reservation.notices.push_notice(kind, start, at);
        }
    }

    pub(in crate::job) fn record_notice(&mut self, id: u32, target: &TargetName) {
        let Some(reservation) = &mut self.reservation else {
            return;
        };
        let owed = &mut reservation.notices.owed;
        owed.iter_mut()
            .filter(|notice| notice.id == id)
            .for_each(|notice| {
                notice.told.insert(target.clone());
            });
        owed.retain(|notice| {
            self.spec
                .run
                .notify
                .difference(&notice.told)
                .next()
                .is_some()
        });
    }
}

impl JobReservations {
    /// Returns the begin of its last reservation, if all components began together.
    fn last_begin(&self) -> Option<Timestamp> {
        self.parts()
            .filter_map(|(part, held)| Some(held?.start - part.offset))
            .max()
    }
}
