//! Rescheduling to an earlier start (FlexCo): the present reservations of a job, and those that it
//! could have instead.

use super::is_search_over;
use crate::job::job_state::{Job, JobPhase, JobReservations};
use crate::reservation::flexco::{FlexPlan, MetaJob, PartsPlan, UnsplitPart};
use crate::reservation::{CoallocationPart, ReservationSearchState, StartWindow};
use crate::units::{DurationMs, Timestamp};

/// A job that may be rescheduled to an earlier start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReschedulableJob {
    /// The parts of the reservation, in its order, each with the sites that could hold it.
    pub parts: Vec<UnsplitPart>,
    /// The present start, and the present site of each part.
    pub present: PartsPlan,
    /// The window in which reservations may begin, up to the present start.
    pub window: StartWindow,
    /// For a flexible job: the job to divide again within that window, and its present division.
    pub divided: Option<(MetaJob, FlexPlan)>,
}

impl Job {
    /// Returns true if it has a reserved start that may be brought forward, now or once a
    /// rescheduling has ended.
    pub fn is_flexibly_reserved(&self) -> bool {
        matches!(self.phase, JobPhase::Placed { .. })
            && self.frozen_by.is_none()
            && self.held.is_none()
            && self.reservation.is_some()
            && self.reservation_terms().is_some_and(|wish| wish.flexible)
    }

    /// Returns the basis for an earlier start. `None`: the job may not be rescheduled, has no
    /// reservations that all sites have confirmed, is being rescheduled already, or is frozen or
    /// held.
    pub fn reschedulable_job(&self, now: Timestamp) -> Option<ReschedulableJob> {
        let wish = self.reservation_terms().filter(|wish| wish.flexible)?;
        let reservation = self
            .reservation
            .as_deref()
            .filter(|_| self.can_be_rescheduled(now))?;
        let parts = reservation.search.job.parts.iter().enumerate();
        let held = reservation.search.part_reservations().iter().flatten();
        let present = PartsPlan {
            start: held.clone().map(|held| held.start).max()?,
            sites: held.map(|held| held.site.clone()).collect(),
        };
        let StartWindow { earliest, latest } = wish.window;
        let earliest = (earliest - reservation.lead).max(now);
        let window = StartWindow::new(earliest, (latest - reservation.lead).min(present.start));
        let divided = self.present_division(window);
        Some(ReschedulableJob {
            parts: parts
                .map(|(part, asked): (usize, &CoallocationPart)| {
                    unsplit_part(reservation, part, asked, now)
                })
                .collect(),
            present,
            window,
            divided,
        })
    }

    /// Returns true if its reservation is confirmed, has not begun, and is not being rescheduled.
    fn can_be_rescheduled(&self, now: Timestamp) -> bool {
        self.is_flexibly_reserved()
            && self
                .reservation
                .as_deref()
                .is_some_and(|reservation: &JobReservations| {
                    reservation.search.current_state() == ReservationSearchState::Confirmed
                        && reservation
                            .other
                            .as_ref()
                            .is_none_or(|other| is_search_over(&other.search))
                })
            && self
                .last_reservation_begin()
                .is_some_and(|begin| begin > now)
    }
}

fn unsplit_part(
    reservation: &JobReservations,
    part: usize,
    asked: &CoallocationPart,
    now: Timestamp,
) -> UnsplitPart {
    let held = reservation
        .search
        .part_reservations()
        .get(part)
        .and_then(Option::as_ref);
    let placements = reservation
        .placements
        .get(part)
        .map(Vec::as_slice)
        .unwrap_or_default();
    // At its present site its input is there, or will be.
    let choices = placements.iter().map(|placement| {
        let input = if held.is_some_and(|held| held.site == placement.site) {
            DurationMs::ZERO
        } else {
            placement.transfer_time
        };
        (placement.site.clone(), now + input)
    });
    let resources = asked.resources.clone();
    let length = asked.length;
    UnsplitPart {
        resources,
        length,
        choices: choices.collect(),
    }
}
