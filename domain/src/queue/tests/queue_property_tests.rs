//! The shape index against trying every job.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::placement::{
    PlacementContext, RemainingResources, SilentObserver, SitePairHistory, try_to_place,
};

const CLASSES: [Priority; 4] = Priority::ALL;

fn any_jobs() -> impl Strategy<Value = Vec<(usize, Vec<u32>, u64)>> {
    let sizes = prop_oneof![
        4 => (1..9u32).prop_map(|size| vec![size]),
        1 => prop::collection::vec(1..6u32, 2..4),
    ];
    prop::collection::vec((0..4usize, sizes, 0..20u64), 0..40)
}

fn build_waiting_jobs(drawn: &[(usize, Vec<u32>, u64)]) -> Vec<WaitingJob> {
    drawn
        .iter()
        .enumerate()
        .map(|(index, (class, parts, entered))| WaitingJob {
            entered: seconds(*entered),
            ..waiting_job_for(index as u64, CLASSES[*class], request_of_sizes(parts))
        })
        .collect()
}

/// Tries one queue job by job, as the paper has it.
fn place_naively(jobs: &[WaitingJob], class: Priority, grid: &GridSnapshot) -> Vec<u64> {
    let mut queue: Vec<&WaitingJob> = jobs.iter().filter(|job| job.priority == class).collect();
    queue.sort_by_key(|job| (job.entered, job.job));
    let mut remaining = RemainingResources::of_grid(grid);
    let mut fits = |job: &&WaitingJob| {
        let mut context = PlacementContext {
            grid,
            remaining: &mut remaining,
            history: &mut SitePairHistory::All,
            observer: &mut SilentObserver,
        };
        try_to_place(&job.request, &mut context).is_ok()
    };
    queue
        .into_iter()
        .filter(|job| fits(job))
        .map(|job| job.job.0)
        .collect()
}

proptest! {
    /// Holds for requests without constraints, files or other resources; with them
    /// a shape refused once may fit after another job took a site's first place,
    /// and is then found by the next scan.
    #[test]
    fn trying_shapes_gives_what_trying_each_job_gives(
        drawn in any_jobs(), idle in prop::collection::vec(0..25u32, 1..5),
    ) {
        let jobs = build_waiting_jobs(&drawn);
        let sites = ["A", "B", "C", "D"].iter().zip(&idle).map(|(name, &idle)| open_site(name, idle));
        let grid = Arc::new(grid(sites));
        let mut queues = queues_of(parameters_without_events(), jobs.clone());
        let occupied: Vec<Priority> =
            CLASSES.into_iter().filter(|&class| queues.count_waiting(class) > 0).collect();
        // Turn by turn, each against the whole grid: every queue is scanned once.
        for class in occupied {
            let expected = place_naively(&jobs, class, &grid);
            let mut scan = queues.begin_scan(ScanTrigger::Interval, Arc::clone(&grid), seconds(100));
            let mut placed = Vec::new();
            while let ScanStep::Placed(offer) = queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX)) {
                placed.push(offer.job.0);
            }
            prop_assert_eq!(placed, expected);
        }
    }

    #[test]
    fn an_event_leaves_nobody_who_still_fits(
        drawn in any_jobs(), idle in prop::collection::vec(0..25u32, 1..5),
        turn_processors in 1..40u32,
    ) {
        let jobs = build_waiting_jobs(&drawn);
        let sites = ["A", "B", "C", "D"].iter().zip(&idle).map(|(name, &idle)| open_site(name, idle));
        let grid = Arc::new(grid(sites));
        let parameters = QueueParameters { turn_processors, ..QueueParameters::default() };
        let mut queues = queues_of(parameters, jobs.clone());
        let mut scan = queues.begin_scan(ScanTrigger::Event, Arc::clone(&grid), seconds(100));
        let mut placed = Vec::new();
        while let ScanStep::Placed(offer) = queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX)) {
            placed.push(offer.job.0);
        }
        let mut remaining = scan.remaining().clone();
        for job in jobs.iter().filter(|job| !placed.contains(&job.job.0)) {
            let mut context =
                PlacementContext { grid: &grid, remaining: &mut remaining, history: &mut SitePairHistory::All, observer: &mut SilentObserver };
            prop_assert!(try_to_place(&job.request, &mut context).is_err(), "{:?}", job.job);
        }
        for class in CLASSES {
            // Within a queue and a shape, the head goes first.
            let mut heads: BTreeMap<&PlacementRequest, Vec<(Timestamp, JobId)>> = BTreeMap::new();
            for &job in &placed {
                let job = &jobs[job as usize];
                if job.priority == class {
                    heads.entry(&job.request).or_default().push((job.entered, job.job));
                }
            }
            prop_assert!(heads.values().all(|order| order.is_sorted()));
        }
    }
}
