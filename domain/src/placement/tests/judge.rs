//! A plain model of a grid and of what is asked of it: which site is open to a component, what is
//! left there, and where its files come from. From the description alone, with no regard to cost.

use std::collections::BTreeSet;

use crate::content::{ComponentFilePart, Content, FileChunk};
use crate::job::spec::{FlexibleBounds, OverrideScope, RequestType};
use crate::labels::{self, LabelConstraint};
use crate::placed::{ContentSource, Placement};
use crate::placement::*;
use crate::resources::Resources;
use crate::units::{Bytes, DurationMs};

/// The resources that are drawn.
pub(super) const KINDS: [&str; 2] = ["processors", "gpus"];

pub(super) fn count_resource(of: &Resources, kind: &str) -> i64 {
    match kind {
        "processors" => of.processors.into(),
        other => of.other(other) as i64,
    }
}

/// What the quota allows of a resource in all.
fn allowed_by_quota(site: &GridSite, kind: &str) -> i64 {
    let total = site
        .shape
        .as_ref()
        .map_or(0, |shape| count_resource(&shape.total, kind));
    total * i64::from(site.quota.share.0) / 1_000_000
}

/// What may be taken of a site before anything is placed.
pub(super) fn usable_count(site: &GridSite, kind: &str) -> i64 {
    let (Some(shape), Some(belief)) = (&site.shape, &site.idle) else {
        return 0;
    };
    let total = count_resource(&shape.total, kind);
    let idle = count_resource(&belief.idle, kind);
    let left = match site.quota.basis {
        QuotaBasis::Level => allowed_by_quota(site, kind) - (total - idle),
        QuotaBasis::Share => {
            idle.min(allowed_by_quota(site, kind) - count_resource(&site.ours, kind))
        }
    };
    (left.max(0) - count_resource(&site.pending, kind)).max(0)
}

/// A request as it is submitted; a flexible one has one component, which asks for the total.
#[derive(Debug, Clone)]
pub(crate) struct SubmittedRequest {
    pub(super) policy: &'static str,
    pub(super) kind: RequestType,
    pub(super) restartable: bool,
    pub(super) parts: Vec<ComponentRequest>,
}

impl SubmittedRequest {
    pub(crate) fn build_request(&self) -> PlacementRequest {
        let policy = crate::ids::PolicyName::new(self.policy).unwrap();
        PlacementRequest::new(
            policy,
            self.kind.clone(),
            self.restartable,
            self.parts.clone(),
        )
    }

    pub(super) fn bounds(&self) -> Option<&FlexibleBounds> {
        match &self.kind {
            RequestType::Flexible(bounds) => Some(bounds),
            RequestType::Fixed | RequestType::NonFixed => None,
        }
    }

    /// What goes to one site; of a flexible request the smallest component.
    pub(super) fn components(&self) -> Vec<ComponentRequest> {
        match self.bounds() {
            Some(bounds) if bounds.splits.is_empty() => {
                self.split_components(&[bounds.min_component_size])
            }
            Some(bounds) => {
                self.split_components(&[*bounds.splits.iter().flatten().min().unwrap()])
            }
            None => self.parts.clone(),
        }
    }

    /// The components of a split.
    pub(super) fn split_components(&self, sizes: &[u32]) -> Vec<ComponentRequest> {
        let whole = &self.parts[0];
        let mut before = 0;
        let parts = sizes.iter().map(|&own| {
            let part = self.file_part(before, own);
            before += own;
            let chunks = whole
                .chunks
                .values()
                .map(|chunk| FileChunk::for_part(chunk.of, part));
            let chunks = chunks.map(|chunk| (chunk.as_content(), chunk)).collect();
            ComponentRequest {
                resources: self.resource_share(own),
                chunks,
                ..whole.clone()
            }
        });
        parts.collect()
    }

    pub(super) fn file_part(&self, before: u32, own: u32) -> ComponentFilePart {
        let total = self.parts[0].resources.processors;
        ComponentFilePart {
            before: before.into(),
            own: own.into(),
            total: total.into(),
        }
    }

    /// So many processors of the total, and of the gpus the same part, rounded up.
    pub(super) fn resource_share(&self, processors: u32) -> Resources {
        let whole = &self.parts[0].resources;
        let gpus = whole.other("gpus") * u64::from(processors);
        let gpus = gpus.div_ceil(whole.processors.into());
        let others = whole
            .others
            .keys()
            .map(|name| (name.clone(), gpus))
            .collect();
        Resources { processors, others }
    }

