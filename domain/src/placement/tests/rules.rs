//! By which rule a plan was made.

use std::sync::Arc;

use crate::content::Content;
use crate::ids::JobId;
use crate::job::spec::{FlexibleBounds, Priority, RequestType};
use crate::placed::{PlacementOrigin, PlacementRule, ReasonCode};
use crate::placement::testing::*;
use crate::placement::*;
use crate::queue::{
    PlacementQueues, QueueParameters, ScanSliceBudget, ScanStep, ScanTrigger, WaitingJob,
};
use crate::resources::Resources;
use crate::units::Timestamp;

fn placed_site_and_rule(
    request: &PlacementRequest,
    grid: &GridSnapshot,
) -> (String, PlacementRule) {
    let by = place_on_grid(request, grid).unwrap().placed_by(None);
    (by.policy.to_string(), by.rule)
}

fn component_reading(size: u32, input: Content) -> ComponentRequest {
    ComponentRequest {
        inputs: [input].into(),
        ..ComponentRequest::of_resources(Resources::processors(size))
    }
}

#[test]
fn a_plan_names_its_policy_and_the_rule_that_chose() {
    let three = grid([open_site("A", 20), open_site("B", 18), open_site("C", 16)]);
    let parts = request_of_sizes(&[10, 9, 8]);
    let splits = FlexibleBounds {
        splits: vec![vec![30], vec![15, 15]],
        ..FlexibleBounds::default()
    };
    let free = FlexibleBounds::default();
    let rows = [
        (parts.clone(), "worst-fit", PlacementRule::MostLeft),
        (
            with_policy("close-to-files", &parts),
            "close-to-files",
            PlacementRule::MostLeft,
        ),
        (
            with_policy("cluster-minimization", &parts),
            "cluster-minimization",
            PlacementRule::FirstInOrder,
        ),
        (
            with_policy("connected-cluster-minimization", &parts),
            "connected-cluster-minimization",
            PlacementRule::BestConnected,
        ),
        (
            flexible_request("flexible-cluster-minimization", 30, free.clone()),
            "flexible-cluster-minimization",
            PlacementRule::LargestFilled,
        ),
        (
            flexible_request("flexible-cluster-minimization", 30, splits),
            "flexible-cluster-minimization",
            PlacementRule::FirstSplit,
        ),
        (
            flexible_request("connected-flexible-cluster-minimization", 30, free),
            "connected-flexible-cluster-minimization",
            PlacementRule::BestConnected,
        ),
    ];
    for (request, policy, rule) in rows {
        assert_eq!(
            placed_site_and_rule(&request, &three),
            (policy.to_owned(), rule)
        );
    }
}

#[test]
fn close_to_files_tells_whether_it_runs_where_the_file_is_or_brings_it() {
    let at = |idle: u32| {
        let sites = [open_site("A", idle), open_site("B", 30)];
        grid_with(
            sites,
            &[(content_of_gigabytes(1, 4), "A")],
            &[("A", "B", 100)],
        )
    };
    let one = with_policy(
        "close-to-files",
        &request(vec![component_reading(8, content_of_gigabytes(1, 4))]),
    );
    assert_eq!(placed_site_and_rule(&one, &at(8)).1, PlacementRule::AtFiles);
    assert_eq!(
        placed_site_and_rule(&one, &at(4)).1,
        PlacementRule::NearestPair
    );
    let two = vec![
        component_reading(8, content_of_gigabytes(1, 4)),
        component_reading(8, content_of_gigabytes(1, 4)),
    ];
    let two = with_policy("close-to-files", &request(two));
    assert_eq!(
        placed_site_and_rule(&two, &at(8)).1,
        PlacementRule::NearestPair,
        "one of them waits for the file"
    );
}

#[test]
fn a_named_site_is_a_rule_of_its_own() {
    let mut part = ComponentRequest::of_resources(Resources::processors(4));
    part.site = Some(site_name("B"));
    let named = PlacementRequest::new(worst_fit(), RequestType::Fixed, true, vec![part]);
    assert_eq!(
        placed_site_and_rule(&named, &grid([open_site("A", 9), open_site("B", 5)])).1,
        PlacementRule::NamedSite
    );
}

/// What is kept of the first job that a scan of these sites places.
fn placement_origin_of_scan(
    request: &PlacementRequest,
    grid: GridSnapshot,
    history: SitePairHistory,
) -> PlacementOrigin {
    let mut queues = PlacementQueues::new(QueueParameters::default(), history);
    queues.insert(WaitingJob {
        job: JobId(1),
        priority: Priority::High,
        entered: Timestamp(0),
        not_before: Timestamp(0),
        frozen: false,
        max_tries: None,
        request: Arc::new(request.clone()),
    });
    let grid = Arc::new(grid);
    let mut scan = queues.begin_scan(ScanTrigger::Event, Arc::clone(&grid), Timestamp(1));
    let ScanStep::Placed(offer) = queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX))
    else {
        panic!("it fits")
    };
    // What was looked at is left as the plan has it.
    let mut expected = RemainingResources::of_grid(&grid);
    for (site, used) in request.resources_of_plan(&offer.plan) {
        expected.take_component(grid.index_of(&site).unwrap(), &used);
    }
    assert_eq!(scan.remaining(), &expected);
    offer.by
}

