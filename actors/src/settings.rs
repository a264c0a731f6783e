//! Settings of the control plane, validated once by the caller, then frozen.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::SiteName;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::spec::SpecLimits;
use cospan_domain::placement::{DefaultPolicies, History, Quota};
use cospan_domain::units::{BitsPerSecond, DurationMs};

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
    pub history_seed: History,
    /// How much of a site may be filled, by site; one that is missing has no bound.
    pub quotas: BTreeMap<SiteName, Quota>,
    /// Placement queues.
    pub queue: cospan_domain::queue::QueueParameters,
    /// A report of a site older than this is asked for again before placing.
    pub information_expiry: DurationMs,
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
    /// Bandwidth from a site to another.
    pub links: BTreeMap<(SiteName, SiteName), BitsPerSecond>,
    /// Calls to one site that may be under way at once.
    pub calls_per_site: usize,
    /// Attempt directories are kept this long after their job ended.
    pub keep_attempts: DurationMs,
    /// A job is kept in the live state this long after it ended.
    pub keep_jobs: DurationMs,
    /// Commands that may wait at the intake before clients are told to come back.
    pub intake_bound: usize,
    /// Who is told about a site, by site; those of no site are told about all.
    pub webhooks: BTreeMap<Option<SiteName>, Vec<Arc<str>>>,
    /// Whether a fallback tick marks everything dirty now and then.
    pub fallback_tick: Option<DurationMs>,
}
