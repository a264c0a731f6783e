//! The preferences by which a job ranks the sites that it may ask for a reservation.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::units::{DurationMs, PerMillion};

/// A result of a benchmark, in millionths; higher is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BenchmarkScore(pub u64);

impl BenchmarkScore {
    /// The largest score.
    pub const MAX: BenchmarkScore = BenchmarkScore(1_000_000_000 * Self::ONE);

    const ONE: u64 = 1_000_000;

    /// Converts a number, rounded to the millionth; `None` if it is negative, above the largest, or
    /// not a number.
    pub fn new(result: f64) -> Option<Self> {
        let millionths = (result * Self::ONE as f64).round();
        let is_fine = (0.0..=Self::MAX.0 as f64).contains(&millionths);
        is_fine.then_some(Self(millionths as u64))
    }

    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE as f64
    }
}

/// Results of a site, by benchmark.
pub type BenchmarkScores = BTreeMap<Arc<str>, BenchmarkScore>;

/// A benchmark that behaves like the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobBenchmark {
    pub name: Arc<str>,
    /// The result of some reference system; above zero.
    pub reference: BenchmarkScore,
    /// The job's run time on a system with that result.
    pub run_time: DurationMs,
}

/// The measure by which sites are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RankingObjective {
    /// The earliest start.
    EarliestStart,
    /// The earliest delivery of the output.
    #[default]
    EarliestCompletion,
}

/// The user's estimates of a job's start, run and end, by which sites are ranked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankingPreferences {
    pub objective: RankingObjective,
    /// Benchmarks that estimate the run time; if there are none, `run_time` counts.
    pub benchmarks: Vec<JobBenchmark>,
    /// Run time, the same at every site.
    pub run_time: Option<DurationMs>,
    /// Time until the input is at the site, where replicas do not say it.
    pub stage_in: Option<DurationMs>,
    /// Time until the output is where it is wanted.
    pub stage_out: Option<DurationMs>,
}

/// The first mistake in preferences.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum RankingPreferencesError {
    #[error(
        "the reference result of benchmark {0:?} is 0; give the result of the system where the job \
         runs as long as `run_time` says"
    )]
    ReferenceZero(Arc<str>),
    #[error("benchmark {0:?} is given twice; drop one")]
    Twice(Arc<str>),
    #[error(
        "{0:?} is no name of a benchmark; use 1 to {max} letters, digits, `-`, `_` and `.`",
        max = RankingPreferences::NAME_MAX
    )]
    Name(Arc<str>),
    #[error("{0} benchmarks are given; give at most {max}", max = RankingPreferences::BENCHMARKS_MAX)]
    TooMany(usize),
    #[error(
        "the preferences rank the sites that are asked for a reservation, and the job wants none; \
         say when it may start (`[reservation]`, or --start), or drop `[preferences]`"
    )]
    NoReservation,
    #[error(
        "a flexible request goes where it begins and ends first, whatever the preferences say; drop \
         `[preferences]`, or ask for components of fixed sizes"
    )]
    Flexible,
}

impl RankingPreferences {
    /// The longest name of a benchmark, in bytes.
    pub const NAME_MAX: usize = 64;
    /// The most benchmarks.
    pub const BENCHMARKS_MAX: usize = 32;

    /// Checks what can be checked without knowing any site.
    ///
    /// # Errors
    /// Returns the first mistake.
    pub fn validate(&self) -> Result<(), RankingPreferencesError> {
        if self.benchmarks.len() > Self::BENCHMARKS_MAX {
            return Err(RankingPreferencesError::TooMany(self.benchmarks.len()));
        }
        for (index, benchmark) in self.benchmarks.iter().enumerate() {
            if !is_benchmark_name(&benchmark.name) {
                return Err(RankingPreferencesError::Name(benchmark.name.clone()));
            }
            if benchmark.reference == BenchmarkScore(0) {
                return Err(RankingPreferencesError::ReferenceZero(
                    benchmark.name.clone(),
                ));
            }
            if self.benchmarks[..index]
                .iter()
                .any(|before| before.name == benchmark.name)
            {
                return Err(RankingPreferencesError::Twice(benchmark.name.clone()));
            }
        }
        Ok(())
    }

    /// Estimates the run time at a site with these results: the mean of the times, not of the
    /// speeds. A benchmark without a result above zero counts `missing_factor` times its time.
    /// `None`: nothing is known, and only starts can be compared.
    pub fn estimate_run_time(
        &self,
        missing_factor: PerMillion,
        results: &BenchmarkScores,
    ) -> Option<DurationMs> {
        let count = self.benchmarks.len() as f64;
        if self.benchmarks.is_empty() {
            return self.run_time;
        }
        let times = self
            .benchmarks
            .iter()
            .map(|benchmark| match results.get(&benchmark.name) {
                Some(result) if *result > BenchmarkScore(0) => {
                    benchmark.run_time.0 as f64 * benchmark.reference.as_f64() / result.as_f64()
                }
                Some(_) | None => benchmark.run_time.scaled_by(missing_factor).0 as f64,
            });
        Some(DurationMs((times.sum::<f64>() / count).ceil() as u64))
    }
}

fn is_benchmark_name(name: &str) -> bool {
    (1..=RankingPreferences::NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
