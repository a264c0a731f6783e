//! Settings of the control plane, validated once by the caller, then frozen.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::acquisition::BenchmarkScores;
use cospan_domain::ids::{HostName, SiteName, TargetName};
use cospan_domain::job::job_parameters::JobParameters;
use cospan_domain::job::spec::JobSpecLimits;
use cospan_domain::placement::network::DEFAULT_MESSAGE;
use cospan_domain::placement::{BidBandwidthChoice, PlacementDefaults, SitePairHistory, SiteQuota};
use cospan_domain::transfer::measured_bandwidth::BandwidthParameters;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Mflops};

/// All settings of the actors.
#[derive(Debug, Clone)]
pub struct ActorSettings {
    /// Times and limits of a job's life at its sites.
    pub job: JobParameters,
    /// Bounds that a submission must keep.
    pub limits: JobSpecLimits,
    /// Policies of jobs that name none.
    pub default_policies: PlacementDefaults,
    /// Pairs of sites that Close-to-Files considers from the start.
    pub history_seed: SitePairHistory,
    /// The quota of each site; a site that is missing has no bound.
    pub quotas: BTreeMap<SiteName, SiteQuota>,
    /// The power of each processor of a site, where configured.
    pub powers: BTreeMap<SiteName, Mflops>,
    /// Results of sites in benchmarks, where configured.
    pub scores: BTreeMap<SiteName, BenchmarkScores>,
    /// Placement queues.
    pub queue: cospan_domain::queue::QueueParameters,
    /// Rules for the priority that a job gets, and may ask for; the first rule that matches counts.
    pub classes: Vec<cospan_domain::queue::JobClassRule>,
    /// A report of a site older than this is asked for again before placing.
    pub information_expiry: DurationMs,
    /// Times of queries to sites.
    pub information: SiteQuerySettings,
    /// Breaker and probes.
    pub site: cospan_domain::site::site_parameters::SiteParameters,
    /// Limits for a site to count as unreachable.
    pub contact: cospan_domain::site::contact::ContactParameters,
    /// If half of the sites fall silent within this time, the fault is ours.
    pub isolation_window: DurationMs,
    /// The pause between two status queries of a site with live attempts.
    pub poll_interval: DurationMs,
    /// The pause between two sweeps for attempts at a site that nobody owns.
    pub reconcile_interval: DurationMs,
    /// The time for which a submission may still take effect after its reply was lost, by site.
    pub submit_settle: BTreeMap<SiteName, DurationMs>,
    /// Copies: retries, stalls, grace before deletion.
    pub transfer: cospan_domain::transfer::copy_parameters::CopyParameters,
    /// Rounds in which sites bid for jobs.
    pub bids: BidSettings,
    /// Bandwidth from a site to another.
    pub links: BTreeMap<(SiteName, SiteName), BitsPerSecond>,
    /// Other settings of links.
    pub network: NetworkSettings,
    /// The space that copies may take at a site, by site; a site that is missing has no bound, and
    /// keeps nothing.
    pub staging: BTreeMap<SiteName, StagingLimits>,
    /// The most calls to one site that may be under way at once.
    pub calls_per_site: usize,
    /// The time for which attempt directories are kept after their job ended.
    pub keep_attempts: DurationMs,
    /// The time for which a job is kept in the live state after it ended.
    pub keep_jobs: DurationMs,
    /// The memory that jobs may take.
    pub job_memory: JobMemoryLimits,
    /// The number of commands that may wait at the intake before clients are told to come back.
    pub intake_bound: usize,
    /// Addresses for notifications about a site, by site; those of no site get all.
    pub webhooks: BTreeMap<Option<SiteName>, Vec<Arc<str>>>,
    /// Addresses that jobs may name for messages of their end.
    pub targets: BTreeMap<TargetName, Arc<str>>,
    /// The time after a job's end when messages of it are given up, once one failed.
    pub tell_for: DurationMs,
    /// The interval of the fallback tick that marks everything dirty; `None` for no tick.
    pub fallback_tick: Option<DurationMs>,
}

/// Settings of links beside their bandwidth.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// The bandwidth that a site could send to another that receives less; one that is missing
    /// sends what the link carries.
    pub uploads: BTreeMap<(SiteName, SiteName), BitsPerSecond>,
    /// The bandwidths by which sites bid.
    pub bids: BidBandwidthChoice,
    /// The latency from a site to another; zero for one that is missing.
    pub latencies: BTreeMap<(SiteName, SiteName), DurationMs>,
    /// The size of one exchange between components of a job.
    pub message: Bytes,
    /// Parameters by which past transfers count as measurements of bandwidth.
    pub rates: BandwidthParameters,
    /// The host under which others measure their latency to a site; a site that is missing is not
    /// measured.
    pub hosts: BTreeMap<SiteName, HostName>,
    /// The time within which each pair is measured once; 0: none is.
    pub latency_interval: DurationMs,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            uploads: BTreeMap::new(),
            bids: BidBandwidthChoice::default(),
            latencies: BTreeMap::new(),
            message: DEFAULT_MESSAGE,
            rates: BandwidthParameters::default(),
            hosts: BTreeMap::new(),
            latency_interval: DurationMs::from_secs(600),
        }
    }
}

/// Times of queries to sites for their reports.
#[derive(Debug, Clone)]
pub struct SiteQuerySettings {
    /// The time before its report expires at which a site with jobs is asked again.
    pub refresh_ahead: DurationMs,
    /// A query that takes longer has no answer.
    pub query_timeout: DurationMs,
    /// The timeouts of single sites that have another.
    pub query_timeouts: BTreeMap<SiteName, DurationMs>,
}

impl Default for SiteQuerySettings {
    fn default() -> Self {
        Self {
            refresh_ahead: DurationMs::from_secs(15),
            query_timeout: DurationMs::from_secs(10),
            query_timeouts: BTreeMap::new(),
        }
    }
}

impl SiteQuerySettings {
    /// Returns how long a query to this site may take.
    pub fn query_timeout_of(&self, site: &SiteName) -> DurationMs {
        self.query_timeouts
            .get(site)
            .copied()
            .unwrap_or(self.query_timeout)
    }
}

/// Rounds in which sites bid for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BidSettings {
    /// True if sites bid in messages. Else their bids are worked out where the job is placed.
    pub in_messages: bool,
    /// A site that does not answer within this time, or does not acknowledge, is passed over.
    pub timeout: DurationMs,
    /// The pause between two rounds about one job.
    pub interval: DurationMs,
}

impl Default for BidSettings {
    fn default() -> Self {
        let second = DurationMs::from_secs(1);
        Self {
            in_messages: true,
            timeout: second,
            interval: second,
        }
    }
}

/// The memory that jobs may take, by their [`footprint`]: those that wait or run, and those that
/// ended and are not in the archive yet.
///
/// [`footprint`]: cospan_domain::job::spec::JobSpec::memory_footprint
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobMemoryLimits {
    /// The bound for all jobs together.
    pub in_all: Bytes,
    /// The bound for the jobs of one key.
    pub per_key: Bytes,
}

impl JobMemoryLimits {
    /// No bound, for simulated worlds of any size.
    pub const UNBOUNDED: JobMemoryLimits = JobMemoryLimits {
        in_all: Bytes(u64::MAX),
        per_key: Bytes(u64::MAX),
    };
}

/// The space that copies may take at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StagingLimits {
    /// The space for copies that jobs need; `None` for no bound.
    pub budget: Option<Bytes>,
    /// The space for copies that no job needs and that are kept as replicas for later ones.
    pub replicas: Bytes,
}
