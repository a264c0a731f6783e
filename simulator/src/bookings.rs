//! The reservations that jobs had confirmed in a run, also those that others took the place of.

use std::collections::BTreeMap;

use cospan_domain::ids::{ComponentIndex, JobId, SiteName};
use cospan_domain::job::event::{JobEvent, JobEventKind};
use cospan_domain::job::state::Job;
use cospan_domain::placed::Placement;
use cospan_domain::units::Timestamp;

/// A reservation that a component had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentBooking {
    /// Whose.
    pub job: JobId,
    /// Of which component.
    pub component: ComponentIndex,
    /// Where.
    pub site: SiteName,
    /// How many processors.
    pub processors: u32,
    /// When it begins.
    pub from: Timestamp,
    /// When it ends.
    pub to: Timestamp,
    /// When it was confirmed.
    pub made: Timestamp,
    /// When it went back without having served its job: another took its place, or its round
    /// was given up.
    pub left: Option<Timestamp>,
}

/// All of them, and how often one took the place of another.
#[derive(Debug, Clone, Default)]
pub struct BookingLog {
    all: Vec<ComponentBooking>,
    /// Places of those that each job has now.
    present: BTreeMap<JobId, Vec<usize>>,
    moves: u64,
}

impl BookingLog {
    /// What happened to a job, which is as it was after it.
    pub(crate) fn note(&mut self, job: &Job, events: &[JobEvent]) {
        for event in events {
            match &event.what {
                JobEventKind::JobPlaced { placements, .. } => {
                    self.leave(job.id, event.at);
                    self.add(job, placements, event.at);
                }
                JobEventKind::RoundAborted { .. } => self.leave(job.id, event.at),
                JobEventKind::ReservationMoved => self.moves += 1,
                _ => {}
            }
        }
        if job.is_final() {
            self.present.remove(&job.id);
        }
    }

    fn add(&mut self, job: &Job, placements: &[Placement], made: Timestamp) {
        for (index, placement) in (0..).map(ComponentIndex).zip(placements) {
            let Some(promised) = placement.acquisition.promised() else {
                continue;
            };
            self.present.entry(job.id).or_default().push(self.all.len());
            self.all.push(ComponentBooking {
                job: job.id,
                component: index,
                site: placement.site.clone(),
                processors: job.processors_of(index),
                from: promised.from,
                to: promised.to,
                made,
                left: None,
            });
        }
    }

    fn leave(&mut self, job: JobId, at: Timestamp) {
        for place in self.present.remove(&job).unwrap_or_default() {
            if let Some(booking) = self.all.get_mut(place) {
                booking.left = Some(at);
            }
        }
    }

    /// How often one took the place of another.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// All of them, in the order in which they were confirmed.
    pub fn all(&self) -> &[ComponentBooking] {
        &self.all
    }
}
