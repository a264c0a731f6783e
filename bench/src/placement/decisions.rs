//! The pure core: single decisions by policy, and scans of long queues.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, JobId, PolicyName, SiteName};
use cospan_domain::job::spec::{FlexibleBounds, Priority, RequestType};
use cospan_domain::labels::{LabelConstraint, LabelRule};
use cospan_domain::placement::policy::POLICIES;
use cospan_domain::placement::{
    ComponentRequest, GridSite, GridSnapshot, LoadReport, PlacementAcceptance, PlacementContext,
    PlacementRequest, RemainingResources, SilentObserver, SiteNetwork, SitePairHistory,
    SiteProperties, try_to_place,
};
use cospan_domain::queue::{
    PlacementQueues, QueueParameters, ScanSliceBudget, ScanStep, ScanTrigger, WaitingJob,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, Bytes, Timestamp};

use crate::report::BenchReport;
use crate::simulate::slope;

const SITES: usize = 100;
const PROCESSORS: u32 = 10_000;
/// Decisions between two clock readings, and how often that is done.
const BATCH: u32 = 100;
const BATCHES: u32 = 200;
/// Runs of which the best counts: the others were disturbed.
const RUNS: usize = 5;
const SHAPES: u64 = 1_000;
/// Number of sites of which one can hold files.
const FILE_SITE: usize = 7;

/// The names of the figures, by policy.
const DECIDE: [(&str, &str); 6] = [
    ("worst-fit", "decide_worst_fit_us"),
    ("close-to-files", "decide_close_to_files_us"),
    ("cluster-minimization", "decide_cm_us"),
    ("flexible-cluster-minimization", "decide_fcm_us"),
    ("connected-cluster-minimization", "decide_connected_cm_us"),
    (
        "connected-flexible-cluster-minimization",
        "decide_connected_fcm_us",
    ),
];

/// Measures a decision on a job of one component under each policy: the slowest of several
/// settings.
pub(super) fn bench_decisions(report: &mut BenchReport, quick: bool) -> Result<()> {
    let batches = if quick { 1 } else { BATCHES };
    let grids = [
        sample_grid(|_| 5_000)?,
        sample_grid(|index| 5_000 + 37 * index as u32)?,
        sample_grid(|index| if index % FILE_SITE == 0 { 0 } else { 5_000 })?,
    ];
    let mut worst: f64 = 0.0;
    for policy in POLICIES {
        let mut slowest: f64 = 0.0;
        for grid in &grids {
            for component in sample_components() {
                slowest = slowest.max(decision_us(
                    grid,
                    &placement_request(policy.name(), component)?,
                    batches,
                ));
            }
        }
        worst = worst.max(slowest);
        if let Some((_, name)) = DECIDE.iter().find(|(known, _)| *known == policy.name()) {
            report.add_figure(*name, slowest, "us", "");
        }
    }
    report.add_figure("decide_us", worst, "us", "<= 4");
    Ok(())
}

/// Builds a plain component, a demanding one, and one with input.
pub(super) fn sample_components() -> [ComponentRequest; 3] {
    let plain = ComponentRequest::of_resources(Resources::processors(4));
    let mut demanding = plain.clone();
    demanding.constraints = vec![LabelConstraint {
        key: "arch".into(),
        rule: LabelRule::Is("x86_64".into()),
    }];
    demanding.resources.others = [("memory_mb".into(), 1)].into();
    let mut reading = demanding.clone();
    reading.inputs = [Content {
        digest: Digest([1; 32]),
        size: Bytes(4_000_000_000),
    }]
    .into();
    [plain, demanding, reading]
}

pub(super) fn placement_request(
    policy: &str,
    component: ComponentRequest,
) -> Result<PlacementRequest> {
    let name = PolicyName::new(policy)?;
    let flexible = RequestType::Flexible(FlexibleBounds::default());
    let is_served = POLICIES
        .iter()
        .any(|p| p.name() == policy && p.serves(&flexible));
    let kind = if is_served {
        flexible
    } else {
        RequestType::NonFixed
    };
    Ok(PlacementRequest::new(name, kind, true, vec![component]))
}

