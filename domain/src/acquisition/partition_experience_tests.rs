//! What a site let us wait for, and what it gave at once.

use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60_000;

fn partition_demand(processors: u32, minutes: u64) -> PartitionDemand {
    PartitionDemand::new(processors, DurationMs(minutes * MINUTE))
}

fn short_partition() -> PartitionAccount {
    PartitionAccount {
        partition: Some("short".into()),
        account: None,
    }
}

/// After a wait of 64 processors for 30 minutes, asked at the minute 3 and seen at the minute 4.
fn experience_with_wait() -> SiteExperience {
    let mut known = SiteExperience::default();
    let asked_at = Timestamp(3 * MINUTE);
    let seen_at = Timestamp(4 * MINUTE);
    known.record_wait(
        short_partition(),
        partition_demand(64, 30),
        &"Priority".into(),
        asked_at,
        seen_at,
    );
    known
}

#[test]
fn after_a_wait_only_what_is_smaller_or_shorter_is_asked_for() {
    let known = experience_with_wait();
    let kept = |ask: PartitionDemand| known.blocking_wait(&short_partition(), &ask).is_some();
    assert!(
        kept(partition_demand(64, 30))
            && kept(partition_demand(65, 30))
            && kept(partition_demand(64, 31))
    );
    assert!(!kept(partition_demand(63, 600)) && !kept(partition_demand(640, 29)));
    assert!(
        kept(PartitionDemand::new(64, DurationMs(29 * MINUTE + 1))),
        "whole minutes are asked for"
    );
    let other = PartitionAccount {
        account: Some("physics".into()),
        ..short_partition()
    };
    assert_eq!(
        known.blocking_wait(&other, &partition_demand(640, 300)),
        None,
        "on another account"
    );
}

#[test]
fn a_wait_counts_for_ten_minutes_after_it_was_last_seen() {
    let mut known = experience_with_wait();
    assert_eq!(known.next_expiry(), Some(Timestamp(14 * MINUTE)));
    let seen_at = Timestamp(6 * MINUTE);
    known.record_wait(
        short_partition(),
        partition_demand(64, 30),
        &"Priority".into(),
        Timestamp(3 * MINUTE),
        seen_at,
    );
    assert_eq!(
        known.next_expiry(),
        Some(Timestamp(16 * MINUTE)),
        "one wait that goes on"
    );
    assert!(!known.forget_expired(Timestamp(16 * MINUTE - 1)) && known.has_waits());
    assert!(known.forget_expired(Timestamp(16 * MINUTE)));
    assert_eq!(known, SiteExperience::default());
}

#[test]
fn what_is_asked_after_a_wait_and_starts_at_once_ends_it() {
    let started = |processors, asked_minute: u64| {
        let mut known = experience_with_wait();
        let asked_at = Timestamp(asked_minute * MINUTE);
        known.record_start(
            short_partition(),
            partition_demand(processors, 30),
            asked_at,
            asked_at,
        );
        known.has_waits()
    };
    assert!(!started(64, 5));
    assert!(started(63, 5), "it was smaller");
    assert!(started(64, 3), "asked before the wait was seen");
}

#[test]
fn a_wait_that_ended_with_a_start_counts_for_as_long_again() {
    let after_a_start = |processors, asked: u64, at: u64| {
        let mut known = experience_with_wait();
        let asked_at = Timestamp(asked * MINUTE);
        let at = Timestamp(at * MINUTE);
        known.record_late_start(
            &short_partition(),
            partition_demand(processors, 30),
            asked_at,
            at,
        );
        known.next_expiry()
    };
    assert_eq!(
        after_a_start(64, 3, 5),
        Some(Timestamp(7 * MINUTE)),
        "two minutes"
    );
    assert_eq!(
        after_a_start(70, 4, 5),
        Some(Timestamp(6 * MINUTE)),
        "as large, asked later"
    );
    assert_eq!(
        after_a_start(64, 3, 13),
        Some(Timestamp(14 * MINUTE)),
        "never longer"
    );
    assert_eq!(
        after_a_start(63, 3, 5),
        Some(Timestamp(14 * MINUTE)),
        "it was smaller"
    );
    assert_eq!(
        after_a_start(64, 2, 5),
        Some(Timestamp(14 * MINUTE)),
        "it was asked before"
    );
}

#[test]
fn the_largest_that_started_lately_is_known() {
    let mut known = SiteExperience::default();
    let got = |known: &SiteExperience| {
        known
            .list_experience()
            .next()
            .map(|(_, known)| known.got.unwrap().ask)
    };
    let at = |minute: u64| Timestamp(minute * MINUTE);
    known.record_start(short_partition(), partition_demand(8, 10), at(0), at(0));
    known.record_start(short_partition(), partition_demand(16, 5), at(10), at(10));
    known.record_start(short_partition(), partition_demand(4, 99), at(50), at(50));
    assert_eq!(got(&known), Some(partition_demand(16, 5)));
    known.forget_expired(at(69));
    assert_eq!(got(&known), Some(partition_demand(16, 5)));
    assert_eq!(known.next_expiry(), Some(at(70)));
    assert!(!known.forget_expired(at(70)), "that is no wait");
    assert_eq!(got(&known), None, "an hour ago is not lately");
}

proptest! {
    /// However waits overlap, what is kept says the same as all of them would.
    #[test]
    fn no_wait_is_lost_among_others(
        waits in proptest::collection::vec((1..6_u32, 1..6_u64, 0..20_u64), 1..12),
        asked in (1..6_u32, 1..6_u64),
        now in 0..40_u64,
    ) {
        let mut known = SiteExperience::default();
        let asked = partition_demand(asked.0, asked.1);
        let mut waits = waits;
        waits.sort_by_key(|(.., seen)| *seen);
        for (processors, minutes, seen) in &waits {
            let at = Timestamp(seen * MINUTE);
            known.record_wait(short_partition(), partition_demand(*processors, *minutes), &"Priority".into(), at, at);
        }
        known.forget_expired(Timestamp(now * MINUTE));
        let counts = |(processors, minutes, seen): &(u32, u64, u64)| {
            asked.covers(&partition_demand(*processors, *minutes)) && seen + 10 > now
        };
        prop_assert_eq!(known.blocking_wait(&short_partition(), &asked).is_some(), waits.iter().any(counts));
        let most = known.max_processors(&short_partition(), asked.time).unwrap_or(u32::MAX);
        prop_assert_eq!(asked.processors <= most, !waits.iter().any(counts));
    }
}
