//! The costs of jobs, job by job.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::job::accounting::JobAccounting;
use cospan_domain::job::job_state::Job;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::document::PriorityName;
use super::quantity::Instant;

/// The durations of a job, in milliseconds. A length is left out until both its ends are known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct AccountingReport {
    /// From entering the placement queue to placement, in the latest visit.
    pub placement_time_ms: Option<u64>,
    /// Time spent in the placement queue, all visits together.
    pub total_placement_time_ms: u64,
    /// From submission to the latest placement.
    pub queue_time_ms: Option<u64>,
    /// From submission to start (TWT).
    pub wait_time_ms: Option<u64>,
    /// From the latest placement to start.
    pub start_overhead_ms: Option<u64>,
    /// The latest estimated start less the first; negative if it came earlier.
    pub start_delay_ms: Option<i64>,
    /// From the latest placement to the claim (PGT).
    pub gained_time_ms: Option<u64>,
    /// Processor-milliseconds that others could use between placement and claim.
    pub gained_processor_ms: u64,
    /// Processor-milliseconds held without running (PWT), also of rounds that failed.
    pub wasted_processor_ms: u64,
    /// From start to the end of the last payload.
    pub execution_time_ms: Option<u64>,
    /// From submission to the end.
    pub response_time_ms: Option<u64>,
    /// Different sites of the latest round.
    pub sites_combined: u32,
    /// Bytes that had to be moved for the job, as placed.
    pub transfer_volume_bytes: u64,
}

impl From<&Job> for AccountingReport {
    fn from(job: &Job) -> Self {
        let of = JobAccounting::from_job(job);
        Self {
            placement_time_ms: of.placement_time.map(|length| length.0),
            total_placement_time_ms: of.total_placement_time.0,
            queue_time_ms: of.queue_time.map(|length| length.0),
            wait_time_ms: of.wait_time.map(|length| length.0),
            start_overhead_ms: of.start_overhead.map(|length| length.0),
            start_delay_ms: of.start_delay_ms,
            gained_time_ms: of.gained_time.map(|length| length.0),
            gained_processor_ms: of.gained_processor_ms,
            wasted_processor_ms: of.wasted_processor_ms,
            execution_time_ms: of.execution_time.map(|length| length.0),
            response_time_ms: of.response_time.map(|length| length.0),
            sites_combined: of.sites_combined,
            transfer_volume_bytes: of.transfer_volume.0,
        }
    }
}

/// A job as a row of the accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountRow {
    /// The number of the job.
    pub id: u64,
    /// The name of the job.
    pub name: Option<String>,
    /// The key that submitted it.
    pub owner: String,
    /// The state of the job.
    #[schema(example = "finished")]
    pub state: String,
    /// The priority of the job now.
    pub priority: PriorityName,
    /// The policy that placed the job last; until it is placed, the policy that it names.
    pub policy: Option<String>,
    /// Number of components.
    pub components: u32,
    /// Processors of all components.
    pub processors: u64,
    /// When the job was submitted.
    pub submitted_at: Instant,
    /// When the job was placed last.
    pub placed_at: Option<Instant>,
    /// When all payloads had begun.
    pub started_at: Option<Instant>,
    /// When the job ended.
    pub ended_at: Option<Instant>,
    /// Number of times that the job was placed.
    pub rounds: u32,
    /// Attempts of all components together.
    pub attempts: u32,
    /// The sweep of which this job is a run: the job of the first run.
    #[serde(default)]
    pub group: Option<u64>,
    /// The values of the run's parameters.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub parameters: BTreeMap<Arc<str>, Arc<str>>,
    /// The costs of the job.
    pub accounting: AccountingReport,
}

impl From<&Job> for AccountRow {
    fn from(job: &Job) -> Self {
        let task = job.spec.run.task.as_ref();
        let attempts = job.components.iter().map(|component| component.attempt.0);
        let placed_by = job.placed_by.as_ref().map(|by| &by.policy);
        let policy = placed_by.or(job.spec.policy.as_ref());
        Self {
            id: job.id.0,
            name: job.spec.name.as_deref().map(str::to_owned),
            owner: job.owner.to_string(),
            state: job.phase.kind().as_str().into(),
            priority: job.priority.into(),
            policy: policy.map(ToString::to_string),
            components: job.component_count() as u32,
            processors: job.spec.total_resources().processors.into(),
            submitted_at: job.submitted_at.into(),
            placed_at: job.instants.placed.map(Instant),
            started_at: job.instants.started.map(Instant),
            ended_at: job.ended_at().map(Instant),
            rounds: job.round.0,
            attempts: attempts.fold(0, u32::saturating_add),
            group: task.map(|task| task.group.0),
            parameters: task.map(|task| task.values.clone()).unwrap_or_default(),
            accounting: job.into(),
        }
    }
}

/// A page of the accounts, ordered by job number. Archived jobs are included.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct AccountPage {
    /// The rows.
    pub jobs: Vec<AccountRow>,
    /// Give this as `after` for the next page; missing at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}
