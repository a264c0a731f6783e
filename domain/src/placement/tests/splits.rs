//! Flexible requests, placed on sites with quotas and other resources, against every split
//! that there is.

use std::sync::Arc;

use proptest::prelude::*;

use super::drawn::NAMES;
use super::judge::usable_count;
use crate::ids::PolicyName;
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::placement::policy::POLICIES;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;
use crate::units::PerMillion;

fn processors_and_gpus(processors: u32, gpus: u32) -> Resources {
    let others = if gpus > 0 {
        [("gpus".into(), gpus.into())].into()
    } else {
        Default::default()
    };
    Resources { processors, others }
}

/// One resource of a site: all there is, what is idle, ours, and promised.
#[derive(Debug, Clone, Copy)]
struct ResourceCount {
    total: u32,
    idle: u32,
    ours: u32,
    pending: u32,
}

prop_compose! {
    fn count(most: u32)(total in most / 3..=most)(
        total in Just(total), idle in total / 2..=total, ours in 0..3u32, pending in 0..2u32,
    ) -> ResourceCount {
        ResourceCount { total, idle, ours, pending }
    }
}

#[derive(Debug, Clone, Copy)]
struct SplitSite {
    processors: ResourceCount,
    gpus: ResourceCount,
    quota: SiteQuota,
}

prop_compose! {
    fn place()(
        processors in count(14), gpus in count(9), is_level in any::<bool>(),
        share in prop_oneof![2 => Just(1_000_000u32), 1 => 500_000..1_000_000u32],
    ) -> SplitSite {
        let basis = if is_level { QuotaBasis::Level } else { QuotaBasis::Share };
        SplitSite { processors, gpus, quota: SiteQuota { share: PerMillion(share), basis } }
    }
}

impl SplitSite {
    fn site(&self, name: &str) -> GridSite {
        let of = |count: fn(ResourceCount) -> u32| {
            processors_and_gpus(count(self.processors), count(self.gpus))
        };
        GridSite {
            ours: of(|count| count.ours),
            pending: of(|count| count.pending),
            quota: self.quota,
            ..site_with_resources(name, of(|count| count.total), of(|count| count.idle))
        }
    }
}

/// A job of so many processors with so many gpus, which are divided in proportion.
#[derive(Debug, Clone, Copy)]
struct DividedJob {
    processors: u32,
    gpus: u32,
    min: u32,
}

impl DividedJob {
    fn component_fits(self, size: u32, site: &GridSite) -> bool {
        let gpus = (self.gpus * size).div_ceil(self.processors);
        i64::from(size) <= usable_count(site, "processors")
            && i64::from(gpus) <= usable_count(site, "gpus")
    }

    /// How few components the rest can be split into, at most so many; by trying every size
    /// at every site.
    fn fewest_components(self, rest: u32, most: usize, sites: &[GridSite]) -> Option<usize> {
        if rest == 0 {
            return Some(0);
        }
        let (site, others) = sites.split_first()?;
        let sizes = (self.min..=rest).filter(|&size| most > 0 && self.component_fits(size, site));
        let with = sizes
            .filter_map(|size| Some(1 + self.fewest_components(rest - size, most - 1, others)?));
        with.chain(self.fewest_components(rest, most, others)).min()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_flexible_job_is_placed_iff_it_can_be_split_on_the_fewest_or_nearest(
        places in prop::collection::vec(place(), 1..=5),
        (processors, gpus) in (1..24u32, 0..12u32), min in 1..5u32, most in 1..6u32,
    ) {
        prop_assume!(min <= processors);
        let whole = DividedJob { processors, gpus, min };
        let grid = grid(NAMES.iter().zip(&places).map(|(name, place)| place.site(name)));
        let expected = whole.fewest_components(processors, most as usize, grid.sites());
        let bounds =
            FlexibleBounds { min_component_size: min, max_components: Some(most), splits: Vec::new() };
        let kind = RequestType::Flexible(bounds);
        for policy in POLICIES.iter().filter(|policy| policy.serves(&kind)) {
            let name = crate::ids::PolicyName::new(policy.name()).unwrap();
            let part = ComponentRequest::of_resources(processors_and_gpus(processors, gpus));
            let request = PlacementRequest::new(name, kind.clone(), true, vec![part]);
            // As it is placed, and as it is explained.
            let mut remaining = RemainingResources::of_grid(&grid);
            let mut context = PlacementContext { grid: &grid, remaining: &mut remaining, history: &mut SitePairHistory::All, observer: &mut SilentObserver };
            let plan = crate::placement::try_to_place(&request, &mut context).ok();
            prop_assert_eq!(&plan, &place_on_grid(&request, &grid).ok());
            let count = plan.as_ref().map(|plan| plan.placements.len());
            if policy.takes_bids() {
// Near sites come before few.
prop_assert_eq!(count.map(|count| count <= most as usize), expected.and(Some(true)));
} else { prop_assert_eq!(count, expected); }
            let Some(plan) = plan else { continue };
            let shares = shares_of(&plan);
            prop_assert_eq!(shares.iter().map(|(_, share)| share).sum::<u32>(), processors);
            for (name, share) in shares {
                let site = grid.site(&site_name(name)).unwrap();
                prop_assert!(share >= min && whole.component_fits(share, site), "{share} at {name}");
            }
            prop_assert_eq!(plan.count_sites(), plan.placements.len());
        }
    }
}

#[test]
fn a_part_gets_no_more_of_any_resource_than_one_component_may() {
    let bounded = |name: &str| {
        let mut site =
            site_with_resources(name, processors_and_gpus(20, 8), processors_and_gpus(20, 8));
        let shape = Arc::make_mut(site.shape.as_mut().unwrap());
        shape.largest_component = processors_and_gpus(20, 2);
        site
    };
    let split = |grid: &GridSnapshot| {
        let request = RequestType::Flexible(FlexibleBounds::default());
        let whole = vec![ComponentRequest::of_resources(processors_and_gpus(20, 4))];
        let policy = PolicyName::new("flexible-cluster-minimization").unwrap();
        let request = PlacementRequest::new(policy, request, true, whole);
        (
            place_on_grid(&request, grid),
            check_placeable(&request, grid),
        )
    };
    let (plan, ever) = split(&grid([bounded("A"), bounded("B")]));
    assert_eq!(shares_of(&plan.unwrap()), [("A", 10), ("B", 10)]);
    assert_eq!(ever, Ok(()));
    let (plan, ever) = split(&grid([bounded("A")]));
    assert!(plan.is_err());
    assert_eq!(
        ever,
        Err(UnplaceableError::NoSplit {
            total: 20,
            min: 1,
            sites: 1,
            usable: 10
        })
    );
}
