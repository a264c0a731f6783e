//! Each policy once more, from its description.

use std::cmp::Reverse;

use super::judge::{PlacementJudge, SubmittedRequest};
use super::map_model::{sites_in_bid_order, sites_with_room, split_in_bid_order};
use crate::ids::{ComponentIndex, PolicyName};
use crate::job::spec::FlexibleBounds;
use crate::placed::{Placement, PlacementRule};
use crate::placement::*;
use crate::units::DurationMs;

/// A site, the file site that all files come from if that is one, and why it is this one.
type ExpectedChoice = (usize, Option<usize>, PlacementRule);
type ExpectedPolicy<'p> = dyn FnMut(&PlacementJudge<'_>, usize) -> Option<ExpectedChoice> + 'p;

/// The plan for the request whose turn it is, or the first component without a site. `told`: the
/// plan that was made, for of equally well connected splits each will do.
pub(super) fn expected_plan(
    judge: &mut PlacementJudge<'_>,
    told: Option<&PlacementPlan>,
) -> Result<PlacementPlan, ComponentIndex> {
    match judge.asked.bounds().cloned() {
        Some(bounds) if bounds.splits.is_empty() => place_split(judge, &bounds, told),
        Some(bounds) => place_first_split(judge, &bounds.splits),
        None => {
            let before = judge.clone();
            let chosen = place_rigid(judge)?;
            Ok(before.plan_of(&chosen))
        }
    }
}

fn place_rigid(judge: &mut PlacementJudge<'_>) -> Result<Vec<ExpectedChoice>, ComponentIndex> {
    let order = sites_by_processors_left(judge);
    match (judge.asked.policy, judge.parts.len()) {
        ("close-to-files", _) => {
            let mut learned = Vec::new();
            let chosen = place_each(judge, &mut |judge, part| {
                let choice = choose_close_to_files(judge, part, &learned);
                if let Some((at, Some(_), _)) = choice {
                    learned.extend(
                        judge
                            .file_sites(part, at)
                            .into_iter()
                            .map(|from| (at, from)),
                    );
                }
                choice
            })?;
            let name = |at: usize| judge.grid.sites()[at].name.clone();
            for (at, from) in learned {
                judge.history.insert_pair(name(at), name(from));
            }
            Ok(chosen)
        }
        ("mrs", _) => place_each(
            judge,
            &mut choose_first_of(&sites_with_room(judge), PlacementRule::Nearest),
        ),
        ("worst-fit", _) | (_, 1) => place_each(judge, &mut choose_worst_fit),
        ("cluster-minimization", _) => place_each(
            judge,
            &mut choose_first_of(&order, PlacementRule::FirstInOrder),
        ),
        ("connected-cluster-minimization", _) => {
            let order = connected_site_order(judge, &order);
            place_each(
                judge,
                &mut choose_first_of(&order, PlacementRule::BestConnected),
            )
        }
        (other, _) => panic!("no rule for {other}"),
    }
}

/// The largest first, equal ones in the order of the request.
fn parts_by_size(judge: &PlacementJudge<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..judge.parts.len()).collect();
    order.sort_by_key(|part| Reverse(judge.parts[*part].resources.processors));
    order
}

/// Each at its named site, or where the policy prefers; all of them, or none.
fn place_each(
    judge: &mut PlacementJudge<'_>,
    pick: &mut ExpectedPolicy<'_>,
) -> Result<Vec<ExpectedChoice>, ComponentIndex> {
    let before = judge.clone();
    let mut chosen = vec![(0, None, PlacementRule::NamedSite); judge.parts.len()];
    for part in parts_by_size(judge) {
        let choice = match &judge.parts[part].site {
            None => pick(judge, part),
            Some(named) => {
                let at = judge
                    .sites()
                    .find(|at| judge.grid.sites()[*at].name == *named);
                let at = at.filter(|at| judge.is_open(part, *at));
                let is_paired = judge.asked.policy == "close-to-files";
                let from = |at| judge.best_file_site(part, at, &[]).filter(|_| is_paired);
                at.map(|at| (at, from(at).map(|(_, from)| from), PlacementRule::NamedSite))
            }
        };
        let Some(choice) = choice else {
            judge.clone_from(&before);
            return Err(ComponentIndex(part as u32));
        };
        let used = judge.parts[part].resources.clone();
        let needs = judge.needed_contents(part, choice.0);
        judge.take_for_component(choice.0, used, needs);
        chosen[part] = choice;
    }
    Ok(chosen)
}

