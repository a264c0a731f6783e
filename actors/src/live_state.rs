//! What sites said last, with its age. Volatile: after a restart it is asked anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::acquire::{Obtainable, PartitionAccount, PartitionDemand, PartitionOptions};
use cospan_domain::ids::{AttemptTag, ComponentIndex, Digest, KeyName, SiteName};
use cospan_domain::job::state::Job;
use cospan_domain::placement::{Hindrance, PlacementAcceptance, SiteShape};
use cospan_domain::reserve::IdleDrop;
use cospan_domain::resources::Resources;
use cospan_domain::site::availability::SiteState;
use cospan_domain::site::contact::Contact;
use cospan_domain::site::isolation::Isolation;
use cospan_domain::units::{Bytes, ClockSkew, DurationMs, Timestamp};
use cospan_sites::port::{Observation, SiteDescription};

/// The last that is known of one site.
#[derive(Debug, Clone)]
pub struct KnownSite {
    /// Whether it answers.
    pub contact: Contact,
    /// Why it did not answer the latest query.
    pub trouble: Option<Arc<str>>,
    /// What it is; `None` until it answered for the first time since our start.
    pub description: Option<Arc<SiteDescription>>,
    /// The same as policies see it.
    pub shape: Option<Arc<SiteShape>>,
    /// What was free, and when it was asked for.
    pub idle: Option<(Timestamp, Resources)>,
    /// The same of each of its partitions.
    pub idle_in: Arc<BTreeMap<Arc<str>, Resources>>,
    /// When less of that is left, as it was promised to others.
    pub ebbs: Arc<[IdleDrop]>,
    /// What our attempts there were doing.
    pub observed: Arc<Observed>,
    /// What could be got there lately.
    pub obtainable: Arc<Obtainable>,
    /// Since when it has not answered, while it still counts as answering.
    pub silent_since: Option<Timestamp>,
    /// It was reached, and is not as it must be: `trouble` says why.
    pub out_of_order: bool,
    /// When it last told of our attempts although it was out of order.
    pub told_at: Option<Timestamp>,
    /// It did so when it was last asked.
    pub tells: bool,
}

/// What a site said of our attempts there.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// When it was asked.
    pub asked_at: Timestamp,
    /// How far its clock was ahead of ours.
    pub clock: ClockSkew,
    /// What each of them was doing.
    pub attempts: BTreeMap<AttemptTag, Observation>,
}

