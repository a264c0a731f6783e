//! The split of a total over sites: the rule of Flexible Cluster Minimization with bounds.

/// Splits a total into component sizes, one for each of the first sites; `usable` says how much
/// each site takes, the largest first. With `min` the fewest processors of a component and `most`
/// the most components: the smallest t <= `most` with t x `min` <= total <= the sum of the first t;
/// each gets `min`, and then the rest in order. It finds a split exactly when there is one, on the
/// fewest sites (vectors FCM-1 to FCM-16). Empty if there is none.
pub fn split_largest_first(total: u32, min: u32, most: usize, usable: &[u32]) -> Vec<u32> {
    let min = min.max(1);
    let takers = usable
        .iter()
        .take_while(|&&left| left >= min)
        .count()
        .min(most);
    let mut sum = 0u64;
    for count in 1..=takers {
        sum += u64::from(usable[count - 1]);
        if count as u64 * u64::from(min) > u64::from(total) {
            return Vec::new();
        }
        if sum >= u64::from(total) {
            return fill_in_order(total, min, &usable[..count]);
        }
    }
    Vec::new()
}

/// Gives each site `min`, then hands out the rest in order, up to what each takes.
fn fill_in_order(total: u32, min: u32, usable: &[u32]) -> Vec<u32> {
    let mut rest = total - min * usable.len() as u32;
    usable
        .iter()
        .map(|&left: &u32| {
            let more = rest.min(left - min);
            rest -= more;
            min + more
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fewest sites on which a split exists, by trying every set.
    fn fewest_sites(total: u32, min: u32, most: usize, usable: &[u32]) -> Option<usize> {
        let sets = 0..1u32 << usable.len();
        sets.filter(|set: &u32| {
            let chosen: Vec<u32> = (0..usable.len())
                .filter(|i| set >> i & 1 == 1)
                .map(|i| usable[i])
                .collect();
            let count = chosen.len() as u32;
            (1..=most as u32).contains(&count)
                && chosen.iter().all(|&left| left >= min)
                && count * min <= total
                && chosen.iter().sum::<u32>() >= total
        })
        .map(|set| set.count_ones() as usize)
        .min()
    }

    proptest! {
        #[test]
        fn a_split_is_found_exactly_when_there_is_one_and_on_the_fewest_sites(
            total in 1..60u32, min in 1..8u32, most in 1..8usize,
            mut usable in prop::collection::vec(0..20u32, 0..7),
        ) {
            usable.sort_unstable_by(|a, b| b.cmp(a));
            let found = split_largest_first(total, min, most, &usable);
            let expected = fewest_sites(total, min, most, &usable);
            prop_assert_eq!((!found.is_empty()).then_some(found.len()), expected);
            if !found.is_empty() {
                prop_assert_eq!(found.iter().sum::<u32>(), total);
                let within = |(size, left): (&u32, &u32)| *size >= min && size <= left;
                prop_assert!(found.iter().zip(&usable).all(within), "{found:?} of {usable:?}");
            }
        }
    }
}
