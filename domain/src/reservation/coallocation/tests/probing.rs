//! Reservations that are made while sites are ranked: the best is kept, the others go back.

use proptest::prelude::*;

use super::*;
use crate::acquisition::RankingObjective;
use crate::reservation::candidates::{CandidateState, ReservationCandidate, SiteRanking};

/// A site of one processor: its name, from when on it is free, stage-in, run time.
type OneProcessorSite = (&'static str, u64, u64, Option<u64>);

/// Taken until 9:12, 9:03 and 9:00; what starts last is done first.
const THREE: [OneProcessorSite; 3] = [
    ("A", 12, 3, Some(10)),
    ("B", 3, 3, Some(30)),
    ("C", 0, 3, Some(60)),
];

fn ranking(objective: RankingObjective, most: u32, sites: &[OneProcessorSite]) -> SiteRanking {
    let candidates = sites
        .iter()
        .map(|(name, _, stage_in, run)| ReservationCandidate {
            site: site(name),
            stage_in: Some(DurationMs(*stage_in)),
            execution: run.map(DurationMs),
            expected: None,
            found: CandidateState::NotAsked,
        });
    let since = Timestamp(NINE);
    let stage_out = DurationMs(1);
    SiteRanking {
        objective,
        since,
        stage_out,
        most,
        candidates: candidates.collect(),
    }
}

fn one_processor_sites(sites: &[OneProcessorSite]) -> LedgerSites {
    let taken: Vec<(&str, [TakenProcessors; 1])> = sites
        .iter()
        .map(|(name, free, ..)| (*name, [(1, 0, *free)]))
        .collect();
    let sites: Vec<(&str, u32, &[TakenProcessors])> = taken
        .iter()
        .map(|(name, taken)| (*name, 1, taken.as_slice()))
        .collect();
    LedgerSites::new(&sites)
}

fn ranked_job(objective: RankingObjective, most: u32, sites: &[OneProcessorSite]) -> Coallocation {
    let names: Vec<&str> = sites.iter().map(|(name, ..)| *name).collect();
    let rankings = vec![ranking(objective, most, sites)];
    Coallocation {
        rankings,
        ..job(60, vec![part(1, 30, &names)])
    }
}

fn run_ranked_search(
    objective: RankingObjective,
    most: u32,
    sites: &[OneProcessorSite],
) -> (ReservationSearch, LedgerSites) {
    let mut tables = one_processor_sites(sites);
    let (search, standing) = tables.run_search(ranked_job(objective, most, sites));
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(
        tables.reservations_by_serial().len(),
        1,
        "all but the best went back"
    );
    (search, tables)
}

#[test]
fn the_site_that_completes_first_is_kept_though_others_start_before() {
    let (search, _) = run_ranked_search(RankingObjective::EarliestCompletion, 9, &THREE);
    assert_eq!(starts_of_parts(&search), expected_starts(&[("A", 12)]));
    let found = search.job.rankings[0]
        .candidates
        .iter()
        .map(|candidate| candidate.found);
    let granted = [12, 3, 3].map(|minute| CandidateState::Granted(Timestamp(NINE + minute)));
    assert!(
        found.eq(granted),
        "C is free at once, but not asked before its input is there"
    );
    let (search, _) = run_ranked_search(RankingObjective::EarliestStart, 9, &THREE);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("B", 3)]),
        "of equal ones the first by name"
    );
}

#[test]
fn starts_alone_decide_where_nothing_is_known_of_the_run() {
    let unknown = THREE.map(|(name, free, stage_in, _)| (name, free, stage_in, None));
    let (search, _) = run_ranked_search(RankingObjective::EarliestCompletion, 9, &unknown);
    assert_eq!(starts_of_parts(&search), expected_starts(&[("B", 3)]));
    assert_eq!(
        search.job.rankings[0].effective_objective(),
        RankingObjective::EarliestStart
    );
}

#[test]
fn no_more_sites_grant_than_are_to_be_compared() {
    let late = ("Z", 200, 0, Some(1));
    let sites = [late, THREE[2], THREE[1], THREE[0]];
    let (search, tables) = run_ranked_search(RankingObjective::EarliestCompletion, 2, &sites);
    assert_eq!(
        starts_of_parts(&search),
        expected_starts(&[("B", 3)]),
        "a refusal does not count"
    );
    let creates = tables
        .asked
        .iter()
        .filter(|(_, ask)| matches!(ask, ReservationCall::Create { .. }));
    assert_eq!(creates.count(), 3);
    assert_eq!(
        search.job.rankings[0].candidates[3].found,
        CandidateState::NotAsked
    );
}

#[test]
fn without_a_grant_the_earliest_that_was_named_is_said() {
    let slow = ("C", 0, 61, Some(1));
    let sites = [("A", 200, 0, Some(1)), slow];
    let (search, standing) = one_processor_sites(&sites).run_search(ranked_job(
        RankingObjective::EarliestStart,
        2,
        &sites,
    ));
    assert_eq!(
        standing,
        ReservationSearchState::Failed(ReservationSearchFailure::NoCommonStart)
    );
    assert_eq!(
        search.best,
        Some(Timestamp(NINE + 61)),
        "when the input is there"
    );
    assert_eq!(
        search.job.rankings[0].candidates[1].found,
        CandidateState::TooLate
    );
}

