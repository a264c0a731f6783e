//! The control plane's metrics, on a registry handed in. Labels have few values.

mod costs;
mod reservations;

pub use costs::JobCostMetrics;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
pub use reservations::ReservationMetrics;

/// Buckets for lengths of time between 10 ms and a day, in seconds.
const LONG: [f64; 14] = [
    0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0,
];
/// Buckets for flushes and decisions, in seconds.
const SHORT: [f64; 12] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5,
];
/// Buckets for numbers of things.
const COUNT: [f64; 11] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0,
];

/// The control plane's metrics.
#[derive(Debug, Clone)]
pub struct ControlPlaneMetrics {
    /// Jobs by phase.
    pub jobs: IntGaugeVec,
    /// Memory that jobs take, and its limit.
    pub job_memory: JobMemoryGauges,
    /// Jobs waiting for placement, by priority.
    pub queue_length: IntGaugeVec,
    /// Jobs accepted.
    pub jobs_submitted: IntCounter,
    /// Jobs ended, by how.
    pub jobs_ended: IntCounterVec,
    /// From entering the placement queue to being placed.
    pub placement_seconds: Histogram,
    /// From placement to the decision to start.
    pub claim_seconds: Histogram,
    /// From the decision to start until all had begun.
    pub start_seconds: Histogram,
    /// From start to end of payloads.
    pub run_seconds: Histogram,
    /// From submission to start.
    pub wait_seconds: Histogram,
    /// From submission to the end.
    pub response_seconds: Histogram,
    /// Processor time between placement and claim.
    pub gained_processor_seconds: IntCounter,
    /// Processor time held without running.
    pub wasted_processor_seconds: IntCounter,
    /// From the first byte of a copy to its check.
    pub transfer_seconds: Histogram,
    /// Bytes copied and checked.
    pub transferred_bytes: IntCounter,
    /// Bytes per second of a link, as its latest transfers had it.
    pub link_bandwidth: IntGaugeVec,
    /// Copies that failed, by whose fault.
    pub transfer_failures: IntCounterVec,
    /// Rounds that were aborted, by cause.
    pub rounds_aborted: IntCounterVec,
    /// Components that failed and are restarted alone, by cause and site.
    pub components_failed: IntCounterVec,
    /// 1 for the state that a site is in.
    pub site_state: IntGaugeVec,
    /// Errors charged to a site.
    pub site_errors: IntCounterVec,
    /// Probes of our own that are over, by outcome.
    pub own_probes: IntCounterVec,
    /// Processors of a site, by use (total, idle, held).
    pub site_processors: IntGaugeVec,
    /// Calls to sites, by call and outcome.
    pub site_calls: IntCounterVec,
    /// 1 while the fault seems to be on our side.
    pub isolated: IntGauge,
    /// Units made durable by one flush.
    pub flush_units: Histogram,
    /// The length of a flush.
    pub flush_seconds: Histogram,
    /// Units that were refused because of another version.
    pub journal_conflicts: IntCounter,
    /// Bytes of the store on disk.
    pub store_bytes: IntGauge,
    /// Work taken in and not finished: commands at the intake, changes at the journal.
    pub mailbox_depth: IntGaugeVec,
    /// Deaths of actors, by kind.
    pub actor_restarts: IntCounterVec,
    /// Jobs and sites held after repeated deaths.
    pub held: IntGauge,
    /// Notifications sent, by outcome.
    pub notifications: IntCounterVec,
    /// Rounds of bids, by outcome.
    pub bid_rounds: IntCounterVec,
    /// Messages of those rounds.
    pub bid_messages: IntCounter,
    /// Plans that are neither committed nor dropped.
    pub provisional_plans: IntGauge,
    /// Counts of reservations.
    pub reservations: ReservationMetrics,
    /// Costs of jobs that ended.
    pub costs: JobCostMetrics,
}

struct MetricMaker<'a>(&'a Registry);