impl PlacementJudge<'_> {
    fn plan_of(&self, chosen: &[ExpectedChoice]) -> PlacementPlan {
        let placements = chosen.iter().enumerate();
        let placements =
            placements.map(|(part, (at, from, _))| self.placement(part, *at, *from, None));
        self.plan_by(
            chosen.iter().map(|(.., rule)| *rule).max().unwrap(),
            placements.collect(),
        )
    }

    fn plan_by(&self, rule: PlacementRule, placements: Vec<Placement>) -> PlacementPlan {
        let longest = placements
            .iter()
            .map(|placement| placement.transfer_time)
            .max();
        PlacementPlan {
            policy: PolicyName::new(self.asked.policy).unwrap(),
            rule,
            placements,
            transfer_time: longest.unwrap_or(DurationMs(0)),
        }
    }
}

/// Sites by decreasing processors left, then by name.
fn sites_by_processors_left(judge: &PlacementJudge<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = judge.sites().collect();
    order.sort_by_key(|at| Reverse(judge.count_left(*at, "processors")));
    order
}

fn choose_worst_fit(judge: &PlacementJudge<'_>, part: usize) -> Option<ExpectedChoice> {
    let site = sites_by_processors_left(judge)
        .into_iter()
        .find(|at| judge.is_open(part, *at));
    site.map(|at| (at, None, PlacementRule::MostLeft))
}