/// A grid of 100 sites with eight files of three replicas each, and a link between every two sites.
pub(super) fn sample_grid(idle: impl Fn(usize) -> u32) -> Result<Arc<GridSnapshot>> {
    let names: Vec<SiteName> = (0..SITES)
        .map(|index| SiteName::new(&format!("site{index:03}")))
        .collect::<Result<_, _>>()?;
    let sites = names.iter().enumerate().map(|(index, name)| GridSite {
        shape: Some(Arc::new(SiteProperties {
            total: resources_with_memory(PROCESSORS),
            largest_component: resources_with_memory(PROCESSORS),
            labels: [("arch".into(), ["x86_64".into()].into())].into(),
            queues: false,
            queues_only: false,
            reservations: false,
            lanes: None,
        })),
        acceptance: PlacementAcceptance::Open,
        idle: Some(LoadReport {
            idle: resources_with_memory(idle(index)),
            asked_at: Timestamp(0),
        }),
        serves_files: true,
        ..GridSite::never_answered(name.clone())
    });
    let pairs = names
        .iter()
        .flat_map(|from| names.iter().map(move |to| (from, to)));
    let links = pairs.map(|(from, to)| (from.clone(), to.clone(), BitsPerSecond(100_000_000)));
    let replicas: BTreeMap<Digest, BTreeSet<SiteName>> = (0..8u8)
        .map(|file| {
            (
                Digest([file; 32]),
                (0..3).map(|i| names[i * FILE_SITE].clone()).collect(),
            )
        })
        .collect();
    let network = Arc::new(SiteNetwork::from_links(links));
    Ok(Arc::new(GridSnapshot::new(
        sites,
        network,
        Arc::new(replicas),
    )))
}

fn resources_with_memory(processors: u32) -> Resources {
    Resources {
        processors,
        others: [("memory_mb".into(), 1 << 40)].into(),
    }
}

/// Mean time of one decision in microseconds.
fn decision_us(grid: &GridSnapshot, request: &PlacementRequest, batches: u32) -> f64 {
    let fresh = RemainingResources::of_grid(grid);
    let mut remaining = fresh.clone();
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let mut spent = Duration::ZERO;
        for _ in 0..batches {
            remaining.clone_from(&fresh);
            let begin = Instant::now();
            for _ in 0..BATCH {
                let mut context = PlacementContext {
                    grid,
                    remaining: &mut remaining,
                    history: &mut SitePairHistory::All,
                    observer: &mut SilentObserver,
                };
                let _ = black_box(try_to_place(black_box(request), &mut context));
            }
            spent += begin.elapsed();
        }
        best = best.min(spent.as_secs_f64() * 1e6 / f64::from(batches * BATCH));
    }
    best
}

/// Measures scans of queues in which nothing fits.
pub(super) fn bench_scans(report: &mut BenchReport, most: u64) -> Result<()> {
    let grid = sample_grid(|_| 3)?;
    let mut points = Vec::new();
    for jobs in [most / 100, most / 10, most] {
        // A scan counts the tries of the class whose turn it is.
        let apart = time_scans(jobs, &grid, |job| Priority::ALL[(job % 4) as usize])?;
        let together = time_scans(jobs, &grid, |_| Priority::Low)?;
        let whole = apart.0.max(together.0);
        let longest = apart.1.max(together.1);
        points.push((jobs as f64, whole));
        if jobs == most {
            report.add_figure("scan_100k_s", whole, "s", "<= 1");
            report.add_figure("scan_slice_max_ms", longest * 1e3, "ms", "");
        }
    }
    report.add_figure("scan_growth_exponent", slope(&points), "", "<= 1.15");
    Ok(())
}

fn time_scans(
    jobs: u64,
    grid: &Arc<GridSnapshot>,
    class: fn(u64) -> Priority,
) -> Result<(f64, f64)> {
    let mut queues = fill_queues(jobs, class)?;
    let runs = (0..RUNS as u64).map(|run| time_scan(&mut queues, grid, run));
    Ok(runs.fold((f64::INFINITY, 0.0), |best, run| {
        (best.0.min(run.0), best.1.max(run.1))
    }))
}

fn fill_queues(jobs: u64, class: impl Fn(u64) -> Priority) -> Result<PlacementQueues> {
    let mut queues = PlacementQueues::new(QueueParameters::default(), SitePairHistory::All);
    for job in 0..jobs {
        // Not even the smallest of the jobs fits what is idle.
        let processors = 4 + (job * 7_919 % SHAPES) as u32;
        let component = ComponentRequest::of_resources(Resources::processors(processors));
        queues.insert(WaitingJob {
            job: JobId(job),
            priority: class(job),
            entered: Timestamp(job / 3),
            not_before: Timestamp(0),
            frozen: false,
            max_tries: None,
            request: Arc::new(placement_request("worst-fit", component)?),
        });
    }
    Ok(queues)
}

/// Seconds of a whole scan by the clock, tries counted, and of its longest slice.
fn time_scan(queues: &mut PlacementQueues, grid: &Arc<GridSnapshot>, run: u64) -> (f64, f64) {
    let mut longest = Duration::ZERO;
    let begin = Instant::now();
    let now = Timestamp(1_000_000 + run * 60_000);
    let mut scan = queues.begin_scan(ScanTrigger::Interval, Arc::clone(grid), now);
    loop {
        let slice = Instant::now();
        let step = queues.step_scan(&mut scan, &mut ScanSliceBudget::about_one_ms());
        longest = longest.max(slice.elapsed());
        if let ScanStep::Done(_) = step {
            return (begin.elapsed().as_secs_f64(), longest.as_secs_f64());
        }
    }
}
