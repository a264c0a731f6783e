//! FlexCo as it was published, for simulations alone: its own model of planning sites, without the
//! control plane. Those of its figures that the other reports lack are counted.

use std::collections::BTreeMap;

use crate::flexco::{FlexCoJob, FlexCoJobRun, FlexCoOutcome, FlexCoSite, run_flexco};
use cospan_domain::reservation::flexco::{RescheduleOperations, bounded_slowdown};
use cospan_domain::reservation::timeline::ResourceKindsError;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand_distr::{Distribution, Poisson};

use super::grid::{BuiltGrid, BuiltSite};
use super::random_streams::random_stream;
use super::report::{
    GanttBar, JobEnding, LoadKind, LoadUseStep, LocalUserDay, QueueStep, RunJob, RunRecord,
    SiteTrace,
};
use super::workload::WorkloadJob;

/// Mean overhead of a job over several sites, in percent of its estimate; and the most.
const OVERHEAD: f64 = 20.0;
const OVERHEAD_MAX: f64 = 25.0;
/// Run times below this count as this much in its slowdown.
const THRESHOLD: DurationMs = DurationMs::from_secs(600);
/// Bars that are kept.
const BARS_MAX: usize = 50_000;

/// The sets of operations, by their name on the command line and in results.
pub const FLEXCO: [(&str, RescheduleOperations); 3] = [
    (
        "flexco-rigid",
        RescheduleOperations {
            shift: false,
            remap: false,
            mold: false,
        },
    ),
    (
        "flexco-shift",
        RescheduleOperations {
            shift: true,
            remap: false,
            mold: false,
        },
    ),
    (
        "flexco-remap",
        RescheduleOperations {
            shift: true,
            remap: true,
            mold: false,
        },
    ),
];

/// The model to run.
pub(super) struct FlexCoModel {
    sites: Vec<FlexCoSite>,
    jobs: Vec<FlexCoJob>,
    names: Vec<String>,
    allowed: RescheduleOperations,
    began: Timestamp,
}

impl FlexCoModel {
    pub(super) fn new(
        grid: &BuiltGrid,
        jobs: &[WorkloadJob],
        allowed: RescheduleOperations,
        seed: u64,
        began: Timestamp,
    ) -> anyhow::Result<Self> {
        let mut chance = random_stream(seed, "overhead", "");
        let percent = Poisson::new(OVERHEAD)?;
        let flexible = jobs.iter().map(|job: &WorkloadJob| FlexCoJob {
            at: job.at,
            processors: job.components.iter().sum(),
            run_time: job.run_time,
            estimate: job.estimate,
            overhead: PerMillion(percent.sample(&mut chance).min(OVERHEAD_MAX) as u32 * 10_000),
        });
        let names = jobs.iter().map(|job| job.name.clone()).collect();
        let sites = grid
            .sites
            .iter()
            .map(|site: &BuiltSite| FlexCoSite {
                name: site.name.clone(),
                processors: site.nodes.saturating_mul(site.processors_per_node),
                local_jobs: site.local_jobs.clone(),
            })
            .collect();
        Ok(Self {
            sites,
            jobs: flexible.collect(),
            names,
            allowed,
            began,
        })
    }

    pub(super) fn run(&self, label: &str, seed: u64) -> Result<RunRecord, ResourceKindsError> {
        let flexed = run_flexco(&self.sites, &self.jobs, self.allowed)?;
        let ended = all_runs(&flexed)
            .map(|ran| ran.ended)
            .max()
            .unwrap_or(self.began);
        Ok(RunRecord {
            label: label.to_owned(),
            seed,
            began: self.began,
            ended,
            sites: self.site_traces(&flexed),
            attempts: Vec::new(),
            queue: vec![QueueStep {
                at: self.began,
                waiting: 0,
            }],
            jobs: flexed
                .jobs
                .iter()
                .enumerate()
                .map(|(place, ran): (usize, &Option<FlexCoJobRun>)| {
                    self.job_row(place, ran.as_ref())
                })
                .collect(),
            counters: self.count_results(&flexed),
        })
    }