    /// Who may run twice, or can go nowhere else, tries sites out after errors.
    fn may_probe(&self) -> bool {
        self.restartable || self.kind == RequestType::Fixed
    }

    /// Whether it could be placed on these sites, were they empty and open; one that has not
    /// been heard from may be as large as is needed.
    pub(super) fn is_ever_placeable(&self, sites: &[&GridSite]) -> bool {
        match self.bounds() {
            None => do_all_fit(&self.parts, sites),
            Some(bounds) if !bounds.splits.is_empty() => bounds
                .splits
                .iter()
                .any(|sizes| do_all_fit(&self.split_components(sizes), sites)),
            Some(bounds) => self.can_split_over(bounds, sites),
        }
    }

    fn can_split_over(&self, bounds: &FlexibleBounds, sites: &[&GridSite]) -> bool {
        let least = &self.components()[0];
        if sites.iter().any(|site| site.shape.is_none()) {
            return true;
        }
        let sites = sites.iter().filter(|site| holds_when_empty(least, site));
        let mut offers: Vec<i64> = sites
            .map(|site| self.max_processors_at(site, |kind| allowed_by_quota(site, kind)))
            .collect();
        offers.sort_unstable_by_key(|most| -most);
        self.fewest_sites(bounds, &offers).is_some()
    }

    /// The most processors of the total that a site takes where so much of each kind is left.
    pub(super) fn max_processors_at(&self, site: &GridSite, left: impl Fn(&str) -> i64) -> i64 {
        let Some(shape) = &site.shape else { return 0 };
        let left = |kind| left(kind).min(count_resource(&shape.largest_component, kind));
        let whole = i64::from(self.parts[0].resources.processors);
        // Of the other resources no more than the total is asked for.
        (0..=whole.max(left("processors")))
            .rev()
            .find(|size: &i64| {
                let share = self.resource_share(*size as u32);
                KINDS
                    .into_iter()
                    .all(|kind| count_resource(&share, kind) <= left(kind))
            })
            .unwrap_or(0)
    }

    /// On how few of these sites, the largest first, each has the minimum and all have the total.
    pub(super) fn fewest_sites(&self, bounds: &FlexibleBounds, offers: &[i64]) -> Option<usize> {
        let total = i64::from(self.parts[0].resources.processors);
        let most = bounds
            .max_components
            .map_or(offers.len(), |most| most as usize);
        (1..=most.min(offers.len())).find(|&sites| {
            sites as i64 * i64::from(bounds.min_component_size) <= total
                && offers[..sites].iter().sum::<i64>() >= total
        })
    }
}

fn do_all_fit(parts: &[ComponentRequest], sites: &[&GridSite]) -> bool {
    let named = |part: &ComponentRequest, site: &GridSite| {
        part.site.as_ref().is_none_or(|name| *name == site.name)
    };
    let together = |parts: &[&ComponentRequest], sites: &[&GridSite]| {
        let needed = |kind| {
            parts
                .iter()
                .map(|part| count_resource(&part.resources, kind))
                .sum::<i64>()
        };
        let has = |kind| {
            sites
                .iter()
                .map(|site| allowed_by_quota(site, kind))
                .sum::<i64>()
        };
        sites.iter().any(|site| site.shape.is_none())
            || KINDS.into_iter().all(|kind| needed(kind) <= has(kind))
    };
    parts.iter().all(|part: &ComponentRequest| {
        sites
            .iter()
            .any(|site| named(part, site) && holds_when_empty(part, site))
    }) && together(&parts.iter().collect::<Vec<_>>(), sites)
        && sites.iter().all(|site| {
            let here = parts
                .iter()
                .filter(|part| part.site.as_ref() == Some(&site.name));
            together(&here.collect::<Vec<_>>(), &[site])
        })
}

/// Whether the site, as far as it is known, could hold the component were it empty and open.
pub(crate) fn holds_when_empty(part: &ComponentRequest, site: &GridSite) -> bool {
    let Some(shape) = &site.shape else {
        return true;
    };
    let has = |key: &str, value: &str| {
        shape
            .labels
            .get(key)
            .is_some_and(|values| values.iter().any(|known| **known == *value))
    };
    part.constraints.iter().all(
        |LabelConstraint { key, rule }: &LabelConstraint| match rule {
            labels::LabelRule::Is(value) => has(key, value),
            labels::LabelRule::IsNot(value) => !has(key, value),
            labels::LabelRule::AtLeast(least) => shape.labels.get(key).is_some_and(|values| {
                values
                    .iter()
                    .filter_map(|value| value.parse::<u64>().ok())
                    .max()
                    >= Some(*least)
            }),
            labels::LabelRule::OneOf(values) => values.iter().any(|value| has(key, value)),
        },
    ) && KINDS.into_iter().all(|kind| {
        let need = count_resource(&part.resources, kind);
        need <= count_resource(&shape.largest_component, kind)
            && (need <= allowed_by_quota(site, kind) || site.quota == SiteQuota::NONE)
    })
}

