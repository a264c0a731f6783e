//! Pairs of an execution site and a file site, for Close-to-Files.

use std::cmp::Reverse;

use super::remaining::Remaining;
use super::search::{Choice, Search};
use crate::job::spec::Content;
use crate::units::{Bytes, DurationMs};

/// What decides between pairs: time, most left, execution site.
type Order = (DurationMs, Reverse<u32>, usize);

/// Files that a component needs at a site and that are not there.
struct Missing {
    bytes: Bytes,
    /// Sites that hold all the files of the component.
    holders: Vec<usize>,
}

impl<'a> Search<'a> {
    /// The same, of pairs in the history table alone.
    pub(super) fn with_history(mut self, history: &'a super::History) -> Self {
        self.history = Some(history);
        self
    }

    /// The first site by name that has all files of the component and takes it now.
    pub(super) fn close_to_files(&self, component: usize, remaining: &Remaining) -> Option<Choice> {
        let holders = self.holders_of_any(component);
        let mut takers = holders.into_iter().filter(|&site| self.fits(component, site, remaining));
        takers.next().map(Choice::site)
    }

    /// Of all pairs in the table the one whose files arrive first; equal ones by more
    /// processors left, then execution site, then file site (vector CF-6).
    pub(super) fn nearest_of_pairs(
        &self,
        component: usize,
        remaining: &Remaining,
    ) -> Option<Choice> {
        let need = self.component(component).resources.processors;
        let left = remaining.processors();
        let mut best: Option<(Order, Choice)> = None;
        for site in (0..left.len()).filter(|&site| left[site] >= need) {
            let (time, file_site) = match self.nearest_pair(component, site) {
                Some((file_site, time)) => (time, Some(file_site)),
                // Without a site that holds all files there are no pairs.
                None => match self.transfer_time(component, site) {
                    Some(time) => (time, None),
                    None => continue,
                },
            };
            let order = (time, Reverse(left[site]), site);
            let is_better = best.as_ref().is_none_or(|(known, _)| order < *known);
            if is_better && self.fits(component, site, remaining) {
                best = Some((order, Choice { site, file_site }));
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// The file site whose pair with this site is in the table and brings the component's
    /// files first, and when; equal ones by name.
    pub(super) fn nearest_pair(
        &self,
        component: usize,
        site: usize,
    ) -> Option<(usize, DurationMs)> {
        let missing = self.missing(component, site)?;
        let time = |&from: &usize| {
            let file_site = &self.grid.sites()[from];
            let usable = file_site.serves_files && self.has_pair(site, from);
            let time = missing.bytes.transfer_time(self.grid.bandwidth(from, site));
            time.filter(|_| usable).map(|time| (from, time))
        };
        missing.holders.iter().filter_map(time).min_by_key(|&(from, time)| (time, from))
    }

    /// Whether the component's files would have to come from one of the sites that hold
    /// them all, and no such pair may be used.
    pub(super) fn lacks_pair(&self, component: usize, site: usize) -> bool {
        self.history.is_some()
            && self.missing(component, site).is_some_and(|missing| !missing.holders.is_empty())
            && self.nearest_pair(component, site).is_none()
    }

    /// Sites that hold all files that the component needs there.
    pub(super) fn file_sites(&self, component: usize, site: usize) -> Vec<usize> {
        self.missing(component, site).map(|missing| missing.holders).unwrap_or_default()
    }

    fn has_pair(&self, execution: usize, file: usize) -> bool {
        let name = |site: usize| &self.grid.sites()[site].name;
        self.history.is_none_or(|history| history.has(name(execution), name(file)))
    }

    /// What must be brought; `None` if everything is there.
    fn missing(&self, component: usize, site: usize) -> Option<Missing> {
        let shape = self.grid.sites()[site].shape.as_ref()?;
        let contents: Vec<Content> = self.contents_at(component, site, shape).collect();
        let absent = contents.iter().filter(|content| !self.replicas_of(**content).contains(&site));
        let mut absent = absent.peekable();
        absent.peek()?;
        let bytes = absent.fold(Bytes(0), |sum, content| sum + content.size);
        Some(Missing { bytes, holders: self.holders(&contents) })
    }

    fn holders(&self, contents: &[Content]) -> Vec<usize> {
        let Some((first, others)) = contents.split_first() else { return Vec::new() };
        let has_all = |site: &&usize| others.iter().all(|c| self.replicas_of(*c).contains(site));
        self.replicas_of(*first).iter().filter(has_all).copied().collect()
    }

    fn holders_of_any(&self, component: usize) -> Vec<usize> {
        let holds_all = |&site: &usize| {
            self.grid.sites()[site].shape.is_some() && self.missing(component, site).is_none()
        };
        (0..self.grid.sites().len()).filter(holds_all).collect()
    }
}
