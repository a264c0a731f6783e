use std::collections::BTreeSet;

use cospan_domain::units::DurationMs;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::campaign::{CampaignSize, run_seed};
use super::draw_reservations::add_reservations;
use super::draw_shared_reservations::add_shared_reservations;
use super::quiet_runs::QuietRun;
use super::run::{SeedVerdict, run};
use super::seed_scenario::{SeedScenario, UserAction};

const SMALL: CampaignSize = CampaignSize {
    jobs: 30,
    sites: 3,
    length: DurationMs::from_secs(3 * 3_600),
};

fn hold(verdict: &SeedVerdict) {
    let SeedVerdict {
        drawn,
        unsafe_,
        not_live,
        ..
    } = verdict;
    assert!(verdict.holds(), "{drawn}\n{unsafe_:#?}\n{not_live:?}");
}

#[test]
fn drawn_trouble_breaks_no_rule_and_everything_comes_to_rest() {
    for number in 1..=4 {
        let verdict = run_seed(number, SMALL).unwrap();
        hold(&verdict);
        let submitted = SeedScenario::draw(number, SMALL.jobs, SMALL.sites, SMALL.length).unwrap();
        let submitted = submitted.jobs.len();
        assert_eq!(
            verdict.jobs.0, submitted,
            "every submission is acknowledged in the end"
        );
    }
}

#[test]
fn a_seed_is_the_same_run_every_time_on_whatever_thread() {
    let hash = || run_seed(7, SMALL).unwrap().hash;
    let first = hash();
    let others = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(hash)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(others, [first].into());
    assert_ne!(
        others,
        [run_seed(8, SMALL).unwrap().hash].into(),
        "another seed is another run"
    );
}

/// Sites that grant, lose and misunderstand reservations, in every run.
#[test]
fn promised_starts_are_kept_or_told_of_under_drawn_trouble() {
    let mut promised = 0;
    for number in 1..=12 {
        let CampaignSize {
            jobs,
            sites,
            length,
        } = SMALL;
        let mut scenario = SeedScenario::draw(number, jobs, sites, length).unwrap();
        add_reservations(&mut scenario, &mut StdRng::seed_from_u64(number));
        let verdict = run(scenario).unwrap();
        promised += under_reservations(&verdict);
        hold(&verdict);
    }
    assert!(
        promised > 50,
        "only {promised} attempts ran under reservations"
    );
}

/// `cospan-chaos deaths` tries each moment.
#[test]
fn a_death_at_a_step_of_a_promise_leaves_no_reservation_behind() {
    let quiet = QuietRun::of_promises().unwrap();
    let timeline = &quiet.undisturbed.timeline;
    for what in [
        "ReservationSought",
        "ReservationAnswered",
        "ReservationMove",
        "Reserved(",
    ] {
        assert!(
            timeline.iter().any(|(.., text)| text.contains(what)),
            "{what}"
        );
    }
    die_at_some(&quiet);
}

#[test]
fn shared_reservations_hold_at_all_of_their_sites_or_none_under_drawn_trouble() {
    let mut together = 0;
    let mut ran = 0;
    for number in 1..=20 {
        let CampaignSize {
            jobs,
            sites,
            length,
        } = SMALL;
        let mut scenario = SeedScenario::draw(number, jobs, sites, length).unwrap();
        scenario.by_slurm = false;
        add_shared_reservations(&mut scenario, &mut StdRng::seed_from_u64(number)).unwrap();
        together += scenario
            .actions
            .iter()
            .filter(|(_, action)| is_at_several(action))
            .count();
        let verdict = run(scenario).unwrap();
        ran += under_reservations(&verdict);
        hold(&verdict);
    }
    assert!(
        together > 5 && ran > 5,
        "{together} at several sites, {ran} attempts"
    );
}

/// Whether it is an order for a reservation at several sites.
fn is_at_several(action: &UserAction) -> bool {
    matches!(action, UserAction::Reserve(_, wish) if !wish.parts.is_empty())
}

/// Attempts that ran under reservations.
fn under_reservations(verdict: &SeedVerdict) -> usize {
    verdict
        .timeline
        .iter()
        .filter(|(.., what)| what.contains("Reserved("))
        .count()
}

/// `cospan-chaos deaths` tries each moment.
#[test]
fn a_death_at_an_append_or_call_loses_and_doubles_nothing() {
    die_at_some(&QuietRun::of_jobs().unwrap());
}

/// A few of each kind, all over the run.
fn die_at_some(quiet: &QuietRun) {
    let moments = quiet.moments();
    let mut deaths = 0;
    for moment in moments.iter().step_by(moments.len().div_ceil(12)) {
        let verdict = quiet.with_death_at(*moment).unwrap();
        assert!(
            verdict.holds(),
            "{moment:?}: {:#?} {:?}",
            verdict.unsafe_,
            verdict.not_live
        );
        deaths += usize::from(quiet.has_died(&verdict));
    }
    // Calls to sites are fewer than changes.
    assert!(deaths >= 8, "only {deaths} deaths");
}
