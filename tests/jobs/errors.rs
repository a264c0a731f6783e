//! What users and operators ask for and cannot have: each is told where, why, and what to do.

use std::process::Output;

use cospan_chaos_tests::test_environment::Layout;

use super::job_fixture::{Scene, has, scene, scene_with, until};

/// Refused, and told in these words.
pub(super) fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it was not refused: {said}");
    has(&said, words);
}

/// A job of one component, which runs for long; `above` and `below` are lines of it.
fn job(above: &str, below: &str) -> String {
    format!(
        r#"
        name = "errs"
        wall_time = "10m"
        {above}
        [[component]]
        name = "one"
        processors = 1
        executable = "/bin/sleep"
        arguments = ["300"]
        {below}
        "#
    )
}

fn submit(scene: &Scene, text: &str) -> Output {
    scene.cospan(&["submit", &scene.job_file(text)])
}

#[test]
fn a_policy_that_is_unknown_or_cannot_serve_names_those_that_can() {
    let mut scene = scene(1);
    let file = scene.job_file(&job("policy = \"best-fit\"", ""));
    let words = [
        "job.toml:",
        "\"best-fit\"",
        "there are: worst-fit, close-to-files",
    ];
    scene.refused(&["submit", &file], 2, &words);
    let unsuited = submit(
        &scene,
        &job("policy = \"flexible-cluster-minimization\"", ""),
    );
    let words = [
        "\"flexible-cluster-minimization\" cannot place non-fixed requests",
        "these can",
    ];
    refused(&unsuited, &words);
    let wide =
        job("[flexible]\nmin_component_size = 3", "").replace("processors = 1", "processors = 7");
    let split = submit(&scene, &wide);
    refused(
        &split,
        &[
            "cannot be split into components of at least 3",
            "--allow-unplaceable",
        ],
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_fixed_job_for_a_closed_site_is_told_how_to_wait_for_it() {
    let mut scene = scene(1);
    scene.must(&["site", "drain", "s1"]);
    let file = scene.job_file(&job("request = \"fixed\"", "site = \"s1\""));
    let closed = scene.cospan(&["submit", "--refuse-closed", &file]);
    let cause = "component one is for site s1, which takes no jobs now (the site is drained)";
    refused(&closed, &[cause, "without --refuse-closed"]);
    scene.must(&["submit", &file]);
    let told = scene.must(&["explain", "1"]);
    has(&told, &["s1", "drained"]);
    scene.server.kill().unwrap();
}

#[test]
fn a_fixed_job_is_refused_or_waits_whatever_closes_its_site() {
    let watching = "unreachable_after = \"1s\"\npoll_interval = \"200ms\"\n";
    let mut scene = scene_with(Layout {
        sites: 6,
        watching: watching.into(),
        ..Layout::default()
    });
    scene.must(&["site", "drain", "s1"]);
    let from = "2020-01-01T00:00:00Z";
    let until_when = "2120-01-01T00:00:00Z";
    scene.must(&[
        "site",
        "maintenance",
        "s2",
        "--from",
        from,
        "--until",
        until_when,
    ]);
    scene.must(&["site", "force", "s3", "unusable", "--lasting", "1h"]);
    scene.must(&["site", "freeze", "s4"]);
    let root = &scene.environment.sites[4].root;
    std::fs::rename(root, root.with_extension("away")).unwrap();
    let closed = [
        ("s1", "drained", "the site is drained"),
        ("s2", "maintenance", "the site is in a maintenance window"),
        (
            "s3",
            "unusable",
            "the site is unusable after errors in a row",
        ),
        ("s4", "frozen", "the site is frozen"),
        ("s5", "unreachable", "the site does not answer"),
    ];
    let state = |at: &str| {
        let sites = scene.get("/v1/sites");
        let mut sites = sites["sites"].as_array().unwrap().iter();
        sites.find(|site| site["name"] == at).unwrap()["state"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for (site, closed_by, why) in closed {
        until(closed_by, || state(site) == closed_by);
        let file = scene.job_file(&job("request = \"fixed\"", &format!("site = \"{site}\"")));
        let cause = format!("component one is for site {site}, which takes no jobs now ({why})");
        let words = [
            cause.as_str(),
            "submit without --refuse-closed to wait for it",
            "C1109",
        ];
        for more in [&["--refuse-closed"][..], &["--refuse-closed", "--dry-run"]] {
            // What sites are like is looked at once a second.
            let asked = || scene.cospan(&[&["submit", &file], more].concat());
            until("it is refused", || !asked().status.success());
            refused(&asked(), &words);
        }
        scene.must(&["submit", &file]);
        let waits = scene.get("/v1/jobs?newest=true&limit=1")["jobs"][0]["id"]
            .as_u64()
            .unwrap();
        assert_eq!(scene.state_of(waits), "queued");
        has(&scene.must(&["explain", &waits.to_string()]), &[site, why]);
    }
    scene.server.kill().unwrap();
}

#[test]
fn a_file_that_a_job_needs_is_not_unregistered_without_force() {
    let mut scene = scene(1);
    let path = scene.environment.plant_file(0, "mesh", 10).unwrap();
    scene.must(&["file", "add", "mesh", "--site", "s1", "--path", &path]);
    let reads = "input = [{ file = \"mesh\", path = \"mesh\" }]";
    scene.must(&["submit", &scene.job_file(&job("", reads))]);
    let kept = scene.cospan(&["file", "remove", "mesh"]);
    let remedy = "wait for them, cancel them, or force it";
    refused(&kept, &["\"mesh\"", "1 unfinished jobs need it", remedy]);
    scene.must(&["file", "remove", "mesh", "--force"]);
    scene.must(&["cancel", "1"]);
    scene.server.kill().unwrap();
}

#[test]
fn cancel_and_priority_are_answered_in_every_state_of_a_job() {
    let mut scene = scene(1);
    scene.must(&["site", "drain", "s1"]);
    scene.must(&["submit", &scene.job_file(&job("", ""))]);
    assert_eq!(scene.state_of(1), "queued");
    has(
        &scene.must(&["priority", "1", "high"]),
        &["job 1 has the new priority"],
    );
    has(
        &scene.must(&["priority", "1", "high"]),
        &["job 1 unchanged: it is so already"],
    );
    has(&scene.must(&["cancel", "1"]), &["job 1 is being cancelled"]);
    scene.must(&["site", "undrain", "s1"]);
    has(
        &scene.must(&["cancel", "1"]),
        &["job 1 unchanged: it is cancelled"],
    );
    has(
        &scene.must(&["priority", "1", "low"]),
        &["job 1 unchanged: it is cancelled"],
    );
    scene.refused(&["cancel", "7"], 3, &["job 7 not found"]);

    scene.run(&job("", "").replace("300", "0"));
    has(
        &scene.must(&["cancel", "2"]),
        &["job 2 unchanged: it is finished"],
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_running_job_is_moved_to_another_class_and_cancelled() {
    let mut scene = scene(1);
    scene.must(&["submit", &scene.job_file(&job("", ""))]);
    until("it runs", || scene.state_of(1) == "running");
    moved_and_cancelled(&scene, "running");
    scene.server.kill().unwrap();
}

#[test]
fn a_job_that_is_claiming_is_moved_to_another_class_and_cancelled() {
    let claim = "L = 0.0\nL_min = 0.0\n".into();
    let slow = Layout {
        sites: 2,
        processors: 4,
        claim,
        bandwidth: "4Mbit/s".into(),
        ..Layout::default()
    };
    let mut scene = scene_with(slow);
    // A minute of transfer, while its processors are held.
    let path = scene.environment.plant_file(1, "mesh", 30_000_000).unwrap();
    scene.must(&["file", "add", "mesh", "--site", "s2", "--path", &path]);
    let reads = "site = \"s1\"\ninput = [{ file = \"mesh\", path = \"mesh\" }]";
    scene.must(&[
        "submit",
        &scene.job_file(&job("request = \"fixed\"", reads)),
    ]);
    until("it is claiming", || scene.state_of(1) == "claiming");
    moved_and_cancelled(&scene, "claiming");
    scene.server.kill().unwrap();
}

/// Job 1 is moved, which leaves it as it is, and then cancelled.
fn moved_and_cancelled(scene: &Scene, state: &str) {
    has(
        &scene.must(&["priority", "1", "super-high"]),
        &["job 1 has the new priority"],
    );
    let job = scene.get("/v1/jobs/1");
    assert_eq!(
        (&job["priority"], &job["phase"]["state"]),
        (&"super-high".into(), &state.into())
    );
    assert_eq!(job["round"], 1, "it was not disturbed");
    has(&scene.must(&["cancel", "1"]), &["job 1 is being cancelled"]);
    assert_eq!(
        scene.cospan(&["wait", "1"]).status.code(),
        Some(5),
        "cancelled"
    );
    assert_eq!(scene.state_of(1), "cancelled");
    has(
        &scene.must(&["cancel", "1"]),
        &["job 1 unchanged: it is cancelled"],
    );
}

#[test]
fn an_unknown_site_is_refused_by_name_wherever_jobs_are_chosen_by_site() {
    let mut scene = scene(2);
    submit(&scene, &job("", ""));
    for arguments in [
        ["list", "--site", "nowhere"].as_slice(),
        &["cancel", "--all", "--site", "nowhere"],
    ] {
        scene.refused(
            arguments,
            3,
            &["there is no site nowhere", "there are: s1, s2"],
        );
    }
    scene.refused(
        &["cancel", "--all", "--site", "s11"],
        3,
        &["did you mean s1?"],
    );
    assert_ne!(scene.state_of(1), "cancelled");
    scene.server.kill().unwrap();
}
