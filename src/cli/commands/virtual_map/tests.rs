use std::collections::BTreeMap;

use super::*;
use cospan_api::v1::explain::{MapPlace, VerdictReport};

fn bid(site: &str, x: f64, y: f64) -> BidReport {
    let indices = BTreeMap::from([("compute".to_owned(), x), ("data".to_owned(), y)]);
    let nearer = Some("more free processors".to_owned());
    let at = MapPlace {
        x,
        y,
        distance: x.hypot(y),
        indices,
        nearer,
    };
    BidReport {
        site: site.into(),
        at: Some(at),
        ..BidReport::default()
    }
}

fn report() -> ExplainReport {
    let silent = BidReport {
        declined: Some("it has no free processor".into()),
        ..BidReport::default()
    };
    let chosen = VerdictReport {
        site: Some("S2".into()),
        chosen: true,
        ..Default::default()
    };
    ExplainReport {
        job: 7,
        bids: vec![
            bid("S1", 0.6, 0.0),
            bid("S2", 0.32, 0.4),
            bid("S<3", 0.67, 0.48),
            BidReport {
                site: "S4".into(),
                ..silent
            },
        ],
        verdicts: vec![chosen],
        ..ExplainReport::default()
    }
}

#[test]
fn the_map_in_characters_has_every_site_that_bids_and_the_job() {
    let plot = terminal::plot_map(&map_points(&report()));
    let lines: Vec<&str> = plot.lines().collect();
    let spot = |sign: char| {
        let line = lines
            .iter()
            .position(|line| line.starts_with("  |") && line.contains(sign));
        line.map(|line| (line, lines[line].find(sign).unwrap()))
    };
    let job = spot('+').unwrap();
    let lacking = spot('a').unwrap();
    let chosen = spot('B').unwrap();
    assert_eq!(
        (job.0, job.1 < lacking.1),
        (lacking.0, true),
        "both at y = 0:\n{plot}"
    );
    assert!(
        chosen.0 < job.0 && chosen.1 < lacking.1,
        "above, and more to the left:\n{plot}"
    );
    assert!(
        plot.contains("B S2 (chosen)") && !plot.contains("S4"),
        "{plot}"
    );
}

#[test]
fn sites_on_one_spot_are_told_apart_from_one_site() {
    let mut report = report();
    report.bids[1] = bid("S2", 0.6, 0.0);
    assert!(terminal::plot_map(&map_points(&report)).contains('*'));
}

#[test]
fn the_table_has_the_nearest_first_and_says_who_does_not_bid() {
    let table = anstream::adapter::strip_str(&format_bids(&report().bids)).to_string();
    let sites: Vec<&str> = table
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(sites, ["SITE", "S2", "S1", "S<3", "S4"]);
    assert!(
        table.contains("does not bid: it has no free processor"),
        "{table}"
    );
    assert!(table.contains("compute 0.600, data 0.000"), "{table}");
}

#[test]
fn sites_without_gflops_that_take_part_are_named_below_the_table() {
    let mut bids = report().bids;
    assert!(!format_bids(&bids).contains("GFLOPS"));
    bids.iter_mut()
        .filter(|bid| bid.site != "S1")
        .for_each(|bid| bid.lacks_gflops = true);
    let table = format_bids(&bids);
    assert!(
        table.ends_with("compute counts processors alone: S2, S<3\n"),
        "{table}"
    );
}

#[test]
fn the_map_says_what_its_bids_are_by() {
    let mut report = report();
    assert_eq!(bid_basis(&report), "");
    report.bids_by = Some("sites as they are now".into());
    assert_eq!(bid_basis(&report), "Bids: sites as they are now.\n");
    assert!(map_title(&report).ends_with("with sites as they are now"));
}

#[test]
fn the_picture_is_one_svg_with_every_site_that_bids() {
    let report = report();
    let svg = virtual_map(
        &map_title(&report),
        &note_missing_sites(&report),
        &map_points(&report),
    )
    .to_standalone_svg();
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    for part in [
        ">S1<",
        ">S2<",
        "S&lt;3",
        "class=\"hold\"",
        "do not bid: S4",
        "distance 0.512",
    ] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}
