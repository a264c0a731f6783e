//! Settings of the breaker.

use crate::units::{DurationMs, PerMillion};

/// Says when a site becomes unusable, and how it comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteParameters {
    /// Consecutive errors that open the breaker (KOALA: `site_error_threshold`); at least 1.
    pub site_error_threshold: u32,
    /// True if errors that are all of one owner's jobs open it only if a probe of our own fails
    /// too. Not for sites where all jobs are one owner's.
    pub tells_owners_apart: bool,
    /// Time from the first opening to the first probe; doubles with each failed probe.
    pub probe_interval: DurationMs,
    /// Longest time to the next probe, before the spread.
    pub probe_interval_max: DurationMs,
    /// The share of the interval that chance may add, so that sites are not probed in step.
    pub probe_spread: PerMillion,
    /// The most probes at the same time. Each success doubles the number allowed (1, 2, 4, ...);
    /// the success at this number closes the breaker.
    pub probe_limit: u32,
    /// A shared reservation that no job has used this long after its start is cancelled; `None`: it
    /// is kept.
    pub no_show: Option<DurationMs>,
}

impl Default for SiteParameters {
    fn default() -> Self {
        Self {
            site_error_threshold: 3,
            tells_owners_apart: true,
            probe_interval: DurationMs::from_secs(60),
            probe_interval_max: DurationMs::from_secs(3600),
            probe_spread: PerMillion(250_000),
            probe_limit: 4,
            no_show: None,
        }
    }
}

impl SiteParameters {
    /// Returns the time from the `trips`th opening in a row (from 1) to the next probe. `jitter` is
    /// a drawn share of the spread.
    pub fn time_to_probe(&self, trips: u32, jitter: PerMillion) -> DurationMs {
        let doublings = trips.saturating_sub(1).min(63);
        let grown = self.probe_interval.0.saturating_mul(1 << doublings);
        let bounded = DurationMs(grown.min(self.probe_interval_max.0));
        bounded
            + bounded
                .scaled_by(self.probe_spread)
                .scaled_by(jitter.min(PerMillion::ONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_between_probes_double_up_to_their_bound() {
        let parameters = SiteParameters::default();
        let secs: Vec<_> = (1..=8)
            .map(|t| parameters.time_to_probe(t, PerMillion(0)).0 / 1000)
            .collect();
        assert_eq!(secs, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(
            parameters.time_to_probe(u32::MAX, PerMillion(0)),
            DurationMs::from_secs(3600)
        );
    }

    #[test]
    fn chance_adds_at_most_the_spread() {
        let parameters = SiteParameters::default();
        assert_eq!(
            parameters.time_to_probe(1, PerMillion::ONE),
            DurationMs::from_secs(75)
        );
        assert_eq!(
            parameters.time_to_probe(1, PerMillion(u32::MAX)),
            DurationMs::from_secs(75)
        );
    }
}
