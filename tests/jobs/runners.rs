//! Runners as users meet them, on real sites: programs that find each other, sweeps with a
//! limit, restarts from what was left, and descriptions that cannot be.

use std::time::{Duration, Instant};

use cospan_chaos_tests::test_environment::Layout;
use cospan_chaos_tests::webhook::Receiver;

use super::job_fixture::{PATIENCE, has, scene, scene_with};

/// A job of one component that is a line of shell; `more` comes before it.
fn shell(more: &str, line: &str) -> String {
    format!(
        "wall_time = \"1m\"\n{more}\n[[component]]\nname = \"only\"\nprocessors = 1\n\
         executable = \"/bin/sh\"\narguments = [\"-c\", '''{line}''']\n"
    )
}

/// Two components of which the second fails at its first start, once both are seen to run,
/// while the first waits for what the second leaves at its second start.
const APART: &str = r#"
wall_time = "1m"
restart_scope = "component"
max_retries = 1
[[component]]
name = "steady"
processors = 2
executable = "/bin/sh"
arguments = ["-c", "while ! [ -e $0/done ]; do sleep 0.1; done", "SHARED"]
[[component]]
name = "shaky"
processors = 3
executable = "/bin/sh"
arguments = ["-c", """
if [ -n "$COSPAN_RESTART" ]; then : > $0/done; exit; fi
while ! [ -e $0/seen ]; do sleep 0.1; done
exit 3
""", "SHARED"]
"#;

