//! Whether a site takes work.

use super::*;
use crate::placement::grid::PlacementAcceptance;
use crate::site::availability::{
    SiteObstacle, SiteState, can_serve_files, list_obstacles, site_state,
};
use crate::site::contact::SiteContact;
use crate::site::site_due::next_wake;
use crate::units::DurationMs;

const ANSWERING: SiteContact = SiteContact::Answering {
    last_at: Timestamp(0),
};

impl SiteTestBench {
    fn state(&self) -> SiteState {
        site_state(&self.record, ANSWERING, 1, self.now)
    }
}

#[test]
fn a_site_that_has_not_answered_since_our_start_gets_nothing() {
    let bench = SiteTestBench::new();
    let state = site_state(&bench.record, SiteContact::NeverAnswered, 0, bench.now);
    assert_eq!(state, SiteState::Unknown);
    assert!(!state.accepts_placement(true));
}

#[test]
fn contact_decides_before_trust() {
    let bench = SiteTestBench::due_for_a_probe();
    let since = bench.now;
    let last_answer = None;
    let state = |contact| site_state(&bench.record, contact, 0, bench.now);
    assert_eq!(
        state(SiteContact::Unreachable { since, last_answer }),
        SiteState::Unreachable
    );
    assert_eq!(
        state(SiteContact::CredentialsExpired { since }),
        SiteState::CredentialsExpired
    );
    assert_eq!(
        state(ANSWERING),
        SiteState::Probing {
            free: 1,
            any: false
        }
    );
}

#[test]
fn a_site_goes_from_usable_over_unusable_and_probing_back_to_usable() {
    let mut bench = SiteTestBench::new();
    assert_eq!(bench.state(), SiteState::Usable);
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    assert_eq!(bench.state(), SiteState::Unusable);
    bench.wait_secs(60);
    assert_eq!(
        bench.state(),
        SiteState::Probing {
            free: 1,
            any: false
        }
    );
    bench.start_probe(10).unwrap();
    assert_eq!(
        bench.state(),
        SiteState::Probing {
            free: 0,
            any: false
        }
    );
    bench.record_success(10);
    assert_eq!(
        bench.state(),
        SiteState::Probing {
            free: 2,
            any: false
        }
    );
    for job in [11, 12] {
        bench.start_probe(job).unwrap();
        bench.record_success(job);
    }
    assert_eq!(bench.state(), SiteState::Usable);
}

#[test]
fn a_site_on_probation_takes_only_jobs_that_may_run_twice() {
    let bench = SiteTestBench::due_for_a_probe();
    assert!(bench.state().accepts_placement(true));
    assert!(!bench.state().accepts_placement(false));
    assert_eq!(bench.state().acceptance(), PlacementAcceptance::ProbesOnly);
    assert_eq!(bench.state().probe_room(), Some(1));
    let kept_away = list_obstacles(&bench.record, ANSWERING, 0, false, bench.now);
    assert_eq!(kept_away, [SiteObstacle::OnlyRerunnable]);
}

#[test]
fn a_site_untried_for_an_hour_takes_any_job_for_a_trial_one_at_a_time() {
    let mut bench = SiteTestBench::due_for_a_probe();
    let once = |job| SiteCommand::StartProbe {
        probe: attempt(job),
        owner: None,
        may_probe: false,
    };
    bench.wait_secs(3_599);
    assert_eq!(
        bench.apply_command(once(10)),
        Err(SiteRejection::OnlyRerunnable)
    );
    assert_eq!(
        next_wake(&bench.record, bench.now),
        Some(bench.now + DurationMs::from_secs(1))
    );
    bench.wait_secs(1);
    assert_eq!(bench.state(), SiteState::Probing { free: 1, any: true });
    assert_eq!(bench.state().acceptance(), PlacementAcceptance::Open);
    assert_eq!(bench.state().probe_room(), Some(1));
    assert_eq!(
        list_obstacles(&bench.record, ANSWERING, 0, false, bench.now),
        []
    );
    bench.apply_command(once(10)).unwrap();
    assert!(
        !bench.state().accepts_placement(false),
        "it is tried out now"
    );
    bench.record_success(10);
    let kept_away = list_obstacles(&bench.record, ANSWERING, 0, false, bench.now);
    assert_eq!(
        kept_away,
        [SiteObstacle::OnlyRerunnable],
        "it was tried out just now"
    );
    bench.wait_secs(3_600);
    assert_eq!(bench.state(), SiteState::Probing { free: 2, any: true });
}

