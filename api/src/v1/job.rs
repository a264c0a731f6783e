//! The public view of a job: whole, and as a row of a list.
//!
//! Fields may be added within a version, so readers must ignore fields that they do not know.

use std::collections::BTreeMap;
use std::fmt;

use cospan_domain::units::DurationMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::accounting::AccountingReport;
use super::document::{JobDocument, PriorityName};
use super::explain::{ExplainReport, RefusedReport};
use super::quantity::Instant;
use super::reservation::ReservationReport;
use super::runner::TaskReport;

/// Everything that is known about one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobReport {
    /// The number of the job.
    pub id: u64,
    /// The key that submitted it.
    pub owner: String,
    /// The client's name for the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// When the job was accepted.
    pub submitted_at: Instant,
    /// The priority of the job now.
    pub priority: PriorityName,
    /// The phase of the job.
    pub phase: PhaseReport,
    /// The key that froze the job. A frozen job is not placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_by: Option<String>,
    /// The reason why the job is held. Nothing is done for a held job until an operator releases
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// Number of the latest round; 0 before the first.
    pub round: u32,
    /// The policy and the rule that chose the sites, while the job is placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<PlacedReport>,
    /// The run of a sweep that this job is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<TaskReport>,
    /// True if all input of this round is at its sites, whole and checked.
    pub inputs_here: bool,
    /// The common start of this round, once it is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Instant>,
    /// The state of the job's reservation, if it wants one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationReport>,
    /// The components, in the order of the document.
    pub components: Vec<ComponentReport>,
    /// The setbacks that sent the job back to its queue, by cause.
    pub setbacks: SetbacksReport,
    /// The instants of the job's accounting.
    pub instants: InstantsReport,
    /// The costs of the job so far.
    #[serde(default)]
    pub accounting: AccountingReport,
    /// Number of times that the job's record was written.
    pub revision: u64,
    /// The time after the job's end for which sites keep outputs that are not brought elsewhere;
    /// missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs_kept_ms: Option<u64>,
    /// The document that was submitted.
    pub document: JobDocument,
}

impl JobReport {
    /// Says how long outputs that are not brought elsewhere are kept, if the job has any.
    pub fn with_outputs_kept(mut self, keep: DurationMs) -> Self {
        let mut outputs = self.document.component.iter().flat_map(|c| &c.output);
        if outputs.any(|output| output.site.is_none()) {
            self.outputs_kept_ms = Some(keep.0);
        }
        self
    }
}

/// The phase of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PhaseReport {
    /// `queued`, `placed`, `claiming`, `starting`, `running`, `collecting`, `aborting`,
    /// `finished`, `failed` or `cancelled`.
    #[schema(example = "running")]
    pub state: String,
    /// When the phase began, or the job ended.
    pub since: Instant,
    /// The earliest next placement, after a setback (queued).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Instant>,
    /// The estimated start (placed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_estimate: Option<Instant>,
    /// The reason why the job failed or is being aborted; else, until its payloads have ended, the
    /// first refusal of a batch system, if there was any, and how many more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The phase that follows an abort: `queued`, `failed` or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The key that cancelled the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl PhaseReport {
    /// Returns true if nothing can happen to the job any more.
    pub fn is_final(&self) -> bool {
        matches!(self.state.as_str(), "finished" | "failed" | "cancelled")
    }
}

/// The policy and the rule that chose the sites of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacedReport {
    /// The policy.
    #[schema(example = "worst-fit")]
    pub policy: String,
    /// The rule of the policy.
    #[schema(example = "most-left")]
    pub rule: String,
    /// The reason for which most of the refused sites were refused; missing if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedReport>,
}

impl fmt::Display for PlacedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.policy, self.rule)?;
        match &self.refused {
            Some(refused) => write!(f, ", {refused}"),
            None => Ok(()),
        }
    }
}

