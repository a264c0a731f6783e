//! The policies that know the network: of the smallest sets of sites that take a job the one
//! that is connected best, by trying all of them.

use cospan_domain::placed::Rule;

use super::asked::by_size;
use super::ground::Ground;
use super::judge::Judge;
use super::placing::{first_in, place_each};

/// Sites in the order in which they are filled.
type Group = Vec<usize>;

/// The sites that the connected Cluster Minimization fills, in this order; `order`: by what
/// is left.
pub(super) fn connected(judge: &Judge<'_>, order: &[usize]) -> Group {
    let slowest = judge.ground.connections();
    let plain = plainly(judge, order);
    let most = plain.as_ref().map_or(usize::MAX, Vec::len);
    let seeds = order.iter().filter(|_| most > 1);
    let grown = seeds.filter_map(|seed| grow(judge, order, *seed, most, &slowest));
    let known = plain.into_iter().chain(grown);
    let rank = |group: &Group| (group.len(), slowest(group));
    let Some(known) = known.min_by_key(rank) else { return order.to_vec() };
    let sets = sets(order, known.len());
    let better = sets.into_iter().filter(|set| rank(set) < rank(&known) && takes(judge, set));
    better.min_by_key(rank).unwrap_or(known)
}

/// What Cluster Minimization itself combines.
fn plainly(judge: &Judge<'_>, order: &[usize]) -> Option<Group> {
    let (chosen, _) = place_each(&mut judge.clone(), &mut first_in(order, Rule::FirstInOrder));
    let used: Vec<usize> = chosen.ok()?.into_iter().map(|(at, ..)| at).collect();
    Some(order.iter().copied().filter(|at| used.contains(at)).collect())
}

/// Whether Cluster Minimization would place it on these sites alone.
fn takes(judge: &Judge<'_>, set: &[usize]) -> bool {
    let mut trial = judge.clone();
    by_size(&judge.parts).into_iter().all(|part| {
        let site = set.iter().copied().find(|at| trial.is_open(part, *at));
        site.is_some_and(|at| {
            trial.take(part, at);
            true
        })
    })
}

/// All sets of at most so many sites, those that begin with the largest sites first.
fn sets(order: &[usize], most: usize) -> Vec<Group> {
    let masks = (1_u32..1 << order.len()).filter(|mask| mask.count_ones() as usize <= most);
    let set =
        |mask: u32| -> Group { (0..order.len()).filter(|bit| mask >> bit & 1 == 1).collect() };
    let mut places: Vec<Group> = masks.map(set).collect();
    places.sort_unstable();
    places.into_iter().map(|set| set.into_iter().map(|place| order[place]).collect()).collect()
}

/// Begins with a site that takes the largest component; where none takes one, of those that do
/// the one joins that is connected best.
fn grow(
    judge: &Judge<'_>,
    order: &[usize],
    seed: usize,
    most: usize,
    slowest: &impl Fn(&[usize]) -> u128,
) -> Option<Group> {
    let (mut trial, mut group) = (judge.clone(), vec![seed]);
    for (done, part) in by_size(&judge.parts).into_iter().enumerate() {
        let taker = group.iter().copied().find(|at| trial.is_open(part, *at));
        let site = match taker {
            Some(at) => at,
            None if done > 0 && group.len() < most => {
                let open = order.iter().filter(|at| trial.is_open(part, **at));
                let joined = |at: &&usize| [group.as_slice(), &[**at]].concat();
                let best = open.min_by_key(|at| slowest(&joined(at)))?;
                group.push(*best);
                *best
            }
            None => return None,
        };
        trial.take(part, site);
    }
    Some(group)
}

/// What a message takes over the slowest link of the best set of so many sites that offer enough
/// together.
pub(super) fn fastest(ground: &Ground, offers: &[(usize, u32)], need: u32, count: usize) -> u128 {
    let order: Vec<usize> = offers.iter().map(|offer| offer.0).collect();
    let offered = |at: &usize| offers.iter().find(|offer| offer.0 == *at).map_or(0, |o| o.1);
    let enough = |set: &Group| set.iter().map(offered).sum::<u32>() >= need;
    let sets = sets(&order, count).into_iter().filter(|set| set.len() == count && enough(set));
    let slowest = ground.connections();
    sets.map(|set| slowest(&set)).min().unwrap_or(u128::MAX)
}
