//! The reservations that jobs had confirmed in a run, including those that were replaced by others.

use std::collections::BTreeMap;

use cospan_domain::ids::{ComponentIndex, JobId, SiteName};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::Job;
use cospan_domain::placed::Placement;
use cospan_domain::units::Timestamp;

/// A confirmed reservation of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentReservation {
    pub job: JobId,
    pub component: ComponentIndex,
    pub site: SiteName,
    pub processors: u32,
    /// Start of the reservation.
    pub from: Timestamp,
    /// End of the reservation.
    pub to: Timestamp,
    /// Time of the confirmation.
    pub made: Timestamp,
    /// Time at which it was cancelled without having served its job: another reservation replaced
    /// it, or its round was aborted.
    pub left: Option<Timestamp>,
}

/// All reservations of a run, and how often one replaced another.
#[derive(Debug, Clone, Default)]
pub struct ReservationLog {
    all: Vec<ComponentReservation>,
    /// Indices of the reservations that each job has now.
    present: BTreeMap<JobId, Vec<usize>>,
    moves: u64,
}

impl ReservationLog {
    /// Records the events of a job; `job` is its state after them.
    pub(crate) fn record_events(&mut self, job: &Job, events: &[JobEvent]) {
        for event in events {
            match &event.what {
                JobEventKind::JobPlaced { placements, .. } => {
                    self.mark_cancelled(job.id, event.at);
                    self.add_confirmed_reservations(job, placements, event.at);
                }
                JobEventKind::RoundAborted { .. } => self.mark_cancelled(job.id, event.at),
                JobEventKind::ReservationMoved => self.moves += 1,
                _ => {}
            }
        }
        if job.is_final() {
            self.present.remove(&job.id);
        }
    }

    fn add_confirmed_reservations(&mut self, job: &Job, placements: &[Placement], made: Timestamp) {
        for (index, placement) in (0..).map(ComponentIndex).zip(placements) {
            let Some(promised) = placement.acquisition.reservation_use() else {
                continue;
            };
            self.present.entry(job.id).or_default().push(self.all.len());
            self.all.push(ComponentReservation {
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

    fn mark_cancelled(&mut self, job: JobId, at: Timestamp) {
        for place in self.present.remove(&job).unwrap_or_default() {
            if let Some(booking) = self.all.get_mut(place) {
                booking.left = Some(at);
            }
        }
    }

    /// Returns how often one reservation replaced another.
    pub fn move_count(&self) -> u64 {
        self.moves
    }

    /// Returns all reservations, in the order of their confirmations.
    pub fn all_reservations(&self) -> &[ComponentReservation] {
        &self.all
    }
}
