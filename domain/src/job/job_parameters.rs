//! Settings for jobs between placement and end.

use std::collections::BTreeMap;

use crate::acquisition::ClaimTimeLimits;
use crate::claim::ClaimParameters;
use crate::ids::SiteName;
use crate::reservation::ranking::MISSING_BENCHMARK_FACTOR;
use crate::units::{DurationMs, PerMillion};

/// Times and limits between placement and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobParameters {
    /// Settings for claims.
    pub claim: ClaimParameters,
    /// Time after which a claimed component that is not at its gate was lost to others.
    pub claim_timeout: DurationMs,
    /// The most by which a claim may be ahead of the input.
    pub hold_slack: DurationMs,
    /// Longest time at a gate; the wrapper gives up by itself after it.
    pub hold_max: DurationMs,
    /// `claim_timeout` and `hold_max` at sites that have others.
    pub claims_at: BTreeMap<SiteName, ClaimTimeLimits>,
    /// From the decision until every component must have begun.
    pub go_grace: DurationMs,
    /// From the decision to the common start time.
    pub go_lead: DurationMs,
    /// The same if a component has been at its gate for `gate_patience`: its wrapper polls less
    /// often then.
    pub go_lead_held: DurationMs,
    /// See `go_lead_held`.
    pub gate_patience: DurationMs,
    /// An acknowledged attempt counts as lost when it is absent this long after.
    pub settle: DurationMs,
    /// Time between two look-ups of an uncertain submission.
    pub look_up_interval: DurationMs,
    /// First wait after a lost claim; doubles with each.
    pub claim_backoff: DurationMs,
    /// First wait after an error of a site; doubles with each.
    pub site_backoff: DurationMs,
    /// Longest wait before a job is tried again.
    pub backoff_max: DurationMs,
    /// Time after which a job that waits for other sites goes back to those that failed it.
    pub avoid_for: DurationMs,
    /// Losses of its input after which a job fails.
    pub max_input_losses: u32,
    /// Margin after the wall time at which the control plane ends a payload that is not over.
    pub wall_margin: DurationMs,
    /// Time by which a reservation begins before the reserved start: meanwhile components come to
    /// their gates.
    pub reservation_lead: DurationMs,
    /// Time after which a site that does not answer a call about a reservation is taken to have
    /// refused. A reservation that it may have granted all the same is found there, and cancelled.
    pub reservation_patience: DurationMs,
    /// The share of a site's processors that one user may reserve at a time.
    pub reservation_share: PerMillion,
    /// The most by which the latest start of a user's reservation may be ahead; `None`: any time.
    pub reservation_ahead: Option<DurationMs>,
    /// Time by which a reserved start is announced before it comes.
    pub reservation_notice: DurationMs,
    /// The most windows that are tried for one job.
    pub reservation_windows: u32,
    /// The number of sites that are to grant a reservation to a job with preferences, so that the
    /// best of them is chosen.
    pub reservation_candidates: u32,
    /// Factor on the expected run time for a benchmark of which a site has no result.
    pub missing_benchmark_factor: PerMillion,
}

impl Default for JobParameters {
    fn default() -> Self {
        Self {
            claim: ClaimParameters::default(),
            claim_timeout: DurationMs::from_secs(120),
            hold_slack: DurationMs::from_secs(60),
            hold_max: DurationMs::from_secs(600),
            claims_at: BTreeMap::new(),
            go_grace: DurationMs::from_secs(30),
            go_lead: DurationMs::ZERO,
            go_lead_held: DurationMs::ZERO,
            gate_patience: DurationMs::from_secs(45),
            settle: DurationMs::from_secs(30),
            look_up_interval: DurationMs::from_secs(10),
            claim_backoff: DurationMs::from_secs(5),
            site_backoff: DurationMs::from_secs(1),
            backoff_max: DurationMs::from_secs(600),
            avoid_for: DurationMs::from_secs(600),
            max_input_losses: 5,
            wall_margin: DurationMs::from_secs(60),
            reservation_lead: DurationMs::from_secs(10),
            reservation_patience: DurationMs::from_secs(60),
            reservation_share: PerMillion::ONE,
            reservation_ahead: None,
            reservation_notice: DurationMs::from_secs(300),
            reservation_windows: 200,
            reservation_candidates: 4,
            missing_benchmark_factor: MISSING_BENCHMARK_FACTOR,
        }
    }
}

impl JobParameters {
    /// Returns the claim limits at sites that have none of their own.
    fn claim_limits(&self) -> ClaimTimeLimits {
        ClaimTimeLimits {
            ready_within: self.claim_timeout,
            max_hold: self.hold_max,
        }
    }

    /// Returns the claim limits at these sites together: they have one start, so the longest
    /// counts.
    pub fn claim_limits_at<'a>(
        &self,
        sites: impl IntoIterator<Item = &'a SiteName>,
    ) -> ClaimTimeLimits {
        let mut longest = None::<ClaimTimeLimits>;
        let mut before = None;
        for site in sites {
            // In a large job many consecutive components are at the same site.
            if before.replace(site) == Some(site) {
                continue;
            }
            let own = self
                .claims_at
                .get(site)
                .copied()
                .unwrap_or_else(|| self.claim_limits());
            longest = Some(longest.map_or(own, |longest| longest.max_with(own)));
        }
        longest.unwrap_or_else(|| self.claim_limits())
    }

    /// Returns how much longer than its wall time a component may hold its processors: at its gate,
    /// and until it is seen to have ended.
    pub fn holding_beyond_wall_time(&self) -> DurationMs {
        let everywhere = self.claims_at.values().map(|limits| limits.max_hold);
        everywhere.fold(self.hold_max, DurationMs::max) + self.wall_margin
    }

    /// Returns the wait after the `count`th setback (from 1): doubling from `first`, bounded, and
    /// spread by up to a quarter so that jobs do not come back in step. `seed` is any number of the
    /// job's own; this needs no randomness.
    pub fn backoff_after(&self, first: DurationMs, count: u32, seed: u64) -> DurationMs {
        let doubled = first.0.saturating_mul(1 << count.saturating_sub(1).min(20));
        let wait = doubled.min(self.backoff_max.0);
        let spread = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(u64::from(count) << 56);
        DurationMs(wait + (wait / 4).saturating_mul(spread >> 32) / u64::from(u32::MAX))
    }
}
