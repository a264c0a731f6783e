//! Pairs of an execution site and a file site, for Close-to-Files.

use std::cmp::Reverse;
use std::ops::ControlFlow::{Break, Continue};

use super::reason::RefusalReason;
use super::remaining::RemainingResources;
use super::site_search::{PlacementSearch, SiteChoice};
use crate::content::Content;
use crate::placed::{PlacementRule, ReasonCode};
use crate::units::{Bytes, DurationMs};

/// The rank of a pair: time, most left, execution site.
type SitePairRank = (DurationMs, Reverse<u32>, usize);

/// The contents that a component needs at a site, each with the sites that hold it.
struct NeededFiles<'s> {
    contents: Vec<(Bytes, &'s [usize])>,
    /// The sites that hold all of it and can be read, in order of name.
    sources: Vec<usize>,
}

impl<'a> PlacementSearch<'a> {
    /// Restricts the search to pairs in the history table.
    pub(super) fn with_history(mut self, history: &'a super::SitePairHistory) -> Self {
        self.history = Some(history);
        self
    }

    /// Returns the first site by name that has all files of the component and takes it now.
    pub(super) fn site_with_files(
        &self,
        component: usize,
        remaining: &RemainingResources,
    ) -> Option<SiteChoice> {
        let takes = |&site: &usize| {
            self.has_all_files(component, site) && self.can_place_at(component, site, remaining)
        };
        let request = self.component(component);
        let first = request
            .all_contents()
            .next()
            .filter(|_| request.executable_at.is_empty());
        let site = match first {
            // The files are the same everywhere: only sites with the first one can have them all.
            Some(content) => self.replicas_of(content).iter().copied().find(takes),
            None => (0..self.grid.sites().len()).find(takes),
        };
        site.map(|site| SiteChoice::at_site(site, PlacementRule::AtFiles))
    }

