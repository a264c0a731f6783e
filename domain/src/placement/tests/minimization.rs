//! The vectors of Cluster Minimization and its flexible form.

use std::sync::Arc;

use crate::job::spec::FlexibleBounds;
use crate::placement::testing::*;
use crate::placement::*;
use crate::units::PerMillion;

const CM: &str = "cluster-minimization";
const FCM: &str = "flexible-cluster-minimization";

fn three_sites() -> GridSnapshot {
    grid([
        open_site("C1", 18),
        open_site("C2", 15),
        open_site("C3", 12),
    ])
}

fn with_cluster_minimization(request: &PlacementRequest) -> PlacementRequest {
    with_policy(CM, request)
}

/// CM-1 to CM-4.
#[test]
fn components_fill_one_site_before_the_next_in_an_order_that_is_kept() {
    let plan = place_on_grid(
        &with_cluster_minimization(&request_of_sizes(&[8, 8, 8])),
        &three_sites(),
    )
    .unwrap();
    assert_eq!(sites_of(&plan), ["C1", "C1", "C2"]);
    let kept = grid([open_site("A", 20), open_site("B", 18), open_site("C", 16)]);
    let parts = request_of_sizes(&[10, 9, 8]);
    assert_eq!(
        sites_of(&place_on_grid(&with_cluster_minimization(&parts), &kept).unwrap()),
        ["A", "A", "B"]
    );
    assert_eq!(
        sites_of(&place_on_grid(&parts, &kept).unwrap()),
        ["A", "B", "C"],
        "worst-fit"
    );
    let equal = grid([open_site("A", 20), open_site("B", 20), open_site("C", 20)]);
    assert_eq!(
        sites_of(
            &place_on_grid(&with_cluster_minimization(&request_of_sizes(&[5])), &equal).unwrap()
        ),
        ["A"]
    );
    let short = grid([open_site("A", 20), open_site("B", 18)]);
    assert!(
        place_on_grid(
            &with_cluster_minimization(&request_of_sizes(&[19, 19])),
            &short
        )
        .is_err()
    );
}

#[test]
fn few_sites_can_fail_where_worst_fit_places() {
    let grid = grid([open_site("A", 5), open_site("B", 7)]);
    let parts = request_of_sizes(&[3, 3, 2, 2, 2]);
    assert!(place_on_grid(&with_cluster_minimization(&parts), &grid).is_err());
    assert!(place_on_grid(&parts, &grid).is_ok());
}

fn split_of(idle: &[(&str, u32)], total: u32, bounds: FlexibleBounds) -> Vec<(String, u32)> {
    let grid = grid(idle.iter().map(|(name, idle)| open_site(name, *idle)));
    match place_on_grid(&flexible_request(FCM, total, bounds), &grid) {
        Ok(plan) => shares_of(&plan)
            .into_iter()
            .map(|(at, n)| (at.to_owned(), n))
            .collect(),
        Err(_) => Vec::new(),
    }
}

/// FCM-1 to FCM-17; FCM-18 is refused at submission.
#[test]
fn a_flexible_job_is_split_over_the_fewest_sites() {
    let c = [("C1", 18), ("C2", 15), ("C3", 12)];
    let min = |min| FlexibleBounds {
        min_component_size: min,
        ..FlexibleBounds::default()
    };
    let most = |most| FlexibleBounds {
        max_components: Some(most),
        ..FlexibleBounds::default()
    };
    let splits = FlexibleBounds {
        splits: vec![vec![24], vec![12, 12], vec![8, 8, 8]],
        ..FlexibleBounds::default()
    };
    type Row<'a> = (
        &'a [(&'a str, u32)],
        u32,
        FlexibleBounds,
        &'a [(&'a str, u32)],
    );
    let rows: [Row<'_>; 17] = [
        (&c, 24, min(1), &[("C1", 18), ("C2", 6)]),
        (&c, 18, min(1), &[("C1", 18)]),
        (&c, 19, min(1), &[("C1", 18), ("C2", 1)]),
        (&c, 40, min(1), &[("C1", 18), ("C2", 15), ("C3", 7)]),
        (&c, 45, min(1), &[("C1", 18), ("C2", 15), ("C3", 12)]),
        (&c, 46, min(1), &[]),
        (&[("A", 10), ("B", 0)], 12, min(1), &[]),
        (&c, 24, min(8), &[("C1", 16), ("C2", 8)]),
        (&c, 24, min(7), &[("C1", 17), ("C2", 7)]),
        (
            &[("A", 7), ("B", 7), ("C", 7)],
            16,
            min(5),
            &[("A", 6), ("B", 5), ("C", 5)],
        ),
        (&c, 40, min(13), &[]),
        (&[("A", 12), ("B", 12)], 19, min(10), &[]),
        (&[("A", 8), ("B", 8)], 9, min(5), &[]),
        (&[("A", 12), ("B", 9)], 13, min(6), &[("A", 7), ("B", 6)]),
        (&c, 40, most(2), &[]),
        (&c, 33, most(2), &[("C1", 18), ("C2", 15)]),
        (&c, 24, splits, &[("C1", 12), ("C2", 12)]),
    ];
    for (number, (idle, total, bounds, expected)) in rows.into_iter().enumerate() {
        let found = split_of(idle, total, bounds);
        let found: Vec<(&str, u32)> = found.iter().map(|(at, n)| (at.as_str(), *n)).collect();
        assert_eq!(found, expected, "FCM-{}", number + 1);
    }
}

