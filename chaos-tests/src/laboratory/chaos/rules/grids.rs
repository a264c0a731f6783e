//! Placement on grids with what the sites of the laboratory do not have: memory and other
//! counted resources, many labels, files that cannot be read, sites that are full or unheard.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::ids::{Digest, PolicyName, Seq, SiteName};
use cospan_domain::job::spec::{Content, Flexible, Request};
use cospan_domain::labels::{Constraint, Rule};
use cospan_domain::placement::{
    Acceptance, Belief, Board, ComponentRequest, GridSite, GridSnapshot, Hindrance, History,
    Network, Outcome, PlacementRequest, Plan, Quota, QuotaBasis, Recorder, Refusal, Remaining,
    Silent, SiteShape, SiteVerdict, can_ever_be_placed, dominant_refusal, place,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, Bytes, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::obstacles::{Drawn, File, Obstacle, Tries, hold_all, obstacles, told, worst};
use super::quantities::vector;

/// Policies that place each component, the largest first.
const RIGID: [&str; 4] =
    ["worst-fit", "cluster-minimization", "connected-cluster-minimization", "close-to-files"];
const FLEXIBLE: [&str; 2] =
    ["flexible-cluster-minimization", "connected-flexible-cluster-minimization"];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let drawn = draw(chance);
    let grid = snapshot(&drawn);
    let mut found = Vec::new();
    found.extend(one(chance, &drawn, &grid));
    found.extend(several(chance, &drawn, &grid));
    found.extend(split(chance, &drawn, &grid));
    found
}

fn draw(chance: &mut StdRng) -> Drawn {
    let count = chance.random_range(1..=4);
    let names = (0..count).filter_map(|number| SiteName::new(&format!("site-{number}")).ok());
    let sites: Vec<GridSite> = names.map(|name| draw_site(chance, name)).collect();
    let files = [3_000_000_u64, 5_000_000].into_iter().zip(1_u8..).map(|(size, number)| {
        let content = Content { digest: Digest([number; 32]), size: Bytes(size) };
        File { content, at: (0..sites.len()).filter(|_| chance.random_bool(0.4)).collect() }
    });
    let files = files.collect();
    let mut rates = BTreeMap::new();
    for from in 0..sites.len() {
        for to in (0..sites.len()).filter(|to| *to != from) {
            let bits = [0, 1_000_000, 8_000_000, 10_000_000][chance.random_range(0..4)];
            rates.insert((from, to), bits);
        }
    }
    Drawn { sites, files, rates }
}

fn draw_site(chance: &mut StdRng, name: SiteName) -> GridSite {
    let total = vector(chance, 16);
    let within = |chance: &mut StdRng, all: &Resources| {
        let others =
            all.others.iter().map(|(name, most)| (name.clone(), chance.random_range(0..=*most)));
        let others = others.collect();
        Resources { processors: chance.random_range(0..=all.processors), others }
    };
    let idle = match chance.random_bool(0.4) {
        true => total.clone(),
        false => within(chance, &total),
    };
    let mut held = total.clone();
    held.subtract(&idle);
    let ours = within(chance, &held);
    let none = Resources::default();
    let pending = if chance.random_bool(0.3) { within(chance, &total) } else { none };
    let largest = if chance.random_bool(0.2) { within(chance, &total) } else { total.clone() };
    let values = ["a", "b"].into_iter().filter(|_| chance.random_bool(0.5)).map(Arc::from);
    let labels = [("key".into(), values.collect())].into();
    let share = PerMillion([500_000, 750_000, 1_000_000][chance.random_range(0..3)]);
    let basis = [QuotaBasis::Level, QuotaBasis::Share][chance.random_range(0..2)];
    let quota = if chance.random_bool(0.5) { Quota::NONE } else { Quota { share, basis } };
    let closed = [Hindrance::Unusable, Hindrance::Frozen, Hindrance::Maintenance];
    let acceptance = match chance.random_range(0..10) {
        0 => Acceptance::Closed(*closed.choose(chance).unwrap_or(&Hindrance::Unusable)),
        1 => Acceptance::ProbesOnly,
        _ => Acceptance::Open,
    };
    let shape = Some(Arc::new(SiteShape { total, largest_component: largest, labels }));
    GridSite {
        shape: shape.filter(|_| !chance.random_bool(0.05)),
        acceptance,
        idle: Some(Belief { idle, asked_at: Timestamp(0) }).filter(|_| !chance.random_bool(0.05)),
        pending,
        ours,
        quota,
        room: [None, None, Some(0), Some(1)][chance.random_range(0..4)],
        serves_files: chance.random_bool(0.8),
        ..GridSite::unheard(name)
    }
}

