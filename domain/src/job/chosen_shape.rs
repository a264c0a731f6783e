//! The shapes of a flexible job: processors and run time.

use super::job_state::Job;
use super::spec::{JobSpec, JobSpecError, JobSpecLimits, RequestType};
use crate::acquisition::{AlternativeShape, MoldingError, MoldingOptions, UsedReservation};
use crate::units::DurationMs;

impl JobSpec {
    /// Iterates over the shapes in which it may run: first the one that is asked for.
    pub fn shapes(&self) -> impl Iterator<Item = AlternativeShape> + '_ {
        let processors = self.components.iter().map(|one| one.resources.processors);
        let processors = processors.fold(0, u32::saturating_add);
        self.run.molding.all_shapes(AlternativeShape {
            processors,
            run_time: self.wall_time,
        })
    }

    /// Returns the time that it may run in one of its shapes at so many sites.
    pub fn run_time_in_shape(&self, shape: u32, sites: usize) -> DurationMs {
        let run_time = self
            .shapes()
            .nth(shape as usize)
            .map(|shape| shape.run_time);
        self.run
            .molding
            .run_time_on_sites(run_time.unwrap_or(self.wall_time), sites)
    }

    /// Returns the longest time that it may run in any of its shapes.
    pub fn longest_run_time(&self) -> DurationMs {
        let times = self
            .shapes()
            .map(|shape| self.run.molding.run_time_on_sites(shape.run_time, 2));
        times.max().unwrap_or(self.wall_time)
    }

    pub(super) fn validate_molding(&self, limits: &JobSpecLimits) -> Result<(), JobSpecError> {
        let molding = &self.run.molding;
        match &self.request {
            _ if *molding == MoldingOptions::default() => Ok(()),
            RequestType::Fixed | RequestType::NonFixed => Err(MoldingError::NotFlexible.into()),
            RequestType::Flexible(bounds) => {
                let Some(asked) = self.shapes().next() else {
                    return Ok(());
                };
                let max = limits.max_wall_time;
                Ok(molding.validate(asked, bounds.least_processors(), max)?)
            }
        }
    }
}

impl Job {
    /// Returns the number of the shape in which this round runs: its reservations may be for
    /// another shape than the one asked for.
    pub fn current_shape_number(&self) -> u32 {
        let mut promised = self
            .components
            .iter()
            .filter_map(|c| c.acquisition().reservation_use());
        let is_own = promised.any(|UsedReservation { shared, .. }| !shared);
        let reservation = self.reservation.as_deref().filter(|_| is_own);
        reservation
            .and_then(|reservation| reservation.split)
            .map_or(0, |split| split.shape)
    }

    /// Returns the time that its payloads may run in this round.
    pub fn wall_time(&self) -> DurationMs {
        self.spec
            .run_time_in_shape(self.current_shape_number(), self.count_sites() as usize)
    }
}
