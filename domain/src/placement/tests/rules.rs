//! By which rule a plan was made.

use crate::job::spec::{Content, Flexible, Request};
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;

fn ruled(request: &PlacementRequest, grid: &GridSnapshot) -> (String, Rule) {
    let by = placed(request, grid).unwrap().placed_by();
    (by.policy.to_string(), by.rule)
}

fn reading(size: u32, input: Content) -> ComponentRequest {
    ComponentRequest {
        inputs: [input].into(),
        ..ComponentRequest::of_resources(Resources::processors(size))
    }
}

#[test]
fn a_plan_names_its_policy_and_the_rule_that_chose() {
    let three = grid([site("A", 20), site("B", 18), site("C", 16)]);
    let parts = sizes(&[10, 9, 8]);
    let (splits, free) = (
        Flexible { splits: vec![vec![30], vec![15, 15]], ..Flexible::default() },
        Flexible::default(),
    );
    let rows = [
        (parts.clone(), "worst-fit", Rule::MostLeft),
        (under("close-to-files", &parts), "close-to-files", Rule::MostLeft),
        (under("cluster-minimization", &parts), "cluster-minimization", Rule::FirstInOrder),
        (
            under("connected-cluster-minimization", &parts),
            "connected-cluster-minimization",
            Rule::BestConnected,
        ),
        (
            flexible("flexible-cluster-minimization", 30, free.clone()),
            "flexible-cluster-minimization",
            Rule::LargestFilled,
        ),
        (
            flexible("flexible-cluster-minimization", 30, splits),
            "flexible-cluster-minimization",
            Rule::FirstSplit,
        ),
        (
            flexible("connected-flexible-cluster-minimization", 30, free),
            "connected-flexible-cluster-minimization",
            Rule::BestConnected,
        ),
    ];
    for (request, policy, rule) in rows {
        assert_eq!(ruled(&request, &three), (policy.to_owned(), rule));
    }
}

#[test]
fn close_to_files_tells_whether_it_runs_where_the_file_is_or_brings_it() {
    let at = |idle: u32| {
        let sites = [site("A", idle), site("B", 30)];
        grid_with(sites, &[(file(1, 4), "A")], &[("A", "B", 100)])
    };
    let one = under("close-to-files", &request(vec![reading(8, file(1, 4))]));
    assert_eq!(ruled(&one, &at(8)).1, Rule::AtFiles);
    assert_eq!(ruled(&one, &at(4)).1, Rule::NearestPair);
    let two = vec![reading(8, file(1, 4)), reading(8, file(1, 4))];
    let two = under("close-to-files", &request(two));
    assert_eq!(ruled(&two, &at(8)).1, Rule::NearestPair, "one of them waits for the file");
}

#[test]
fn a_named_site_is_a_rule_of_its_own() {
    let mut part = ComponentRequest::of_resources(Resources::processors(4));
    part.site = Some(site_name("B"));
    let named = PlacementRequest::new(worst_fit(), Request::Fixed, true, vec![part]);
    assert_eq!(ruled(&named, &grid([site("A", 9), site("B", 5)])).1, Rule::NamedSite);
}
