//! Decides if components can run at the same time on an empty grid.

/// Returns true if all components fit, several on one site if necessary. `components` are as equal
/// as possible: sizes differ by at most one processor, largest first.
pub(super) fn fit_together(components: &[u32], sites: &[u32]) -> bool {
    let (Some(&large), Some(&small)) = (components.first(), components.last()) else {
        return true;
    };
    let count = components.len();
    if count_room(sites, large) >= count as u64 {
        return true;
    }
    if large == small || count_room(sites, small) < count as u64 {
        return false;
    }
    let larges = components.iter().filter(|size| **size == large).count();
    count_larger_fitting(count, small, sites) >= larges
}

fn count_room(sites: &[u32], size: u32) -> u64 {
    sites.iter().map(|site| u64::from(site / size.max(1))).sum()
}

/// The number of `count` components that can be larger by one than `small`, if all are to be
/// placed: dynamic programming over the sites. `count` components of size `small` must fit.
fn count_larger_fitting(count: usize, small: u32, sites: &[u32]) -> usize {
    // Indexed by components placed before: the most of them that are large.
    let mut most: Vec<Option<usize>> = vec![None; count + 1];
    most[0] = Some(0);
    for site in sites {
        let slots = (site / small.max(1)) as usize;
        let mut with_site = most.clone();
        for (placed, larges) in most.iter().enumerate() {
            let Some(larges) = larges else { continue };
            for here in 1..=slots.min(count - placed) {
                let spare = *site as usize - here * small as usize;
                let total = Some(larges + spare.min(here));
                let entry = &mut with_site[placed + here];
                *entry = (*entry).max(total);
            }
        }
        most = with_site;
    }
    most[count].unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries every site for every component.
    fn fits_by_trial(components: &[u32], sites: &mut [u32]) -> bool {
        let Some((first, rest)) = components.split_first() else {
            return true;
        };
        (0..sites.len()).any(|site| {
            let has_room = sites[site] >= *first;
            has_room && {
                sites[site] -= first;
                let fits = fits_by_trial(rest, sites);
                sites[site] += first;
                fits
            }
        })
    }

    #[test]
    fn components_of_two_sizes_can_share_sites_that_larger_ones_alone_cannot() {
        assert!(fit_together(&[3, 2, 2, 2, 2], &[6, 5]));
        assert!(!fit_together(&[3, 3, 3, 2, 2], &[6, 5]));
        assert!(!fit_together(&[40, 40], &[72, 32, 32]));
    }

    proptest! {
        #[test]
        fn the_answer_is_that_of_trying_everything(
            sites in prop::collection::vec(1_u32..12, 1..4),
            each in 1_u32..5,
            count in 1_usize..7,
            larges in 0_usize..7,
        ) {
            let components: Vec<u32> =
                (0..count).map(|index| each + u32::from(index < larges)).collect();
            let expected = fits_by_trial(&components, &mut sites.clone());
            prop_assert_eq!(fit_together(&components, &sites), expected);
        }
    }
}
