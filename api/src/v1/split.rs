//! The split of a flexible job with a reservation.

use std::fmt;

use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::units::DurationMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The split of a flexible job over its sites; the parts are the reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitReport {
    /// Processors of all parts together: those of the chosen shape.
    pub processors: u32,
    /// Number of shapes from which it was chosen.
    pub shapes: u32,
    /// Number of sites.
    pub sites: u32,
    /// Run time of that shape within one site.
    pub run_time_ms: u64,
    /// Overhead of running over several sites, in percent; 0 within one site.
    pub overhead: u32,
    /// Wall time of the job as it is split.
    pub wall_time_ms: u64,
}

impl SplitReport {
    /// Reports on a job whose sites are asked for its split or have reserved it; `None` if it has
    /// none.
    pub fn of(job: &Job) -> Option<Self> {
        let reservation = job
            .reservation
            .as_deref()
            .filter(|reservation| !reservation.spent)?;
        let split = reservation.split?;
        let parts = &reservation.search.job.parts;
        let processors = parts.iter().map(|part| part.resources.processors).sum();
        Some(Self::of_shape(
            &job.spec,
            split.shape,
            processors,
            parts.len(),
        ))
    }

    /// Reports on a job in one of its shapes, over this many sites.
    pub fn of_shape(spec: &JobSpec, shape: u32, processors: u32, sites: usize) -> Self {
        Self {
            processors,
            shapes: spec.shapes().count() as u32,
            sites: sites as u32,
            run_time_ms: spec.run_time_in_shape(shape, 1).0,
            overhead: if sites > 1 {
                spec.run.molding.overhead
            } else {
                0
            },
            wall_time_ms: spec.run_time_in_shape(shape, sites).0,
        }
    }
}

impl fmt::Display for SplitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processors,
            shapes,
            sites,
            overhead,
            ..
        } = *self;
        let alone = DurationMs(self.run_time_ms);
        let all = DurationMs(self.wall_time_ms);
        let several = if sites == 1 {
            "at 1 site".into()
        } else {
            format!("over {sites} sites")
        };
        write!(f, "{processors} processors {several} for {all}")?;
        if overhead > 0 {
            write!(f, " ({alone} and {overhead} % as it spans sites)")?;
        }
        match shapes {
            0 | 1 => Ok(()),
            _ => write!(f, ", chosen from {shapes} shapes"),
        }
    }
}
