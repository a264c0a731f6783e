//! Jobs that are promised a start, on real sites, across a kill of the server.

use std::path::{Path, PathBuf};
use std::process::Output;

use cospan_chaos_tests::server::ServerProcess;
use cospan_chaos_tests::test_environment::TestEnvironment;
use serde_json::{Value, json};

use super::{client, environment, server, until, until_it_is, until_sites_take_jobs};

/// A file with a job, each component of which takes a whole site and notes when its payload
/// began; and where they note it.
fn job_file(
    environment: &TestEnvironment,
    name: &str,
    components: usize,
) -> (String, Vec<PathBuf>) {
    job_file_for(environment, name, components, "1m")
}

/// The same with this wall time.
fn job_file_for(
    environment: &TestEnvironment,
    name: &str,
    components: usize,
    wall_time: &str,
) -> (String, Vec<PathBuf>) {
    let began: Vec<PathBuf> = (0..components)
        .map(|n| environment.path().join(format!("{name}-{n}.began")))
        .collect();
    let components: Vec<Value> = began
        .iter()
        .enumerate()
        .map(|(n, began): (usize, &PathBuf)| {
            let line = format!("date +%s%3N > {began:?}");
            let arguments = ["-c", &line];
            json!({
                "name": format!("c{n}"), "processors": 2,
                "executable": "/bin/sh", "arguments": arguments,
            })
        })
        .collect();
    let job = json!({ "name": name, "wall_time": wall_time, "component": components });
    let file = environment.path().join(format!("{name}.json"));
    std::fs::write(&file, job.to_string()).unwrap();
    (file.display().to_string(), began)
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn job(server: &ServerProcess, id: u64) -> Value {
    server
        .api()
        .unwrap()
        .get_expected(&format!("/v1/jobs/{id}"))
        .unwrap()
}

/// The reservations that a site holds, as it keeps them.
fn held(root: &Path) -> Value {
    let text = std::fs::read_to_string(root.join("leases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_promised_start_at_two_sites_is_kept_across_a_kill() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let (file, began) = job_file(&environment, "first", 2);
    let granted = client(
        &environment,
        &["submit", &file, "--start", "in 3s", "--within", "10m"],
    );
    assert!(granted.status.success(), "{}", told(&granted));
    assert!(
        told(&granted).contains("job 1 starts at "),
        "{}",
        told(&granted)
    );
    let roots: Vec<&Path> = environment.sites.iter().map(|site| &*site.root).collect();
    assert!(
        roots
            .iter()
            .all(|root| held(root).as_object().unwrap().len() == 1),
        "one a site"
    );

    // Both sites are promised.
    let (file, not_begun) = job_file(&environment, "second", 1);
    let refused = client(&environment, &["submit", &file, "--start", "in 5s"]);
    assert_eq!(refused.status.code(), Some(3), "{}", told(&refused));
    assert!(told(&refused).contains("the earliest start that it could get is"));
    assert!(
        job(&server, 2)["reservation"]["next"].is_string(),
        "{}",
        job(&server, 2)
    );

    server.kill().unwrap();
    server.start().unwrap();
    until_it_is(&server, 1, "finished");
    let report = job(&server, 1);
    let promised: jiff::Timestamp = report["reservation"]["start"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    for began in began {
        let began: i64 = std::fs::read_to_string(began)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(began >= promised.as_millisecond(), "{began} {report}");
    }
    assert_eq!(report["reservation"]["state"], "released");
    assert_eq!(job(&server, 2)["phase"]["state"], "failed");
    assert!(not_begun.iter().all(|began| !began.exists()));
    until("the rest is given back", || {
        roots.iter().all(|root| held(root) == json!({}))
    });
}

#[test]
fn a_promise_that_a_site_lost_meanwhile_is_made_anew_long_before_the_start() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let (file, _) = job_file(&environment, "first", 2);
    let granted = client(
        &environment,
        &["submit", &file, "--start", "in 1h", "--within", "1h"],
    );
    assert!(granted.status.success(), "{}", told(&granted));
    let roots: Vec<&Path> = environment.sites.iter().map(|site| &*site.root).collect();
    let tags = |root: &Path| {
        held(root)
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let before = tags(roots[0]);
    server.kill().unwrap();
    std::fs::write(roots[0].join("leases.json"), "{}").unwrap();
    server.start().unwrap();
    until("both sites hold another one", || {
        roots.iter().all(|root| tags(root).len() == 1) && tags(roots[0]) != before
    });
    until_it_is(&server, 1, "placed");
    let state = || job(&server, 1)["reservation"]["state"].clone();
    until("it is promised again", || state() == "confirmed");
}

#[test]
fn a_start_that_slots_show_is_granted() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let (file, _) = job_file(&environment, "first", 2);
    let granted = client(
        &environment,
        &["submit", &file, "--start", "in 20s", "--within", "10m"],
    );
    assert!(granted.status.success(), "{}", told(&granted));
    let ask = |start: &str| {
        let asked = [
            "slots",
            "-n",
            "2",
            "--components",
            "2",
            "--for",
            "1m",
            "--start",
            start,
        ];
        let shown = client(
            &environment,
            &[&asked[..], &["--within", "1h", "-o", "json"]].concat(),
        );
        assert!(shown.status.success(), "{}", told(&shown));
        serde_json::from_slice::<Value>(&shown.stdout).unwrap()
    };
    let slots = ask("now");
    assert_eq!(slots["sites"].as_array().unwrap().len(), 2, "{slots}");
    let earliest = slots["together"][0]["earliest"].as_str().unwrap();
    let (file, _) = job_file(&environment, "second", 2);
    let refused = client(&environment, &["submit", &file, "--start", "in 25s"]);
    assert_eq!(
        refused.status.code(),
        Some(3),
        "both are promised: {}",
        told(&refused)
    );
    let granted = client(&environment, &["submit", &file, "--start", earliest]);
    assert!(granted.status.success(), "{slots} {}", told(&granted));
    let text = client(&environment, &["slots", "-n", "9", "--for", "1m"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("no start was found"), "{text}");
    assert!(client(&environment, &["cancel", "all"]).status.success());
    let roots: Vec<&Path> = environment.sites.iter().map(|site| &*site.root).collect();
    until("all is given back", || {
        roots.iter().all(|root| held(root) == json!({}))
    });
}

#[test]
fn a_job_that_would_last_into_a_promise_waits_and_a_short_one_runs() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let (file, _) = job_file(&environment, "promised", 2);
    let granted = client(&environment, &["submit", &file, "--start", "in 30m"]);
    assert!(granted.status.success(), "{}", told(&granted));
    let (file, _) = job_file_for(&environment, "long", 1, "1h");
    assert!(client(&environment, &["submit", &file]).status.success());
    let (file, _) = job_file_for(&environment, "short", 1, "1m");
    assert!(client(&environment, &["submit", &file]).status.success());
    until_it_is(&server, 3, "finished");
    until("both sites are reserved later, and idle now", || {
        let explained = server
            .api()
            .unwrap()
            .get_expected("/v1/jobs/2/explain")
            .unwrap();
        let verdicts = explained["verdicts"].as_array().unwrap();
        verdicts.len() == 2
            && verdicts.iter().all(|verdict: &Value| {
                let detail = verdict["detail"].as_str().unwrap();
                verdict["code"] == "reserved" && detail.contains("2 of 2, until then 2 idle")
            })
    });

    assert!(
        client(&environment, &["reservation", "cancel", "1"])
            .status
            .success()
    );
    until_it_is(&server, 2, "finished");
}

#[test]
fn a_promise_is_moved_kept_if_it_cannot_be_and_given_back() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let (file, _) = job_file(&environment, "moved", 2);
    let granted = client(&environment, &["submit", &file, "--start", "in 10m"]);
    assert!(granted.status.success(), "{}", told(&granted));
    let first = job(&server, 1)["reservation"]["start"].clone();

    let moved = client(
        &environment,
        &["reservation", "move", "1", "--start", "in 30m"],
    );
    assert!(moved.status.success(), "{}", told(&moved));
    let second = job(&server, 1)["reservation"]["start"].clone();
    assert_ne!(first, second);
    let roots: Vec<&Path> = environment.sites.iter().map(|site| &*site.root).collect();
    until("the old ones are given back", || {
        roots
            .iter()
            .all(|root| held(root).as_object().unwrap().len() == 1)
    });

    // The sites are full with what they promised.
    let start = second.as_str().unwrap();
    let kept = client(
        &environment,
        &["reservation", "move", "1", "--start", start],
    );
    assert_eq!(kept.status.code(), Some(3), "{}", told(&kept));
    assert!(
        told(&kept).contains("the old reservations stay"),
        "{}",
        told(&kept)
    );
    assert_eq!(job(&server, 1)["reservation"]["start"], second);
    let shown = client(&environment, &["reservation", "show", "1"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for part in ["ReservationMoved", "ReservationStayed", "confirmed", "c1"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }

    let given_back = client(&environment, &["reservation", "cancel", "1"]);
    assert!(given_back.status.success(), "{}", told(&given_back));
    until_it_is(&server, 1, "finished");
    assert_eq!(job(&server, 1)["reservation"]["state"], "released");
    until("all is given back", || {
        roots.iter().all(|root| held(root) == json!({}))
    });
}
