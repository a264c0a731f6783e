//! Components that begin so long after the others, on real sites, across a kill of the server.

use std::path::{Path, PathBuf};

use cospan_chaos_tests::test_environment::TestEnvironment;
use serde_json::{Value, json};

use super::{client, environment, server, until, until_it_is, until_sites_take_jobs};

/// A file with a job of two components, of which the second begins four seconds after the first;
/// each takes a whole site, and notes when its payload began and whether it was a restart.
fn job_file(environment: &TestEnvironment, reservation: &Value) -> (String, [PathBuf; 2]) {
    let began = ["first", "late"].map(|name| environment.path().join(format!("{name}.began")));
    let component = |name: &str, began: &Path| {
        let line = format!("echo $(date +%s%3N) ${{COSPAN_RESTART:-0}} >> {began:?}");
        json!({
            "name": name, "processors": 2,
            "executable": "/bin/sh", "arguments": ["-c", line],
        })
    };
    let mut late = component("late", &began[1]);
    late["start_after"] = json!("4s");
    let components = [component("first", &began[0]), late];
    let mut job = json!({ "name": "stages", "wall_time": "1m", "component": components });
    if reservation.is_object() {
        job["reservation"] = reservation.clone();
    }
    let file = environment.path().join("stages.json");
    std::fs::write(&file, job.to_string()).unwrap();
    (file.display().to_string(), began)
}

fn told(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// When the payload began, in milliseconds, and whether it was told that it is a restart.
fn noted(file: &Path, history: &Value) -> (i64, String) {
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(text.lines().count(), 1, "it ran once: {text}{history}");
    let (at, restart) = text.trim().split_once(' ').unwrap();
    (at.parse().unwrap(), restart.to_owned())
}

#[test]
fn a_component_begins_after_the_others_also_across_a_kill() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    // What is reserved lasts so much longer: a machine that has much to do starts a server slowly.
    let reservation = json!({ "earliest": "in 3s", "within": "10m", "tolerance": "1m" });
    let (file, began) = job_file(&environment, &reservation);
    let granted = client(&environment, &["submit", &file]);
    assert!(granted.status.success(), "{}", told(&granted));
    let job = |server: &cospan_chaos_tests::server::ServerProcess| -> Value {
        server.api().unwrap().get_expected("/v1/jobs/1").unwrap()
    };
    let held = job(&server)["reservation"]["held"].clone();
    let from = |n: usize| -> jiff::Timestamp {
        let of = held.as_array().unwrap().iter();
        let name = ["first", "late"][n];
        let mut of = of.filter(|held| held["component"] == name);
        of.next().unwrap()["from"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    let apart = from(1).as_millisecond() - from(0).as_millisecond();
    assert!(
        (3_000..5_000).contains(&apart),
        "reserved as much later: {held}"
    );
    let detail = job(&server)["components"][1]["detail"].clone();
    assert_eq!(detail, "begins 4s after the others");

    until("the first has begun", || began[0].exists());
    assert!(!began[1].exists(), "they began together");
    until_it_is(&server, 1, "running");
    server.kill().unwrap();
    server.start().unwrap();
    until_it_is(&server, 1, "finished");
    let promised: jiff::Timestamp = job(&server)["reservation"]["start"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let history = server
        .api()
        .unwrap()
        .get_expected("/v1/jobs/1/events")
        .unwrap();
    let [first, late] = [0, 1].map(|n| noted(&began[n], &history));
    assert!(first.0 >= promised.as_millisecond(), "{first:?} {promised}");
    assert!(
        late.0 >= promised.as_millisecond() + 4_000,
        "{late:?} {promised}"
    );
    assert_eq!(
        (&*first.1, &*late.1),
        ("0", "0"),
        "none of them is a restart"
    );
    let roots = environment
        .sites
        .iter()
        .map(|site| site.root.join("leases.json"));
    let roots: Vec<PathBuf> = roots.collect();
    until("the rest is given back", || {
        roots
            .iter()
            .all(|root: &PathBuf| std::fs::read_to_string(root).unwrap().trim() == "{}")
    });
}

#[test]
fn who_begins_later_without_a_promise_is_told_what_to_change() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let (file, _) = job_file(&environment, &Value::Null);
    let options: [(&[&str], &str); 2] = [
        (&[], "--start"),
        (
            &["--start", "in 1h", "--reserve", "if-needed"],
            "wanted = \"always\"",
        ),
    ];
    for (options, remedy) in options {
        let refused = client(&environment, &[&["submit", &file], options].concat());
        let text = told(&refused);
        assert!(!refused.status.success(), "{text}");
        for words in ["\"late\"", "start_after", remedy] {
            assert!(text.contains(words), "{words} is not in {text}");
        }
    }
}
