//! The policies for flexible requests: the total over as few sites as take it, or one of the
//! splits that are allowed.

use std::cmp::Reverse;

use cospan_domain::content::Part;
use cospan_domain::job::spec::Flexible;
use cospan_domain::placed::Rule;
use cospan_domain::placement::{Outcome, Plan, Reason, Refusal, SiteVerdict};

use super::super::quantities::counts;
use super::asked::{Asked, share};
use super::ground::Ground;
use super::groups::fastest;
use super::judge::{Judge, Table};
use super::placing::{Came, by_usable, first_in, numbered, place_each, plan, plan_of};
use super::submissions::largest_share;

/// What comes of a flexible request. `told`: the plan of the domain, which of equally well
/// connected sets may take any.
pub(super) fn flexible(
    asked: &Asked,
    ground: Ground,
    table: Table,
    job: u32,
    told: Option<&Plan>,
) -> Option<Came> {
    let bounds = asked.bounds()?;
    let parts = asked.components().into();
    let mut judge = Judge { ground, whole: asked, parts, job, table: None };
    let (outcome, verdicts) = match bounds.splits.is_empty() {
        true => bounded(&mut judge, bounds, told)?,
        false => listed(&mut judge, &bounds.splits)?,
    };
    Some(Came { outcome, verdicts, ground: judge.ground, table })
}

type Told = (Result<Plan, Refusal>, Vec<SiteVerdict>);

/// The first that Cluster Minimization places; if it places none, what is told is told of the
/// preferred one.
fn listed(judge: &mut Judge<'_>, splits: &[Vec<u32>]) -> Option<Told> {
    let order = by_usable(&judge.ground);
    let mut first = None;
    for sizes in splits {
        let mut trial = Judge { parts: judge.whole.split(sizes).into(), ..judge.clone() };
        let before = trial.clone();
        let (chosen, told) = place_each(&mut trial, &mut first_in(&order, Rule::FirstSplit));
        match chosen {
            Ok(chosen) => {
                let mut plan = plan(&before, &chosen)?;
                for (placement, size) in plan.placements.iter_mut().zip(sizes) {
                    placement.share = Some(*size);
                }
                judge.ground = trial.ground;
                return Some((Ok(plan), told));
            }
            Err(refusal) => first = first.or(Some((Err(refusal), told))),
        }
    }
    first
}

/// The smallest number of sites, the largest first, that can have the minimum each, and together
/// the total: each gets the minimum, the rest goes to the first as far as it has room.
fn bounded(judge: &mut Judge<'_>, bounds: &Flexible, told: Option<&Plan>) -> Option<Told> {
    let (whole, min) = (judge.whole.parts.first()?.resources.clone(), bounds.min_component_size);
    let total = whole.processors;
    let open = (0..judge.ground.sites.len()).filter(|at| judge.is_open(0, *at));
    let offers = open.map(|at| (at, offer(judge, at, &whole)));
    let mut offers: Vec<(usize, u32)> = offers.collect();
    offers.sort_by_key(|(at, most)| (Reverse(*most), *at));
    let most = bounds.max_components.map_or(offers.len(), |most| most as usize);
    let most = most.min(offers.len());
    let sum = |count: usize| offers[..count].iter().map(|(_, most)| u64::from(*most)).sum::<u64>();
    let serves = |count: &usize| {
        *count as u64 * u64::from(min) <= u64::from(total) && sum(*count) >= u64::from(total)
    };
    let Some(count) = (1..=most).find(serves) else {
        let reason = Reason::NoSplit { total, min, sites: most as u32, usable: sum(most) };
        let verdicts = verdicts(judge, &offers, &[], Some(&reason));
        let refusal = match offers.is_empty() {
            true => judge.refusal(0),
            false => Refusal { component: numbered(0), site: None, reason },
        };
        return Some((Err(refusal), verdicts));
    };
    let is_connected = judge.whole.policy != "flexible-cluster-minimization";
    let group: Vec<(usize, u32)> = match is_connected {
        false => offers[..count].to_vec(),
        true => best(judge, &offers, count, total, told?)?,
    };
    let shares = fill(&group, total, min);
    let verdicts = verdicts(judge, &offers, &shares, None);
    let rule = if is_connected { Rule::BestConnected } else { Rule::LargestFilled };
    let (before, mut part) = (judge.clone(), Part { before: 0, own: 0, total: total.into() });
    let mut placements = Vec::new();
    for (at, own) in shares {
        part = Part { before: part.before + part.own, own: own.into(), ..part };
        let mut placement = before.placement(0, at, None, Some(part));
        placement.share = Some(own);
        let copies: Vec<_> = placement.sources.iter().map(|source| source.content).collect();
        judge.ground.take(at, judge.job, &share(&whole, own), &copies);
        placements.push(placement);
    }
    Some((Ok(plan_of(&before, placements, rule)?), verdicts))
}

/// The most of it that a site takes.
fn offer(judge: &Judge<'_>, at: usize, whole: &cospan_domain::resources::Resources) -> u32 {
    let shape = judge.ground.sites[at].shape.as_ref();
    let largest = shape.map_or([0; 3], |shape| counts(&shape.largest_component));
    let left = judge.ground.left(at);
    largest_share(whole, std::array::from_fn(|kind| left[kind].min(largest[kind])))
}

/// A set of so many sites that is connected best: the one that was told, if it is one of them.
fn best(
    judge: &Judge<'_>,
    offers: &[(usize, u32)],
    count: usize,
    total: u32,
    told: &Plan,
) -> Option<Vec<(usize, u32)>> {
    let is_told = |at: usize| {
        let name = &judge.ground.sites[at].name;
        told.placements.iter().any(|placement| placement.site == *name)
    };
    let told: Vec<(usize, u32)> = offers.iter().copied().filter(|(at, _)| is_told(*at)).collect();
    let sites: Vec<usize> = told.iter().map(|(at, _)| *at).collect();
    let enough = told.iter().map(|(_, most)| *most).sum::<u32>() >= total && told.len() == count;
    let fastest = fastest(&judge.ground, offers, total, count);
    (enough && judge.ground.connections()(&sites) == fastest).then_some(told)
}

fn fill(group: &[(usize, u32)], total: u32, min: u32) -> Vec<(usize, u32)> {
    let mut rest = total - min * group.len() as u32;
    let mut shares = Vec::new();
    for (at, most) in group {
        let more = rest.min(most - min);
        rest -= more;
        shares.push((*at, min + more));
    }
    shares
}

fn verdicts(
    judge: &Judge<'_>,
    offers: &[(usize, u32)],
    shares: &[(usize, u32)],
    reason: Option<&Reason>,
) -> Vec<SiteVerdict> {
    let verdict = |at: usize| {
        let mut verdict = judge.verdict(0, at);
        if let Some(part) = shares.iter().position(|(other, _)| *other == at) {
            (verdict.component, verdict.outcome) = (numbered(part), Outcome::Chosen);
        } else if let Some(reason) = reason
            && offers.iter().any(|(other, _)| *other == at)
        {
            verdict.outcome = Outcome::Refused(vec![reason.clone()]);
        }
        verdict
    };
    (0..judge.ground.sites.len()).map(verdict).collect()
}
