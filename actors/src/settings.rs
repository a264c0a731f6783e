//! Settings of the control plane, validated once by the caller, then frozen.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::acquire::Scores;
use cospan_domain::ids::{HostName, SiteName, TargetName};
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::spec::SpecLimits;
use cospan_domain::placement::network::DEFAULT_MESSAGE;
use cospan_domain::placement::{BidBandwidths, DefaultPolicies, PairHistory, Quota};
use cospan_domain::transfer::rates::RateParameters;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Mflops};

/// All settings of the actors.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Times and limits of a job's life at its sites.
    pub job: JobParameters,
    /// Bounds that a submission must keep.
    pub limits: SpecLimits,
    /// Policies of jobs that name none.
    pub default_policies: DefaultPolicies,
    /// Pairs of sites that Close-to-Files considers from the start.
    pub history_seed: PairHistory,
    /// How much of a site may be filled, by site; one that is missing has no bound.
    pub quotas: BTreeMap<SiteName, Quota>,
    /// What each processor of a site does, where somebody said.
    pub powers: BTreeMap<SiteName, Mflops>,
    /// Results of sites in benchmarks, where somebody said.
    pub scores: BTreeMap<SiteName, Scores>,
    /// Placement queues.
    pub queue: cospan_domain::queue::QueueParameters,
    /// Which class a job gets, and which may be asked for; the first rule that matches speaks.
    pub classes: Vec<cospan_domain::queue::ClassRule>,
    /// A report of a site older than this is asked for again before placing.
    pub information_expiry: DurationMs,
    /// How sites are asked.
    pub information: InformationSettings,
    /// Breaker and probes.
    pub site: cospan_domain::site::parameters::SiteParameters,
    /// When a site counts as unreachable.
    pub contact: cospan_domain::site::contact::ContactParameters,
    /// Half of the sites silent within this time: the fault is ours.
    pub isolation_window: DurationMs,
    /// Between two status queries of a site with live attempts.
    pub poll_interval: DurationMs,
    /// Between two sweeps for attempts at a site that nobody owns.
    pub reconcile_interval: DurationMs,
    /// How long a submission may still take effect after its reply was lost, by site.
    pub submit_settle: BTreeMap<SiteName, DurationMs>,
    /// Copies: retries, stalls, grace before deletion.
    pub transfer: cospan_domain::transfer::parameters::CopyParameters,
    /// Rounds in which sites bid for jobs.
    pub bids: BidSettings,
    /// Bandwidth from a site to another.
    pub links: BTreeMap<(SiteName, SiteName), BitsPerSecond>,
    /// What else there is to know of links.
    pub network: NetworkSettings,
    /// How much of a site copies may take, by site; one that is missing has no bound, and
    /// keeps nothing.
    pub staging: BTreeMap<SiteName, Staging>,
    /// Calls to one site that may be under way at once.
    pub calls_per_site: usize,
    /// Attempt directories are kept this long after their job ended.
    pub keep_attempts: DurationMs,
    /// A job is kept in the live state this long after it ended.
    pub keep_jobs: DurationMs,
    /// What jobs may take of memory.
    pub job_memory: JobMemory,
    /// Commands that may wait at the intake before clients are told to come back.
    pub intake_bound: usize,
    /// Who is told about a site, by site; those of no site are told about all.
    pub webhooks: BTreeMap<Option<SiteName>, Vec<Arc<str>>>,
    /// Addresses that jobs may name to have somebody told of their end.
    pub targets: BTreeMap<TargetName, Arc<str>>,
    /// Telling of a job's end is given up this long after it, once it failed.
    pub tell_for: DurationMs,
    /// Whether a fallback tick marks everything dirty now and then.
    pub fallback_tick: Option<DurationMs>,
}

/// What there is to know of links beside their bandwidth.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// What a site could send to another that receives less; one that is missing sends what the
    /// link carries.
    pub uploads: BTreeMap<(SiteName, SiteName), BitsPerSecond>,
    /// By which bandwidths sites bid.
    pub bids: BidBandwidths,
    /// How long the first bit takes from a site to another; one that is missing takes none.
    pub latencies: BTreeMap<(SiteName, SiteName), DurationMs>,
    /// What an exchange between components of a job carries.
    pub message: Bytes,
    /// How past transfers count as measurements of bandwidth.
    pub rates: RateParameters,
    /// Where a site can be reached by others that measure how far it is; one that is missing
    /// is not measured.
    pub hosts: BTreeMap<SiteName, HostName>,
    /// Each pair is measured once in this time; 0: none is.
    pub latency_interval: DurationMs,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            uploads: BTreeMap::new(),
            bids: BidBandwidths::default(),
            latencies: BTreeMap::new(),
            message: DEFAULT_MESSAGE,
            rates: RateParameters::default(),
            hosts: BTreeMap::new(),
            latency_interval: DurationMs::from_secs(600),
        }
    }
}

/// How sites are asked for what they have.
#[derive(Debug, Clone)]
pub struct InformationSettings {
    /// So long before its report expires, a site that jobs are placed at is asked again.
    pub refresh_ahead: DurationMs,
    /// A query that takes longer has no answer.
    pub query_timeout: DurationMs,
    /// The same of single sites, where it is another.
    pub query_timeouts: BTreeMap<SiteName, DurationMs>,
}

impl Default for InformationSettings {
    fn default() -> Self {
        Self {
            refresh_ahead: DurationMs::from_secs(15),
            query_timeout: DurationMs::from_secs(10),
            query_timeouts: BTreeMap::new(),
        }
    }
}

impl InformationSettings {
    /// How long a query to this site may take.
    pub fn timeout_of(&self, site: &SiteName) -> DurationMs {
        self.query_timeouts
            .get(site)
            .copied()
            .unwrap_or(self.query_timeout)
    }
}

/// Rounds in which sites bid for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BidSettings {
    /// Whether sites bid in messages. Else their bids are worked out where the job is placed.
    pub in_messages: bool,
    /// A site that does not answer within this time, or does not acknowledge, is passed over.
    pub timeout: DurationMs,
    /// Between two rounds about one job.
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

/// What jobs may take of memory, by their [`footprint`]: those that wait or run, and those that
/// ended and are not in the archive yet.
///
/// [`footprint`]: cospan_domain::job::spec::JobSpec::footprint
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobMemory {
    /// Together.
    pub in_all: Bytes,
    /// Those of one key.
    pub per_key: Bytes,
}

impl JobMemory {
    /// No bound, for worlds that are as large as whoever made them wants.
    pub const UNBOUNDED: JobMemory = JobMemory {
        in_all: Bytes(u64::MAX),
        per_key: Bytes(u64::MAX),
    };
}

/// How much of a site copies may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Staging {
    /// Copies that jobs need; `None` for no bound.
    pub budget: Option<Bytes>,
    /// Copies that no job needs and that are kept as replicas for later ones.
    pub replicas: Bytes,
}
