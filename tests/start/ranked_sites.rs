//! Sites that are ranked by what they grant, on real sites, across a kill of the server.

use cospan_chaos_tests::test_environment::TestEnvironment;
use serde_json::{Value, json};

use super::{client, environment, server, until_sites_take_jobs};

/// Two sites, the second of which is ten times as fast as the first.
fn of_two_speeds() -> TestEnvironment {
    let environment = environment();
    let mut text = std::fs::read_to_string(environment.config()).unwrap();
    for (at, result) in [10.0, 100.0].into_iter().enumerate() {
        let name = format!("name = {:?}\n", environment.sites[at].name);
        assert!(text.contains(&name), "{name} is not in {text}");
        text = text.replace(
            &name,
            &format!("{name}benchmarks = {{ b1 = {result:?} }}\n"),
        );
    }
    std::fs::write(environment.config(), text).unwrap();
    environment
}

/// A file with a job of one processor that prefers what is said.
fn job_file(environment: &TestEnvironment, preferences: &Value) -> String {
    let component = json!({ "name": "c0", "processors": 1, "executable": "/bin/true" });
    let job = json!({
        "name": "wave", "wall_time": "1m", "component": [component], "preferences": preferences,
    });
    let file = environment.path().join("wave.json");
    std::fs::write(&file, job.to_string()).unwrap();
    file.display().to_string()
}

fn reservations(environment: &TestEnvironment) -> Vec<usize> {
    let count = |root: &std::path::Path| {
        let text = std::fs::read_to_string(root.join("leases.json")).unwrap_or_default();
        serde_json::from_str::<Value>(&text).map_or(0, |held| held.as_object().unwrap().len())
    };
    environment
        .sites
        .iter()
        .map(|site| count(&site.root))
        .collect()
}

#[test]
fn a_job_is_promised_its_start_where_it_is_done_first_and_says_why() {
    let environment = of_two_speeds();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let benchmark = json!({ "name": "b1", "reference": 10.0, "run_time": "50s" });
    let file = job_file(&environment, &json!({ "benchmark": [benchmark] }));
    let fast = &environment.sites[1].name;
    let out = |arguments: &[&str]| {
        let output = client(&environment, arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text + &String::from_utf8_lossy(&output.stderr)
    };

    // It would be at 00:00:50 at the one site, at 00:00:05 at the other.
    let start = ["--start", "in 1h", "--within", "1h"];
    let tried = out(&[&["submit", &file, "--dry-run"], &start[..]].concat());
    assert!(
        tried.contains("c0: sites ranked by earliest-completion"),
        "{tried}"
    );
    assert!(
        tried.contains("unknown (0s)") && tried.contains("expected"),
        "{tried}"
    );
    assert_eq!(
        reservations(&environment),
        [0, 0],
        "nothing is reserved by that"
    );

    let granted = out(&[&["submit", &*file], &start[..]].concat());
    assert!(granted.contains(&format!(" at {fast}")), "{granted}");
    assert_eq!(
        reservations(&environment),
        [0, 1],
        "what was not chosen went back"
    );
    server.kill().unwrap();
    server.start().unwrap();
    for shown in [out(&["reservation", "show", "1"]), out(&["explain", "1"])] {
        assert!(
            shown.contains("chosen") && shown.contains("granted"),
            "{shown}"
        );
        assert!(shown.contains("5s") && shown.contains("50s"), "{shown}");
    }
    assert_eq!(reservations(&environment), [0, 1]);

    let file = job_file(&environment, &json!({ "stage_in": "2h" }));
    let late = out(&[&["submit", &*file], &start[..]].concat());
    assert!(late.contains("--start "), "{late}");
    // Numbers go on with the next block after a kill.
    let job = late
        .split_whitespace()
        .find(|word| word.parse::<u64>().is_ok())
        .unwrap_or(&late);
    let shown = out(&["reservation", "show", job]);
    assert!(
        shown.contains("too-late") && shown.contains("2h00m00s"),
        "{shown}"
    );
    let alone = out(&["submit", &file]);
    assert!(alone.contains("drop `[preferences]`"), "{alone}");
}
