//! What becomes of a control plane whose own disk fails it.

use std::sync::Arc;

use cospan_domain::runner::RestartScope;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_storage::fault::FaultDisk;

use super::call_faults::{CallFaultModel, FaultRates, StoreDiskFaults};
use super::control_plane_run::{RunEnd, RunPlan, SimEnvironment, run_control_plane};
use super::fault_kinds::FaultKind;
use super::journal::StoreDisk;
use super::kill_switch::KillPoint;
use super::probe_tests::{BEGINS, SECOND, environment_with_sites, submit};

const MINUTE: DurationMs = DurationMs(60_000);

fn environment_with_disk(disk: StoreDiskFaults, sync_max: DurationMs) -> SimEnvironment {
    let fault_rates = FaultRates {
        disk,
        sync_max,
        ..FaultRates::default()
    };
    let call_faults = Arc::new(CallFaultModel::new(fault_rates, 1));
    SimEnvironment {
        disk: StoreDisk::Faulty(FaultDisk::default()),
        call_faults,
        ..environment_with_sites(&["delft"])
    }
}

fn plan_with_kill(begins: Timestamp, moment: Option<KillPoint>) -> RunPlan {
    RunPlan {
        moment,
        ..RunPlan::undisturbed(begins, 1)
    }
}

/// Submits one job, and counts those that are there a minute after the start.
fn run_for_a_minute(environment: &SimEnvironment, plan: RunPlan) -> RunEnd<usize> {
    let end = run_control_plane(environment, plan, move |plane_run| async move {
        plane_run.sleep_until(plan.begins + SECOND).await;
        let submitted = tokio::time::timeout(
            std::time::Duration::from_secs(1),
            submit(&plane_run, &[1], RestartScope::Job),
        );
        let _unanswered = submitted.await;
        plane_run.sleep_until(plan.begins + MINUTE).await;
        plane_run.plane.view().jobs.len()
    });
    end.unwrap()
}

#[test]
fn a_full_disk_ends_the_control_plane_which_goes_on_when_there_is_room() {
    let full = BEGINS + MINUTE + SECOND;
    let room = BEGINS + MINUTE + MINUTE;
    let disk = StoreDiskFaults {
        full: vec![(full, room)],
        ..StoreDiskFaults::default()
    };
    let environment = environment_with_disk(disk, DurationMs::ZERO);
    assert_eq!(
        run_for_a_minute(&environment, plan_with_kill(BEGINS, None)),
        RunEnd::Done(BEGINS + MINUTE, 1)
    );
    let RunEnd::Killed(at) = run_for_a_minute(&environment, plan_with_kill(BEGINS + MINUTE, None))
    else {
        panic!("it goes on without a disk")
    };
    assert!(
        (full..room).contains(&at),
        "it ends with the first record that has no room"
    );
    assert_eq!(
        run_for_a_minute(&environment, plan_with_kill(at + SECOND, None)),
        RunEnd::Killed(at + SECOND),
        "and at start"
    );
    let RunEnd::Done(_, jobs) = run_for_a_minute(&environment, plan_with_kill(room, None)) else {
        panic!("there is room")
    };
    assert_eq!(
        jobs, 2,
        "what was acknowledged is there, what was not is not"
    );
    let struck = environment.call_faults.tally().fault_counts();
    assert_eq!(struck[&(FaultKind::StoreFull, "start")], 1);
    assert!(
        struck
            .keys()
            .any(|(kind, step)| *kind == FaultKind::StoreFull && *step != "start")
    );
}

#[test]
fn a_failing_write_ends_the_control_plane_and_loses_nothing_acknowledged() {
    let environment = environment_with_disk(StoreDiskFaults::default(), DurationMs::ZERO);
    assert_eq!(
        run_for_a_minute(&environment, plan_with_kill(BEGINS, None)),
        RunEnd::Done(BEGINS + MINUTE, 1)
    );
    let disk = StoreDiskFaults {
        failing_writes: 1_000_000,
        ..StoreDiskFaults::default()
    };
    let call_faults = Arc::new(CallFaultModel::new(
        FaultRates {
            disk,
            ..FaultRates::default()
        },
        1,
    ));
    let failing = SimEnvironment {
        call_faults,
        ..environment.clone()
    };
    let RunEnd::Killed(at) = run_for_a_minute(&failing, plan_with_kill(BEGINS + MINUTE, None))
    else {
        panic!("it goes on without a disk")
    };
    assert!(
        failing
            .call_faults
            .tally()
            .fault_counts()
            .keys()
            .all(|(kind, _)| *kind == FaultKind::WriteFails)
    );
    let RunEnd::Done(_, jobs) = run_for_a_minute(&environment, plan_with_kill(at, None)) else {
        panic!("it is well again")
    };
    assert_eq!(jobs, 2);
}

#[test]
fn a_record_that_a_death_tears_is_as_if_it_had_never_been_written() {
    let disk = StoreDiskFaults {
        tears: true,
        ..StoreDiskFaults::default()
    };
    let environment = environment_with_disk(disk, DurationMs::ZERO);
    let mut begins = BEGINS;
    for append in 1..=12 {
        let end = run_for_a_minute(
            &environment,
            plan_with_kill(begins, Some(KillPoint::BeforeAppend(append))),
        );
        begins = match end {
            RunEnd::Killed(at) | RunEnd::Done(at, _) => at + SECOND,
        };
    }
    let struck = environment.call_faults.tally().fault_counts();
    let torn = struck
        .iter()
        .filter(|((kind, _), _)| *kind == FaultKind::TornTail);
    assert!(torn.map(|(_, count)| count).sum::<u64>() > 4, "{struck:?}");
    assert!(
        matches!(
            run_for_a_minute(&environment, plan_with_kill(begins, None)),
            RunEnd::Done(..)
        ),
        "it opens"
    );
}