impl KnownSite {
    /// What a site in this state is to people: also that it has just stopped answering, by which
    /// nothing is decided yet.
    pub fn shown(&self, state: SiteState) -> &'static str {
        match (state, self.silent_since) {
            (SiteState::Usable, Some(_)) => "silent",
            (state, _) => state.as_str(),
        }
    }

    /// The site said what it is.
    pub fn describe(&mut self, description: SiteDescription) {
        self.shape = Some(Arc::new(SiteShape {
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

    /// Whom a component asks at this site, and for what; `words`: how it may choose. `None`
    /// where the site knows no such difference.
    pub fn asked(
        &self,
        words: Option<PartitionOptions>,
        site: &SiteName,
        job: &Job,
        index: ComponentIndex,
    ) -> Option<(PartitionAccount, PartitionDemand)> {
        let words = words?;
        let shape = self.shape.as_ref()?;
        let chosen = words.chosen(&job.spec_of(index)?.at);
        let lane = shape.lanes.as_ref()?.own.of(&chosen, site, &shape.labels);
        Some((
            lane,
            PartitionDemand::new(job.processors_of(index), job.wall_time()),
        ))
    }
}

impl Default for KnownSite {
    fn default() -> Self {
        Self {
            contact: Contact::NeverAnswered,
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

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyForecast {
    /// Bytes that arrived.
    pub done: Bytes,
    /// When that was.
    pub at: Timestamp,
    /// Expected end.
    pub expected: Timestamp,
}

/// Reports of all sites, and progress of all copies.
#[derive(Debug)]
pub struct LiveState {
    sites: Mutex<BTreeMap<SiteName, Arc<KnownSite>>>,
    progress: Mutex<BTreeMap<(Digest, SiteName), CopyForecast>>,
    isolation: Mutex<Isolation>,
    /// Somebody waits for placement, so that fresh reports are worth asking for.
    wanted: AtomicBool,
    doubted_at: Mutex<Option<Timestamp>>,
    /// How often something that bids depend on turned out otherwise.
    changes: AtomicU64,
    /// Since when a claim waits for a fresh report, by site.
    fresh_wanted: Mutex<BTreeMap<SiteName, Timestamp>>,
    /// When a claim was refused at a site, and the most processors it can have had then.
    refused: Mutex<BTreeMap<SiteName, (Timestamp, u32)>>,
    standings: Mutex<Standings>,
    /// Owners whose jobs stay away from some site, by site.
    suspects: Mutex<BTreeMap<SiteName, BTreeSet<KeyName>>>,
}

/// What each site is, and whether somebody was told that none of them takes work.
#[derive(Debug, Default)]
struct Standings {
    sites: BTreeMap<SiteName, SiteState>,
    none_left: bool,
}

/// What changed for all sites together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SitesLeft {
    /// No site takes work any more; what each of them is.
    None(Vec<(SiteName, SiteState)>),
    /// One takes work again.
    Some,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveState {
    /// An empty state for these sites. `window`: within which so many sites fall
    /// silent that it must be our fault.
    pub fn new<'a>(sites: impl Iterator<Item = &'a SiteName>, window: DurationMs) -> Self {
        let mut isolation = Isolation::new(window);
        sites.for_each(|site| isolation.watch(site.clone()));
        Self {
            sites: Mutex::default(),
            progress: Mutex::default(),
            isolation: Mutex::new(isolation),
            wanted: AtomicBool::new(false),
            doubted_at: Mutex::default(),
            changes: AtomicU64::new(0),
            fresh_wanted: Mutex::default(),
            refused: Mutex::default(),
            standings: Mutex::default(),
            suspects: Mutex::default(),
        }
    }

    /// The last report of a site.
    pub fn site(&self, site: &SiteName) -> Option<Arc<KnownSite>> {
        lock(&self.sites).get(site).cloned()
    }

    /// All reports, by site.
    pub fn sites(&self) -> Vec<(SiteName, Arc<KnownSite>)> {
        lock(&self.sites)
            .iter()
            .map(|(name, report)| (name.clone(), report.clone()))
            .collect()
    }

    /// Puts up a new report.
    pub fn publish(&self, site: SiteName, report: Arc<KnownSite>) {
        lock(&self.sites).insert(site, report);
    }

    /// How far a copy has come, while it is being made.
    pub fn progress(&self, digest: Digest, site: &SiteName) -> Option<CopyForecast> {
        lock(&self.progress).get(&(digest, site.clone())).copied()
    }

    /// Notes how far a copy has come; `None` when it is over.
    pub fn note_progress(&self, digest: Digest, site: &SiteName, progress: Option<CopyForecast>) {
        let key = (digest, site.clone());
        match progress {
            Some(progress) => drop(lock(&self.progress).insert(key, progress)),
            None => drop(lock(&self.progress).remove(&key)),
        }
    }

    /// So many sites fell silent at once that the fault is ours.
    pub fn isolated(&self) -> bool {
        lock(&self.isolation).is_isolated()
    }

    /// A site fell silent; tells whether that isolates us.
    pub fn lost(&self, site: &SiteName, now: Timestamp) -> bool {
        lock(&self.isolation).lost(site, now)
    }

    /// A site answered; tells whether that ends our isolation.
    pub fn answered(&self, site: &SiteName) -> bool {
        lock(&self.isolation).answered(site)
    }

    /// A site fell silent: the others are to be asked whether it is them or us.
    pub fn doubt(&self, now: Timestamp) {
        *lock(&self.doubted_at) = Some(now);
    }

    /// Since when an answer is wanted of every site, whether anything of ours is there or not.
    pub fn doubted_at(&self) -> Option<Timestamp> {
        *lock(&self.doubted_at)
    }

    /// A claim is to be tried: what the site says now is worth knowing.
    pub fn want_fresh(&self, site: &SiteName, now: Timestamp) {
        lock(&self.fresh_wanted).insert(site.clone(), now);
    }

    /// Since when a fresh report of the site is wanted.
    pub fn fresh_wanted(&self, site: &SiteName) -> Option<Timestamp> {
        lock(&self.fresh_wanted).get(site).copied()
    }

    /// A report of the site is as fresh as was wanted; tells whether anybody waited for it.
    pub fn fresh_given(&self, site: &SiteName, asked_at: Timestamp) -> bool {
        let mut wanted = lock(&self.fresh_wanted);
        let given = wanted.get(site).is_some_and(|&since| asked_at >= since);
        if given {
            wanted.remove(site);
        }
        given
    }

    /// A claim of so many processors was refused for want of them: whatever the site said
    /// before, it has fewer. Holds until it is asked again.
    pub fn refuse(&self, site: &SiteName, processors: u32, now: Timestamp) {
        let most = processors.saturating_sub(1);
        let mut refused = lock(&self.refused);
        let (at, left) = refused.entry(site.clone()).or_insert((now, most));
        *at = now.max(*at);
        *left = most.min(*left);
    }

    /// The most processors that a site can have had when it was asked at this time, as far as
    /// claims that it refused since tell.
    pub fn most_left(&self, site: &SiteName, asked_at: Timestamp) -> Option<u32> {
        let refused = lock(&self.refused);
        refused
            .get(site)
            .filter(|(at, _)| asked_at <= *at)
            .map(|(_, most)| *most)
    }

    /// The site was asked: refusals before that count no more; tells whether there were any.
    pub fn forget_refusals(&self, site: &SiteName, asked_at: Timestamp) -> bool {
        let mut refused = lock(&self.refused);
        let over = refused.get(site).is_some_and(|(at, _)| *at < asked_at);
        if over {
            refused.remove(site);
        }
        over
    }

    /// A site is in this state now; tells if it was the last of `all` that took work, or is
    /// the first that does again. One that was never heard of may still answer.
    pub fn stands(&self, site: &SiteName, state: SiteState, all: usize) -> Option<SitesLeft> {
        let mut standings = lock(&self.standings);
        standings.sites.insert(site.clone(), state);
        let none_left = standings.sites.len() == all && standings.sites.values().all(|state: &SiteState| {
            *state != SiteState::Unknown
                && matches!(state.acceptance(), PlacementAcceptance::Closed(why) if why != Hindrance::Probing)
        });
        if none_left == std::mem::replace(&mut standings.none_left, none_left) {
            return None;
        }
        let states = standings
            .sites
            .iter()
            .map(|(site, state)| (site.clone(), *state));
        Some(if none_left {
            SitesLeft::None(states.collect())
        } else {
            SitesLeft::Some
        })
    }

    /// Jobs of these owners stay away from a site; tells whether that is new.
    pub fn note_suspects(&self, site: &SiteName, owners: BTreeSet<KeyName>) -> bool {
        let mut suspects = lock(&self.suspects);
        let before = if owners.is_empty() {
            suspects.remove(site)
        } else {
            suspects.insert(site.clone(), owners.clone())
        };
        before.unwrap_or_default() != owners
    }

    /// Whether jobs of this owner stay away from any site.
    pub fn is_suspect(&self, owner: &KeyName) -> bool {
        lock(&self.suspects)
            .values()
            .any(|owners| owners.contains(owner))
    }

    /// All such owners.
    pub fn suspects(&self) -> BTreeSet<KeyName> {
        lock(&self.suspects).values().flatten().cloned().collect()
    }

    /// A site reported another load, turned out otherwise, or files or links did: what no site
    /// could serve may find one.
    pub fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// How often that happened.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether anybody waits for placement.
    pub fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Notes whether anybody waits for placement; tells whether that is new.
    pub fn set_wanted(&self, wanted: bool) -> bool {
        self.wanted.swap(wanted, Ordering::AcqRel) != wanted
    }
}

#[cfg(test)]
#[path = "live_state_tests.rs"]
mod tests;
