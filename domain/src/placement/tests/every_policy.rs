//! What every policy must keep, whatever it prefers.

use proptest::prelude::*;

use super::drawn::{DrawnScene, any_scene};
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::placement::policy::POLICIES;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;

fn rigid_policies() -> impl Iterator<Item = &'static str> {
    POLICIES
        .iter()
        .filter(|policy| policy.serves(&RequestType::NonFixed))
        .map(|policy| policy.name())
}

/// What a plan takes of each site.
fn resources_by_site(
    request: &PlacementRequest,
    plan: &PlacementPlan,
) -> Vec<(crate::ids::SiteName, Resources)> {
    let whole = |index: usize| match request.total_resources() {
        Some(total) => total.portion_for(plan.placements[index].share.unwrap()),
        None => request.components()[index].resources.clone(),
    };
    let placements = plan.placements.iter().enumerate();
    placements
        .map(|(index, placement)| (placement.site.clone(), whole(index)))
        .collect()
}

/// A plan stays within what may be taken of each site, takes it, and a refusal takes nothing.
fn check_plan_rules(request: &PlacementRequest, grid: &GridSnapshot) -> Result<(), TestCaseError> {
    let mut remaining = RemainingResources::of_grid(grid);
    let before = remaining.clone();
    let mut context = PlacementContext {
        grid,
        remaining: &mut remaining,
        history: &mut SitePairHistory::All,
        observer: &mut SilentObserver,
    };
    let outcome = try_to_place(request, &mut context);
    let Ok(plan) = outcome else {
        prop_assert_eq!(remaining, before);
        return Ok(());
    };
    let mut left = before;
    for (site, used) in resources_by_site(request, &plan) {
        let site = grid.index_of(&site).unwrap();
        prop_assert!(
            left.covers_component(site, &used),
            "{} is overfilled",
            grid.sites()[site].name
        );
        left.take_component(site, &used);
        let place = &grid.sites()[site];
        let tries_out = request.may_probe() || !can_run_elsewhere(request, grid);
        let open = place.acceptance.hindrance(tries_out).is_none();
        prop_assert!(open, "{} is closed", place.name);
    }
    prop_assert_eq!(&remaining, &left);
    let (again, _) = place_with_recorder(request, grid);
    prop_assert_eq!(again.unwrap(), plan, "watched, it decides otherwise");
    Ok(())
}

/// Whether one open site could hold all of it, were it empty: then nothing is tried out for it.
fn can_run_elsewhere(request: &PlacementRequest, grid: &GridSnapshot) -> bool {
    let mut all = Resources::default();
    match request.total_resources() {
        Some(total) => all.add(total),
        None => request
            .components()
            .iter()
            .for_each(|part| all.add(&part.resources)),
    }
    grid.sites()
        .iter()
        .filter(|site| site.acceptance == PlacementAcceptance::Open)
        .any(|site| {
            let shape = site.shape.as_ref().unwrap();
            let labels = request
                .components()
                .iter()
                .flat_map(|part| &part.constraints);
            labels
                .into_iter()
                .all(|constraint| constraint.matches_labels(&shape.labels))
                && site
                    .quota
                    .max_resources(&shape.total)
                    .first_shortage(&all)
                    .is_none()
        })
}

fn flexible_of(drawn: &DrawnScene, policy: &str, bounds: FlexibleBounds) -> PlacementRequest {
    let whole = drawn.request.components()[0].clone();
    let policy = crate::ids::PolicyName::new(policy).unwrap();
    let restartable = drawn.request.is_restartable();
    PlacementRequest::new(
        policy,
        RequestType::Flexible(bounds),
        restartable,
        vec![whole],
    )
}

/// Sites that Cluster Minimization combines, and that Worst-Fit does; none where one refuses.
fn site_counts(idle: &[u32], parts: &[u32]) -> (Option<usize>, Option<usize>) {
    let names = ["A", "B", "C", "D", "E"];
    let grid = grid(
        names
            .iter()
            .zip(idle)
            .map(|(name, idle)| open_site(name, *idle)),
    );
    let request = request_of_sizes(parts);
    let combined = |request| {
        place_on_grid(request, &grid)
            .ok()
            .map(|plan| plan.count_sites())
    };
    (
        combined(&with_policy("cluster-minimization", &request)),
        combined(&request),
    )
}

/// The published order fills the largest site with the largest components that it holds, and
/// a small rest may need one site more than a lucky spread.
#[test]
fn components_of_different_size_may_take_one_site_more_than_worst_fit() {
    assert_eq!(
        site_counts(&[12, 20, 4], &[3, 4, 10, 6, 8]),
        (Some(3), Some(2))
    );
}

