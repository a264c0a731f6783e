//! Flexible jobs that are promised a start, on real sites, across a kill of the server.

use serde_json::{Value, json};

use super::{client, environment, refused, server, until_it_is, until_sites_take_jobs};

/// A file with a job of so many processors for a minute, which asks for this.
fn job_file(path: &std::path::Path, processors: u32, flexible: Value) -> String {
    let line = "echo $COSPAN_PROCESSORS > sizes";
    let component = json!({
        "name": "grid", "processors": processors,
        "executable": "/bin/sh", "arguments": ["-c", line], "output": [{ "path": "sizes" }],
    });
    let reservation = json!({ "earliest": "in 12s", "within": "2h", "flexible": true });
    let job = json!({
        "name": "wide", "wall_time": "1m", "component": [component],
        "flexible": flexible, "reservation": reservation,
    });
    let file = path.join("wide.json");
    std::fs::write(&file, job.to_string()).unwrap();
    file.display().to_string()
}

#[test]
fn a_flexible_job_is_divided_promised_and_runs_across_a_kill() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    let shape = json!([{ "processors": 4, "run_time": "40s" }]);
    let file = job_file(
        environment.path(),
        3,
        json!({ "overhead": 25, "shape": shape }),
    );
    let divided = "4 processors over 2 sites for 50s (40s and 25 % as it spans sites), chosen from 2 \
                   shapes";
    until_sites_take_jobs(&server);
    let tried = client(&environment, &["submit", "--dry-run", &file]);
    let said = String::from_utf8_lossy(&tried.stdout).into_owned();
    assert!(
        said.contains("sites would reserve a start for it at") && said.contains(divided),
        "{said}"
    );

    let submitted = client(&environment, &["submit", &file]);
    let told = String::from_utf8_lossy(&submitted.stderr).into_owned();
    assert!(submitted.status.success(), "{told}");
    assert!(
        told.contains(&format!("job 1 is divided: {divided}")),
        "{told}"
    );
    server.kill().unwrap();
    server.start().unwrap();
    let api = server.api().unwrap();
    let explained = api.get_expected("/v1/jobs/1/explain").unwrap()["summary"].to_string();
    assert!(
        explained.contains(divided) && explained.contains("grid-2 has 2"),
        "{explained}"
    );
    let shown = client(&environment, &["reservation", "show", "1"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("divided into 2 processors at"), "{shown}");
    until_it_is(&server, 1, "finished");
    let job = server.api().unwrap().get_expected("/v1/jobs/1").unwrap();
    let sites: Vec<&Value> = job["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["site"])
        .collect();
    assert!(sites.len() == 2 && sites[0] != sites[1], "{sites:?}");
}

#[test]
fn shapes_and_bounds_that_make_no_sense_are_refused_with_the_remedy() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let shape =
        |processors: u32, time: &str| json!([{ "processors": processors, "run_time": time }]);
    let cases = [
        (
            json!({ "shape": shape(2, "10s") }),
            "two shapes of 2 processors",
        ),
        (
            json!({ "shape": shape(4, "1m") }),
            "are no faster than 2 for 1m00s",
        ),
        (
            json!({ "overhead": 1001 }),
            "flexible.overhead is 1001 percent",
        ),
        (
            json!({ "splits": [[1, 1]] }),
            "use min_component_size and max_components",
        ),
    ];
    for (flexible, words) in cases {
        let file = job_file(environment.path(), 2, flexible);
        refused(&client(&environment, &["submit", &file]), &[words]);
    }
    let file = job_file(environment.path(), 5, json!({}));
    let words = [
        "cannot be split into components of at least 1",
        "have 4 together",
    ];
    refused(&client(&environment, &["submit", &file]), &words);
}
