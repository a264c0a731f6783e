//! Errors, the breaker and its probes.

use super::*;
use crate::site::site_command::ProbeOutcome;
use crate::site::site_due::SiteEffect;
use crate::site::site_state::{Breaker, RECENT_ERRORS, REMEMBERED};
use crate::units::DurationMs;

#[test]
fn three_errors_in_a_row_make_a_site_unusable_and_tell_its_administrator() {
    let mut bench = SiteTestBench::new();
    assert_eq!(bench.record_error(1), ["ErrorCharged"]);
    assert_eq!(bench.record_error(2), ["ErrorCharged"]);
    assert_eq!(
        bench.record_error(3),
        ["ErrorCharged", "BreakerOpened", "NotificationOwed"]
    );
    let probe_at = bench.now + DurationMs::from_secs(60);
    assert_eq!(
        bench.record.breaker,
        Breaker::Open {
            since: bench.now,
            probe_at,
            trips: 1
        }
    );
    let message = &bench.record.owed[0];
    assert_eq!(message.kind, SiteNotificationKind::Unusable);
    assert_eq!(
        &*message.text,
        "site delft is unusable after 3 errors in a row; it is probed in 1m00s"
    );
    let details: Vec<_> = message.details.iter().map(|line| &**line).collect();
    assert_eq!(
        details,
        ["job 1 was lost", "job 2 was lost", "job 3 was lost"]
    );
}

#[test]
fn a_component_that_ends_without_a_site_error_sets_the_count_to_zero() {
    let mut bench = SiteTestBench::new();
    bench.record_error(1);
    bench.record_error(2);
    assert_eq!(bench.record_success(3), ["SuccessCounted"]);
    bench.record_error(4);
    bench.record_error(5);
    assert_eq!(bench.record.breaker, Breaker::Closed);
    assert_eq!(bench.record.consecutive_errors, 2);
}

/// Errors of a site in a row after each event: E an error of it, S a success, J the job's own
/// error, U a sibling that was aborted because another component failed.
fn error_counts_after(events: &str) -> (Vec<u32>, SiteTestBench) {
    let mut bench = SiteTestBench::new();
    let counts = (1..)
        .zip(events.chars())
        .map(&mut |(job, event)| {
            drop(match event {
                'E' => bench.record_error(job),
                'S' => bench.record_success(job),
                'J' => bench.event_names(error_command(job, FailureClass::Application)),
                _ => bench.event_names(error_command(job, FailureClass::Cancelled)),
            });
            bench.record.consecutive_errors
        })
        .collect();
    (counts, bench)
}

#[test]
fn vectors_ft_1_to_ft_4() {
    let (counts, bench) = error_counts_after("EESEEE");
    assert_eq!(counts, [1, 2, 0, 1, 2, 3], "FT-1");
    assert!(matches!(bench.record.breaker, Breaker::Open { .. }), "FT-1");
    assert_eq!(
        bench.owed_notifications(),
        [SiteNotificationKind::Unusable],
        "FT-1: one notice"
    );
    for (name, events) in [("FT-2", "EEJE"), ("FT-3", "EEUE")] {
        let (counts, bench) = error_counts_after(events);
        assert_eq!(counts, [1, 2, 2, 3], "{name}");
        assert!(
            matches!(bench.record.breaker, Breaker::Open { .. }),
            "{name}"
        );
        let (_, before) = error_counts_after(&events[..3]);
        assert_eq!(
            before.record.breaker,
            Breaker::Closed,
            "{name}: not before the 4th event"
        );
    }
    let (counts, bench) = error_counts_after(&"ES".repeat(20));
    assert!(counts.iter().all(|&count| count <= 1), "FT-4: {counts:?}");
    assert_eq!(
        (bench.record.breaker, bench.record.owed.len()),
        (Breaker::Closed, 0),
        "FT-4"
    );
}

