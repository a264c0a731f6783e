//! Jobs as users meet them: from the job file to the accounts, on real sites.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod command_line_jobs;
mod commands;
mod endless_files;
mod error_messages;
mod errors;
mod failures;
mod hostile;
mod inputs;
mod job_fixture;
mod links;
mod operators;
mod outputs;
mod overrides;
mod priorities;
mod removed;
mod roles;
mod runners;
mod scripts;
mod signal_handling;
mod silence;
mod uploads;

use job_fixture::scene;

const FLEXIBLE: &str = r#"
name = "laplace"
wall_time = "1m"
[flexible]
min_component_size = 2
[[component]]
name = "grid"
processors = 10
executable = "/bin/sh"
arguments = ["-c", "echo rank $COSPAN_RANK of $COSPAN_PROCESSORS"]
"#;

#[test]
fn a_flexible_job_is_split_over_the_sites_and_accounted_for() {
    let mut scene = scene(3);
    let file = scene.job_file(FLEXIBLE);
    let preview = scene.must(&["submit", &file, "--dry-run"]);
    assert!(
        preview.contains("it can be placed now, on 3 site(s)"),
        "{preview}"
    );
    assert!(preview.contains("takes 2, 4 processors left"), "{preview}");
    scene.must(&["submit", &file, "--wait"]);
    let shown = scene.must(&["show", "1"]);
    assert!(shown.contains("grid-3"), "{shown}");
    let printed = scene.must(&["logs", "1"]);
    for rank in 0..3 {
        assert!(
            printed.contains(&format!("rank {rank} of 4,4,2")),
            "{printed}"
        );
    }
    let report = scene.must(&["report"]);
    let mut rows = report
        .lines()
        .map(|line| line.split(',').collect::<Vec<&str>>());
    let head = rows.next().unwrap();
    let row = rows.next().unwrap();
    let cell = |name: &str| row[head.iter().position(|column| *column == name).unwrap()];
    let known = [
        ("name", "laplace"),
        ("state", "finished"),
        ("components", "3"),
    ];
    let policy = ("policy", "flexible-cluster-minimization");
    let counted = [policy, ("processors", "10"), ("sites_combined", "3")];
    for (name, expected) in known.into_iter().chain(counted) {
        assert_eq!(cell(name), expected, "{report}");
    }
    let ms = |name: &str| cell(name).parse::<u64>().unwrap();
    assert!(ms("wait_time_ms") <= ms("response_time_ms"), "{report}");
    assert_eq!(rows.next(), None);
    scene.server.kill().unwrap();
}

#[test]
fn a_split_that_cannot_be_is_refused_with_its_reason() {
    let mut scene = scene(3);
    let refusals = [
        (
            FLEXIBLE.replace("processors = 10", "processors = 13"),
            "cannot be split into components",
        ),
        (
            FLEXIBLE.replace("size = 2", "size = 11"),
            "less than min_component_size (11)",
        ),
        (
            FLEXIBLE.replace("min_component_size = 2", "splits = [[5, 4]]"),
            "does not add up to the 10",
        ),
        (
            format!("request = \"fixed\"\n{FLEXIBLE}"),
            "the request is not flexible",
        ),
        (
            format!("policy = \"worst-fit\"\n{FLEXIBLE}"),
            "policy \"worst-fit\" cannot place flexible requests; these can: flexible-cluster",
        ),
    ];
    for (text, expected) in refusals {
        let output = scene.cospan(&["submit", &scene.job_file(&text)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(expected),
            "{text}: {said}"
        );
    }
    scene.server.kill().unwrap();
}

#[test]
fn a_job_for_a_drained_site_waits_for_it_or_is_refused_as_its_user_says() {
    let mut scene = scene(3);
    scene.must(&["site", "drain", "s1"]);
    let job = scene.job_file(
        r#"
        name = "here"
        wall_time = "1m"
        request = "fixed"
        [[component]]
        name = "one"
        site = "s1"
        processors = 1
        executable = "/bin/true"
        "#,
    );
    let refused = scene.cospan(&["submit", "--refuse-closed", &job]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(
        said.contains("site s1, which takes no jobs now") && said.contains("C1109"),
        "{said}"
    );
    scene.must(&["submit", &job]);
    scene.must(&["site", "undrain", "s1"]);
    scene.must(&["wait", "1"]);
    scene.server.kill().unwrap();
}

#[test]
fn a_local_site_that_says_nothing_of_memory_takes_what_needs_some() {
    let mut scene = scene(1);
    let job = scene.job_file(
        r#"
        wall_time = "1m"
        [[component]]
        name = "one"
        processors = 1
        memory = "1MB"
        disk = "1MB"
        executable = "/bin/true"
        "#,
    );
    scene.must(&["submit", &job, "--wait"]);
    scene.server.kill().unwrap();
}
