//! The best connected sites, against every set of sites that there is: where links mislead.

use proptest::prelude::*;

use super::judge::{PlacementJudge, SubmittedRequest};
use super::policies::expected_plan;
use crate::ids::ComponentIndex;
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::placement::testing::*;
use crate::placement::*;

const NAMES: [&str; 9] = ["A", "B", "C", "D", "E", "F", "G", "H", "I"];
const CM: &str = "connected-cluster-minimization";
const FCM: &str = "connected-flexible-cluster-minimization";

/// Sites in order of name with what is idle there, and Mbit/s of each pair; 0 for no link.
#[derive(Debug, Clone)]
struct ConnectedGrid {
    idle: Vec<u32>,
    rates: Vec<Vec<u64>>,
}

impl ConnectedGrid {
    fn grid(&self) -> GridSnapshot {
        let all = 0..self.idle.len();
        let pairs = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
        let links: Vec<_> = pairs
            .filter(|&(a, b)| a != b && self.rates[a][b] > 0)
            .map(|(a, b)| (NAMES[a], NAMES[b], self.rates[a][b]))
            .collect();
        grid_with(
            all.map(|at| open_site(NAMES[at], self.idle[at])),
            &[],
            &links,
        )
    }
}

/// What is made of a request, and what is to be.
fn found_and_expected(
    policy: &'static str,
    kind: RequestType,
    parts: Vec<ComponentRequest>,
    world: &ConnectedGrid,
) -> [Result<PlacementPlan, ComponentIndex>; 2] {
    let asked = SubmittedRequest {
        policy,
        kind,
        restartable: true,
        parts,
    };
    let grid = world.grid();
    let told = place_on_grid(&asked.build_request(), &grid);
    let expected = expected_plan(
        &mut PlacementJudge::new(&grid, SitePairHistory::All, &asked),
        told.as_ref().ok(),
    );
    [told.map_err(|refusal| refusal.component), expected]
}

prop_compose! {
    /// Most sites are alike, so that the links decide; some are connected well with each other,
    /// but each of them best with one that may be far from the rest.
    fn world()(
        idle in prop::collection::vec(prop_oneof![4 => Just(10u32), 1 => 0..12u32], 5..=9),
        mut rates in prop::collection::vec(prop::collection::vec(
            prop_oneof![1 => Just(0u64), 8 => Just(10), 1 => Just(500), 1 => Just(1_000)], 9,
        ), 9),
        near in prop::collection::btree_set(0..9usize, 2..5),
        lures in prop::collection::vec(0..9usize, 9),
        is_even in any::<bool>(),
    ) -> ConnectedGrid {
        near.iter().for_each(|&a| near.iter().for_each(|&b| rates[a][b] = 500));
        for (&a, &b) in near.iter().zip(&lures) {
            (rates[a][b], rates[b][a]) = (1_000, 1_000);
        }
        if is_even {
            (0..9).for_each(|a| (0..a).for_each(|b| rates[b][a] = rates[a][b]));
        }
        ConnectedGrid { idle, rates }
    }
}

/// The fastest link of each site leads away from the best set of three.
#[test]
fn a_set_that_no_fastest_link_leads_to_is_found() {
    let mut rates = vec![vec![10; 6]; 6];
    let links = [
        (0, 1, 500),
        (0, 2, 500),
        (1, 2, 500),
        (0, 3, 1_000),
        (1, 4, 1_000),
        (2, 5, 1_000),
    ];
    for (a, b, rate) in links {
        (rates[a][b], rates[b][a]) = (rate, rate);
    }
    let world = ConnectedGrid {
        idle: vec![10; 6],
        rates,
    };
    let plan = place_on_grid(
        &flexible_request(FCM, 30, FlexibleBounds::default()),
        &world.grid(),
    )
    .unwrap();
    assert_eq!(sites_of(&plan), ["A", "B", "C"]);
    let plan = place_on_grid(
        &with_policy(CM, &request_of_sizes(&[10, 10, 10])),
        &world.grid(),
    )
    .unwrap();
    assert_eq!(sites_of(&plan), ["A", "B", "C"]);
}

/// There are billions of sets of five to seven sites, which have enough together, but take one
/// component each.
#[test]
fn among_too_many_sets_to_search_one_that_takes_the_job_is_still_found() {
    let names: Vec<String> = (10..70).map(|number| format!("S{number}")).collect();
    let rate = |a: usize, b: usize| 1 + ((a * a + b * b) * 31 + a * b * 17) as u64 % 997;
    let pairs = (0..60)
        .flat_map(|a| (0..60).map(move |b| (a, b)))
        .filter(|(a, b)| a != b);
    let links: Vec<(&str, &str, u64)> = pairs
        .map(|(a, b)| (names[a].as_str(), names[b].as_str(), rate(a, b)))
        .collect();
    let grid = grid_with(names.iter().map(|name| open_site(name, 10)), &[], &links);
    let plan = place_on_grid(&with_policy(CM, &request_of_sizes(&[6; 8])), &grid).unwrap();
    assert_eq!(plan.count_sites(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_flexible_job_is_on_the_best_connected_of_the_smallest_sets(
        world in world(), total in 1..45u32, min in 1..6u32,
    ) {
        prop_assume!(min <= total);
        let bounds = FlexibleBounds { min_component_size: min, max_components: Some(4), splits: vec![] };
        let [told, expected] =
            found_and_expected(FCM, RequestType::Flexible(bounds), vec![component(total)], &world);
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn a_rigid_job_is_on_no_worse_a_set_than_any_that_few_sites_would_fill(
        world in world(), parts in prop::collection::vec(5..11u32, 2..5),
    ) {
        let parts = parts.into_iter().map(component).collect();
        let [told, expected] = found_and_expected(CM, RequestType::NonFixed, parts, &world);
        prop_assert_eq!(told, expected);
    }
}
