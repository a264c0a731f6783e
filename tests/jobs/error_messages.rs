//! What users are told: by the names that they gave, with the reason, and with what helps.

use super::job_fixture::{has, scene};

/// A job of one component that runs this program; `below` are lines of the component.
fn job(program: &str, arguments: &str, below: &str) -> String {
    format!(
        r#"
        name = "words"
        wall_time = "10m"
        max_retries = 0
        [[component]]
        name = "solver"
        processors = 1
        executable = "{program}"
        arguments = {arguments}
        {below}
        "#
    )
}

fn sleeps() -> String {
    job("/bin/sleep", "[\"300\"]", "")
}

#[test]
fn a_job_that_is_refused_is_named_by_its_file_and_its_component() {
    let mut scene = scene(1);
    let good = scene.file("good.toml", &sleeps());
    let wide = sleeps().replace("processors = 1", "processors = 9");
    let wide = scene.file("wide.toml", &wide);
    let words = [
        "wide.toml: refused by the server",
        "component solver fits no site",
    ];
    scene.refused(&["submit", &good, &wide], 3, &words);
    scene.refused(&["submit", "--dry-run", &wide], 3, &words);
    let one = |name: &str, processors: u32| {
        let component = format!(
            r#"{{"name": "{name}", "processors": {processors}, "executable": "/bin/true"}}"#
        );
        format!(r#"{{"wall_time": "1m", "component": [{component}]}}"#)
    };
    let list = scene.file("list.json", &format!("[{}, {}]", one("a", 1), one("b", 9)));
    scene.refused(
        &["submit", &good, &list],
        3,
        &["list.json, job 2 of 2: refused", "component b"],
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_job_that_waits_or_ran_is_told_of_by_the_names_of_its_components() {
    let mut scene = scene(1);
    scene.must(&[
        "submit",
        &scene.job_file(&sleeps().replace("processors = 1", "processors = 4")),
    ]);
    super::job_fixture::until("it runs", || scene.state_of(1) == "running");
    scene.must(&["submit", &scene.job_file(&sleeps())]);
    has(
        &scene.must(&["explain", "2"]),
        &["it cannot be placed now: component solver at s1: "],
    );
    let wide = scene.job_file(&sleeps().replace("processors = 1", "processors = 9"));
    scene.must(&["submit", "--allow-unplaceable", &wide]);
    has(
        &scene.must(&["explain", "3"]),
        &["all our components have ended: component solver"],
    );
    let waiting = scene.must(&["show", "2"]);
    assert!(
        !waiting.contains("Not before"),
        "it was never set back: {waiting}"
    );
    has(
        &scene.must(&["show", "1"]),
        &["ComponentBegan component solver"],
    );
    let plain = scene.file("plain.sh", "hostname\n");
    scene.refused(&["submit", &plain], 2, &["plain.sh:1", "#!/bin/sh"]);
    scene.must(&["cancel", "1-3"]);
    // Numbers that no job has are no error in a range.
    scene.refused(&["wait", "1-80"], 5, &["job 3 cancelled"]);
    scene.refused(&["wait", "40-80"], 2, &["no job from 40 to 80"]);
    let cancelled = scene.must(&["show", "1"]);
    assert!(
        !cancelled.contains("Setbacks"),
        "its user wanted it: {cancelled}"
    );
    has(
        &scene.must(&["explain", "1"]),
        &["it is cancelled, by admin"],
    );
    scene.server.kill().unwrap();
}

#[test]
fn every_time_in_a_history_says_what_it_is_and_an_output_where_it_stays() {
    let mut scene = scene(1);
    let output = "output = [{ path = \"result\" }]";
    scene.run(&job("/bin/sh", "[\"-c\", \"echo 1 > result\"]", output));
    let shown = scene.must(&["show", "1"]);
    has(
        &shown,
        &[
            "(start expected ",
            "(start at ",
            "fetch it with: cospan output 1",
        ],
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_job_that_failed_is_explained_with_the_reason_that_wait_and_show_give() {
    let mut scene = scene(1);
    scene.must(&[
        "submit",
        &scene.job_file(&job("/bin/sh", "[\"-c\", \"exit 7\"]", "")),
    ]);
    let waited = scene.cospan(&["wait", "1"]);
    let told = String::from_utf8(waited.stdout).unwrap();
    let reason = told
        .lines()
        .next()
        .unwrap()
        .strip_prefix("job 1 failed: ")
        .unwrap();
    has(&scene.must(&["explain", "1"]), &["it is failed: ", reason]);
    has(&scene.must(&["show", "1"]), &[reason]);
    scene.server.kill().unwrap();
}

#[test]
fn logs_of_what_never_ran_say_so_and_where_to_look() {
    let mut scene = scene(1);
    scene.must(&["site", "drain", "s1"]);
    scene.must(&["submit", &scene.job_file(&sleeps())]);
    scene.refused(
        &["logs", "1"],
        3,
        &[
            "component solver of job 1 has not started",
            "`cospan explain 1` tells why",
        ],
    );
    scene.must(&["site", "undrain", "s1"]);
    scene.must(&["cancel", "1"]);
    scene.must(&["submit", &scene.job_file(&job("/nowhere/solver", "[]", ""))]);
    scene.refused(&["wait", "2"], 1, &["could not start"]);
    let words = [
        "component solver of job 2 left no stdout: could not start \"/nowhere/solver\"",
        "`cospan show 2`",
    ];
    scene.refused(&["logs", "2"], 3, &words);
    let said = String::from_utf8(scene.cospan(&["logs", "2"]).stderr).unwrap();
    assert!(
        !said.contains(&scene.environment.path().display().to_string()),
        "whose path? {said}"
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_file_that_is_not_there_is_blamed_on_its_path_and_not_on_its_site() {
    let mut scene = scene(1);
    let add = [
        "file",
        "add",
        "mesh",
        "--site",
        "s1",
        "--path",
        "nowhere/mesh",
    ];
    let output = scene.cospan(&add);
    let said = String::from_utf8_lossy(&output.stderr);
    has(&said, &["\"nowhere/mesh\" at s1", "> check the path"]);
    assert!(!said.contains("when it answers"), "it did: {said}");
    scene.server.kill().unwrap();
}

#[test]
fn a_broken_configuration_only_found_keeps_nobody_from_a_named_server() {
    let mut scene = scene(1);
    let home = scene.environment.path().join("home");
    std::fs::create_dir_all(home.join(".config/cospan")).unwrap();
    std::fs::write(home.join(".config/cospan/cospan.toml"), "[server\n").unwrap();
    let token = std::fs::read_to_string(scene.environment.data().join("keys/admin.token")).unwrap();
    let list = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cospan"));
        command
            .arg("list")
            .args(arguments)
            .env_clear()
            .env("HOME", &home);
        command.env("COSPAN_TOKEN", token.trim()).output().unwrap()
    };
    let server = format!("http://127.0.0.1:{}", scene.environment.port());
    let named = list(&["--server", &server]);
    let said = String::from_utf8_lossy(&named.stderr);
    assert!(named.status.success(), "{said}");
    has(
        &said,
        &["the configuration has 1 problem; going on without it"],
    );
    assert_eq!(
        list(&[]).status.code(),
        Some(2),
        "else it says which server"
    );
    let config = home
        .join(".config/cospan/cospan.toml")
        .display()
        .to_string();
    let given = list(&["--server", &server, "--config", &config]);
    assert_eq!(given.status.code(), Some(2), "who names a file wants it");
    scene.server.kill().unwrap();
}
