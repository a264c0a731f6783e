//! What a decision and a scan cost: `cargo run --release -p cospan-domain --example decide_cost`.
//!
//! Prints CPU per Worst-Fit decision at 100 sites, and the time of one scan of
//! up to 100,000 queued jobs of 1,000 shapes over 100 sites where nothing fits.

#![allow(clippy::print_stdout, reason = "printing is its purpose")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::disallowed_types, reason = "it measures time")]
#![allow(clippy::unwrap_used, reason = "its names are constants")]

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::{Digest, JobId, PolicyName, Seq, SiteName};
use cospan_domain::job::spec::{Content, Priority, Request};
use cospan_domain::labels::{Constraint, Rule};
use cospan_domain::placement::{
    Acceptance, Belief, Board, ComponentRequest, GridSite, GridSnapshot, History, Network,
    PlacementRequest, Quota, Remaining, Silent, SiteShape, place,
};
use cospan_domain::queue::{
    PlacementQueues, QueueParameters, ScanStep, SliceBudget, Trigger, Waiting,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, Bytes, Timestamp};

const SITES: usize = 100;

fn site_name(index: usize) -> SiteName {
    SiteName::new(&format!("site{index:03}")).unwrap()
}

fn resources(processors: u32) -> Resources {
    Resources { processors, others: [("memory_mb".into(), 1 << 40)].into() }
}

/// 100 sites with idle processors that rise with their names: the worst order
/// for Worst-Fit, since every site beats the one before it.
fn grid(idle: impl Fn(usize) -> u32) -> Arc<GridSnapshot> {
    let sites = (0..SITES).map(|index| GridSite {
        shape: Some(Arc::new(SiteShape {
            total: resources(10_000),
            largest_component: resources(10_000),
            labels: [("arch".into(), ["x86_64".into()].into())].into(),
        })),
        acceptance: Acceptance::Open,
        idle: Some(Belief { idle: resources(idle(index)), asked_at: Timestamp(0) }),
        quota: Quota::NONE,
        serves_files: true,
        ..GridSite::unheard(site_name(index))
    });
    let pairs = (0..SITES * SITES)
        .map(|pair| (site_name(pair / SITES), site_name(pair % SITES), BitsPerSecond(100_000_000)));
    let replicas: BTreeMap<Digest, BTreeSet<SiteName>> = (0..8u8)
        .map(|file| (Digest([file; 32]), (0..3).map(|i| site_name(i * 7)).collect()))
        .collect();
    let network = Arc::new(Network::from_links(pairs));
    Arc::new(GridSnapshot::new(Seq(1), sites, network, Arc::new(replicas)))
}

fn request(components: Vec<ComponentRequest>) -> PlacementRequest {
    let policy = PolicyName::new("worst-fit").unwrap();
    PlacementRequest::new(policy, Request::NonFixed, true, components)
}

fn component(processors: u32) -> ComponentRequest {
    ComponentRequest::of_resources(Resources::processors(processors))
}

/// Mean time of one decision, of the best of five runs.
fn decide(grid: &GridSnapshot, request: &PlacementRequest) -> f64 {
    let times = 50_000;
    let run = |_| {
        let fresh = Remaining::of(grid);
        let mut remaining = fresh.clone();
        let mut spent = Duration::ZERO;
        for _ in 0..times / 100 {
            remaining.clone_from(&fresh);
            let begin = Instant::now();
            for _ in 0..100 {
                let mut board = Board {
                    grid,
                    remaining: &mut remaining,
                    history: &mut History::All,
                    observer: &mut Silent,
                };
                let _ = black_box(place(black_box(request), &mut board));
            }
            spent += begin.elapsed();
        }
        spent.as_secs_f64() * 1e6 / f64::from(times)
    };
    (0..5).map(run).fold(f64::INFINITY, f64::min)
}

fn decisions() {
    let rising = grid(|index| 5_000 + 37 * index as u32);
    let level = grid(|_| 5_000);
    let full = grid(|_| 3);
    let mut constrained = component(4);
    constrained.constraints =
        vec![Constraint { key: "arch".into(), rule: Rule::Is("x86_64".into()) }];
    constrained.resources = Resources { processors: 4, others: [("memory_mb".into(), 1)].into() };
    let mut with_input = constrained.clone();
    with_input.inputs = [Content { digest: Digest([1; 32]), size: Bytes(4_000_000_000) }].into();
    let rows = [
        ("one component", &level, request(vec![component(4)])),
        ("one component, worst order of sites", &rising, request(vec![component(4)])),
        ("one, constrained, worst order", &rising, request(vec![constrained])),
        (
            "one, constrained, input with 3 replicas, worst order",
            &rising,
            request(vec![with_input]),
        ),
        ("three components", &level, request(vec![component(4); 3])),
        ("one component, refused", &full, request(vec![component(4)])),
    ];
    for (name, grid, request) in rows {
        println!("decide_us {:8.3}  {name}", decide(grid, &request));
    }
}

fn shape(index: u64, shapes: u64) -> PlacementRequest {
    // Nothing idle is as large as the smallest of them.
    request(vec![component(4 + (index % shapes) as u32)])
}

fn scan(jobs: u64, shapes: u64) {
    let mut queues = PlacementQueues::new(QueueParameters::default(), History::All);
    let begin = Instant::now();
    for job in 0..jobs {
        queues.insert(Waiting {
            job: JobId(job),
            priority: Priority::ALL[(job % 4) as usize],
            entered: Timestamp(job / 3),
            not_before: Timestamp(0),
            frozen: false,
            max_tries: None,
            request: Arc::new(shape(job * 7919, shapes)),
        });
    }
    let inserted = begin.elapsed();
    let grid = grid(|_| 3);
    for trigger in [Trigger::Interval, Trigger::Event] {
        let runs = (0..5).map(|run| one_scan(&mut queues, trigger, &grid, run));
        let best = runs.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1), b.2));
        let (whole, longest, slices) = best.unwrap_or_default();
        println!(
            "scan_s {:8.4}  {jobs} jobs, {} shapes, {trigger:?}: {slices} slices, longest {:.3} ms",
            whole.as_secs_f64(),
            queues.shape_count(),
            longest.as_secs_f64() * 1e3,
        );
    }
    let begin = Instant::now();
    (0..jobs).for_each(|job| queues.forget(JobId(job)));
    let each = |time: Duration| time.as_secs_f64() * 1e6 / jobs as f64;
    println!(
        "queue_us {:6.3}  to enter (request built), {:.3} to leave, {jobs} jobs",
        each(inserted),
        each(begin.elapsed())
    );
}

/// Time of a whole scan, of its longest slice, and how many slices it took.
fn one_scan(
    queues: &mut PlacementQueues,
    trigger: Trigger,
    grid: &Arc<GridSnapshot>,
    run: u64,
) -> (Duration, Duration, u32) {
    let (mut longest, mut slices) = (Duration::ZERO, 0);
    let begin = Instant::now();
    let now = Timestamp(1_000_000 + run * 60_000);
    let mut scan = queues.begin_scan(trigger, Arc::clone(grid), now);
    loop {
        let slice = Instant::now();
        let step = queues.step(&mut scan, &mut SliceBudget::about_one_ms());
        longest = longest.max(slice.elapsed());
        slices += 1;
        if let ScanStep::Done(_) = step {
            return (begin.elapsed(), longest, slices);
        }
    }
}

fn main() {
    decisions();
    for jobs in [1_000, 10_000, 100_000] {
        scan(jobs, 1_000);
    }
    scan(100_000, 100_000);
}