#[test]
fn what_is_nobodys_error_changes_nothing() {
    let mut bench = SiteTestBench::new();
    bench.record_error(1);
    for (job, class) in (2..).zip(FailureClass::ALL) {
        if class != FailureClass::Site {
            assert!(
                bench.event_names(error_command(job, class)).is_empty(),
                "{}",
                class.as_str()
            );
        }
    }
    assert_eq!(bench.record.consecutive_errors, 1);
}

#[test]
fn an_error_told_again_and_again_counts_once() {
    let mut bench = SiteTestBench::new();
    for _ in 0..10 {
        bench.record_error(1);
    }
    assert_eq!(bench.record.consecutive_errors, 1);
    assert!(bench.record.has_counted_attempt(attempt(1)));
}

fn repeated_error(job: u64, number: u32) -> SiteCommand {
    SiteCommand::RecordError {
        attempt: AttemptId {
            attempt: Attempt(number),
            ..attempt(job)
        },
        owner: None,
        class: FailureClass::Site,
        detail: text("lost again"),
        isolated: false,
        jitter: PerMillion(0),
    }
}

#[test]
fn a_job_that_ends_each_of_its_wrappers_closes_no_site() {
    let mut bench = SiteTestBench::new();
    assert_eq!(bench.record_error(1), ["ErrorCharged"]);
    for number in 2..9 {
        assert_eq!(
            bench.event_names(repeated_error(1, number)),
            ["ErrorExcused"]
        );
    }
    assert_eq!(
        (bench.record.consecutive_errors, &bench.record.breaker),
        (1, &Breaker::Closed)
    );
    bench.record_error(2);
    assert_eq!(
        bench.record_error(3),
        ["ErrorCharged", "BreakerOpened", "NotificationOwed"]
    );
}

#[test]
fn a_job_that_erred_counts_again_after_a_success() {
    let mut bench = SiteTestBench::new();
    bench.record_error(1);
    bench.record_success(2);
    assert_eq!(bench.event_names(repeated_error(1, 2)), ["ErrorCharged"]);
}

#[test]
fn one_job_that_fails_each_probe_keeps_others_away_no_longer_than_once() {
    let mut bench = SiteTestBench::due_for_a_probe();
    for number in 2..6 {
        let probe = AttemptId {
            attempt: Attempt(number),
            ..attempt(1)
        };
        bench
            .apply_command(SiteCommand::StartProbe {
                probe,
                owner: None,
                may_probe: true,
            })
            .unwrap();
        bench.apply_command(repeated_error(1, number)).unwrap();
        assert_eq!(bench.record.breaker.trips(), 2);
        bench.wait_secs(120);
    }
    bench.start_probe(10).unwrap();
    bench.record_error(10);
    assert_eq!(bench.record.breaker.trips(), 3, "another job says so too");
}

#[test]
fn a_success_told_again_does_not_hide_later_errors() {
    let mut bench = SiteTestBench::new();
    bench.record_error(1);
    bench.record_success(2);
    bench.record_error(3);
    assert!(bench.record_success(2).is_empty());
    assert_eq!(bench.record.consecutive_errors, 1);
}

#[test]
fn successes_at_a_healthy_site_are_not_written() {
    let mut bench = SiteTestBench::new();
    assert!(bench.record_success(1).is_empty());
    assert_eq!(
        bench.record,
        SiteRecord::new(SiteName::new("delft").unwrap())
    );
}

#[test]
fn nothing_is_charged_while_we_are_cut_off_and_not_afterwards_either() {
    let mut bench = SiteTestBench::new();
    for job in 1..=5 {
        let SiteCommand::RecordError {
            attempt,
            owner,
            class,
            detail,
            jitter,
            ..
        } = error_command(job, FailureClass::Site)
        else {
            unreachable!()
        };
        let told = SiteCommand::RecordError {
            attempt,
            owner,
            class,
            detail,
            isolated: true,
            jitter,
        };
        assert_eq!(bench.event_names(told), ["ErrorExcused"]);
        assert!(
            bench.record_error(job).is_empty(),
            "the same error told again after the isolation"
        );
    }
    assert_eq!(
        (bench.record.consecutive_errors, &bench.record.breaker),
        (0, &Breaker::Closed)
    );
}