/// The state of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ComponentReport {
    /// The name of the component.
    pub name: String,
    /// Processors that the component asked for.
    pub processors: u32,
    /// The site of the component in this round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Number of the latest attempt; 0 before the first.
    pub attempt: u32,
    /// State of the attempt: `idle`, `intended`, `uncertain`, `submitted`, `at-gate`, `opened`,
    /// `running`, `succeeded`, `failed`, `never-ran`, `lost`, `killed` or `abandoned`.
    pub state: String,
    /// When this state began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Instant>,
    /// Details: how the attempt ended, or what is known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The host on which the attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The number of the attempt in the site's batch system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lrm_id: Option<String>,
    /// Estimated time to bring the input there, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_time_ms: Option<u64>,
    /// The sources of the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceReport>,
    /// Sites where the component failed; they are avoided while others can hold it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
    /// Sites whose batch systems refused the component, each with the batch system's words; it is
    /// not placed there again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_by: BTreeMap<String, String>,
    /// The outputs, in the order of the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputReport>,
}

/// The source of a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceReport {
    /// BLAKE3 digest.
    pub digest: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The site that has it.
    pub from: String,
    /// For a chunk: digest of the file that it is cut from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_of: Option<String>,
    /// For a chunk: its offset in that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
}

/// An output of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputReport {
    /// Path below the work directory.
    pub path: String,
    /// The digest of the output, once it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The size of the output, once it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// True if the output is at its destination, whole.
    pub collected: bool,
    /// True if the output stays with its attempt, and is not read before somebody fetches it.
    #[serde(default)]
    pub stays: bool,
}

/// The number of setbacks that sent a job back to its queue, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SetbacksReport {
    /// Claiming tries that failed.
    pub claims: u32,
    /// Rounds whose claim failed until the estimated start; each lowers L.
    #[serde(default)]
    pub missed_starts: u32,
    /// Rounds that were preempted by jobs of a higher priority.
    #[serde(default)]
    pub preemptions: u32,
    /// Rounds aborted after an attempt was submitted.
    pub rounds: u32,
    /// Errors of sites.
    pub site_errors: u32,
    /// Errors of the job itself.
    pub own_errors: u32,
    /// Input that did not arrive.
    pub inputs: u32,
}

/// The instants and sums of a job's accounting.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct InstantsReport {
    /// First placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_placed: Option<Instant>,
    /// Latest placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<Instant>,
    /// The start as estimated at the first placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_start_estimate: Option<Instant>,
    /// The latest successful claim: all components are at their gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Instant>,
    /// When all payloads had begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Instant>,
    /// Time spent in the placement queue, in milliseconds.
    pub total_placement_time_ms: u64,
    /// Processor-milliseconds held at gates without running.
    pub wasted_processor_ms: u64,
    /// Bytes that had to be moved for the job, as placed.
    pub transfer_volume_bytes: u64,
}

/// A job as a row of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobRow {
    /// The number of the job.
    pub id: u64,
    /// The name of the job, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key that submitted it.
    pub owner: String,
    /// The phase of the job.
    pub state: String,
    /// When that phase began.
    pub since: Instant,
    /// When the job was accepted.
    pub submitted_at: Instant,
    /// The priority of the job.
    pub priority: PriorityName,
    /// Number of its components.
    pub components: u32,
    /// Processors of all components together.
    pub processors: u64,
    /// The sites of the job, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// True if the job is frozen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// True if the job is held after an internal error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The sweep of which this job is a run: the job of the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
}

/// A page of a list of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The rows. There may be fewer than asked for although there are more jobs: see `next`.
    pub jobs: Vec<JobRow>,
    /// Give this as `after` for the next page; missing at the end of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The answer to a submission.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SubmittedReport {
    /// The jobs, in the order of submission.
    pub jobs: Vec<SubmittedRow>,
}

/// The body of a submission.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a submission is read without it, for speed")]
pub enum SubmissionBody {
    /// A single job.
    One(Box<JobDocument>),
    /// Several jobs, which are accepted all together or not at all. `limits.max_jobs_per_request`
    /// is the largest number.
    Several(Vec<JobDocument>),
}

/// The answer to a submission that accepts nothing new.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "each is written by itself")]
pub enum SubmissionReport {
    /// The jobs were accepted before.
    Submitted(SubmittedReport),
    /// The jobs were only checked.
    Checked(CheckedReport),
}

/// An accepted job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubmittedRow {
    /// The number of the job.
    pub id: u64,
    /// True if the job was accepted before, under the same idempotency key.
    pub repeated: bool,
    /// The sweep of which this job is a run: the job of the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// The reason why the job can never start as things are, if one was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The answer to a dry run: the submission would be accepted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct CheckedReport {
    /// The placement of each job, or the reason why it would wait, in the order of submission.
    pub jobs: Vec<ExplainReport>,
}