#[test]
fn what_is_lost_when_it_is_to_be_kept_makes_way_to_the_next_best() {
    let mut tables = one_processor_sites(&THREE);
    let job = ranked_job(RankingObjective::EarliestCompletion, 9, &THREE);
    let (search, standing) = tables.run_search_with(job, |tables, _, job, ask| {
        if let ReservationCall::Confirm { site, serial } = ask
            && site.as_str() == "A"
        {
            tables.ledgers.get_mut(site).unwrap().cancel(serial);
        }
        tables.answer_call(job, ask)
    });
    assert_eq!(standing, ReservationSearchState::Confirmed);
    assert_eq!(starts_of_parts(&search), expected_starts(&[("B", 3)]));
    assert_eq!(
        search.job.rankings[0].candidates[0].found,
        CandidateState::Lost
    );
    assert_eq!(tables.reservations_by_serial().len(), 1);
}

/// What goes wrong at a step.
#[derive(Debug, Clone, Copy)]
enum SearchFault {
    None,
    /// The site says no to all that it is asked for.
    Refuses,
    /// It has what it granted no more.
    Loses,
    /// It grants an hour after the window.
    Wrong,
    /// It is asked again, as the first answer was lost.
    Twice,
    /// The job is cancelled while it is asked.
    GivenUp,
}

fn any_search_fault() -> impl Strategy<Value = SearchFault> {
    prop_oneof![
        12 => Just(SearchFault::None),
        2 => Just(SearchFault::Refuses),
        2 => Just(SearchFault::Loses),
        2 => Just(SearchFault::Wrong),
        2 => Just(SearchFault::Twice),
        1 => Just(SearchFault::GivenUp),
    ]
}

fn answer_with_fault(
    tables: &mut LedgerSites,
    job: &Coallocation,
    ask: &ReservationCall,
    trouble: SearchFault,
) -> ReservationOutcome {
    match (trouble, ask) {
        (SearchFault::Refuses, ReservationCall::Create { .. }) => {
            ReservationOutcome::Refused { next: None }
        }
        (
            SearchFault::Loses,
            ReservationCall::Confirm { site, serial } | ReservationCall::Cancel { site, serial },
        ) => {
            tables.ledgers.get_mut(site).unwrap().cancel(serial);
            tables.answer_call(job, ask)
        }
        (
            SearchFault::Wrong,
            ReservationCall::Create {
                site,
                serial,
                part,
                window,
            },
        ) => {
            let window = StartWindow::single_start(window.latest + DurationMs(60));
            let site = site.clone();
            let serial = *serial;
            let part = *part;
            tables.answer_call(
                job,
                &ReservationCall::Create {
                    site,
                    serial,
                    part,
                    window,
                },
            )
        }
        (SearchFault::Twice, _) => {
            let first = tables.answer_call(job, ask);
            let again = tables.answer_call(job, ask);
            assert!(
                first == again || matches!(ask, ReservationCall::Cancel { .. }),
                "{ask:?}"
            );
            again
        }
        _ => tables.answer_call(job, ask),
    }
}

proptest! {
    /// After each step the sites hold what the search answers for, and at its end one reservation,
    /// the best of those that were granted and not lost; or none.
    #[test]
    fn whatever_goes_wrong_one_reservation_is_left_or_none(
        troubles in prop::collection::vec(any_search_fault(), 0..14),
        most in 1..5_u32,
        by_start in any::<bool>(),
    ) {
        let objective = if by_start { RankingObjective::EarliestStart } else { RankingObjective::EarliestCompletion };
        let mut tables = one_processor_sites(&THREE);
        let mut search = ReservationSearch::new(ranked_job(objective, most, &THREE));
        let mut troubles = troubles.into_iter();
        let mut given_up = false;
        while let ReservationSearchState::Asks(ask) = search.current_state() {
            let trouble = troubles.next().unwrap_or(SearchFault::None);
            if matches!(trouble, SearchFault::GivenUp) {
                search.give_up();
                given_up = true;
            }
            let job = search.job.clone();
            let outcome = answer_with_fault(&mut tables, &job, &ask, trouble);
            search.record_outcome(outcome);
            let owned = search.owned_reservations().map(|r| (r.serial, (r.site.clone(), r.start)));
            prop_assert_eq!(tables.reservations_by_serial(), owned.collect(), "after {:?}: {:?}", ask, outcome);
        }
        let left = tables.reservations_by_serial().len();
        let ranking = &search.job.rankings[0];
        match search.current_state() {
            ReservationSearchState::Confirmed => {
                prop_assert_eq!(left, 1);
                prop_assert!(!given_up);
                let best = ranking.candidates_best_first().0[0];
                let kept = search.part_reservations()[0].as_ref().unwrap();
                prop_assert_eq!(&ranking.candidates[best].site, &kept.site);
            }
            ReservationSearchState::Failed(_) => prop_assert_eq!(left, 0),
            ReservationSearchState::Asks(_) => unreachable!(),
        }
    }
}