    /// Returns the pair whose files arrive first, of those in the table and in `learned`. Ties go
    /// to more processors left, then execution site, then file site (vector CF-6).
    pub(super) fn nearest_of_pairs(
        &self,
        component: usize,
        remaining: &RemainingResources,
        learned: &[(usize, usize)],
    ) -> Option<SiteChoice> {
        let need = self.component(component).resources.processors;
        let left = self.processors_left(component, remaining);
        let everywhere = self.files_needed_everywhere(component);
        let mut best: Option<(SitePairRank, SiteChoice)> = None;
        for site in (0..left.len()).filter(|&site| left[site] >= need) {
            let pair = match &everywhere {
                Some(files) => self.nearest_source(files, site, learned),
                None => self.nearest_source(&self.needed_files_at(component, site), site, learned),
            };
            let (time, file_site) = match pair {
                Some((file_site, time)) => (time, Some(file_site)),
                // There are no pairs without a site that holds all files.
                None => match self.transfer_time(component, site) {
                    Some(time) => (time, None),
                    None => continue,
                },
            };
            let order = (time, Reverse(left[site]), site);
            let is_better = best.as_ref().is_none_or(|(known, _)| order < *known);
            if is_better && self.takes_pair(component, site, file_site, remaining) {
                best = Some((
                    order,
                    SiteChoice {
                        site,
                        file_site,
                        rule: PlacementRule::NearestPair,
                    },
                ));
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// Returns true if the component can go to a site now to which its files come from `file_site`,
    /// even if the table does not have that pair yet.
    fn takes_pair(
        &self,
        component: usize,
        site: usize,
        file_site: Option<usize>,
        remaining: &RemainingResources,
    ) -> bool {
        self.report_obstacles(
            component,
            site,
            remaining,
            &mut |code, _, _: &dyn Fn() -> RefusalReason| match (code, file_site) {
                (ReasonCode::NotInHistory, Some(_)) => Continue(()),
                _ => Break(()),
            },
        )
        .is_continue()
    }

    /// Returns the file site that brings the component's files first, and the time, of pairs with
    /// this site in the table; equal ones by name.
    pub(super) fn nearest_pair(
        &self,
        component: usize,
        site: usize,
    ) -> Option<(usize, DurationMs)> {
        self.nearest_source(&self.needed_files_at(component, site), site, &[])
    }

    fn nearest_source(
        &self,
        files: &NeededFiles<'_>,
        site: usize,
        learned: &[(usize, usize)],
    ) -> Option<(usize, DurationMs)> {
        let absent = files
            .contents
            .iter()
            .filter(|(_, holders)| !holders.contains(&site));
        let bytes = absent
            .map(|(size, _)| *size)
            .reduce(|sum, size| sum + size)?;
        self.nearest_sender(
            bytes,
            files.sources.iter().copied().filter(|&from: &usize| {
                self.has_pair(site, from) || learned.contains(&(site, from))
            }),
            site,
        )
    }

    fn needed_files_at(&self, component: usize, site: usize) -> NeededFiles<'_> {
        NeededFiles {
            contents: self
                .contents_needed_at(component, site)
                .map(|content: Content| (content.size, self.replicas_of(content)))
                .collect(),
            sources: self
                .file_sites(component, site)
                .filter(|from: &usize| self.grid.sites()[*from].serves_files)
                .collect(),
        }
    }

    /// Returns the files of a component that needs the same ones wherever it runs.
    fn files_needed_everywhere(&self, component: usize) -> Option<NeededFiles<'_>> {
        let request = self.component(component);
        let any = self
            .grid
            .sites()
            .iter()
            .position(|site| site.shape.is_some())?;
        request
            .executable_at
            .is_empty()
            .then(|| self.needed_files_at(component, any))
    }

    /// Returns why the component's files cannot come from one of the sites that hold them all, as
    /// they must where there are such sites. A file that cannot be brought at all is reported
    /// elsewhere.
    pub(super) fn pair_obstacle(&self, component: usize, site: usize) -> Option<RefusalReason> {
        self.history?;
        self.missing_bytes(component, site)?;
        if self.nearest_pair(component, site).is_some() {
            return None;
        }
        let holders: Vec<usize> = self.file_sites(component, site).collect();
        if holders.is_empty() {
            return None;
        }
        if holders.iter().any(|&from: &usize| {
            self.grid.sites()[from].serves_files && self.grid.bandwidth(from, site).0 > 0
        }) {
            return Some(RefusalReason::NotInHistory);
        }
        self.transfer_time(component, site)?;
        let first = self.contents_needed_at(component, site).next()?;
        Some(self.missing_replica_reason(first, &holders, site))
    }

    /// Lists sites that hold all files that the component needs there, in order of name.
    pub(super) fn file_sites(
        &self,
        component: usize,
        site: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let first = self.contents_needed_at(component, site).next();
        let holders = first
            .map_or(&[][..], |content| self.replicas_of(content))
            .iter()
            .copied();
        holders.filter(move |from| {
            self.contents_needed_at(component, site)
                .all(|content| self.replicas_of(content).contains(from))
        })
    }

    fn has_pair(&self, execution: usize, file: usize) -> bool {
        let sites = self.grid.sites();
        self.history
            .is_none_or(|history| history.contains_pair(&sites[execution].name, &sites[file].name))
    }

    fn has_all_files(&self, component: usize, site: usize) -> bool {
        self.grid.sites()[site].shape.is_some() && self.missing_bytes(component, site).is_none()
    }

    /// Returns the bytes that must be brought; `None` if everything is there.
    fn missing_bytes(&self, component: usize, site: usize) -> Option<Bytes> {
        let absent = self
            .contents_needed_at(component, site)
            .filter(|content| !self.replicas_of(*content).contains(&site));
        absent
            .map(|content| content.size)
            .reduce(|sum, size| sum + size)
    }

    /// Lists what the component needs there; nothing at a site that has not answered yet.
    fn contents_needed_at(
        &self,
        component: usize,
        site: usize,
    ) -> impl Iterator<Item = Content> + '_ {
        let shape = self.grid.sites()[site].shape.as_ref();
        shape
            .into_iter()
            .flat_map(move |shape| self.contents_at(component, site, shape))
    }
}
