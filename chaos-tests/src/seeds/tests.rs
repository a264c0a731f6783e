use std::collections::BTreeSet;

use cospan_domain::acquire::ReservationWish;
use cospan_domain::reserve::StartWindow;
use cospan_domain::units::{DurationMs, Timestamp};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::campaign::{Size, seed};
use super::promised::promise;
use super::run::{Verdict, run};
use super::scenario::{Kill, Scenario, UserAction};
use super::shared_drawn::share;
use cospan_simulator::call_faults::DiskTrouble;
use cospan_simulator::kill_switch::KillPoint;

const SMALL: Size = Size { jobs: 30, sites: 3, length: DurationMs::from_secs(3 * 3_600) };

fn hold(verdict: &Verdict) {
    let Verdict { drawn, unsafe_, not_live, .. } = verdict;
    assert!(verdict.holds(), "{drawn}\n{unsafe_:#?}\n{not_live:?}");
}

#[test]
fn drawn_trouble_breaks_no_rule_and_everything_comes_to_rest() {
    for number in 1..=4 {
        let verdict = seed(number, SMALL).unwrap();
        hold(&verdict);
        let submitted = Scenario::draw(number, SMALL.jobs, SMALL.sites, SMALL.length).unwrap();
        let submitted = submitted.jobs.len();
        assert_eq!(verdict.jobs.0, submitted, "every submission is acknowledged in the end");
    }
}

#[test]
fn a_seed_is_the_same_run_every_time_on_whatever_thread() {
    let hash = || seed(7, SMALL).unwrap().hash;
    let first = hash();
    let others = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(hash)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(others, [first].into());
    assert_ne!(others, [seed(8, SMALL).unwrap().hash].into(), "another seed is another run");
}

/// Sites that grant, lose and misunderstand reservations, in every run.
#[test]
fn promised_starts_are_kept_or_told_of_under_drawn_trouble() {
    let mut promised = 0;
    for number in 1..=12 {
        let Size { jobs, sites, length } = SMALL;
        let mut scenario = Scenario::draw(number, jobs, sites, length).unwrap();
        promise(&mut scenario, &mut StdRng::seed_from_u64(number));
        let verdict = run(scenario).unwrap();
        promised += under_reservations(&verdict);
        hold(&verdict);
    }
    assert!(promised > 50, "only {promised} attempts ran under reservations");
}

/// Nothing goes wrong but the one death, in the middle of a search, a move or a release.
#[test]
fn a_death_at_any_step_of_a_promise_leaves_no_reservation_behind() {
    let mut quiet = quiet(5, 5, 3);
    promise(&mut quiet, &mut StdRng::seed_from_u64(5));
    quiet.troubles.clear();
    move_all(&mut quiet);
    let undisturbed = run(quiet.clone()).unwrap();
    hold(&undisturbed);
    let had = |what: &str| undisturbed.timeline.iter().any(|(.., text)| text.contains(what));
    for what in ["ReservationSought", "ReservationAnswered", "ReservationMove", "Reserved("] {
        assert!(had(what), "{what}");
    }
    die_at_each(&quiet, undisturbed.changes.min(25));
}

#[test]
fn shared_reservations_hold_at_all_of_their_sites_or_none_under_drawn_trouble() {
    let (mut together, mut ran) = (0, 0);
    for number in 1..=20 {
        let Size { jobs, sites, length } = SMALL;
        let mut scenario = Scenario::draw(number, jobs, sites, length).unwrap();
        scenario.by_slurm = false;
        share(&mut scenario, &mut StdRng::seed_from_u64(number)).unwrap();
        together += scenario.actions.iter().filter(|(_, action)| is_at_several(action)).count();
        let verdict = run(scenario).unwrap();
        ran += under_reservations(&verdict);
        hold(&verdict);
    }
    assert!(together > 5 && ran > 5, "{together} at several sites, {ran} attempts");
}

/// Whether it is an order for a reservation at several sites.
fn is_at_several(action: &UserAction) -> bool {
    matches!(action, UserAction::Reserve(_, wish) if !wish.parts.is_empty())
}

/// Attempts that ran under reservations.
fn under_reservations(verdict: &Verdict) -> usize {
    verdict.timeline.iter().filter(|(.., what)| what.contains("Reserved(")).count()
}

/// Each job is promised a start in ten minutes, and moved by two hours before that.
fn move_all(scenario: &mut Scenario) {
    let within = DurationMs::from_secs(3_600);
    let wish = |earliest: Timestamp| {
        let window = StartWindow::new(earliest, earliest + within);
        ReservationWish { window, tolerance: DurationMs::from_secs(60), ..Default::default() }
    };
    let mut moves = Vec::new();
    for (at, action) in &scenario.actions {
        if let UserAction::Submit(number, _) = action {
            let soon = *at + DurationMs::from_secs(600);
            scenario.jobs[*number].rare_options.promised = Some(wish(soon));
            let later = Some(wish(soon + within + within));
            moves.push((*at + DurationMs::from_secs(120), UserAction::Promise(*number, later)));
        }
    }
    scenario.actions.retain(|(_, action)| !matches!(action, UserAction::Promise(..)));
    scenario.actions.extend(moves);
    scenario.actions.sort_by_key(|(at, _)| *at);
}

/// Nothing goes wrong but the one death, so that whatever breaks is its doing.
#[test]
fn a_death_at_any_append_or_call_loses_and_doubles_nothing() {
    let quiet = quiet(3, 4, 2);
    let undisturbed = run(quiet.clone()).unwrap();
    hold(&undisturbed);
    die_at_each(&quiet, undisturbed.changes.min(40));
}

/// A run without any trouble.
fn quiet(seed: u64, jobs: usize, sites: usize) -> Scenario {
    let mut quiet = Scenario::draw(seed, jobs, sites, DurationMs::from_secs(3_600)).unwrap();
    quiet.fault_rates.faults.clear();
    quiet.fault_rates.failing_syncs = 0;
    quiet.fault_rates.disk = DiskTrouble::default();
    quiet.troubles.clear();
    quiet.cut_offs.clear();
    quiet.kills.clear();
    quiet.panics = None;
    quiet.stalls = None;
    quiet
}

fn die_at_each(quiet: &Scenario, moments: u64) {
    let after = DurationMs::from_secs(3_600);
    let down = DurationMs(1_000);
    for number in 1..=moments {
        for moment in [
            KillPoint::BeforeAppend(number),
            KillPoint::AfterAppend(number),
            KillPoint::BeforeCall(number),
            KillPoint::AfterCall(number),
        ] {
            let kill = Kill { after, moment: Some(moment), down, clock_ahead_ms: 0 };
            let verdict = run(Scenario { kills: vec![kill], ..quiet.clone() }).unwrap();
            assert!(verdict.holds(), "{moment:?}: {:#?} {:?}", verdict.unsafe_, verdict.not_live);
        }
    }
}