/// What a component of a job took of a site, and what is copied there for it.
#[derive(Debug, Clone)]
struct TakenResources {
    site: usize,
    job: usize,
    used: Resources,
    copies: Vec<Content>,
}

/// A grid on which jobs are placed one after the other, and the one whose turn it is.
#[derive(Debug, Clone)]
pub(super) struct PlacementJudge<'a> {
    pub(super) grid: &'a GridSnapshot,
    /// The table of Close-to-Files, which no other policy keeps to.
    pub(super) history: SitePairHistory,
    pub(super) asked: &'a SubmittedRequest,
    /// Its components as they are placed: of a flexible request those of one of its splits.
    pub(super) parts: Vec<ComponentRequest>,
    job: usize,
    taken: Vec<TakenResources>,
}

impl<'a> PlacementJudge<'a> {
    pub(super) fn new(
        grid: &'a GridSnapshot,
        history: SitePairHistory,
        asked: &'a SubmittedRequest,
    ) -> Self {
        Self {
            grid,
            history,
            asked,
            parts: asked.components(),
            job: 0,
            taken: Vec::new(),
        }
    }

    /// The next job has its turn.
    pub(super) fn begin_next_request(&mut self, asked: &'a SubmittedRequest) {
        self.asked = asked;
        self.parts = asked.components();
        self.job += 1;
    }

    pub(super) fn sites(&self) -> std::ops::Range<usize> {
        0..self.grid.sites().len()
    }

