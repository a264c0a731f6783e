use proptest::prelude::*;

use super::*;

const WINDOW: DurationMs = DurationMs::from_secs(60);

fn site(i: usize) -> SiteName {
    SiteName::new(&format!("s{i}")).unwrap()
}

fn isolation_of_sites(sites: usize) -> IsolationDetector {
    let mut isolation = IsolationDetector::new(WINDOW);
    (0..sites).for_each(|i| isolation.watch_site(site(i)));
    isolation
}

fn at(secs: u64) -> Timestamp {
    Timestamp(secs * 1000)
}

#[test]
fn half_of_the_sites_lost_within_the_window_is_our_own_fault() {
    let mut isolation = isolation_of_sites(4);
    assert!(!isolation.note_loss(&site(0), at(0)));
    assert!(isolation.note_loss(&site(1), at(60)));
    assert_eq!(isolation.isolated_since(), Some(at(60)));
}

#[test]
fn losses_further_apart_than_the_window_are_the_sites_own() {
    let mut isolation = isolation_of_sites(4);
    isolation.note_loss(&site(0), at(0));
    isolation.note_loss(&site(1), at(61));
    assert!(!isolation.is_isolated());
}

#[test]
fn the_only_site_of_a_small_grid_never_isolates_us() {
    let mut isolation = isolation_of_sites(1);
    assert!(!isolation.note_loss(&site(0), at(0)));
    let mut isolation = isolation_of_sites(2);
    assert!(!isolation.note_loss(&site(0), at(0)));
    assert!(isolation.note_loss(&site(1), at(1)));
}

#[test]
fn the_first_answer_of_any_site_ends_it() {
    for answering in 0..3 {
        let mut isolation = isolation_of_sites(3);
        isolation.note_loss(&site(0), at(0));
        isolation.note_loss(&site(1), at(1));
        assert!(isolation.note_answer(&site(answering)));
        assert!(!isolation.is_isolated());
        assert!(!isolation.note_answer(&site(answering)), "it ends once");
    }
}

#[test]
fn sites_that_have_long_been_down_do_not_hide_the_loss_of_all_others() {
    let mut isolation = isolation_of_sites(6);
    for i in 0..4 {
        isolation.note_loss(&site(i), at(100 * i as u64));
    }
    assert!(!isolation.is_isolated());
    isolation.note_loss(&site(4), at(10_000));
    assert!(isolation.note_loss(&site(5), at(10_010)));
}

#[test]
fn a_site_that_is_gone_from_the_configuration_counts_no_more() {
    let mut isolation = isolation_of_sites(3);
    isolation.note_loss(&site(0), at(0));
    isolation.unwatch_site(&site(0));
    isolation.note_loss(&site(1), at(1));
    assert!(!isolation.is_isolated());
    assert!(
        !isolation.note_loss(&site(0), at(2)),
        "nor does what is told of it"
    );
    assert!(!isolation.note_answer(&site(0)));
}

#[derive(Debug, Clone)]
enum ContactReport {
    Lost(usize),
    Answered(usize),
    Later(u64),
}

fn any_reports() -> impl Strategy<Value = Vec<ContactReport>> {
    let one = prop_oneof![
        4 => (0_usize..6).prop_map(ContactReport::Lost),
        2 => (0_usize..6).prop_map(ContactReport::Answered),
        2 => (0_u64..50).prop_map(ContactReport::Later),
    ];
    prop::collection::vec(one, 0..60)
}

proptest! {
    #[test]
    fn we_are_isolated_from_the_loss_of_half_until_an_answer(sites in 1_usize..7, told in any_reports()) {
        let mut isolation = isolation_of_sites(sites);
        let mut lost: Vec<Option<u64>> = vec![None; sites];
        let mut now = 0;
        let mut expected = false;
        for one in told {
            match one {
                ContactReport::Later(secs) => now += secs,
                ContactReport::Lost(i) if i < sites => {
                    if lost[i].is_none() {
                        lost[i] = Some(now);
                        let recent = lost.iter().flatten().filter(|t| now - **t <= 60).count();
                        let long_gone = lost.iter().flatten().count() - recent;
                        expected |= recent >= 2 && 2 * recent >= sites - long_gone;
                    }
                    isolation.note_loss(&site(i), at(now));
                }
                ContactReport::Answered(i) if i < sites => {
                    (lost[i], expected) = (None, false);
                    isolation.note_answer(&site(i));
                }
                ContactReport::Lost(_) | ContactReport::Answered(_) => {}
            }
            prop_assert_eq!(isolation.is_isolated(), expected);
        }
    }

    #[test]
    fn the_loss_of_all_sites_at_once_is_ours_whatever_was_before(
        sites in 2_usize..7, told in any_reports(), order in Just((0..7).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let mut isolation = isolation_of_sites(sites);
        let mut now = 0;
        for one in told {
            match one {
                ContactReport::Later(secs) => now += secs,
                ContactReport::Lost(i) => _ = isolation.note_loss(&site(i), at(now)),
                ContactReport::Answered(i) => _ = isolation.note_answer(&site(i)),
            }
        }
        for i in 0..sites {
            isolation.note_answer(&site(i));
        }
        for i in order {
            isolation.note_loss(&site(i), at(now));
        }
        prop_assert!(isolation.is_isolated());
    }
}
