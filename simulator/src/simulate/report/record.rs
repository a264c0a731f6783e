//! The record of a simulated run for the report: plain facts, no results.
//!
//! Everything that follows from these facts (waits, slowdowns, shares) is computed here or in
//! [`super::summary`], so that a record cannot contradict itself.

use std::collections::BTreeMap;

use cospan_domain::units::{DurationMs, Timestamp};
use serde::{Deserialize, Serialize};

use super::local_days::LocalUserDay;
use super::millis;
use super::step_function::{ReportSpan, StepValue};

/// Run times below this count as this much in the bounded slowdown, as is
/// usual since Feitelson and Rudolph, "Metrics and Benchmarking for Parallel
/// Job Scheduling", JSSPP 1998.
pub const SLOWDOWN_THRESHOLD: DurationMs = DurationMs::from_secs(10);

/// A simulated run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The values that were varied between runs, such as the placement policy. Runs with the same
    /// label differ in their seed only.
    pub label: String,
    /// Seed of everything random in the run; runs of different labels with one
    /// seed saw the same workload and are compared pairwise.
    pub seed: u64,
    /// First instant of the run.
    #[serde(with = "millis")]
    pub began: Timestamp,
    /// Last instant of the run.
    #[serde(with = "millis")]
    pub ended: Timestamp,
    /// The sites, in the order in which they should be shown.
    pub sites: Vec<SiteTrace>,
    /// Every attempt that a site took, by job, component and number.
    pub attempts: Vec<AttemptRow>,
    /// Jobs that wait for placement, as steps in order of time.
    pub queue: Vec<QueueStep>,
    /// Every job that was submitted.
    pub jobs: Vec<RunJob>,
    /// Further counters: messages, journal records, faults.
    pub counters: BTreeMap<String, u64>,
}

/// The events at one site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteTrace {
    /// Name of the site.
    pub name: String,
    /// Processors that the site has, working or not.
    pub processors: u32,
    /// The load, as steps in order of time.
    pub load: Vec<LoadUseStep>,
    /// Bars for the Gantt chart.
    pub bars: Vec<GanttBar>,
    /// Bars that the run did not keep, to save memory.
    pub bars_dropped: u64,
    /// Reservations that jobs had there.
    #[serde(default)]
    pub bookings: Vec<ReservationBar>,
    /// The experience of its own users, day by day.
    #[serde(default)]
    pub local_days: Vec<LocalUserDay>,
}

/// Use of a site's processors from an instant until the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadUseStep {
    /// Begin of the step.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// Processors on which grid jobs run.
    pub running: u32,
    /// Processors claimed for grid jobs that wait for their other components.
    pub held: u32,
    /// Processors that local users occupy.
    pub local: u32,
    /// Processors that are down.
    pub down: u32,
}

/// Length of the queue from an instant until the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStep {
    /// Begin of the step.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// Jobs that wait for placement.
    pub waiting: u32,
}

/// A use of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadKind {
    /// Runs a grid job.
    GridRun,
    /// Is claimed for a grid job that has not begun.
    GridHold,
    /// Serves a local user.
    Local,
    /// Does not work.
    Down,
}

/// A bar of the Gantt chart: some processors of a site, for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GanttBar {
    /// First instant.
    #[serde(with = "millis")]
    pub from: Timestamp,
    /// End, not included.
    #[serde(with = "millis")]
    pub to: Timestamp,
    /// Number of processors.
    pub processors: u32,
    /// The use of the processors.
    pub kind: LoadKind,
    /// The grid job, if it was one.
    pub job: Option<u64>,
    /// The component of that job, from 0.
    pub component: Option<u32>,
}

/// A reservation in the Gantt chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationBar {
    /// Begin of the reservation.
    #[serde(with = "millis")]
    pub from: Timestamp,
    /// End of the reservation.
    #[serde(with = "millis")]
    pub to: Timestamp,
    /// Number of processors.
    pub processors: u32,
    /// The job.
    pub job: u64,
    /// The component of that job, from 0.
    pub component: u32,
    /// Time at which it was confirmed.
    #[serde(with = "millis")]
    pub made: Timestamp,
    /// Time at which it was cancelled without having served its job, if it was.
    #[serde(with = "millis::optional")]
    pub left: Option<Timestamp>,
}

/// An attempt of a component at a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRow {
    pub job: u64,
    /// The component of that job, from 0.
    pub component: u32,
    /// The number among the attempts of the component, from 1.
    pub attempt: u32,
    /// The round of the job that it belongs to, from 1; `None` if its site's answer never came.
    pub round: Option<u32>,
    /// The site, as an index of [`RunRecord::sites`].
    pub site: usize,
    /// Processors that it asked for.
    pub processors: u32,
    /// Time at which its site took it.
    #[serde(with = "millis")]
    pub submitted: Timestamp,
    /// Time from which it held its processors.
    #[serde(with = "millis::optional")]
    pub held: Option<Timestamp>,
    /// Time at which its payload began.
    #[serde(with = "millis::optional")]
    pub began: Option<Timestamp>,
    /// Time at which it had freed all processors.
    #[serde(with = "millis::optional")]
    pub ended: Option<Timestamp>,
    /// The reason of its end, in words.
    pub why: Option<String>,
}

