//! Reservations that are made while sites are ranked: the best is kept, the others go back.

use proptest::prelude::*;

use super::*;
use crate::acquire::Objective;
use crate::reserve::candidates::{Candidate, Found, Ranking};

/// A site of one processor: its name, from when on it is free, stage-in, run time.
type Known = (&'static str, u64, u64, Option<u64>);

/// Taken until 9:12, 9:03 and 9:00; what starts last is done first.
const THREE: [Known; 3] = [
    ("A", 12, 3, Some(10)),
    ("B", 3, 3, Some(30)),
    ("C", 0, 3, Some(60)),
];

fn ranking(objective: Objective, most: u32, sites: &[Known]) -> Ranking {
    let candidates = sites.iter().map(|(name, _, stage_in, run)| Candidate {
        site: site(name),
        stage_in: Some(DurationMs(*stage_in)),
        execution: run.map(DurationMs),
        expected: None,
        found: Found::NotAsked,
    });
    let (since, stage_out) = (Timestamp(NINE), DurationMs(1));
    Ranking {
        objective,
        since,
        stage_out,
        most,
        candidates: candidates.collect(),
    }
}

fn tables(sites: &[Known]) -> Tables {
    let taken: Vec<(&str, [Taken; 1])> = sites
        .iter()
        .map(|(name, free, ..)| (*name, [(1, 0, *free)]))
        .collect();
    let sites: Vec<(&str, u32, &[Taken])> = taken
        .iter()
        .map(|(name, taken)| (*name, 1, taken.as_slice()))
        .collect();
    Tables::new(&sites)
}

fn ranked(objective: Objective, most: u32, sites: &[Known]) -> Coallocation {
    let names: Vec<&str> = sites.iter().map(|(name, ..)| *name).collect();
    let rankings = vec![ranking(objective, most, sites)];
    Coallocation {
        rankings,
        ..job(60, vec![part(1, 30, &names)])
    }
}

fn kept(objective: Objective, most: u32, sites: &[Known]) -> (Search, Tables) {
    let mut tables = tables(sites);
    let (search, standing) = tables.run(ranked(objective, most, sites));
    assert_eq!(standing, Standing::Confirmed);
    assert_eq!(tables.leases().len(), 1, "all but the best went back");
    (search, tables)
}

#[test]
fn the_site_that_completes_first_is_kept_though_others_start_before() {
    let (search, _) = kept(Objective::EarliestCompletion, 9, &THREE);
    assert_eq!(starts(&search), expected(&[("A", 12)]));
    let found = search.job.rankings[0]
        .candidates
        .iter()
        .map(|candidate| candidate.found);
    let granted = [12, 3, 3].map(|minute| Found::Granted(Timestamp(NINE + minute)));
    assert!(
        found.eq(granted),
        "C is free at once, but not asked before its input is there"
    );
    let (search, _) = kept(Objective::EarliestStart, 9, &THREE);
    assert_eq!(
        starts(&search),
        expected(&[("B", 3)]),
        "of equal ones the first by name"
    );
}

#[test]
fn starts_alone_decide_where_nothing_is_known_of_the_run() {
    let unknown = THREE.map(|(name, free, stage_in, _)| (name, free, stage_in, None));
    let (search, _) = kept(Objective::EarliestCompletion, 9, &unknown);
    assert_eq!(starts(&search), expected(&[("B", 3)]));
    assert_eq!(
        search.job.rankings[0].compares_by(),
        Objective::EarliestStart
    );
}

#[test]
fn no_more_sites_grant_than_are_to_be_compared() {
    let late = ("Z", 200, 0, Some(1));
    let sites = [late, THREE[2], THREE[1], THREE[0]];
    let (search, tables) = kept(Objective::EarliestCompletion, 2, &sites);
    assert_eq!(
        starts(&search),
        expected(&[("B", 3)]),
        "a refusal does not count"
    );
    let creates = tables
        .asked
        .iter()
        .filter(|(_, ask)| matches!(ask, Ask::Create { .. }));
    assert_eq!(creates.count(), 3);
    assert_eq!(search.job.rankings[0].candidates[3].found, Found::NotAsked);
}

#[test]
fn without_a_grant_the_earliest_that_was_named_is_said() {
    let slow = ("C", 0, 61, Some(1));
    let sites = [("A", 200, 0, Some(1)), slow];
    let (search, standing) = tables(&sites).run(ranked(Objective::EarliestStart, 2, &sites));
    assert_eq!(standing, Standing::Failed(Failure::NoCommonStart));
    assert_eq!(
        search.best,
        Some(Timestamp(NINE + 61)),
        "when the input is there"
    );
    assert_eq!(search.job.rankings[0].candidates[1].found, Found::TooLate);
}

#[test]
fn what_is_lost_when_it_is_to_be_kept_makes_way_to_the_next_best() {
    let mut tables = tables(&THREE);
    let job = ranked(Objective::EarliestCompletion, 9, &THREE);
    let (search, standing) = tables.run_with(job, |tables, _, job, ask| {
        if let Ask::Confirm { site, serial } = ask
            && site.as_str() == "A"
        {
            tables.ledgers.get_mut(site).unwrap().cancel(serial);
        }
        tables.answer(job, ask)
    });
    assert_eq!(standing, Standing::Confirmed);
    assert_eq!(starts(&search), expected(&[("B", 3)]));
    assert_eq!(search.job.rankings[0].candidates[0].found, Found::Lost);
    assert_eq!(tables.leases().len(), 1);
}

/// What goes wrong at a step.
#[derive(Debug, Clone, Copy)]
enum Trouble {
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

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        12 => Just(Trouble::None),
        2 => Just(Trouble::Refuses),
        2 => Just(Trouble::Loses),
        2 => Just(Trouble::Wrong),
        2 => Just(Trouble::Twice),
        1 => Just(Trouble::GivenUp),
    ]
}

