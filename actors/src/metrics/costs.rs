//! Costs of jobs that ended, as histograms.

use prometheus::Histogram;

use super::{COUNT, LONG, MetricMaker};

/// Buckets for lengths of time that may be negative, in seconds.
const SIGNED: [f64; 12] = [
    -3_600.0, -900.0, -300.0, -60.0, -1.0, 0.0, 1.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0,
];
/// Buckets for processor time, in seconds.
const PROCESSOR: [f64; 9] = [
    0.0,
    1.0,
    10.0,
    60.0,
    600.0,
    3_600.0,
    36_000.0,
    360_000.0,
    3_600_000.0,
];
/// Buckets for amounts of data, in bytes.
const BYTES: [f64; 8] = [0.0, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12];

/// Costs of jobs that ended.
#[derive(Debug, Clone)]
pub struct JobCostMetrics {
    /// Time in the placement queue, all visits of a job together.
    pub total_placement_seconds: Histogram,
    /// The time by which the estimated start of a job moved from its first placement to its last.
    pub start_delay_seconds: Histogram,
    /// The time from the last placement of a job to its claim (PGT).
    pub gained_seconds: Histogram,
    /// Processor time that a job held without running (PWT).
    pub wasted_processor_seconds: Histogram,
    /// Different sites of a job.
    pub sites: Histogram,
    /// Bytes that were to be moved for a job, as placed.
    pub transfer_bytes: Histogram,
}

impl JobCostMetrics {
    pub(super) fn new(make: &MetricMaker<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            total_placement_seconds: make.make_histogram(
                "cospan_total_placement_seconds",
                "Time in the placement queue, all visits of a job together, of jobs that ended.",
                &LONG,
            )?,
            start_delay_seconds: make.make_histogram(
                "cospan_start_delay_seconds",
                "Last estimated start minus the first (negative: earlier), of jobs that ended.",
                &SIGNED,
            )?,
            gained_seconds: make.make_histogram(
                "cospan_gained_seconds",
                "From the last placement to the claim, of jobs that ended.",
                &LONG,
            )?,
            wasted_processor_seconds: make.make_histogram(
                "cospan_job_wasted_processor_seconds",
                "Processor time held without running, by job that ended.",
                &PROCESSOR,
            )?,
            sites: make.make_histogram(
                "cospan_job_sites",
                "Different sites of a job, of jobs that ended.",
                &COUNT,
            )?,
            transfer_bytes: make.make_histogram(
                "cospan_job_transfer_bytes",
                "Bytes that were to be moved for a job, as placed, of jobs that ended.",
                &BYTES,
            )?,
        })
    }
}
