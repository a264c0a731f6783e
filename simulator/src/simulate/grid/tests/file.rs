//! What a grid file means.

use std::path::PathBuf;

use cospan_domain::ids::LogicalName;
use cospan_domain::units::{BitsPerSecond, Bytes};

use super::super::{
    BlackHoleNodes, FailureSource, GridError, LocalJobModel, LocalJobSource, NetworkDefaults,
};
use super::*;
use crate::simulate::workload::EstimateSource;
use crate::world::batch::QueueDiscipline;

const FULL: &str = r#"
[[site]]
name = "delft"
nodes = 32
processors_per_node = 2
scheduler = "conservative"
[site.local_load]
log = "DAS2-fs1.swf.xz"
start = "30d"
estimates = "tsafrir"
estimates_times = 1.25
[site.failures]
log = "/logs/LA-UR-05-7318.csv.xz"
system = 2
[site.files]
"data/in.bin" = "4GB"

[[site]]
name = "leiden"
nodes = 0x10
[site.local_load]
model = "lublin"
utilization = 0.35
[site.failures]
mean_between_failures = "30d"
mean_repair = "4h"

[[site]]
name = "utrecht"
nodes = 1_000_000
[site.local_load]
model = "poisson"
utilization = 1
mean_run_time = "20m"
sizes = [1, 2]

[[link]]
from = "delft"
to = "leiden"
bandwidth = "100 Mbit/s"
latency = "2ms"
both_ways = false

[[link]]
from = "leiden"
to = "utrecht"
bandwidth = "12MB/s"

[network]
default_latency = "5ms"
"#;

#[test]
fn every_key_is_read_and_those_left_out_have_defaults() {
    let grid = parsed(FULL);
    let [delft, leiden, utrecht] = grid.sites.as_slice() else {
        panic!("{grid:?}")
    };
    assert_eq!(
        (delft.processors(), delft.discipline),
        (64, QueueDiscipline::Conservative)
    );
    assert_eq!(
        (leiden.processors(), leiden.discipline),
        (16, QueueDiscipline::Easy)
    );
    assert_eq!(delft.files.get("data/in.bin"), Some(&Bytes(4_000_000_000)));
    let load = delft.local_load.clone().unwrap();
    let path = PathBuf::from("/grids/DAS2-fs1.swf.xz");
    let start = DurationMs(30 * DAY.0);
    assert_eq!(load.source, LocalJobSource::Log { path, start });
    assert_eq!(
        (load.estimates, load.estimates_times),
        (EstimateSource::Tsafrir, 1.25)
    );
    let path = PathBuf::from("/logs/LA-UR-05-7318.csv.xz");
    let logged = FailureSource::Log {
        path,
        system: 2,
        start: DurationMs::ZERO,
        shuffled: false,
    };
    assert_eq!(delft.failures, Some(logged));
    let drawn = FailureSource::Exponential {
        mean_between_failures: DurationMs(30 * DAY.0),
        mean_repair: DurationMs::from_secs(4 * 3600),
    };
    assert_eq!(leiden.failures, Some(drawn));
    let model = LocalJobModel::Poisson {
        mean_run_time: DurationMs::from_secs(1200),
        sizes: vec![1, 2],
    };
    let load = utrecht.local_load.clone().unwrap();
    assert_eq!(
        load.source,
        LocalJobSource::Model {
            model,
            utilization: 1.0
        }
    );
    assert_eq!(
        (load.estimates, load.estimates_times),
        (EstimateSource::AsGiven, 1.0)
    );
}

#[test]
fn black_holes_are_read_and_described_and_know_no_log() {
    let holes = "[site.black_holes]\nmean_between_failures = \"2d\"\nmean_repair = \"4h\"";
    let site = parsed(&one_site(holes)).sites.remove(0);
    let mean_repair = DurationMs::from_secs(4 * 3600);
    let read = BlackHoleNodes {
        mean_between_failures: DurationMs(2 * DAY.0),
        mean_repair,
    };
    assert_eq!(site.black_holes, Some(read));
    assert!(
        site.describe()
            .ends_with("black holes: each node every 48h00m00s, for 4h00m00s")
    );
    let error = refused(&one_site("[site.black_holes]\nlog = \"x\""));
    assert!(error.contains("unknown key \"log\""), "{error}");
}

#[test]
fn links_and_network_are_read_and_those_left_out_have_defaults() {
    let grid = parsed(FULL);
    let [first, second] = grid.links.as_slice() else {
        panic!("{grid:?}")
    };
    assert_eq!((first.latency, first.both_ways), (DurationMs(2), false));
    assert_eq!((second.latency, second.both_ways), (DurationMs(5), true));
    assert_eq!(second.bandwidth, BitsPerSecond(96_000_000));
    assert_eq!(grid.network.bandwidth, NetworkDefaults::default().bandwidth);
    assert_eq!(parsed(&one_site("")).network, NetworkDefaults::default());
}

#[test]
fn a_grid_and_its_sites_are_described_in_a_line_each() {
    let grid = parsed(FULL);
    assert_eq!(
        grid.describe(),
        "3 sites, 1000048 nodes, 1000080 processors; 2 links given, others 1 Gbit/s and 0.005s"
    );
    assert_eq!(
        grid.sites[0].describe(),
        "delft: 32 x 2 processors, conservative; local load: log /grids/DAS2-fs1.swf.xz from \
         720h00m00s on, estimates tsafrir x 1.25; failures: log /logs/LA-UR-05-7318.csv.xz of \
         system 2 from 0s on; 1 file"
    );
    assert_eq!(
        grid.sites[1].describe(),
        "leiden: 16 x 1 processors, easy; local load: lublin at 35.0 %, estimates as-given; \
         failures: each node every 720h00m00s, for 4h00m00s"
    );
}

#[test]
fn the_das2_example_is_the_grid_of_the_koala_experiments() {
    let text = include_str!("../examples/grid-das2.toml");
    let grid = parsed(text);
    let nodes: Vec<u32> = grid.sites.iter().map(|site| site.nodes).collect();
    assert_eq!(nodes, [72, 32, 32, 32, 32]);
    assert_eq!(grid.processors(), 400);
    let built = grid.build(&options(100, 1)).unwrap();
    assert_eq!(built.links.len(), 20);
    assert!(
        built
            .links
            .iter()
            .all(|link| link.bandwidth == BitsPerSecond(100_000_000))
    );
    assert_eq!(built.complaints, []);
    for site in &built.sites {
        let load = super::build_tests::offered(site, 100);
        assert!(
            (0.27..0.43).contains(&load),
            "{} has a load of {load}",
            site.name
        );
    }
}

#[test]
fn the_small_example_has_three_sites_with_a_scheduler_of_each_kind() {
    let grid = parsed(include_str!("../../../../../examples/grid.toml"));
    let disciplines: Vec<QueueDiscipline> = grid.sites.iter().map(|site| site.discipline).collect();
    assert_eq!(
        disciplines,
        [
            QueueDiscipline::Easy,
            QueueDiscipline::Conservative,
            QueueDiscipline::Fcfs
        ]
    );
    assert_eq!(grid.processors_by_site(), [16, 16, 16]);
    let name = LogicalName::new("weather.grib").unwrap();
    assert!(grid.sites[0].files.contains_key(&name));
    assert!(
        !grid.build(&options(1, 1)).unwrap().sites[0]
            .local_jobs
            .is_empty()
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Grid::load(Path::new("/nowhere/grid.toml")).unwrap_err();
    assert!(matches!(error, GridError::Unreadable { .. }));
    assert!(error.to_string().contains("/nowhere/grid.toml"), "{error}");
}
