mod changes;
mod classes_tests;
mod cycle_tests;
mod groups;
mod histories;
mod plain;
mod queue_property_tests;
mod scans;
mod starvation_guard_tests;
mod tries_tests;

use std::sync::Arc;

use super::*;
use crate::ids::JobId;
use crate::job::spec::Priority;
use crate::placement::testing::{grid, open_site, request_of_sizes};
use crate::placement::{GridSnapshot, PlacementRequest, SitePairHistory};
use crate::units::{DurationMs, Timestamp};

/// A job that has waited since the second that is its number.
fn waiting_job(job: u64, priority: Priority, processors: u32) -> WaitingJob {
    waiting_job_for(job, priority, request_of_sizes(&[processors]))
}

fn waiting_job_for(job: u64, priority: Priority, request: PlacementRequest) -> WaitingJob {
    WaitingJob {
        job: JobId(job),
        priority,
        entered: Timestamp(job * 1000),
        not_before: Timestamp(0),
        frozen: false,
        max_tries: None,
        request: Arc::new(request),
    }
}

fn queues_of(
    parameters: QueueParameters,
    jobs: impl IntoIterator<Item = WaitingJob>,
) -> PlacementQueues {
    parameters.validate().unwrap();
    let mut queues = PlacementQueues::new(parameters, SitePairHistory::All);
    jobs.into_iter().for_each(|job| queues.insert(job));
    queues
}

fn seconds(secs: u64) -> Timestamp {
    Timestamp(secs * 1000)
}

/// One site with so many idle processors.
fn grid_with_idle(processors: u32) -> Arc<GridSnapshot> {
    Arc::new(grid([open_site("A", processors)]))
}

/// The settings of the papers' experiments: no events.
fn parameters_without_events() -> QueueParameters {
    QueueParameters {
        events: false,
        ..QueueParameters::default()
    }
}

/// Runs a whole scan; jobs placed leave the queue, as if their events were committed.
fn run_scan(
    queues: &mut PlacementQueues,
    trigger: ScanTrigger,
    grid: &Arc<GridSnapshot>,
    now: Timestamp,
) -> (Vec<u64>, ScanReport) {
    let mut scan = queues.begin_scan(trigger, Arc::clone(grid), now);
    let mut placed = Vec::new();
    loop {
        match queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX)) {
            ScanStep::Placed(offer) => placed.push(offer.job),
            ScanStep::Yield => panic!("the budget is endless"),
            ScanStep::Announce(..) => panic!("no rounds are asked for"),
            ScanStep::Done(report) => {
                placed.iter().for_each(|&job| queues.remove(job));
                return (placed.iter().map(|job| job.0).collect(), report);
            }
        }
    }
}

fn jobs_of_class(queues: &PlacementQueues, class: Priority) -> Vec<u64> {
    queues.jobs_of_class(class).map(|job| job.0).collect()
}

fn counted_tries(queues: &PlacementQueues, job: u64) -> u32 {
    queues.standing_of(JobId(job)).unwrap().tries
}

fn parameters_with_interval(secs: u64) -> QueueParameters {
    QueueParameters {
        scan_interval: DurationMs::from_secs(secs),
        ..parameters_without_events()
    }
}
