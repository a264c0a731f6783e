//! The sites' last reports, with their age. Volatile: after a restart they are asked anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::acquisition::{
    PartitionAccount, PartitionDemand, PartitionOptionPrefixes, SiteExperience,
};
use cospan_domain::ids::{AttemptTag, ComponentIndex, Digest, KeyName, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::placement::{PlacementAcceptance, PlacementHindrance, SiteProperties};
use cospan_domain::reservation::IdleDrop;
use cospan_domain::resources::Resources;
use cospan_domain::site::availability::SiteState;
use cospan_domain::site::contact::SiteContact;
use cospan_domain::site::isolation::IsolationDetector;
use cospan_domain::units::{Bytes, ClockSkew, DurationMs, Timestamp};
use cospan_sites::port::{AttemptObservation, SiteDescription};

use crate::awaited_inspections::AwaitedInspections;

/// The latest knowledge of one site.
#[derive(Debug, Clone)]
pub struct LatestSiteReport {
    /// The site's contact: whether it answers.
    pub contact: SiteContact,
    /// The reason why it did not answer the latest query.
    pub trouble: Option<Arc<str>>,
    /// The site's description; `None` until it answered for the first time since our start.
    pub description: Option<Arc<SiteDescription>>,
    /// The same as policies see it.
    pub shape: Option<Arc<SiteProperties>>,
    /// Idle resources, and when the site was asked for them.
    pub idle: Option<(Timestamp, Resources)>,
    /// The same for each of its partitions.
    pub idle_in: Arc<BTreeMap<Arc<str>, Resources>>,
    /// The times from when on less of that is left, as it is reserved for others.
    pub ebbs: Arc<[IdleDrop]>,
    /// The latest observations of our attempts there.
    pub observed: Arc<AttemptObservations>,
    /// Resources that could be got there lately.
    pub obtainable: Arc<SiteExperience>,
    /// The time since which it has not answered, while it still counts as answering.
    pub silent_since: Option<Timestamp>,
    /// The site was reached, and is not as it must be: `trouble` says why.
    pub out_of_order: bool,
    /// The last time when it reported on our attempts although it was out of order.
    pub told_at: Option<Timestamp>,
    /// True if it did so when it was last asked.
    pub tells: bool,
}

/// A site's observations of our attempts there.
#[derive(Debug, Clone, Default)]
pub struct AttemptObservations {
    /// The time when it was asked.
    pub asked_at: Timestamp,
    /// The lead of its clock over ours.
    pub clock: ClockSkew,
    /// The observation of each attempt.
    pub attempts: BTreeMap<AttemptTag, AttemptObservation>,
}

impl LatestSiteReport {
    /// Returns the state as people see it. It shows also that a site has just stopped answering, by
    /// which nothing is decided yet.
    pub fn state_text(&self, state: SiteState) -> &'static str {
        match (state, self.silent_since) {
            (SiteState::Usable, Some(_)) => "silent",
            (state, _) => state.as_str(),
        }
    }

    /// Takes over a site's description of itself.
    pub fn set_description(&mut self, description: SiteDescription) {
        self.shape = Some(Arc::new(SiteProperties {
            total: description.total.clone(),
            largest_component: description.largest_component.clone(),
            labels: description.labels.clone(),
            queues: description.capabilities.queues,
            queues_only: description.capabilities.queues_only,
            reservations: description.capabilities.reservations,
            lanes: description.lanes.clone(),
        }));
        self.description = Some(Arc::new(description));
    }

    /// Returns the partition and resources that a component asks for at this site; `words` are the
    /// options that choose a partition. `None` where the site knows no such difference.
    pub fn partition_demand(
        &self,
        words: Option<PartitionOptionPrefixes>,
        site: &SiteName,
        job: &Job,
        index: ComponentIndex,
    ) -> Option<(PartitionAccount, PartitionDemand)> {
        let words = words?;
        let shape = self.shape.as_ref()?;
        let chosen = words.partition_choices(&job.component_spec(index)?.at);
        let lane = shape
            .lanes
            .as_ref()?
            .own
            .resolve_at(&chosen, site, &shape.labels);
        Some((
            lane,
            PartitionDemand::new(job.processors_of(index), job.wall_time()),
        ))
    }
}

impl Default for LatestSiteReport {
    fn default() -> Self {
        Self {
            contact: SiteContact::NeverAnswered,
            trouble: None,
            description: None,
            shape: None,
            idle: None,
            idle_in: Arc::default(),
            ebbs: Arc::default(),
            observed: Arc::default(),
            obtainable: Arc::default(),
            silent_since: None,
            out_of_order: false,
            told_at: None,
            tells: false,
        }
    }
}

/// The progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgressForecast {
    /// Bytes that arrived.
    pub done: Bytes,
    /// The time when they had arrived.
    pub at: Timestamp,
    /// The expected end.
    pub expected: Timestamp,
}

