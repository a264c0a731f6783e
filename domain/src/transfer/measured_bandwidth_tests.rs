use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60_000;

fn site_pair() -> (SiteName, SiteName) {
    (SiteName::new("A").unwrap(), SiteName::new("B").unwrap())
}

fn rates() -> TransferRates {
    TransferRates::new(BandwidthParameters::default())
}

fn known_rate(rates: &TransferRates, now: u64) -> Option<u64> {
    let (from, to) = site_pair();
    rates
        .rate_of(&from, &to, Timestamp(now))
        .map(|measured| measured.bandwidth.0)
}

/// So many megabytes in so many seconds.
fn record_transfer(rates: &mut TransferRates, megabytes: u64, secs: u64, now: u64) -> bool {
    let bytes = Bytes(megabytes * 1_000_000);
    let time = DurationMs::from_secs(secs);
    rates.add_transfer(site_pair(), bytes, time, Timestamp(now))
}

#[test]
fn one_transfer_gives_its_own_pace_until_it_is_too_old() {
    let mut rates = rates();
    assert!(record_transfer(&mut rates, 100, 8, 0));
    assert_eq!(known_rate(&rates, 59 * MINUTE), Some(100_000_000));
    assert_eq!(
        known_rate(&rates, 60 * MINUTE),
        None,
        "the configured bandwidth counts again"
    );
    let (from, to) = site_pair();
    assert_eq!(
        rates.rate_of(&to, &from, Timestamp(0)),
        None,
        "the way back is another pair"
    );
}

#[test]
fn a_transfer_counts_half_as_much_after_each_half_life() {
    let mut rates = rates();
    record_transfer(&mut rates, 80, 8, 0);
    record_transfer(&mut rates, 8, 8, 10 * MINUTE);
    // (80 / 2 + 8) MB in (8 / 2 + 8) s.
    assert_eq!(known_rate(&rates, 10 * MINUTE), Some(32_000_000));
    record_transfer(&mut rates, 8, 8, 40 * MINUTE);
    // ((80 / 2 + 8) / 8 + 8) MB in (12 / 8 + 8) s.
    assert_eq!(known_rate(&rates, 40 * MINUTE), Some(11_789_473));
}

#[test]
fn a_transfer_that_was_hardly_watched_or_moved_nothing_does_not_count() {
    let mut rates = rates();
    assert!(!record_transfer(&mut rates, 100, 1, 0));
    assert!(!record_transfer(&mut rates, 0, 10, 0));
    assert_eq!(known_rate(&rates, 0), None);
    let mut off = TransferRates::new(BandwidthParameters {
        expiry: DurationMs::ZERO,
        ..Default::default()
    });
    assert!(!record_transfer(&mut off, 100, 10, 0), "it is switched off");
}

#[test]
fn after_an_expiry_transfers_are_counted_anew() {
    let mut rates = rates();
    record_transfer(&mut rates, 100, 8, 0);
    record_transfer(&mut rates, 1, 8, 61 * MINUTE);
    let (from, to) = site_pair();
    let measured = rates.rate_of(&from, &to, Timestamp(61 * MINUTE)).unwrap();
    assert_eq!(
        (measured.bandwidth, measured.transfers),
        (BitsPerSecond(1_000_000), 1)
    );
}

proptest! {
    #[test]
    fn what_is_measured_lies_between_the_slowest_and_the_fastest_transfer(
        transfers in prop::collection::vec((1..10_000u64, 2..1_000u64, 0..20 * MINUTE), 1..20),
        half_life in 0..60 * MINUTE,
    ) {
        let half_life = DurationMs(half_life);
        let mut rates = TransferRates::new(BandwidthParameters { half_life, ..BandwidthParameters::default() });
        let mut now = 0;
        for &(megabytes, secs, pause) in &transfers {
            now += pause;
            record_transfer(&mut rates, megabytes, secs, now);
        }
        let paces = transfers.iter().map(|(megabytes, secs, _)| megabytes * 8_000_000 / secs);
        let least = paces.clone().min().unwrap();
        let most = paces.max().unwrap();
        let known = known_rate(&rates, now).unwrap();
        // Sums are rounded down in the thousandths.
        prop_assert!(known >= least - least / 1_000 - 1, "{known} below {least}");
        prop_assert!(known <= most + most / 1_000 + 1, "{known} above {most}");
    }

    #[test]
    fn with_no_half_life_only_the_latest_transfer_counts(
        transfers in prop::collection::vec((1..10_000u64, 2..1_000u64), 1..9),
    ) {
        let half_life = DurationMs::ZERO;
        let mut rates = TransferRates::new(BandwidthParameters { half_life, ..BandwidthParameters::default() });
        for &(megabytes, secs) in &transfers {
            record_transfer(&mut rates, megabytes, secs, 0);
        }
        let (megabytes, secs) = transfers.last().unwrap();
        prop_assert_eq!(known_rate(&rates, 0), Some(megabytes * 8_000_000 / secs));
    }
}
