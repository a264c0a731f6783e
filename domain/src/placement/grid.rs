//! The grid as a policy sees it: immutable, and the same for every job of a scan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::network::{BandwidthKind, Exchange, Network};
use super::quota::Quota;
use crate::acquire::{Obtainable, SitePartitions};
use crate::content::Content;
use crate::ids::{Digest, KeyName, SiteName};
use crate::labels::Labels;
use crate::reserve::IdleDrop;
use crate::resources::Resources;
use crate::site::owners::Ban;
use crate::units::{BitsPerSecond, Bytes, DurationMs, Mflops, Timestamp};

/// What is known of all sites, their files and the links between them.
#[derive(Debug, Clone)]
pub struct GridSnapshot {
    sites: Vec<GridSite>,
    usable: Vec<Resources>,
    /// Sites that promised something to others for later, by index.
    ebbing: Vec<usize>,
    network: Arc<Network>,
    positions: Vec<Option<usize>>,
    replicas: Arc<dyn Replicas>,
    staged: Arc<dyn StagedLookup>,
}

/// What is known of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridSite {
    /// Its name.
    pub name: SiteName,
    /// What it is; `None` until it has been heard from.
    pub shape: Option<Arc<SiteShape>>,
    /// Whether it takes placements.
    pub acceptance: PlacementAcceptance,
    /// What it said is idle; `None` if that is not known, and then nothing is placed.
    pub idle: Option<Belief>,
    /// The same of each of its partitions.
    pub idle_in: Arc<BTreeMap<Arc<str>, Resources>>,
    /// When less of that is left, as it was promised to others.
    pub ebbs: Arc<[IdleDrop]>,
    /// What we placed there and its resource manager does not show yet.
    pub pending: Resources,
    /// What our running components hold there.
    pub ours: Resources,
    /// How much of it we may fill.
    pub quota: Quota,
    /// How many more jobs it takes; `None` for no such limit.
    pub room: Option<u32>,
    /// How many more bytes may be staged there; `None` for no such limit.
    pub staging_left: Option<Bytes>,
    /// Whether its files can be read now.
    pub serves_files: bool,
    /// What each of its processors does; `None` if nobody said.
    pub power_per_processor: Option<Mflops>,
    /// What jobs waited for there lately, though it was idle; `None` if they did not.
    pub waits: Option<Arc<Obtainable>>,
    /// Whose jobs stay away from it, and nobody else's.
    pub bans: Arc<[(KeyName, Ban)]>,
}

/// What a site is, apart from its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteShape {
    /// All that it has, in use or not.
    pub total: Resources,
    /// The most that one component can get.
    pub largest_component: Resources,
    /// Its labels.
    pub labels: Labels,
    /// Components may wait in its own queue for hours.
    pub queues: bool,
    /// That is the only way to it: nothing is claimed there, however much is idle.
    pub queues_only: bool,
    /// It promises processors for later.
    pub reservations: bool,
    /// Its partitions; `None`: it knows no such difference.
    pub lanes: Option<SitePartitions>,
}

/// What a site said of its load, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Belief {
    /// What was free for one more submission.
    pub idle: Resources,
    /// Our clock when the site was asked.
    pub asked_at: Timestamp,
}

/// Whether a site takes placements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementAcceptance {
    /// Any job's.
    Open,
    /// Only of jobs that may try it out after errors.
    ProbesOnly,
    /// None, for this reason.
    Closed(Hindrance),
}

/// Why a site takes no placements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hindrance {
    /// It has not answered since our start, or never said what is idle.
    Unknown,
    /// It does not answer.
    Unreachable,
    /// So many sites do not answer that the fault is taken to be ours.
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

/// What is staged at sites already, or will be, for what was placed before: it takes no more
/// room. Asked only where that is bounded. Implemented by what counts it.
pub trait StagedLookup: fmt::Debug + Send + Sync {
    /// Whether this content is, at this site.
    fn has(&self, site: &SiteName, content: &Content) -> bool;
}

impl StagedLookup for BTreeMap<SiteName, BTreeSet<Content>> {
    fn has(&self, site: &SiteName, content: &Content) -> bool {
        self.get(site)
            .is_some_and(|contents| contents.contains(content))
    }
}

/// Where the replicas of a content are. Implemented by the catalogue.
pub trait Replicas: fmt::Debug + Send + Sync {
    /// Calls `visit` once for every site that has this content, whole.
    fn visit_sites(&self, digest: &Digest, visit: &mut dyn FnMut(&SiteName));
}

impl Replicas for BTreeMap<Digest, BTreeSet<SiteName>> {
    fn visit_sites(&self, digest: &Digest, visit: &mut dyn FnMut(&SiteName)) {
        self.get(digest).into_iter().flatten().for_each(visit);
    }
}

impl PlacementAcceptance {
    /// What keeps a job from being placed here, if anything.
    pub fn hindrance(self, may_probe: bool) -> Option<Hindrance> {
        match self {
            PlacementAcceptance::Open => None,
            PlacementAcceptance::ProbesOnly if may_probe => None,
            PlacementAcceptance::ProbesOnly => Some(Hindrance::Probing),
            PlacementAcceptance::Closed(hindrance) => Some(hindrance),
        }
    }

    /// Whether a job that must not run twice does better to wait for this site than to try
    /// another one out. What failed is mended by the jobs of others alone, of which there may
    /// be none, and when an operator's order ends nobody knows.
    pub fn is_worth_waiting_for(self) -> bool {
        match self {
            PlacementAcceptance::Open => true,
            PlacementAcceptance::ProbesOnly => false,
            PlacementAcceptance::Closed(hindrance) => match hindrance {
                Hindrance::Probing | Hindrance::Unusable => false,
                Hindrance::Draining | Hindrance::Drained | Hindrance::Frozen => false,
                Hindrance::Unknown | Hindrance::Unreachable | Hindrance::Isolated => true,
                Hindrance::Maintenance | Hindrance::CredentialsExpired => true,
                Hindrance::NoQueue => false,
                Hindrance::QueueOnly => true,
            },
        }
    }
}

