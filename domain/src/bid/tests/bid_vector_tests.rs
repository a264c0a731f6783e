//! The worked examples: three sites, and a job whose data is at one of them.

use super::super::Dimension::{Compute, Data, Disk, Memory, Potential};
use super::super::MapAxis;
use super::super::site_bid::map_point;
use super::*;

fn distances(need: &BidNeed, sites: &[SiteSupply]) -> Vec<f64> {
    compute_bids(need, sites)
        .iter()
        .map(|bid| bid.distance)
        .collect()
}

fn assert_near(found: &[f64], expected: &[f64]) {
    assert!(
        found
            .iter()
            .zip(expected)
            .all(|(found, expected): (&f64, &f64)| is_near(*found, *expected)),
        "{found:?} instead of {expected:?}"
    );
}

#[test]
fn mrs_1_the_nearest_of_three_sites_lacks_some_memory_and_is_well_connected() {
    let bids = compute_bids(&example_need(150), &example_sites());
    let expected = [
        [0.6, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.25, 0.0, 0.2, 0.4],
        [0.0, 0.0, 0.1, 0.666_667, 0.48],
    ];
    for (bid, expected) in bids.iter().zip(&expected) {
        let of = [Compute, Memory, Disk, Potential, Data].map(|dimension| bid.index(dimension));
        assert_near(&of, expected);
    }
    assert_near(
        &bids.iter().map(|bid| bid.x).collect::<Vec<_>>(),
        &[0.6, 0.320_156, 0.674_125],
    );
    assert_near(
        &bids.iter().map(|bid| bid.y).collect::<Vec<_>>(),
        &[0.0, 0.4, 0.48],
    );
    let distances: Vec<f64> = bids.iter().map(|bid| bid.distance).collect();
    assert_near(&distances, &[0.6, 0.512_348, 0.827_553]);
    assert_eq!(site_names_by_distance(&bids), ["S2", "S1", "S3"]);
    let farthest: Vec<_> = bids.iter().map(|bid| bid.farthest).collect();
    assert_eq!(farthest, [Some(Compute), Some(Data), Some(Potential)]);
}

#[test]
fn mrs_2_with_half_the_weight_on_power_the_slow_site_with_the_data_wins() {
    let need = with_weight(example_need(150), "compute", 0.5);
    assert_near(
        &distances(&need, &example_sites()),
        &[0.3, 0.512_348, 0.827_553],
    );
    assert_eq!(
        site_names_by_distance(&compute_bids(&need, &example_sites())),
        ["S1", "S2", "S3"]
    );
}

#[test]
fn mrs_3_without_the_potential_the_badly_connected_site_comes_second() {
    let need = with_weight(example_need(150), "potential", 0.0);
    assert_near(
        &distances(&need, &example_sites()),
        &[0.6, 0.471_699, 0.490_306],
    );
    assert_eq!(
        site_names_by_distance(&compute_bids(&need, &example_sites())),
        ["S2", "S3", "S1"]
    );
}

#[test]
fn mrs_4_the_site_with_the_data_is_nearest_where_links_are_slow() {
    let mut sites = example_sites();
    let routes = [
        routes_over_link(20, 90),
        routes_over_link(30, 25),
        local_routes(),
    ];
    sites
        .iter_mut()
        .zip(routes)
        .for_each(|(site, routes)| site.routes = routes);
    let found = compute_bids(&example_need(50), &sites);
    assert_near(
        &found.iter().map(|bid| bid.y).collect::<Vec<_>>(),
        &[1.2, 0.96, 0.0],
    );
    assert_near(
        &distances(&example_need(50), &sites),
        &[1.341_641, 0.992_018, 0.1],
    );
    assert_eq!(site_names_by_distance(&found), ["S3", "S2", "S1"]);
}

#[test]
fn mrs_5_what_is_not_asked_for_is_not_lacking() {
    let need = BidNeed {
        amounts: BidAmounts::default(),
        ..example_need(0)
    };
    let empty = example_site(1, 0, 0, 0, local_routes());
    assert_eq!(compute_bid(&need, &empty).unwrap().distance, 0.0);
}

#[test]
fn mrs_5_a_third_axis_adds_to_the_distance_and_to_neither_x_nor_y() {
    let second = &compute_bids(&example_need(150), &example_sites())[1];
    let known = [Compute, Memory, Disk, Potential, Data];
    let on_axes = known.map(|dimension| (dimension.axis(), second.index(dimension)));
    let (x, y, distance) = map_point(on_axes.into_iter().chain([(MapAxis::Further, 0.3)]));
    assert_near(&[x, y, distance], &[0.320_156, 0.4, 0.593_717]);
}

#[test]
fn mrs_6_a_site_gives_what_is_free_and_bids_by_what_is_left_of_it() {
    let asked = BidAmounts {
        power: Mflops(6_000),
        ..BidAmounts::default()
    };
    let need = BidNeed {
        amounts: asked,
        ..example_need(0)
    };
    let mut free = example_site(10, 0, 0, 0, Vec::new());
    let first = compute_bid(&need, &free).unwrap();
    assert_eq!((first.distance, first.amounts.power), (0.0, Mflops(6_000)));
    free.free.processors -= 6;
    let second = compute_bid(&need, &free).unwrap();
    assert!(is_near(second.index(Compute), 0.333_333));
    assert_eq!(second.amounts.power, Mflops(4_000), "no more than is free");
    free.free.processors -= 4;
    assert_eq!(compute_bid(&need, &free), Err(BidRefusal::NothingFree));
}
