//! What sites do wrong, what is lost, and what is asked twice.

use super::*;

fn two_parts() -> Vec<CoallocationPart> {
    vec![part(1, 30, &["R1", "R2"]), part(1, 30, &["R2"])]
}

fn two_free_sites() -> LedgerSites {
    LedgerSites::new(&[("R1", 1, &[(1, 0, 3)]), ("R2", 1, &[(1, 0, 12)])])
}

#[test]
fn a_start_that_was_not_asked_for_is_given_back_at_once() {
    let mut tables = two_free_sites();
    let (search, standing) = tables.run_search_with(job(20, two_parts()), |tables, _, job, ask| {
        let outcome = tables.answer_call(job, ask);
        let ReservationCall::Create {
            site,
            serial,
            part: 0,
            window,
        } = ask
        else {
            return outcome;
        };
        if site.as_str() != "R1" {
            return outcome;
        }
        // R1 grants whatever it likes: an hour after the window.
        let ledger = tables.ledgers.get_mut(site).unwrap();
        ledger.cancel(serial);
        let late = StartWindow::single_start(window.latest + DurationMs(60));
        let wrong = ReservationCall::Create {
            site: site.clone(),
            serial: *serial,
            part: 0,
            window: late,
        };
        tables.answer_call(job, &wrong)
    });
    assert_eq!(
        standing,
        ReservationSearchState::Failed(ReservationSearchFailure::NoCommonStart)
    );
    assert!(search.owned_reservations().next().is_none() && tables.is_empty());
}

#[test]
fn all_are_released_if_one_is_gone_when_they_are_confirmed() {
    for at in ["Check", "Confirm"] {
        let mut tables = two_free_sites();
        let (_, standing) = tables.run_search_with(job(20, two_parts()), |tables, _, job, ask| {
            if format!("{ask:?}").starts_with(at) && ask.site().as_str() == "R2" {
                let serial = *tables.ledgers[ask.site()].reservations().next().unwrap().0;
                tables.ledgers.get_mut(ask.site()).unwrap().cancel(&serial);
            }
            tables.answer_call(job, ask)
        });
        assert_eq!(
            standing,
            ReservationSearchState::Failed(ReservationSearchFailure::LostAtTheEnd),
            "{at}"
        );
        assert!(tables.is_empty(), "{at}");
    }
}

#[test]
fn whenever_a_search_is_given_up_nothing_of_it_is_left() {
    let mut all = two_free_sites();
    all.run_search(job(20, two_parts()));
    for steps in 0..all.asked.len() {
        let mut tables = two_free_sites();
        let mut search = ReservationSearch::new(job(20, two_parts()));
        let mut asked = 0;
        let standing = loop {
            let ReservationSearchState::Asks(ask) = search.current_state() else {
                break search.current_state();
            };
            if asked == steps {
                search.give_up();
            }
            asked += 1;
            let outcome = tables.answer_call(&search.job, &ask);
            search.record_outcome(outcome);
        };
        assert_eq!(
            standing,
            ReservationSearchState::Failed(ReservationSearchFailure::GivenUp),
            "after {steps}"
        );
        assert!(tables.is_empty(), "after {steps}");
    }
}

#[test]
fn asking_everything_twice_leads_to_the_same_reservations() {
    let mut once = two_free_sites();
    let mut twice = two_free_sites();
    let (expected, _) = once.run_search(job(20, two_parts()));
    let (found, standing) = twice.run_search_with(job(20, two_parts()), |tables, _, job, ask| {
        let first = tables.answer_call(job, ask);
        let again = tables.answer_call(job, ask);
        assert!(
            first == again || matches!(ask, ReservationCall::Cancel { .. }),
            "{ask:?}"
        );
        again
    });
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(found, expected);
}

#[test]
fn no_more_windows_are_tried_than_the_job_allows() {
    let mut tables = two_free_sites();
    let (search, standing) = tables.run_search(Coallocation {
        windows_max: 1,
        ..job(20, two_parts())
    });
    assert_eq!(
        standing,
        ReservationSearchState::Failed(ReservationSearchFailure::WindowsTried)
    );
    assert_eq!(search.windows_tried, 1);
    assert!(tables.is_empty());
}

#[test]
fn parts_start_at_their_offsets_from_the_common_start() {
    let late = CoallocationPart {
        offset: DurationMs(10),
        ..part(1, 30, &["R2"])
    };
    let mut tables = LedgerSites::new(&[("R1", 1, &[]), ("R2", 1, &[(1, 0, 18)])]);
    let (search, standing) = tables.run_search(job(20, vec![part(1, 30, &["R1"]), late]));
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("R1", 3), ("R2", 18)])
    );
}

#[test]
fn a_hand_over_between_offsets_changes_the_start_too() {
    let late = CoallocationPart {
        offset: DurationMs(10),
        ..part(1, 30, &["R1"])
    };
    let mut tables = LedgerSites::new(&[("R1", 1, &[]), ("R2", 1, &[])]);
    let (search, standing) = tables.run_search(job(20, vec![part(1, 30, &["R1", "R2"]), late]));
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("R2", 0), ("R1", 10)])
    );
}

#[test]
fn what_cannot_be_co_allocated_is_refused_before_a_site_is_asked() {
    let check = |job: Coallocation, now| job.check_request(Timestamp(now)).unwrap_err().to_string();
    assert_eq!(
        check(job(20, vec![]), 0),
        "there is no component to reserve for"
    );
    assert!(check(job(4, two_parts()), 0).starts_with("starts may be 0.005s apart"));
    assert!(check(job(20, two_parts()), NINE + 21).contains("has passed"));
    let earliest = Timestamp(NINE);
    let latest = Timestamp(NINE - 1);
    let backwards = Coallocation {
        window: StartWindow::new(earliest, latest),
        ..job(20, two_parts())
    };
    assert!(check(backwards, 0).contains("before the earliest"));
    assert_eq!(
        job(5, two_parts()).check_request(Timestamp(NINE + 5)),
        Ok(())
    );
}

#[test]
fn parts_are_served_by_processors_then_memory_then_length() {
    let with_memory = |memory: u64, mut part: CoallocationPart| {
        part.resources.others.insert("memory_mb".into(), memory);
        part
    };
    let small = part(1, 9, &["R1"]);
    let short = with_memory(5, part(1, 2, &[]));
    let long = with_memory(5, part(1, 3, &[]));
    let large = part(2, 1, &["R2"]);
    let mut parts = [
        small.clone(),
        short.clone(),
        long.clone(),
        large.clone(),
        small.clone(),
    ];
    sort_largest_first(&mut parts, "memory_mb");
    assert_eq!(parts, [large, long, short, small.clone(), small]);
}
