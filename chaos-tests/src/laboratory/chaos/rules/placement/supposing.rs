//! What is told of the components after one that has no place: they are judged as if it were at
//! the site that is nearest to taking it, with all that keeps it from there lifted, and no more.

use std::sync::Arc;

use cospan_domain::labels::{Labels, Rule};
use cospan_domain::placement::{Acceptance, GridSite, Quota, QuotaBasis, Reason};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, PerMillion};

use super::super::quantities::counts;
use super::ground::KINDS;
use super::judge::{Judge, gap};

impl<'a> Judge<'a> {
    /// The grid on which it has its place; `None` where there is no such site, or one of which
    /// too little is known.
    pub(super) fn supposing(&self, part: usize) -> Option<Judge<'a>> {
        let name = self.refusal(part).site?;
        let at = self.ground.position(&name)?;
        let (reasons, need) = (self.reasons(part, at), &self.parts[part].resources);
        let mut supposed = self.clone();
        let (pending, placed) = (counts(&self.ground.sites[at].pending), self.ground.promised(at));
        let needed = counts(need);
        let promised = std::array::from_fn(|kind| pending[kind] + placed[kind] + needed[kind]);
        let of_need = |kind: &usize| *kind == 0 || need.others.contains_key(KINDS[*kind]);
        let kinds: Vec<usize> = (0..3).filter(of_need).collect();
        let lacked =
            lift(&mut Arc::make_mut(&mut supposed.ground.sites)[at], &reasons, promised, &kinds)?;
        let made_up = supposed.ground.made_up.entry(at).or_default();
        (0..3).for_each(|kind| made_up[kind] += lacked[kind]);
        let left = supposed.ground.left(at);
        let fits =
            (0..3).all(|kind| left[kind] >= needed[kind]) && supposed.ground.has_room(at, self.job);
        fits.then(|| {
            supposed.take(part, at);
            supposed
        })
    }
}

/// Lifts exactly this, and tells how much more is idle.
fn lift(
    site: &mut GridSite,
    reasons: &[Reason],
    promised: [u64; 3],
    kinds: &[usize],
) -> Option<[u64; 3]> {
    let idle = &mut site.idle.as_mut()?.idle;
    let shape = Arc::make_mut(site.shape.as_mut()?);
    let mut lacked = [0; 3];
    for reason in reasons {
        let more = gap(reason);
        match reason {
            Reason::NotEnoughIdle { resource, .. } => {
                raise(idle, resource, more);
                let kind = KINDS.iter().position(|kind| **kind == **resource)?;
                lacked[kind] += more;
            }
            Reason::TooSmall { resource, .. } => {
                raise(&mut shape.largest_component, resource, more);
            }
            Reason::SiteFull => site.room = site.room.map(|room| room + 1),
            Reason::StagingFull { .. } => {
                site.staging_left = site.staging_left.map(|left| Bytes(left.0 + more));
            }
            Reason::Closed(_) => site.acceptance = Acceptance::Open,
            Reason::LabelMismatch(constraint) => {
                mend(&mut shape.labels, &constraint.key, &constraint.rule);
            }
            _ => {}
        }
    }
    let is_quota = |reason: &Reason| {
        matches!(reason, Reason::QuotaReached { .. } | Reason::QuotaTooSmall { .. })
    };
    if reasons.iter().any(is_quota) {
        site.quota = least_quota(site, promised, kinds);
    }
    Some(lacked)
}

fn raise(of: &mut Resources, resource: &str, more: u64) {
    match resource {
        "processors" => of.processors += more as u32,
        other => *of.others.entry(other.into()).or_default() += more,
    }
}

fn mend(labels: &mut Labels, key: &Arc<str>, rule: &Rule) {
    let values = labels.entry(key.clone()).or_default();
    match rule {
        Rule::Is(value) => values.extend([value.clone()]),
        Rule::OneOf(accepted) => values.extend(accepted.iter().next().cloned()),
        Rule::IsNot(value) => values.retain(|other| other != value),
    }
}

/// The least that leaves room for what is promised; none where the whole site would not.
fn least_quota(site: &GridSite, promised: [u64; 3], kinds: &[usize]) -> Quota {
    let total = site.shape.as_ref().map_or([0; 3], |shape| counts(&shape.total));
    let idle = site.idle.as_ref().map_or([0; 3], |belief| counts(&belief.idle));
    let ours = counts(&site.ours);
    let serves = |share: u64| {
        kinds.iter().all(|&kind| {
            let taken = match site.quota.basis {
                QuotaBasis::Level => total[kind].saturating_sub(idle[kind]),
                QuotaBasis::Share => ours[kind],
            };
            total[kind] * share / 1_000_000 >= taken + promised[kind]
        })
    };
    if !serves(1_000_000) {
        return Quota::NONE;
    }
    let (mut low, mut high) = (u64::from(site.quota.share.0), 1_000_000);
    while low < high {
        let middle = low.midpoint(high);
        (low, high) = if serves(middle) { (low, middle) } else { (middle + 1, high) };
    }
    Quota { share: PerMillion(low as u32), ..site.quota }
}
