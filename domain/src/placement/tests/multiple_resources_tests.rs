//! The policy by which sites bid for jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::bid::{Bid, BidRefusal, BidTerms};
use crate::ids::ComponentIndex;
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::placed::PlacementRule;
use crate::placement::testing::*;
use crate::placement::{
    BandwidthKind, BidBandwidthChoice, ComponentRequest, GridSite, GridSnapshot, PlacementRequest,
    RefusalReason, SiteLink, SiteNetwork, check_placeable,
};
use crate::resources::Resources;
use crate::units::{BitsPerSecond, DurationMs, DurationUs, Mflops};

const MRS: &str = "mrs";

fn resources_of(processors: u32, memory: u64, disk: u64) -> Resources {
    let others = [("memory_mb", memory * 1_000), ("disk_mb", disk * 1_000)];
    let others = others.into_iter().filter(|(_, count)| *count > 0);
    Resources {
        processors,
        others: others.map(|(name, count)| (name.into(), count)).collect(),
    }
}

/// The sites of the worked examples: as many processors free as GFLOPS, one each.
fn example_sites() -> [GridSite; 3] {
    let large = resources_of(1_000, 1_000, 1_000);
    [
        ("S1", 40, 64, 400),
        ("S2", 100, 48, 200),
        ("S3", 120, 128, 180),
    ]
    .map(|(name, processors, memory, disk)| GridSite {
        power_per_processor: Some(Mflops(1_000)),
        ..site_with_resources(name, large.clone(), resources_of(processors, memory, disk))
    })
}

const LINKS: [(&str, &str, u64); 6] = [
    ("S1", "S2", 60),
    ("S1", "S3", 50),
    ("S2", "S1", 80),
    ("S2", "S3", 25),
    ("S3", "S1", 20),
    ("S3", "S2", 25),
];

fn example_grid_with_data_at(site: &str) -> GridSnapshot {
    grid_with(
        example_sites(),
        &[(content_of_gigabytes(1, 30), site)],
        &LINKS,
    )
}

fn component_reading_data(resources: Resources, gflops: u64) -> ComponentRequest {
    let inputs = BTreeSet::from([content_of_gigabytes(1, 30)]);
    ComponentRequest {
        inputs,
        gflops,
        ..ComponentRequest::of_resources(resources)
    }
}

fn rigid_request(components: Vec<ComponentRequest>) -> PlacementRequest {
    with_policy(MRS, &request(components))
}

fn bids_by_site(
    request: &PlacementRequest,
    grid: &GridSnapshot,
) -> BTreeMap<String, Result<Bid, BidRefusal>> {
    let bids = place_with_recorder(request, grid).1.bids;
    bids.into_iter()
        .map(|bid| (bid.site.to_string(), bid.answer))
        .collect()
}

#[test]
fn the_nearest_site_that_holds_the_component_wins() {
    let small = rigid_request(vec![component_reading_data(Resources::processors(30), 0)]);
    assert_eq!(
        sites_of(&place_on_grid(&small, &example_grid_with_data_at("S1")).unwrap()),
        ["S1"]
    );
    assert_eq!(
        sites_of(&place_on_grid(&small, &example_grid_with_data_at("S3")).unwrap()),
        ["S3"]
    );
    let large = rigid_request(vec![component_reading_data(Resources::processors(90), 0)]);
    let plan = place_on_grid(&large, &example_grid_with_data_at("S1")).unwrap();
    assert_eq!(sites_of(&plan), ["S2"], "the site with the data has 40");
    assert_eq!(plan.rule, PlacementRule::Nearest);
}

#[test]
fn each_site_answers_with_its_place_on_the_map() {
    let request = rigid_request(vec![component_reading_data(resources_of(100, 64, 200), 0)]);
    let (outcome, _) = place_with_recorder(&request, &example_grid_with_data_at("S3"));
    assert!(outcome.is_err(), "no site holds all of it");
    let answers = bids_by_site(&request, &example_grid_with_data_at("S3"));
    let of = |site: &str| answers[site].clone().unwrap();
    assert_eq!(of("S1").x, 0.6);
    assert_eq!((of("S2").x, of("S3").y), (0.25, 0.0));
    // 240,000 Mbit over 20 Mbit/s, in an hour.
    assert!(
        (of("S1").y - 12_000.0 / 3_600.0).abs() < 1e-9,
        "{:?}",
        of("S1")
    );
}

#[test]
fn what_the_nearest_has_no_room_for_goes_where_the_data_costs_least() {
    // A job of 100 is nearest to S2, which data reaches in less time than S3; then comes S1,
    // where it is.
    let part = |processors| component_reading_data(Resources::processors(processors), 0);
    let sizes = |sizes: &[u32]| rigid_request(sizes.iter().map(|&size| part(size)).collect());
    let run_time = DurationMs::from_secs(10_000);
    let place = |job: PlacementRequest| {
        let job = job.with_bid_terms(BidTerms {
            run_time,
            ..BidTerms::default()
        });
        place_on_grid(&job, &example_grid_with_data_at("S1"))
    };
    let alone = place(sizes(&[60, 40])).unwrap();
    assert_eq!(sites_of(&alone), ["S2", "S2"]);
    let more = place(sizes(&[60, 40, 30])).unwrap();
    assert_eq!(sites_of(&more), ["S2", "S2", "S1"]);
    let most = place(sizes(&[60, 40, 30, 20])).unwrap();
    assert_eq!(sites_of(&most), ["S2", "S2", "S1", "S3"]);
}