#[test]
fn a_draining_site_is_drained_once_nothing_of_ours_is_left() {
    let mut bench = SiteTestBench::new();
    bench.apply_operation(OperatorCommand::Drain).unwrap();
    assert_eq!(
        site_state(&bench.record, ANSWERING, 3, bench.now),
        SiteState::Draining
    );
    assert_eq!(
        site_state(&bench.record, ANSWERING, 0, bench.now),
        SiteState::Drained
    );
}

#[test]
fn a_maintenance_window_begins_and_ends_by_the_clock() {
    let mut bench = SiteTestBench::new();
    let from = bench.now + DurationMs::from_secs(10);
    let until = from + DurationMs::from_secs(10);
    bench
        .apply_operation(OperatorCommand::SetWindow {
            from,
            until,
            reason: text("disks"),
        })
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push((
            bench.state(),
            can_serve_files(&bench.record, ANSWERING, bench.now),
        ));
        bench.wait_secs(10);
    }
    let usable = (SiteState::Usable, true);
    assert_eq!(seen, [usable, (SiteState::Maintenance, false), usable]);
}

#[test]
fn a_frozen_site_still_lets_its_files_be_read() {
    let mut bench = SiteTestBench::new();
    bench.apply_operation(OperatorCommand::Freeze).unwrap();
    assert_eq!(bench.state(), SiteState::Frozen);
    assert!(can_serve_files(&bench.record, ANSWERING, bench.now));
    assert!(!can_serve_files(
        &bench.record,
        SiteContact::NeverAnswered,
        bench.now
    ));
}

#[test]
fn an_operators_verdict_wins_over_the_breaker_for_its_time() {
    let mut bench = SiteTestBench::new();
    let until = bench.now + DurationMs::from_secs(10);
    bench
        .apply_operation(OperatorCommand::Force {
            usable: false,
            until,
        })
        .unwrap();
    assert_eq!(bench.state(), SiteState::Unusable);
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    bench
        .apply_operation(OperatorCommand::Force {
            usable: true,
            until,
        })
        .unwrap();
    assert_eq!(bench.state(), SiteState::Usable);
    bench.wait_secs(10);
    assert_eq!(
        bench.state(),
        SiteState::Unusable,
        "the breaker's verdict holds again"
    );
}

#[test]
fn all_obstacles_are_told_the_most_lasting_first() {
    let mut bench = SiteTestBench::new();
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    bench.apply_operation(OperatorCommand::Freeze).unwrap();
    bench.apply_operation(OperatorCommand::Drain).unwrap();
    let until = bench.now + DurationMs(1);
    let window = OperatorCommand::SetWindow {
        from: bench.now,
        until,
        reason: text("disks"),
    };
    bench.apply_operation(window).unwrap();
    let contact = SiteContact::Unreachable {
        since: bench.now,
        last_answer: None,
    };
    let told = list_obstacles(&bench.record, contact, 0, true, bench.now);
    let codes: Vec<_> = told.iter().map(SiteObstacle::code).collect();
    assert_eq!(
        codes,
        [
            "drained",
            "maintenance",
            "unreachable",
            "breaker-open",
            "frozen"
        ]
    );
    assert_eq!(
        told[3].to_string(),
        "the site is unusable after 3 errors in a row"
    );
}

#[test]
fn the_clock_wakes_us_for_the_changes_that_it_brings_and_nothing_else() {
    let mut bench = SiteTestBench::new();
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    let start = bench.now;
    let at = |secs| start + DurationMs::from_secs(secs);
    bench
        .apply_operation(OperatorCommand::Force {
            usable: true,
            until: at(10),
        })
        .unwrap();
    let window = OperatorCommand::SetWindow {
        from: at(20),
        until: at(30),
        reason: text("disks"),
    };
    bench.apply_operation(window).unwrap();
    let mut seen = vec![(0, bench.state())];
    while let Some(wake) = next_wake(&bench.record, bench.now) {
        assert!(bench.now < wake, "woken without end");
        bench.now = wake;
        seen.push((wake.since(start).as_secs_ceil(), bench.state()));
    }
    let expected = [
        (0, SiteState::Usable),
        (10, SiteState::Unusable),
        (20, SiteState::Maintenance),
        (30, SiteState::Unusable),
        (
            60,
            SiteState::Probing {
                free: 1,
                any: false,
            },
        ),
        (3_660, SiteState::Probing { free: 1, any: true }),
    ];
    assert_eq!(seen, expected);
}