///
#[test]
fn sites_are_taken_in_order_of_what_the_quota_leaves() {
    let limited = |name, idle, per_mille: u32| {
        let total = crate::resources::Resources::processors(40);
        let idle = crate::resources::Resources::processors(idle);
        let quota = SiteQuota {
            share: PerMillion(per_mille * 1000),
            basis: QuotaBasis::Level,
        };
        GridSite {
            quota,
            ..site_with_resources(name, total, idle)
        }
    };
    let grid = grid([limited("A", 30, 300), limited("B", 26, 1000)]);
    let plan = place_on_grid(&flexible_request(FCM, 20, FlexibleBounds::default()), &grid).unwrap();
    assert_eq!(shares_of(&plan), [("B", 20)]);
}

#[test]
fn a_total_that_cannot_be_split_is_refused_with_what_the_sites_have() {
    let (outcome, recorder) = place_with_recorder(
        &flexible_request(FCM, 46, FlexibleBounds::default()),
        &three_sites(),
    );
    let reason = RefusalReason::NoSplit {
        total: 46,
        min: 1,
        sites: 3,
        usable: 45,
    };
    assert_eq!(outcome.unwrap_err().reason, reason);
    let refused = SiteSuitability::Refused(vec![reason]);
    assert!(
        recorder
            .verdicts
            .iter()
            .all(|verdict| verdict.outcome == refused)
    );
}

#[test]
fn other_resources_are_split_in_proportion() {
    let vector = |processors, gpus| crate::resources::Resources {
        processors,
        others: [("gpus".into(), gpus)].into(),
    };
    let grid = grid([
        site_with_resources("A", vector(20, 2), vector(20, 2)),
        site_with_resources("B", vector(20, 8), vector(20, 8)),
    ]);
    let whole = vec![ComponentRequest::of_resources(vector(20, 5))];
    let policy = crate::ids::PolicyName::new(FCM).unwrap();
    let bounds = crate::job::spec::RequestType::Flexible(FlexibleBounds::default());
    let plan = place_on_grid(&PlacementRequest::new(policy, bounds, true, whole), &grid).unwrap();
    assert_eq!(
        shares_of(&plan),
        [("B", 20)],
        "at A there is a gpu for every tenth only"
    );
}

const LINKS: [(&str, &str, u64); 12] = [
    ("A", "B", 10),
    ("B", "A", 10),
    ("A", "C", 10),
    ("C", "A", 10),
    ("A", "D", 10),
    ("D", "A", 10),
    ("B", "C", 10),
    ("C", "B", 10),
    ("B", "D", 10),
    ("D", "B", 10),
    ("C", "D", 1000),
    ("D", "C", 1000),
];

/// Of the sets of two sites the one that is connected a hundred times faster.
#[test]
fn of_equally_few_sites_those_are_combined_that_are_well_connected() {
    let sites = [
        open_site("A", 20),
        open_site("B", 18),
        open_site("C", 16),
        open_site("D", 14),
    ];
    let grid = grid_with(sites, &[], &LINKS);
    let parts = request_of_sizes(&[14, 14]);
    assert_eq!(
        sites_of(&place_on_grid(&with_cluster_minimization(&parts), &grid).unwrap()),
        ["A", "B"]
    );
    let near = with_policy("connected-cluster-minimization", &parts);
    assert_eq!(sites_of(&place_on_grid(&near, &grid).unwrap()), ["C", "D"]);
    let near = flexible_request(
        "connected-flexible-cluster-minimization",
        30,
        FlexibleBounds::default(),
    );
    assert_eq!(
        shares_of(&place_on_grid(&near, &grid).unwrap()),
        [("C", 16), ("D", 14)]
    );
    let more = flexible_request(
        "connected-flexible-cluster-minimization",
        31,
        FlexibleBounds::default(),
    );
    assert_eq!(
        shares_of(&place_on_grid(&more, &grid).unwrap()).len(),
        2,
        "C and D have 30 only"
    );
}

/// Far away and fast, or near and slow: what a message takes over the link decides.
#[test]
fn latency_counts_beside_bandwidth_and_the_more_the_smaller_messages_are() {
    let link = |from: &str, to: &str, mbit: u64, latency_ms| SiteLink {
        from: site_name(from),
        to: site_name(to),
        bandwidth: crate::units::BitsPerSecond(mbit * MBIT),
        upload: crate::units::BitsPerSecond(mbit * MBIT),
        latency: crate::units::DurationMs(latency_ms).into(),
    };
    let both = |a: &str, b: &str, mbit, latency_ms| {
        [link(a, b, mbit, latency_ms), link(b, a, mbit, latency_ms)]
    };
    let links = || {
        both("A", "B", 1_000, 50)
            .into_iter()
            .chain(both("C", "D", 100, 1))
    };
    let sites = || {
        [
            open_site("A", 20),
            open_site("B", 20),
            open_site("C", 20),
            open_site("D", 20),
        ]
    };
    let chosen = |message: u64| {
        let network = SiteNetwork::new(links(), crate::units::Bytes(message));
        let replicas = std::collections::BTreeMap::new();
        let grid = GridSnapshot::new(sites(), network.into(), Arc::new(replicas));
        let near = with_policy(
            "connected-cluster-minimization",
            &request_of_sizes(&[14, 14]),
        );
        sites_of(&place_on_grid(&near, &grid).unwrap())
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    // 80 ms and 8 ms of bits a megabyte: 58 ms beside 81; a tenth of it: 51 beside 9.
    assert_eq!(chosen(1_000_000), ["A", "B"]);
    assert_eq!(chosen(100_000), ["C", "D"]);
}
