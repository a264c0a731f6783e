use proptest::prelude::*;

use super::*;

fn parameters() -> ContactParameters {
    ContactParameters {
        unreachable_failures: 3,
        unreachable_after: DurationMs::from_secs(30),
    }
}

fn log_after(results: &[(SiteQueryOutcome, u64)]) -> ContactLog {
    let mut log = ContactLog::default();
    for (result, secs) in results {
        log.note_result(*result, &parameters(), Timestamp(secs * 1000));
    }
    log
}

use SiteQueryOutcome::{Answered, CredentialsExpired, Failed, OutOfOrder};

#[test]
fn a_failed_query_is_no_information() {
    let log = log_after(&[(Answered, 0), (Failed, 10), (Failed, 39)]);
    assert_eq!(
        log.contact(),
        SiteContact::Answering {
            last_at: Timestamp(0)
        }
    );
    assert_eq!(log.failures_in_a_row(), 2);
}

#[test]
fn many_failures_at_once_are_not_enough() {
    let log = log_after(&[
        (Answered, 0),
        (Failed, 1),
        (Failed, 2),
        (Failed, 3),
        (Failed, 30),
    ]);
    assert!(log.contact().is_answering());
}

#[test]
fn enough_failures_over_time_make_a_site_unreachable_since_the_first() {
    let log = log_after(&[(Answered, 5), (Failed, 10), (Failed, 20), (Failed, 40)]);
    let last_answer = Some(Timestamp(5_000));
    assert_eq!(
        log.contact(),
        SiteContact::Unreachable {
            since: Timestamp(10_000),
            last_answer
        }
    );
    assert_eq!(log.contact().unreachable_since(), Some(Timestamp(10_000)));
}

#[test]
fn a_site_that_is_down_at_our_start_becomes_unreachable_too() {
    let log = log_after(&[(Failed, 0), (Failed, 29)]);
    assert_eq!(log.contact(), SiteContact::NeverAnswered);
    let log = log_after(&[(Failed, 0), (Failed, 29), (Failed, 30)]);
    assert!(log.contact().unreachable_since().is_some());
}

#[test]
fn failures_before_an_answer_do_not_count_after_it() {
    let log = log_after(&[
        (Failed, 0),
        (Failed, 30),
        (Answered, 31),
        (Failed, 60),
        (Failed, 90),
    ]);
    assert!(log.contact().is_answering());
}

#[test]
fn a_site_that_is_out_of_order_is_of_no_use_at_once_and_until_it_answers() {
    let log = log_after(&[(Answered, 5), (OutOfOrder, 10)]);
    let last_answer = Some(Timestamp(5_000));
    assert_eq!(
        log.contact(),
        SiteContact::Unreachable {
            since: Timestamp(10_000),
            last_answer
        }
    );
    let log = log_after(&[(OutOfOrder, 10), (OutOfOrder, 12), (Failed, 14)]);
    assert_eq!(log.contact().unreachable_since(), Some(Timestamp(10_000)));
    let log = log_after(&[(OutOfOrder, 10), (OutOfOrder, 12), (Answered, 14)]);
    assert!(log.contact().is_answering());
}

#[test]
fn refused_credentials_are_known_at_once_and_stay_until_it_answers() {
    let log = log_after(&[
        (CredentialsExpired, 1),
        (Failed, 10),
        (Failed, 20),
        (Failed, 90),
    ]);
    assert_eq!(
        log.contact(),
        SiteContact::CredentialsExpired {
            since: Timestamp(1_000)
        }
    );
    let log = log_after(&[
        (CredentialsExpired, 1),
        (CredentialsExpired, 9),
        (Answered, 10),
    ]);
    assert!(log.contact().is_answering());
}

#[test]
fn a_clock_set_back_by_an_hour_does_not_put_off_the_verdict_by_an_hour() {
    let log = log_after(&[(Failed, 4000), (Failed, 400), (Failed, 410), (Failed, 430)]);
    assert_eq!(log.contact().unreachable_since(), Some(Timestamp(400_000)));
}

proptest! {
    #[test]
    fn a_site_is_unreachable_only_after_failures_in_a_row_over_time(
        results in prop::collection::vec(
            (prop_oneof![4 => Just(Failed), 1 => Just(Answered)], 0_u64..20), 0..60),
    ) {
        let mut log = ContactLog::default();
        let mut now: u64 = 0;
        let mut row: Vec<u64> = Vec::new();
        for (result, secs) in results {
            now += secs;
            let before = log.contact();
            let told = log.note_result(result, &parameters(), Timestamp(now * 1000));
            match result {
                Failed => row.push(now),
                _ => row.clear(),
            }
            let expected = row.len() >= 3 && now - row[0] >= 30;
            prop_assert_eq!(log.contact().unreachable_since().is_some(), expected);
            let changed = std::mem::discriminant(&before) != std::mem::discriminant(&log.contact());
            prop_assert_eq!(told.is_some(), changed);
        }
    }
}
