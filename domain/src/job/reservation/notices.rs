//! What those are told of a promised start who want to know of its job: that it comes, and that it
//! was moved. What is owed is in the record, until each of them was told.

use std::collections::BTreeSet;

use super::JobReservations;
use crate::ids::TargetName;
use crate::job::parameters::JobParameters;
use crate::job::state::{Job, JobPhase};
use crate::units::Timestamp;

/// The most that is owed at a time: of more the oldest is told to nobody.
const OWED_MAX: usize = 8;

/// What is told of a promised start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// It comes soon.
    StartsSoon,
    /// It is another one now.
    StartMoved,
}

impl NoticeKind {
    /// Its name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            NoticeKind::StartsSoon => "start-soon",
            NoticeKind::StartMoved => "start-moved",
        }
    }
}

/// Something that is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartNotice {
    /// Its number; never used again for this job.
    pub id: u32,
    /// What.
    pub kind: NoticeKind,
    /// Since when.
    pub at: Timestamp,
    /// The start that is promised.
    pub start: Timestamp,
    /// Who was told, or could not be.
    pub told: BTreeSet<TargetName>,
}

/// What is to be told of the starts that a job is promised.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notices {
    /// The last start that was announced.
    pub announced: Option<Timestamp>,
    /// What is owed.
    pub owed: Vec<StartNotice>,
    /// The last number that was used.
    pub last: u32,
}

impl Notices {
    fn owe(&mut self, kind: NoticeKind, start: Timestamp, at: Timestamp) {
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
    /// When its promised start is announced; `None` if it was, or was promised later than that.
    pub fn announced_at(&self, parameters: &JobParameters) -> Option<Timestamp> {
        let JobPhase::Placed { at: placed_at, .. } = self.phase else {
            return None;
        };
        let reservation = self
            .reservation
            .as_deref()
            .filter(|reservation| !reservation.spent)?;
        let start = self.promised_start()?;
        let at = start - parameters.reservation_notice;
        (reservation.notices.announced != Some(start) && at > placed_at).then_some(at)
    }

    /// What is still to be told before it ends, and to whom.
    pub fn unsent(&self) -> impl Iterator<Item = (&StartNotice, &TargetName)> {
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

    /// Whether somebody is to be told something of it.
    pub fn owes_word(&self) -> bool {
        self.untold().next().is_some() || self.unsent().next().is_some()
    }

    pub(in crate::job) fn owe_notice(&mut self, kind: NoticeKind, at: Timestamp) {
        let held = self
            .reservation
            .as_deref()
            .and_then(JobReservations::begins);
        let moved = held.map(|begins| self.start_after(begins));
        let start = match kind {
            NoticeKind::StartsSoon => self.promised_start(),
            NoticeKind::StartMoved => moved,
        };
        let Some(start) = start else { return };
        let nobody = self.spec.run.notify.is_empty();
        let Some(reservation) = &mut self.reservation else {
            return;
        };
        if kind == NoticeKind::StartsSoon {
            reservation.notices.announced = Some(start);
        }
        if !nobody {
            reservation.notices.owe(kind, start, at);
        }
    }

    pub(in crate::job) fn noticed(&mut self, id: u32, target: &TargetName) {
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
    /// When the last of what it holds begins, if all began together.
    fn begins(&self) -> Option<Timestamp> {
        self.parts()
            .filter_map(|(part, held)| Some(held?.start - part.offset))
            .max()
    }
}