impl GridSite {
    /// A site that has not been heard from.
    pub fn unheard(name: SiteName) -> Self {
        Self {
            name,
            shape: None,
            acceptance: PlacementAcceptance::Closed(Hindrance::Unknown),
            idle: None,
            idle_in: Arc::default(),
            ebbs: Arc::default(),
            pending: Resources::default(),
            ours: Resources::default(),
            quota: Quota::NONE,
            room: None,
            staging_left: None,
            serves_files: false,
            power_per_processor: None,
            waits: None,
            bans: Arc::default(),
        }
    }

    /// What we may take of it: idle within the quota, less what is pending
    /// (KOALA, section 4: between placement and claim a processor is not there
    /// for our own next job).
    pub fn usable(&self) -> Resources {
        let idle = self.idle.as_ref().map(|belief| &belief.idle);
        idle.map(|idle| self.usable_of(idle)).unwrap_or_default()
    }

    /// What of it a job may take that holds it for so long, if that is less: what others were
    /// promised within that time it would keep from them.
    pub fn usable_for(&self, lasts: DurationMs) -> Option<Resources> {
        let ebb = self.ebbs.iter().rfind(|ebb| ebb.after < lasts)?;
        let mut left = self.idle.as_ref()?.idle.clone();
        left.cut_to(&ebb.left);
        Some(self.usable_of(&left))
    }

    fn usable_of(&self, idle: &Resources) -> Resources {
        let Some(shape) = &self.shape else {
            return Resources::default();
        };
        let mut usable = self.quota.usable_resources(&shape.total, idle, &self.ours);
        usable.subtract(&self.pending);
        usable
    }

    /// How old the belief about its load is.
    pub fn age(&self, now: Timestamp) -> Option<DurationMs> {
        self.idle.as_ref().map(|belief| now.since(belief.asked_at))
    }
}

impl GridSnapshot {
    /// Puts what is known together. Order of `sites` does not matter; of two
    /// with one name the later counts.
    pub fn new(
        sites: impl IntoIterator<Item = GridSite>,
        network: Arc<Network>,
        replicas: Arc<dyn Replicas>,
    ) -> Self {
        let sites: BTreeMap<SiteName, GridSite> = sites
            .into_iter()
            .map(|site| (site.name.clone(), site))
            .collect();
        let sites: Vec<GridSite> = sites.into_values().collect();
        let positions = sites
            .iter()
            .map(|site| network.position(&site.name))
            .collect();
        let usable = sites.iter().map(GridSite::usable).collect();
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

    /// The same, where this is staged at the sites.
    pub fn with_staged(self, staged: Arc<dyn StagedLookup>) -> Self {
        Self { staged, ..self }
    }

    /// The same files and links, with the same sites in another condition.
    pub fn with_sites(&self, sites: Vec<GridSite>) -> Self {
        Self::new(sites, self.network.clone(), self.replicas.clone())
            .with_staged(self.staged.clone())
    }

    /// All sites, in order of name; positions in it are site indexes.
    pub fn sites(&self) -> &[GridSite] {
        &self.sites
    }

    /// What we may take of each site before anything is placed, by site index.
    pub fn usable(&self) -> &[Resources] {
        &self.usable
    }

    /// Sites that promised something to others for later, by index.
    pub(super) fn ebbing(&self) -> &[usize] {
        &self.ebbing
    }

    /// Index of a site.
    pub fn index_of(&self, name: &SiteName) -> Option<usize> {
        self.sites.binary_search_by(|site| site.name.cmp(name)).ok()
    }

    /// A site by name.
    pub fn site(&self, name: &SiteName) -> Option<&GridSite> {
        self.index_of(name).map(|index| &self.sites[index])
    }

    /// Bandwidth between sites, by index; 0 if it is not known.
    pub fn bandwidth(&self, from: usize, to: usize) -> BitsPerSecond {
        match (self.positions[from], self.positions[to]) {
            (Some(from), Some(to)) => self.network.between(from, to),
            _ => BitsPerSecond(0),
        }
    }

    /// Bandwidth between sites by which they bid, by index; 0 if it is not known.
    pub fn bid_bandwidth(&self, from: usize, to: usize) -> BitsPerSecond {
        match (self.positions[from], self.positions[to]) {
            (Some(from), Some(to)) => self.network.bid_bandwidth(from, to),
            _ => BitsPerSecond(0),
        }
    }

    /// Of which kind those are.
    pub fn bid_kind(&self) -> BandwidthKind {
        self.network.bid_kind()
    }

    /// What a site can send to all others together, by index: its potential.
    pub fn potential(&self, site: usize) -> BitsPerSecond {
        self.positions[site].map_or(BitsPerSecond(0), |position| {
            self.network.potential(position)
        })
    }

    /// How long a message between components takes between sites, by index.
    pub(super) fn exchange(&self, from: usize, to: usize) -> Exchange {
        match (self.positions[from], self.positions[to]) {
            (Some(from), Some(to)) => self.network.exchange(from, to),
            _ => Exchange::NEVER,
        }
    }

    /// Whether a content is staged at a site already.
    pub fn is_staged(&self, site: &SiteName, content: &Content) -> bool {
        self.staged.has(site, content)
    }

    /// Where replicas are.
    pub fn replicas(&self) -> &dyn Replicas {
        &*self.replicas
    }
}