#[test]
fn what_runs_at_a_site_runs_on_when_its_breaker_opens() {
    let mut bench = SiteTestBench::new();
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    let effects = SiteMachine::due(&bench.record, &bench.parameters, bench.now);
    assert!(
        effects
            .iter()
            .all(|effect| matches!(effect, SiteEffect::SendNotification(_)))
    );
    assert_eq!(
        bench.record_success(9),
        ["SuccessCounted"],
        "and its end still counts"
    );
    assert!(
        matches!(bench.record.breaker, Breaker::Open { .. }),
        "but does not close it"
    );
}

#[test]
fn an_open_breaker_neither_opens_again_nor_waits_longer_for_late_errors() {
    let mut bench = SiteTestBench::new();
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    let before = bench.record.breaker.clone();
    bench.wait_secs(30);
    assert_eq!(bench.record_error(4), ["ErrorCharged"]);
    assert_eq!(bench.record.breaker, before);
    assert_eq!(bench.owed_notifications(), [SiteNotificationKind::Unusable]);
}

#[test]
fn one_probe_is_let_in_then_two_then_four_then_all() {
    let mut bench = SiteTestBench::due_for_a_probe();
    let mut job = 10;
    for allowed in [1, 2, 4] {
        for _ in 0..allowed {
            job += 1;
            bench.start_probe(job).unwrap();
        }
        assert_eq!(
            bench.start_probe(99),
            Err(SiteRejection::ProbesTaken { allowed })
        );
        for running in job + 1 - u64::from(allowed)..job {
            let probe = attempt(running);
            let outcome = ProbeOutcome::Inconclusive;
            bench.event_names(SiteCommand::EndProbe {
                probe,
                outcome,
                jitter: PerMillion(0),
            });
        }
        bench.record_success(job);
    }
    assert_eq!(bench.record.breaker, Breaker::Closed);
    assert_eq!(bench.record.consecutive_errors, 0);
    assert_eq!(
        bench.owed_notifications(),
        [SiteNotificationKind::Unusable, SiteNotificationKind::Usable]
    );
}

#[test]
fn the_components_of_one_job_are_one_probe() {
    let mut bench = SiteTestBench::due_for_a_probe();
    for component in 0..3 {
        let probe = AttemptId {
            component: ComponentIndex(component),
            ..attempt(10)
        };
        bench
            .apply_command(SiteCommand::StartProbe {
                probe,
                owner: None,
                may_probe: true,
            })
            .unwrap();
    }
    assert_eq!(
        bench.start_probe(11),
        Err(SiteRejection::ProbesTaken { allowed: 1 })
    );
    bench.record_success(10);
    assert_eq!(
        bench.start_probe(11),
        Err(SiteRejection::ProbesTaken { allowed: 1 }),
        "two are there"
    );
}

#[test]
fn a_failed_probe_opens_again_for_twice_as_long() {
    let mut bench = SiteTestBench::due_for_a_probe();
    bench.start_probe(10).unwrap();
    assert_eq!(
        bench.record_error(10),
        ["ErrorCharged", "BreakerOpened", "NotificationOwed"]
    );
    let probe_at = bench.now + DurationMs::from_secs(120);
    assert_eq!(
        bench.record.breaker,
        Breaker::Open {
            since: bench.now,
            probe_at,
            trips: 2
        }
    );
    assert_eq!(
        bench.owed_notifications(),
        [
            SiteNotificationKind::Unusable,
            SiteNotificationKind::ProbeFailed
        ]
    );
}

#[test]
fn errors_of_work_from_before_do_not_count_as_failed_probes() {
    let mut bench = SiteTestBench::due_for_a_probe();
    bench.start_probe(10).unwrap();
    assert_eq!(bench.record_error(4), ["ErrorCharged"]);
    assert!(matches!(bench.record.breaker, Breaker::HalfOpen { .. }));
}