fn snapshot(drawn: &Drawn) -> GridSnapshot {
    let name = |at: usize| drawn.sites[at].name.clone();
    let links =
        drawn.rates.iter().map(|((from, to), bits)| (name(*from), name(*to), BitsPerSecond(*bits)));
    let replicas: BTreeMap<Digest, BTreeSet<SiteName>> = (drawn.files.iter())
        .map(|file| (file.content.digest, file.at.iter().map(|at| name(*at)).collect()))
        .collect();
    let network = Arc::new(Network::from_links(links));
    GridSnapshot::new(Seq(1), drawn.sites.clone(), network, Arc::new(replicas))
}

/// A component and what it asks for; small, so that it fits now and then.
fn component(chance: &mut StdRng, drawn: &Drawn, plain: bool) -> ComponentRequest {
    let mut component = ComponentRequest::of_resources(vector(chance, 8));
    if chance.random_bool(0.4) {
        component.resources.others.clear();
    }
    if plain {
        return component;
    }
    if chance.random_bool(0.3) {
        let rules = [
            Rule::Is("a".into()),
            Rule::IsNot("b".into()),
            Rule::OneOf(["a".into(), "b".into()].into()),
        ];
        let rule = rules[chance.random_range(0..3)].clone();
        component.constraints.push(Constraint { key: "key".into(), rule });
    }
    let files = drawn.files.iter().map(|file| file.content);
    component.inputs = files.filter(|_| chance.random_bool(0.3)).collect();
    if chance.random_bool(0.3) {
        let avoid = drawn.sites.iter().filter(|_| chance.random_bool(0.5));
        component.avoid = avoid.map(|site| site.name.clone()).collect();
    }
    component
}

fn placed(
    request: &PlacementRequest,
    grid: &GridSnapshot,
) -> (Result<Plan, Refusal>, Vec<SiteVerdict>) {
    let run = |observer: &mut dyn cospan_domain::placement::Observer| {
        let (mut remaining, mut history) = (Remaining::of(grid), History::All);
        let (remaining, history) = (&mut remaining, &mut history);
        place(request, &mut Board { grid, remaining, history, observer })
    };
    let mut recorder = Recorder::default();
    let outcome = run(&mut recorder);
    // What is asked for in silence comes to the same.
    let silent = run(&mut Silent);
    let verdicts = if silent == outcome { recorder.verdicts } else { Vec::new() };
    (outcome, verdicts)
}

