//! How a flexible job that is promised a start was divided.

use std::fmt;

use cospan_domain::job::spec::JobSpec;
use cospan_domain::job::state::Job;
use cospan_domain::units::DurationMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a flexible job is divided over its sites; its parts are what is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SplitReport {
    /// Processors of all its parts together: those of the shape that was chosen.
    pub processors: u32,
    /// From how many shapes that was chosen.
    pub shapes: u32,
    /// Over how many sites it is divided.
    pub sites: u32,
    /// How long it may run in that shape within one site.
    pub run_time_ms: u64,
    /// How much longer it runs over several sites, in percent; 0 within one.
    pub overhead: u32,
    /// How long it may run as it is divided.
    pub wall_time_ms: u64,
}

impl SplitReport {
    /// That of a job whose sites are asked for it, or promise it; `None` if it has none.
    pub(crate) fn of(job: &Job) -> Option<Self> {
        let reservation = job
            .reservation
            .as_deref()
            .filter(|reservation| !reservation.spent)?;
        let split = reservation.split?;
        let parts = &reservation.search.job.parts;
        let processors = parts.iter().map(|part| part.resources.processors).sum();
        Some(Self::in_shape(
            &job.spec,
            split.shape,
            processors,
            parts.len(),
        ))
    }

    /// That of a job in one of its shapes, over so many sites.
    pub(crate) fn in_shape(spec: &JobSpec, shape: u32, processors: u32, sites: usize) -> Self {
        Self {
            processors,
            shapes: spec.shapes().count() as u32,
            sites: sites as u32,
            run_time_ms: spec.time_in(shape, 1).0,
            overhead: if sites > 1 {
                spec.run.molding.overhead
            } else {
                0
            },
            wall_time_ms: spec.time_in(shape, sites).0,
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
