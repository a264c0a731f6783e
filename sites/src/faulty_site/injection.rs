//! Faults that affect a share of the calls in a window of time.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::InjectedFault;
use crate::port::SiteCallKind;

/// A share of all calls, in parts per million.
const WHOLE_PPM: u32 = 1_000_000;

/// A fault, the calls that it affects, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultInjection {
    /// The name under which it is counted.
    pub name: &'static str,
    /// The thing that goes wrong.
    pub fault: InjectedFault,
    /// The kinds of calls that it affects.
    pub calls: Vec<SiteCallKind>,
    /// The share of them that it affects, in parts per million; 1,000,000 is every one.
    pub share_ppm: u32,
    /// The first moment at which it affects calls.
    pub from: Instant,
    /// The first moment at which it does not any more.
    pub until: Instant,
    /// With the number of a call, the seed fixes whether it is drawn.
    pub seed: u64,
}

impl FaultInjection {
    fn is_active_for(&self, call: SiteCallKind, now: Instant) -> bool {
        self.from <= now && now < self.until && self.calls.contains(&call)
    }

    /// Returns true if it affects the call of this number among those of its kind.
    fn affects_call(&self, call: SiteCallKind, number: u64) -> bool {
        let mixed = mix_bits(mix_bits(self.seed ^ call as u64).wrapping_add(number));
        mixed % u64::from(WHOLE_PPM) < u64::from(self.share_ppm)
    }
}

/// Spreads the bits of a number over all others (the finalizer of SplitMix64).
fn mix_bits(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The tally of one fault on calls of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallFaultTally {
    /// Calls that it could have affected.
    pub calls: u64,
    /// Calls that it affected.
    pub strikes: u64,
}

/// The injections of a site, and their tallies.
#[derive(Debug, Default)]
pub(super) struct SiteInjections {
    injections: Vec<FaultInjection>,
    tallies: BTreeMap<(&'static str, SiteCallKind), CallFaultTally>,
    /// Calls counted by injection and kind, so that each has its number.
    numbers: BTreeMap<(usize, SiteCallKind), u64>,
}

impl SiteInjections {
    pub(super) fn new(injections: Vec<FaultInjection>) -> Self {
        Self {
            injections,
            ..Self::default()
        }
    }

    /// Ends all injections; the tallies stay.
    pub(super) fn clear_injections(&mut self) {
        self.injections.clear();
    }

    pub(super) fn tallies(&self) -> &BTreeMap<(&'static str, SiteCallKind), CallFaultTally> {
        &self.tallies
    }

    /// Returns the first fault that affects a call now, if any, and counts it.
    pub(super) fn draw_fault(&mut self, call: SiteCallKind) -> Option<InjectedFault> {
        if self.injections.is_empty() {
            return None;
        }
        let now = Instant::now();
        let Self {
            injections,
            tallies,
            numbers,
        } = self;
        let concerned = injections
            .iter()
            .enumerate()
            .filter(|(_, one)| one.is_active_for(call, now));
        let mut counted = BTreeSet::new();
        for (index, injection) in concerned {
            let number = numbers.entry((index, call)).or_default();
            *number += 1;
            let name = injection.name;
            let tally = tallies.entry((name, call)).or_default();
            // A call counts once for a fault, even if two injections of that fault concern it.
            tally.calls += u64::from(counted.insert(name));
            if injection.affects_call(call, *number) {
                tally.strikes += 1;
                return Some(injection.fault);
            }
        }
        None
    }

    /// Returns until when calls of this kind hang; `None` if none hangs now.
    pub(super) fn hangs_until(&self, call: SiteCallKind, now: Instant) -> Option<Instant> {
        self.injections
            .iter()
            .filter(|one: &&FaultInjection| {
                matches!(one.fault, InjectedFault::Hang(_)) && one.is_active_for(call, now)
            })
            .map(|one| one.until)
            .max()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn make_injection(share_ppm: u32) -> FaultInjection {
        let from = Instant::now();
        FaultInjection {
            name: "reply-lost",
            fault: InjectedFault::LostAfter,
            calls: vec![SiteCallKind::Submit],
            share_ppm,
            from,
            until: from + Duration::from_secs(60),
            seed: 7,
        }
    }

    fn struck_calls(injection: FaultInjection, calls: usize) -> Vec<bool> {
        let mut injected = SiteInjections::new(vec![injection]);
        (0..calls)
            .map(|_| injected.draw_fault(SiteCallKind::Submit).is_some())
            .collect()
    }

    #[test]
    fn the_share_of_calls_that_is_struck_is_the_one_that_was_asked_for() {
        let count = |share| {
            struck_calls(make_injection(share), 10_000)
                .iter()
                .filter(|s| **s)
                .count()
        };
        assert_eq!((count(0), count(1_000_000)), (0, 10_000));
        assert!(
            (2_800..3_200).contains(&count(300_000)),
            "{}",
            count(300_000)
        );
    }

    #[test]
    fn the_same_seed_strikes_the_same_calls_and_another_one_others() {
        let first = struck_calls(make_injection(500_000), 200);
        assert_eq!(struck_calls(make_injection(500_000), 200), first);
        assert_ne!(
            struck_calls(
                FaultInjection {
                    seed: 8,
                    ..make_injection(500_000)
                },
                200
            ),
            first
        );
    }

    #[test]
    fn nothing_is_struck_before_or_after_the_window_nor_of_another_kind() {
        let now = Instant::now();
        let window = (now + Duration::from_secs(30), now + Duration::from_secs(60));
        let one = FaultInjection {
            from: window.0,
            until: window.1,
            ..make_injection(1_000_000)
        };
        let concerns = |call, secs| one.is_active_for(call, now + Duration::from_secs(secs));
        assert!(concerns(SiteCallKind::Submit, 30) && !concerns(SiteCallKind::Cancel, 30));
        assert!(!concerns(SiteCallKind::Submit, 29) && !concerns(SiteCallKind::Submit, 60));
    }

    #[test]
    fn calls_and_strikes_are_counted_by_fault_and_kind() {
        let mut injected = SiteInjections::new(vec![make_injection(0), make_injection(1_000_000)]);
        assert_eq!(
            injected.draw_fault(SiteCallKind::Submit),
            Some(InjectedFault::LostAfter)
        );
        assert_eq!(injected.draw_fault(SiteCallKind::Cancel), None);
        injected.clear_injections();
        assert_eq!(injected.draw_fault(SiteCallKind::Submit), None);
        let tally = CallFaultTally {
            calls: 1,
            strikes: 1,
        };
        assert_eq!(
            injected.tallies(),
            &BTreeMap::from([(("reply-lost", SiteCallKind::Submit), tally)])
        );
    }
}
