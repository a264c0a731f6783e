//! Models that generate workloads: arrivals, sizes, run times, estimates.
//!
//! Every model draws all random numbers from the generator passed in: the same seed gives the same
//! jobs.

mod gamma;
pub mod lublin;
pub mod poisson;
pub mod tsafrir;

use cospan_domain::units::DurationMs;
use thiserror::Error;

pub use gamma::GammaDistribution;

/// A job as made by a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratedJob {
    /// Time of its submission, since the start of the workload.
    pub submitted: DurationMs,
    /// Run time once started.
    pub run_time: DurationMs,
    /// Processors it needs, at least 1.
    pub processors: u32,
    /// True if a person waits for it; false for batch jobs and where the model makes no difference.
    pub interactive: bool,
}

/// A parameter that a model cannot work with.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{parameter} is {value}; it must be {allowed}")]
pub struct ModelParameterError {
    /// Name of the parameter.
    pub parameter: &'static str,
    pub value: f64,
    /// The allowed values, in words.
    pub allowed: &'static str,
}

/// Returns `Ok` if `is_allowed`, else an error that names parameter, value and remedy.
fn check_parameter(
    is_allowed: bool,
    parameter: &'static str,
    value: f64,
    allowed: &'static str,
) -> Result<(), ModelParameterError> {
    if is_allowed {
        Ok(())
    } else {
        Err(ModelParameterError {
            parameter,
            value,
            allowed,
        })
    }
}
