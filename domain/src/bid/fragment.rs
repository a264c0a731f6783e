//! The split of a job into parts for sites.

use std::cmp::Reverse;

/// Splits a total into sites and sizes; `usable` says how much each site takes, in the order in
/// which they are taken. Uses the shortest prefix of that order that takes it all, in at most
/// `most` parts of at least `min`; each part gets `min`, and the rest is handed out in order. If
/// the prefix has more than `most` sites, the smallest are passed over. It finds parts exactly when
/// there are any; the result is empty if there are none.
pub fn split_in_order(total: u32, min: u32, most: usize, usable: &[u32]) -> Vec<(usize, u32)> {
    let min = min.max(1);
    // More parts, even of the least size, would exceed the total.
    let most = most.min((total / min) as usize);
    let mut taken: Vec<usize> = Vec::new();
    let mut sum = 0_u64;
    for (site, &left) in usable.iter().enumerate().filter(|(_, left)| **left >= min) {
        taken.push(site);
        sum += u64::from(left);
        if taken.len() > most {
            sum -= u64::from(usable[drop_smallest(&mut taken, usable)]);
        }
        if sum >= u64::from(total) && !taken.is_empty() {
            return distribute(total, min, &taken, usable);
        }
    }
    Vec::new()
}

/// Drops the smallest site; of equal ones the last.
fn drop_smallest(taken: &mut Vec<usize>, usable: &[u32]) -> usize {
    let smallest = (0..taken.len()).min_by_key(|&at| (usable[taken[at]], Reverse(at)));
    taken.remove(smallest.unwrap_or(0))
}

fn distribute(total: u32, min: u32, taken: &[usize], usable: &[u32]) -> Vec<(usize, u32)> {
    let mut rest = total - min * taken.len() as u32;
    taken
        .iter()
        .map(|&site: &usize| {
            let more = rest.min(usable[site] - min);
            rest -= more;
            (site, min + more)
        })
        .collect()
}