/// One component: every site is judged, and the refusal is that of the nearest.
fn one(chance: &mut StdRng, drawn: &Drawn, grid: &GridSnapshot) -> Vec<String> {
    let mut asked = component(chance, drawn, false);
    let policy = RIGID[chance.random_range(0..RIGID.len())];
    let Ok(name) = PolicyName::new(policy) else { return Vec::new() };
    let (restartable, fixed) = (chance.random_bool(0.7), chance.random_bool(0.2));
    let request = if fixed { Request::Fixed } else { Request::NonFixed };
    if fixed {
        asked.avoid.clear();
        asked.site = drawn.sites.choose(chance).map(|site| site.name.clone());
    }
    if policy == "close-to-files" {
        // Which of several file sites it prefers is asked of a control plane.
        asked.inputs.clear();
    }
    let request = PlacementRequest::new(name, request, restartable, vec![asked.clone()]);
    let (outcome, verdicts) = placed(&request, grid);
    let tries = Tries::of(drawn, request.components(), restartable || fixed);
    let kept: Vec<_> =
        (0..drawn.sites.len()).map(|at| obstacles(drawn, &asked, tries, at)).collect();
    let open: Vec<usize> = (0..kept.len()).filter(|at| kept[*at].is_empty()).collect();
    let mut found = Vec::new();
    let chosen = outcome.as_ref().ok().and_then(|plan| {
        let site = &plan.placements.first()?.site;
        drawn.sites.iter().position(|at| at.name == *site)
    });
    let most = |at: &usize| (Reverse(drawn.left(*at)[0]), *at);
    let right = match chosen {
        None => open.is_empty() && outcome.is_err(),
        // All of them put a single component where most is left.
        Some(at) if policy == "worst-fit" => open.iter().copied().min_by_key(most) == Some(at),
        Some(at) => open.contains(&at),
    };
    if !right {
        found.push(format!("{policy} puts {asked:?} on {chosen:?} of {open:?}"));
    }
    for (at, obstacles) in kept.iter().enumerate() {
        let verdict = verdicts.iter().find(|verdict| verdict.site == drawn.sites[at].name);
        let right = match verdict.map(|verdict| &verdict.outcome) {
            Some(Outcome::Chosen) => chosen == Some(at),
            Some(Outcome::NotPreferred) => obstacles.is_empty() && chosen != Some(at),
            Some(Outcome::Refused(reasons)) => !reasons.is_empty() && told(reasons) == *obstacles,
            None => false,
        };
        if !right {
            found.push(format!(
                "{asked:?} at {:?}: {verdict:?}, not {obstacles:?}",
                drawn.sites[at]
            ));
        }
    }
    if let Err(refusal) = &outcome {
        let nearest = kept.iter().enumerate().filter_map(|(at, obstacles)| {
            let (rank, gap, text) = worst(obstacles)?;
            Some((rank, gap, at, text))
        });
        let nearest = nearest.min_by_key(|(rank, gap, at, _)| (*rank, *gap, *at));
        let told = told(std::slice::from_ref(&refusal.reason));
        let same = nearest.as_ref().is_some_and(|(rank, gap, at, text)| {
            told == [(*rank, *gap, text.clone())]
                && refusal.site.as_ref() == Some(&drawn.sites[*at].name)
        });
        if !same {
            found.push(format!("{asked:?} is refused for {refusal}, not {nearest:?}"));
        }
    }
    found.extend(brought(drawn, &asked, chosen, outcome.as_ref().ok()));
    found.extend(outcome.as_ref().ok().and_then(|plan| refused(&request, plan, grid, &kept)));
    found.extend(ever(drawn, &request, grid));
    found
}

/// What kept most of the sites that were refused; of equally many the nearest to a placement.
fn refused(
    request: &PlacementRequest,
    plan: &Plan,
    grid: &GridSnapshot,
    kept: &[Vec<Obstacle>],
) -> Option<String> {
    let ranks = || kept.iter().filter_map(|obstacles| Some(worst(obstacles)?.0));
    let count = |rank| ranks().filter(|other| *other == rank).count();
    let most = ranks().max_by_key(|rank| (count(*rank), Reverse(*rank)));
    let ought = most.map(|rank| (rank, count(rank)));
    let (mut remaining, mut history) = (Remaining::of(grid), History::All);
    for (placement, asked) in plan.placements.iter().zip(request.components()) {
        let at = grid.sites().iter().position(|site| site.name == placement.site)?;
        remaining.take(at, &asked.resources);
    }
    let (remaining, history) = (&mut remaining, &mut history);
    let mut board = Board { grid, remaining, history, observer: &mut Silent };
    let told = dominant_refusal(request, plan, &mut board);
    let is = told.map(|told| (told.code as u32, told.sites as usize));
    let text = || format!("{request:?} was kept from most sites by {told:?}, not {ought:?}");
    (is != ought).then(text)
}

/// What is brought comes from where it arrives first, and takes as long.
fn brought(
    drawn: &Drawn,
    asked: &ComponentRequest,
    chosen: Option<usize>,
    plan: Option<&Plan>,
) -> Option<String> {
    let (to, plan) = chosen.zip(plan)?;
    let placement = plan.placements.first()?;
    let ways: Option<Vec<(u64, usize)>> =
        asked.inputs.iter().map(|content| drawn.way(content, to)).collect();
    let ways = ways?;
    let time: u64 = ways.iter().map(|(time, _)| time).sum();
    let from = placement.sources.iter().map(|source| &source.from);
    let right = from.eq(ways.iter().map(|(_, from)| &drawn.sites[*from].name))
        && placement.transfer_time.0 == time
        && plan.transfer_time.0 == time;
    (!right).then(|| format!("{asked:?} is served by {placement:?}, not {ways:?}"))
}

/// Whether it could be placed if all were empty and open.
fn ever(drawn: &Drawn, request: &PlacementRequest, grid: &GridSnapshot) -> Option<String> {
    let told = can_ever_be_placed(request, grid);
    let right = told.is_ok() == hold_all(request.components(), drawn.sites.iter());
    (!right).then(|| format!("{request:?} could ever be placed: {told:?}"))
}

