//! The grid as a policy sees it: immutable, and the same for every job of a scan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::network::{BandwidthKind, MessageTime, SiteNetwork};
use super::site_quota::SiteQuota;
use crate::acquisition::{SiteExperience, SitePartitions};
use crate::content::Content;
use crate::ids::{Digest, KeyName, SiteName};
use crate::labels::SiteLabels;
use crate::reservation::IdleDrop;
use crate::resources::Resources;
use crate::site::barred_owners_record::OwnerBan;
use crate::units::{BitsPerSecond, Bytes, DurationMs, Mflops, Timestamp};

/// The known state of all sites, their files and the links between them.
#[derive(Debug, Clone)]
pub struct GridSnapshot {
    sites: Vec<GridSite>,
    usable: Vec<Resources>,
    /// Indexes of sites that have reserved something for others later.
    ebbing: Vec<usize>,
    network: Arc<SiteNetwork>,
    positions: Vec<Option<usize>>,
    replicas: Arc<dyn ReplicaLookup>,
    staged: Arc<dyn StagedContentLookup>,
}

/// The known state of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridSite {
    pub name: SiteName,
    /// The capacity of the site; `None` until its first answer.
    pub shape: Option<Arc<SiteProperties>>,
    pub acceptance: PlacementAcceptance,
    /// The reported idle resources; `None` if unknown, and then nothing is placed.
    pub idle: Option<LoadReport>,
    /// The idle resources of each of its partitions.
    pub idle_in: Arc<BTreeMap<Arc<str>, Resources>>,
    /// The times at which less of that is left, as it is reserved for others.
    pub ebbs: Arc<[IdleDrop]>,
    /// Resources of placed work that its batch system does not show yet.
    pub pending: Resources,
    /// Resources that our running components hold there.
    pub ours: Resources,
    /// The bound on what we may fill of it.
    pub quota: SiteQuota,
    /// The number of further jobs that it takes; `None`: no limit.
    pub room: Option<u32>,
    /// Bytes that may still be staged there; `None`: no limit.
    pub staging_left: Option<Bytes>,
    /// True if its files can be read now.
    pub serves_files: bool,
    /// Speed of each of its processors; `None` if unknown.
    pub power_per_processor: Option<Mflops>,
    /// Recent waits of jobs there although enough was idle; `None` if there were none.
    pub waits: Option<Arc<SiteExperience>>,
    /// The owners whose jobs, and nobody else's, stay away from it.
    pub bans: Arc<[(KeyName, OwnerBan)]>,
}

/// The properties of a site other than its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteProperties {
    /// All resources, in use or not.
    pub total: Resources,
    /// The most that one component can get.
    pub largest_component: Resources,
    pub labels: SiteLabels,
    /// True if components may wait in its own queue for hours.
    pub queues: bool,
    /// True if that is the only way in: nothing is claimed there, however much is idle.
    pub queues_only: bool,
    /// True if it grants advance reservations.
    pub reservations: bool,
    /// The partitions; `None` if it has none.
    pub lanes: Option<SitePartitions>,
}

/// A report of a site's load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// Resources that were free for one more submission.
    pub idle: Resources,
    /// The time of the request, by our clock.
    pub asked_at: Timestamp,
}

/// The kinds of jobs that a site accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementAcceptance {
    /// Any job.
    Open,
    /// Only jobs that may try it out after errors.
    ProbesOnly,
    /// No job, for this reason.
    Closed(PlacementHindrance),
}

/// A reason why a site takes no placements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementHindrance {
    /// It has not answered since our start, or never said what is idle.
    Unknown,
    /// It does not answer.
    Unreachable,
    /// The number of silent sites suggests that the fault is ours.
    Isolated,
    /// Too many errors in a row.
    Unusable,
    /// It is being tried out after errors.
    Probing,
    /// An operator is emptying it.
    Draining,
    /// An operator has emptied it.
    Drained,
    /// A maintenance window.
    Maintenance,
    /// Our credentials for it have expired.
    CredentialsExpired,
    /// An operator froze it.
    Frozen,
    /// Components cannot wait there: what it does not start at once it refuses, or its
    /// configuration says so.
    NoQueue,
    /// Components wait in its own queue, and claim nothing there.
    QueueOnly,
}

