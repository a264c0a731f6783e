//! The part of the grid that is left while jobs are placed one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::grid::GridSnapshot;
use crate::content::Content;
use crate::resources::Resources;
use crate::units::{Bytes, DurationMs};

/// A working copy of what we may take of each site, by site index. Policies take from it and give
/// back; the snapshot itself never changes, and no job copies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemainingResources {
    /// Dense, because every policy runs over all sites by processors.
    processors: Vec<u32>,
    others: Vec<BTreeMap<Arc<str>, u64>>,
    room: Vec<u32>,
    /// Number of components of the current request at each site: together they take the room of
    /// one.
    joined: Vec<u32>,
    /// Resources that the current request must leave, as it would last into reservations of others;
    /// by site index, where there are any.
    kept: Vec<(usize, Resources)>,
    /// Resources taken of partitions that are not their site's own.
    pools: BTreeMap<(usize, Arc<str>), Resources>,
    /// Input staged for what was placed meanwhile, by site, where room for it is bounded.
    staged: BTreeMap<usize, BTreeMap<Content, u32>>,
}

impl RemainingResources {
    /// Copies everything that the snapshot offers.
    pub fn of_grid(grid: &GridSnapshot) -> Self {
        Self {
            processors: grid
                .usable_by_site()
                .iter()
                .map(|usable| usable.processors)
                .collect(),
            others: grid
                .usable_by_site()
                .iter()
                .map(|usable| usable.others.clone())
                .collect(),
            room: grid
                .sites()
                .iter()
                .map(|site| site.room.unwrap_or(u32::MAX))
                .collect(),
            joined: vec![0; grid.sites().len()],
            kept: Vec::new(),
            pools: BTreeMap::new(),
            staged: BTreeMap::new(),
        }
    }

