//! What a grid becomes: local jobs and links.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cospan_domain::units::BitsPerSecond;

use super::super::{BuiltSite, GridBuildError};
use super::*;
use cospan_languages::logs::LogComplaintKind;

const POISSON: &str = "[site.local_load]\nmodel = \"poisson\"\nutilization = 0.4\n\
                       mean_run_time = \"10m\"\nsizes = [1, 2, 4, 8]";
const LUBLIN: &str = "[site.local_load]\nmodel = \"lublin\"\nutilization = 0.4";

/// Processor time asked for, as a share of what there is in so many days.
pub(super) fn offered(site: &BuiltSite, days: u64) -> f64 {
    let asked: f64 = site
        .local_jobs
        .iter()
        .map(|job| f64::from(job.processors) * job.run_time.0 as f64)
        .sum();
    let processors = f64::from(site.nodes * site.processors_per_node);
    asked / (processors * (DAY.0 * days) as f64)
}

#[test]
fn a_poisson_load_asks_for_the_utilization_it_is_set_to() {
    let grid = built(&one_site(POISSON), 300, 1);
    let load = offered(&grid.sites[0], 300);
    assert!((load - 0.4).abs() < 0.02, "{load}");
}

#[test]
fn a_level_is_held_between_its_bounds() {
    let load = "[site.local_load]\nmodel = \"level\"\nleast = 0.3\nmost = 0.5\n\
                mean_run_time = \"10m\"";
    let site = &built(&one_site(load), 30, 1).sites[0];
    assert!(site.local_jobs.is_sorted_by_key(|job| job.at));
    let mut changes: BTreeMap<Timestamp, i64> = BTreeMap::new();
    for job in &site.local_jobs {
        *changes.entry(job.at).or_default() += i64::from(job.processors);
        *changes.entry(job.at + job.run_time).or_default() -= i64::from(job.processors);
    }
    let mut used = 0;
    let mut seen = BTreeSet::new();
    for (_, change) in changes
        .iter()
        .take_while(|(at, _)| at.since(BEGIN).0 < 29 * DAY.0)
    {
        used += change;
        seen.insert(used);
    }
    // Of 32 processors 10 all the time, and up to three nodes of two.
    assert_eq!(seen, [10, 12, 14, 16].into());
    let load = offered(site, 30);
    assert!((load - 13.0 / 32.0).abs() < 0.01, "{load}");
}

#[test]
fn a_lublin_load_asks_for_the_utilization_it_is_set_to() {
    for seed in [1, 2] {
        let grid = built(&one_site(LUBLIN), 800, seed);
        let load = offered(&grid.sites[0], 800);
        assert!((load - 0.4).abs() < 0.06, "{load}");
    }
}

#[test]
fn a_lublin_load_can_be_set_for_a_site_of_any_size() {
    for nodes in ["1", "3", "5000", "1_000_000"] {
        let site = &built(&one_site(LUBLIN).replace("16", nodes), 1, 1).sites[0];
        let processors = site.nodes * site.processors_per_node;
        assert!(
            site.local_jobs
                .iter()
                .all(|job| (1..=processors).contains(&job.processors))
        );
    }
}

#[test]
fn local_jobs_come_in_order_of_time_before_the_end_and_fit_their_site() {
    for load in [POISSON, LUBLIN] {
        let site = &built(&one_site(load), 30, 3).sites[0];
        assert!(site.local_jobs.len() > 100);
        assert!(site.local_jobs.is_sorted_by_key(|job| job.at));
        for job in &site.local_jobs {
            assert!(job.at >= BEGIN && job.at < BEGIN + DurationMs(30 * DAY.0));
            assert!((1..=32).contains(&job.processors));
            assert!(job.run_time > DurationMs::ZERO && job.estimate == job.run_time);
        }
    }
}

#[test]
fn the_seed_decides_what_is_drawn() {
    let failures = "[site.failures]\nmean_between_failures = \"9d\"\nmean_repair = \"1h\"";
    let text = one_site(&format!("{POISSON}\n{failures}"));
    assert_eq!(built(&text, 9, 1), built(&text, 9, 1));
    let first = built(&text, 9, 1);
    let second = built(&text, 9, 2);
    assert_ne!(first.sites[0].local_jobs, second.sites[0].local_jobs);
    assert_ne!(first.sites[0].node_failures, second.sites[0].node_failures);
}

