//! The division of a flexible job over the sites that reserve processors for it (FlexCo): its
//! shape, and its parts.

use super::reservation_begin_window;
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{Job, JobReservations};
use crate::job::spec::RequestType;
use crate::placed::Placement;
use crate::reservation::flexco::{FlexPlan, JobShape, MetaJob, SplitBounds};
use crate::reservation::{
    PartReservation, ReservationSearchFailure, ReservationSearchState, StartWindow,
};
use crate::units::{DurationMs, Timestamp};

/// Most divisions of a job whose requests are refused although sites seemed to have room.
const TRIES: u32 = 5;

/// The division of a flexible job; its search has the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobDivision {
    /// The number of its shape: 0 as requested.
    pub shape: u32,
    /// Number of refusals before this division.
    pub refused: u32,
    /// True if another refusal means that it has no start.
    pub is_last: bool,
}

/// Another division, beside the one that has reservations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlternativeDivision {
    /// By part, and rank of its site: the placement.
    pub placements: Vec<Vec<Placement>>,
    /// The division.
    pub split: JobDivision,
}

impl Job {
    /// Returns the job to divide, if it is flexible and is to have reservations. Its times are
    /// those of the reservations.
    pub fn divisible_job(&self, parameters: &JobParameters, now: Timestamp) -> Option<MetaJob> {
        let wish = self.reservation_terms()?;
        let window = reservation_begin_window(wish.window, parameters, now);
        let tolerance = wish.tolerance.min(window.latest.since(window.earliest));
        let beside = tolerance + parameters.reservation_lead + parameters.wall_margin;
        self.build_meta_job(window, beside)
    }

    fn build_meta_job(&self, window: StartWindow, beside: DurationMs) -> Option<MetaJob> {
        let RequestType::Flexible(bounds) = &self.spec.request else {
            return None;
        };
        let whole = self
            .spec
            .components
            .first()?
            .resources
            .without_computing_power();
        let shapes = self.spec.shapes().map(|shape| JobShape {
            resources: whole.portion_for(shape.processors),
            run_time: shape.run_time,
        });
        Some(MetaJob {
            shapes: shapes.collect(),
            ready: window.earliest,
            latest: window.latest,
            overhead: self.spec.run.molding.overhead_share(),
            beside,
            bounds: SplitBounds {
                least: bounds.least_processors(),
                most: bounds.most_components().unwrap_or(usize::MAX),
            },
        })
    }

    /// Returns the present reservations of a flexible job, and the job to divide again within these
    /// starts.
    pub(super) fn present_division(&self, window: StartWindow) -> Option<(MetaJob, FlexPlan)> {
        let reservation = self.reservation.as_deref()?;
        let split = reservation.split?;
        let mut parts = Vec::new();
        let mut start = None;
        let mut length = DurationMs::ZERO;
        for (part, held) in reservation.parts() {
            let PartReservation {
                site, start: from, ..
            } = held?;
            parts.push((site.clone(), part.resources.processors));
            start = start.max(Some(*from));
            length = length.max(part.length);
        }
        let start = start?;
        let sites = parts.len();
        let beside = length
            .0
            .saturating_sub(self.spec.run_time_in_shape(split.shape, sites).0);
        let job = self.build_meta_job(window, DurationMs(beside))?;
        let shape = split.shape as usize;
        let completion = start + length;
        Some((
            job,
            FlexPlan {
                shape,
                start,
                completion,
                parts,
            },
        ))
    }

    /// Returns the next division to request, in one of its shapes; `last`: if that is refused, it
    /// has no start.
    pub(in crate::job) fn next_split(&self, shape: usize, last: bool) -> JobDivision {
        let before = self
            .reservation
            .as_deref()
            .filter(|before| is_request_refused(before));
        let before = before
            .and_then(|before| before.split)
            .map(|split| split.refused + 1);
        let refused = before.unwrap_or(0);
        let is_last = last || refused + 1 >= TRIES;
        JobDivision {
            shape: u32::try_from(shape).unwrap_or(u32::MAX),
            refused,
            is_last,
        }
    }
}

/// Returns true if sites refused the request.
pub(super) fn is_request_refused(reservation: &JobReservations) -> bool {
    match reservation.search.current_state() {
        ReservationSearchState::Failed(failure) => match failure {
            ReservationSearchFailure::Never
            | ReservationSearchFailure::NoCommonStart
            | ReservationSearchFailure::WindowsTried => true,
            ReservationSearchFailure::LostAtTheEnd | ReservationSearchFailure::GivenUp => false,
        },
        ReservationSearchState::Asks(_) | ReservationSearchState::Confirmed => false,
    }
}

impl JobReservations {
    /// Returns true if a flexible job is to be divided anew after this refusal.
    pub(in crate::job) fn is_divided_anew(&self) -> bool {
        self.split.is_some_and(|split| !split.is_last) && is_request_refused(self)
    }

    /// Takes over another division.
    pub(super) fn adopt_division(&mut self, anew: Option<AlternativeDivision>) {
        if let Some(AlternativeDivision { placements, split }) = anew {
            self.placements = placements;
            self.split = Some(split);
        }
    }
}