/// Reports of all sites, and progress of all copies.
#[derive(Debug)]
pub struct LiveState {
    sites: Mutex<BTreeMap<SiteName, Arc<LatestSiteReport>>>,
    progress: Mutex<BTreeMap<(Digest, SiteName), CopyProgressForecast>>,
    isolation: Mutex<IsolationDetector>,
    /// Somebody waits for placement, so that fresh reports are worth asking for.
    wanted: AtomicBool,
    /// True while jobs could start earlier than reserved.
    earlier_wanted: AtomicBool,
    doubted_at: Mutex<Option<Timestamp>>,
    /// The number of changes of something that bids depend on.
    changes: AtomicU64,
    /// The time since which a claim waits for a fresh report, by site.
    fresh_wanted: Mutex<BTreeMap<SiteName, Timestamp>>,
    /// The time when a claim was refused at a site, and the most processors that it can have had
    /// then.
    refused: Mutex<BTreeMap<SiteName, (Timestamp, u32)>>,
    standings: Mutex<AllSiteStates>,
    /// Barred owners, by site.
    suspects: Mutex<BTreeMap<SiteName, BTreeSet<KeyName>>>,
    /// Files whose content somebody waits to know.
    pub inspections: AwaitedInspections,
}

/// The state of each site; `none_left` once it was reported that none of them takes work.
#[derive(Debug, Default)]
struct AllSiteStates {
    sites: BTreeMap<SiteName, SiteState>,
    none_left: bool,
}

