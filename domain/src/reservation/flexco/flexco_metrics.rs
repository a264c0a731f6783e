//! A measure of how a job fared (FlexCo, section 5.1).

use crate::units::DurationMs;

/// Computes max(1, (wait + run) / max(run, threshold)): how much longer a job took than alone. The
/// threshold keeps very short jobs from counting for everything. `run` includes the overhead of a
/// network. At least 1.
pub fn bounded_slowdown(wait: DurationMs, run: DurationMs, threshold: DurationMs) -> f64 {
    let least = run.max(threshold).max(DurationMs(1));
    ((wait + run).0 as f64 / least.0 as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowdown_of_short_jobs_is_bounded() {
        let table = [
            (300, 30, 1.0),
            (1200, 600, 3.0),
            (900, 1800, 1.5),
            (3000, 60, 5.1),
            (0, 5, 1.0),
        ];
        for (wait, run, expected) in table {
            let secs = DurationMs::from_secs;
            let found = bounded_slowdown(secs(wait), secs(run), secs(600));
            assert!((found - expected).abs() < 1e-6, "{wait} + {run}: {found}");
        }
        assert_eq!(
            bounded_slowdown(DurationMs(0), DurationMs(0), DurationMs(0)),
            1.0
        );
    }
}
