//! Reserved jobs with a component at a site that grants no reservations, on real sites.

use cospan_chaos_tests::test_environment::TestEnvironment;
use serde_json::{Value, json};

use super::{client, environment, server, until_it_is, until_sites_take_jobs};

/// The second site grants nothing.
fn without_reservations() -> TestEnvironment {
    let environment = environment();
    let text = std::fs::read_to_string(environment.config()).unwrap();
    let second = "name = \"s2\"\n";
    assert!(text.contains(second), "{text}");
    let text = text.replace(second, &format!("{second}grants_reservations = false\n"));
    std::fs::write(environment.config(), text).unwrap();
    environment
}

/// A component at each of the sites.
fn job_file(environment: &TestEnvironment, name: &str, reservation: Value) -> String {
    let component = |site: &str| json!({ "name": format!("at-{site}"), "site": site, "processors": 2, "executable": "/bin/true" });
    let job = json!({
        "name": name, "wall_time": "1m", "component": [component("s1"), component("s2")],
        "reservation": reservation,
    });
    let file = environment.path().join(format!("{name}.json"));
    std::fs::write(&file, job.to_string()).unwrap();
    file.display().to_string()
}

#[test]
fn a_site_that_grants_nothing_is_claimed_at_the_start_if_users_say_so() {
    let environment = without_reservations();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let refused = json!({ "earliest": "in 3s", "within": "10m" });
    let refused = client(
        &environment,
        &["submit", &job_file(&environment, "refused", refused)],
    );
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{told}");
    assert!(
        told.contains("at-s2") && told.contains("unreserved = \"claim\""),
        "{told}"
    );

    let wanted = json!({
        "earliest": "in 30s", "within": "10m", "tolerance": "1m", "unreserved": "claim",
    });
    let file = job_file(&environment, "claimed", wanted);
    let submitted = client(&environment, &["submit", &file]);
    let told = String::from_utf8_lossy(&submitted.stderr).into_owned();
    assert!(submitted.status.success(), "{told}");
    assert!(
        told.contains("warning") && told.contains("at-s2 is not reserved"),
        "{told}"
    );
    let id = 2;
    let explained = server
        .api()
        .unwrap()
        .get_expected(&format!("/v1/jobs/{id}/explain"))
        .unwrap();
    let summary = explained["summary"].as_str().unwrap();
    assert!(summary.contains("at-s2 is NOT reserved"), "{explained}");
    let shown = client(&environment, &["show", &id.to_string()]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("at-s2: NOT reserved, claimed at the start at s2"),
        "{shown}"
    );

    server.kill().unwrap();
    server.start().unwrap();
    until_it_is(&server, id, "finished");
}
