//! A promised start that may be brought forward (FlexCo): what the job has, and what it could
//! have instead.

use super::is_over;
use crate::ids::SiteName;
use crate::job::state::{Job, JobPhase, JobReservations};
use crate::reserve::flexco::{FlexPlan, MetaJob, PartsPlan, WholePart};
use crate::reserve::{CoallocationPart, SearchState, StartWindow};
use crate::units::{DurationMs, Timestamp};

/// What may be brought forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// The parts of the reservation, in its order, each with the sites that could hold it.
    pub parts: Vec<WholePart>,
    /// When and where they are promised now.
    pub present: PartsPlan,
    /// When reservations may begin; none of them later than now promised.
    pub window: StartWindow,
    /// Of a flexible job: what may be divided anew within that window, and how it is promised now.
    pub divided: Option<(MetaJob, FlexPlan)>,
}

impl Job {
    /// Whether it is promised a start that may be brought forward, now or once it is not being
    /// moved any more.
    pub fn is_promised_flexibly(&self) -> bool {
        matches!(self.phase, JobPhase::Placed { .. })
            && self.frozen_by.is_none()
            && self.held.is_none()
            && self.reservation.is_some()
            && self.reservation_wish().is_some_and(|wish| wish.flexible)
    }

    /// What may be brought forward. `None`: it may not be moved, is promised nothing that all
    /// sites have confirmed, is being moved already, or is not to be touched.
    pub fn forward(&self, now: Timestamp) -> Option<Forward> {
        let wish = self.reservation_wish().filter(|wish| wish.flexible)?;
        let reservation = self
            .reservation
            .as_deref()
            .filter(|_| self.may_be_moved(now))?;
        let parts = reservation.search.job.parts.iter().enumerate();
        let held = reservation.search.reserved().iter().flatten();
        let present = PartsPlan {
            start: held.clone().map(|held| held.start).max()?,
            sites: held.map(|held| held.site.clone()).collect(),
        };
        let StartWindow { earliest, latest } = wish.window;
        let earliest = (earliest - reservation.lead).max(now);
        let window = StartWindow::new(earliest, (latest - reservation.lead).min(present.start));
        let divided = self.divided(window);
        Some(Forward {
            parts: parts
                .map(|(part, asked): (usize, &CoallocationPart)| {
                    whole_part(reservation, part, asked, now)
                })
                .collect(),
            present,
            window,
            divided,
        })
    }

    /// Whether its reservation is confirmed, has not begun, and is not being moved.
    fn may_be_moved(&self, now: Timestamp) -> bool {
        self.is_promised_flexibly()
            && self
                .reservation
                .as_deref()
                .is_some_and(|reservation: &JobReservations| {
                    reservation.search.standing() == SearchState::Confirmed
                        && reservation
                            .other
                            .as_ref()
                            .is_none_or(|other| is_over(&other.search))
                })
            && self.reservations_begin().is_some_and(|begin| begin > now)
    }
}

fn whole_part(
    reservation: &JobReservations,
    part: usize,
    asked: &CoallocationPart,
    now: Timestamp,
) -> WholePart {
    let held = reservation
        .search
        .reserved()
        .get(part)
        .and_then(Option::as_ref);
    let is_here = |site: &SiteName| held.is_some_and(|held| held.site == *site);
    let placements = reservation
        .placements
        .get(part)
        .map(Vec::as_slice)
        .unwrap_or_default();
    // Where it is promised now its input is, or will be.
    let choices = placements.iter().map(|placement| {
        let input = if is_here(&placement.site) {
            DurationMs::ZERO
        } else {
            placement.transfer_time
        };
        (placement.site.clone(), now + input)
    });
    let resources = asked.resources.clone();
    let length = asked.length;
    WholePart {
        resources,
        length,
        choices: choices.collect(),
    }
}