impl MetricMaker<'_> {
    fn register_collector<C: prometheus::core::Collector + Clone + 'static>(
        &self,
        collector: prometheus::Result<C>,
    ) -> prometheus::Result<C> {
        let collector = collector?;
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    fn make_counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.register_collector(IntCounter::new(name, help))
    }

    fn make_counter_vec(
        &self,
        name: &str,
        help: &str,
        label: &str,
    ) -> prometheus::Result<IntCounterVec> {
        self.make_counter_vec_by(name, help, &[label])
    }

    fn make_counter_vec_by(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        self.register_collector(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn make_gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.register_collector(IntGauge::new(name, help))
    }

    fn make_gauge_vec(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntGaugeVec> {
        self.register_collector(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn make_histogram(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> prometheus::Result<Histogram> {
        self.register_collector(Histogram::with_opts(
            HistogramOpts::new(name, help).buckets(buckets.to_vec()),
        ))
    }
}

impl ControlPlaneMetrics {
    /// Makes and registers all of them.
    ///
    /// # Errors
    ///
    /// One of the names is taken in this registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let make = MetricMaker(registry);
        Ok(Self {
            jobs: make.make_gauge_vec("cospan_jobs", "Jobs by phase.", &["phase"])?,
            job_memory: JobMemoryGauges::new(&make)?,
            queue_length: make.make_gauge_vec(
                "cospan_queue_length_jobs",
                "Jobs waiting for placement, by priority.",
                &["priority"],
            )?,
            jobs_submitted: make.make_counter("cospan_jobs_submitted_total", "Jobs accepted.")?,
            jobs_ended: make.make_counter_vec("cospan_jobs_ended_total", "Jobs ended.", "how")?,
            placement_seconds: make.make_histogram(
                "cospan_placement_seconds",
                "From entering the placement queue to being placed.",
                &LONG,
            )?,
            claim_seconds: make.make_histogram(
                "cospan_claim_seconds",
                "From placement to the decision to start.",
                &LONG,
            )?,
            start_seconds: make.make_histogram(
                "cospan_start_seconds",
                "From the decision to start until all components had begun.",
                &LONG,
            )?,
            run_seconds: make.make_histogram(
                "cospan_run_seconds",
                "From the start to the end of the payloads.",
                &LONG,
            )?,
            wait_seconds: make.make_histogram(
                "cospan_wait_seconds",
                "From submission to start.",
                &LONG,
            )?,
            response_seconds: make.make_histogram(
                "cospan_response_seconds",
                "From submission to the end, of jobs that finished.",
                &LONG,
            )?,
            gained_processor_seconds: make.make_counter(
                "cospan_gained_processor_seconds_total",
                "Processor time left to others between placement and claim, of jobs that ended.",
            )?,
            wasted_processor_seconds: make.make_counter(
                "cospan_wasted_processor_seconds_total",
                "Processor time held without running, of jobs that ended.",
            )?,
            transfer_seconds: make.make_histogram(
                "cospan_transfer_seconds",
                "From the first byte of a copy to its check.",
                &LONG,
            )?,
            transferred_bytes: make.make_counter(
                "cospan_transferred_bytes_total",
                "Bytes copied and checked.",
            )?,
            link_bandwidth: make.make_gauge_vec(
                "cospan_link_bandwidth_bytes_per_second",
                "Bandwidth from one site to another in the latest transfers.",
                &["source", "destination"],
            )?,
            transfer_failures: make.make_counter_vec(
                "cospan_transfer_failures_total",
                "Copies that failed, by whose fault.",
                "blame",
            )?,
            rounds_aborted: make.make_counter_vec(
                "cospan_rounds_aborted_total",
                "Rounds that were aborted, by cause.",
                "cause",
            )?,
            components_failed: make_failed_components_counter(&make)?,
            site_state: make.make_gauge_vec(
                "cospan_site_state",
                "1 for the state that a site is in, 0 for the others.",
                &["site", "state"],
            )?,
            site_errors: make.make_counter_vec(
                "cospan_site_errors_total",
                "Errors charged to a site.",
                "site",
            )?,
            own_probes: make.make_counter_vec(
                "cospan_own_probes_total",
                "Own probes of sites where all consecutive errors came from one owner's jobs.",
                "outcome",
            )?,
            site_processors: make.make_gauge_vec(
                "cospan_site_processors",
                "Processors of a site: total, idle, held by us.",
                &["site", "use"],
            )?,
            site_calls: make.make_counter_vec_by(
                "cospan_site_calls_total",
                "Calls to sites, by call and outcome.",
                &["call", "outcome"],
            )?,
            isolated: make.make_gauge(
                "cospan_isolated",
                "1 while the control plane takes itself to be isolated: too many sites are silent \
                 at once.",
            )?,
            flush_units: make.make_histogram(
                "cospan_journal_flush_units",
                "Units made durable by one flush.",
                &COUNT,
            )?,
            flush_seconds: make.make_histogram(
                "cospan_journal_flush_seconds",
                "How long a flush took.",
                &SHORT,
            )?,
            journal_conflicts: make.make_counter(
                "cospan_journal_conflicts_total",
                "Units refused because a key had another version.",
            )?,
            store_bytes: make.make_gauge("cospan_store_bytes", "Bytes of the store on disk.")?,
            mailbox_depth: make.make_gauge_vec(
                "cospan_mailbox_depth_messages",
                "Messages taken in and not finished, by actor.",
                &["actor"],
            )?,
            actor_restarts: make.make_counter_vec(
                "cospan_actor_restarts_total",
                "Deaths of actors, by kind.",
                "actor",
            )?,
            held: make.make_gauge("cospan_held_jobs", "Jobs held after an internal error.")?,
            notifications: make.make_counter_vec(
                "cospan_notifications_total",
                "Notifications, by outcome.",
                "outcome",
            )?,
            bid_rounds: make_bid_rounds_counter(&make)?,
            bid_messages: make_bid_messages_counter(&make)?,
            provisional_plans: make_provisional_plans_gauge(&make)?,
            reservations: ReservationMetrics::new(&make)?,
            costs: JobCostMetrics::new(&make)?,
        })
    }
}

/// Memory of jobs, in bytes.
#[derive(Debug, Clone)]
pub struct JobMemoryGauges {
    /// The memory that they take, by estimate.
    pub taken: IntGauge,
    /// The most that they may take.
    pub limit: IntGauge,
}

impl JobMemoryGauges {
    fn new(make: &MetricMaker<'_>) -> prometheus::Result<Self> {
        let taken = "Estimated memory of all jobs that are not archived.";
        let limit = "Bound on that memory: limits.max_job_memory.";
        Ok(Self {
            taken: make.make_gauge("cospan_job_memory_bytes", taken)?,
            limit: make.make_gauge("cospan_job_memory_limit_bytes", limit)?,
        })
    }
}

fn make_bid_rounds_counter(make: &MetricMaker<'_>) -> prometheus::Result<IntCounterVec> {
    let help = "Rounds in which sites bid for a job, by outcome.";
    make.make_counter_vec("cospan_bid_rounds_total", help, "outcome")
}

fn make_bid_messages_counter(make: &MetricMaker<'_>) -> prometheus::Result<IntCounter> {
    let help = "Messages by which sites bid: announcements, answers, clears, cancels and others.";
    make.make_counter("cospan_bid_messages_total", help)
}

fn make_provisional_plans_gauge(make: &MetricMaker<'_>) -> prometheus::Result<IntGauge> {
    let help = "Plans, neither committed nor rejected, that hold deductions at sites.";
    make.make_gauge("cospan_provisional_plans", help)
}

fn make_failed_components_counter(make: &MetricMaker<'_>) -> prometheus::Result<IntCounterVec> {
    let help = "Components that failed and were restarted alone, by cause and site.";
    make.make_counter_vec_by("cospan_components_failed_total", help, &["cause", "site"])
}
