//! Bandwidth between sites, and the transfer times that follow.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::Content;
use crate::ids::{Digest, SiteName};
use crate::transfer::copy_state::CopyTrySource;
use crate::transfer::file_place::FilePlace;
use crate::units::{BitsPerSecond, Bytes, DurationMs};

/// Bandwidth from file site to execution site. A pair that is missing is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkBandwidths {
    by_source: BTreeMap<SiteName, BTreeMap<SiteName, BitsPerSecond>>,
}

/// A source, and the transfer time from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenSource {
    /// The source to copy from.
    pub source: CopyTrySource,
    /// Estimated time for the whole content.
    pub time: DurationMs,
}

/// Content that a component needs, and the sites that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentNeed<'a> {
    pub content: Content,
    /// The sites that have it.
    pub sites: &'a [SiteName],
}

/// The source of each content, and the transfer time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferPlan {
    /// The file site of each distinct content, in the order of the needs; the execution site itself
    /// if the content is there.
    pub sources: Vec<(Content, SiteName)>,
    /// Sum over the contents that are not there.
    pub time: DurationMs,
}

impl LinkBandwidths {
    /// Returns the bandwidth of a pair, as measured or configured; `None` if it is not known.
    pub fn bandwidth_of(&self, from: &SiteName, to: &SiteName) -> Option<BitsPerSecond> {
        self.by_source.get(from)?.get(to).copied()
    }

    /// Sets the bandwidth of a pair; 0 means that nothing gets through.
    pub fn set_bandwidth(&mut self, from: SiteName, to: SiteName, bandwidth: BitsPerSecond) {
        self.by_source
            .entry(from)
            .or_default()
            .insert(to, bandwidth);
    }

    /// Lists all known pairs, in order of names.
    pub fn all_pairs(&self) -> impl Iterator<Item = (&SiteName, &SiteName, BitsPerSecond)> {
        self.by_source
            .iter()
            .flat_map(|(from, to)| to.iter().map(move |(to, bandwidth)| (from, to, *bandwidth)))
    }

    /// Returns the time to move `size` from one site to another: zero within a site, `None` over a
    /// link of which the bandwidth is unknown or 0.
    pub fn transfer_time(&self, from: &SiteName, to: &SiteName, size: Bytes) -> Option<DurationMs> {
        if from == to {
            return Some(DurationMs::ZERO);
        }
        size.transfer_time(self.bandwidth_of(from, to)?)
    }

    /// Finds the nearest of several sites: least transfer time, then name (KOALA, placement
    /// policies: "with replicas, the one with the least transfer time").
    pub fn nearest_site<'a>(
        &self,
        sites: impl IntoIterator<Item = &'a SiteName>,
        to: &SiteName,
        size: Bytes,
    ) -> Option<(DurationMs, &'a SiteName)> {
        sites
            .into_iter()
            .filter_map(|from| Some((self.transfer_time(from, to, size)?, from)))
            .min()
    }

    /// Plans where a component at `to` gets what it needs, each content from its nearest site;
    /// `None` if one has no site that it can come from.
    ///
    /// KOALA, model: a component's transfer time is the sum over its files that are not at the site
    /// yet. Content needed under two names is moved once.
    pub fn plan_transfers(&self, needs: &[ContentNeed<'_>], to: &SiteName) -> Option<TransferPlan> {
        let mut seen: BTreeSet<Digest> = BTreeSet::new();
        let mut plan = TransferPlan::default();
        for need in needs.iter().filter(|need| seen.insert(need.content.digest)) {
            let (time, from) = self.nearest_site(need.sites, to, need.content.size)?;
            plan.sources.push((need.content, from.clone()));
            plan.time = plan.time + time;
        }
        Some(plan)
    }
}

impl FromIterator<(SiteName, SiteName, BitsPerSecond)> for LinkBandwidths {
    fn from_iter<I: IntoIterator<Item = (SiteName, SiteName, BitsPerSecond)>>(pairs: I) -> Self {
        let mut links = LinkBandwidths::default();
        pairs
            .into_iter()
            .for_each(|(from, to, bandwidth)| links.set_bandwidth(from, to, bandwidth));
        links
    }
}

/// Chooses the replica to copy from: least transfer time, then name of the site, then place. `None`
/// if every replica is excluded or has no link to here.
pub fn choose_source<'a>(
    replicas: impl IntoIterator<Item = (&'a SiteName, &'a FilePlace)>,
    to: &SiteName,
    size: Bytes,
    links: &LinkBandwidths,
    excluded: &BTreeSet<SiteName>,
) -> Option<ChosenSource> {
    replicas
        .into_iter()
        .filter(|(site, _)| !excluded.contains(*site))
        .filter_map(|(site, place)| Some((links.transfer_time(site, to, size)?, site, place)))
        .min()
        .map(|(time, site, place)| ChosenSource {
            source: CopyTrySource {
                site: site.clone(),
                place: place.clone(),
            },
            time,
        })
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