#[test]
fn a_component_that_fails_is_restarted_while_the_other_one_goes_on() {
    let mut scene = scene(2);
    let shared = scene.environment.path().display().to_string();
    scene.must(&["submit", &scene.job_file(&APART.replace("SHARED", &shared))]);
    let begun = Instant::now();
    while scene.get("/v1/jobs/1")["phase"]["state"] != "running" {
        assert!(begun.elapsed() < PATIENCE, "it does not run");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(scene.environment.path().join("seen"), "").unwrap();
    scene.must(&["wait", "1"]);
    let job = scene.get("/v1/jobs/1");
    assert_eq!(job["round"], 1, "{job}");
    let attempts = |job: &serde_json::Value| {
        let components = job["components"].as_array().unwrap();
        components
            .iter()
            .map(|c| c["attempt"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(attempts(&job), [1, 2]);
    let refused = scene.cospan(&[
        "submit",
        &scene.job_file(&APART.replace("max_retries", "runner = \"parallel\"\nmax_retries")),
    ]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("restart_scope"),
        "{said}"
    );
    scene.server.kill().unwrap();
}

#[test]
fn the_components_of_a_parallel_job_find_each_other_in_a_file() {
    let mut scene = scene(2);
    let component = |name: &str| {
        format!(
            "[[component]]\nname = \"{name}\"\nprocessors = 3\nexecutable = \"/bin/sh\"\n\
             arguments = [\"-c\", 'echo $COSPAN_RANK/$COSPAN_SIZE; cat $COSPAN_HOSTS_FILE']\n"
        )
    };
    let head = "runner = \"parallel\"\nwall_time = \"1m\"\n";
    scene.run(&format!("{head}{}{}", component("a"), component("b")));
    let job = scene.get("/v1/jobs/1");
    let site = |index: usize| {
        job["components"][index]["site"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_ne!(site(0), site(1));
    for (name, rank) in [("a", "0/2"), ("b", "1/2")] {
        let printed = scene.must(&["logs", "1", "--component", name]);
        let lines: Vec<Vec<&str>> = printed
            .lines()
            .map(|line| line.split(' ').collect())
            .collect();
        assert_eq!(lines[0], [rank]);
        for (index, line) in lines[1..].iter().enumerate() {
            assert_eq!(
                line[1..],
                ["3", &site(index), &index.to_string()],
                "{printed}"
            );
            assert!(!line[0].is_empty(), "{printed}");
        }
        assert_eq!(lines.len(), 3);
    }
    scene.server.kill().unwrap();
}

#[test]
fn a_sweep_becomes_jobs_of_which_no_more_than_allowed_run_at_once() {
    let mut scene = scene(2);
    let sweep = shell(
        "[sweep]\narray = \"10-14%2\"",
        "sleep 0.2; echo {{index}} $COSPAN_TASK",
    );
    let file = scene.job_file(&format!("name = \"flow {{{{task}}}}\"\n{sweep}"));
    assert!(
        scene
            .must(&["submit", &file, "--dry-run"])
            .contains("the first of 5 runs")
    );
    let said = scene.must(&["submit", &file]);
    assert_eq!(said, "jobs 1-5 submitted: 5 runs, group:1\n");
    let begun = Instant::now();
    let mut at_once = 0;
    loop {
        let page = scene.get("/v1/jobs?group=1");
        let states = page["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["state"].clone());
        let (ended, others): (Vec<_>, Vec<_>) = states.partition(|state| state == "finished");
        let active = others.iter().filter(|state| **state != "queued").count();
        assert!(active <= 2, "{others:?}");
        at_once = at_once.max(active);
        if ended.len() == 5 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{others:?}");
    }
    assert_eq!(at_once, 2, "the limit is used");
    assert_eq!(scene.must(&["logs", "5"]), "14 4\n");
    let shown = scene.must(&["show", "group:1"]);
    assert!(
        shown.contains("5 finished") && shown.contains("flow 3"),
        "{shown}"
    );
    assert_eq!(scene.must(&["report", "--group", "1"]).lines().count(), 6);
    scene.must(&["wait", "group:1"]);
    let endless = scene.job_file(&shell("[sweep]\narray = \"0-3%1\"", "sleep 300"));
    scene.must(&["submit", &endless]);
    let waits = scene.must(&["explain", "9"]);
    assert!(waits.contains("at most 1 run(s) of its sweep"), "{waits}");
    scene.must(&["cancel", "group:6"]);
    assert_eq!(scene.cospan(&["wait", "group:6"]).status.code(), Some(5));
    scene.server.kill().unwrap();
}

#[test]
fn the_failed_runs_of_a_sweep_are_run_again_as_a_sweep() {
    let mut scene = scene(1);
    let go = scene.environment.path().join("go");
    let line = format!(
        "[ $COSPAN_PARAMETER_size = 1 ] || [ -e {} ] || exit 3; echo $COSPAN_TASK of $COSPAN_TASKS > size",
        go.display()
    );
    let sweep = shell("[sweep]\ngrid = { size = [1, 2, 3] }", &line);
    let sweep = sweep + "output = [{ path = \"size\" }]\n";
    let file = scene.job_file(&sweep);
    scene.refused(
        &["submit", &file, "--wait"],
        1,
        &["job 2 failed", "job 3 failed"],
    );
    let told = scene.cospan(&["submit", &file]);
    let note = "outputs are kept for 7d after the end; fetch them with: cospan output last";
    has(&String::from_utf8_lossy(&told.stderr), &[note]);
    scene.refused(
        &["wait", "last"],
        1,
        &["job 4 finished", "job 5 failed", "job 6 failed"],
    );
    has(
        &scene.must(&["show", "last"]),
        &["group:4", "2 failed, 1 finished"],
    );
    std::fs::write(&go, "").unwrap();
    let told = scene.must(&["rerun", "group:1", "--failed"]);
    has(&told, &["jobs 7-8 submitted: 2 runs, group:7"]);
    has(
        &scene.must(&["wait", "last"]),
        &["job 7 finished", "job 8 finished"],
    );
    assert_eq!(scene.get("/v1/jobs/7")["sweep"]["values"]["size"], "2");
    has(
        &scene.must(&["show", "8"]),
        &[
            "RUNS",
            "/bin/sh -c '[ $COSPAN_PARAMETER_size = 1 ]",
            "until 20",
        ],
    );
    let to = scene.environment.path().join("fetched");
    scene.must(&["output", "last", "--to", to.to_str().unwrap()]);
    let left = std::fs::read_to_string(to.join("job-8,size=3/only/size"));
    assert_eq!(left.unwrap(), "2 of 3\n", "it keeps its number");
    let told = scene.must(&["report", "--group", "7"]);
    let rows: Vec<&str> = told.lines().collect();
    assert!(rows[0].ends_with(",group,parameters"), "{told}");
    assert!(rows[2].ends_with(",7,size=3"), "{told}");
    // Of several sweeps it cannot be one, and what runs is not doubled.
    scene.refused(&["rerun", "2", "5"], 3, &["several sweeps"]);
    scene.must(&["submit", &scene.job_file(&shell("", "sleep 300"))]);
    scene.refused(&["rerun", "last"], 3, &["job 9 has not ended"]);
    has(&scene.must(&["rerun", "9,7", "--failed"]), &[]);
    scene.must(&["cancel", "9"]);
    scene.server.kill().unwrap();
}

#[test]
fn payloads_are_told_their_processors() {
    let mut scene = scene(1);
    let line = "echo $COSPAN_NPROC $OMP_NUM_THREADS";
    let job = shell("", line).replace("processors = 1", "processors = 3");
    scene.run(&job);
    has(&scene.must(&["logs", "last"]), &["3 3"]);
    scene.run(&(job + "environment = { OMP_NUM_THREADS = \"2\" }\n"));
    has(&scene.must(&["logs", "last"]), &["3 2"]);
    scene.server.kill().unwrap();
}

#[test]
fn a_job_that_failed_goes_on_from_what_it_left() {
    let mut scene = scene(1);
    let line = "echo step 400 > state; exit 3";
    let job = shell("max_retries = 1", line);
    let restart = "[component.restart]\n\
        arguments = [\"-c\", 'echo $COSPAN_RESTART $COSPAN_ATTEMPT; cat $COSPAN_EARLIER_DIR/state']\n";
    scene.run(&format!("{job}{restart}"));
    assert_eq!(scene.must(&["logs", "1"]), "1 2\nstep 400\n");
    assert_eq!(scene.get("/v1/jobs/1")["setbacks"]["own_errors"], 1);
    scene.server.kill().unwrap();
}

#[test]
fn whoever_a_job_names_is_told_of_its_end_though_another_does_not_answer() {
    let receiver = Receiver::start().unwrap();
    let targets = format!(
        "{{ team = {:?}, gone = \"http://127.0.0.1:1/\" }}",
        receiver.address()
    );
    let notify = format!("targets = {targets}\n");
    let mut scene = scene_with(Layout {
        sites: 1,
        processors: 4,
        notify,
        ..Layout::default()
    });
    let named = |targets: &str| shell(&format!("name = \"wave\"\nnotify = {targets}"), "exit 3");
    let file = scene.job_file(&named("[\"gone\", \"team\"]"));
    assert_eq!(
        scene.cospan(&["submit", &file, "--wait"]).status.code(),
        Some(1)
    );
    let begun = Instant::now();
    while receiver.received().is_empty() || !scene.must(&["show", "1"]).contains("EndTold") {
        assert!(begun.elapsed() < PATIENCE, "nobody was told");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = &receiver.received()[0];
    for (key, value) in [("kind", "job-ended"), ("state", "failed"), ("name", "wave")] {
        assert_eq!(told[key], value, "{told}");
    }
    let text = told["text"].as_str().unwrap();
    assert!(
        told["job"] == 1 && text.starts_with("job 1 (wave) failed: "),
        "{told}"
    );
    let output = scene.cospan(&["submit", &scene.job_file(&named("[\"tem\"]"))]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("notify names tem") && said.contains("gone, team"),
        "{said}"
    );
    scene.server.kill().unwrap();
}

#[test]
fn what_cannot_be_run_is_refused_with_its_key_and_reason() {
    let mut scene = scene(1);
    let plain = |more: &str| shell(more, "true");
    for (text, key, reason) in [
        (
            plain("runner = \"paralel\""),
            "runner",
            "did you mean \"parallel\"?",
        ),
        (
            plain("runner = \"sweep\""),
            "sweep",
            "nothing to sweep over",
        ),
        (
            plain("runner = \"parallel\"\n[sweep]\narray = \"0-1\""),
            "sweep",
            "runner \"parallel\"",
        ),
        (
            plain("[sweep]\n"),
            "sweep",
            "exactly one of grid, list and array",
        ),
        (plain("[sweep]\ngrid = { a = [] }"), "sweep", "has no tasks"),
        (
            plain("[sweep]\narray = \"0-1001\""),
            "sweep",
            "1002 tasks; at most 1001",
        ),
        (
            plain("[sweep]\narray = \"0-3\"\nat_once = 0"),
            "sweep.at_once",
            "at least 1",
        ),
        (
            plain("[sweep]\narray = \"3-0\""),
            "sweep.array",
            "goes backwards",
        ),
        (
            shell("[sweep]\ngrid = { speed = [1] }", "echo {{sped}}"),
            "component[0].arguments[1]",
            "did you mean \"speed\"?",
        ),
        (
            plain("warning = { before = \"1m\" }"),
            "warning",
            "above 0 and shorter",
        ),
        (
            plain("warning = { before = \"5s\", signal = \"KILL\" }"),
            "warning.signal",
            "KILL",
        ),
        (plain("[sweep]\nat_onse = 3"), "sweep.at_onse", "at_once"),
    ] {
        let output = scene.cospan(&["submit", &scene.job_file(&text)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        assert!(
            said.contains(key) && said.contains(reason),
            "{text}: {said}"
        );
    }
    assert_eq!(scene.get("/v1/jobs")["jobs"].as_array().unwrap().len(), 0);
    scene.server.kill().unwrap();
}