proptest! {
    #[test]
    fn no_policy_overfills_a_site_or_takes_for_a_job_that_it_does_not_place(
        drawn in any_scene(1..5), total in 1..40u32, min in 1..6u32, most in 1..5u32,
    ) {
        let grid = drawn.grid();
        for policy in rigid_policies() {
            check_plan_rules(&with_policy(policy, &drawn.request), &grid)?;
        }
        let bounds = FlexibleBounds {
            min_component_size: min,
            max_components: Some(most),
            splits: Vec::new(),
        };
        for policy in ["flexible-cluster-minimization", "connected-flexible-cluster-minimization"] {
            let mut request = flexible_of(&drawn, policy, bounds.clone());
            let mut whole = request.components()[0].clone();
            whole.resources.processors = total;
            let kind = request.request_type().clone();
            request = PlacementRequest::new(
                request.policy().clone(), kind, request.is_restartable(), vec![whole],
            );
            check_plan_rules(&request, &grid)?;
        }
    }

    #[test]
    fn few_sites_never_exceed_worst_fit_nor_do_well_connected_exceed_few(
        drawn in any_scene(1..5),
    ) {
        let grid = drawn.grid();
        let combined = |policy: &str| {
            place_on_grid(&with_policy(policy, &drawn.request), &grid).ok().map(|plan| plan.count_sites())
        };
        let few = combined("cluster-minimization");
        if let Some(few) = few {
            let near = combined("connected-cluster-minimization");
            prop_assert!(near.is_some_and(|near| near <= few), "{near:?} beside {few}");
        }
    }

    #[test]
    fn equal_components_on_plain_sites_never_take_more_than_worst_fit(
        idle in prop::collection::vec(0..60u32, 1..6),
        size in 1..12u32, count in 1..8usize,
    ) {
        let (few, spread) = site_counts(&idle, &vec![size; count]);
        if let (Some(few), Some(spread)) = (few, spread) {
            prop_assert!(few <= spread);
        }
    }

    #[test]
    fn well_connected_sites_split_a_job_exactly_when_others_do_and_as_few(
        idle in prop::collection::vec(0..30u32, 1..6),
        links in prop::collection::btree_set((0..5usize, 0..5usize), 0..20),
        total in 1..60u32, min in 1..6u32, most in 1..5u32,
    ) {
        let names = ["A", "B", "C", "D", "E"];
        let links: Vec<_> =
            links.iter().map(|&(a, b)| (names[a], names[b], 1 + (3 * a + b) as u64)).collect();
        let sites = names.iter().zip(&idle).map(|(name, idle)| open_site(name, *idle));
        let grid = grid_with(sites, &[], &links);
        let bounds = FlexibleBounds { min_component_size: min, max_components: Some(most), splits: vec![] };
        prop_assume!(min <= total);
        let count = |policy: &str| {
            let plan = place_on_grid(&flexible_request(policy, total, bounds.clone()), &grid).ok()?;
            let shares = shares_of(&plan);
            assert_eq!(shares.iter().map(|(_, share)| share).sum::<u32>(), total);
            assert!(shares.iter().all(|(_, share)| *share >= min));
            Some(shares.len())
        };
        let few = count("flexible-cluster-minimization");
        prop_assert_eq!(count("connected-flexible-cluster-minimization"), few);
    }

    #[test]
    fn the_order_in_which_sites_are_given_does_not_matter_to_any_policy(drawn in any_scene(1..5)) {
        for policy in POLICIES {
            let drawn = if policy.serves(&RequestType::NonFixed) { DrawnScene { request: with_policy(policy.name(), &drawn.request), ..drawn.clone() } } else { drawn.clone().with_policy(*policy) };
            let reversed = drawn.grid_of(drawn.sites.iter().rev().cloned());
            let forwards = place_on_grid(&drawn.request, &drawn.grid());
            prop_assert_eq!(forwards, place_on_grid(&drawn.request, &reversed), "{}", policy.name());
        }
    }

    /// The only components that a flexible request lists are those of its allowed splits.
    #[test]
    fn the_order_of_components_within_an_allowed_split_does_not_matter(
        idle in prop::collection::vec(0..30u32, 1..6),
        parts in prop::collection::vec(1..12u32, 1..5), shift in 0..5usize,
    ) {
        let names = ["A", "B", "C", "D", "E"];
        let grid = grid(names.iter().zip(&idle).map(|(name, idle)| open_site(name, *idle)));
        let mut turned = parts.clone();
        turned.rotate_left(shift % parts.len());
        let total = parts.iter().sum();
        for policy in POLICIES.iter().filter(|policy| !policy.serves(&RequestType::NonFixed)) {
            let shares = |parts: &[u32]| {
                let bounds = FlexibleBounds { splits: vec![parts.to_vec()], ..FlexibleBounds::default() };
                let plan = place_on_grid(&flexible_request(policy.name(), total, bounds), &grid).ok()?;
                let mut shares: Vec<(String, u32)> =
                    shares_of(&plan).into_iter().map(|(at, n)| (at.to_owned(), n)).collect();
                shares.sort();
                Some(shares)
            };
            prop_assert_eq!(shares(&parts), shares(&turned), "{}", policy.name());
        }
    }

    #[test]
    fn the_order_of_components_of_different_size_does_not_matter(
        drawn in any_scene(1..5), shift in 0..5usize,
    ) {
        let mut parts = drawn.request.components().to_vec();
        for (index, part) in parts.iter_mut().enumerate() {
            // No two of a size: their order is a documented tie.
            part.resources.processors = part.resources.processors * 5 + index as u32;
        }
        let grid = drawn.grid();
        let sites = |parts: Vec<ComponentRequest>, policy: &str| {
            let sizes: Vec<u32> = parts.iter().map(|part| part.resources.processors).collect();
            let plan = place_on_grid(&with_policy(policy, &request(parts)), &grid).ok()?;
            let sites = plan.placements.into_iter().map(|placement| placement.site);
            let mut by_size: Vec<_> = sizes.into_iter().zip(sites).collect();
            by_size.sort();
            Some(by_size)
        };
        for policy in rigid_policies() {
            let mut turned = parts.clone();
            turned.rotate_left(shift % parts.len());
            prop_assert_eq!(sites(turned, policy), sites(parts.clone(), policy), "{}", policy);
        }
    }
}