/// Several components under Worst-Fit: the largest first, each where most is left.
fn several(chance: &mut StdRng, drawn: &Drawn, grid: &GridSnapshot) -> Vec<String> {
    let Ok(name) = PolicyName::new("worst-fit") else { return Vec::new() };
    let parts: Vec<_> =
        (0..chance.random_range(2..=3)).map(|_| component(chance, drawn, true)).collect();
    let restartable = chance.random_bool(0.5);
    let request = PlacementRequest::new(name, Request::NonFixed, restartable, parts.clone());
    let tries = Tries::of(drawn, &parts, restartable);
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|index| Reverse(parts[*index].resources.processors));
    let mut left = drawn.clone();
    let mut chosen = vec![None; parts.len()];
    let mut joined = BTreeSet::new();
    let mut lacks = None;
    for index in order {
        let part = &parts[index];
        let open = (0..left.sites.len()).filter(|at| obstacles(&left, part, tries, *at).is_empty());
        let Some(at) = open.min_by_key(|at| (Reverse(left.left(*at)[0]), *at)) else {
            lacks = Some(index);
            break;
        };
        chosen[index] = Some(left.sites[at].name.clone());
        left.sites[at].pending.add(&part.resources);
        if joined.insert(at) && left.sites[at].room == Some(1) {
            // Its other components may join it there.
            left.sites[at].room = None;
        }
    }
    let (outcome, _) = placed(&request, grid);
    let right = match (&outcome, lacks) {
        (Ok(plan), None) => plan.placements.iter().map(|p| Some(p.site.clone())).eq(chosen.clone()),
        (Err(refusal), Some(index)) => refusal.component.0 as usize == index,
        _ => false,
    };
    let mut found: Vec<String> = ever(drawn, &request, grid).into_iter().collect();
    found.extend((!right).then(|| format!("{parts:?} are put on {outcome:?}, not {chosen:?}")));
    found
}

/// A flexible request: as few sites as can be, each with as much as it takes at most.
fn split(chance: &mut StdRng, drawn: &Drawn, grid: &GridSnapshot) -> Vec<String> {
    let total = vector(chance, 20);
    let min = chance.random_range(1..=total.processors.min(4));
    let most = chance.random_bool(0.4).then(|| chance.random_range(1..=3));
    let bounds = Flexible { min_component_size: min, max_components: most, splits: Vec::new() };
    let asked = ComponentRequest::of_resources(total.clone());
    let policy = FLEXIBLE[chance.random_range(0..FLEXIBLE.len())];
    let Ok(name) = PolicyName::new(policy) else { return Vec::new() };
    let request = PlacementRequest::new(name, Request::Flexible(bounds), true, vec![asked]);
    let tries = Tries { anywhere: true, in_need: false };
    let takes = |at: usize, own: u32| {
        let part = ComponentRequest::of_resources(total.portion(own));
        obstacles(drawn, &part, tries, at).is_empty()
    };
    let caps = (0..drawn.sites.len()).filter(|at| takes(*at, min));
    let mut caps: Vec<u32> =
        caps.filter_map(|at| (min..=total.processors).rfind(|own| takes(at, *own))).collect();
    caps.sort_unstable_by_key(|cap| Reverse(*cap));
    let at_most = most.map_or(caps.len(), |most| (most as usize).min(caps.len()));
    let count = (1..=at_most).find(|count| {
        let sum: u32 = caps[..*count].iter().sum();
        *count as u64 * u64::from(min) <= u64::from(total.processors) && sum >= total.processors
    });
    let (outcome, _) = placed(&request, grid);
    let right = match (&outcome, count) {
        (Err(_), None) => true,
        (Ok(plan), Some(count)) => {
            let shares: Vec<u32> = plan.placements.iter().filter_map(|p| p.share).collect();
            let fits = plan.placements.iter().all(|placement| {
                let at = drawn.sites.iter().position(|site| site.name == placement.site);
                at.zip(placement.share).is_some_and(|(at, own)| own >= min && takes(at, own))
            });
            let sites: BTreeSet<_> = plan.placements.iter().map(|p| &p.site).collect();
            fits && shares.len() == count
                && sites.len() == count
                && shares.iter().sum::<u32>() == total.processors
        }
        _ => false,
    };
    let text = || {
        format!("{policy} splits {total:?} by {min} into {most:?}: {outcome:?}, {count:?} would do")
    };
    (!right).then(text).into_iter().collect()
}
