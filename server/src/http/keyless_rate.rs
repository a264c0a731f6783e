//! Bounded counts, by address, of requests without a valid key.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Addresses that are remembered within one minute; more share one count.
const MAX_ADDRESSES: usize = 1024;

/// Failures by address in the present minute.
#[derive(Debug, Default)]
pub(super) struct FailureMeter {
    state: Mutex<MinuteFailures>,
}

#[derive(Debug, Default)]
struct MinuteFailures {
    number: u64,
    by_address: BTreeMap<Option<IpAddr>, u32>,
}

impl FailureMeter {
    /// Counts a failure; returns true if there were no more than `limit` in this minute.
    pub(super) fn count_failure(&self, address: Option<IpAddr>, now_s: u64, limit: u32) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now_s / 60;
        if state.number != minute {
            *state = MinuteFailures {
                number: minute,
                by_address: BTreeMap::new(),
            };
        }
        let full = state.by_address.len() >= MAX_ADDRESSES;
        let known = state.by_address.contains_key(&address);
        let count = state
            .by_address
            .entry(address.filter(|_| known || !full))
            .or_default();
        *count = count.saturating_add(1);
        *count <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_address_and_minute() {
        let meter = FailureMeter::default();
        let one = Some(IpAddr::from([127, 0, 0, 1]));
        let other = Some(IpAddr::from([127, 0, 0, 2]));
        assert_eq!(
            (0..5).filter(|_| meter.count_failure(one, 60, 3)).count(),
            3
        );
        assert!(meter.count_failure(other, 60, 3));
        assert!(!meter.count_failure(one, 119, 3));
        assert!(meter.count_failure(one, 120, 3));
    }

    #[test]
    fn addresses_beyond_the_bound_share_one_count() {
        let meter = FailureMeter::default();
        for i in 0..5000u32 {
            meter.count_failure(Some(IpAddr::from(i.to_be_bytes())), 0, 10);
        }
        let state = meter.state.lock().unwrap();
        assert!(state.by_address.len() <= MAX_ADDRESSES + 1);
    }
}
