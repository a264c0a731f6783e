//! Jobs that change while they wait: frozen, backing off, offered.

use super::*;
use Priority::{High, Low};

fn condition_of_job(queues: &PlacementQueues, job: u64) -> WaitingCondition {
    queues.standing_of(JobId(job)).unwrap().condition
}

fn scan_on_event(queues: &mut PlacementQueues, now: u64) -> Vec<u64> {
    run_scan(
        queues,
        ScanTrigger::Event,
        &grid_with_idle(100),
        seconds(now),
    )
    .0
}

#[test]
fn a_frozen_job_is_skipped_until_it_is_thawed() {
    let frozen = WaitingJob {
        frozen: true,
        ..waiting_job(1, High, 1)
    };
    let mut queues = queues_of(
        QueueParameters::default(),
        [frozen, waiting_job(2, High, 1)],
    );
    assert_eq!(scan_on_event(&mut queues, 10), [2]);
    assert_eq!(condition_of_job(&queues, 1), WaitingCondition::Frozen);
    queues.insert(waiting_job(1, High, 1));
    assert_eq!(scan_on_event(&mut queues, 11), [1]);
}

#[test]
fn a_job_that_backs_off_is_tried_when_that_time_has_come() {
    let later = WaitingJob {
        not_before: seconds(50),
        ..waiting_job(1, High, 1)
    };
    let mut queues = queues_of(QueueParameters::default(), [later]);
    assert_eq!(queues.next_wake(), Some(seconds(50)));
    assert_eq!(scan_on_event(&mut queues, 49), []);
    assert_eq!(
        condition_of_job(&queues, 1),
        WaitingCondition::BackedOff(seconds(50))
    );
    assert_eq!(scan_on_event(&mut queues, 50), [1]);
    assert_eq!(queues.next_wake(), None);
}

#[test]
fn a_job_that_backs_off_keeps_its_place() {
    let later = WaitingJob {
        not_before: seconds(50),
        ..waiting_job(1, High, 60)
    };
    let mut queues = queues_of(
        QueueParameters::default(),
        [later, waiting_job(2, High, 60)],
    );
    assert_eq!(scan_on_event(&mut queues, 60), [1]);
}

#[test]
fn a_job_is_offered_one_plan_at_a_time() {
    let mut queues = queues_of(QueueParameters::default(), [waiting_job(1, High, 1)]);
    let mut first = queues.begin_scan(ScanTrigger::Event, grid_with_idle(100), seconds(10));
    let budget = &mut ScanSliceBudget(u32::MAX);
    assert!(matches!(
        queues.step_scan(&mut first, budget),
        ScanStep::Placed(_)
    ));
    assert_eq!(condition_of_job(&queues, 1), WaitingCondition::Offered);
    assert!(!queues.has_jobs_without_proposal());
    queues.insert(WaitingJob {
        max_tries: Some(3),
        ..waiting_job(1, High, 1)
    });
    assert_eq!(
        scan_on_event(&mut queues, 11),
        [],
        "an event of the job does not decide the offer"
    );
    queues.withdraw_proposal(JobId(1));
    assert!(queues.has_jobs_without_proposal());
    assert!(
        matches!(queues.step_scan(&mut first, budget), ScanStep::Done(_)),
        "not in the same scan"
    );
    assert_eq!(scan_on_event(&mut queues, 12), [1]);
    assert!(queues.is_empty());
}

#[test]
fn withdrawing_what_was_not_offered_changes_nothing() {
    let frozen = WaitingJob {
        frozen: true,
        ..waiting_job(1, High, 1)
    };
    let mut queues = queues_of(QueueParameters::default(), [frozen]);
    queues.withdraw_proposal(JobId(1));
    queues.withdraw_proposal(JobId(7));
    assert_eq!(condition_of_job(&queues, 1), WaitingCondition::Frozen);
}

#[test]
fn a_job_whose_class_changes_moves_to_the_other_queue() {
    let mut queues = queues_of(QueueParameters::default(), [waiting_job(1, Low, 1)]);
    queues.insert(waiting_job(1, High, 1));
    assert_eq!(
        (
            queues.count_waiting(Low),
            queues.count_waiting(High),
            queues.len()
        ),
        (0, 1, 1)
    );
    assert_eq!(jobs_of_class(&queues, High), [1]);
}

#[test]
fn a_shape_that_nobody_has_any_more_is_forgotten() {
    let mut queues = queues_of(QueueParameters::default(), [waiting_job(1, Low, 1)]);
    queues.insert(waiting_job(1, Low, 2));
    assert_eq!(queues.shape_count(), 1);
    queues.remove(JobId(1));
    assert_eq!((queues.shape_count(), queues.len()), (0, 0));
}

#[test]
fn an_event_that_leaves_the_wait_alone_keeps_the_job_in_the_running_scan() {
    let all = [waiting_job(1, High, 1), waiting_job(2, High, 1)];
    let mut queues = queues_of(QueueParameters::default(), all);
    let mut scan = queues.begin_scan(ScanTrigger::Event, grid_with_idle(100), seconds(10));
    let budget = &mut ScanSliceBudget(u32::MAX);
    assert!(matches!(
        queues.step_scan(&mut scan, budget),
        ScanStep::Placed(_)
    ));
    queues.insert(waiting_job(2, High, 1));
    let ScanStep::Placed(offer) = queues.step_scan(&mut scan, budget) else {
        panic!()
    };
    assert_eq!(offer.job, JobId(2));
}

#[test]
fn jobs_of_one_request_come_and_go_as_any_others() {
    let request = Arc::new(request_of_sizes(&[1]));
    let job = |id| WaitingJob {
        request: request.clone(),
        ..waiting_job(id, High, 1)
    };
    let mut queues = queues_of(QueueParameters::default(), [job(1), job(2)]);
    queues.forget_job(JobId(1));
    assert_eq!(scan_on_event(&mut queues, 10), [2]);
    assert_eq!(queues.shape_count(), 0);
    queues.insert(job(3));
    assert_eq!(queues.shape_count(), 1);
    assert_eq!(scan_on_event(&mut queues, 11), [3]);
}

#[test]
fn whoever_has_an_offer_leaves_others_unserved() {
    let mut queues = queues_of(QueueParameters::default(), [waiting_job(1, High, 1)]);
    let mut scan = queues.begin_scan(ScanTrigger::Event, grid_with_idle(100), seconds(10));
    assert!(matches!(
        queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX)),
        ScanStep::Placed(_)
    ));
    queues.insert(waiting_job(2, Low, 1));
    assert!(queues.has_jobs_without_proposal());
    queues.forget_job(JobId(2));
    assert!(!queues.has_jobs_without_proposal());
    queues.forget_job(JobId(1));
    assert!(!queues.has_jobs_without_proposal());
}