#[test]
fn a_flexible_job_is_filled_in_from_the_nearest_site_on() {
    let job = |total: u32, bounds: FlexibleBounds| {
        let request = RequestType::Flexible(bounds);
        let whole = component_reading_data(Resources::processors(total), 0);
        PlacementRequest::new(MRS.parse().unwrap(), request, true, vec![whole])
    };
    let shares = |total, bounds| {
        let plan = place_on_grid(&job(total, bounds), &example_grid_with_data_at("S3")).unwrap();
        shares_of(&plan)
            .into_iter()
            .map(|(at, size)| (at.to_owned(), size))
            .collect::<Vec<_>>()
    };
    let named = |all: &[(&str, u32)]| -> Vec<(String, u32)> {
        all.iter()
            .map(|(at, size)| ((*at).to_owned(), *size))
            .collect()
    };
    let free = FlexibleBounds::default;
    assert_eq!(shares(120, free()), named(&[("S3", 120)]));
    assert_eq!(shares(130, free()), named(&[("S3", 120), ("S2", 10)]));
    let large = FlexibleBounds {
        min_component_size: 41,
        ..free()
    };
    assert_eq!(
        shares(130, large),
        named(&[("S3", 89), ("S2", 41)]),
        "S1 has no 41"
    );
    assert_eq!(
        shares(230, free()),
        named(&[("S3", 120), ("S2", 100), ("S1", 10)])
    );
    let listed = FlexibleBounds {
        splits: vec![vec![130], vec![65, 65]],
        ..free()
    };
    assert_eq!(shares(130, listed), named(&[("S3", 65), ("S2", 65)]));
}

#[test]
fn a_job_that_asks_for_gflops_goes_where_its_processors_reach_them() {
    let mut all = example_sites();
    all[1].power_per_processor = Some(Mflops(4_000));
    all[2].power_per_processor = None;
    let fast = rigid_request(vec![ComponentRequest {
        gflops: 40,
        ..component(10)
    }]);
    let plan = place_on_grid(&fast, &grid(all.clone())).unwrap();
    assert_eq!(sites_of(&plan), ["S2"]);
    let faster = rigid_request(vec![ComponentRequest {
        gflops: 41,
        ..component(10)
    }]);
    let refusal = place_on_grid(&faster, &grid(all.clone())).unwrap_err();
    let needs = |largest| RefusalReason::TooSmall {
        resource: "gflops".into(),
        needed: 41,
        largest,
    };
    assert_eq!(
        (refusal.component, refusal.reason),
        (ComponentIndex(0), needs(40))
    );
    assert!(check_placeable(&faster, &grid(all.clone())).is_err());
    let answers = bids_by_site(&fast, &grid(all.clone()));
    assert_eq!(answers["S3"], Err(BidRefusal::NoGflops));
    let only = place_on_grid(&fast, &grid([all[2].clone()])).unwrap_err();
    assert_eq!(only.reason, RefusalReason::NoGflops { needed: 40 });
    let words = "needs 40 GFLOPS; those of a processor are not configured there \
                 (gflops_per_processor)";
    assert_eq!(only.reason.to_string(), words);
}

#[test]
fn a_site_that_the_data_cannot_reach_is_no_candidate_and_says_so() {
    let grid = grid_with(
        example_sites(),
        &[(content_of_gigabytes(1, 30), "S1")],
        &LINKS[1..],
    );
    let job = rigid_request(vec![component_reading_data(Resources::processors(100), 0)]);
    assert_eq!(sites_of(&place_on_grid(&job, &grid).unwrap()), ["S3"]);
    assert_eq!(
        bids_by_site(&job, &grid)["S2"],
        Err(BidRefusal::NoBandwidth)
    );
}

/// Links of the worked examples, where some were measured: S3 sends half of what it did.
fn partly_measured_grid(count: usize, bids: BidBandwidthChoice) -> GridSnapshot {
    let link = |(from, to, mbit): (&str, &str, u64), part| {
        let rate = BitsPerSecond(mbit * MBIT / part);
        let from = site_name(from);
        let to = site_name(to);
        SiteLink {
            from,
            to,
            bandwidth: rate,
            upload: rate,
            latency: DurationUs(0),
        }
    };
    let configured = LINKS.map(|of| link(of, 1));
    let mut network = SiteNetwork::new(configured, crate::placement::network::DEFAULT_MESSAGE);
    for of in LINKS.iter().rev().take(count) {
        network.set_link(&link(*of, if of.0 == "S3" { 2 } else { 1 }), true);
    }
    let replicas = BTreeMap::from([(
        content_of_gigabytes(1, 30).digest,
        BTreeSet::from([site_name("S3")]),
    )]);
    GridSnapshot::new(
        example_sites(),
        Arc::new(network.with_bid_bandwidths(bids)),
        Arc::new(replicas),
    )
}

