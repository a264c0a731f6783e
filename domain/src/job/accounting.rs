//! The cost of a job: KOALA's instants and durations (section 3).

use std::sync::LazyLock;

use crate::boxed_default::SharedDefault;
use crate::job::job_state::Job;
use crate::units::{Bytes, DurationMs, Timestamp};

/// Times and sums that are recorded during a job's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobInstants {
    /// First successful placement.
    pub first_placed: Option<Timestamp>,
    /// Latest successful placement (JPT).
    pub placed: Option<Timestamp>,
    /// Job start time (JST) as estimated at the first placement.
    pub first_start_estimate: Option<Timestamp>,
    /// Job start time (JST) as estimated last.
    pub start_estimate: Option<Timestamp>,
    /// Latest claim that succeeded: all components held their processors from then on.
    pub claimed: Option<Timestamp>,
    /// The time at which all payloads had begun.
    pub started: Option<Timestamp>,
    /// The time at which all payloads had succeeded.
    pub succeeded: Option<Timestamp>,
    /// Time spent in the placement queue at its latest visit.
    pub placement_time: DurationMs,
    /// Sum of the times spent in the placement queue.
    pub total_placement_time: DurationMs,
    /// Processor-milliseconds that others could use, in rounds that started: from placement until a
    /// component held its processors for the last time before it began, less those that it held
    /// earlier and gave back.
    pub gained_processor_ms: u64,
    /// Processor-milliseconds held without running: from that moment until the payload began or the
    /// attempt was over, also in rounds that failed. An attempt that was over before its wrapper
    /// came to its gate is not known to have held any.
    pub wasted_processor_ms: u64,
    /// Of these, those held in the latest round.
    pub wasted_in_round_ms: u64,
    /// Bytes that were to be moved for it, as placed.
    pub transfer_volume: Bytes,
}

impl SharedDefault for JobInstants {
    fn shared_default() -> &'static Self {
        static USUAL: LazyLock<JobInstants> = LazyLock::new(JobInstants::default);
        &USUAL
    }
}

/// Durations that follow from the instants. A length is `None` until both of its ends are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobAccounting {
    /// From entering the placement queue to placement, at the latest visit.
    pub placement_time: Option<DurationMs>,
    /// The sum over all visits.
    pub total_placement_time: DurationMs,
    /// From submission to the latest placement.
    pub queue_time: Option<DurationMs>,
    /// TWT: from submission to start.
    pub wait_time: Option<DurationMs>,
    /// From the latest placement to start.
    pub start_overhead: Option<DurationMs>,
    /// The latest estimated start less the first, in milliseconds: negative if it came earlier.
    pub start_delay_ms: Option<i64>,
    /// PGT: from the latest placement to the claim.
    pub gained_time: Option<DurationMs>,
    /// See [`JobInstants::gained_processor_ms`].
    pub gained_processor_ms: u64,
    /// PWT, in processors x time: also of rounds that failed.
    pub wasted_processor_ms: u64,
    /// From start to the end of the last payload.
    pub execution_time: Option<DurationMs>,
    /// From submission to the end.
    pub response_time: Option<DurationMs>,
    /// Number of different sites in the latest round.
    pub sites_combined: u32,
    /// Bytes that were to be moved for it, as placed.
    pub transfer_volume: Bytes,
}

impl JobAccounting {
    /// Computes the accounting of a job in its present state.
    pub fn from_job(job: &Job) -> Self {
        let instants = &job.instants;
        let submitted = Some(job.submitted_at);
        let delay = instants.start_estimate.zip(instants.first_start_estimate);
        let delay = delay.map(|(last, first)| last.0 as i64 - first.0 as i64);
        Self {
            placement_time: instants.placed.map(|_| instants.placement_time),
            total_placement_time: instants.total_placement_time,
            queue_time: time_between(submitted, instants.placed),
            wait_time: time_between(submitted, instants.started),
            start_overhead: time_between(instants.placed, instants.started),
            start_delay_ms: delay,
            gained_time: time_between(instants.placed, instants.claimed),
            gained_processor_ms: instants.gained_processor_ms,
            wasted_processor_ms: instants.wasted_processor_ms,
            execution_time: time_between(instants.started, instants.succeeded),
            response_time: time_between(submitted, job.ended_at()),
            sites_combined: job.count_sites(),
            transfer_volume: instants.transfer_volume,
        }
    }
}

/// The time between two events, once both are known.
fn time_between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<DurationMs> {
    Some(to?.since(from?))
}