/// A change for all sites together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteAvailabilityChange {
    /// No site takes work any more; the state of each.
    None(Vec<(SiteName, SiteState)>),
    /// A site takes work again.
    Some,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveState {
    /// An empty state for these sites. If half of them fall silent within `window`, the fault must
    /// be ours.
    pub fn new<'a>(sites: impl Iterator<Item = &'a SiteName>, window: DurationMs) -> Self {
        let mut isolation = IsolationDetector::new(window);
        sites.for_each(|site| isolation.watch_site(site.clone()));
        Self {
            sites: Mutex::default(),
            progress: Mutex::default(),
            isolation: Mutex::new(isolation),
            wanted: AtomicBool::new(false),
            earlier_wanted: AtomicBool::new(false),
            doubted_at: Mutex::default(),
            changes: AtomicU64::new(0),
            fresh_wanted: Mutex::default(),
            refused: Mutex::default(),
            standings: Mutex::default(),
            suspects: Mutex::default(),
            inspections: AwaitedInspections::default(),
        }
    }

    /// The last report of a site.
    pub fn site_report(&self, site: &SiteName) -> Option<Arc<LatestSiteReport>> {
        lock(&self.sites).get(site).cloned()
    }

    /// All reports, by site.
    pub fn all_reports(&self) -> Vec<(SiteName, Arc<LatestSiteReport>)> {
        lock(&self.sites)
            .iter()
            .map(|(name, report)| (name.clone(), report.clone()))
            .collect()
    }

    /// Publishes a new report.
    pub fn publish_report(&self, site: SiteName, report: Arc<LatestSiteReport>) {
        lock(&self.sites).insert(site, report);
    }

    /// The progress of a copy, while it is being made.
    pub fn copy_progress(&self, digest: Digest, site: &SiteName) -> Option<CopyProgressForecast> {
        lock(&self.progress).get(&(digest, site.clone())).copied()
    }

    /// Notes the progress of a copy; `None` when it is over.
    pub fn note_progress(
        &self,
        digest: Digest,
        site: &SiteName,
        progress: Option<CopyProgressForecast>,
    ) {
        let key = (digest, site.clone());
        match progress {
            Some(progress) => drop(lock(&self.progress).insert(key, progress)),
            None => drop(lock(&self.progress).remove(&key)),
        }
    }

    /// Returns true if so many sites fell silent at once that the fault is ours.
    pub fn is_isolated(&self) -> bool {
        lock(&self.isolation).is_isolated()
    }

    /// Notes that a site fell silent; returns true if that isolates us.
    pub fn note_site_lost(&self, site: &SiteName, now: Timestamp) -> bool {
        lock(&self.isolation).note_loss(site, now)
    }

    /// Notes that a site answered; returns true if that ends our isolation.
    pub fn note_site_answered(&self, site: &SiteName) -> bool {
        lock(&self.isolation).note_answer(site)
    }

    /// Notes that a site fell silent: the others are to be asked, to find out if it is them or us.
    pub fn request_all_answers(&self, now: Timestamp) {
        *lock(&self.doubted_at) = Some(now);
    }

    /// The time since which an answer is wanted of every site, also of those where no job of ours
    /// is.
    pub fn all_answers_wanted_since(&self) -> Option<Timestamp> {
        *lock(&self.doubted_at)
    }

    /// Asks for a fresh report of the site, because a claim is to be tried.
    pub fn request_fresh_report(&self, site: &SiteName, now: Timestamp) {
        lock(&self.fresh_wanted).insert(site.clone(), now);
    }

    /// The time since which a fresh report of the site is wanted.
    pub fn fresh_report_wanted_since(&self, site: &SiteName) -> Option<Timestamp> {
        lock(&self.fresh_wanted).get(site).copied()
    }

    /// Notes that a report of the site is as fresh as was wanted; returns true if anybody waited
    /// for it.
    pub fn end_fresh_report_request(&self, site: &SiteName, asked_at: Timestamp) -> bool {
        let mut wanted = lock(&self.fresh_wanted);
        let given = wanted.get(site).is_some_and(|&since| asked_at >= since);
        if given {
            wanted.remove(site);
        }
        given
    }

    /// Notes that a claim of so many processors was refused for want of them: whatever the site
    /// reported before, it has fewer. Holds until it is asked again.
    pub fn note_refused_claim(&self, site: &SiteName, processors: u32, now: Timestamp) {
        let most = processors.saturating_sub(1);
        let mut refused = lock(&self.refused);
        let (at, left) = refused.entry(site.clone()).or_insert((now, most));
        *at = now.max(*at);
        *left = most.min(*left);
    }

    /// Returns the most processors that a site can have had when it was asked at this time, as far
    /// as claims that it refused since show.
    pub fn most_processors_left(&self, site: &SiteName, asked_at: Timestamp) -> Option<u32> {
        let refused = lock(&self.refused);
        refused
            .get(site)
            .filter(|(at, _)| asked_at <= *at)
            .map(|(_, most)| *most)
    }

    /// Drops refusals from before the site was asked; returns true if there were any.
    pub fn forget_refused_claims(&self, site: &SiteName, asked_at: Timestamp) -> bool {
        let mut refused = lock(&self.refused);
        let over = refused.get(site).is_some_and(|(at, _)| *at < asked_at);
        if over {
            refused.remove(site);
        }
        over
    }

    /// Notes the state of a site; returns a change if it was the last of `all` that took work, or
    /// is the first that does again. A site that never answered may still do so.
    pub fn note_site_state(
        &self,
        site: &SiteName,
        state: SiteState,
        all: usize,
    ) -> Option<SiteAvailabilityChange> {
        let mut standings = lock(&self.standings);
        standings.sites.insert(site.clone(), state);
        let none_left = standings.sites.len() == all && standings.sites.values().all(|state: &SiteState| {
            *state != SiteState::Unknown
                && matches!(state.acceptance(), PlacementAcceptance::Closed(why) if why != PlacementHindrance::Probing)
        });
        if none_left == std::mem::replace(&mut standings.none_left, none_left) {
            return None;
        }
        let states = standings
            .sites
            .iter()
            .map(|(site, state)| (site.clone(), *state));
        Some(if none_left {
            SiteAvailabilityChange::None(states.collect())
        } else {
            SiteAvailabilityChange::Some
        })
    }

    /// Notes the owners that are barred at a site; returns true if they changed.
    pub fn set_barred_owners(&self, site: &SiteName, owners: BTreeSet<KeyName>) -> bool {
        let mut suspects = lock(&self.suspects);
        let before = if owners.is_empty() {
            suspects.remove(site)
        } else {
            suspects.insert(site.clone(), owners.clone())
        };
        before.unwrap_or_default() != owners
    }

    /// Returns true if this owner is barred at any site.
    pub fn is_barred_owner(&self, owner: &KeyName) -> bool {
        lock(&self.suspects)
            .values()
            .any(|owners| owners.contains(owner))
    }

    /// All barred owners.
    pub fn barred_owners(&self) -> BTreeSet<KeyName> {
        lock(&self.suspects).values().flatten().cloned().collect()
    }

    /// Notes a change of a site's load or state, or of files or links: a job that no site could
    /// serve may find one.
    pub fn note_placement_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of such changes.
    pub fn placement_change_count(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns true if anybody waits for placement, or for an earlier start.
    pub fn is_placement_awaited(&self) -> bool {
        self.wanted.load(Ordering::Acquire) || self.is_earlier_start_awaited()
    }

    /// Returns true if a job could start earlier than reserved.
    pub fn is_earlier_start_awaited(&self) -> bool {
        self.earlier_wanted.load(Ordering::Acquire)
    }

    /// Notes whether a job could start earlier than reserved; returns true if that changed.
    pub fn set_earlier_start_awaited(&self, wanted: bool) -> bool {
        self.earlier_wanted.swap(wanted, Ordering::AcqRel) != wanted
    }

    /// Notes whether anybody waits for placement; returns true if that changed.
    pub fn set_placement_awaited(&self, wanted: bool) -> bool {
        self.wanted.swap(wanted, Ordering::AcqRel) != wanted
    }
}

#[cfg(test)]
#[path = "live_state_tests.rs"]
mod tests;
