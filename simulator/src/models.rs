//! Models that generate workloads: arrivals, sizes, run times, estimates.
//!
//! Every model draws from a generator of random numbers handed in, and from
//! nothing else: the same seed gives the same jobs.

mod gamma;
pub mod lublin;
pub mod poisson;
pub mod tsafrir;

use cospan_domain::units::DurationMs;
use thiserror::Error;

pub use gamma::Gamma;

/// One job as a model makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratedJob {
    /// When it is submitted, since the start of the workload.
    pub submitted: DurationMs,
    /// How long it runs, once started.
    pub run_time: DurationMs,
    /// Processors it needs, at least 1.
    pub processors: u32,
    /// True if a person waits for it; false for batch jobs and where the model
    /// makes no difference.
    pub interactive: bool,
}

/// A parameter that a model cannot work with.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{parameter} is {value}; it must be {allowed}")]
pub struct ModelParameterError {
    /// What the parameter is called.
    pub parameter: &'static str,
    /// Its value.
    pub value: f64,
    /// Which values can be used.
    pub allowed: &'static str,
}

/// `Ok` if `is_allowed`; else an error that names parameter, value and remedy.
fn check(
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
