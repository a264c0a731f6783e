//! The head of the distribution: the 20 most popular estimates, which 89 % of
//! the jobs share.

use std::collections::BTreeSet;

use cospan_domain::units::DurationMs;
use rand::Rng;

/// Number of estimates in the head.
pub const HEAD_LEN: usize = 20;

/// Percent of the jobs whose estimates are in the head.
pub(super) const HEAD_PERCENT: f64 = 89.0;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// Estimates that users choose everywhere, the commonest first.
const USUAL: [u64; 15] = [
    5 * MINUTE,
    15 * MINUTE,
    10 * MINUTE,
    20 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    4 * HOUR,
    5 * HOUR,
    6 * HOUR,
    8 * HOUR,
    10 * HOUR,
    12 * HOUR,
    18 * HOUR,
];

/// Steps whose multiples are taken if the usual estimates do not suffice, the longest first.
const STEPS: [u64; 10] = [
    200 * HOUR,
    100 * HOUR,
    50 * HOUR,
    10 * HOUR,
    5 * HOUR,
    2 * HOUR,
    HOUR,
    20 * MINUTE,
    10 * MINUTE,
    5 * MINUTE,
];

/// The popularity of the longest estimate (first row) and of the others by
/// length, in the logs of SDSC SP2, CTC SP2, KTH SP2 and SDSC Blue Horizon.
const OBSERVED_RANKS: [[usize; 4]; HEAD_LEN] = [
    [3, 1, 1, 1],
    [1, 3, 4, 6],
    [4, 4, 10, 5],
    [17, 2, 14, 3],
    [13, 12, 20, 7],
    [7, 9, 2, 2],
    [8, 8, 3, 18],
    [18, 18, 7, 19],
    [2, 6, 12, 4],
    [6, 7, 6, 11],
    [16, 11, 19, 20],
    [10, 20, 5, 9],
    [5, 16, 18, 10],
    [15, 5, 16, 14],
    [14, 14, 9, 13],
    [19, 13, 17, 16],
    [11, 10, 15, 15],
    [12, 15, 13, 17],
    [9, 17, 8, 8],
    [20, 19, 11, 12],
];

/// Returns the estimates of the head that are not `known`: so many that head and known ones
/// together are `len`, fewer if a short maximum leaves no more.
pub(super) fn head_estimates(
    longest: DurationMs,
    len: usize,
    known: &BTreeSet<DurationMs>,
) -> Vec<DurationMs> {
    let wanted = len.saturating_sub(known.len());
    let multiples = STEPS.into_iter().flat_map(|step| {
        let most = (longest.0 / step).min(HEAD_LEN as u64 * 2);
        let top = longest.0 / step;
        (0..most).map(move |down| (top - down) * step)
    });
    let candidates = std::iter::once(longest.0).chain(USUAL).chain(multiples);
    let mut taken = known.clone();
    candidates
        .map(DurationMs)
        .filter(|time| *time <= longest && taken.insert(*time))
        .take(wanted)
        .collect()
}

/// Sorts `times`, the most popular first: the longest of all if it is there, the others in an order
/// drawn from what was observed at their place.
pub(super) fn order_by_popularity(
    mut times: Vec<DurationMs>,
    longest: DurationMs,
    rng: &mut impl Rng,
) -> Vec<DurationMs> {
    times.sort_unstable();
    let longest = times.pop_if(|last| *last == longest);
    let mut ranked: Vec<_> = draw_ranks(times.len(), rng)
        .into_iter()
        .zip(times)
        .collect();
    ranked.sort_unstable();
    longest
        .into_iter()
        .chain(ranked.into_iter().map(|(_, time)| time))
        .collect()
}

/// Draws ranks from 2 for the first `len` estimates after the longest: each is drawn from the ranks
/// observed at its place or before it, the smaller of two draws. A rank that no log shows later
/// must be given now.
fn draw_ranks(len: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut pool = BTreeSet::from(OBSERVED_RANKS[0]);
    // Rank 1 is the longest estimate's; ranks given away must not come back.
    let mut given = BTreeSet::from([1]);
    let mut ranks = Vec::with_capacity(len);
    for (place, observed) in OBSERVED_RANKS.iter().enumerate().skip(1).take(len) {
        pool.extend(observed);
        pool.retain(|rank| !given.contains(rank));
        let overdue = pool
            .iter()
            .copied()
            .find(|rank| last_observed_place(*rank) <= place);
        let Some(rank) = overdue.or_else(|| draw_smaller_of_two(&pool, rng)) else {
            break;
        };
        given.insert(rank);
        ranks.push(rank);
    }
    ranks
}

fn last_observed_place(rank: usize) -> usize {
    OBSERVED_RANKS
        .iter()
        .rposition(|observed| observed.contains(&rank))
        .unwrap_or(0)
}

fn draw_smaller_of_two(pool: &BTreeSet<usize>, rng: &mut impl Rng) -> Option<usize> {
    if pool.is_empty() {
        return None;
    }
    let place = rng
        .random_range(0..pool.len())
        .min(rng.random_range(0..pool.len()));
    pool.iter().nth(place).copied()
}

/// Returns the percentage of the jobs for each of `len` ranks from `first_rank` on.
pub(super) fn rank_shares(first_rank: usize, len: usize) -> Vec<f64> {
    (first_rank..first_rank + len).map(rank_share).collect()
}

fn rank_share(rank: usize) -> f64 {
    match rank {
        1 => HEAD_PERCENT - (2..=HEAD_LEN).map(fitted_share).sum::<f64>(),
        _ => fitted_share(rank),
    }
}

fn fitted_share(rank: usize) -> f64 {
    14.0491 * f64::exp(-0.177531 * rank as f64) + 0.462513
}
