use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60_000;

fn site_pair() -> (SiteName, SiteName) {
    (SiteName::new("A").unwrap(), SiteName::new("B").unwrap())
}

/// Measured every ten minutes.
fn latencies() -> SiteLatencies {
    SiteLatencies::new(DurationMs(10 * MINUTE))
}

fn known_latency(latencies: &SiteLatencies, now: u64) -> Option<u64> {
    let (from, to) = site_pair();
    latencies
        .latency_of(&from, &to, Timestamp(now))
        .map(|measured| measured.latency.0)
}

fn record_round_trip(latencies: &mut SiteLatencies, us: u64, now: u64) {
    latencies.add_round_trip(site_pair(), DurationUs(us), Timestamp(now));
}

#[test]
fn one_measurement_gives_half_of_its_round_trip_until_it_is_too_old() {
    let mut latencies = latencies();
    record_round_trip(&mut latencies, 840, 0);
    assert_eq!(known_latency(&latencies, 60 * MINUTE - 1), Some(420));
    assert_eq!(
        known_latency(&latencies, 60 * MINUTE),
        None,
        "the configured latency counts again"
    );
    let (from, to) = site_pair();
    let measured = latencies.latency_of(&from, &to, Timestamp(0)).unwrap();
    assert_eq!(
        latencies.latency_expires_at(&measured),
        Timestamp(60 * MINUTE)
    );
    assert_eq!(
        latencies.latency_of(&to, &from, Timestamp(0)),
        None,
        "the way back is another pair"
    );
}

#[test]
fn a_measurement_counts_half_as_much_after_each_interval() {
    let mut latencies = latencies();
    record_round_trip(&mut latencies, 8_000, 0);
    record_round_trip(&mut latencies, 2_000, 10 * MINUTE);
    // (8 / 2 + 2) ms of round trips with a weight of 1 / 2 + 1, and half of that.
    assert_eq!(known_latency(&latencies, 10 * MINUTE), Some(2_000));
    record_round_trip(&mut latencies, 2_000, 30 * MINUTE);
    // (6 / 4 + 2) ms with a weight of 1.5 / 4 + 1.
    assert_eq!(known_latency(&latencies, 30 * MINUTE), Some(1_272));
}

#[test]
fn after_an_expiry_measurements_are_counted_anew() {
    let mut latencies = latencies();
    record_round_trip(&mut latencies, 8_000, 0);
    record_round_trip(&mut latencies, 2_000, 61 * MINUTE);
    let (from, to) = site_pair();
    let measured = latencies
        .latency_of(&from, &to, Timestamp(61 * MINUTE))
        .unwrap();
    assert_eq!(
        (measured.latency, measured.measurements),
        (DurationUs(1_000), 1)
    );
}

#[test]
fn with_no_interval_nothing_is_measured() {
    let mut off = SiteLatencies::new(DurationMs::ZERO);
    record_round_trip(&mut off, 8_000, 0);
    assert_eq!(known_latency(&off, 0), None);
}

proptest! {
    #[test]
    fn what_is_measured_lies_between_the_shortest_and_the_longest_way(
        trips in prop::collection::vec((0..u64::MAX, 0..20 * MINUTE), 1..20),
        interval in 4 * MINUTE..60 * MINUTE,
    ) {
        let mut latencies = SiteLatencies::new(DurationMs(interval));
        let mut now = 0;
        for &(us, pause) in &trips {
            now += pause;
            record_round_trip(&mut latencies, us, now);
        }
        let ways = trips.iter().map(|(us, _)| us / 2);
        let least = ways.clone().min().unwrap();
        let most = ways.max().unwrap();
        let known = known_latency(&latencies, now).unwrap();
        // Weights are rounded down in the millionths.
        prop_assert!(known >= least - least / 100_000, "{known} below {least}");
        prop_assert!(known <= most + most / 100_000 + 1, "{known} above {most}");
    }
}
