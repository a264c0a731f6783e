//! Everything that keeps one component from a site of a drawn grid, by the rules of the guide.

use std::collections::BTreeMap;

use cospan_domain::job::spec::Content;
use cospan_domain::labels::Rule;
use cospan_domain::placement::{
    Acceptance, ComponentRequest, GridSite, Hindrance, QuotaBasis, Reason,
};

use super::quantities::{OTHERS, counts};

/// A file, and the sites that have it.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) content: Content,
    pub(super) at: Vec<usize>,
}

/// A grid, in order of name.
#[derive(Debug, Clone)]
pub(super) struct Drawn {
    pub(super) sites: Vec<GridSite>,
    pub(super) files: Vec<File>,
    /// Bits per second from one to another.
    pub(super) rates: BTreeMap<(usize, usize), u64>,
}

/// How lasting an obstacle is, how much is missing, and what it says.
pub(super) type Obstacle = (u32, u64, String);

impl Drawn {
    /// What we may take of a site.
    pub(super) fn left(&self, at: usize) -> [u64; 3] {
        let site = &self.sites[at];
        let (Some(shape), Some(belief)) = (&site.shape, &site.idle) else { return [0; 3] };
        let (total, idle) = (counts(&shape.total), counts(&belief.idle));
        let (ours, pending) = (counts(&site.ours), counts(&site.pending));
        let quota = total.map(|count| count * u64::from(site.quota.share.0) / 1_000_000);
        std::array::from_fn(|at| {
            let held = match site.quota.basis {
                QuotaBasis::Level => total[at] - idle[at],
                QuotaBasis::Share => ours[at],
            };
            idle[at].min(quota[at].saturating_sub(held)).saturating_sub(pending[at])
        })
    }

    /// How long a file takes to a site, and from where.
    pub(super) fn way(&self, content: &Content, to: usize) -> Option<(u64, usize)> {
        let file = self.files.iter().find(|file| file.content == *content)?;
        if file.at.contains(&to) {
            return Some((0, to));
        }
        let from = file.at.iter().filter(|from| self.sites[**from].serves_files);
        let ways = from.filter_map(|from| {
            let rate = self.rates.get(&(*from, to)).copied().filter(|rate| *rate > 0)?;
            Some(((content.size.0 * 8_000).div_ceil(rate), *from))
        });
        ways.min()
    }
}

/// Why a site could not hold it, were it empty and open.
pub(super) fn never_fits(asked: &ComponentRequest, site: &GridSite) -> Vec<Obstacle> {
    let Some(shape) = &site.shape else { return Vec::new() };
    let has = |value: &str| shape.labels.get("key").is_some_and(|values| values.contains(value));
    let lacks = asked.constraints.iter().filter(|constraint| match &constraint.rule {
        Rule::Is(value) => !has(value),
        Rule::IsNot(value) => has(value),
        Rule::OneOf(values) => !values.iter().any(|value| has(value)),
    });
    let mut found: Vec<Obstacle> = lacks.map(|_| (22, 0, "labels".into())).collect();
    let (needed, largest) = (counts(&asked.resources), counts(&shape.largest_component));
    let total = counts(&shape.total);
    for (at, name) in ["processors", OTHERS[0], OTHERS[1]].into_iter().enumerate() {
        if needed[at] > largest[at] {
            found.push((
                21,
                needed[at] - largest[at],
                format!("too small: {name} {}", largest[at]),
            ));
        }
        let quota = total[at] * u64::from(site.quota.share.0) / 1_000_000;
        if site.quota.binds() && needed[at] > quota {
            found.push((20, needed[at] - quota, format!("quota too small: {name} {quota}")));
        }
    }
    found
}

