//! When nodes fail.

use std::collections::BTreeMap;
use std::fs;

use super::super::{GridBuildError, NodeOutage};
use super::*;

const DRAWN: &str = "[site.failures]\nmean_between_failures = \"20d\"\nmean_repair = \"2d\"";

fn of_each_node(failures: &[NodeOutage]) -> BTreeMap<u32, Vec<NodeOutage>> {
    let mut nodes: BTreeMap<u32, Vec<NodeOutage>> = BTreeMap::new();
    failures
        .iter()
        .for_each(|down| nodes.entry(down.node).or_default().push(*down));
    nodes
}

#[test]
fn nodes_are_up_and_down_for_the_times_they_are_set_to() {
    let grid = built(&one_site(DRAWN), 4000, 1);
    let failures = &grid.sites[0].node_failures;
    let days: Vec<f64> = failures
        .iter()
        .map(|down| down.repair.0 as f64 / DAY.0 as f64)
        .collect();
    let mean_repair = days.iter().sum::<f64>() / days.len() as f64;
    assert!((mean_repair - 2.0).abs() < 0.15, "{mean_repair}");
    // Each node fails once in 22 days.
    let expected = 16.0 * 4000.0 / 22.0;
    assert!(
        (failures.len() as f64 / expected - 1.0).abs() < 0.06,
        "{}",
        failures.len()
    );
}

#[test]
fn a_node_fails_only_while_it_is_up_and_before_the_end() {
    let failures = built(&one_site(DRAWN), 400, 2)
        .sites
        .remove(0)
        .node_failures;
    assert!(failures.is_sorted_by_key(|down| (down.at, down.node)));
    assert!(
        failures
            .iter()
            .all(|down| down.at < BEGIN + DurationMs(400 * DAY.0))
    );
    let nodes = of_each_node(&failures);
    assert_eq!(
        nodes.keys().copied().collect::<Vec<_>>(),
        (0..16).collect::<Vec<_>>()
    );
    for downs in nodes.values() {
        assert!(
            downs
                .windows(2)
                .all(|pair| pair[0].at + pair[0].repair < pair[1].at)
        );
    }
}

#[test]
fn more_nodes_or_a_longer_horizon_leave_earlier_failures_as_they_were() {
    let short = built(&one_site(DRAWN), 40, 2).sites.remove(0).node_failures;
    let long = built(&one_site(DRAWN), 80, 2).sites.remove(0).node_failures;
    assert!(short.len() < long.len() && long.starts_with(&short));
    let more = built(&one_site(DRAWN).replace("= 16", "= 20"), 40, 2)
        .sites
        .remove(0);
    let same: Vec<NodeOutage> = more
        .node_failures
        .into_iter()
        .filter(|down| down.node < 16)
        .collect();
    assert_eq!(same, short);
}

#[test]
fn black_holes_are_drawn_beside_failures_and_change_none_of_them() {
    let holes = "\n[site.black_holes]\nmean_between_failures = \"20d\"\nmean_repair = \"2d\"";
    let both = built(&one_site(&format!("{DRAWN}{holes}")), 400, 2)
        .sites
        .remove(0);
    let alone = built(&one_site(DRAWN), 400, 2).sites.remove(0);
    assert_eq!(both.node_failures, alone.node_failures);
    assert!(alone.black_holes.is_empty());
    assert!(both.black_holes.is_sorted() && both.black_holes.len() > 200);
    assert_ne!(both.black_holes, both.node_failures);
}

#[test]
fn more_failures_than_memory_holds_are_refused() {
    let text = one_site("[site.failures]\nmean_between_failures = \"1ms\"\nmean_repair = \"1ms\"");
    let error = parsed(&text).build(&options(1, 1)).unwrap_err();
    assert!(
        matches!(
            error,
            GridBuildError::TooMany {
                what: "node failures",
                ..
            }
        ),
        "{error}"
    );
}