fn answered(tables: &mut Tables, job: &Coallocation, ask: &Ask, trouble: Trouble) -> Outcome {
    match (trouble, ask) {
        (Trouble::Refuses, Ask::Create { .. }) => Outcome::Refused { next: None },
        (Trouble::Loses, Ask::Confirm { site, serial } | Ask::Cancel { site, serial }) => {
            tables.ledgers.get_mut(site).unwrap().cancel(serial);
            tables.answer(job, ask)
        }
        (
            Trouble::Wrong,
            Ask::Create {
                site,
                serial,
                part,
                window,
            },
        ) => {
            let window = StartWindow::exactly(window.latest + DurationMs(60));
            let (site, serial, part) = (site.clone(), *serial, *part);
            tables.answer(
                job,
                &Ask::Create {
                    site,
                    serial,
                    part,
                    window,
                },
            )
        }
        (Trouble::Twice, _) => {
            let first = tables.answer(job, ask);
            let again = tables.answer(job, ask);
            assert!(
                first == again || matches!(ask, Ask::Cancel { .. }),
                "{ask:?}"
            );
            again
        }
        _ => tables.answer(job, ask),
    }
}

proptest! {
    /// After each step the sites hold what the search answers for, and at its end one reservation,
    /// the best of those that were granted and not lost; or none.
    #[test]
    fn whatever_goes_wrong_one_reservation_is_left_or_none(
        troubles in prop::collection::vec(trouble(), 0..14),
        most in 1..5_u32,
        by_start in any::<bool>(),
    ) {
        let objective = match by_start {
            true => Objective::EarliestStart,
            false => Objective::EarliestCompletion,
        };
        let mut tables = tables(&THREE);
        let mut search = Search::new(ranked(objective, most, &THREE));
        let mut troubles = troubles.into_iter();
        let mut given_up = false;
        while let Standing::Asks(ask) = search.standing() {
            let trouble = troubles.next().unwrap_or(Trouble::None);
            if matches!(trouble, Trouble::GivenUp) {
                search.give_up();
                given_up = true;
            }
            let job = search.job.clone();
            let outcome = answered(&mut tables, &job, &ask, trouble);
            search.record(outcome);
            let owned = search.owned().map(|r| (r.serial, (r.site.clone(), r.start)));
            prop_assert_eq!(tables.leases(), owned.collect(), "after {:?}: {:?}", ask, outcome);
        }
        let left = tables.leases().len();
        let ranking = &search.job.rankings[0];
        match search.standing() {
            Standing::Confirmed => {
                prop_assert_eq!(left, 1);
                prop_assert!(!given_up);
                let best = ranking.best_first().0[0];
                let kept = search.reserved()[0].as_ref().unwrap();
                prop_assert_eq!(&ranking.candidates[best].site, &kept.site);
            }
            Standing::Failed(_) => prop_assert_eq!(left, 0),
            Standing::Asks(_) => unreachable!(),
        }
    }
}
