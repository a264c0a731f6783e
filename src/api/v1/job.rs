//! What a job looks like from outside: whole, and as a row of a list.
//!
//! Fields may be added within a version, so readers ignore what they do not know.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::accounting::AccountingReport;
use super::document::{JobDocument, PriorityName};
use super::explain::{ExplainReport, RefusedReport};
use super::quantity::Instant;
use super::reservation::ReservationReport;
use super::runner::TaskReport;

/// Everything known about one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobReport {
    /// Its number.
    pub id: u64,
    /// The key that submitted it.
    pub owner: String,
    /// The client's name for the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// When it was accepted.
    pub submitted_at: Instant,
    /// Class of its placement queue now.
    pub priority: PriorityName,
    /// Where it stands.
    pub phase: PhaseReport,
    /// It is not placed while this is set; the key that froze it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_by: Option<String>,
    /// Nothing is done for it until an operator releases it; why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// Number of its latest co-allocation; 0 before the first.
    pub round: u32,
    /// What chose the sites of that, while the job has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<PlacedReport>,
    /// Which run of a sweep it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<TaskReport>,
    /// All input of this round is at its sites, whole and checked.
    pub inputs_here: bool,
    /// The common start of this round, once decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Instant>,
    /// What became of the start that it is to be promised, if it wants that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationReport>,
    /// How its components are doing, in the order of the document.
    pub components: Vec<ComponentReport>,
    /// How often it came back to its queue, by cause.
    pub setbacks: SetbacksReport,
    /// When what happened.
    pub instants: InstantsReport,
    /// What it cost so far.
    #[serde(default)]
    pub accounting: AccountingReport,
    /// How often its record was written.
    pub revision: u64,
    /// What was asked for.
    pub document: JobDocument,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PhaseReport {
    /// `queued`, `placed`, `claiming`, `starting`, `running`, `collecting`, `aborting`,
    /// `finished`, `failed` or `cancelled`.
    #[schema(example = "running")]
    pub state: String,
    /// Since when, or when it ended.
    pub since: Instant,
    /// Not placed before, after a setback (queued).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Instant>,
    /// When it is expected to start (placed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_estimate: Option<Instant>,
    /// Why it failed or is being aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What comes after an abort: `queued`, `failed` or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The key that cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl PhaseReport {
    /// Whether nothing can happen to the job any more.
    pub fn is_final(&self) -> bool {
        matches!(self.state.as_str(), "finished" | "failed" | "cancelled")
    }
}

/// What chose the sites of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacedReport {
    /// The policy.
    #[schema(example = "worst-fit")]
    pub policy: String,
    /// The rule of it.
    #[schema(example = "most-left")]
    pub rule: String,
    /// What kept most of the sites that were refused then; missing if none was.
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

/// How a component is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ComponentReport {
    /// Its name.
    pub name: String,
    /// Processors that it asked for.
    pub processors: u32,
    /// Its site in this round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Number of its latest attempt; 0 before the first.
    pub attempt: u32,
    /// What the attempt is doing: `idle`, `intended`, `uncertain`, `submitted`, `at-gate`,
    /// `opened`, `running`, `succeeded`, `failed`, `never-ran`, `lost`, `killed` or `abandoned`.
    pub state: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Instant>,
    /// How it ended, or what is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The host it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The number that the site's resource manager gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lrm_id: Option<String>,
    /// Estimated time to bring its input there, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_time_ms: Option<u64>,
    /// Where its input comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceReport>,
    /// Sites that failed it; avoided while others can hold it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
    /// Its outputs, in the order of the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputReport>,
}

/// Where content comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceReport {
    /// BLAKE3 digest.
    pub digest: String,
    /// Its size.
    pub size_bytes: u64,
    /// The site that has it.
    pub from: String,
    /// If it is a chunk: digest of the file that it is cut from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_of: Option<String>,
    /// If it is a chunk: where in that file it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
}

/// An output of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputReport {
    /// Where it is below the work directory.
    pub path: String,
    /// Its digest, once it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Its size, once it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// It is where it belongs, whole.
    pub collected: bool,
    /// It stays with its attempt, and is not read before somebody fetches it.
    #[serde(default)]
    pub stays: bool,
}

/// How often a job came back to its queue, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SetbacksReport {
    /// Claiming tries that failed.
    pub claims: u32,
    /// Rounds that could not be claimed by their estimated start; each lowers L.
    #[serde(default)]
    pub missed_starts: u32,
    /// Rounds that gave way to jobs of a higher class.
    #[serde(default)]
    pub preemptions: u32,
    /// Rounds aborted after an attempt was submitted.
    pub rounds: u32,
    /// Errors of sites.
    pub site_errors: u32,
    /// Errors of its own.
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
    /// Start as estimated at the first placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_start_estimate: Option<Instant>,
    /// Latest claim that succeeded: all components at their gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Instant>,
    /// When all payloads had begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Instant>,
    /// Time spent in the placement queue, in milliseconds.
    pub total_placement_time_ms: u64,
    /// Processor-milliseconds held at gates without running.
    pub wasted_processor_ms: u64,
    /// Bytes that were to be moved for it, as placed.
    pub transfer_volume_bytes: u64,
}

/// A job as a row of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobRow {
    /// Its number.
    pub id: u64,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key that submitted it.
    pub owner: String,
    /// Where it stands.
    pub state: String,
    /// Since when.
    pub since: Instant,
    /// When it was accepted.
    pub submitted_at: Instant,
    /// Class of its placement queue.
    pub priority: PriorityName,
    /// Number of its components.
    pub components: u32,
    /// Processors of all components together.
    pub processors: u64,
    /// The sites it is on, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// It is frozen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// It is held after an internal error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The sweep that it is a run of: the job of the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
}

/// One page of a list of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The rows. May be fewer than asked for although there are more: see `next`.
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

/// What is submitted.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a submission is read without it, for speed")]
pub(crate) enum SubmissionBody {
    /// One job.
    One(Box<JobDocument>),
    /// Several, accepted as a whole or not at all; `limits.max_jobs_per_request` says how many at
    /// most.
    Several(Vec<JobDocument>),
}

/// What a submission comes to that accepts nothing new.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "each is written by itself")]
pub(crate) enum SubmissionReport {
    /// It had been accepted before.
    Submitted(SubmittedReport),
    /// It was only checked.
    Checked(CheckedReport),
}

/// One accepted job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubmittedRow {
    /// Its number.
    pub id: u64,
    /// It had been accepted before, under the same idempotency key.
    pub repeated: bool,
    /// The sweep that it is a run of: the job of the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Why it can never start as things are, if that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The answer to a submission that was only tried: it would be accepted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct CheckedReport {
    /// Where each job would go, or why it would wait, in the order of submission.
    pub jobs: Vec<ExplainReport>,
}