#[test]
fn a_site_more_or_failures_more_change_nothing_elsewhere() {
    let text = one_site(POISSON);
    let alone = built(&text, 9, 1).sites.remove(0);
    let failures = "[site.failures]\nmean_between_failures = \"9d\"\nmean_repair = \"1h\"";
    let other = format!("[[site]]\nname = \"leiden\"\nnodes = 32\n{POISSON}\n{failures}");
    let beside = built(&format!("{other}\n{text}{failures}"), 9, 1);
    assert_eq!(beside.sites[1].local_jobs, alone.local_jobs);
    assert_ne!(beside.sites[0].local_jobs, alone.local_jobs);
}

#[test]
fn a_longer_horizon_only_adds_jobs() {
    for load in [POISSON, LUBLIN] {
        let short = built(&one_site(load), 9, 1);
        let long = built(&one_site(load), 18, 1);
        let short = &short.sites[0].local_jobs;
        let long = &long.sites[0].local_jobs;
        assert!(short.len() < long.len() && long.starts_with(short));
    }
}

#[test]
fn estimates_of_the_tsafrir_model_are_never_below_the_run_time() {
    let text = one_site(&format!("{POISSON}\nestimates = \"tsafrir\""));
    let jobs = &built(&text, 9, 1).sites[0].local_jobs;
    assert!(jobs.iter().all(|job| job.estimate >= job.run_time));
    assert!(jobs.iter().any(|job| job.estimate > job.run_time));
}

#[test]
fn more_jobs_than_memory_holds_are_refused() {
    let load = "[site.local_load]\nmodel = \"poisson\"\nutilization = 10\n\
                mean_run_time = \"1ms\"\nsizes = [32]";
    let error = parsed(&one_site(load))
        .build(&options(1, 1))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the mean gap between arrivals is 0"),
        "{error}"
    );
    let load = load.replace("1ms", "10ms");
    let error = parsed(&one_site(&load)).build(&options(1, 1)).unwrap_err();
    assert!(matches!(error, GridBuildError::TooMany { .. }), "{error}");
}

#[test]
fn every_ordered_pair_has_the_link_that_is_given_or_the_default() {
    let sites: String = ["a", "b", "c"]
        .map(|name| format!("[[site]]\nname = \"{name}\"\nnodes = 1\n"))
        .concat();
    let link = |from, to, more| {
        format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nbandwidth = \"5bit/s\"\n{more}\n")
    };
    let links = link("a", "b", "both_ways = false") + &link("c", "a", "latency = \"7ms\"");
    let grid = built(&format!("{sites}{links}"), 1, 1);
    let shown: Vec<(String, u64, u64)> = grid
        .links
        .iter()
        .map(|link| {
            (
                format!("{}{}", link.from, link.to),
                link.bandwidth.0,
                link.latency.0,
            )
        })
        .collect();
    let default = BitsPerSecond(1_000_000_000).0;
    let expected = [
        ("ab", 5, 1),
        ("ac", 5, 7),
        ("ba", default, 1),
        ("bc", default, 1),
        ("ca", 5, 7),
        ("cb", default, 1),
    ];
    assert_eq!(
        shown,
        expected.map(|(pair, rate, ms)| (pair.to_owned(), rate, ms))
    );
}

#[test]
fn sites_that_say_what_they_send_and_receive_need_no_link() {
    let ends = "upload = \"30bit/s\"\ndownload = \"9bit/s\"";
    let sites = [
        ("a", ends),
        ("b", "upload = \"4bit/s\"\ndownload = \"20bit/s\""),
        ("c", ends),
    ];
    let link = "[[link]]\nfrom = \"a\"\nto = \"c\"\nbandwidth = \"5bit/s\"\n";
    let grid = built(
        &format!(
            "{}{link}",
            sites
                .map(|(name, ends): (&str, &str)| format!(
                    "[[site]]\nname = \"{name}\"\nnodes = 1\n{ends}\n"
                ))
                .concat()
        ),
        1,
        1,
    );
    let rates = grid
        .links
        .iter()
        .map(|link| (link.bandwidth.0, link.upload.map(|rate| rate.0)));
    let there_and_back = [(20, Some(30)), (5, None), (4, Some(4)), (4, Some(4))];
    let expected = there_and_back
        .into_iter()
        .chain([(5, None), (20, Some(30))]);
    assert!(
        rates.clone().eq(expected),
        "{:?}",
        rates.collect::<Vec<_>>()
    );
    assert_eq!(
        crate::simulate::build_experiment::upload_limits(&grid).len(),
        4
    );
}

