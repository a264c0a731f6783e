//! Settings of copies.

use crate::units::DurationMs;

/// Times and limits of a copy's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyParameters {
    /// A copy that receives nothing for this long is stopped and tried again.
    pub stall_timeout: DurationMs,
    /// First wait after a failed try; doubles with each.
    pub backoff: DurationMs,
    /// Longest wait before a copy is tried again, before the spread of a quarter.
    pub backoff_max: DurationMs,
    /// The jobs that need it get a report after this many failures at the destination; at least 1.
    pub max_destination_tries: u32,
    /// From this failure on, an unexplained one is charged to its source.
    pub max_process_tries: u32,
    /// From this failure on, outputs that wait for a copy stay where they were made.
    pub max_output_tries: u32,
    /// A copy under way that nobody needs is stopped after this time.
    pub stop_grace: DurationMs,
    /// Partial data that nobody needs is discarded after this time.
    pub partial_keep: DurationMs,
    /// A whole copy that nobody needs is deleted after this time.
    pub ready_keep: DurationMs,
}

impl Default for CopyParameters {
    fn default() -> Self {
        Self {
            stall_timeout: DurationMs::from_secs(120),
            backoff: DurationMs::from_secs(2),
            backoff_max: DurationMs::from_secs(300),
            max_destination_tries: 3,
            max_process_tries: 3,
            max_output_tries: 100,
            stop_grace: DurationMs::from_secs(5),
            partial_keep: DurationMs::from_secs(600),
            ready_keep: DurationMs::from_secs(60),
        }
    }
}

impl CopyParameters {
    /// Returns the wait after the `count`th failure (from 1): doubling, bounded, and spread by up
    /// to a quarter so that many copies do not come back in step. `seed` is the try's drawn nonce.
    pub fn backoff_after(&self, count: u32, seed: u64) -> DurationMs {
        let doublings = count.saturating_sub(1).min(63);
        let bounded = self
            .backoff
            .0
            .saturating_mul(1 << doublings)
            .min(self.backoff_max.0);
        DurationMs(bounded) + DurationMs(seed % (bounded / 4 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound_and_spread_by_a_quarter() {
        let parameters = CopyParameters::default();
        assert_eq!(parameters.backoff_after(1, 0), DurationMs(2_000));
        assert_eq!(parameters.backoff_after(4, 0), DurationMs(16_000));
        assert_eq!(parameters.backoff_after(u32::MAX, 0), DurationMs(300_000));
        for seed in [1, 499, 500, 501, u64::MAX] {
            let wait = parameters.backoff_after(1, seed).0;
            assert!((2_000..=2_500).contains(&wait), "{wait}");
        }
    }
}
