//! The choice of sites for a component, the reasons against the others, and the choice of replicas:
//! common to all policies.
//!
//! One function (`obstacles`) knows all reasons. Choosing stops at the first, refusing keeps the
//! nearest, explaining collects them all, so the three cannot disagree.

use std::borrow::Cow;
use std::ops::ControlFlow::{Break, Continue};

use super::grid::{GridSite, GridSnapshot, PlacementAcceptance, SiteProperties};
use super::history::SitePairHistory;
use super::obstacles::{RememberedObstacle, find_worst_obstacle, report_misfits};
use super::placement_plan::PlacementPlan;
use super::placement_request::{ComponentRequest, PlacementRequest};
use super::reason::{
    PlacementRefusal, RefusalReason, SiteSuitability, SiteVerdict, VerdictObserver,
};
use super::remaining::RemainingResources;
use super::unplaceable::may_try_out_any;
use crate::acquisition::Acquisition;
use crate::content::{ComponentFilePart, Content, FileChunk};
use crate::ids::{ComponentIndex, SiteName};
use crate::placed::{ContentSource, Placement, PlacementRule, ReasonCode};
use crate::resources::Resources;
use crate::units::{BitsPerSecond, Bytes, DurationMs};

/// A site for a component, with the file site that serves it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteChoice {
    pub site: usize,
    /// Index of the file site that all its files come from; `None`: each comes from where it
    /// arrives first.
    pub file_site: Option<usize>,
    /// The rule that chose the site.
    pub rule: PlacementRule,
}

impl SiteChoice {
    /// Chooses a site, with files from where they arrive first.
    pub fn at_site(site: usize, rule: PlacementRule) -> Self {
        Self {
            site,
            file_site: None,
            rule,
        }
    }
}

/// The search for sites of one job against one snapshot.
pub struct PlacementSearch<'a> {
    pub(super) request: &'a PlacementRequest,
    pub(super) grid: &'a GridSnapshot,
    /// Sites with each content of the request, by index, in order of name.
    replicas: Cow<'a, [Vec<usize>]>,
    /// The whole request, of which `request` may be one split.
    pub(super) whole: &'a PlacementRequest,
    /// True if the whole may go to sites that are tried out after errors; false where there are
    /// none.
    pub(super) tries_out: bool,
    /// True for components whose avoided sites are passed over.
    pub(super) avoids: Vec<bool>,
    /// The pairs of sites that Close-to-Files considers.
    pub(super) history: Option<&'a SitePairHistory>,
    /// Resources at each site that are only assumed idle; empty if there are none.
    pub(super) made_up: Vec<Resources>,
}

impl<'a> PlacementSearch<'a> {
    /// Makes a search, with what the request's components share.
    pub fn new(request: &'a PlacementRequest, grid: &'a GridSnapshot) -> Self {
        Self::with_whole(request, request, may_try_out_site(request, grid), grid)
    }

    /// Makes a search for one site's answer, given the sites with each content of the request. It
    /// does not determine which sites may be tried out, or are avoided.
    pub(super) fn with_replicas(
        request: &'a PlacementRequest,
        grid: &'a GridSnapshot,
        replicas: &'a [Vec<usize>],
    ) -> Self {
        Self {
            request,
            grid,
            replicas: Cow::Borrowed(replicas),
            whole: request,
            tries_out: false,
            avoids: Vec::new(),
            history: None,
            made_up: Vec::new(),
        }
    }

    /// Returns the sites with each content of the request, by index.
    pub(super) fn into_replicas(self) -> Vec<Vec<usize>> {
        self.replicas.into_owned()
    }

    /// Returns the search for one of the splits that the request allows.
    pub(super) fn search_of_split(&self, split: &'a PlacementRequest) -> Self {
        Self::with_whole(split, self.whole, self.tries_out, self.grid)
    }

