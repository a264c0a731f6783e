//! What keeps a component from a site, by the rules of the guide, each reason in full; and where
//! its files come from.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::content::{Chunk, Content, Part};
use cospan_domain::ids::ComponentIndex;
use cospan_domain::labels::Rule;
use cospan_domain::placed::{Placement, Source};
use cospan_domain::placement::{
    Acceptance, ComponentRequest, GridSite, Hindrance, Outcome, QuotaBasis, Reason, Refusal,
    SiteVerdict,
};
use cospan_domain::units::{Bytes, DurationMs};

use super::super::quantities::counts;
use super::asked::{Asked, file_of, needs};
use super::ground::{Ground, KINDS};
use super::submissions::{ever, is_waited_for};

/// The history table of Close-to-Files.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Table {
    All,
    /// Execution site and file site.
    Pairs(BTreeSet<(usize, usize)>),
}

impl Table {
    fn has(&self, pair: (usize, usize)) -> bool {
        match self {
            Table::All => true,
            Table::Pairs(pairs) => pairs.contains(&pair),
        }
    }
}

/// Components of a job on a grid.
#[derive(Debug, Clone)]
pub(super) struct Judge<'a> {
    pub(super) ground: Ground,
    pub(super) whole: &'a Asked,
    pub(super) parts: Arc<[ComponentRequest]>,
    pub(super) job: u32,
    /// Where files are brought over known pairs alone.
    pub(super) table: Option<&'a Table>,
}

