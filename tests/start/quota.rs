//! How much of the sites one user may have promised, and how far ahead.

use std::process::Command;

use cospan_chaos_tests::test_environment::TestEnvironment;
use serde_json::json;

use super::{environment, port, server, until, until_sites_take_jobs};

fn bounded(reservations: &str) -> TestEnvironment {
    let environment = environment();
    let text = std::fs::read_to_string(environment.config()).unwrap();
    let text = format!("{text}\n[reservations]\n{reservations}\n");
    std::fs::write(environment.config(), text).unwrap();
    environment
}

/// The program with this key.
fn cospan(environment: &TestEnvironment, token: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", environment.path());
    command.env("COSPAN_TOKEN", token);
    command.env("COSPAN_SERVER", format!("http://{}", port(environment)));
    let output = command.output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// What a user with this key is told who asks for so many processors.
fn submit(
    environment: &TestEnvironment,
    token: &str,
    start: &str,
    processors: u32,
) -> (bool, String) {
    let component = json!({ "name": "c0", "processors": processors, "executable": "/bin/true" });
    let job = json!({ "name": "wave", "wall_time": "1m", "component": [component] });
    let file = environment.path().join("wave.json");
    std::fs::write(&file, job.to_string()).unwrap();
    cospan(
        environment,
        token,
        &["submit", file.to_str().unwrap(), "--start", start],
    )
}

/// A new key that the server knows.
fn key(environment: &TestEnvironment, name: &str, role: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .args(["key", "add", name, "--role", role, "--config"])
        .arg(environment.config());
    let output = command
        .env_clear()
        .env("HOME", environment.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let token = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    until("the server knows the key", || {
        cospan(environment, &token, &["list"]).0
    });
    token
}

#[test]
fn users_reserve_no_more_than_their_share_and_operators_what_they_like() {
    let environment = bounded("most_share = 0.5\nmost_ahead = \"2h\"");
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let user = key(&environment, "ursula", "user");
    let operator = key(&environment, "olga", "operator");
    let soon = "in 30m";

    let (granted, told) = submit(&environment, &user, "in 3h", 1);
    assert!(
        !granted && told.contains("most_ahead") && told.contains("at most 2h"),
        "{told}"
    );
    let (granted, told) = submit(&environment, &user, soon, 2);
    assert!(
        !granted && told.contains("most_share") && told.contains("at most 1 of a site"),
        "{told}"
    );

    // One processor at each of the two sites.
    for _ in 0..2 {
        let (granted, told) = submit(&environment, &user, soon, 1);
        assert!(granted, "{told}");
    }
    let (granted, told) = submit(&environment, &user, soon, 1);
    assert!(
        !granted && told.contains("reservations.most_share"),
        "{told}"
    );
    assert!(
        told.contains("the earliest start that it could get"),
        "{told}"
    );

    let (granted, told) = submit(&environment, &operator, "in 3h", 2);
    assert!(granted, "{told}");
    let (granted, told) = submit(&environment, &operator, soon, 1);
    assert!(granted, "what a user may not have others may: {told}");
}