/// The end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnding {
    /// All components ended well.
    Done,
    /// It failed for good.
    Failed,
    /// A user cancelled it.
    Cancelled,
    /// It had not ended when the run did.
    Unfinished,
}

/// A job of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJob {
    /// Number of the job.
    pub id: u64,
    /// Name given by its user.
    pub name: String,
    /// Number of components.
    pub components: u32,
    /// Processors of all components together.
    pub processors: u32,
    /// Number of different sites of its last placement; 0 if it never was placed.
    pub sites: u32,
    /// Priority class, as users write it.
    pub priority: String,
    /// Time of submission.
    #[serde(with = "millis")]
    pub submitted: Timestamp,
    /// Time of the last placement.
    #[serde(with = "millis::optional")]
    pub placed: Option<Timestamp>,
    /// Time at which all its components had their processors, for the last time.
    #[serde(with = "millis::optional")]
    pub claimed: Option<Timestamp>,
    /// Time at which all components began to run, for the last time.
    #[serde(with = "millis::optional")]
    pub started: Option<Timestamp>,
    /// Time of the end, of whichever kind.
    #[serde(with = "millis::optional")]
    pub finished: Option<Timestamp>,
    pub ending: JobEnding,
    /// Milliseconds that it waited to be placed, in all its rounds together.
    pub total_placement_time_ms: u64,
    /// Estimated start of its last placement less that of its first, in milliseconds.
    pub start_delay_ms: Option<i64>,
    /// Rounds that were begun.
    pub rounds: u32,
    /// Rounds that were aborted after a part of them had been submitted to a site.
    pub rounds_aborted: u32,
    /// Attempts of its components that were submitted to sites.
    pub attempts: u32,
    /// Tries to claim its processors that failed.
    pub failed_claims: u32,
    /// Rounds that were not claimed by their estimated start.
    pub missed_starts: u32,
    /// Rounds that gave way to a job of a higher class.
    pub preemptions: u32,
    /// Errors that sites answered with.
    pub site_errors: u32,
    /// Bytes moved to sites for it.
    pub transfer_bytes: u64,
    /// Longest time, in milliseconds, that a component's input was estimated to take when the job
    /// was last placed.
    pub transfer_time_ms: u64,
    /// Processors times milliseconds between its placement and the start of each component at its
    /// site, in rounds that started: others could use them.
    pub gained_processor_ms: u64,
    /// Processors times milliseconds that were held for it without running, from the start of each
    /// attempt at its site to its payload or its end.
    pub held_processor_ms: u64,
}

impl RunRecord {
    /// The time that the run covers.
    pub(super) fn span(&self) -> ReportSpan {
        ReportSpan {
            from: self.began,
            to: self.ended,
        }
    }

    /// Processors of all sites.
    pub fn processors(&self) -> u64 {
        self.sites
            .iter()
            .map(|site| u64::from(site.processors))
            .sum()
    }
}

impl LoadKind {
    /// All kinds, from the bottom of a stacked figure to its top.
    pub const STACKED: [LoadKind; 4] = [
        LoadKind::GridRun,
        LoadKind::GridHold,
        LoadKind::Local,
        LoadKind::Down,
    ];

    /// The kind in words.
    pub fn words(self) -> &'static str {
        match self {
            LoadKind::GridRun => "grid jobs running",
            LoadKind::GridHold => "held for grid jobs",
            LoadKind::Local => "local users",
            LoadKind::Down => "down",
        }
    }
}

impl LoadUseStep {
    /// Processors by kind, in the order of [`LoadKind::STACKED`].
    pub(super) fn by_kind(&self) -> [u32; 4] {
        [self.running, self.held, self.local, self.down]
    }
}

impl StepValue for LoadUseStep {
    fn at(&self) -> Timestamp {
        self.at
    }
}

impl StepValue for QueueStep {
    fn at(&self) -> Timestamp {
        self.at
    }
}

impl JobEnding {
    /// The ending in one word.
    pub fn word(self) -> &'static str {
        match self {
            JobEnding::Done => "done",
            JobEnding::Failed => "failed",
            JobEnding::Cancelled => "cancelled",
            JobEnding::Unfinished => "unfinished",
        }
    }
}

impl RunJob {
    /// From submission to the start of the last run.
    pub fn wait(&self) -> Option<DurationMs> {
        Some(self.started?.since(self.submitted))
    }

    /// From submission to the last placement.
    pub fn placement_time(&self) -> Option<DurationMs> {
        Some(self.placed?.since(self.submitted))
    }

    /// From submission to the end.
    pub fn response(&self) -> Option<DurationMs> {
        Some(self.finished?.since(self.submitted))
    }

    /// From the start of the last run to the end.
    pub fn run_time(&self) -> Option<DurationMs> {
        Some(self.finished?.since(self.started?))
    }

    /// Response time over run time, where the run time counts as at least
    /// [`SLOWDOWN_THRESHOLD`] and the ratio as at least 1 (Feitelson and
    /// Rudolph 1998).
    pub fn bounded_slowdown(&self) -> Option<f64> {
        let run = self.run_time()?.max(SLOWDOWN_THRESHOLD);
        Some((self.response()?.as_secs_f64() / run.as_secs_f64()).max(1.0))
    }
}