impl Judge<'_> {
    pub(super) fn needs(&self, part: usize, at: usize) -> Vec<Content> {
        needs(&self.parts[part], &self.ground.sites[at])
    }

    pub(super) fn holders(&self, content: Content) -> Vec<usize> {
        self.ground.holders(&file_of(&self.parts, content))
    }

    fn serves(&self, from: usize) -> bool {
        self.ground.sites[from].serves_files
    }

    /// When a content is there, and from where: at once where it is.
    pub(super) fn way(&self, content: Content, to: usize) -> Option<(u64, usize)> {
        self.way_of(content, content.size, to)
    }

    /// The same, if so much of it is to be there.
    fn way_of(&self, content: Content, size: Bytes, to: usize) -> Option<(u64, usize)> {
        let holders = self.holders(content);
        if holders.contains(&to) {
            return Some((0, to));
        }
        let from = holders.into_iter().filter(|from| self.serves(*from));
        self.ground.arrival(size, from, to)
    }

    /// When all that it needs is there.
    pub(super) fn transfer_time(&self, part: usize, at: usize) -> Option<DurationMs> {
        self.ground.sites[at].shape.as_ref()?;
        let needs = self.needs(part, at);
        let times: Option<Vec<u64>> =
            needs.iter().map(|content| Some(self.way(*content, at)?.0)).collect();
        Some(DurationMs(times?.iter().sum()))
    }

    /// How much is not there; `None`: nothing.
    pub(super) fn missing(&self, part: usize, at: usize) -> Option<Bytes> {
        let needs = self.needs(part, at);
        let absent: Vec<&Content> =
            needs.iter().filter(|content| !self.holders(**content).contains(&at)).collect();
        let sum = absent.iter().map(|content| content.size.0).sum();
        (!absent.is_empty()).then_some(Bytes(sum))
    }

    /// The sites that have everything that it needs at a site.
    pub(super) fn file_sites(&self, part: usize, at: usize) -> Vec<usize> {
        let needs = self.needs(part, at);
        let all = |from: &usize| needs.iter().all(|content| self.holders(*content).contains(from));
        (0..self.ground.sites.len()).filter(|from| !needs.is_empty() && all(from)).collect()
    }

    /// The file site of the pair that brings its files first.
    pub(super) fn pair(
        &self,
        part: usize,
        at: usize,
        learned: &[(usize, usize)],
    ) -> Option<(u64, usize)> {
        let (size, table) = (self.missing(part, at)?, self.table?);
        let known = |from: &usize| table.has((at, *from)) || learned.contains(&(at, *from));
        let from = self.file_sites(part, at).into_iter();
        let from = from.filter(|from| self.serves(*from) && known(from));
        self.ground.arrival(size, from, at)
    }

    pub(super) fn is_open(&self, part: usize, at: usize) -> bool {
        self.reasons(part, at).is_empty()
    }

    /// All that keeps it from there, the most lasting first.
    pub(super) fn reasons(&self, part: usize, at: usize) -> Vec<Reason> {
        let (asked, site) = (&self.parts[part], &self.ground.sites[at]);
        let mut found = Vec::new();
        found.extend(
            (asked.site.iter().filter(|named| **named != site.name).cloned())
                .map(Reason::NotTheNamedSite),
        );
        found.extend(never_fits(asked, site));
        found.extend(self.closed(at).map(Reason::Closed));
        let needs = self.needs(part, at);
        let absent = needs.iter().filter(|content| self.way(**content, at).is_none());
        found.extend(absent.map(|content| self.not_brought(*content, at)));
        found.extend(self.no_pair(part, at));
        if asked.site.is_none() && asked.avoid.contains(&site.name) && self.has_another(asked) {
            found.push(Reason::Avoided);
        }
        if let Some((needed, left)) = self.ground.staging(at, &needs).filter(|(n, l)| n > l)
            && site.shape.is_some()
        {
            found.push(Reason::StagingFull { needed: Bytes(needed), left: Bytes(left) });
        }
        if !self.ground.has_room(at, self.job) {
            found.push(Reason::SiteFull);
        }
        found.extend(self.shortages(asked, at));
        found.sort_by_key(|reason| Reverse(reason.code()));
        found
    }

    fn closed(&self, at: usize) -> Option<Hindrance> {
        let site = &self.ground.sites[at];
        match site.acceptance {
            Acceptance::Closed(why) => Some(why),
            Acceptance::ProbesOnly if !self.tries_out() => Some(Hindrance::Probing),
            _ => (site.shape.is_none() || site.idle.is_none()).then_some(Hindrance::Unknown),
        }
    }

    /// Or it would wait in vain for the sites that need not be tried out.
    fn tries_out(&self) -> bool {
        let sites = self.ground.sites.iter();
        let waited_for: Vec<&GridSite> =
            sites.filter(|site| is_waited_for(site.acceptance)).collect();
        self.whole.may_probe() || ever(self.whole, &waited_for).is_err()
    }

    fn not_brought(&self, content: Content, to: usize) -> Reason {
        self.not_from(content, &self.holders(content), to)
    }

    fn not_from(&self, content: Content, holders: &[usize], to: usize) -> Reason {
        let name = |at: usize| self.ground.sites[at].name.clone();
        let digest = file_of(&self.parts, content).digest;
        let readable = holders.iter().copied().find(|from| self.serves(*from));
        match (readable, holders.first().copied()) {
            (Some(from), _) => Reason::NoBandwidth { from: name(from), to: name(to) },
            (None, Some(at)) => Reason::ReplicaUnreachable { digest, at: name(at) },
            (None, None) => Reason::NoReplica { digest },
        }
    }

    /// Where there are sites with all of its files, they come from one of those.
    fn no_pair(&self, part: usize, at: usize) -> Option<Reason> {
        self.table?;
        self.missing(part, at)?;
        let holders = self.file_sites(part, at);
        if holders.is_empty() || self.pair(part, at, &[]).is_some() {
            return None;
        }
        let carries = |from: &usize| self.serves(*from) && self.ground.rate(*from, at) > 0;
        if holders.iter().any(carries) {
            return Some(Reason::NotInHistory);
        }
        self.transfer_time(part, at)?;
        let first = self.needs(part, at).first().copied()?;
        Some(self.not_from(first, &holders, at))
    }

    /// Whether another site would do than those where it failed.
    fn has_another(&self, asked: &ComponentRequest) -> bool {
        let takes = |site: &GridSite| match site.acceptance {
            Acceptance::Open => true,
            Acceptance::ProbesOnly => self.whole.may_probe(),
            Acceptance::Closed(_) => false,
        };
        (0..self.ground.sites.len()).any(|at| {
            let site = &self.ground.sites[at];
            let brought = needs(asked, site).iter().all(|c| self.way(*c, at).is_some());
            let fits = site.shape.is_some() && never_fits(asked, site).is_empty();
            !asked.avoid.contains(&site.name) && takes(site) && fits && brought
        })
    }

    /// What is short, because of the load, of our quota, or of both.
    fn shortages(&self, asked: &ComponentRequest, at: usize) -> Vec<Reason> {
        let site = &self.ground.sites[at];
        let (Some(_), Some(belief)) = (&site.shape, &site.idle) else { return Vec::new() };
        let (need, left) = (counts(&asked.resources), self.ground.left(at));
        let (idle, quota) = (counts(&belief.idle), Ground::quota(site));
        let (ours, pending) = (counts(&site.ours), counts(&site.pending));
        let (promised, supposed) = (self.ground.promised(at), self.ground.made_up.get(&at));
        let mut found = Vec::new();
        for kind in (0..3).filter(|kind| left[*kind] < need[*kind]) {
            let (needed, promised) = (need[kind], pending[kind] + promised[kind]);
            let usable = match site.quota.basis {
                QuotaBasis::Level => left[kind],
                QuotaBasis::Share => {
                    quota[kind].saturating_sub(ours[kind]).saturating_sub(promised)
                }
            };
            if Ground::binds(site) && usable < needed && needed <= quota[kind] {
                found.push(Reason::QuotaReached { resource: KINDS[kind].into(), needed, usable });
            }
            let made_up = supposed.map_or(0, |made_up| made_up[kind]);
            let missing = (promised + needed).saturating_sub(idle[kind]);
            let short = Reason::NotEnoughIdle {
                resource: KINDS[kind].into(),
                needed,
                idle: idle[kind] - made_up,
                made_up,
                pending: promised,
                missing,
            };
            found.extend((missing > 0).then_some(short));
        }
        found
    }

    /// What is said of one site, whichever is chosen.
    pub(super) fn verdict(&self, part: usize, at: usize) -> SiteVerdict {
        let reasons = self.reasons(part, at);
        SiteVerdict {
            component: ComponentIndex(part as u32),
            site: self.ground.sites[at].name.clone(),
            remaining_processors: self.ground.left(at)[0] as u32,
            transfer_time: self.transfer_time(part, at),
            outcome: match reasons.is_empty() {
                true => Outcome::NotPreferred,
                false => Outcome::Refused(reasons),
            },
        }
    }

    /// Of the worst reason of each site the nearest to a placement.
    pub(super) fn refusal(&self, part: usize) -> Refusal {
        let named = self.parts[part].site.as_ref();
        let refused =
            |site, reason| Refusal { component: ComponentIndex(part as u32), site, reason };
        if let Some(named) = named.filter(|named| self.ground.position(named).is_none()) {
            return refused(None, Reason::NoSuchSite(named.clone()));
        }
        let worst = (0..self.ground.sites.len())
            .filter_map(|at| Some((self.reasons(part, at).into_iter().next()?, at)));
        match worst.min_by_key(|(reason, at)| (reason.code(), gap(reason), *at)) {
            Some((reason, at)) => refused(Some(self.ground.sites[at].name.clone()), reason),
            None => refused(None, Reason::NoSites),
        }
    }

    /// Where it is, and where its files come from; `part_of`: which part of the whole it is.
    pub(super) fn placement(
        &self,
        part: usize,
        at: usize,
        file_site: Option<usize>,
        part_of: Option<Part>,
    ) -> Placement {
        let mut sources = Vec::new();
        let mut time = 0;
        for content in self.needs(part, at) {
            let chunk = self.parts[part].chunks.get(&content);
            let chunk = chunk.map(|c| part_of.map_or(*c, |part| Chunk::of_part(c.of, part)));
            let size = chunk.map_or(content.size, |chunk| chunk.length);
            let paired = file_site.filter(|_| !self.holders(content).contains(&at));
            let way = match paired {
                Some(from) => self.ground.arrival(size, [from].into_iter(), at),
                None => self.way_of(content, size, at),
            };
            let Some((takes, from)) = way else { continue };
            time += takes;
            let cut = chunk.filter(|chunk| chunk.length < chunk.of.size);
            let content = chunk.map_or(content, |chunk| chunk.content());
            sources.push(Source {
                content,
                from: self.ground.sites[from].name.clone(),
                chunk: cut,
            });
        }
        let site = self.ground.sites[at].name.clone();
        Placement { site, sources, transfer_time: DurationMs(time), share: None }
    }

    /// It goes there.
    pub(super) fn take(&mut self, part: usize, at: usize) {
        let needs = self.needs(part, at);
        self.ground.take(at, self.job, &self.parts[part].resources, &needs);
    }
}