/// Whether these sites, were they empty and open, could hold each part, and as much as all of
/// them need together.
pub(super) fn hold_all<'a>(
    parts: &[ComponentRequest],
    sites: impl Iterator<Item = &'a GridSite> + Clone,
) -> bool {
    let fits = |asked: &ComponentRequest| {
        let named = |site: &&GridSite| asked.site.as_ref().is_none_or(|name| *name == site.name);
        sites.clone().filter(named).any(|site| never_fits(asked, site).is_empty())
    };
    let unknown = sites.clone().any(|site| site.shape.is_none());
    let plus = |sum: [u64; 3], one: [u64; 3]| std::array::from_fn(|at| sum[at] + one[at]);
    let needed = parts.iter().map(|asked| counts(&asked.resources)).fold([0; 3], plus);
    let have = sites.clone().filter_map(|site| {
        let total = counts(&site.shape.as_ref()?.total);
        Some(total.map(|count| count * u64::from(site.quota.share.0) / 1_000_000))
    });
    let have = have.fold([0; 3], plus);
    parts.iter().all(fits) && (unknown || (0..3).all(|at| needed[at] <= have[at]))
}

/// Who of a job may be tried out where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tries {
    /// It may run twice, or names its sites.
    pub(super) anywhere: bool,
    /// Or it would wait in vain for the sites that need not be tried out.
    pub(super) in_need: bool,
}

impl Tries {
    pub(super) fn of(drawn: &Drawn, parts: &[ComponentRequest], anywhere: bool) -> Self {
        let waited_for = drawn.sites.iter().filter(|site| is_waited_for(site.acceptance));
        Self { anywhere, in_need: !hold_all(parts, waited_for) }
    }
}

fn closed(drawn: &Drawn, tries: Tries, at: usize) -> Option<Hindrance> {
    let site = &drawn.sites[at];
    match site.acceptance {
        Acceptance::Closed(why) => Some(why),
        Acceptance::ProbesOnly if !tries.anywhere && !tries.in_need => Some(Hindrance::Probing),
        _ => (site.shape.is_none() || site.idle.is_none()).then_some(Hindrance::Unknown),
    }
}

/// Whether it takes jobs, or will without being tried out and without an operator.
fn is_waited_for(acceptance: Acceptance) -> bool {
    !matches!(
        acceptance,
        Acceptance::ProbesOnly
            | Acceptance::Closed(
                Hindrance::Probing
                    | Hindrance::Unusable
                    | Hindrance::Draining
                    | Hindrance::Drained
                    | Hindrance::Frozen
            )
    )
}

fn rank(hindrance: Hindrance) -> u32 {
    match hindrance {
        Hindrance::Probing => 10,
        Hindrance::Isolated => 11,
        Hindrance::Unreachable => 12,
        Hindrance::Unknown => 13,
        Hindrance::Maintenance => 14,
        Hindrance::Frozen => 15,
        Hindrance::Draining => 16,
        Hindrance::Drained => 17,
        Hindrance::CredentialsExpired => 18,
        Hindrance::Unusable => 19,
    }
}

/// Why a file cannot be brought.
fn not_brought(drawn: &Drawn, content: &Content, to: usize) -> Option<Obstacle> {
    if drawn.way(content, to).is_some() {
        return None;
    }
    let at = drawn.files.iter().find(|file| file.content == *content).map(|file| &file.at);
    let at: &[usize] = at.map_or(&[], Vec::as_slice);
    Some(match at.iter().any(|from| drawn.sites[*from].serves_files) {
        true => (7, 0, "no bandwidth".into()),
        false if !at.is_empty() => (8, 0, "not readable".into()),
        false => (9, 0, "no replica".into()),
    })
}

/// Whether the sites where it failed are passed over: another would do.
fn has_another(drawn: &Drawn, asked: &ComponentRequest, may_probe: bool) -> bool {
    (0..drawn.sites.len()).any(|at| {
        let site = &drawn.sites[at];
        let open = match site.acceptance {
            Acceptance::Open => true,
            Acceptance::ProbesOnly => may_probe,
            Acceptance::Closed(_) => false,
        };
        !asked.avoid.contains(&site.name)
            && open
            && site.shape.is_some()
            && never_fits(asked, site).is_empty()
            && asked.inputs.iter().all(|content| drawn.way(content, at).is_some())
    })
}

