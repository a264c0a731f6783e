//! The worked examples, CO-1 to CO-10.

use super::*;

fn window(from: u64, to: u64) -> StartWindow {
    StartWindow::new(Timestamp(NINE + from), Timestamp(NINE + to))
}

/// The paper's example (section 3.2.4).
fn paper_example() -> (LedgerSites, Coallocation) {
    let tables = LedgerSites::new(&[
        ("R1", 2, &[(2, 7, 11)]),
        ("R2", 1, &[(1, 15, 19)]),
        ("R3", 2, &[(1, 0, 9), (1, 0, 15)]),
        ("R4", 1, &[(1, 0, 8)]),
    ]);
    let parts = vec![
        part(2, 5, &["R1", "R3"]),
        part(1, 10, &["R2", "R4"]),
        part(1, 5, &["R3", "R4"]),
    ];
    (tables, job(20, parts))
}

#[test]
fn co_1_the_papers_example_takes_three_windows_and_one_path() {
    let (mut tables, job) = paper_example();
    let (search, standing) = tables.run_search(job);
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("R1", 11), ("R4", 8), ("R3", 9)])
    );
    assert_eq!((search.windows_tried, search.window), (3, window(6, 11)));
    assert_eq!(tables.ledgers[&site("R2")].reservations().count(), 0);
    let mut windows: Vec<_> = tables.asked.iter().map(|(window, _)| *window).collect();
    windows.dedup();
    assert_eq!(windows, [window(0, 5), window(3, 8), window(6, 11)]);
    let r4 = search.part_reservations()[1].clone().unwrap().serial;
    let handed_over = ReservationCall::Modify {
        site: site("R4"),
        serial: r4,
        part: 1,
        window: window(8, 8),
    };
    let at = tables
        .asked
        .iter()
        .position(|(_, ask)| *ask == handed_over)
        .unwrap();
    let created = &tables.asked[at - 1].1;
    assert!(
        matches!(created, ReservationCall::Create { part: 2, site, .. } if site.as_str() == "R3")
    );
}

#[test]
fn co_2_a_path_over_three_jobs_is_updated_from_its_end() {
    let mut tables = second_example_sites();
    let (search, standing) = tables.run_search(second_example_job());
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("R2", 0), ("R3", 0), ("R1", 0)])
    );
    assert_eq!(search.windows_tried, 1);
    let asks: Vec<String> = tables
        .asked
        .iter()
        .map(|(_, ask)| describe_call(ask))
        .collect();
    let path = ["create J2 at R3", "change R2 to J1", "change R1 to J3"];
    assert_eq!(asks[3..6], path);
    assert!(
        asks[6..]
            .iter()
            .all(|ask| ask.starts_with("check") || ask.starts_with("confirm"))
    );
}

fn second_example_sites() -> LedgerSites {
    LedgerSites::new(&[("R1", 1, &[]), ("R2", 1, &[]), ("R3", 1, &[])])
}

fn second_example_job() -> Coallocation {
    let sites: [&[&str]; 3] = [&["R1", "R2"], &["R2", "R3"], &["R1"]];
    job(20, sites.map(|sites| part(1, 60, sites)).into())
}

fn describe_call(ask: &ReservationCall) -> String {
    match ask {
        ReservationCall::Create { site, part, .. } => format!("create J{} at {site}", part + 1),
        ReservationCall::Modify { site, part, .. } => format!("change {site} to J{}", part + 1),
        ReservationCall::Check { site, .. } => format!("check {site}"),
        ReservationCall::Confirm { site, .. } => format!("confirm {site}"),
        ReservationCall::Cancel { site, .. } => format!("cancel {site}"),
    }
}

#[test]
fn co_3_what_is_never_possible_fails_in_the_first_window() {
    let mut tables = LedgerSites::new(&[("R1", 2, &[]), ("R2", 2, &[])]);
    let (search, standing) =
        tables.run_search(job(20, vec![part(4, 60, &["R1"]), part(2, 60, &["R2"])]));
    assert_eq!(
        standing,
        ReservationSearchState::Failed(ReservationSearchFailure::Never)
    );
    assert_eq!(search.windows_tried, 1);
    assert!(tables.is_empty());
}

#[test]
fn co_4_no_part_ever_starts_after_the_latest_start() {
    let mut tables = LedgerSites::new(&[("R1", 1, &[]), ("R2", 1, &[(1, 0, 22)])]);
    let (search, standing) =
        tables.run_search(job(20, vec![part(1, 60, &["R1"]), part(1, 60, &["R2"])]));
    assert_eq!(
        standing,
        ReservationSearchState::Failed(ReservationSearchFailure::NoCommonStart)
    );
    assert_eq!((search.windows_tried, search.window), (2, window(15, 20)));
    assert!(tables.is_empty());
}

