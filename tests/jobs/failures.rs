//! A job that failed says why, wherever its user looks.

use std::time::{Duration, Instant};

use cospan_chaos_tests::test_environment::Layout;
use cospan_chaos_tests::webhook::Receiver;

use super::job_fixture::{PATIENCE, has, scene_with};

/// Prints to both streams, and tries to clear the screen of whoever reads it.
const FAILS: &str = r#"
name = "wave"
wall_time = "1m"
notify = ["team"]
[[component]]
name = "solver"
processors = 1
executable = "/bin/sh"
arguments = ["-c", 'echo step 1; printf "\033[2Jno mesh\a here\n" >&2; exit 3']
"#;

#[test]
fn a_failed_job_gives_the_last_lines_of_its_errors_everywhere() {
    let receiver = Receiver::start().unwrap();
    let notify = format!("targets = {{ team = {:?} }}\n", receiver.address());
    let mut scene = scene_with(Layout {
        sites: 1,
        processors: 2,
        notify,
        ..Layout::default()
    });
    let more = "cospan logs 1 --component solver --stream stderr";
    let words = [
        "component solver",
        "in its own words",
        "| no mesh here",
        more,
    ];
    let job = scene.job_file(FAILS);
    scene.refused(&["submit", &job, "--wait"], 1, &words);
    scene.refused(&["wait", "1"], 1, &words);
    has(&scene.must(&["show", "1"]), &words);
    has(&scene.must(&["explain", "1"]), &words);
    let begun = Instant::now();
    while receiver.received().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "nobody was told");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = &receiver.received()[0]["last_words"][0];
    assert_eq!(told["lines"][0], "no mesh here", "{told}");
    assert_eq!(told["more"], more);

    let logs = scene.cospan(&["logs", "1"]);
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "step 1\n");
    let apart = String::from_utf8_lossy(&logs.stderr).into_owned();
    assert!(
        apart.starts_with("stderr | ") && apart.contains("no mesh"),
        "{apart}"
    );
    let one = scene.must(&["logs", "1", "--stream", "stderr"]);
    assert!(
        one.contains("no mesh") && !one.contains("stderr |"),
        "{one}"
    );
    scene.server.kill().unwrap();
}
