//! Several jobs at once, several streams, and files that are there already.

use std::path::Path;
use std::process::Output;

use super::fake_server::{Fake, FakeAnswer, Request};
use super::{code, cospan, job, run, stderr, stdout};
use serde_json::json;

const RUNS: u64 = 1_000;

/// A sweep of which a hundred runs more have finished at each look; the third failed.
fn sweep() -> Fake {
    let looks = std::sync::atomic::AtomicU64::new(0);
    Fake::start(move |request| match request.path.as_str() {
        "/v1/jobs" => {
            let looks = looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let state = |id: u64| match id {
                3 => "failed",
                id if id <= (looks + 1) * 400 => "finished",
                _ => "running",
            };
            let at = "2026-03-01T12:00:00Z";
            FakeAnswer::json(&json!({ "jobs": (1..=RUNS).rev().map(|id: u64| {
                json!({ "id": id, "owner": "a", "state": state(id), "since": at, "group": 1,
                    "submitted_at": at, "priority": "low", "components": 1, "processors": 1 })
            }).collect::<Vec<_>>() }))
        }
        // The numbers of a range that jobs have.
        "/v1/accounts" => FakeAnswer::json(&json!({ "jobs": (1..=RUNS).map(|id: u64| {
            let none = json!({ "total_placement_time_ms": 0, "gained_processor_ms": 0,
                "wasted_processor_ms": 0, "sites_combined": 0, "transfer_volume_bytes": 0 });
            json!({ "id": id, "owner": "a", "state": "running", "priority": "low", "components": 1,
                "processors": 1, "submitted_at": "2026-03-01T12:00:00Z", "rounds": 1, "attempts": 1,
                "accounting": none })
        }).collect::<Vec<_>>() })),
        "/v1/jobs/3" => FakeAnswer::json(&job(3, "failed")),
        "/v1/jobs/3/explain" => FakeAnswer::json(&json!({
            "job": 3, "summary": "it failed", "verdicts": [], "last_words": [{
                "component": "solver", "attempt": 1, "site": "delft", "lines": ["no mesh"],
                "more": "cospan logs 3 --component solver --stream stderr" }],
        })),
        _ => FakeAnswer::no_such(&request.path),
    })
}

