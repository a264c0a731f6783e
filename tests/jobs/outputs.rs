//! Outputs that cannot be brought where they belong.

use std::fs;

use cospan_chaos_tests::test_environment::Layout;

use super::job_fixture::{environment, has, scene, scene_on, until};
use super::links::without_links;

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
    let environment = environment(&Layout {
        sites: 2,
        processors: 4,
        ..Layout::default()
    });
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

#[test]
fn a_directory_that_stays_with_its_attempt_is_fetched_whole() {
    let mut scene = scene(1);
    let job = scene.job_file(
        r#"
wall_time = "1m"
[[component]]
name = "solve"
processors = 1
executable = "/bin/sh"
arguments = ["-c", "mkdir -p out/d && echo 42 > out/d/answer && ln -s d/answer out/l && mkfifo pipe"]
output = [{ path = "out" }, { path = "pipe" }, { path = "none" }]
"#,
    );
    scene.refused(&["submit", &job, "--wait"], 1, &["left no output"]);
    let to = scene.environment.path().join("fetched");
    let refused = [
        "a pipe in attempt 1 that cannot be read",
        "left no none in attempt 1",
    ];
    let fetch = ["output", "1", "--to", &to.display().to_string()];
    for outcome in ["fetched", "there already"] {
        let told = scene.command(&fetch).output().unwrap();
        let said = String::from_utf8_lossy(&told.stdout).into_owned();
        assert_eq!(told.status.code(), Some(3), "{said}");
        has(&said, &refused);
        has(&said, &[outcome]);
        let answer = fs::read_to_string(to.join("solve/out/l"));
        assert_eq!(answer.unwrap(), "42\n");
    }
    scene.server.kill().unwrap();
}

#[test]
fn a_declared_output_that_is_missing_fails_its_job_and_says_so() {
    let mut scene = scene(1);
    let text = r#"
wall_time = "1m"
[[component]]
name = "solve"
processors = 1
executable = "/bin/sh"
arguments = ["-c", "echo 42 > answer; mkdir out"]
output = [{ path = "answer" }, { path = "out" }, { path = "table" }]
"#;
    let why =
        "it succeeded, but left no output table that can be kept: cannot look at table: No such";
    scene.refused(&["submit", &scene.job_file(text), "--wait"], 1, &[why]);
    has(&scene.must(&["show", "1"]), &[why]);
    has(&scene.must(&["explain", "1"]), &[why]);
    let logs = scene.cospan(&["logs", "1"]);
    has(&String::from_utf8_lossy(&logs.stderr), &[why]);
    let to = scene.environment.path().join("fetched");
    let to = to.display().to_string();
    scene.refused(&["output", "1", "--to", &to], 3, &["left no table"]);
    // Once it leaves all of them it succeeds, and nobody has read them.
    scene.run(&text.replace("mkdir out", "mkdir out; echo 1 > table"));
    let shown = scene.must(&["show", "2"]);
    has(
        &shown,
        &["table", "at its site until 20", "; fetch it with"],
    );
    scene.server.kill().unwrap();
}

#[test]
fn an_output_whose_name_another_key_took_meanwhile_stays_where_it_is() {
    let mut scene = scene(2);
    let otto = scene.must(&["key", "add", "otto"]);
    let as_otto = |arguments: &[&str]| {
        let mut command = scene.command(arguments);
        command.env("COSPAN_TOKEN", otto.trim()).output().unwrap()
    };
    until("the server knows the key", || {
        as_otto(&["list"]).status.success()
    });
    let go = scene.environment.path().join("go");
    let waits = format!(
        "while ! test -e {}; do sleep 0.05; done; echo",
        go.display()
    );
    let waits = LEAVES.replace("echo", &waits);
    scene.must(&["submit", &scene.job_file(&waits)]);
    until("it runs", || scene.state_of(1) == "running");
    let files = scene.environment.sites[0].root.join("files");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("mine"), "mine\n").unwrap();
    let added = as_otto(&[
        "file",
        "add",
        "the/answer",
        "--site",
        "s1",
        "--path",
        "mine",
    ]);
    assert!(added.status.success(), "{added:?}");
    fs::write(&go, "").unwrap();
    until("it is over", || scene.state_of(1) == "failed");
    let why = [
        "output answer of component solve cannot be brought to site s2",
        "the name \"the/answer\" is that of another key's file",
        "`cospan output` fetches it",
    ];
    has(&scene.must(&["show", "1"]), &why);
    assert_eq!(scene.get("/v1/files/the/answer")["owner"], "otto");
    let to = scene.environment.path().join("fetched");
    scene.must(&["output", "1", "--to", &to.display().to_string()]);
    assert_eq!(fs::read_to_string(to.join("solve/answer")).unwrap(), "42\n");
    // An administrator's output is not taken either: that would be easy to overlook.
    scene.refused(
        &["submit", &scene.job_file(LEAVES)],
        3,
        &["taken by another key's file"],
    );
    scene.must(&["file", "remove", "the/answer"]);
    scene.run(LEAVES);
    assert_eq!(scene.get("/v1/files/the/answer")["owner"], "admin");
    scene.server.kill().unwrap();
}