    fn site(&self, at: usize) -> &'a GridSite {
        &self.grid.sites()[at]
    }

    pub(super) fn count_left(&self, at: usize, kind: &str) -> i64 {
        let here = self.taken.iter().filter(|taken| taken.site == at);
        usable_count(self.site(at), kind)
            - here
                .map(|taken| count_resource(&taken.used, kind))
                .sum::<i64>()
    }

    /// A component goes to a site.
    pub(super) fn take_for_component(
        &mut self,
        site: usize,
        used: Resources,
        copies: Vec<Content>,
    ) {
        self.taken.push(TakenResources {
            site,
            job: self.job,
            used,
            copies,
        });
    }

    pub(super) fn is_open(&self, part: usize, at: usize) -> bool {
        self.is_open_but_for_pairs(part, at) && !self.lacks_known_pair(part, at)
    }

    pub(super) fn is_open_but_for_pairs(&self, part: usize, at: usize) -> bool {
        let asked = &self.parts[part];
        let site = self.site(at);
        let is_accepting = match site.acceptance {
            PlacementAcceptance::Open => true,
            PlacementAcceptance::ProbesOnly => self.tries_out(),
            PlacementAcceptance::Closed(_) => false,
        };
        is_accepting
            && site.shape.is_some()
            && site.idle.is_some()
            && asked.site.as_ref().is_none_or(|named| *named == site.name)
            && holds_when_empty(asked, site)
            && self.transfer_time(part, at).is_some()
            && !(asked.avoid.contains(&site.name) && self.has_other_site(part))
            && self.has_staging_room(part, at)
            && self.has_room(at)
            && KINDS
                .into_iter()
                .all(|kind| count_resource(&asked.resources, kind) <= self.count_left(at, kind))
    }

    /// Also who must not run twice tries sites out, if the others could never hold the job;
    /// those that nobody knows when they will be mended are not waited for.
    fn tries_out(&self) -> bool {
        use PlacementHindrance::{CredentialsExpired, Isolated, Maintenance, Unknown, Unreachable};
        let passes = [
            CredentialsExpired,
            Isolated,
            Maintenance,
            Unknown,
            Unreachable,
        ];
        let waited_for: Vec<&GridSite> = self
            .grid
            .sites()
            .iter()
            .filter(|site: &&GridSite| match site.acceptance {
                PlacementAcceptance::Open => true,
                PlacementAcceptance::ProbesOnly => false,
                PlacementAcceptance::Closed(why) => passes.contains(&why),
            })
            .collect();
        self.asked.may_probe()
            || waited_for.is_empty()
            || !self.asked.is_ever_placeable(&waited_for)
    }

    /// Whether another site than those where it failed would do.
    fn has_other_site(&self, part: usize) -> bool {
        let asked = &self.parts[part];
        asked.site.is_none()
            && self.sites().any(|at| {
                let site = self.site(at);
                let takes = match site.acceptance {
                    PlacementAcceptance::Open => true,
                    PlacementAcceptance::ProbesOnly => self.asked.may_probe(),
                    PlacementAcceptance::Closed(_) => false,
                };
                !asked.avoid.contains(&site.name)
                    && takes
                    && site.shape.is_some()
                    && holds_when_empty(asked, site)
                    && self.transfer_time(part, at).is_some()
            })
    }

    /// One more job, or one that has a component there already.
    fn has_room(&self, at: usize) -> bool {
        let here = self.taken.iter().filter(|taken| taken.site == at);
        let jobs: BTreeSet<usize> = here.map(|taken| taken.job).collect();
        let room = self.site(at).room.map_or(usize::MAX, |room| room as usize);
        jobs.contains(&self.job) || jobs.len() < room
    }

    /// Its copies fit beside those for what was placed before; equal ones are one copy.
    fn has_staging_room(&self, part: usize, at: usize) -> bool {
        let Some(Bytes(space)) = self.site(at).staging_left else {
            return true;
        };
        let name = &self.site(at).name;
        let here = self.taken.iter().filter(|taken| taken.site == at);
        let before: BTreeSet<Content> = here.flat_map(|taken| taken.copies.clone()).collect();
        let size = |contents: BTreeSet<Content>| -> u64 {
            let missing = contents
                .iter()
                .filter(|content| !self.grid.is_staged(name, content));
            missing.map(|content| content.size.0).sum()
        };
        let more: BTreeSet<Content> = self.needed_contents(part, at).into_iter().collect();
        let more = size(more.difference(&before).copied().collect());
        more == 0 || size(before) + more <= space
    }

    /// Of so many processors of the total as many as there is space for the chunks of,
    /// wherever in their files these may begin.
    pub(super) fn processors_with_staging_room(&self, at: usize, most: i64) -> i64 {
        let total = self.asked.parts[0].resources.processors;
        let has_space = |own: u32| {
            (0..=total - own).all(|before| {
                let mut judge = self.clone();
                let parts = self.asked.split_components(&[before, own]);
                judge.parts = vec![parts[1].clone()];
                judge.has_staging_room(0, at)
            })
        };
        (0..=most)
            .rev()
            .find(|own| has_space((*own as u32).min(total)))
            .unwrap_or(0)
    }

    /// What must be at a site before a component can start there: what it reads, and its
    /// executable, which may be another one there.
    pub(super) fn needed_contents(&self, part: usize, at: usize) -> Vec<Content> {
        let asked = &self.parts[part];
        let site = self.site(at);
        let Some(shape) = &site.shape else {
            return Vec::new();
        };
        let applies = |place: &OverrideScope| match place {
            OverrideScope::Site(name) => *name == site.name,
            OverrideScope::Label(key, value) => shape
                .labels
                .get(key)
                .is_some_and(|values| values.contains(value)),
        };
        let here = asked
            .executable_at
            .iter()
            .rfind(|(place, _)| applies(place));
        let executable = here.map_or(asked.executable, |(_, content)| *content);
        let all = asked
            .inputs
            .iter()
            .chain(asked.chunks.keys())
            .copied()
            .chain(executable);
        let mut needs: Vec<Content> = all.collect();
        needs.reverse();
        (0..needs.len())
            .rev()
            .filter(|at: &usize| !needs[at + 1..].contains(&needs[*at]))
            .map(|at| needs[at])
            .collect()
    }

    /// The sites with a content; with that which a chunk is cut from.
    pub(super) fn sites_holding(&self, content: Content) -> BTreeSet<usize> {
        let file = self.parts.iter().find_map(|part| part.chunks.get(&content));
        let mut holders = BTreeSet::new();
        let digest = file.map_or(content.digest, |chunk| chunk.of.digest);
        self.grid.replicas().visit_sites(&digest, &mut |name| {
            holders.extend(self.sites().find(|at| self.site(*at).name == *name));
        });
        holders
    }

    /// When so much is there from the nearest of these sites, and from which.
    fn first_arrival(
        &self,
        size: Bytes,
        from: impl IntoIterator<Item = usize>,
        to: usize,
    ) -> Option<(u64, usize)> {
        let readable = from
            .into_iter()
            .filter(|from| self.site(*from).serves_files);
        let linked = readable.map(|from| (self.grid.bandwidth(from, to).0, from));
        let linked = linked.filter(|(rate, _)| *rate > 0);
        linked
            .map(|(rate, from)| ((size.0 * 8_000).div_ceil(rate), from))
            .min()
    }

    /// The same of a content, which is there at once where there is a replica.
    pub(super) fn content_arrival(
        &self,
        content: Content,
        size: Bytes,
        to: usize,
    ) -> Option<(u64, usize)> {
        let holders = self.sites_holding(content);
        if holders.contains(&to) {
            Some((0, to))
        } else {
            self.first_arrival(size, holders, to)
        }
    }

    /// How long all that it needs takes, one after the other.
    pub(super) fn transfer_time(&self, part: usize, at: usize) -> Option<u64> {
        self.site(at).shape.as_ref()?;
        let needs = self.needed_contents(part, at).into_iter();
        needs
            .map(|content| Some(self.content_arrival(content, content.size, at)?.0))
            .sum()
    }

    /// How much it needs that is not there; `None` if all is.
    pub(super) fn missing_bytes(&self, part: usize, at: usize) -> Option<Bytes> {
        let needs = self.needed_contents(part, at).into_iter();
        let absent = needs.filter(|content| !self.sites_holding(*content).contains(&at));
        absent
            .map(|content| content.size)
            .reduce(|sum, size| sum + size)
    }

    /// The sites with all that it needs there.
    pub(super) fn file_sites(&self, part: usize, at: usize) -> Vec<usize> {
        let needs = self.needed_contents(part, at);
        let has = |from: usize| {
            needs
                .iter()
                .all(|content| self.sites_holding(*content).contains(&from))
        };
        self.sites()
            .filter(|from| !needs.is_empty() && has(*from))
            .collect()
    }

    /// The file site of the pair in the table, or among these, that brings its files first.
    pub(super) fn best_file_site(
        &self,
        part: usize,
        at: usize,
        learned: &[(usize, usize)],
    ) -> Option<(u64, usize)> {
        let name = |at: usize| &self.site(at).name;
        let from = self
            .file_sites(part, at)
            .into_iter()
            .filter(|from: &usize| {
                self.history.contains_pair(name(at), name(*from)) || learned.contains(&(at, *from))
            });
        self.first_arrival(self.missing_bytes(part, at)?, from, at)
    }

    /// Where there are sites with all of its files, it gets them from one of those.
    fn lacks_known_pair(&self, part: usize, at: usize) -> bool {
        self.asked.policy == "close-to-files"
            && self.missing_bytes(part, at).is_some()
            && !self.file_sites(part, at).is_empty()
            && self.best_file_site(part, at, &[]).is_none()
    }

    /// A component at a site, its files from that file site, or each from where it is first;
    /// `cut`: which part of a flexible job it is.
    pub(super) fn placement(
        &self,
        part: usize,
        at: usize,
        file_site: Option<usize>,
        cut: Option<ComponentFilePart>,
    ) -> Placement {
        let mut sources = Vec::new();
        let mut time = 0;
        for content in self.needed_contents(part, at) {
            let chunk = self.parts[part].chunks.get(&content);
            let chunk = chunk.map(|c| cut.map_or(*c, |cut| FileChunk::for_part(c.of, cut)));
            let size = chunk.map_or(content.size, |chunk| chunk.length);
            let way = match file_site.filter(|_| !self.sites_holding(content).contains(&at)) {
                Some(from) => self.first_arrival(size, [from], at),
                None => self.content_arrival(content, size, at),
            };
            let (takes, from) = way.unwrap();
            time += takes;
            sources.push(ContentSource {
                content: chunk.map_or(content, |chunk| chunk.as_content()),
                from: self.site(from).name.clone(),
                chunk: chunk.filter(|chunk| chunk.length < chunk.of.size),
            });
        }
        let site = self.site(at).name.clone();
        Placement {
            site,
            sources,
            transfer_time: DurationMs(time),
            share: None,
            acquisition: Default::default(),
        }
    }

    /// What the slowest link between these sites carries, in the slower direction.
    pub(super) fn slowest_link(&self, sites: &[usize]) -> u64 {
        let pairs = sites
            .iter()
            .flat_map(|a| sites.iter().map(move |b| (*a, *b)));
        let links = pairs
            .filter(|(a, b)| a != b)
            .map(|(a, b)| self.grid.bandwidth(a, b).0);
        links.min().unwrap_or(u64::MAX)
    }
}
