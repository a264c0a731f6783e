//! What users and operators ask for and cannot have: each is told where, why, and what to do.

use std::process::Output;

use super::scene::{Scene, has, scene};

/// Refused, and told in these words.
fn refused(output: &Output, words: &[&str]) {
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
    let unknown = submit(&scene, &job("policy = \"best-fit\"", ""));
    refused(&unknown, &["\"best-fit\"", "there are: worst-fit, close-to-files", "C11"]);
    let unsuited = submit(&scene, &job("policy = \"flexible-cluster-minimization\"", ""));
    let words = ["\"flexible-cluster-minimization\" cannot place non-fixed requests", "these can"];
    refused(&unsuited, &words);
    let wide =
        job("[flexible]\nmin_component_size = 3", "").replace("processors = 1", "processors = 7");
    let split = submit(&scene, &wide);
    refused(&split, &["cannot be split into components of at least 3", "--allow-unplaceable"]);
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
fn a_file_that_a_job_needs_is_not_unregistered_without_force() {
    let mut scene = scene(1);
    let path = scene.ground.plant_file(0, "mesh", 10).unwrap();
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
fn cancel_and_priority_are_answered_in_every_state_that_a_job_can_be_left_in() {
    let mut scene = scene(1);
    scene.must(&["site", "drain", "s1"]);
    scene.must(&["submit", &scene.job_file(&job("", ""))]);
    assert_eq!(scene.state_of(1), "queued");
    has(&scene.must(&["priority", "1", "high"]), &["job 1 has the new priority"]);
    has(&scene.must(&["priority", "1", "high"]), &["job 1 unchanged: it is so already"]);
    has(&scene.must(&["cancel", "1"]), &["job 1 is being cancelled"]);
    scene.must(&["site", "undrain", "s1"]);
    has(&scene.must(&["cancel", "1"]), &["job 1 unchanged: it is cancelled"]);
    has(&scene.must(&["priority", "1", "low"]), &["job 1 unchanged: it is cancelled"]);
    scene.refused(&["cancel", "7"], 3, &["job 7 not found"]);

    scene.run(&job("", "").replace("300", "0"));
    has(&scene.must(&["cancel", "2"]), &["job 2 unchanged: it is finished"]);
    scene.server.kill().unwrap();
}

#[test]
fn a_site_that_is_nowhere_is_refused_by_name_wherever_jobs_are_chosen_by_site() {
    let mut scene = scene(2);
    submit(&scene, &job("", ""));
    for arguments in
        [["list", "--site", "nowhere"].as_slice(), &["cancel", "--all", "--site", "nowhere"]]
    {
        scene.refused(arguments, 3, &["there is no site nowhere", "there are: s1, s2"]);
    }
    scene.refused(&["cancel", "--all", "--site", "s11"], 3, &["did you mean s1?"]);
    assert_ne!(scene.state_of(1), "cancelled");
    scene.server.kill().unwrap();
}