    /// Returns the search on other sites.
    pub(super) fn search_on_grid<'s>(&'s self, grid: &'s GridSnapshot) -> PlacementSearch<'s> {
        PlacementSearch::with_whole(
            self.request,
            self.whole,
            may_try_out_site(self.whole, grid),
            grid,
        )
    }

    fn with_whole(
        request: &'a PlacementRequest,
        whole: &'a PlacementRequest,
        tries_out: bool,
        grid: &'a GridSnapshot,
    ) -> Self {
        let files = request
            .contents()
            .iter()
            .map(|content| request.whole_file_of(*content));
        let replicas = Cow::Owned(files.map(|content| sites_with(grid, &content)).collect());
        let mut search = Self {
            request,
            grid,
            replicas,
            whole,
            tries_out,
            avoids: Vec::new(),
            history: None,
            made_up: Vec::new(),
        };
        if request
            .components()
            .iter()
            .any(|component| !component.avoid.is_empty())
        {
            let count = request.components().len();
            search.avoids = (0..count)
                .map(|index| search.has_another_site(index))
                .collect();
        }
        search
    }

    pub fn component(&self, component: usize) -> &'a ComponentRequest {
        &self.request.components()[component]
    }

    /// Returns the site that a fixed request names: `None` if it names none, `Some(None)` if that
    /// does not exist.
    pub fn named_site(&self, component: usize) -> Option<Option<usize>> {
        self.component(component)
            .site
            .as_ref()
            .map(|name| self.grid.index_of(name))
    }

    /// Returns the choice of a component at the site that it names.
    pub(super) fn choice_at_named_site(&self, component: usize, site: usize) -> SiteChoice {
        let pair = self
            .history
            .and_then(|_| self.nearest_pair(component, site));
        SiteChoice {
            site,
            file_site: pair.map(|(from, _)| from),
            rule: PlacementRule::NamedSite,
        }
    }

    /// Returns true if the component can go to the site now.
    pub fn can_place_at(
        &self,
        component: usize,
        site: usize,
        remaining: &RemainingResources,
    ) -> bool {
        self.report_obstacles(component, site, remaining, &mut |_, _, _| Break(()))
            .is_continue()
    }

    /// Returns the time until all files of the component are at the site; `None` if they cannot be
    /// brought.
    pub fn transfer_time(&self, component: usize, site: usize) -> Option<DurationMs> {
        let shape = self.grid.sites()[site].shape.as_ref()?;
        let mut total = DurationMs::ZERO;
        for content in self.contents_at(component, site, shape) {
            total = total + self.nearest_replica(content, site).ok()?.1;
        }
        Some(total)
    }

    /// Makes the plan that puts each component on the site chosen for it, by component index.
    pub(super) fn plan_choices(&self, chosen: &[SiteChoice]) -> PlacementPlan {
        let rule = chosen
            .iter()
            .map(|choice| choice.rule)
            .max()
            .unwrap_or(PlacementRule::NamedSite);
        let placements = chosen.iter().enumerate();
        let placements = placements.map(|(index, choice)| self.whole_placement(index, *choice));
        self.plan_from_placements(placements.collect(), rule)
    }

    /// Makes the plan of these placements.
    pub(super) fn plan_from_placements(
        &self,
        placements: Vec<Placement>,
        rule: PlacementRule,
    ) -> PlacementPlan {
        let transfer_time = placements
            .iter()
            .map(|placement| placement.transfer_time)
            .max();
        PlacementPlan {
            policy: self.request.policy().clone(),
            rule,
            placements,
            transfer_time: transfer_time.unwrap_or(DurationMs::ZERO),
        }
    }

    pub(super) fn whole_placement(&self, component: usize, choice: SiteChoice) -> Placement {
        self.build_placement(component, choice, None)
    }

    /// Makes the placement of a component; `part` says which part of the described whole it is, if
    /// that was not known before.
    pub(super) fn build_placement(
        &self,
        component: usize,
        choice: SiteChoice,
        part: Option<ComponentFilePart>,
    ) -> Placement {
        let site = choice.site;
        let place = &self.grid.sites()[site];
        let mut placement = Placement {
            site: place.name.clone(),
            sources: Vec::new(),
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Acquisition::ClaimNow,
        };
        let Some(shape) = &place.shape else {
            return placement;
        };
        for content in self.contents_at(component, site, shape) {
            if let Some((source, time)) = self.source_of_input(component, content, choice, part) {
                placement.sources.push(source);
                placement.transfer_time = placement.transfer_time + time;
            }
        }
        placement
    }

    /// Returns the source of a content and the transfer time; of a file that is read in chunks,
    /// those of the chunk.
    fn source_of_input(
        &self,
        component: usize,
        content: Content,
        choice: SiteChoice,
        part: Option<ComponentFilePart>,
    ) -> Option<(ContentSource, DurationMs)> {
        let chunk = self.component(component).chunks.get(&content);
        let chunk =
            chunk.map(|chunk| part.map_or(*chunk, |part| FileChunk::for_part(chunk.of, part)));
        let size = chunk.map_or(content.size, |chunk| chunk.length);
        let (from, time) = self.source_site(content, size, choice)?;
        let cut = chunk.filter(|chunk| !chunk.is_whole());
        let content = chunk.map_or(content, |chunk| chunk.as_content());
        let from = self.grid.sites()[from].name.clone();
        Some((
            ContentSource {
                content,
                from,
                chunk: cut,
            },
            time,
        ))
    }

    /// Returns the site that a content of this size comes from, and the transfer time.
    fn source_site(
        &self,
        content: Content,
        size: Bytes,
        choice: SiteChoice,
    ) -> Option<(usize, DurationMs)> {
        match choice.file_site {
            Some(from) if !self.replicas_of(content).contains(&choice.site) => {
                let rate = self.grid.bandwidth(from, choice.site);
                size.transfer_time(rate).map(|time| (from, time))
            }
            Some(_) | None => self.first_replica(content, size, choice.site),
        }
    }

    /// Returns the indexes of the sites that have a content of the request, in order of name.
    pub(super) fn replicas_of(&self, content: Content) -> &[usize] {
        match self.request.contents().binary_search(&content) {
            Ok(index) => self.replicas[index].as_slice(),
            Err(_) => &[],
        }
    }

    pub(super) fn contents_at(
        &self,
        component: usize,
        site: usize,
        shape: &SiteProperties,
    ) -> impl Iterator<Item = Content> + use<'a> {
        self.component(component)
            .contents_at(&self.grid.sites()[site].name, &shape.labels)
    }

    /// Takes a component's resources at a site, and the room for its input.
    pub(super) fn take_component(
        &self,
        component: usize,
        site: usize,
        remaining: &mut RemainingResources,
    ) {
        let one = self.component(component);
        match self.grid.sites()[site].pool_of(one) {
            Some(pool) => remaining.take_of_partition(site, pool.name, &one.resources),
            None => remaining.take_component(site, &one.resources),
        }
        remaining.add_staged(site, self.contents_using_bounded_room(component, site));
    }

    /// Reverts [`Search::take`].
    pub(super) fn give_back_component(
        &self,
        component: usize,
        site: usize,
        remaining: &mut RemainingResources,
    ) {
        let one = self.component(component);
        match self.grid.sites()[site].pool_of(one) {
            Some(pool) => remaining.return_to_partition(site, pool.name, &one.resources),
            None => remaining.give_back_component(site, &one.resources),
        }
        remaining.remove_staged(site, self.contents_using_bounded_room(component, site));
    }

    /// Lists what is staged for a component at a site, if the site bounds the room for that.
    fn contents_using_bounded_room(
        &self,
        component: usize,
        site: usize,
    ) -> impl Iterator<Item = Content> + use<'a> {
        let place = &self.grid.sites()[site];
        let shape = place
            .shape
            .as_ref()
            .filter(|_| place.staging_left.is_some());
        let request = self.component(component);
        shape
            .into_iter()
            .flat_map(|shape| request.contents_at(&place.name, &shape.labels))
    }

    /// Returns the replica that arrives first, equal ones by name (vectors WF-4 and WF-5).
    pub(super) fn nearest_replica(
        &self,
        content: Content,
        to: usize,
    ) -> Result<(usize, DurationMs), RefusalReason> {
        let nearest = self.first_replica(content, content.size, to);
        nearest.ok_or_else(|| self.missing_replica_reason(content, self.replicas_of(content), to))
    }

    /// Returns the replica from which this many bytes arrive first.
    fn first_replica(
        &self,
        content: Content,
        size: Bytes,
        to: usize,
    ) -> Option<(usize, DurationMs)> {
        let sites = self.replicas_of(content);
        if sites.contains(&to) {
            return Some((to, DurationMs::ZERO));
        }
        let readable = sites
            .iter()
            .copied()
            .filter(|&from| self.grid.sites()[from].serves_files);
        self.nearest_sender(size, readable, to)
    }

    /// Returns the site of these, in order of name, from which this many bytes arrive first, and
    /// the time; equal ones by name.
    pub(super) fn nearest_sender(
        &self,
        size: Bytes,
        from: impl Iterator<Item = usize>,
        to: usize,
    ) -> Option<(usize, DurationMs)> {
        let mut nearest = None;
        let mut fastest = BitsPerSecond(0);
        for site in from {
            let rate = self.grid.bandwidth(site, to);
            // A slower link, or none, brings nothing sooner: its time need not be computed.
            if rate <= fastest {
                continue;
            }
            fastest = rate;
            let Some(time) = size.transfer_time(rate) else {
                continue;
            };
            if nearest.is_none_or(|(_, known)| time < known) {
                nearest = Some((site, time));
            }
        }
        nearest
    }

    pub(super) fn missing_replica_reason(
        &self,
        content: Content,
        sites: &[usize],
        to: usize,
    ) -> RefusalReason {
        let all = self.grid.sites();
        // Only we know the digest of a chunk.
        let digest = self.request.whole_file_of(content).digest;
        match (
            sites.iter().find(|&&from| all[from].serves_files),
            sites.first(),
        ) {
            (Some(&from), _) => RefusalReason::NoBandwidth {
                from: all[from].name.clone(),
                to: all[to].name.clone(),
            },
            (None, Some(&at)) => RefusalReason::ReplicaUnreachable {
                digest,
                at: all[at].name.clone(),
            },
            (None, None) => RefusalReason::NoReplica { digest },
        }
    }

    /// Returns true if a site takes the job's placements and could hold the component when empty.
    pub fn could_hold(&self, index: usize, site: usize) -> bool {
        let component = self.component(index);
        let at = &self.grid.sites()[site];
        component.site.as_ref().is_none_or(|name| *name == at.name)
            && self.is_open(at)
            && at.shape.is_some()
            && report_misfits(component, self.whole.wall_time(), at, &mut |_, _, _| {
                Break(())
            })
            .is_continue()
    }

    fn is_open(&self, site: &GridSite) -> bool {
        let is_closed = site
            .acceptance
            .hindrance(self.request.may_probe())
            .is_some();
        !is_closed && site.ban_of_owner(self.whole.owner()).is_none()
    }

    /// Returns true if a site where the component has not failed takes the job's placements, could
    /// hold it when empty, and can get its files. Otherwise its avoided sites are not avoided
    /// (vector FT-5): a site that takes nothing must not keep a job waiting.
    fn has_another_site(&self, index: usize) -> bool {
        let component = self.component(index);
        component.site.is_none()
            && self.grid.sites().iter().enumerate().any(|(at, site)| {
                !component.avoid.contains(&site.name)
                    && self.is_open(site)
                    && report_misfits(component, self.whole.wall_time(), site, &mut |_, _, _| {
                        Break(())
                    })
                    .is_continue()
                    && self.transfer_time(index, at).is_some()
            })
    }

    /// Returns the refusal of a component: of the worst reason of each site the nearest.
    pub(super) fn nearest_refusal_of(
        &self,
        component: usize,
        remaining: &RemainingResources,
    ) -> PlacementRefusal {
        let mut nearest: Option<(RememberedObstacle, usize)> = None;
        let need = self.component(component).resources.processors;
        for (site, &left) in self
            .processors_left(component, remaining)
            .iter()
            .enumerate()
        {
            // A site that lacks as many processors as the nearest so far is skipped: whatever else
            // it lacks, it is no nearer.
            let short = u64::from(need.saturating_sub(left));
            if nearest
                .as_ref()
                .is_some_and(|nearest: &(RememberedObstacle, usize)| {
                    nearest.0.0 == ReasonCode::NotEnoughIdle && short >= nearest.0.1
                })
            {
                continue;
            }
            let worst = find_worst_obstacle(|report| {
                self.report_obstacles(component, site, remaining, report)
            });
            let Some(worst) = worst else { continue };
            if nearest
                .as_ref()
                .is_none_or(|(known, _)| (worst.0, worst.1) < (known.0, known.1))
            {
                nearest = Some((worst, site));
            }
        }
        let named = self.component(component).site.as_ref();
        let (site, reason) = match (named, nearest) {
            (Some(named), _) if self.grid.index_of(named).is_none() => {
                (None, RefusalReason::NoSuchSite(named.clone()))
            }
            (_, Some(((.., reason), site))) => (Some(self.grid.sites()[site].name.clone()), reason),
            (_, None) => (None, RefusalReason::NoSites),
        };
        PlacementRefusal {
            component: ComponentIndex(component as u32),
            site,
            reason,
        }
    }

    /// Reports every site to the observer, after the choice was made.
    pub(super) fn explain_sites(
        &self,
        component: usize,
        chosen: Option<usize>,
        remaining: &RemainingResources,
        observer: &mut dyn VerdictObserver,
    ) {
        for index in 0..self.grid.sites().len() {
            let mut verdict = self.site_verdict(component, index, remaining);
            if chosen == Some(index) {
                verdict.outcome = SiteSuitability::Chosen;
            }
            observer.record_verdict(verdict);
        }
    }

    /// Returns the verdict on one site, regardless of the choice.
    pub(super) fn site_verdict(
        &self,
        component: usize,
        index: usize,
        remaining: &RemainingResources,
    ) -> SiteVerdict {
        let mut reasons = Vec::new();
        let _ = self.report_obstacles(component, index, remaining, &mut |_, _, reason| {
            reasons.push(reason());
            Continue(())
        });
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.code()));
        SiteVerdict {
            component: ComponentIndex(component as u32),
            site: self.grid.sites()[index].name.clone(),
            remaining_processors: self.processors_left(component, remaining)[index],
            transfer_time: self.transfer_time(component, index),
            outcome: if reasons.is_empty() {
                SiteSuitability::NotPreferred
            } else {
                SiteSuitability::Refused(reasons)
            },
        }
    }
}

/// Sites are seldom tried out, so the job's permission is seldom computed.
fn may_try_out_site(request: &PlacementRequest, grid: &GridSnapshot) -> bool {
    grid.sites()
        .iter()
        .any(|site: &GridSite| site.acceptance == PlacementAcceptance::ProbesOnly)
        && may_try_out_any(request, grid.sites())
}

fn sites_with(grid: &GridSnapshot, content: &Content) -> Vec<usize> {
    let mut sites = Vec::new();
    grid.replicas()
        .visit_sites(&content.digest, &mut |name: &SiteName| {
            sites.extend(grid.index_of(name));
        });
    sites.sort_unstable();
    sites.dedup();
    sites
}
