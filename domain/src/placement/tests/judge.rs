//! An independent judge of Worst-Fit.

use super::drawn::Drawn;
use crate::placement::*;
use crate::resources::Resources;

/// Worst-Fit once more, from its description alone and with no regard to cost.
pub(super) struct Judge<'a> {
    drawn: &'a Drawn,
    taken: Vec<Resources>,
}

impl Judge<'_> {
    pub(super) fn place(drawn: &Drawn) -> Option<Vec<usize>> {
        let sites = drawn.sites.len();
        let mut judge = Judge { drawn, taken: vec![Resources::default(); sites] };
        let parts = drawn.request.components();
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|&i| (-i64::from(parts[i].resources.processors), i));
        let mut chosen = vec![0; parts.len()];
        for i in order {
            let mut open: Vec<usize> =
                (0..sites).filter(|&site| judge.admits(&parts[i], site)).collect();
            open.sort_by_key(|&site| (-judge.left(site, "processors"), site));
            chosen[i] = *open.first()?;
            judge.taken[chosen[i]].add(&parts[i].resources);
        }
        Some(chosen)
    }

    fn left(&self, index: usize, name: &str) -> i64 {
        let site = &self.drawn.sites[index];
        let of = |resources: &Resources| match name {
            "processors" => i64::from(resources.processors),
            _ => resources.others.get(name).copied().unwrap_or(0) as i64,
        };
        let total = of(&site.shape.as_ref().unwrap().total);
        let idle = of(&site.idle.as_ref().unwrap().idle);
        let cap = total * i64::from(site.quota.share.0) / 1_000_000;
        let usable = match site.quota.basis {
            QuotaBasis::Level => (cap - (total - idle)).max(0),
            QuotaBasis::Share => idle.min(cap - of(&site.ours)).max(0),
        };
        (usable - of(&site.pending)).max(0) - of(&self.taken[index])
    }

    fn could_ever(&self, part: &ComponentRequest, site: &GridSite) -> bool {
        let shape = site.shape.as_ref().unwrap();
        let cap = |total: u64| match site.quota.binds() {
            true => total * u64::from(site.quota.share.0) / 1_000_000,
            false => total,
        };
        let gpus = |r: &Resources| r.others.get("gpus").copied().unwrap_or(0);
        part.constraints.iter().all(|constraint| constraint.holds(&shape.labels))
            && u64::from(part.resources.processors) <= cap(shape.total.processors.into())
            && gpus(&part.resources) <= cap(gpus(&shape.total))
    }

    /// Whether the open sites, were they empty, could hold each part, and as much as all need.
    fn others_do(&self) -> bool {
        let parts = self.drawn.request.components();
        let open = || self.drawn.sites.iter().filter(|site| site.acceptance == Acceptance::Open);
        let has = |of: fn(&Resources) -> u64| -> u64 {
            let cap = |site: &GridSite| {
                let total = of(&site.shape.as_ref().unwrap().total);
                total * u64::from(site.quota.share.0) / 1_000_000
            };
            open().map(cap).sum()
        };
        let enough = |of: fn(&Resources) -> u64| {
            parts.iter().map(|part| of(&part.resources)).sum::<u64>() <= has(of)
        };
        parts.iter().all(|part| open().any(|site| self.could_ever(part, site)))
            && enough(|all| all.processors.into())
            && enough(|all| all.others.get("gpus").copied().unwrap_or(0))
    }

    fn is_open(&self, site: &GridSite) -> bool {
        match site.acceptance {
            Acceptance::Open => true,
            Acceptance::ProbesOnly => self.drawn.request.may_probe() || !self.others_do(),
            Acceptance::Closed(_) => false,
        }
    }

    fn admits(&self, part: &ComponentRequest, index: usize) -> bool {
        let site = &self.drawn.sites[index];
        let other = self.drawn.sites.iter().enumerate().any(|(at, other)| {
            !part.avoid.contains(&other.name)
                && other.acceptance.hindrance(self.drawn.request.may_probe()).is_none()
                && self.could_ever(part, other)
                && part.inputs.iter().all(|content| self.can_bring(content.digest.0[0], at))
        });
        self.is_open(site)
            && self.could_ever(part, site)
            && !(other && part.avoid.contains(&site.name))
            && site.room.is_none_or(|room| room > 0)
            && self.left(index, "processors") >= i64::from(part.resources.processors)
            && part.resources.others.iter().all(|(n, c)| self.left(index, n) >= *c as i64)
            && part.inputs.iter().all(|content| self.can_bring(content.digest.0[0], index))
    }

    fn can_bring(&self, number: u8, to: usize) -> bool {
        self.drawn.replicas.iter().any(|&(n, from)| {
            n == number
                && from < self.drawn.sites.len()
                && (from == to
                    || self.drawn.sites[from].serves_files
                        && self.drawn.links.contains(&(from, to)))
        })
    }
}
