//! Where run time estimates come from.

use cospan_domain::units::DurationMs;
use rand::rngs::StdRng;

use super::RawJob;
use cospan_chaos_tests::models::tsafrir::{
    EstimateError, EstimateModel, LONGEST_MIN, assign_estimates,
};

const HOUR_MS: u64 = 3_600_000;

/// Where run time estimates come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimates {
    /// As the log says; the run time where it does not, or where the jobs come
    /// from a model.
    AsGiven,
    /// The run time.
    Exact,
    /// Drawn from the model of Tsafrir, Etsion and Feitelson; never below the
    /// run time. The longest estimate allowed is the longest run time rounded up
    /// to a whole hour.
    Tsafrir,
}

impl Estimates {
    /// All of them.
    pub const ALL: [Estimates; 3] = [Self::AsGiven, Self::Exact, Self::Tsafrir];

    /// Its name in grid files and reports.
    pub fn describe(self) -> &'static str {
        match self {
            Self::AsGiven => "as-given",
            Self::Exact => "exact",
            Self::Tsafrir => "tsafrir",
        }
    }
}

/// Sets the estimates of all jobs.
pub(crate) fn estimate(
    jobs: &mut [RawJob],
    estimates: Estimates,
    rng: &mut StdRng,
) -> Result<(), EstimateError> {
    match estimates {
        Estimates::AsGiven => {}
        Estimates::Exact => jobs.iter_mut().for_each(|job| job.estimate = job.run_time),
        Estimates::Tsafrir => {
            let run_times: Vec<DurationMs> = jobs.iter().map(|job| job.run_time).collect();
            let Some(longest) = run_times.iter().max() else { return Ok(()) };
            let hours = longest.0.div_ceil(HOUR_MS);
            let longest = DurationMs(hours.saturating_mul(HOUR_MS)).max(LONGEST_MIN);
            let counts = EstimateModel::new(jobs.len() as u64, longest).draw(rng)?;
            for (job, drawn) in jobs.iter_mut().zip(assign_estimates(&counts, &run_times, rng)?) {
                job.estimate = drawn;
            }
        }
    }
    Ok(())
}
