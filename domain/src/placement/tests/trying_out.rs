//! Jobs of several components that must not run twice, and sites that are tried out.

use proptest::prelude::*;

use crate::job::spec::{FlexibleBounds, RequestType};
use crate::placement::policy::POLICIES;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;

fn usable_site(name: &str, total: u32, idle: u32) -> GridSite {
    site_with_resources(
        name,
        Resources::processors(total),
        Resources::processors(idle),
    )
}

fn half_open_site(name: &str, idle: u32) -> GridSite {
    GridSite {
        acceptance: PlacementAcceptance::ProbesOnly,
        room: Some(1),
        ..usable_site(name, idle, idle)
    }
}

fn nonrestartable_request(policy: &str, kind: RequestType, parts: &[u32]) -> PlacementRequest {
    let parts = parts.iter().map(|&size| component(size)).collect();
    PlacementRequest::new(policy.parse().unwrap(), kind, false, parts)
}

/// Each of them fits there, so that it would wait for what never comes.
#[test]
fn components_too_large_for_other_sites_try_sites_out_under_every_policy() {
    let rigid = POLICIES
        .iter()
        .filter(|policy| policy.serves(&RequestType::NonFixed));
    for policy in rigid.map(|policy| policy.name()) {
        let outcome = |total| {
            let failed = [half_open_site("Amsterdam", 32), half_open_site("Delft", 32)];
            let grid = grid(failed.into_iter().chain([usable_site("Leiden", total, 18)]));
            place_on_grid(
                &nonrestartable_request(policy, RequestType::NonFixed, &[8, 8, 7]),
                &grid,
            )
        };
        let plan = outcome(18);
        assert!(plan.is_ok(), "{policy}: {plan:?}");
        assert!(
            outcome(23).is_err(),
            "{policy} does not wait until Leiden is idle"
        );
    }
}

#[test]
fn a_total_that_no_other_sites_can_be_split_over_tries_sites_out() {
    let flexible = POLICIES
        .iter()
        .filter(|policy| !policy.serves(&RequestType::NonFixed));
    for policy in flexible.map(|policy| policy.name()) {
        let outcome = |total| {
            let grid = grid([half_open_site("Delft", 8), usable_site("Leiden", total, 10)]);
            place_on_grid(
                &nonrestartable_request(
                    policy,
                    RequestType::Flexible(FlexibleBounds::default()),
                    &[15],
                ),
                &grid,
            )
        };
        assert_eq!(
            shares_of(&outcome(14).unwrap()),
            [("Leiden", 10), ("Delft", 5)],
            "{policy}"
        );
        assert!(
            outcome(15).is_err(),
            "{policy} does not wait until Leiden is idle"
        );
    }
}

/// Else it would be let in to try sites out with the one, and turned away there for the other.
#[test]
fn no_split_tries_sites_out_while_others_could_hold_another_split() {
    let outcome = |total| {
        let splits = vec![vec![12, 3], vec![5, 5, 5]];
        let kind = RequestType::Flexible(FlexibleBounds {
            splits,
            ..FlexibleBounds::default()
        });
        let request = nonrestartable_request("flexible-cluster-minimization", kind, &[15]);
        let others = ["Leiden", "Utrecht"].map(|name| usable_site(name, total, 0));
        place_on_grid(
            &request,
            &grid(others.into_iter().chain([half_open_site("Delft", 20)])),
        )
    };
    assert_eq!(
        shares_of(&outcome(7).unwrap()),
        [("Delft", 12), ("Delft", 3)]
    );
    assert!(
        outcome(10).is_err(),
        "it does not wait until the others are idle"
    );
}

proptest! {
    /// One that is busy is waited for as long as its like could hold each component, and have as
    /// much as all of them need.
    #[test]
    fn sites_are_tried_out_for_components_iff_those_that_work_are_too_small(
        parts in prop::collection::vec(1..10u32, 1..5),
        totals in prop::collection::vec(1..12u32, 0..4),
    ) {
        let others = ["A", "B", "C"].iter().zip(&totals);
        let others = others.map(|(name, total)| usable_site(name, *total, 0));
        let grid = grid(others.chain([half_open_site("Delft", 40)]));
        let each = parts.iter().all(|part| totals.iter().any(|total| part <= total));
        let all = parts.iter().sum::<u32>() <= totals.iter().sum();
        let rigid = POLICIES.iter().filter(|policy| policy.serves(&RequestType::NonFixed));
        for policy in rigid {
            let request = nonrestartable_request(policy.name(), RequestType::NonFixed, &parts);
            prop_assert_eq!(place_on_grid(&request, &grid).is_ok(), !(each && all), "{}", policy.name());
        }
    }
}