/// The contents that are staged at sites, or will be for what was placed before: they take no more
/// room. Looked up only where room is bounded. Implemented by what counts it.
pub trait StagedContentLookup: fmt::Debug + Send + Sync {
    /// Returns true if this content is staged at this site.
    fn has(&self, site: &SiteName, content: &Content) -> bool;
}

impl StagedContentLookup for BTreeMap<SiteName, BTreeSet<Content>> {
    fn has(&self, site: &SiteName, content: &Content) -> bool {
        self.get(site)
            .is_some_and(|contents| contents.contains(content))
    }
}

/// The index of replicas by content. Implemented by the catalogue.
pub trait ReplicaLookup: fmt::Debug + Send + Sync {
    /// Calls `visit` once for every site that has this whole content.
    fn visit_sites(&self, digest: &Digest, visit: &mut dyn FnMut(&SiteName));
}

impl ReplicaLookup for BTreeMap<Digest, BTreeSet<SiteName>> {
    fn visit_sites(&self, digest: &Digest, visit: &mut dyn FnMut(&SiteName)) {
        self.get(digest).into_iter().flatten().for_each(visit);
    }
}

impl PlacementAcceptance {
    /// Returns what keeps a job from being placed here, if anything.
    pub fn hindrance(self, may_probe: bool) -> Option<PlacementHindrance> {
        match self {
            PlacementAcceptance::Open => None,
            PlacementAcceptance::ProbesOnly if may_probe => None,
            PlacementAcceptance::ProbesOnly => Some(PlacementHindrance::Probing),
            PlacementAcceptance::Closed(hindrance) => Some(hindrance),
        }
    }

    /// Returns true if a job that must not run twice does better to wait for this site than to try
    /// another one out. A failed site is mended only by the jobs of others, of which there may be
    /// none, and nobody knows when an operator's command will be lifted.
    pub fn is_worth_waiting_for(self) -> bool {
        match self {
            PlacementAcceptance::Open => true,
            PlacementAcceptance::ProbesOnly => false,
            PlacementAcceptance::Closed(hindrance) => match hindrance {
                PlacementHindrance::Probing | PlacementHindrance::Unusable => false,
                PlacementHindrance::Draining
                | PlacementHindrance::Drained
                | PlacementHindrance::Frozen => false,
                PlacementHindrance::Unknown
                | PlacementHindrance::Unreachable
                | PlacementHindrance::Isolated => true,
                PlacementHindrance::Maintenance | PlacementHindrance::CredentialsExpired => true,
                PlacementHindrance::NoQueue => false,
                PlacementHindrance::QueueOnly => true,
            },
        }
    }
}

impl GridSite {
    /// Makes a site that has not answered yet.
    pub fn never_answered(name: SiteName) -> Self {
        Self {
            name,
            shape: None,
            acceptance: PlacementAcceptance::Closed(PlacementHindrance::Unknown),
            idle: None,
            idle_in: Arc::default(),
            ebbs: Arc::default(),
            pending: Resources::default(),
            ours: Resources::default(),
            quota: SiteQuota::NONE,
            room: None,
            staging_left: None,
            serves_files: false,
            power_per_processor: None,
            waits: None,
            bans: Arc::default(),
        }
    }

    /// Returns what we may take of it: what is idle within the quota, less what is pending (KOALA,
    /// section 4: between placement and claim a processor is not there for our own next job).
    pub fn usable_resources(&self) -> Resources {
        let idle = self.idle.as_ref().map(|belief| &belief.idle);
        idle.map(|idle| self.usable_of_idle(idle))
            .unwrap_or_default()
    }

    /// Returns what a job may take that holds it for `lasts`, if that is less than
    /// [`GridSite::usable_resources`]: it must not keep resources that others have reserved within that time.
    pub fn usable_resources_for(&self, lasts: DurationMs) -> Option<Resources> {
        let ebb = self.ebbs.iter().rfind(|ebb| ebb.after < lasts)?;
        let mut left = self.idle.as_ref()?.idle.clone();
        left.limit_to(&ebb.left);
        Some(self.usable_of_idle(&left))
    }

    fn usable_of_idle(&self, idle: &Resources) -> Resources {
        let Some(shape) = &self.shape else {
            return Resources::default();
        };
        let mut usable = self.quota.usable_resources(&shape.total, idle, &self.ours);
        usable.subtract(&self.pending);
        usable
    }