#[test]
fn a_wait_for_a_thousand_runs_says_a_few_lines_and_asks_a_few_times() {
    let server = sweep();
    let output = run(&server, &["wait", "1-1000"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let told = stderr(&output);
    let said = stdout(&output);
    assert!(told.lines().count() <= 4, "{told}");
    assert!(
        told.starts_with("399 of 1000 done, 600 running, 1 failed, 0 waiting"),
        "{told}"
    );
    assert!(
        told.ends_with("999 of 1000 done, 0 running, 1 failed, 0 waiting\n"),
        "{told}"
    );
    assert!(
        said.starts_with("1000 jobs: 999 finished, 1 failed\njob 3 failed: "),
        "{said}"
    );
    assert!(
        said.contains("| no mesh") && said.lines().count() <= 6,
        "{said}"
    );
    assert!(
        server.requests().len() <= 10,
        "{} requests",
        server.requests().len()
    );
}

/// Jobs 1 and 2 with both streams, job 3 that has not begun, as the runs of sweep 1.
fn logs() -> Fake {
    Fake::start(|request| match request.path.as_str() {
        "/v1/jobs" => {
            let at = "2026-03-01T12:00:00Z";
            FakeAnswer::json(&json!({ "jobs": (1..=3).rev().map(|id: u64| {
                json!({ "id": id, "owner": "a", "state": "running", "since": at, "group": 1,
                    "submitted_at": at, "priority": "low", "components": 1, "processors": 1 })
            }).collect::<Vec<_>>() }))
        }
        "/v1/jobs/1" | "/v1/jobs/2" => FakeAnswer::json(&job(id(request), "finished")),
        "/v1/jobs/3" => FakeAnswer::json(&job(3, "running")),
        "/v1/jobs/1/logs/solver/stdout" => piece(request, "one\n"),
        "/v1/jobs/1/logs/solver/stderr" => piece(request, "oh\n"),
        "/v1/jobs/2/logs/solver/stdout" => piece(request, "two\n"),
        "/v1/jobs/2/logs/solver/stderr" => piece(request, ""),
        "/v1/jobs/1/outputs/solver/result.txt" | "/v1/jobs/2/outputs/solver/result.txt" => {
            FakeAnswer::new(200, "application/octet-stream", "42\n")
        }
        _ => FakeAnswer::no_such(&request.path),
    })
}

fn id(request: &Request) -> u64 {
    request.path.rsplit('/').next().unwrap().parse().unwrap()
}

/// A log that is read at its beginning, and is empty behind it.
fn piece(request: &Request, text: &str) -> FakeAnswer {
    let is_first = request.head.contains("offset=0");
    FakeAnswer::new(200, "text/plain", if is_first { text } else { "" })
}

#[test]
fn both_streams_are_printed_and_told_apart_unless_one_is_asked_for() {
    let server = logs();
    let both = run(&server, &["logs", "1"]);
    assert_eq!((code(&both), stdout(&both).as_str()), (0, "one\n"));
    assert_eq!(stderr(&both), "stderr | oh\n");
    let one = run(&server, &["logs", "1", "--stream", "stderr"]);
    assert_eq!((stdout(&one).as_str(), stderr(&one).as_str()), ("oh\n", ""));
}

#[test]
fn the_logs_of_a_sweep_have_the_job_in_front_and_need_not_all_be_there() {
    let output = run(&logs(), &["logs", "group:1"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output), "1 | one\n2 | two\n");
    let told = stderr(&output);
    assert!(
        told.starts_with("1 stderr | oh\n1 of 3 jobs have no log"),
        "{told}"
    );
    let none = run(&logs(), &["logs", "3"]);
    assert_eq!(code(&none), 3, "{}", stderr(&none));
}

fn output(home: &Path, server: &Fake, arguments: &[&str]) -> Output {
    let mut command = cospan(home);
    command
        .env("COSPAN_SERVER", server.address())
        .arg("output")
        .args(arguments);
    command.output().unwrap()
}

#[test]
fn the_outputs_of_a_sweep_go_to_a_directory_for_each_run() {
    let home = tempfile::tempdir().unwrap();
    let fetched = output(home.path(), &logs(), &["1,2", "--to", "out"]);
    assert_eq!(code(&fetched), 0, "{}", stderr(&fetched));
    for id in [1, 2] {
        let file = home.path().join(format!("out/job-{id}/solver/result.txt"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "42\n");
    }
}

/// Job 1 left a directory.
fn left_a_directory(entries: serde_json::Value) -> Fake {
    Fake::start(move |request| match request.path.as_str() {
        "/v1/jobs/1" => FakeAnswer::json(&job(1, "finished")),
        "/v1/jobs/1/trees/solver/result.txt" => FakeAnswer::json(&json!({ "entries": entries })),
        "/v1/jobs/1/outputs/solver/result.txt/run" => {
            FakeAnswer::new(200, "application/octet-stream", "echo\n")
        }
        "/v1/jobs/1/outputs/solver/result.txt/d/x" => {
            FakeAnswer::new(200, "application/octet-stream", "42\n")
        }
        _ => FakeAnswer::no_such(&request.path),
    })
}

#[test]
fn a_directory_is_fetched_whole_with_its_links_beside_what_is_there() {
    let home = tempfile::tempdir().unwrap();
    let server = left_a_directory(json!([
        { "kind": "directory", "path": "d" },
        { "kind": "file", "path": "d/x", "size_bytes": 3, "executable": false },
        { "kind": "link", "path": "latest", "target": "d/x" },
        { "kind": "file", "path": "run", "size_bytes": 5, "executable": true },
    ]));
    let fetched = output(home.path(), &server, &["1", "--to", "out"]);
    let said = stdout(&fetched);
    // Whole is what it was when its site read it, and the report says something else.
    assert_eq!(code(&fetched), 4, "{said}");
    assert!(said.contains("differs from what the site had"), "{said}");
    let at = |name: &str| home.path().join("out/solver/result.txt").join(name);
    assert_eq!(std::fs::read_to_string(at("latest")).unwrap(), "42\n");
    assert_eq!(std::fs::read_link(at("latest")).unwrap(), Path::new("d/x"));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&at("run").metadata().unwrap().permissions());
    assert_eq!(mode & 0o100, 0o100);
    std::fs::write(at("d/x"), "mine\n").unwrap();
    std::fs::remove_file(at("run")).unwrap();
    let refused = output(home.path(), &server, &["1", "--to", "out"]);
    let said = stdout(&refused);
    assert_eq!(code(&refused), 2, "{said}");
    assert!(
        said.contains("d/x: a different file is already there"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(at("d/x")).unwrap(), "mine\n");
    assert!(at("run").exists(), "the others are fetched");
}

#[test]
fn a_directory_whose_names_lead_out_is_not_fetched_at_all() {
    let home = tempfile::tempdir().unwrap();
    let file =
        |path: &str| json!({ "kind": "file", "path": path, "size_bytes": 3, "executable": false });
    for wrong in [
        json!([file("../../d/x")]),
        json!([{ "kind": "link", "path": "d", "target": "/tmp" }, file("d/x")]),
        json!([{ "kind": "link", "path": "up", "target": ".." }]),
    ] {
        let refused = output(home.path(), &left_a_directory(wrong), &["1", "--to", "out"]);
        assert_eq!(code(&refused), 2, "{}", stdout(&refused));
        assert!(
            stdout(&refused).contains("lead elsewhere"),
            "{}",
            stdout(&refused)
        );
        assert!(!home.path().join("out").exists());
    }
}

#[test]
fn another_file_that_is_there_already_is_neither_kept_in_silence_nor_lost() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("out/solver/result.txt");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "mine\n").unwrap();
    let server = logs();
    let refused = output(home.path(), &server, &["1", "--to", "out"]);
    let said = stdout(&refused);
    assert_eq!(code(&refused), 2, "{said}");
    assert!(
        said.contains("--overwrite") && !said.contains("fetched"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n");
    let replaced = output(home.path(), &server, &["1", "--to", "out", "--overwrite"]);
    assert_eq!(code(&replaced), 0, "{}", stdout(&replaced));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "42\n");
    // The same file is there already, which is what was wanted.
    let again = output(home.path(), &server, &["1", "--to", "out"]);
    assert_eq!(code(&again), 0, "{}", stdout(&again));
    assert!(
        stdout(&again).contains("there already"),
        "{}",
        stdout(&again)
    );
}