#[test]
fn all_bandwidths_of_a_round_are_measured_or_all_are_as_configured() {
    let of = |count, bids| {
        let grid = partly_measured_grid(count, bids);
        let answers = bids_by_site(
            &rigid_request(vec![component_reading_data(Resources::processors(10), 0)]),
            &grid,
        );
        let seconds = answers["S1"].as_ref().unwrap().y * 3_600.0;
        (
            grid.bid_bandwidth_kind(),
            grid.total_sending_bandwidth(2).0 / MBIT,
            seconds.round() as u64,
        )
    };
    let nominal = (BandwidthKind::Nominal, 45, 12_000);
    assert_eq!(of(0, BidBandwidthChoice::OneKind), nominal);
    assert_eq!(
        of(5, BidBandwidthChoice::OneKind),
        nominal,
        "one was never measured"
    );
    let all = (BandwidthKind::Measured, 22, 24_000);
    assert_eq!(of(6, BidBandwidthChoice::OneKind), all);
    assert_eq!(
        of(5, BidBandwidthChoice::Latest),
        (BandwidthKind::Mixed, 22, 24_000)
    );
    assert_eq!(of(6, BidBandwidthChoice::Latest), all);
}

#[test]
fn a_measurement_that_is_too_old_leaves_no_round_with_two_kinds() {
    let grid = |is_measured| {
        let links = LINKS.map(|(from, to, _)| (site_name(from), site_name(to), BitsPerSecond(9)));
        let mut network = SiteNetwork::from_links(links);
        let bandwidth = BitsPerSecond(7);
        let latency = DurationUs(0);
        for (from, to, _) in LINKS {
            let from = site_name(from);
            let to = site_name(to);
            network.set_link(
                &SiteLink {
                    from,
                    to,
                    bandwidth,
                    upload: bandwidth,
                    latency,
                },
                true,
            );
        }
        let from = site_name("S1");
        let to = site_name("S2");
        let link = SiteLink {
            from,
            to,
            bandwidth,
            upload: bandwidth,
            latency,
        };
        network.set_link(&link, is_measured);
        GridSnapshot::new(
            example_sites(),
            Arc::new(network),
            Arc::new(BTreeMap::new()),
        )
    };
    assert_eq!(
        (
            grid(true).bid_bandwidth_kind(),
            grid(true).total_sending_bandwidth(1).0
        ),
        (BandwidthKind::Measured, 14)
    );
    assert_eq!(
        (
            grid(false).bid_bandwidth_kind(),
            grid(false).total_sending_bandwidth(1).0
        ),
        (BandwidthKind::Nominal, 18)
    );
}

#[test]
fn a_site_sends_what_it_can_even_where_the_other_receives_less() {
    let network = SiteNetwork::new(
        LINKS.map(|(from, to, mbit): (&str, &str, u64)| {
            let from = site_name(from);
            let to = site_name(to);
            let bandwidth = BitsPerSecond(mbit * MBIT);
            SiteLink {
                from,
                to,
                bandwidth,
                upload: BitsPerSecond(100 * MBIT),
                latency: DurationUs(0),
            }
        }),
        crate::placement::network::DEFAULT_MESSAGE,
    );
    let grid = GridSnapshot::new(
        example_sites(),
        Arc::new(network),
        Arc::new(BTreeMap::new()),
    );
    assert_eq!(grid.total_sending_bandwidth(0).0 / MBIT, 200);
    assert_eq!(grid.bid_bandwidth(0, 1).0 / MBIT, 60);
}

#[test]
fn each_site_is_told_what_brings_it_nearer_and_if_it_lacks_gflops() {
    let mut all = example_sites();
    all[1].power_per_processor = None;
    let job = rigid_request(vec![component_reading_data(resources_of(100, 66, 180), 0)]);
    let bids = place_with_recorder(
        &job,
        &grid_with(all, &[(content_of_gigabytes(1, 30), "S3")], &LINKS),
    )
    .1
    .bids;
    let lacks: Vec<bool> = bids.iter().map(|bid| bid.lacks_gflops).collect();
    assert_eq!(lacks, [false, true, false], "it takes part all the same");
    let nearer: Vec<_> = bids.iter().map(|bid| bid.nearer.as_deref()).collect();
    // An hour's run waits for hours at the others; S3 is at the origin.
    let copy = "a copy of the data (30.0 GB)";
    assert_eq!(nearer, [Some(copy), Some(copy), None]);
    let without = rigid_request(vec![ComponentRequest::of_resources(resources_of(
        100, 66, 180,
    ))]);
    let bids = place_with_recorder(&without, &grid(example_sites())).1.bids;
    let nearer: Vec<_> = bids.iter().map(|bid| bid.nearer.as_deref()).collect();
    let memory = "18.0 GB more free memory";
    assert_eq!(
        nearer,
        [Some("60 more free processors"), Some(memory), None]
    );
}