/// A site of 16 nodes with this failure log of system 2.
fn logged(rows: &[String], keys: &str) -> (tempfile::TempDir, Grid) {
    let directory = tempfile::tempdir().unwrap();
    let head = "System,nodenumz,Prob Started,Prob Fixed,Facilities,Hardware,Human Error,Network,\
                Undetermined,Software";
    fs::write(
        directory.path().join("log.csv"),
        format!("{head}\n{}", rows.concat()),
    )
    .unwrap();
    let text = one_site(&format!(
        "[site.failures]\nlog = \"log.csv\"\nsystem = 2\n{keys}"
    ));
    let grid = Grid::parse(&directory.path().join("grid.toml"), &text).unwrap();
    (directory, grid)
}

fn row(system: u32, node: u32, from: &str, to: &str) -> String {
    format!("{system},{node},{from},{to},,CPU,,,,\n")
}

#[test]
fn logged_failures_count_from_the_first_and_overlapping_ones_are_joined() {
    let log = [
        row(2, 1, "6/21/2005 10:00", "6/21/2005 11:00"),
        row(2, 1, "6/21/2005 10:30", "6/21/2005 12:00"),
        row(2, 1, "6/21/2005 10:40", "6/21/2005 10:50"),
        row(2, 1, "6/22/2005 11:00", "6/22/2005 12:00"),
        row(2, 0, "6/21/2005 09:00", "6/21/2005 09:10"),
        row(2, 0, "6/21/2005 10:20", "6/21/2005 10:20"),
        row(2, 16, "6/21/2005 10:20", "6/21/2005 10:21"),
        row(3, 2, "6/20/2005 00:00", "6/21/2005 10:20"),
    ];
    let (_directory, grid) = logged(&log, "start = \"1h\"");
    let built = grid.build(&options(1, 1)).unwrap();
    let minutes: Vec<(u64, u32, u64)> = built.sites[0]
        .node_failures
        .iter()
        .map(|down| (down.at.since(BEGIN).0 / 60_000, down.node, down.repair.0))
        .collect();
    assert_eq!(minutes, [(0, 1, 7_200_000), (20, 0, 1)]);
    let notes = built.complaints[0].failures.clone().unwrap();
    assert_eq!(
        (notes.before_start, notes.after_end, notes.unknown_nodes),
        (1, 1, 1)
    );
    assert_eq!((notes.while_down, notes.repairs_raised), (2, 1));
    let told = built.complaints[0].to_string();
    assert!(
        told.contains("2 of nodes that were down already, joined"),
        "{told}"
    );
}

#[test]
fn a_shuffled_log_keeps_its_times_and_draws_which_nodes_the_site_has() {
    let at = |node: u32| format!("6/21/2005 10:{node:02}");
    let rows: Vec<String> = (0..32)
        .map(|node| row(2, node, &at(node), &at(node + 1)))
        .collect();
    let (_directory, grid) = logged(&rows, "shuffled = true");
    let drawn = |seed| {
        grid.build(&options(1, seed))
            .unwrap()
            .sites
            .remove(0)
            .node_failures
    };
    let first = drawn(1);
    assert_eq!(first, drawn(1));
    assert_ne!(first, drawn(2));
    assert_eq!(first.len(), 16, "each node of the site is one of the log");
    assert!(
        first
            .iter()
            .all(|down| down.repair == DurationMs::from_secs(60))
    );
    let minutes = first.iter().map(|down| down.at.since(BEGIN).0 / 60_000);
    assert!(
        minutes.max() >= Some(16),
        "nodes above those of the site are drawn too"
    );
}

#[test]
fn a_node_of_a_number_beyond_all_reason_is_left_out_of_a_shuffled_log() {
    let rows = [u32::MAX, 1].map(|node| row(2, node, "6/21/2005 10:00", "6/21/2005 11:00"));
    let (_directory, grid) = logged(&rows, "shuffled = true");
    let built = grid.build(&options(1, 1)).unwrap();
    assert_eq!(built.sites[0].node_failures.len(), 1);
    assert_eq!(
        built.complaints[0].failures.clone().unwrap().unknown_nodes,
        1
    );
}