/// How much is lacking, where that is a number.
pub(super) fn gap(reason: &Reason) -> u64 {
    match reason {
        Reason::NotEnoughIdle { missing, .. } => *missing,
        Reason::QuotaReached { needed, usable, .. } => needed - usable,
        Reason::StagingFull { needed, left } => needed.0 - left.0,
        Reason::QuotaTooSmall { needed, quota, .. } => needed - quota,
        Reason::TooSmall { needed, largest, .. } => needed - largest,
        _ => 0,
    }
}

/// Why a site could not hold it, were it empty and open.
pub(in super::super) fn never_fits(asked: &ComponentRequest, site: &GridSite) -> Vec<Reason> {
    let Some(shape) = &site.shape else { return Vec::new() };
    let has =
        |key: &str, value: &str| shape.labels.get(key).is_some_and(|values| values.contains(value));
    let lacks = asked.constraints.iter().filter(|constraint| match &constraint.rule {
        Rule::Is(value) => !has(&constraint.key, value),
        Rule::IsNot(value) => has(&constraint.key, value),
        Rule::OneOf(values) => !values.iter().any(|value| has(&constraint.key, value)),
    });
    let mut found: Vec<Reason> = lacks.cloned().map(Reason::LabelMismatch).collect();
    let (need, largest) = (counts(&asked.resources), counts(&shape.largest_component));
    let quota = Ground::quota(site);
    for kind in 0..3 {
        let (resource, needed) = (KINDS[kind].into(), need[kind]);
        if needed > largest[kind] {
            found.push(Reason::TooSmall { resource, needed, largest: largest[kind] });
        }
        let (resource, quota) = (KINDS[kind].into(), quota[kind]);
        if Ground::binds(site) && needed > quota {
            found.push(Reason::QuotaTooSmall { resource, needed, quota });
        }
    }
    found
}