#[test]
fn co_5_the_window_slides_and_takes_reservations_along() {
    let mut tables = LedgerSites::new(&[("R1", 1, &[]), ("R2", 1, &[(1, 0, 12)])]);
    let (search, standing) =
        tables.run_search(job(20, vec![part(1, 30, &["R1"]), part(1, 30, &["R2"])]));
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("R1", 7), ("R2", 12)])
    );
    assert_eq!((search.windows_tried, search.window), (2, window(7, 12)));
    let first = search.part_reservations()[0].clone().unwrap().serial;
    assert_eq!(
        first,
        ReservationSerial(1),
        "it was modified, not made anew"
    );
}

#[test]
fn co_6_a_reservation_that_is_still_inside_is_left_alone() {
    let mut tables = LedgerSites::new(&[("R1", 1, &[(1, 0, 4)]), ("R2", 1, &[(1, 0, 7)])]);
    let (search, standing) =
        tables.run_search(job(20, vec![part(1, 30, &["R1"]), part(1, 30, &["R2"])]));
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("R1", 4), ("R2", 7)])
    );
    let second = tables.asked.iter().filter(|(at, _)| *at == window(2, 7));
    let changes = second.filter(|(_, ask)| {
        !describe_call(ask).starts_with('c') || matches!(ask, ReservationCall::Create { .. })
    });
    let changes: Vec<String> = changes.map(|(_, ask)| describe_call(ask)).collect();
    assert_eq!(changes, ["create J2 at R2"]);
}

#[test]
fn co_7_one_site_may_hold_several_reservations_of_a_job() {
    let mut tables = LedgerSites::new(&[("R1", 4, &[])]);
    let (search, standing) =
        tables.run_search(job(20, vec![part(2, 60, &["R1"]), part(2, 60, &["R1"])]));
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("R1", 0), ("R1", 0)])
    );
    assert!(
        !tables
            .asked
            .iter()
            .any(|(_, ask)| matches!(ask, ReservationCall::Modify { .. }))
    );
}

#[test]
fn co_8_a_path_that_fails_says_when_it_may_succeed() {
    let mut tables = LedgerSites::new(&[("R1", 1, &[]), ("R2", 1, &[(1, 0, 9)])]);
    let (search, standing) = tables.run_search(job(
        20,
        vec![part(1, 60, &["R1", "R2"]), part(1, 60, &["R1"])],
    ));
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("R2", 9), ("R1", 4)])
    );
    assert_eq!((search.windows_tried, search.window), (2, window(4, 9)));
}

#[test]
fn co_9_a_hint_that_is_not_after_the_window_still_moves_it_on() {
    let mut tables = LedgerSites::new(&[("R1", 1, &[])]);
    let early = ReservationOutcome::Refused {
        next: Some(Timestamp(NINE + 3)),
    };
    let (search, standing) =
        tables.run_search_with(job(20, vec![part(1, 60, &["R1"])]), |_, _, _, _| early);
    assert_eq!(
        standing,
        ReservationSearchState::Failed(ReservationSearchFailure::NoCommonStart)
    );
    assert_eq!(
        search.windows_tried,
        1 + 15,
        "9:00 to 9:05, and one for each minute after"
    );
    assert_eq!(tables.asked[1].0, window(1, 6));
}

#[test]
fn co_10_a_reservation_lost_on_the_way_orphans_no_other() {
    let mut tables = second_example_sites();
    let mut states = Vec::new();
    let (_, standing) = tables.run_search_with(second_example_job(), |tables, search, job, ask| {
        states.push(starts_of_parts(search));
        if describe_call(ask) == "change R2 to J1" {
            let ReservationCall::Modify { serial, .. } = ask else {
                panic!("{ask:?}")
            };
            tables.ledgers.get_mut(&site("R2")).unwrap().cancel(serial);
            return ReservationOutcome::Lost { next: None };
        }
        tables.answer_call(job, ask)
    });
    // J1, J2 and no J3; the sites hold the same, which is checked after each step.
    assert!(states.contains(&expected_starts(&[("R1", 0), ("R3", 0)])));
    let last = tables
        .asked
        .iter()
        .filter(|(_, ask)| describe_call(ask) == "change R2 to J1")
        .count();
    assert_eq!(last, 1, "the search goes on without R2");
    assert_eq!(standing, ReservationSearchState::Confirmed);
}