fn dominant_refusal_of_scan(
    request: &PlacementRequest,
    grid: GridSnapshot,
) -> Option<(ReasonCode, u32)> {
    placement_origin_of_scan(request, grid, SitePairHistory::All)
        .refused
        .map(|refused| (refused.code, refused.sites))
}

fn closed_site(name: &str, hindrance: PlacementHindrance) -> GridSite {
    GridSite {
        acceptance: PlacementAcceptance::Closed(hindrance),
        ..open_site(name, 99)
    }
}

#[test]
fn what_kept_most_of_the_refused_sites_is_kept_with_the_choice() {
    let sites = || {
        let closed = [
            closed_site("B", PlacementHindrance::Drained),
            closed_site("C", PlacementHindrance::Drained),
        ];
        closed
            .into_iter()
            .chain([open_site("A", 9), open_site("D", 3)])
    };
    assert_eq!(
        dominant_refusal_of_scan(&request_of_sizes(&[4]), grid(sites())),
        Some((ReasonCode::Drained, 2))
    );
    let fuller = sites().chain([open_site("E", 1), open_site("F", 0)]);
    let fuller = dominant_refusal_of_scan(&request_of_sizes(&[4]), grid(fuller));
    assert_eq!(fuller, Some((ReasonCode::NotEnoughIdle, 3)));
    let equal = sites().chain([open_site("E", 1)]);
    let equal = dominant_refusal_of_scan(&request_of_sizes(&[4]), grid(equal));
    assert_eq!(
        equal,
        Some((ReasonCode::NotEnoughIdle, 2)),
        "the nearest to a placement"
    );
}

#[test]
fn where_every_site_would_do_none_was_refused() {
    assert_eq!(
        dominant_refusal_of_scan(
            &request_of_sizes(&[4]),
            grid([open_site("A", 9), open_site("B", 9)])
        ),
        None
    );
    // B has too little for the second only because the first is there.
    let both = grid([open_site("A", 5), open_site("B", 5)]);
    assert_eq!(
        dominant_refusal_of_scan(&request_of_sizes(&[4, 4]), both),
        None
    );
}

#[test]
fn a_component_that_one_site_alone_refuses_is_told_of_too() {
    let mut avoiding = ComponentRequest::of_resources(Resources::processors(2));
    avoiding.avoid = [site_name("C")].into();
    let parts = vec![
        ComponentRequest::of_resources(Resources::processors(4)),
        avoiding,
    ];
    let three = grid([open_site("A", 9), open_site("B", 9), open_site("C", 8)]);
    assert_eq!(
        dominant_refusal_of_scan(&request(parts), three),
        Some((ReasonCode::Avoided, 1))
    );
}

#[test]
fn what_is_refused_is_judged_by_what_the_policy_knows() {
    let sites = || [open_site("A", 2), open_site("B", 30), open_site("C", 30)];
    let links = [("A", "B", 100), ("A", "C", 100)];
    let files = || grid_with(sites(), &[(content_of_gigabytes(1, 4), "A")], &links);
    let one = request(vec![component_reading(8, content_of_gigabytes(1, 4))]);
    assert_eq!(
        dominant_refusal_of_scan(&one, files()),
        Some((ReasonCode::NotEnoughIdle, 1))
    );
    let known = [(site_name("B"), site_name("A"))];
    let by = placement_origin_of_scan(
        &with_policy("close-to-files", &one),
        files(),
        SitePairHistory::Pairs(known.into()),
    );
    let found = by.refused.unwrap();
    assert_eq!((found.code, found.sites), (ReasonCode::NotEnoughIdle, 1));
    let empty = grid_with(
        [open_site("B", 30), open_site("C", 30)],
        &[(content_of_gigabytes(1, 4), "B")],
        &[("B", "C", 9)],
    );
    let by = placement_origin_of_scan(
        &with_policy("close-to-files", &one),
        empty,
        SitePairHistory::Pairs(Default::default()),
    );
    let found = by.refused.unwrap();
    assert_eq!((found.code, found.sites), (ReasonCode::NotInHistory, 1));
}

#[test]
fn of_a_flexible_request_the_smallest_component_is_what_sites_refuse() {
    let bounds = FlexibleBounds {
        min_component_size: 4,
        ..FlexibleBounds::default()
    };
    let total = flexible_request("flexible-cluster-minimization", 20, bounds);
    let sites = grid([
        open_site("A", 12),
        open_site("B", 10),
        open_site("C", 3),
        open_site("D", 2),
    ]);
    assert_eq!(
        dominant_refusal_of_scan(&total, sites),
        Some((ReasonCode::NotEnoughIdle, 2))
    );
}
