//! Withholding: a large job of the highest class is not starved by small ones.

use super::*;
use crate::ids::SiteName;
use crate::placement::testing::site_with_resources;
use crate::queue::{StarvationGuard, StarvationGuardParameters};
use crate::resources::Resources;
use crate::units::PerMillion;
use Priority::{Low, SuperHigh};

fn withholding_parameters() -> QueueParameters {
    let starvation_guard = StarvationGuardParameters {
        after: Some(DurationMs::from_secs(100)),
        share: PerMillion(500_000),
        time: DurationMs::from_secs(1_000),
    };
    QueueParameters {
        starvation_guard,
        ..QueueParameters::default()
    }
}

/// A site of 40 processors.
fn grid_of_40(idle: u32) -> Arc<GridSnapshot> {
    Arc::new(grid([site_with_resources(
        "A",
        Resources::processors(40),
        Resources::processors(idle),
    )]))
}

fn scan_at(
    parameters: QueueParameters,
    secs: u64,
    idle_processors: u32,
) -> (Vec<u64>, Option<StarvationGuard>) {
    let mut jobs = vec![waiting_job(0, SuperHigh, 40)];
    jobs.extend((1..=20).map(|job| waiting_job(job, Low, 2)));
    let mut queues = queues_of(parameters, jobs);
    let (placed, _) = run_scan(
        &mut queues,
        ScanTrigger::Event,
        &grid_of_40(idle_processors),
        seconds(secs),
    );
    (placed, queues.active_withholding().cloned())
}

#[test]
fn what_is_free_is_withheld_from_the_others_up_to_the_share() {
    let (placed, starvation_guard) = scan_at(withholding_parameters(), 150, 30);
    assert_eq!(placed.len(), 5, "the rest is for small jobs");
    let starvation_guard = starvation_guard.unwrap();
    assert_eq!(
        starvation_guard.withheld,
        [(SiteName::new("A").unwrap(), 20)]
    );
    assert_eq!(
        (starvation_guard.job, starvation_guard.until),
        (JobId(0), seconds(1_100))
    );
}

#[test]
fn nothing_is_withheld_before_its_time_nor_for_ever_nor_if_that_is_off() {
    for secs in [99, 1_101, 2_000] {
        assert_eq!(
            scan_at(withholding_parameters(), secs, 30),
            ((1..=15).collect(), None),
            "at {secs} s"
        );
    }
    assert!(
        scan_at(withholding_parameters(), 2_150, 30).1.is_some(),
        "it has its turn again"
    );
    let mut off = withholding_parameters();
    off.starvation_guard.after = None;
    assert_eq!(scan_at(off, 150, 30).1, None);
}

#[test]
fn a_job_that_fits_is_placed_and_hoards_nothing() {
    let (placed, starvation_guard) = scan_at(withholding_parameters(), 150, 40);
    assert_eq!(placed.first(), Some(&0));
    assert_eq!(starvation_guard, None);
}

#[test]
fn a_job_that_no_site_could_ever_hold_withholds_nothing() {
    let jobs = vec![waiting_job(0, SuperHigh, 400), waiting_job(1, Low, 2)];
    let mut queues = queues_of(withholding_parameters(), jobs);
    let (placed, _) = run_scan(
        &mut queues,
        ScanTrigger::Event,
        &grid_of_40(30),
        seconds(150),
    );
    assert_eq!((placed, queues.active_withholding()), (vec![1], None));
}