    fn job_row(&self, place: usize, ran: Option<&FlexCoJobRun>) -> RunJob {
        let job = &self.jobs[place];
        let began = ran.map(|ran| ran.began);
        RunJob {
            id: place as u64 + 1,
            name: self.names[place].clone(),
            components: ran.map_or(0, |ran| ran.parts.len() as u32),
            processors: job.processors,
            sites: ran.map_or(0, |ran| ran.parts.len() as u32),
            priority: "low".into(),
            submitted: job.at,
            placed: began,
            claimed: began,
            started: began,
            finished: ran.map(|ran| ran.ended),
            ending: if ran.is_some() {
                JobEnding::Done
            } else {
                JobEnding::Failed
            },
            total_placement_time_ms: 0,
            start_delay_ms: None,
            rounds: ran.map_or(0, |ran| ran.moves + 1),
            rounds_aborted: 0,
            attempts: ran.map_or(0, |ran| ran.parts.len() as u32),
            failed_claims: 0,
            missed_starts: 0,
            preemptions: 0,
            site_errors: 0,
            transfer_bytes: 0,
            transfer_time_ms: 0,
            gained_processor_ms: 0,
            held_processor_ms: 0,
        }
    }

    fn count_results(&self, flexed: &FlexCoOutcome) -> BTreeMap<String, u64> {
        let metas = flexed.jobs.iter().flatten();
        let local = flexed.local.iter().flatten().flatten();
        let mut counters = BTreeMap::new();
        counters.extend(class_sums("metajobs", metas.clone()));
        counters.extend(class_sums("local jobs", local.clone()));
        counters.extend(class_sums("all jobs", all_runs(flexed)));
        let several = metas.clone().filter(|ran| ran.parts.len() > 1).count();
        counters.insert("metajobs over several sites".into(), several as u64);
        let moves = metas.map(|ran| u64::from(ran.moves)).sum();
        counters.insert("plans of metajobs replaced".into(), moves);
        // While jobs arrive: after that the sites only empty.
        let last = all_runs(flexed)
            .map(|ran| ran.submitted)
            .max()
            .unwrap_or(self.began);
        let used = all_runs(flexed)
            .map(|ran| processor_seconds(ran, last))
            .sum();
        counters.insert("processor-seconds used while jobs came".into(), used);
        let processors: u64 = self
            .sites
            .iter()
            .map(|site| u64::from(site.processors))
            .sum();
        let there = processors * last.since(self.began).0 / 1_000;
        counters.insert("processor-seconds there while jobs came".into(), there);
        counters
    }

    fn local_days(&self, flexed: &FlexCoOutcome, site: usize) -> Vec<LocalUserDay> {
        let ran = flexed.local.get(site).into_iter().flatten().flatten();
        LocalUserDay::sum_by_day(
            self.began,
            ran.map(|ran| (ran.submitted, ran.began, ran.alone)),
        )
    }

    fn site_traces(&self, flexed: &FlexCoOutcome) -> Vec<SiteTrace> {
        self.sites
            .iter()
            .enumerate()
            .map(|(place, site): (usize, &FlexCoSite)| {
                let local = flexed.local.get(place);
                let none = Vec::new();
                let local = local.unwrap_or(&none).iter().flatten();
                let mut bars: Vec<GanttBar> = local.map(|ran| bar_of(ran, place, None)).collect();
                let metas = flexed.jobs.iter().enumerate();
                let here = metas.filter_map(|(number, ran)| Some((number, ran.as_ref()?)));
                let here = here.filter(|(_, ran)| ran.parts.iter().any(|(site, _)| *site == place));
                bars.extend(here.map(|(number, ran)| bar_of(ran, place, Some(number as u64 + 1))));
                bars.sort_by_key(|bar| bar.from);
                let load = load_steps(&bars, self.began);
                let bars_dropped = bars.len().saturating_sub(BARS_MAX) as u64;
                bars.truncate(BARS_MAX);
                SiteTrace {
                    name: site.name.to_string(),
                    processors: site.processors,
                    load,
                    bars,
                    bars_dropped,
                    bookings: Vec::new(),
                    local_days: self.local_days(flexed, place),
                }
            })
            .collect()
    }
}