fn choose_first_of(
    order: &[usize],
    rule: PlacementRule,
) -> impl FnMut(&PlacementJudge<'_>, usize) -> Option<ExpectedChoice> + '_ {
    move |judge, part| {
        let site = order.iter().find(|at| judge.is_open(part, **at));
        site.map(|at| (*at, None, rule))
    }
}

/// The first site by name that has its files; else the known pair over which they arrive first,
/// equal ones by more left, then execution site, then file site; without input as Worst-Fit.
fn choose_close_to_files(
    judge: &PlacementJudge<'_>,
    part: usize,
    learned: &[(usize, usize)],
) -> Option<ExpectedChoice> {
    if !judge.parts[part].needs_files() {
        return choose_worst_fit(judge, part);
    }
    if let Some(at) = judge
        .sites()
        .find(|at: &usize| judge.is_open(part, *at) && judge.missing_bytes(part, *at).is_none())
    {
        return Some((at, None, PlacementRule::AtFiles));
    }
    let pairs = judge.sites().filter_map(|at| {
        // Those after a component may use what it adds to the table.
        let pair = judge
            .best_file_site(part, at, learned)
            .map(|(time, from)| (time, Some(from)));
        let is_open = match pair {
            Some(_) => judge.is_open_but_for_pairs(part, at),
            None => judge.is_open(part, at),
        };
        let (time, from) = pair.or_else(|| Some((judge.transfer_time(part, at)?, None)))?;
        is_open.then_some((time, Reverse(judge.count_left(at, "processors")), at, from))
    });
    pairs
        .min()
        .map(|(.., at, from)| (at, from, PlacementRule::NearestPair))
}

/// The sites that the connected Cluster Minimization fills, in this order: those of Cluster
/// Minimization itself, or grown from one site, or of all sets the one that is connected best.
fn connected_site_order(judge: &PlacementJudge<'_>, order: &[usize]) -> Vec<usize> {
    let rank = |group: &Vec<usize>| (group.len(), Reverse(judge.slowest_link(group)));
    let mut pick = choose_first_of(order, PlacementRule::FirstInOrder);
    let plain = place_each(&mut judge.clone(), &mut pick)
        .ok()
        .map(|chosen| {
            order
                .iter()
                .filter(|at: &&usize| chosen.iter().any(|(used, ..)| used == *at))
                .copied()
                .collect::<Vec<usize>>()
        });
    let most = plain.as_ref().map_or(usize::MAX, Vec::len);
    let seeds = order.iter().filter(|_| most > 1);
    let grown = seeds.filter_map(|seed| grow_group(judge, order, *seed, most));
    let known = plain.into_iter().chain(grown).min_by_key(rank);
    let Some(known) = known else {
        return order.to_vec();
    };
    let better = site_sets(order, known.len())
        .into_iter()
        .filter(|set| rank(set) < rank(&known));
    better
        .filter(|set: &Vec<usize>| {
            place_each(
                &mut judge.clone(),
                &mut choose_first_of(set, PlacementRule::FirstInOrder),
            )
            .is_ok()
        })
        .min_by_key(rank)
        .unwrap_or(known)
}

/// Begins with a site that takes the largest component; where none takes one, of those that do
/// the one joins that is connected best.
fn grow_group(
    judge: &PlacementJudge<'_>,
    order: &[usize],
    seed: usize,
    most: usize,
) -> Option<Vec<usize>> {
    let mut trial = judge.clone();
    let mut group = vec![seed];
    for (done, part) in parts_by_size(judge).into_iter().enumerate() {
        let mut site = group.iter().copied().find(|at| trial.is_open(part, *at));
        if site.is_none() && done > 0 && group.len() < most {
            let open = order.iter().copied().filter(|at| trial.is_open(part, *at));
            site = open.min_by_key(|at: &usize| {
                Reverse(judge.slowest_link(&[&group[..], &[*at]].concat()))
            });
            group.extend(site);
        }
        let used = trial.parts[part].resources.clone();
        trial.take_for_component(site?, used, trial.needed_contents(part, site?));
    }
    Some(group)
}

/// All sets of at most so many of these, those that begin with the first of them first.
fn site_sets(order: &[usize], most: usize) -> Vec<Vec<usize>> {
    let masks = (1_u32..1 << order.len()).filter(|mask| mask.count_ones() as usize <= most);
    let set = |mask| {
        (0..order.len())
            .filter(|bit| mask >> bit & 1 == 1)
            .collect::<Vec<_>>()
    };
    let mut places: Vec<Vec<usize>> = masks.map(set).collect();
    places.sort_unstable();
    places
        .into_iter()
        .map(|set| set.into_iter().map(|place| order[place]).collect())
        .collect()
}

/// The first allowed split that Cluster Minimization places, or the same on the sites in the
/// order of their bids; the preferred one is refused.
fn place_first_split(
    judge: &mut PlacementJudge<'_>,
    splits: &[Vec<u32>],
) -> Result<PlacementPlan, ComponentIndex> {
    let bids = judge.asked.policy == "mrs";
    let mut refused = None;
    let order = if bids {
        sites_with_room(judge)
    } else {
        sites_by_processors_left(judge)
    };
    for sizes in splits {
        let mut before = judge.clone();
        before.parts = judge.asked.split_components(sizes);
        let mut trial = before.clone();
        match place_each(
            &mut trial,
            &mut choose_first_of(&order, PlacementRule::FirstSplit),
        ) {
            Err(component) => refused = refused.or(Some(component)),
            Ok(chosen) => {
                *judge = trial;
                let mut plan = before.plan_of(&chosen);
                for (placement, size) in plan.placements.iter_mut().zip(sizes) {
                    placement.share = Some(*size);
                }
                return Ok(plan);
            }
        }
    }
    Err(refused.unwrap())
}

/// The fewest sites that take the total, the largest or the best connected: each gets the
/// minimum, then the rest goes to the first as far as it takes it, and so on.
fn place_split(
    judge: &mut PlacementJudge<'_>,
    bounds: &FlexibleBounds,
    told: Option<&PlacementPlan>,
) -> Result<PlacementPlan, ComponentIndex> {
    let asked: &SubmittedRequest = judge.asked;
    let open = judge.sites().filter(|at| judge.is_open(0, *at));
    let offer =
        |at| asked.max_processors_at(&judge.grid.sites()[at], |kind| judge.count_left(at, kind));
    let offers = open.map(|at| (at, judge.processors_with_staging_room(at, offer(at))));
    let mut offers: Vec<(usize, i64)> = offers
        .filter(|(_, most)| *most >= i64::from(bounds.min_component_size))
        .collect();
    offers.sort_by_key(|(_, most)| Reverse(*most));
    let most: Vec<i64> = offers.iter().map(|(_, most)| *most).collect();
    let count = asked.fewest_sites(bounds, &most).ok_or(ComponentIndex(0))?;
    let total = asked.parts[0].resources.processors;
    let (rule, group) = match asked.policy {
        "mrs" => (
            PlacementRule::Nearest,
            split_over_nearest(judge, &offers, bounds, total.into()),
        ),
        "flexible-cluster-minimization" => (PlacementRule::LargestFilled, offers[..count].to_vec()),
        _ => (
            PlacementRule::BestConnected,
            split_over_best_connected(judge, &offers, count, total.into(), told),
        ),
    };
    let min = bounds.min_component_size;
    let count = group.len();
    let mut rest = total - min * count as u32;
    let mut given = 0;
    let mut placements = Vec::new();
    let before = judge.clone();
    for (at, most) in group {
        let more = rest.min(most as u32 - min);
        let own = min + more;
        let placement = before.placement(0, at, None, Some(asked.file_part(given, own)));
        let copies = placement
            .sources
            .iter()
            .map(|source| source.content)
            .collect();
        judge.take_for_component(at, asked.resource_share(own), copies);
        placements.push(Placement {
            share: Some(own),
            ..placement
        });
        rest -= more;
        given += own;
    }
    Ok(before.plan_by(rule, placements))
}

fn split_over_nearest(
    judge: &PlacementJudge<'_>,
    offers: &[(usize, i64)],
    bounds: &FlexibleBounds,
    total: i64,
) -> Vec<(usize, i64)> {
    let order = sites_in_bid_order(judge, offers.iter().map(|(at, _)| *at).collect());
    let offers: Vec<(usize, i64)> = order
        .iter()
        .filter_map(|at: &usize| offers.iter().find(|(other, _)| other == at).copied())
        .collect();
    let most = bounds
        .max_components
        .map_or(usize::MAX, |most| most as usize);
    split_in_bid_order(&offers, total, bounds.min_component_size.into(), most).unwrap()
}

/// The sites of the plan that was made, if no set of so many that takes the total is connected
/// better; else one that is.
fn split_over_best_connected(
    judge: &PlacementJudge<'_>,
    offers: &[(usize, i64)],
    count: usize,
    total: i64,
    told: Option<&PlacementPlan>,
) -> Vec<(usize, i64)> {
    let offered = |at: &usize| offers.iter().find(|(other, _)| other == at).unwrap().1;
    let order: Vec<usize> = offers.iter().map(|(at, _)| *at).collect();
    let sets: Vec<Vec<usize>> = site_sets(&order, count)
        .into_iter()
        .filter(|set: &Vec<usize>| {
            set.len() == count && set.iter().map(offered).sum::<i64>() >= total
        })
        .collect();
    let fastest = sets
        .iter()
        .map(|set| judge.slowest_link(set))
        .max()
        .unwrap();
    let mut best = sets.iter().filter(|set| judge.slowest_link(set) == fastest);
    let set = best
        .clone()
        .find(|set: &&Vec<usize>| {
            let sites = told.into_iter().flat_map(|plan| &plan.placements);
            sites
                .map(|placement| &placement.site)
                .eq(set.iter().map(|at: &usize| &judge.grid.sites()[*at].name))
        })
        .or_else(|| best.next())
        .unwrap();
    set.iter().map(|at| (*at, offered(at))).collect()
}