/// All of them, the most lasting first.
pub(super) fn obstacles(
    drawn: &Drawn,
    asked: &ComponentRequest,
    tries: Tries,
    at: usize,
) -> Vec<Obstacle> {
    let site = &drawn.sites[at];
    let mut found = Vec::new();
    if asked.site.as_ref().is_some_and(|named| *named != site.name) {
        found.push((24, 0, "another is named".into()));
    }
    found.extend(never_fits(asked, site));
    found.extend(closed(drawn, tries, at).map(|why| (rank(why), 0, format!("{why:?}"))));
    if site.shape.is_some() {
        found.extend(asked.inputs.iter().filter_map(|content| not_brought(drawn, content, at)));
    }
    if asked.site.is_none()
        && asked.avoid.contains(&site.name)
        && has_another(drawn, asked, tries.anywhere)
    {
        found.push((4, 0, "avoided".into()));
    }
    if site.room == Some(0) {
        found.push((2, 0, "full".into()));
    }
    found.extend(shortages(drawn, asked, at));
    found.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
    found
}

fn shortages(drawn: &Drawn, asked: &ComponentRequest, at: usize) -> Vec<Obstacle> {
    let site = &drawn.sites[at];
    let (Some(shape), Some(belief)) = (&site.shape, &site.idle) else { return Vec::new() };
    let (needed, left) = (counts(&asked.resources), drawn.left(at));
    let (total, idle) = (counts(&shape.total), counts(&belief.idle));
    let (ours, pending) = (counts(&site.ours), counts(&site.pending));
    let mut found = Vec::new();
    for (at, name) in ["processors", OTHERS[0], OTHERS[1]].into_iter().enumerate() {
        if left[at] >= needed[at] {
            continue;
        }
        let quota = total[at] * u64::from(site.quota.share.0) / 1_000_000;
        let by_quota = match site.quota.basis {
            QuotaBasis::Level => left[at],
            QuotaBasis::Share => quota.saturating_sub(ours[at]).saturating_sub(pending[at]),
        };
        if site.quota.binds() && by_quota < needed[at] && needed[at] <= quota {
            let gap = needed[at] - by_quota;
            found.push((1, gap, format!("quota reached: {name} {by_quota}")));
        }
        if idle[at].saturating_sub(pending[at]) < needed[at] {
            let gap = (pending[at] + needed[at]) - idle[at];
            let said = format!("not idle: {name} {} {} {gap}", idle[at], pending[at]);
            found.push((0, gap, said));
        }
    }
    found
}

/// The most lasting, of equally lasting ones the first.
pub(super) fn worst(obstacles: &[Obstacle]) -> Option<Obstacle> {
    obstacles.first().cloned()
}

/// The same, as placement tells them.
pub(super) fn told(reasons: &[Reason]) -> Vec<Obstacle> {
    let one = |reason: &Reason| match reason {
        Reason::NotEnoughIdle { resource, needed: _, idle, made_up: 0, pending, missing } => {
            (0, *missing, format!("not idle: {resource} {idle} {pending} {missing}"))
        }
        Reason::QuotaReached { resource, needed, usable } => {
            (1, needed - usable, format!("quota reached: {resource} {usable}"))
        }
        Reason::SiteFull => (2, 0, "full".into()),
        Reason::Avoided => (4, 0, "avoided".into()),
        Reason::NoBandwidth { .. } => (7, 0, "no bandwidth".into()),
        Reason::ReplicaUnreachable { .. } => (8, 0, "not readable".into()),
        Reason::NoReplica { .. } => (9, 0, "no replica".into()),
        Reason::Closed(why) => (rank(*why), 0, format!("{why:?}")),
        Reason::QuotaTooSmall { resource, needed, quota } => {
            (20, needed - quota, format!("quota too small: {resource} {quota}"))
        }
        Reason::TooSmall { resource, needed, largest } => {
            (21, needed - largest, format!("too small: {resource} {largest}"))
        }
        Reason::LabelMismatch(_) => (22, 0, "labels".into()),
        Reason::NotTheNamedSite(_) => (24, 0, "another is named".into()),
        other => (99, 0, format!("{other:?}")),
    };
    reasons.iter().map(one).collect()
}
