//! Outputs that cannot be brought where they belong.

use std::fs;

use cospan_chaos_tests::test_environment::Layout;

use super::links::without_links;
use super::scene::{environment, has, scene_on, until};

const LEAVES: &str = r#"
wall_time = "1m"
[[component]]
name = "solve"
site = "s1"
processors = 1
executable = "/bin/sh"
arguments = ["-c", "echo 42 > answer"]
output = [{ path = "answer", site = "s2", register = "the/answer" }]
"#;

#[test]
fn an_output_that_never_arrives_ends_its_job_and_can_still_be_fetched() {
    let environment = environment(&Layout { sites: 2, processors: 4, ..Layout::default() });
    let config = fs::read_to_string(environment.config()).unwrap();
    let config = config.replace("[store]\n", "[store]\noutput_tries = 3\n");
    fs::write(environment.config(), without_links(&config)).unwrap();
    let mut scene = scene_on(environment);
    scene.must(&["submit", &scene.job_file(LEAVES)]);
    until("it is given up", || scene.state_of(1) == "failed");
    let why = [
        "its payloads succeeded, but output answer of component solve cannot be brought to site s2",
        "`cospan output` fetches it",
    ];
    has(&scene.must(&["show", "1"]), &why);
    has(&scene.get("/v1/jobs/1/events").to_string(), &why);
    let to = scene.environment.path().join("fetched");
    scene.must(&["output", "1", "--to", &to.display().to_string()]);
    let fetched = fs::read_to_string(to.join("solve/answer"));
    assert_eq!(fetched.unwrap(), "42\n");
    scene.server.kill().unwrap();
}
