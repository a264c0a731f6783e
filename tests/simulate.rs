//! `cospan simulate` as a process: what it prints and writes, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Two sites, one of them with local users, the other with nodes that fail, and a file.
const GRID: &str = r#"
[[site]]
name = "delft"
nodes = 8
processors_per_node = 2

[site.local_load]
model = "poisson"
utilization = 0.2
mean_run_time = "5m"
sizes = [1, 2, 4]

[site.files]
genome = "2GB"

[[site]]
name = "leiden"
nodes = 12

[site.failures]
mean_between_failures = "20h"
mean_repair = "1h"

[[link]]
from = "delft"
to = "leiden"
bandwidth = "100 Mbit/s"
latency = "5ms"
both_ways = true
"#;

fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("grid.toml"), GRID).unwrap();
    place
}

fn command(place: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .env_clear()
        .env("HOME", place)
        .stdin(Stdio::null())
        .current_dir(place)
        .args(["simulate", "grid.toml"])
        .args(words.split_whitespace());
    command
}

fn simulate(place: &TempDir, words: &str) -> Output {
    command(place.path(), words).output().unwrap()
}

/// One that must come to its end: what it prints.
fn simulated(place: &TempDir, words: &str) -> String {
    let output = simulate(place, words);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{words}\n{}",
        stderr(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn read(place: &TempDir, file: &str) -> String {
    fs::read_to_string(place.path().join(file)).unwrap()
}

fn summary(place: &TempDir, folder: &str) -> serde_json::Value {
    serde_json::from_str(&read(place, &format!("{folder}/summary.json"))).unwrap()
}

/// A job of a log: 18 columns, most of them not known.
fn job(number: u64, submitted_s: i64, run_time_s: i64, processors: i64) -> String {
    let rest = "-1 -1 -1 1 1 1 1 -1 -1 -1 -1";
    format!("{number} {submitted_s} -1 {run_time_s} {processors} -1 -1 {rest}\n")
}

/// Simulates a log of these lines.
fn log(lines: &str, words: &str) -> (TempDir, Output) {
    let place = place();
    fs::write(place.path().join("jobs.swf"), lines).unwrap();
    let output = simulate(&place, &format!("--log jobs.swf {words}"));
    (place, output)
}

/// A log of which two jobs can be used: what is said, and the summary.
fn two_usable(lines: &str) -> (String, serde_json::Value) {
    let (place, output) = log(lines, "");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let summary = summary(&place, "simulation");
    assert_eq!(summary["runs"][0]["jobs"]["done"], 2, "{said}");
    (said, summary)
}

#[test]
fn a_small_grid_runs_in_seconds_and_everything_is_written() {
    let place = place();
    let printed = simulated(
        &place,
        "--model lublin --jobs 40 --split random --input genome",
    );
    assert!(printed.contains("40 jobs, 40 done"), "{printed}");
    let summary = summary(&place, "simulation");
    assert_eq!(summary["runs"][0]["jobs"]["done"], 40);
    assert!(summary["setup"][0].as_str().unwrap().contains("2 sites"));
    assert!(summary["runs"][0]["transfer_bytes"].as_u64().unwrap() >= 2_000_000_000);
    assert!(summary["runs"][0]["load"]["local"].as_f64().unwrap() > 0.05);
    assert!(summary["runs"][0]["load"]["down"].as_f64().unwrap() > 0.0);
    assert_eq!(read(&place, "simulation/jobs.csv").lines().count(), 41);
    assert!(read(&place, "simulation/components.csv").lines().count() >= 41);
    assert!(read(&place, "simulation/report.html").contains("<svg"));
    for figure in [
        "queue",
        "distributions",
        "utilization-worst-fit",
        "gantt-worst-fit",
    ] {
        assert!(read(&place, &format!("simulation/figures/{figure}.svg")).contains("<svg "));
    }
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_seed_others() {
    let place = place();
    let run = |seed: u32, to: &str| {
        let words = "--model poisson --jobs 40 --split 2 --estimates exact";
        simulated(&place, &format!("{words} --seed {seed} --to {to}"));
        read(&place, &format!("{to}/jobs.csv"))
    };
    let first = run(7, "first");
    assert_eq!(first, run(7, "again"));
    assert_ne!(first, run(8, "other").replace(",8,", ",7,"));
}

/// The rows of `jobs.csv` of a simulation: of each these columns.
fn columns(place: &TempDir, folder: &str, names: &[&str]) -> Vec<Vec<f64>> {
    let rows = fields(place, &format!("{folder}/jobs.csv"), names);
    rows.iter()
        .map(|row| row.iter().map(|field| field.parse().unwrap()).collect())
        .collect()
}

/// The rows of a file: of each these columns.
fn fields(place: &TempDir, file: &str, names: &[&str]) -> Vec<Vec<String>> {
    let text = read(place, file);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let at = |name: &&str| header.iter().position(|column| column == *name).unwrap();
    let places: Vec<usize> = names.iter().map(at).collect();
    let row = |row: csv::StringRecord| places.iter().map(|at| row[*at].to_owned()).collect();
    reader
        .records()
        .map(|record| row(record.unwrap()))
        .collect()
}

/// What attempts did at a site: from, to, and how many processors.
type Stays = Vec<(f64, f64, f64)>;

/// The stays in `components.csv`: those held in vain, and those in which payloads ran.
fn stays(place: &TempDir, folder: &str, site: &str) -> (Stays, Stays) {
    let names = ["site", "processors", "held_s", "began_s", "ended_s"];
    let mut held = Vec::new();
    let mut ran = Vec::new();
    for row in fields(place, &format!("{folder}/components.csv"), &names) {
        let at = |column: usize| row[column].parse::<f64>().ok();
        if let (true, Some(from), Some(to)) = (row[0] == site, at(2), at(4)) {
            let began = at(3).unwrap_or(to);
            held.push((from, began, at(1).unwrap()));
            ran.push((began, to, at(1).unwrap()));
        }
    }
    (held, ran)
}

fn processor_seconds(stays: &Stays) -> f64 {
    stays
        .iter()
        .map(|(from, to, processors)| (to - from) * processors)
        .sum()
}

/// Most processors that were in use at one time.
fn most_at_once(stays: &Stays) -> f64 {
    let at = |time: f64| {
        let there = stays
            .iter()
            .filter(|(from, to, _)| (*from..*to).contains(&time));
        there.map(|(_, _, processors)| processors).sum()
    };
    stays.iter().map(|(from, ..)| at(*from)).fold(0.0, f64::max)
}

#[test]
fn rows_of_components_give_the_load_of_each_site_also_of_earlier_splits() {
    let place = place();
    let words = "--model poisson --jobs 60 --sizes 4x5 --shortest 20m --longest 40m \
                 --interarrival 20m --policy flexible-cluster-minimization";
    simulated(&place, words);
    let summary = summary(&place, "simulation");
    let run = &summary["runs"][0];
    assert!(
        run["counters"]["rounds aborted"].as_u64().unwrap() > 5,
        "{}",
        run["counters"]
    );
    let seconds = run["duration_s"].as_f64().unwrap();
    let mut in_vain = 0.0;
    for (place_of, site, processors) in [(0, "delft", 16.0), (1, "leiden", 12.0)] {
        let (held, ran) = stays(&place, "simulation", site);
        let load = &run["sites"][place_of]["load"];
        for (name, stays) in [("grid_held", &held), ("grid_running", &ran)] {
            let share = processor_seconds(stays) / processors / seconds;
            let stated = load[name].as_f64().unwrap();
            assert!(
                (share - stated).abs() < 1e-4,
                "{site} {name}: {share}, not {stated}"
            );
        }
        let all = held.iter().chain(&ran).copied().collect();
        assert!(
            most_at_once(&all) <= processors,
            "{site}: {}",
            most_at_once(&all)
        );
        in_vain += processor_seconds(&held);
    }
    let wasted: f64 = columns(&place, "simulation", &["held_processor_s"])
        .concat()
        .iter()
        .sum();
    assert!(
        (wasted / in_vain - 1.0).abs() < 0.02,
        "{wasted} of {in_vain}"
    );
}

#[test]
fn nodes_that_look_idle_and_fail_everything_abort_rounds() {
    let place = place();
    let holes = "[site.black_holes]\nmean_between_failures = \"30m\"\nmean_repair = \"30m\"\n";
    let grid = GRID.replacen("[site.files]", &format!("{holes}\n[site.files]"), 1);
    fs::write(place.path().join("grid.toml"), grid).unwrap();
    simulated(
        &place,
        "--model poisson --jobs 40 --sizes 8 --interarrival 10m",
    );
    let summary = summary(&place, "simulation");
    let run = &summary["runs"][0];
    assert_eq!(run["jobs"]["done"], 40);
    assert!(
        run["site_errors"].as_u64().unwrap() >= 5,
        "{}",
        run["site_errors"]
    );
    let rows = fields(
        &place,
        "simulation/components.csv",
        &["site", "began_s", "why_ended"],
    );
    let why: Vec<&String> = rows
        .iter()
        .filter(|row: &&Vec<String>| row[0] == "delft" && row[1].is_empty())
        .map(|row| &row[2])
        .collect();
    assert!(
        why.iter().filter(|why| **why == "node failed").count() >= 5,
        "{why:?}"
    );
}

#[test]
fn a_job_over_two_sites_runs_longer_by_the_slowdown() {
    let place = place();
    let words = "--model poisson --jobs 15 --sizes 2x5 --shortest 1m --longest 1m --policy \
                 worst-fit,cluster-minimization";
    simulated(&place, &format!("{words} --slowdown 0.5"));
    let rows = columns(&place, "simulation", &["sites", "run_time_s"]);
    for row in &rows {
        let expected = if row[0] == 2.0 { 90.0 } else { 60.0 };
        assert!((row[1] - expected).abs() < 2.0, "{row:?}");
    }
    assert!(rows.iter().any(|row| row[0] == 2.0) && rows.iter().any(|row| row[0] == 1.0));
}

#[test]
fn each_job_can_have_a_file_of_its_own_at_several_sites() {
    let place = place();
    let words = "--model poisson --jobs 20 --sizes 4 --interarrival 10m --input-size 3GB";
    for replicas in [1, 2] {
        let to = replicas.to_string();
        simulated(&place, &format!("{words} --replicas {replicas} --to {to}"));
        let rows = columns(&place, &to, &["transfer_bytes", "transfer_time_s"]);
        // As the link says, or a little longer as past transfers had it.
        let took = |row: &Vec<f64>| row[0] == 3e9 && (240.0..241.0).contains(&row[1]);
        let slow = rows.iter().filter(|row| took(row)).count();
        let at_once = rows.iter().filter(|row| row[1] == 0.0).count();
        assert_eq!(
            slow + at_once,
            20,
            "3 GB over 100 Mbit/s, or no way at all: {rows:?}"
        );
        assert_eq!(slow > 0, replicas == 1, "{rows:?}");
    }
}

/// Sites that grant reservations, with local users who say that they take longer than they do.
fn reserving(flexible: bool) -> TempDir {
    let site = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nnodes = 16\nreserves = true\n[site.local_load]\n\
             model = \"poisson\"\nutilization = 0.6\nmean_run_time = \"30m\"\nsizes = [4, 8]\n\
             estimates = \"tsafrir\"\n"
        )
    };
    let place = place();
    let wanted = format!("[reservations]\nwithin = \"2d\"\nflexible = {flexible}\n");
    let grid = [site("delft"), site("leiden"), wanted].concat();
    fs::write(place.path().join("grid.toml"), grid).unwrap();
    place
}

#[test]
fn promised_starts_of_a_simulation_stay_unless_they_may_be_moved() {
    let words = "--model poisson --jobs 30 --sizes 2x6,8 --interarrival 30m";
    for flexible in [false, true] {
        let place = reserving(flexible);
        simulated(&place, words);
        let run = &summary(&place, "simulation")["runs"][0];
        let counted = |what: &str| run["counters"][what].as_u64().unwrap();
        assert!(counted("reservations confirmed") > 0, "{run}");
        let moves = counted("promised starts brought forward");
        assert!(flexible || moves == 0, "{moves}");
    }
}

#[test]
fn the_published_model_runs_the_same_jobs_whatever_it_may_move() {
    let place = place();
    let words = "--model lublin --jobs 200 --split above:16 --estimates tsafrir \
                 --policy flexco-rigid,flexco-shift,flexco-remap";
    simulated(&place, words);
    let summary = summary(&place, "simulation");
    let runs = summary["runs"].as_array().unwrap();
    let counted = |run: usize, what: &str| runs[run]["counters"][what].as_u64().unwrap();
    for run in 0..3 {
        assert_eq!(counted(run, "metajobs ended"), counted(0, "metajobs ended"));
        let all = counted(run, "metajobs ended") + counted(run, "local jobs ended");
        assert_eq!(counted(run, "all jobs ended"), all);
    }
    assert_eq!(counted(0, "plans of metajobs replaced"), 0);
}

#[test]
fn several_values_are_compared_seed_by_seed() {
    let place = place();
    let words = "--model poisson --jobs 60 --interarrival 20s --load-scale 1,3 --seeds 2";
    let printed = simulated(&place, words);
    assert!(
        printed.contains("load x 3 less load x 1, per seed"),
        "{printed}"
    );
    assert!(printed.contains("4 runs"), "{printed}");
    let summary = summary(&place, "simulation");
    assert_eq!(
        summary["comparison"]["labels"],
        serde_json::json!(["load x 1", "load x 3"])
    );
    let mean = &summary["comparison"]["metrics"][0]["differences"][0]["interval"]["mean"];
    assert!(
        mean.as_f64().unwrap() > 0.0,
        "more load, longer waits: {mean}"
    );
    let order: Vec<_> = summary["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["seed"])
        .collect();
    assert_eq!(order, [1, 2, 1, 2]);
}

#[test]
fn schedulers_are_compared_and_json_is_the_summary() {
    let place = place();
    let words = "--model poisson --jobs 20 --scheduler easy,fcfs,conservative -o json";
    let printed: serde_json::Value = serde_json::from_str(&simulated(&place, words)).unwrap();
    assert_eq!(printed["comparison"]["labels"].as_array().unwrap().len(), 3);
    assert_eq!(printed, summary(&place, "simulation"));
}

#[test]
fn jobs_that_run_once_fail_with_their_nodes_and_all_others_are_done() {
    let place = place();
    let words = "--model poisson --jobs 150 --sizes 6 --shortest 30m --longest 1h \
                 --interarrival 15m --rerunnable yes,no";
    simulated(&place, words);
    let summary = summary(&place, "simulation");
    let runs = summary["runs"].as_array().unwrap();
    assert_eq!(runs[0]["label"], "rerunnable");
    assert_eq!(runs[0]["jobs"]["done"], 150);
    assert_eq!(runs[1]["label"], "not rerunnable");
    let failed = runs[1]["jobs"]["failed"].as_u64().unwrap();
    let killed = runs[1]["counters"]["components killed by failing nodes"]
        .as_u64()
        .unwrap();
    assert!(
        (1..=killed).contains(&failed),
        "{failed} failed, {killed} killed"
    );
}

#[test]
fn it_ends_when_told_and_says_what_was_unfinished() {
    let place = place();
    simulated(
        &place,
        "--model poisson --jobs 50 --interarrival 10m --until 2h",
    );
    let summary = summary(&place, "simulation");
    let run = &summary["runs"][0];
    assert_eq!(run["duration_s"].as_f64(), Some(7_200.0));
    let jobs = &run["jobs"];
    let submitted = jobs["submitted"].as_u64().unwrap();
    assert!((5..40).contains(&submitted), "{jobs}");
    let ended = jobs["done"].as_u64().unwrap() + jobs["unfinished"].as_u64().unwrap();
    assert_eq!(ended, submitted);
}

#[test]
fn a_line_of_the_wrong_length_is_left_out_and_named() {
    let lines = job(1, 0, 60, 2) + "2 5 -1 60\n" + &job(3, 10, 60, 2);
    let (said, summary) = two_usable(&lines);
    assert!(said.contains("line 2: wrong column count"), "{said}");
    assert_eq!(summary["runs"][0]["counters"]["log lines left out"], 1);
}

#[test]
fn an_unknown_run_time_is_left_out_and_named() {
    let lines = job(1, 0, 60, 2) + &job(2, 5, -1, 2) + &job(3, 10, 60, 2);
    let (said, _) = two_usable(&lines);
    assert!(said.contains("line 2: unknown run time"), "{said}");
}

#[test]
fn a_job_back_in_time_is_sorted_and_named() {
    let (said, _) = two_usable(&(job(1, 100, 60, 2) + &job(2, 5, 60, 2)));
    assert!(said.contains("line 2: goes back in time"), "{said}");
}

#[test]
fn a_truncated_log_is_used_as_far_as_it_goes() {
    let (said, _) = two_usable(&(job(1, 0, 60, 2) + &job(2, 5, 60, 2) + "3 10 -1"));
    assert!(said.contains("line 3: truncated file"), "{said}");
}

#[test]
fn jobs_larger_than_the_grid_are_left_out_and_named() {
    let lines = job(1, 0, 60, 2) + &job(2, 5, 60, 500) + &job(3, 10, 60, 20) + &job(4, 9, 60, 2);
    let (said, summary) = two_usable(&lines);
    assert!(
        said.contains("line 2: more processors than the grid has"),
        "{said}"
    );
    assert!(
        said.contains("(job 3)"),
        "20 fit the grid, but no site: {said}"
    );
    let counters = &summary["runs"][0]["counters"];
    assert_eq!(counters["jobs left out that no empty grid has room for"], 1);
}

#[test]
fn a_log_without_jobs_is_an_error() {
    for lines in ["", "; UnixStartTime: 0\n", "no log at all\n"] {
        let (_, output) = log(lines, "");
        assert_eq!(output.status.code(), Some(2), "{lines}");
        let said = stderr(&output);
        assert!(said.contains("jobs.swf has no usable entry"), "{said}");
    }
}

#[test]
fn bad_lines_are_refused_if_asked_for() {
    let (_, output) = log(&(job(1, 0, 60, 2) + &job(2, 5, -1, 2)), "--on-bad refuse");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("jobs.swf, line 2: unknown run time"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_unknown_key_of_the_grid_names_the_nearest_known_one() {
    let place = place();
    let grid = GRID.replace("nodes = 12", "nodes = 12\nprocesors_per_node = 2");
    fs::write(place.path().join("grid.toml"), grid).unwrap();
    let output = simulate(&place, "--model lublin --jobs 1");
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("grid.toml:19: unknown key \"procesors_per_node\""),
        "{said}"
    );
    assert!(
        said.contains("did you mean \"processors_per_node\"?"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let place = place();
    let model = "--model lublin --jobs 5";
    for (words, hint) in [
        ("", "--model lublin --jobs 500"),
        ("--model lublin", "--jobs"),
        (&format!("{model} --split above"), "above:32"),
        (&format!("{model} --policy best-fit"), "worst-fit"),
        (&format!("{model} --input atlas"), "there are genome"),
        (
            &format!("{model} --load-scale 0"),
            "give a number from 0.001 to 1000",
        ),
        (
            &format!("{model} --scheduler easy,easy"),
            "give each value once",
        ),
        (
            &format!("{model} --to grid.toml"),
            "name another directory with --to",
        ),
        ("--log nowhere.swf", "check its path"),
    ] {
        let output = simulate(&place, words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(
            stderr(&output).contains(hint),
            "{words}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn an_interrupt_ends_it_with_130_and_writes_nothing() {
    use rustix::process::{Pid, Signal, kill_process};
    let place = place();
    let mut command = command(place.path(), "--model lublin --jobs 50000");
    let mut child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("the simulation wrote nothing"), "{said}");
    assert!(!place.path().join("simulation/jobs.csv").exists());
}

#[test]
fn the_grids_that_come_with_the_sources_can_be_simulated() {
    let place = place();
    for grid in [
        "examples/grid.toml",
        "simulator/src/simulate/grid/examples/grid-das2.toml",
    ] {
        let grid = Path::new(env!("CARGO_MANIFEST_DIR")).join(grid);
        fs::copy(grid, place.path().join("grid.toml")).unwrap();
        simulated(&place, "--model poisson --jobs 10 --sizes 1,2,4");
    }
}
