//! Try counts, limits and promotion.

use super::*;
use Priority::{High, Low, SuperHigh, SuperLow};

/// Scans by the clock until the job had so many tries, and does as it is told.
/// Gives the class after each try, or `None` once the job has failed.
fn classes_after_tries(
    parameters: QueueParameters,
    job: WaitingJob,
    count: usize,
) -> Vec<Option<Priority>> {
    let id = job.job;
    let original = job.clone();
    let mut queues = queues_of(parameters, [job]);
    let mut after = Vec::new();
    for turn in 0..count as u64 {
        let now = seconds(100_000 + 60 * turn);
        let (_, report) = run_scan(&mut queues, ScanTrigger::Interval, &grid_with_idle(1), now);
        for decision in report.decisions {
            match decision {
                QueueDecision::Promote { to, .. } => {
                    queues.insert(WaitingJob {
                        priority: to,
                        entered: now,
                        ..original.clone()
                    });
                }
                QueueDecision::GiveUp { .. } => queues.forget_job(id),
            }
            queues.clear_decision(id);
        }
        after.push(queues.standing_of(id).map(|standing| standing.priority));
    }
    after
}

fn promoting_parameters(after: Option<u32>) -> QueueParameters {
    QueueParameters {
        promote_after: after,
        ..parameters_without_events()
    }
}

/// QS-8.
#[test]
fn a_job_fails_when_its_tries_exceed_their_limit() {
    let limited = |max| WaitingJob {
        max_tries: Some(max),
        ..waiting_job(1, High, 9)
    };
    let after = classes_after_tries(promoting_parameters(None), limited(3), 5);
    assert_eq!(after, [Some(High), Some(High), Some(High), None, None]);
    assert_eq!(
        classes_after_tries(promoting_parameters(None), limited(0), 1),
        [None]
    );
}

#[test]
fn a_job_that_names_no_limit_has_that_of_all_jobs() {
    let all = QueueParameters {
        max_placement_tries: Some(2),
        ..promoting_parameters(None)
    };
    let after = classes_after_tries(all.clone(), waiting_job(1, High, 9), 4);
    assert_eq!(after, [Some(High), Some(High), None, None]);
    let own = WaitingJob {
        max_tries: Some(3),
        ..waiting_job(1, High, 9)
    };
    let after = classes_after_tries(all, own, 4);
    assert_eq!(
        after,
        [Some(High), Some(High), Some(High), None],
        "its own counts"
    );
}

/// QS-9.
#[test]
fn at_most_one_try_is_counted_in_an_interval() {
    let mut queues = queues_of(parameters_with_interval(60), [waiting_job(0, High, 9)]);
    let mut counted_at = Vec::new();
    for second in 0..600 {
        let (_, report) = run_scan(
            &mut queues,
            ScanTrigger::Interval,
            &grid_with_idle(1),
            seconds(second),
        );
        if report.tries_counted > 0 {
            counted_at.push(second);
        }
    }
    assert_eq!(counted_at, [0, 60, 120, 180, 240, 300, 360, 420, 480, 540]);
    assert_eq!(counted_tries(&queues, 0), 10);
}

/// PR-1.
#[test]
fn a_job_rises_one_class_after_every_so_many_failed_tries() {
    let after = classes_after_tries(promoting_parameters(Some(3)), waiting_job(1, Low, 9), 9);
    let expected = [
        Low, Low, High, High, High, SuperHigh, SuperHigh, SuperHigh, SuperHigh,
    ];
    assert_eq!(after, expected.map(Some));
}

/// PR-2 and PR-3.
#[test]
fn super_low_never_rises_and_without_a_number_nobody_does() {
    let last =
        |parameters, class| classes_after_tries(parameters, waiting_job(1, class, 9), 30)[29];
    assert_eq!(
        last(promoting_parameters(Some(3)), SuperLow),
        Some(SuperLow)
    );
    assert_eq!(last(promoting_parameters(None), Low), Some(Low));
}

/// PR-4.
#[test]
fn a_limit_that_is_passed_wins_over_a_promotion() {
    let job = WaitingJob {
        max_tries: Some(5),
        ..waiting_job(1, Low, 9)
    };
    let after = classes_after_tries(promoting_parameters(Some(3)), job, 6);
    assert_eq!(
        after,
        [
            Some(Low),
            Some(Low),
            Some(High),
            Some(High),
            Some(High),
            None
        ]
    );
}

/// PR-5.
#[test]
fn a_promoted_job_goes_to_the_tail() {
    let mut queues = queues_of(
        promoting_parameters(Some(1)),
        [waiting_job(1, Low, 9), waiting_job(2, High, 9)],
    );
    let mut decisions = Vec::new();
    for turn in 0..2 {
        let now = seconds(1_000 + 60 * turn);
        decisions.extend(
            run_scan(&mut queues, ScanTrigger::Interval, &grid_with_idle(1), now)
                .1
                .decisions,
        );
    }
    let up = |job, to| QueueDecision::Promote {
        job: JobId(job),
        to,
    };
    assert_eq!(decisions, [up(2, SuperHigh), up(1, High)]);
    queues.insert(waiting_job(3, High, 9));
    queues.insert(WaitingJob {
        entered: seconds(1_060),
        ..waiting_job(1, High, 9)
    });
    assert_eq!(jobs_of_class(&queues, High), [2, 3, 1]);
}

#[test]
fn a_job_is_told_to_rise_once_until_it_took_that_in_or_could_not() {
    let mut queues = queues_of(promoting_parameters(Some(2)), [waiting_job(1, Low, 9)]);
    let mut told = Vec::new();
    for turn in 0..6 {
        let now = seconds(1_000 + 60 * turn);
        told.push(
            run_scan(&mut queues, ScanTrigger::Interval, &grid_with_idle(1), now)
                .1
                .decisions
                .len(),
        );
        if turn == 3 {
            queues.clear_decision(JobId(1));
        }
    }
    assert_eq!(told, [0, 1, 0, 0, 1, 0]);
}

#[test]
fn tries_are_kept_while_a_job_is_placed_and_forgotten_when_it_ends() {
    let mut queues = queues_of(parameters_without_events(), [waiting_job(1, High, 9)]);
    run_scan(
        &mut queues,
        ScanTrigger::Interval,
        &grid_with_idle(1),
        seconds(100),
    );
    assert_eq!(counted_tries(&queues, 1), 1);
    queues.remove(JobId(1));
    assert_eq!(queues.standing_of(JobId(1)), None);
    queues.insert(waiting_job(1, High, 9));
    assert_eq!(counted_tries(&queues, 1), 1);
    queues.forget_job(JobId(1));
    queues.insert(waiting_job(1, High, 9));
    assert_eq!(counted_tries(&queues, 1), 0);
}
