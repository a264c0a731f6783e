//! The model of user run time estimates by Tsafrir, Etsion and Feitelson: users
//! choose from few round values, and the longest one allowed most of all.
//!
//! Source: D. Tsafrir, Y. Etsion, D. G. Feitelson, "Modeling user runtime
//! estimates", JSSPP 2005, and the constants of the program the authors
//! published with it.
//!
//! First [`EstimateModel::draw_counts`] draws how many jobs have which estimate; then
//! [`assign_estimates`] gives every job one that is not shorter than its run time.

mod assignment;
mod counts;
mod distinct;
mod head;
mod tail;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use cospan_domain::units::DurationMs;
use rand::Rng;
use thiserror::Error;

pub use assignment::assign_estimates;
pub use distinct::DistinctEstimatesRule;
pub use head::HEAD_LEN;

/// The shortest maximum the model was made for.
pub const LONGEST_MIN: DurationMs = DurationMs::from_secs(3600);

/// The parameters of the distribution of estimates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimateModel {
    /// Number of jobs, at least 1.
    pub jobs: u64,
    /// The longest estimate allowed (M), at least [`LONGEST_MIN`].
    pub longest: DurationMs,
    /// Rule for the number of distinct estimates, given the number of jobs.
    pub distinct: DistinctEstimatesRule,
    /// Popular estimates known beforehand, at most [`HEAD_LEN`]; their counts are kept as they are,
    /// and the model fills in the rest.
    pub known: Vec<EstimateCount>,
}

/// An estimate with the number of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimateCount {
    /// The estimate; not zero.
    pub estimate: DurationMs,
    /// The jobs that have it, at least 1.
    pub jobs: u64,
}

/// The reason why no estimates could be drawn or assigned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EstimateError {
    /// There are no jobs.
    #[error("there are no jobs to estimate; hand in at least one")]
    NoJobs,
    /// The longest estimate is below [`LONGEST_MIN`].
    #[error("the longest estimate is {0}; choose {LONGEST_MIN} or more")]
    LongestTooShort(DurationMs),
    /// More than [`HEAD_LEN`] estimates are given.
    #[error("{0} popular estimates are given; give at most {HEAD_LEN}")]
    TooManyKnown(usize),
    /// A given estimate cannot be used.
    #[error(
        "the popular estimate {0} is zero, given twice, longer than the longest, or has no job; \
         correct or remove it"
    )]
    KnownUnusable(DurationMs),
    /// The given estimates have more jobs than there are.
    #[error("the popular estimates have {known} of {jobs} jobs; lower their counts")]
    KnownExceedJobs {
        /// Jobs of the given estimates.
        known: u64,
        /// Jobs altogether.
        jobs: u64,
    },
    /// The counts do not add up to the number of run times.
    #[error("there are {estimates} estimates for {jobs} jobs; draw as many as there are jobs")]
    CountMismatch {
        /// Estimates, counted for each job.
        estimates: u64,
        /// Jobs.
        jobs: u64,
    },
    /// Too few estimates are long enough for the longest jobs.
    #[error(
        "{jobs} jobs run for {run_time} or longer, but fewer estimates are that long; \
         raise the longest estimate or shorten the jobs"
    )]
    TooFewLongEstimates {
        /// Number of jobs that run at least that long.
        jobs: u64,
        /// The run time without an estimate.
        run_time: DurationMs,
    },
}

impl EstimateModel {
    /// Uses the authors' defaults: distinct estimates read off a curve, none known.
    pub fn new(jobs: u64, longest: DurationMs) -> Self {
        Self {
            jobs,
            longest,
            distinct: DistinctEstimatesRule::Piecewise,
            known: Vec::new(),
        }
    }

    /// Draws the estimates and the number of jobs of each, by length. The counts add up to the
    /// number of jobs.
    ///
    /// # Errors
    /// If the model's fields are outside their ranges.
    pub fn draw_counts(&self, rng: &mut impl Rng) -> Result<Vec<EstimateCount>, EstimateError> {
        let free_jobs = self.check_and_count_free_jobs()?;
        let distinct = self.distinct_count(free_jobs);
        let mut taken: BTreeSet<DurationMs> =
            self.known.iter().map(|known| known.estimate).collect();

        let head = head::head_estimates(self.longest, distinct.min(HEAD_LEN), &taken);
        let mut estimates = head::order_by_popularity(head, self.longest, rng);
        let first_rank = self.known.len() + 1;
        let mut shares = head::rank_shares(first_rank, estimates.len());

        taken.extend(&estimates);
        let tail_len = distinct.saturating_sub(taken.len());
        estimates.extend(tail::tail_estimates(
            self.longest,
            distinct,
            tail_len,
            &mut taken,
        ));
        shares.extend(tail::tail_shares(tail_len, rng));

        let counts = counts::apportion_jobs(free_jobs, &shares);
        let drawn = estimates.into_iter().zip(counts);
        let drawn = drawn.map(|(estimate, jobs)| EstimateCount { estimate, jobs });
        let mut all: Vec<EstimateCount> = self.known.iter().copied().chain(drawn).collect();
        all.sort_by_key(|count| count.estimate);
        Ok(all)
    }

    /// Returns the number of distinct estimates: as many as the curve says, but no more than can
    /// have a job, or a second, each.
    fn distinct_count(&self, free_jobs: u64) -> usize {
        let known = self.known.len() as u64;
        let seconds = self.longest.0 / 1000;
        let most = (known + free_jobs).min(seconds).max(known);
        let least = (known + u64::from(free_jobs > 0)).min(most);
        let wanted = self.distinct.count_distinct(self.jobs).clamp(least, most);
        usize::try_from(wanted).unwrap_or(usize::MAX)
    }

    /// Checks the fields, and returns how many jobs are left after the known estimates.
    fn check_and_count_free_jobs(&self) -> Result<u64, EstimateError> {
        if self.jobs == 0 {
            return Err(EstimateError::NoJobs);
        }
        if self.longest < LONGEST_MIN {
            return Err(EstimateError::LongestTooShort(self.longest));
        }
        if self.known.len() > HEAD_LEN {
            return Err(EstimateError::TooManyKnown(self.known.len()));
        }
        let mut seen = BTreeSet::new();
        for EstimateCount { estimate, jobs } in &self.known {
            let is_in_range = (DurationMs(1)..=self.longest).contains(estimate);
            if !is_in_range || *jobs == 0 || !seen.insert(estimate) {
                return Err(EstimateError::KnownUnusable(*estimate));
            }
        }
        let known = self
            .known
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(count.jobs));
        let jobs = self.jobs;
        jobs.checked_sub(known)
            .ok_or(EstimateError::KnownExceedJobs { known, jobs })
    }
}
