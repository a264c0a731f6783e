use std::collections::BTreeSet;

use cospan_domain::units::DurationMs;

use super::campaign::{Size, seed};
use super::run::{Verdict, run};
use super::scenario::{Kill, Scenario};
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

/// Nothing goes wrong but the one death, so that whatever breaks is its doing.
#[test]
fn a_death_at_any_append_or_call_loses_and_doubles_nothing() {
    let mut quiet = Scenario::draw(3, 4, 2, DurationMs::from_secs(3_600)).unwrap();
    quiet.fault_rates.faults.clear();
    quiet.fault_rates.failing_syncs = 0;
    quiet.fault_rates.disk = DiskTrouble::default();
    quiet.troubles.clear();
    quiet.cut_offs.clear();
    quiet.kills.clear();
    quiet.panics = None;
    quiet.stalls = None;
    let undisturbed = run(quiet.clone()).unwrap();
    hold(&undisturbed);
    let after = DurationMs::from_secs(3_600);
    let down = DurationMs(1_000);
    for number in 1..=undisturbed.changes.min(40) {
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