    /// Returns the age of the report about its load.
    pub fn report_age(&self, now: Timestamp) -> Option<DurationMs> {
        self.idle.as_ref().map(|belief| now.since(belief.asked_at))
    }
}

impl GridSnapshot {
    /// Makes a snapshot. The order of `sites` does not matter; of two with one name the later one
    /// counts.
    pub fn new(
        sites: impl IntoIterator<Item = GridSite>,
        network: Arc<SiteNetwork>,
        replicas: Arc<dyn ReplicaLookup>,
    ) -> Self {
        let sites: BTreeMap<SiteName, GridSite> = sites
            .into_iter()
            .map(|site| (site.name.clone(), site))
            .collect();
        let sites: Vec<GridSite> = sites.into_values().collect();
        let positions = sites
            .iter()
            .map(|site| network.position_of_site(&site.name))
            .collect();
        let usable = sites.iter().map(GridSite::usable_resources).collect();
        let indexes = 0..sites.len();
        let ebbing = indexes
            .filter(|index| !sites[*index].ebbs.is_empty())
            .collect();
        let staged = Arc::new(BTreeMap::new());
        Self {
            sites,
            usable,
            ebbing,
            network,
            positions,
            replicas,
            staged,
        }
    }

    /// Sets the contents that are staged at the sites.
    pub fn with_staged(self, staged: Arc<dyn StagedContentLookup>) -> Self {
        Self { staged, ..self }
    }

    /// Returns the same files and links, with these sites.
    pub fn with_sites(&self, sites: Vec<GridSite>) -> Self {
        Self::new(sites, self.network.clone(), self.replicas.clone())
            .with_staged(self.staged.clone())
    }

    /// Returns all sites in order of name; their positions are the site indexes.
    pub fn sites(&self) -> &[GridSite] {
        &self.sites
    }

    /// Returns what we may take of each site before anything is placed, by site index.
    pub fn usable_by_site(&self) -> &[Resources] {
        &self.usable
    }

    /// Returns the indexes of sites that have reserved something for others later.
    pub(super) fn sites_with_later_reservations(&self) -> &[usize] {
        &self.ebbing
    }

    pub fn index_of(&self, name: &SiteName) -> Option<usize> {
        self.sites.binary_search_by(|site| site.name.cmp(name)).ok()
    }

    pub fn site(&self, name: &SiteName) -> Option<&GridSite> {
        self.index_of(name).map(|index| &self.sites[index])
    }

    /// Returns the bandwidth between sites, by index; 0 if unknown.
    pub fn bandwidth(&self, from: usize, to: usize) -> BitsPerSecond {
        match (self.positions[from], self.positions[to]) {
            (Some(from), Some(to)) => self.network.bandwidth_between(from, to),
            _ => BitsPerSecond(0),
        }
    }

    /// Returns the bandwidth by which sites bid, by index; 0 if unknown.
    pub fn bid_bandwidth(&self, from: usize, to: usize) -> BitsPerSecond {
        match (self.positions[from], self.positions[to]) {
            (Some(from), Some(to)) => self.network.bid_bandwidth(from, to),
            _ => BitsPerSecond(0),
        }
    }

    /// Returns the kind of the bandwidths by which sites bid.
    pub fn bid_bandwidth_kind(&self) -> BandwidthKind {
        self.network.bid_bandwidth_kind()
    }

    /// Returns what a site can send to all others together, by index: its potential.
    pub fn total_sending_bandwidth(&self, site: usize) -> BitsPerSecond {
        self.positions[site].map_or(BitsPerSecond(0), |position| {
            self.network.total_sending_bandwidth(position)
        })
    }

    /// Returns how long a message between components takes between sites, by index.
    pub(super) fn message_time_between(&self, from: usize, to: usize) -> MessageTime {
        match (self.positions[from], self.positions[to]) {
            (Some(from), Some(to)) => self.network.message_time_at(from, to),
            _ => MessageTime::NEVER,
        }
    }

    /// Returns true if a content is staged at a site already.
    pub fn is_staged(&self, site: &SiteName, content: &Content) -> bool {
        self.staged.has(site, content)
    }

    pub fn replicas(&self) -> &dyn ReplicaLookup {
        &*self.replicas
    }
}
