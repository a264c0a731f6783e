//! The virtual map once more, from its description.

use std::collections::BTreeSet;

use super::judge::PlacementJudge;
use crate::content::Content;
use crate::units::Bytes;

/// Run time of requests that say none.
const RUN_SECONDS: f64 = 3_600.0;

/// Of these sites those that bid: the nearest, then by what the data costs there, then by
/// distance, then by name.
pub(super) fn sites_in_bid_order(judge: &PlacementJudge<'_>, sites: Vec<usize>) -> Vec<usize> {
    let point = |at: usize| Some((at, resource_index(judge, at)?, data_index(judge, at)?));
    let mut points: Vec<(usize, f64, f64)> = sites.into_iter().filter_map(point).collect();
    let far = |&(_, x, y): &(usize, f64, f64)| x.hypot(y);
    // Worked out in another way, equal distances may differ in the last digits.
    let round = |far: f64| (far * 1e9).round() as u128;
    points.sort_by_key(|point| (round(far(point)), point.0));
    if let Some((_, rest)) = points.split_first_mut() {
        rest.sort_by_key(|point| (round(point.2), round(far(point)), point.0));
    }
    points.into_iter().map(|(at, ..)| at).collect()
}

/// The sites with room for any component, in that order.
pub(super) fn sites_with_room(judge: &PlacementJudge<'_>) -> Vec<usize> {
    sites_in_bid_order(
        judge,
        judge
            .sites()
            .filter(|at: &usize| (0..judge.parts.len()).any(|part| judge.is_open(part, *at)))
            .collect(),
    )
}

/// Of the beginning of that order the largest that may take part, in the order; as soon as they
/// take the total.
pub(super) fn split_in_bid_order(
    offers: &[(usize, i64)],
    total: i64,
    min: i64,
    most: usize,
) -> Option<Vec<(usize, i64)>> {
    let most = most.min((total / min.max(1)) as usize);
    (1..=offers.len()).find_map(|count| {
        let mut largest: Vec<usize> = (0..count).collect();
        largest.sort_by_key(|place| -offers[*place].1);
        largest.truncate(most);
        largest.sort_unstable();
        let taken: Vec<(usize, i64)> = largest.into_iter().map(|place| offers[place]).collect();
        (taken.iter().map(|(_, most)| most).sum::<i64>() >= total).then_some(taken)
    })
}

/// Processors and potential are all that is drawn of the first axis.
fn resource_index(judge: &PlacementJudge<'_>, at: usize) -> Option<f64> {
    let free = judge.count_left(at, "processors") as f64;
    let asked: u32 = judge
        .asked
        .parts
        .iter()
        .map(|part| part.resources.processors)
        .sum();
    let lacking = |free: f64, asked: f64| {
        if asked > 0.0 {
            (1.0 - free / asked).max(0.0)
        } else {
            0.0
        }
    };
    let sends = |from: usize| {
        let others = judge.sites().filter(|to| *to != from);
        others
            .map(|to| judge.grid.bandwidth(from, to).0 as f64)
            .sum::<f64>()
    };
    let potential = main_source_site(judge).map_or(0.0, |source| lacking(sends(at), sends(source)));
    (free > 0.0).then(|| lacking(free, asked.into()).hypot(potential))
}

/// The site with most of what any component may read.
fn main_source_site(judge: &PlacementJudge<'_>) -> Option<usize> {
    let mut contents = BTreeSet::new();
    for part in &judge.parts {
        let elsewhere = part
            .executable_at
            .iter()
            .filter_map(|(_, content)| *content);
        contents.extend(part.inputs.iter().chain(part.chunks.keys()).copied());
        contents.extend(part.executable.into_iter().chain(elsewhere));
    }
    let held = |at: usize| {
        let here = contents
            .iter()
            .filter(|content| judge.sites_holding(**content).contains(&at));
        here.map(|content| content.size.0).sum::<u64>()
    };
    let most = judge.sites().map(held).max().filter(|most| *most > 0)?;
    judge.sites().find(|at| held(*at) == most)
}

fn data_index(judge: &PlacementJudge<'_>, at: usize) -> Option<f64> {
    let needs: BTreeSet<Content> = (0..judge.parts.len())
        .flat_map(|part| judge.needed_contents(part, at))
        .collect();
    let mut seconds = 0.0;
    for content in needs {
        let (_, from) = judge.content_arrival(content, content.size, at)?;
        if from != at {
            let rate = judge.grid.bandwidth(from, at).0 as f64;
            seconds += bytes_read(judge, content).0 as f64 * 8.0 / rate;
        }
    }
    Some(seconds / RUN_SECONDS)
}

/// All that the job reads of it.
fn bytes_read(judge: &PlacementJudge<'_>, content: Content) -> Bytes {
    let chunk = judge
        .parts
        .iter()
        .find_map(|part| part.chunks.get(&content));
    match (judge.asked.bounds(), chunk) {
        (Some(_), Some(chunk)) => chunk.of.size,
        _ => content.size,
    }
}