    /// Returns a copy with no more than each site gives, by site index.
    pub(super) fn limited_to_given<'a>(
        &self,
        given: impl Iterator<Item = Option<&'a Resources>>,
    ) -> Self {
        let mut left = self.clone();
        left.begin_request();
        let nothing = Resources::default();
        for (site, given) in given.enumerate() {
            left.limit_site(site, given.unwrap_or(&nothing), |_, _| true);
        }
        left
    }

    /// Lowers each resource of a site for which `bounds` holds, by name and count, to `most`.
    /// Processors have no name.
    pub(super) fn limit_site(
        &mut self,
        site: usize,
        most: &Resources,
        bounds: impl Fn(Option<&str>, u64) -> bool,
    ) {
        if bounds(None, most.processors.into()) {
            self.processors[site] = self.processors[site].min(most.processors);
        }
        for (name, left) in &mut self.others[site] {
            let most = most.other(name);
            if bounds(Some(name), most) {
                *left = (*left).min(most);
            }
        }
    }

    /// Takes resources that were found elsewhere to be there, as far as they are.
    pub fn take_available(&mut self, site: usize, used: &Resources) {
        let mut left = self.left_at(site);
        left.subtract(used);
        (self.processors[site], self.others[site]) = (left.processors, left.others);
        self.count_component(site);
    }

    /// Returns what was taken of a partition that is not the site's own.
    pub(super) fn taken_of_partition(
        &self,
        site: usize,
        partition: &Arc<str>,
    ) -> Option<&Resources> {
        if self.pools.is_empty() {
            None
        } else {
            self.pools.get(&(site, partition.clone()))
        }
    }

    /// Takes resources of such a partition, which the caller found to be there.
    pub fn take_of_partition(&mut self, site: usize, partition: Arc<str>, used: &Resources) {
        self.pools.entry((site, partition)).or_default().add(used);
        self.count_component(site);
    }

    /// Gives back what [`RemainingResources::take_of_partition`] took.
    pub fn return_to_partition(&mut self, site: usize, partition: Arc<str>, used: &Resources) {
        self.pools
            .entry((site, partition))
            .or_default()
            .subtract(used);
        self.remove_component(site);
    }

    fn count_component(&mut self, site: usize) {
        if self.joined[site] == 0 {
            self.room[site] = self.room[site].saturating_sub(1);
        }
        self.joined[site] += 1;
    }

    /// Returns the processors left, by site index.
    pub fn processors(&self) -> &[u32] {
        &self.processors
    }

    /// Begins the placement of another request.
    pub fn begin_request(&mut self) {
        self.joined.fill(0);
        for (site, kept) in std::mem::take(&mut self.kept) {
            self.add_resources(site, &kept);
        }
    }

    /// Keeps back, from a request that was begun and holds what it takes for `lasts`, what others
    /// have reserved within that time.
    pub(super) fn keep_back_reserved(&mut self, grid: &GridSnapshot, lasts: DurationMs) {
        for &site in grid.sites_with_later_reservations() {
            self.keep_back_at(grid, site, lasts);
        }
    }

    fn keep_back_at(&mut self, grid: &GridSnapshot, site: usize, lasts: DurationMs) {
        let Some(mut lasting) = grid.sites()[site].usable_resources_for(lasts) else {
            return;
        };
        let usable = &grid.usable_by_site()[site];
        let left = self.left_at(site);
        // Resources taken before are assumed to be held as long.
        let mut taken = usable.clone();
        taken.subtract(&left);
        lasting.subtract(&taken);
        let mut kept = left.clone();
        kept.subtract(&lasting);
        let mut rest = left;
        rest.subtract(&kept);
        (self.processors[site], self.others[site]) = (rest.processors, rest.others);
        self.kept.push((site, kept));
    }

    /// Frees what is kept back at a site, for all that is looked at from now on.
    pub(super) fn release_kept_back(&mut self, site: usize) {
        let at = self.kept.iter().position(|(known, _)| *known == site);
        if let Some(at) = at {
            let (_, kept) = self.kept.swap_remove(at);
            self.add_resources(site, &kept);
        }
    }

    /// Returns what the site keeps for others from the current request.
    pub(super) fn kept_back_at(&self, site: usize) -> Option<&Resources> {
        self.kept
            .iter()
            .find(|(known, _)| *known == site)
            .map(|(_, kept)| kept)
    }

    fn add_resources(&mut self, site: usize, more: &Resources) {
        self.processors[site] = self.processors[site].saturating_add(more.processors);
        for (name, count) in &more.others {
            if let Some(left) = self.others[site].get_mut(name) {
                *left = left.saturating_add(*count);
            }
        }
    }

    /// Returns true if the site takes a component of this request: it takes one more job, or a
    /// component of the request goes there already.
    pub fn has_component_room(&self, site: usize) -> bool {
        self.room[site] > 0 || self.joined[site] > 0
    }

    /// Returns the amount left at a site of a resource other than processors.
    pub fn other_resource_left(&self, site: usize, resource: &str) -> u64 {
        self.others[site].get(resource).copied().unwrap_or(0)
    }

    /// Returns true if the site still has all of `need`, and room for one component.
    pub fn covers_component(&self, site: usize, need: &Resources) -> bool {
        self.processors[site] >= need.processors
            && self.has_component_room(site)
            && need
                .others
                .iter()
                .all(|(name, count)| self.other_resource_left(site, name) >= *count)
    }

    /// Takes the resources of a component, which the caller found to be there.
    pub fn take_component(&mut self, site: usize, used: &Resources) {
        debug_assert!(
            self.covers_component(site, used),
            "taken from a site that does not have it"
        );
        self.processors[site] = self.processors[site].saturating_sub(used.processors);
        self.count_component(site);
        for (name, count) in &used.others {
            if let Some(left) = self.others[site].get_mut(name) {
                *left = left.saturating_sub(*count);
            }
        }
    }

    /// Returns the bytes that copies of these contents would take at a site beside what is staged
    /// there meanwhile, and the bytes of the latter. Contents that were there before (`is_there`)
    /// take nothing.
    pub fn staging_bytes(
        &self,
        site: usize,
        contents: impl Iterator<Item = Content>,
        is_there: impl Fn(&Content) -> bool,
    ) -> (Bytes, Bytes) {
        let staged = self.staged.get(&site);
        let absent = contents.filter(|c| !staged.is_some_and(|staged| staged.contains_key(c)));
        let taken = staged
            .into_iter()
            .flat_map(BTreeMap::keys)
            .copied()
            .filter(|content| !is_there(content));
        (
            total_size(absent.filter(|content| !is_there(content))),
            total_size(taken),
        )
    }

    /// Records that input of a component will be staged at a site. One copy serves all readers.
    pub fn add_staged(&mut self, site: usize, contents: impl Iterator<Item = Content>) {
        for content in contents {
            *self
                .staged
                .entry(site)
                .or_default()
                .entry(content)
                .or_default() += 1;
        }
    }

    /// Reverts [`RemainingResources::add_staged`].
    pub fn remove_staged(&mut self, site: usize, contents: impl Iterator<Item = Content>) {
        let Some(staged) = self.staged.get_mut(&site) else {
            return;
        };
        for content in contents {
            let readers = staged.get(&content).map(|readers| readers - 1);
            match readers {
                Some(0) => drop(staged.remove(&content)),
                Some(readers) => drop(staged.insert(content, readers)),
                None => {}
            }
        }
        if staged.is_empty() {
            self.staged.remove(&site);
        }
    }

    /// Withholds processors from everybody.
    pub fn withhold_from_all(&mut self, site: usize, processors: u32) {
        self.processors[site] = self.processors[site].saturating_sub(processors);
    }

    /// Returns all that is left at a site.
    pub(super) fn left_at(&self, site: usize) -> Resources {
        Resources {
            processors: self.processors[site],
            others: self.others[site].clone(),
        }
    }

    /// Adapts a site, uncovered, to what we may take of it in `grid` in place of `before`, less
    /// what was taken and what a request that lasts this long must leave.
    pub(super) fn update_site(
        &mut self,
        site: usize,
        before: &Resources,
        grid: &GridSnapshot,
        lasts: DurationMs,
    ) {
        let mut taken = before.clone();
        taken.subtract(&self.left_at(site));
        let mut left = grid.usable_by_site()[site].clone();
        left.subtract(&taken);
        (self.processors[site], self.others[site]) = (left.processors, left.others);
        self.keep_back_at(grid, site, lasts);
    }

    /// Lets the site take one submission more.
    pub(super) fn add_submission_room(&mut self, site: usize) {
        self.room[site] = self.room[site].saturating_add(1);
    }

    /// Gives back what [`RemainingResources::take_component`] took.
    pub fn give_back_component(&mut self, site: usize, used: &Resources) {
        self.add_resources(site, used);
        self.remove_component(site);
    }

    fn remove_component(&mut self, site: usize) {
        self.joined[site] = self.joined[site].saturating_sub(1);
        if self.joined[site] == 0 {
            self.room[site] = self.room[site].saturating_add(1);
        }
    }
}

fn total_size(contents: impl Iterator<Item = Content>) -> Bytes {
    contents.fold(Bytes(0), |sum, content| sum + content.size)
}
