//! Settings of a job's life at its sites.

use std::collections::BTreeMap;

use crate::acquire::ClaimLimits;
use crate::claim::ClaimParameters;
use crate::ids::SiteName;
use crate::reserve::ranking::MISSING_BENCHMARK_FACTOR;
use crate::units::{DurationMs, PerMillion};

/// Times and limits between placement and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobParameters {
    /// When and how processors are claimed.
    pub claim: ClaimParameters,
    /// A claimed component that is not at its gate after this time was lost to others.
    pub claim_timeout: DurationMs,
    /// How far ahead of its input a claim may be.
    pub hold_slack: DurationMs,
    /// Longest time at a gate; the wrapper gives up by itself after it.
    pub hold_max: DurationMs,
    /// `claim_timeout` and `hold_max` at sites that have others.
    pub claims_at: BTreeMap<SiteName, ClaimLimits>,
    /// From the decision until every component must have begun.
    pub go_grace: DurationMs,
    /// From the decision to the common start time.
    pub go_lead: DurationMs,
    /// The same if a component has been at its gate for `gate_patience`: its wrapper looks less
    /// often then.
    pub go_lead_held: DurationMs,
    /// See `go_lead_held`.
    pub gate_patience: DurationMs,
    /// What a site acknowledged counts as lost when it is absent this long after.
    pub settle: DurationMs,
    /// Between two look-ups of an uncertain submission.
    pub look_up_interval: DurationMs,
    /// First wait after a lost claim; doubles with each.
    pub claim_backoff: DurationMs,
    /// First wait after an error of a site; doubles with each.
    pub site_backoff: DurationMs,
    /// Longest wait before a job is tried again.
    pub backoff_max: DurationMs,
    /// A job that waits this long for others goes back to sites that failed it.
    pub avoid_for: DurationMs,
    /// Fails after its input was lost this often.
    pub max_input_losses: u32,
    /// Past wall time and this margin, a payload that is not over is ended from here.
    pub wall_margin: DurationMs,
    /// A reservation begins so long before the start that is promised: until then components
    /// come to their gates.
    pub reservation_lead: DurationMs,
    /// A site that does not answer a question about a reservation for this long is taken to
    /// have said no. What it may have granted all the same is found there, and cancelled.
    pub reservation_patience: DurationMs,
    /// What share of a site's processors one user may hold in reservations at a time.
    pub reservation_share: PerMillion,
    /// How far ahead the latest start of a user's reservation may be; `None`: any time.
    pub reservation_ahead: Option<DurationMs>,
    /// A promised start is announced so long before.
    pub reservation_notice: DurationMs,
    /// Windows that are tried for one job at most.
    pub reservation_windows: u32,
    /// So many sites are to grant a reservation to a job that says how they are ranked, so that
    /// the best of them is chosen.
    pub reservation_candidates: u32,
    /// A benchmark of which a site has no result counts so many times the run time that is
    /// expected by it.
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
    /// What holds for a claim at sites that say nothing of their own.
    fn claim_limits(&self) -> ClaimLimits {
        ClaimLimits {
            ready_within: self.claim_timeout,
            max_hold: self.hold_max,
        }
    }

    /// What holds for claims at these sites together: they have one start, so the longest counts.
    pub fn claims_at<'a>(&self, sites: impl IntoIterator<Item = &'a SiteName>) -> ClaimLimits {
        let mut longest = None::<ClaimLimits>;
        let mut before = None;
        for site in sites {
            // Of a large job many that follow each other are at the same site.
            if before.replace(site) == Some(site) {
                continue;
            }
            let own = self
                .claims_at
                .get(site)
                .copied()
                .unwrap_or_else(|| self.claim_limits());
            longest = Some(longest.map_or(own, |longest| longest.longest(own)));
        }
        longest.unwrap_or_else(|| self.claim_limits())
    }

    /// How much longer than its wall time a component may hold what it claimed: at its gate,
    /// and until it is seen to have ended.
    pub fn beyond_wall_time(&self) -> DurationMs {
        let everywhere = self.claims_at.values().map(|limits| limits.max_hold);
        everywhere.fold(self.hold_max, DurationMs::max) + self.wall_margin
    }

    /// Wait after the `count`th setback (from 1): doubling from `first`, bounded,
    /// and spread by up to a quarter so that jobs do not come back in step.
    /// `seed` is any number of the job's own; chance is not needed for this.
    pub fn backoff(&self, first: DurationMs, count: u32, seed: u64) -> DurationMs {
        let doubled = first.0.saturating_mul(1 << count.saturating_sub(1).min(20));
        let wait = doubled.min(self.backoff_max.0);
        let spread = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(u64::from(count) << 56);
        DurationMs(wait + (wait / 4).saturating_mul(spread >> 32) / u64::from(u32::MAX))
    }
}