#[test]
fn a_probe_that_tells_nothing_makes_room_for_another() {
    let mut bench = SiteTestBench::due_for_a_probe();
    bench.start_probe(10).unwrap();
    assert_eq!(
        bench.event_names(error_command(10, FailureClass::Preempted)),
        ["ProbeEnded"]
    );
    bench.start_probe(11).unwrap();
    assert_eq!(bench.record.breaker.trips(), 1);
}

#[test]
fn a_probe_that_nobody_remembers_does_not_block_the_others() {
    let mut bench = SiteTestBench::due_for_a_probe();
    bench.start_probe(10).unwrap();
    let told = SiteCommand::ReconcileProbes {
        live: [attempt(10)].into(),
    };
    assert!(bench.event_names(told).is_empty());
    let told = SiteCommand::ReconcileProbes {
        live: [attempt(77)].into(),
    };
    assert_eq!(bench.event_names(told), ["ProbeEnded"]);
    bench.start_probe(11).unwrap();
}

#[test]
fn a_failed_probe_that_is_told_both_ways_opens_once() {
    let mut bench = SiteTestBench::due_for_a_probe();
    bench.start_probe(10).unwrap();
    let outcome = ProbeOutcome::Failed;
    let told = SiteCommand::EndProbe {
        probe: attempt(10),
        outcome,
        jitter: PerMillion(0),
    };
    assert_eq!(
        bench.event_names(told.clone()),
        ["BreakerOpened", "NotificationOwed"]
    );
    assert_eq!(bench.record_error(10), ["ErrorCharged"]);
    assert!(bench.event_names(told).is_empty());
    assert_eq!(bench.record.breaker.trips(), 2);
}

#[test]
fn no_probe_before_its_time_and_none_that_may_not_run_twice() {
    let mut bench = SiteTestBench::new();
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    let probe_at = bench.now + DurationMs::from_secs(60);
    assert_eq!(
        bench.start_probe(10),
        Err(SiteRejection::NotYetProbed {
            errors: 3,
            probe_at
        })
    );
    bench.wait_secs(60);
    let once = SiteCommand::StartProbe {
        probe: attempt(10),
        owner: None,
        may_probe: false,
    };
    assert_eq!(
        bench.apply_command(once),
        Err(SiteRejection::OnlyRerunnable)
    );
}

#[test]
fn a_site_in_order_takes_components_without_calling_them_probes() {
    let mut bench = SiteTestBench::new();
    assert_eq!(bench.start_probe(10), Ok(Vec::new()));
    assert_eq!(bench.record.breaker, Breaker::Closed);
}

#[test]
fn chance_moves_the_next_probe_within_its_spread() {
    let mut bench = SiteTestBench::new();
    bench.record_error(1);
    bench.record_error(2);
    bench.event_names(SiteCommand::RecordError {
        attempt: attempt(3),
        owner: None,
        class: FailureClass::Site,
        detail: text("lost"),
        isolated: false,
        jitter: PerMillion(400_000),
    });
    let Breaker::Open {
        probe_at, since, ..
    } = bench.record.breaker
    else {
        panic!("not open")
    };
    assert_eq!(probe_at.since(since), DurationMs::from_secs(66));
}

#[test]
fn what_is_remembered_stays_bounded_however_bad_the_site_is() {
    let mut bench = SiteTestBench::new();
    for job in 0..1000 {
        bench.event_names(SiteCommand::RecordError {
            attempt: attempt(job),
            owner: None,
            class: FailureClass::Site,
            detail: text(&"no space left on device\n".repeat(1000)),
            isolated: false,
            jitter: PerMillion(0),
        });
    }
    assert_eq!(bench.record.counted.len(), REMEMBERED);
    assert_eq!(bench.record.recent_errors.len(), RECENT_ERRORS);
    assert!(bench.record.last_error().unwrap().detail.len() <= crate::text::MAX_BYTES);
}
