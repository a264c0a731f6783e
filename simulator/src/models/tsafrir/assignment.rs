//! Assigns estimates to jobs.

use std::cmp::Reverse;

use cospan_domain::units::DurationMs;
use rand::Rng;

use super::{EstimateCount, EstimateError};

/// Returns an estimate for each of `run_times`, in their order, none shorter than the run time,
/// each used as often as `estimates` says.
///
/// The longest jobs choose first, each at random among the estimates that are
/// left and long enough.
///
/// # Errors
/// [`EstimateError::CountMismatch`] if the counts do not add up to the number of
/// jobs; [`EstimateError::TooFewLongEstimates`] if there is no such assignment.
pub fn assign_estimates(
    estimates: &[EstimateCount],
    run_times: &[DurationMs],
    rng: &mut impl Rng,
) -> Result<Vec<DurationMs>, EstimateError> {
    let jobs = run_times.len() as u64;
    let available = estimates
        .iter()
        .fold(0_u64, |sum, count| sum.saturating_add(count.jobs));
    if available != jobs {
        return Err(EstimateError::CountMismatch {
            estimates: available,
            jobs,
        });
    }
    let mut longest_first = estimates.to_vec();
    longest_first.sort_by_key(|count| Reverse(count.estimate));
    let mut order: Vec<usize> = (0..run_times.len()).collect();
    order.sort_by_key(|job| Reverse(run_times[*job]));

    let mut left = longest_first.into_iter().peekable();
    let mut long_enough = Vec::new();
    let mut assigned = vec![DurationMs::ZERO; run_times.len()];
    for (served, job) in order.into_iter().enumerate() {
        let run_time = run_times[job];
        while let Some(next) = left.next_if(|next| next.estimate >= run_time) {
            long_enough.extend((0..next.jobs).map(|_| next.estimate));
        }
        if long_enough.is_empty() {
            let jobs = served as u64 + 1;
            return Err(EstimateError::TooFewLongEstimates { jobs, run_time });
        }
        assigned[job] = long_enough.swap_remove(rng.random_range(0..long_enough.len()));
    }
    Ok(assigned)
}