fn all_runs(flexed: &FlexCoOutcome) -> impl Iterator<Item = &FlexCoJobRun> + Clone {
    flexed
        .jobs
        .iter()
        .flatten()
        .chain(flexed.local.iter().flatten().flatten())
}

/// Sums over the jobs of a class: times in seconds, slowdowns in thousandths.
fn class_sums<'a>(
    class: &'static str,
    ran: impl Iterator<Item = &'a FlexCoJobRun> + Clone,
) -> impl Iterator<Item = (String, u64)> {
    let sums = [
        (format!("{class} ended"), ran.clone().count() as u64),
        (
            format!("{class}: response, s"),
            sum_of(ran.clone(), |ran: &FlexCoJobRun| {
                ran.ended.since(ran.submitted).as_secs_f64()
            }),
        ),
        (
            format!("{class}: slowdown, thousandths"),
            sum_of(ran.clone(), |ran: &FlexCoJobRun| {
                slowdown_per_mille(ran, ran.ended.since(ran.began))
            }),
        ),
        (
            format!("{class}: slowdown without overhead, thousandths"),
            sum_of(ran.clone(), |ran: &FlexCoJobRun| {
                slowdown_per_mille(ran, ran.alone)
            }),
        ),
    ];
    sums.into_iter()
}

fn sum_of<'a>(ran: impl Iterator<Item = &'a FlexCoJobRun>, of: fn(&FlexCoJobRun) -> f64) -> u64 {
    ran.map(of).sum::<f64>() as u64
}

/// In thousandths, for a run of this length.
fn slowdown_per_mille(ran: &FlexCoJobRun, run: DurationMs) -> f64 {
    1_000.0 * bounded_slowdown(ran.began.since(ran.submitted), run, THRESHOLD)
}

/// Processor-seconds up to an instant.
fn processor_seconds(ran: &FlexCoJobRun, until: Timestamp) -> u64 {
    let processors: u64 = ran.parts.iter().map(|(_, count)| u64::from(*count)).sum();
    processors * ran.ended.min(until).since(ran.began).0 / 1_000
}

fn bar_of(ran: &FlexCoJobRun, site: usize, job: Option<u64>) -> GanttBar {
    let here = ran.parts.iter().position(|(place, _)| *place == site);
    let kind = if job.is_some() {
        LoadKind::GridRun
    } else {
        LoadKind::Local
    };
    GanttBar {
        from: ran.began,
        to: ran.ended,
        processors: here.map_or(0, |part| ran.parts[part].1),
        kind,
        job,
        component: here.filter(|_| job.is_some()).map(|part| part as u32),
    }
}

fn load_steps(bars: &[GanttBar], began: Timestamp) -> Vec<LoadUseStep> {
    let mut changes: BTreeMap<Timestamp, (i64, i64)> = BTreeMap::from([(began, (0, 0))]);
    for bar in bars {
        for (at, sign) in [(bar.from, 1), (bar.to, -1)] {
            let (running, local) = changes.entry(at).or_default();
            let of_kind = if bar.kind == LoadKind::GridRun {
                running
            } else {
                local
            };
            *of_kind += sign * i64::from(bar.processors);
        }
    }
    let mut running = 0;
    let mut local = 0;
    changes
        .into_iter()
        .map(|(at, (more, more_local)): (Timestamp, (i64, i64))| {
            running += more;
            local += more_local;
            LoadUseStep {
                at,
                running: u32::try_from(running).unwrap_or(0),
                held: 0,
                local: u32::try_from(local).unwrap_or(0),
                down: 0,
            }
        })
        .collect()
}
