//! Links that nobody configured: measured on one machine, named where one is missing.

use std::fs;

use cospan_chaos_tests::test_environment::{Layout, TestEnvironment};

use super::job_fixture::{Scene, environment, has, scene_on};

/// Two components that share an input and fit no site together.
const SHARED: &str = r#"
wall_time = "1m"
[[component]]
name = "here"
processors = 2
executable = "/bin/cat"
arguments = ["mesh"]
input = [{ file = "mesh", path = "mesh" }]
[[component]]
name = "there"
processors = 2
executable = "/bin/cat"
arguments = ["mesh"]
input = [{ file = "mesh", path = "mesh" }]
"#;

/// A configuration whose links are left out.
fn left_out(config: &str) -> String {
    config.split("[[link]]").next().unwrap().to_owned()
}

/// A configuration in which nothing is copied from one site to another.
pub(super) fn without_links(config: &str) -> String {
    let link = "[[link]]\nfrom = \"s1\"\nto = \"s2\"\nbandwidth = \"0bit/s\"\n";
    left_out(config) + link
}

fn two_sites(change: fn(&str) -> String) -> Scene {
    let environment: TestEnvironment = environment(&Layout {
        sites: 2,
        processors: 2,
        ..Layout::default()
    });
    let config = fs::read_to_string(environment.config()).unwrap();
    fs::write(environment.config(), change(&config)).unwrap();
    let files = environment.sites[0].root.join("files");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("mesh"), "a mesh\n").unwrap();
    let scene = scene_on(environment);
    scene.must(&["file", "add", "mesh", "--site", "s1", "--path", "mesh"]);
    scene
}

#[test]
fn a_job_that_lacks_a_link_is_told_so_at_its_submission_and_ever_after() {
    let mut scene = two_sites(without_links);
    let told = [
        "the input of component here is at s1, and no link brings it to s2",
        "configure a [[link]] from s1 to s2",
    ];
    let job = scene.job_file(SHARED);
    has(&scene.must(&["submit", &job, "--dry-run"]), &told);
    let submitted = scene.cospan(&["submit", &job]);
    assert!(submitted.status.success());
    let said = String::from_utf8_lossy(&submitted.stderr).into_owned();
    has(
        &said,
        &[
            "warning",
            "job 1: it is queued, and can never start",
            told[0],
            told[1],
        ],
    );
    has(scene.must(&["explain", "1"]).lines().next().unwrap(), &told);
    has(&scene.must(&["show", "1"]), &told);
    // Where both fit beside their input, nothing is missing.
    let small = scene.file(
        "small.toml",
        &SHARED.replace("processors = 2", "processors = 1"),
    );
    let submitted = scene.cospan(&["submit", &small, "--wait"]);
    let said = String::from_utf8_lossy(&submitted.stderr).into_owned();
    assert!(
        submitted.status.success() && !said.contains("warning"),
        "{said}"
    );
    scene.server.kill().unwrap();
}

#[test]
fn sites_of_one_machine_need_no_configured_link() {
    let mut scene = two_sites(left_out);
    assert_eq!(scene.must(&["config", "check"]).matches("odd").count(), 0);
    scene.run(SHARED);
    assert_eq!(scene.must(&["logs", "1"]).matches("a mesh").count(), 2);
    has(&scene.must(&["site", "show", "s2"]), &["FILES FROM", "s1"]);
    scene.server.kill().unwrap();
}
