//! Jobs that want a promised start only if they need one, on real sites, across a kill of the
//! server.

use cospan_chaos_tests::server::ServerProcess;
use cospan_chaos_tests::test_environment::TestEnvironment;
use serde_json::{Value, json};

use super::{client, environment, server, until, until_it_is, until_sites_take_jobs};

/// A file with a job of so many components, each of which takes a whole site.
fn job_file(
    environment: &TestEnvironment,
    name: &str,
    (components, wall_time): (usize, &str),
    reservation: Option<Value>,
) -> String {
    let component =
        |n: usize| json!({ "name": format!("c{n}"), "processors": 2, "executable": "/bin/true" });
    let components: Vec<Value> = (0..components).map(component).collect();
    let mut job = json!({ "name": name, "wall_time": wall_time, "component": components });
    if let Some(reservation) = reservation {
        job["reservation"] = reservation;
    }
    let file = environment.path().join(format!("{name}.json"));
    std::fs::write(&file, job.to_string()).unwrap();
    file.display().to_string()
}

fn state(server: &ServerProcess, id: u64) -> Value {
    let job = server
        .api()
        .unwrap()
        .get_expected(&format!("/v1/jobs/{id}"))
        .unwrap();
    job["reservation"].clone()
}

fn explained(server: &ServerProcess, id: u64) -> String {
    let explained = server
        .api()
        .unwrap()
        .get_expected(&format!("/v1/jobs/{id}/explain"))
        .unwrap();
    explained["summary"].as_str().unwrap().to_owned()
}

#[test]
fn a_job_that_finds_nothing_idle_is_promised_a_start_across_a_kill() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let file = job_file(&environment, "first", (2, "1m"), None);
    let granted = client(&environment, &["submit", &file, "--start", "in 12m"]);
    assert!(granted.status.success());
    // With the longest hold at its gate it might last into that, but as promised it does not.
    let wanted = json!({ "wanted": "if-needed", "reserve_after": "20s", "within": "3h" });
    let file = job_file(&environment, "second", (2, "2m"), Some(wanted));
    let submitted = client(&environment, &["submit", &file]);
    let told = String::from_utf8_lossy(&submitted.stderr).into_owned();
    assert!(
        told.contains("job 2 starts once processors are idle; if it still waits"),
        "{told}"
    );
    assert_eq!(state(&server, 2)["state"], "claims-first");
    // Its site may take a moment to say that it does not fit.
    until("it waits, and is said to be promised a start later", || {
        let later = "sites are asked for a reservation with a start from";
        state(&server, 2)["asks_at"].is_string() && explained(&server, 2).contains(later)
    });

    server.kill().unwrap();
    server.start().unwrap();
    until_it_is(&server, 2, "finished");
    assert!(state(&server, 2)["asks_at"].is_null());
    let events = server
        .api()
        .unwrap()
        .get_expected("/v1/reservations/2")
        .unwrap();
    assert!(
        events.to_string().contains("ReservationSought"),
        "as promised: {events}"
    );
    assert_eq!(state(&server, 1)["state"], "confirmed");
}

#[test]
fn a_job_that_finds_processors_idle_asks_no_site() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let file = job_file(&environment, "idle", (1, "1m"), None);
    let reserve = ["--reserve", "if-needed", "--reserve-after", "1h"];
    let submitted = client(
        &environment,
        &[&["submit", &file][..], &reserve[..]].concat(),
    );
    assert!(
        submitted.status.success(),
        "{}",
        String::from_utf8_lossy(&submitted.stderr)
    );
    until_it_is(&server, 1, "finished");
    assert_eq!(state(&server, 1)["state"], "not-needed");
    let events = server
        .api()
        .unwrap()
        .get_expected("/v1/reservations/1")
        .unwrap();
    assert!(events["events"].is_null(), "no site was asked: {events}");

    let submitted = client(
        &environment,
        &["submit", &file, "--start", "in 1h", "--reserve", "no"],
    );
    assert!(
        submitted.status.success(),
        "{}",
        String::from_utf8_lossy(&submitted.stderr)
    );
    until_it_is(&server, 2, "finished");
    assert!(state(&server, 2).is_null());
}

#[test]
fn a_job_that_would_ask_too_late_is_refused_with_the_remedy() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let file = job_file(&environment, "late", (1, "1m"), None);
    let late = ["--start", "now", "--within", "5m", "--reserve", "if-needed"];
    let late = [
        &["submit", &file][..],
        &late[..],
        &["--reserve-after", "1h"][..],
    ]
    .concat();
    let refused = client(&environment, &late);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && told.contains("no site would be asked; lower it"),
        "{told}"
    );
    let refused = client(&environment, &["submit", &file, "--reserve", "always"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("say when it may start"), "{told}");
}
