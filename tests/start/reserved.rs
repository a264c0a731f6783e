//! Jobs that are promised a start, on real sites, across a kill of the server.

use std::path::{Path, PathBuf};
use std::process::Output;

use cospan_chaos_tests::server::Server;
use cospan_chaos_tests::test_environment::TestEnvironment;
use serde_json::{Value, json};

use super::{client, environment, server, until, until_it_is};

/// A file with a job that takes a whole site and notes when its payload began.
fn job_file(environment: &TestEnvironment, name: &str) -> (PathBuf, PathBuf) {
    let began = environment.path().join(format!("{name}.began"));
    let line = format!("date +%s%3N > {began:?}");
    let component = json!({
        "name": "only", "processors": 2, "executable": "/bin/sh", "arguments": ["-c", line],
    });
    let job = json!({ "name": name, "wall_time": "1m", "component": [component] });
    let file = environment.path().join(format!("{name}.json"));
    std::fs::write(&file, job.to_string()).unwrap();
    (file, began)
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn job(server: &Server, id: u64) -> Value {
    server.api().unwrap().want(&format!("/v1/jobs/{id}")).unwrap()
}

#[test]
fn a_promised_start_is_kept_across_a_kill_and_nothing_is_left_of_it() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    let submit = |name: &str, options: &[&str]| {
        let (file, began) = job_file(&environment, name);
        let file = file.display().to_string();
        let arguments: Vec<&str> =
            ["submit", &file].into_iter().chain(options.iter().copied()).collect();
        (client(&environment, &arguments), began)
    };
    let start = ["--start", "in 3s", "--within", "10m"];
    let (first, first_began) = submit("first", &start);
    let (second, second_began) = submit("second", &start);
    for granted in [&first, &second] {
        assert!(granted.status.success(), "{}", told(granted));
        assert!(told(granted).contains(" starts at "), "{}", told(granted));
    }
    // Both sites are promised by now.
    let (third, third_began) = submit("third", &["--start", "in 3s"]);
    assert_eq!(third.status.code(), Some(3), "{}", told(&third));
    assert!(
        told(&third).contains("the earliest start that would be granted is"),
        "{}",
        told(&third)
    );
    assert!(job(&server, 3)["reservation"]["next"].is_string(), "{}", job(&server, 3));

    server.kill().unwrap();
    server.start().unwrap();
    for (id, began) in [(1, first_began), (2, second_began)] {
        until_it_is(&server, id, "finished");
        let report = job(&server, id);
        let promised: jiff::Timestamp =
            report["reservation"]["start"].as_str().unwrap().parse().unwrap();
        let began: i64 = std::fs::read_to_string(began).unwrap().trim().parse().unwrap();
        assert!(began >= promised.as_millisecond(), "{began} {report}");
        assert_eq!(report["reservation"]["state"], "released");
    }
    assert!(!third_began.exists());
    until("no site holds a reservation", || {
        let held = |root: &Path| std::fs::read_to_string(root.join("leases.json")).unwrap();
        environment.sites.iter().all(|site| held(&site.root) == "{}")
    });
}
