//! The number of distinct estimates in a log.

/// A rule for the number of distinct estimates, given the number of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DistinctEstimatesRule {
    /// Straight lines between points seen in logs; constant beyond the last.
    #[default]
    Piecewise,
    /// 0.653566 times the number of jobs to the power 0.547761.
    PowerLaw,
}

/// Jobs and distinct estimates.
const POINTS: [(f64, f64); 7] = [
    (0.0, 0.0),
    (20.0, 10.0),
    (200.0, 20.0),
    (1_000.0, 35.0),
    (10_000.0, 90.0),
    (70_000.0, 340.0),
    (250_000.0, 565.0),
];

impl DistinctEstimatesRule {
    /// Returns the number of distinct estimates of `jobs` jobs, rounded; may be 0.
    pub fn count_distinct(self, jobs: u64) -> u64 {
        let jobs = jobs as f64;
        let estimates = match self {
            Self::Piecewise => interpolate_points(jobs),
            Self::PowerLaw => 0.653566 * jobs.powf(0.547761),
        };
        estimates.round() as u64
    }
}

fn interpolate_points(jobs: f64) -> f64 {
    let piece = POINTS.windows(2).find(|ends| jobs <= ends[1].0);
    match piece {
        Some(&[(from, low), (to, high)]) => low + (high - low) * (jobs - from) / (to - from),
        _ => POINTS[POINTS.len() - 1].1,
    }
}
