//! The order in which a job goes to the sites that bid.

use std::cmp::Ordering;

use super::site_bid::Bid;

/// Ranks the sites, as positions in `bids`: the nearest first; what it lacks comes from the others,
/// ordered by what the data costs there, then by distance. Ties are broken by name, so that the
/// order of the answers does not matter.
pub fn rank_bids<N: Ord>(bids: &[(N, &Bid)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..bids.len()).collect();
    let Some(nearest) = order
        .iter()
        .copied()
        .min_by(|a, b| compare_distance(&bids[*a], &bids[*b]))
    else {
        return order;
    };
    order.sort_by(|a, b| {
        let data = bids[*a].1.y.total_cmp(&bids[*b].1.y);
        (*a != nearest)
            .cmp(&(*b != nearest))
            .then(data)
            .then_with(|| compare_distance(&bids[*a], &bids[*b]))
    });
    order
}

fn compare_distance<N: Ord>(a: &(N, &Bid), b: &(N, &Bid)) -> Ordering {
    a.1.distance
        .total_cmp(&b.1.distance)
        .then_with(|| a.0.cmp(&b.0))
}