#[test]
fn what_the_control_plane_is_told_of_a_link_may_be_wrong() {
    let sites = ["a", "b"]
        .map(|name| format!("[[site]]\nname = \"{name}\"\nnodes = 1\n"))
        .concat();
    let link = |from, to, more| {
        format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nbandwidth = \"5bit/s\"\n{more}\n")
    };
    let wrong = link("a", "b", "both_ways = false\nbelieved = \"9bit/s\"");
    let grid = built(
        &format!("{sites}{wrong}{}", link("b", "a", "both_ways = false")),
        1,
        1,
    );
    let rates: Vec<_> = grid
        .links
        .iter()
        .map(|l| (l.bandwidth.0, l.believed.0))
        .collect();
    assert_eq!(rates, [(5, 9), (5, 5)]);
    let told: Vec<u64> = crate::simulate::build_experiment::link_bandwidths(&grid)
        .values()
        .map(|rate| rate.0)
        .collect();
    assert_eq!(told, [9, 5]);
}

#[test]
fn a_logged_load_begins_where_it_should_and_ends_with_the_simulation() {
    let directory = tempfile::tempdir().unwrap();
    let row = |number: u32, at: u64, run: u64, size: u32, estimate: i64| {
        format!("{number} {at} 0 {run} {size} -1 -1 {size} {estimate} -1 1 1 1 1 1 1 -1 -1\n")
    };
    let day = DAY.0 / 1000;
    let log = [
        row(1, 0, 10, 1, 10),
        row(2, day, 20, 33, 20),
        row(3, day, 30, 32, -1),
        row(4, day + 5, 0, 2, 60),
        row(5, 2 * day - 1, 90, 2, 60),
        row(6, 2 * day, 10, 1, 10),
    ];
    fs::write(directory.path().join("log.swf"), log.concat()).unwrap();
    let text = one_site("[site.local_load]\nlog = \"log.swf\"\nstart = \"1d\"");
    let file = directory.path().join("grid.toml");
    fs::write(&file, text).unwrap();
    let grid = Grid::load(&file).unwrap().build(&options(1, 1)).unwrap();

    let jobs: Vec<(u64, u32, u64, u64)> = grid.sites[0]
        .local_jobs
        .iter()
        .map(|job| {
            (
                job.at.since(BEGIN).0,
                job.processors,
                job.run_time.0,
                job.estimate.0,
            )
        })
        .collect();
    let last = (day - 1) * 1000;
    assert_eq!(
        jobs,
        [
            (0, 32, 30_000, 30_000),
            (5000, 2, 1, 60_000),
            (last, 2, 90_000, 60_000)
        ]
    );
    let notes = grid.complaints[0].local_load.clone().unwrap();
    assert_eq!(
        notes
            .log
            .as_ref()
            .unwrap()
            .count(LogComplaintKind::TooManyProcessors),
        1
    );
    assert_eq!((notes.before_start, notes.after_end), (1, 1));
    assert_eq!((notes.estimates_missing, notes.estimates_too_short), (1, 1));
    let told = grid.complaints[0].to_string();
    assert!(
        told.contains("site delft; local load: 1 of 6 lines skipped"),
        "{told}"
    );
    assert!(
        told.contains("1 job without run time, taken to be 1 ms"),
        "{told}"
    );

    let refusing = GridBuildOptions {
        on_bad: BadLineTreatment::Refuse,
        ..options(1, 1)
    };
    let error = Grid::load(&file)
        .unwrap()
        .build(&refusing)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("site delft: ") && error.contains("line 2: "),
        "{error}"
    );
}

#[test]
fn a_log_that_is_not_there_is_named_with_its_site() {
    let grid = parsed(&one_site("[site.local_load]\nlog = \"no.swf\""));
    let error = grid.build(&options(1, 1)).unwrap_err().to_string();
    assert!(
        error.contains("site delft: cannot open the log /grids/no.swf"),
        "{error}"
    );
}
