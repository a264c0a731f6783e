//! Whoever wants to know is told of promised starts, and of reservations that nobody uses.

use std::path::Path;

use cospan_chaos_tests::test_environment::{Layout, TestEnvironment};
use cospan_chaos_tests::webhook::Receiver;
use serde_json::{Value, json};

use super::{client, server, until, until_sites_take_jobs};

fn environment(notify: String, reservations: &str) -> TestEnvironment {
    let layout = Layout {
        sites: 2,
        processors: 2,
        notify,
        ..Layout::default()
    };
    let environment =
        TestEnvironment::new(Path::new(env!("CARGO_TARGET_TMPDIR")), &layout).unwrap();
    let text = std::fs::read_to_string(environment.config()).unwrap();
    let text = format!("{text}\n[reservations]\n{reservations}\n");
    std::fs::write(environment.config(), text).unwrap();
    environment
}

fn of_kind(receiver: &Receiver, kind: &str) -> Vec<Value> {
    receiver
        .received()
        .into_iter()
        .filter(|told| told["kind"] == kind)
        .collect()
}

#[test]
fn a_promised_start_is_announced_across_a_kill_and_so_is_a_move() {
    let receiver = Receiver::start().unwrap();
    let targets = format!("targets = {{ team = {:?} }}\n", receiver.address());
    let environment = environment(targets, "notice = \"50m\"");
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let job = json!({
        "name": "wave", "wall_time": "1m", "notify": ["team"],
        "component": [{ "name": "c0", "processors": 2, "executable": "/bin/true" }],
    });
    let file = environment.path().join("wave.json");
    std::fs::write(&file, job.to_string()).unwrap();
    let granted = client(
        &environment,
        &["submit", file.to_str().unwrap(), "--start", "in 2h"],
    );
    assert!(
        granted.status.success(),
        "{}",
        String::from_utf8_lossy(&granted.stderr)
    );
    assert!(
        of_kind(&receiver, "start-soon").is_empty(),
        "it is not soon"
    );

    // So that what is announced is what it was moved to.
    let start = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(50 * 60 + 30);
    let moved = ["reservation", "move", "1", "--start", &start.to_string()];
    let moved = client(&environment, &moved);
    assert!(
        moved.status.success(),
        "{}",
        String::from_utf8_lossy(&moved.stderr)
    );
    until("the move is told", || {
        !of_kind(&receiver, "start-moved").is_empty()
    });
    server.kill().unwrap();
    server.start().unwrap();
    until("the start is announced", || {
        !of_kind(&receiver, "start-soon").is_empty()
    });
    let told = of_kind(&receiver, "start-soon").remove(0);
    assert!(told["job"] == 1 && told["name"] == "wave", "{told}");
    let promised: jiff::Timestamp = told["start"].as_str().unwrap().parse().unwrap();
    assert_eq!(promised.as_second(), start.as_second(), "{told}");
    until("both are in its history", || {
        let shown = client(&environment, &["show", "1"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        shown.contains("StartAnnounced") && shown.matches("NoticeTold").count() >= 2
    });
}

#[test]
fn a_shared_reservation_that_nobody_uses_is_given_back_and_told() {
    let receiver = Receiver::start().unwrap();
    let webhooks = format!("webhooks = [{:?}]\n", receiver.address());
    let environment = environment(webhooks, "no_show = \"15s\"");
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let create = |name: &str, site: &str| {
        let rest = ["--site", site, "--processors", "2", "--for", "1h"];
        let made = client(
            &environment,
            &[&["reservation", "create", name][..], &rest].concat(),
        );
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    };
    create("course-1", "s1");
    create("course-2", "s2");
    let job = json!({
        "name": "used", "wall_time": "1m", "reservation": { "use": "course-2" },
        "component": [{ "name": "c0", "processors": 1, "executable": "/bin/sleep", "arguments": ["4"] }],
    });
    let file = environment.path().join("used.json");
    std::fs::write(&file, job.to_string()).unwrap();
    assert!(
        client(&environment, &["submit", file.to_str().unwrap()])
            .status
            .success()
    );
    server.kill().unwrap();
    server.start().unwrap();
    let state = |name: &str| {
        let path = format!("/v1/shared-reservations/{name}");
        server.api().unwrap().get_expected(&path).unwrap()["state"].clone()
    };
    until("the unused one is given back", || {
        state("course-1") == "no-show"
    });
    until("its administrator is told", || {
        !of_kind(&receiver, "no-show").is_empty()
    });
    let told = of_kind(&receiver, "no-show").remove(0);
    assert!(
        told["site"] == "s1" && told["text"].as_str().unwrap().contains("course-1"),
        "{told}"
    );
    assert_eq!(state("course-2"), "confirmed");
    let leases = std::fs::read_to_string(environment.sites[0].root.join("leases.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&leases).unwrap(), json!({}));
}
