//! Vectors, errors and properties of bids.

mod bid_property_tests;
mod bid_vector_tests;
mod cases;

use super::{
    Bid, BidAmounts, BidNeed, BidRefusal, BidTerms, DimensionWeight, DimensionWeights, InputRoute,
    SiteSupply, compute_bid, rank_bids,
};
use crate::units::{BitsPerSecond, Bytes, DurationMs, Mflops};

const MBIT: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;

fn megabits_per_second(rate: u64) -> BitsPerSecond {
    BitsPerSecond(rate * MBIT)
}

/// Data of 30 GB that comes over a link with these figures, in Mbit/s.
fn routes_over_link(upload: u64, download: u64) -> Vec<InputRoute> {
    let upload = megabits_per_second(upload);
    let download = megabits_per_second(download);
    vec![InputRoute::From {
        site: 0,
        size: Bytes(30 * GB),
        upload,
        download,
    }]
}

fn local_routes() -> Vec<InputRoute> {
    vec![InputRoute::Here(Bytes(30 * GB))]
}

/// 100 GFLOPS, 64 GB of memory, 200 GB of disk, for 10,000 s.
fn example_need(source_potential: u64) -> BidNeed {
    BidNeed {
        amounts: BidAmounts {
            processors: 0,
            power: Mflops(100_000),
            memory_mb: 64_000,
            disk_mb: 200_000,
        },
        source_potential: megabits_per_second(source_potential),
        terms: BidTerms {
            run_time: DurationMs::from_secs(10_000),
            ..BidTerms::default()
        },
    }
}

fn with_weight(need: BidNeed, dimension: &str, factor: f64) -> BidNeed {
    let weights =
        DimensionWeights::from_named([(dimension, DimensionWeight::new(factor).unwrap())]).unwrap();
    BidNeed {
        terms: BidTerms {
            weights,
            ..need.terms
        },
        ..need
    }
}

/// A site with so many GFLOPS, one each processor, and so many GB of memory and disk.
fn example_site(
    gflops: u64,
    memory: u64,
    disk: u64,
    potential: u64,
    routes: Vec<InputRoute>,
) -> SiteSupply {
    SiteSupply {
        free: BidAmounts {
            processors: gflops,
            power: Mflops(0),
            memory_mb: memory * 1_000,
            disk_mb: disk * 1_000,
        },
        power_per_processor: Some(Mflops(1_000)),
        potential: megabits_per_second(potential),
        routes,
    }
}

/// S1, S2 and S3, the data at S1.
fn example_sites() -> [SiteSupply; 3] {
    [
        example_site(40, 64, 400, 150, local_routes()),
        example_site(100, 48, 200, 120, routes_over_link(100, 60)),
        example_site(120, 128, 180, 50, routes_over_link(50, 100)),
    ]
}

fn compute_bids(need: &BidNeed, sites: &[SiteSupply]) -> Vec<Bid> {
    sites
        .iter()
        .map(|site| compute_bid(need, site).unwrap())
        .collect()
}

fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-6
}

/// Names of the sites, nearest first, as a job that needs one site would take them.
fn site_names_by_distance(bids: &[Bid]) -> Vec<&'static str> {
    let mut left: Vec<(&str, &Bid)> = ["S1", "S2", "S3"].into_iter().zip(bids).collect();
    let mut order = Vec::new();
    while let Some(first) = rank_bids(&left).first() {
        order.push(left.remove(*first).0);
    }
    order
}
