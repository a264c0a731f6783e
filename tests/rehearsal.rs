//! Failures rehearsed on a running server: who may, what happens, and that it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cospan_chaos_tests::api::{Api, ApiReply};
use cospan_chaos_tests::load::ClientPromises;
use cospan_chaos_tests::server::ServerProcess;
use cospan_chaos_tests::settle::settle_and_judge;
use cospan_chaos_tests::test_environment::{Layout, TestEnvironment};
use serde_json::{Value, json};

/// Longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that runs, and the token of a key with the role.
struct Scene {
    environment: TestEnvironment,
    server: ServerProcess,
    api: Api,
    token: String,
}

fn output(environment: &TestEnvironment, token: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .args(arguments)
        .arg("--config")
        .arg(environment.config());
    command
        .env_clear()
        .env("HOME", environment.path())
        .env("COSPAN_TOKEN", token);
    command.output().unwrap()
}

/// Stdout if it ended with this code.
fn must(output: &Output, code: i32) -> String {
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}\n{said}");
    if code == 0 {
        told.into_owned()
    } else {
        said.into_owned()
    }
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server of three sites with these lines added to its configuration.
fn scene(chaos: &str) -> Scene {
    let layout = Layout {
        sites: 3,
        processors: 4,
        ..Layout::default()
    };
    let environment =
        TestEnvironment::new(Path::new(env!("CARGO_TARGET_TMPDIR")), &layout).unwrap();
    let text = std::fs::read_to_string(environment.config()).unwrap();
    std::fs::write(environment.config(), format!("{text}\n{chaos}")).unwrap();
    let mut server = ServerProcess::new(env!("CARGO_BIN_EXE_cospan").as_ref(), &environment);
    server.start().unwrap();
    let token = must(
        &output(
            &environment,
            "",
            &["key", "add", "drill", "--role", "chaos"],
        ),
        0,
    );
    let token = token.trim().to_owned();
    let drill = Api::new(environment.port(), token.clone());
    wait("the new key is known", || {
        drill.get_expected("/v1/chaos").is_ok()
    });
    let api = server.api().unwrap();
    let scene = Scene {
        environment,
        server,
        api,
        token,
    };
    scene.await_sites();
    scene
}

const ALLOWED: &str = "[chaos]\nallowed = true\nmax_duration = \"10m\"\nmax_sites_percent = 40\n";

impl Scene {
    fn await_sites(&self) {
        wait("all sites are usable", || {
            let sites = self.api.get_expected("/v1/sites").unwrap();
            sites["sites"]
                .as_array()
                .unwrap()
                .iter()
                .all(|site| site["state"] == "usable")
        });
    }

    /// The command line with the key that has the role.
    fn cospan(&self, arguments: &[&str]) -> Output {
        output(&self.environment, &self.token, arguments)
    }

    fn inject(&self, plan: &str, arguments: &[&str]) -> Output {
        let file = self.environment.path().join("plan.toml");
        std::fs::write(&file, plan).unwrap();
        let file = file.display().to_string();
        self.cospan(&[&["chaos", "inject", file.as_str()], arguments].concat())
    }

    fn report(&self) -> Value {
        self.api.get_expected("/v1/chaos/report").unwrap()
    }

    fn runs(&self) -> bool {
        self.api.get_expected("/v1/chaos").unwrap()["rehearsal"].is_object()
    }

    /// Submits a job of one component that writes into the ledger.
    fn submit(&self, promises: &mut ClientPromises, name: &str, site: Option<&str>) -> u64 {
        let arguments = json!([
            self.environment.payload(),
            self.environment.ledger(),
            "0.1",
            "0",
            "polite",
            "-",
            "0"
        ]);
        let mut component = json!({
            "name": "only", "processors": 1, "executable": "/bin/sh", "arguments": arguments,
        });
        if let Some(site) = site {
            component["site"] = json!(site);
        }
        let job = json!({ "name": name, "wall_time": "60s", "component": [component] });
        let answer = self.api.post_expected("/v1/jobs", &job).unwrap();
        let id = answer["jobs"][0]["id"].as_u64().unwrap();
        promises.acknowledged.insert(name.into(), vec![id]);
        id
    }

    fn state(&self, id: u64) -> String {
        let job = self.api.get_expected(&format!("/v1/jobs/{id}")).unwrap();
        job["phase"]["state"].as_str().unwrap().to_owned()
    }

    fn metric(&self, series: &str) -> u64 {
        let ApiReply::Answered(200, Value::String(text)) = self.api.get("/metrics") else {
            panic!("no metrics");
        };
        let values = text
            .lines()
            .filter_map(|line| line.strip_prefix(series)?.split(' ').next_back());
        values
            .map(|value| value.parse::<f64>().unwrap() as u64)
            .sum()
    }
}

const PLAN: &str =
    "for = \"5m\"\n[[inject]]\nsites = [\"s1\"]\nfault = \"reply-lost\"\ncalls = [\"submit\"]\n";

fn plan() -> Value {
    json!({ "for": "5m", "inject": [{ "sites": ["s1"], "fault": "reply-lost" }] })
}

fn refused(reply: ApiReply, status: u16, code: &str, remedy: &str) {
    let ApiReply::Answered(got, problem) = reply else {
        panic!("no answer")
    };
    assert_eq!((got, &problem["code"]), (status, &json!(code)), "{problem}");
    assert!(
        problem["remedy"].as_str().unwrap().contains(remedy),
        "{problem}"
    );
}

#[test]
fn a_server_that_does_not_allow_it_refuses_and_says_what_to_do() {
    let scene = scene("");
    let said = must(&scene.inject(PLAN, &[]), 3);
    assert!(said.contains("set allowed = true in [chaos]"), "{said}");
    let drill = Api::new(scene.environment.port(), scene.token.clone());
    refused(
        drill.post("/v1/chaos", None, &plan()),
        403,
        "C2004",
        "[chaos]",
    );
    assert_eq!(
        scene.api.get_expected("/v1/chaos").unwrap()["allowed"],
        false
    );
    assert!(
        must(&scene.cospan(&["chaos", "status"]), 0).contains("does not allow fault injection")
    );
}

#[test]
fn a_key_without_the_role_may_look_but_not_inject_nor_stop() {
    let scene = scene(ALLOWED);
    // The first key is everybody's who runs the server, and has no role either.
    refused(
        scene.api.post("/v1/chaos", None, &plan()),
        403,
        "C2002",
        "--role chaos",
    );
    let plain = must(&output(&scene.environment, "", &["key", "add", "alice"]), 0);
    let alice = Api::new(scene.environment.port(), plain.trim().to_owned());
    wait("the new key is known", || {
        alice.get_expected("/v1/chaos").is_ok()
    });
    refused(
        alice.post("/v1/chaos", None, &plan()),
        403,
        "C2002",
        "--role chaos",
    );
    must(&scene.inject(PLAN, &[]), 0);
    let stop = output(&scene.environment, plain.trim(), &["chaos", "stop"]);
    assert!(must(&stop, 3).contains("--role chaos"));
    assert!(scene.runs());
    must(
        &output(&scene.environment, plain.trim(), &["chaos", "report"]),
        0,
    );
}

#[test]
fn a_bad_plan_is_told_with_every_line_and_a_dry_run_injects_nothing() {
    let scene = scene(ALLOWED);
    let bad = "for = \"1h\"\n[[inject]]\nsites = [\"s9\"]\nfault = \"reply-lots\"\n";
    let said = must(&scene.inject(bad, &[]), 2);
    for words in [
        "3 problems",
        "plan.toml:1:",
        "plan.toml:3:",
        "did you mean \"reply-lost\"?",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    let wide = json!({ "for": "1m", "inject": [{ "sites": ["s1", "s2"], "fault": "refused" }] });
    let drill = Api::new(scene.environment.port(), scene.token.clone());
    let ApiReply::Answered(422, problem) = drill.post("/v1/chaos", None, &wide) else {
        panic!("the server judges by itself");
    };
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("at most 1 are allowed"),
        "{problem}"
    );
    let told = must(&scene.inject(PLAN, &["--dry-run", "--for", "2m"]), 0);
    assert!(
        told.contains("reply-lost") && told.contains("100 %"),
        "{told}"
    );
    assert!(!scene.runs());
    assert!(must(&scene.cospan(&["chaos", "stop"]), 3).contains("no faults are being injected"));
    assert!(must(&scene.cospan(&["chaos", "report"]), 3).contains("cospan chaos inject"));
}

#[test]
fn jobs_all_finish_once_each_while_half_the_replies_of_a_site_are_lost() {
    let scene = scene(ALLOWED);
    let plan = "for = \"8s\"\nseed = 7\n[[inject]]\nsites = [\"s1\"]\nfault = \"reply-lost\"\n\
                probability = 0.5\n";
    must(&scene.inject(plan, &[]), 0);
    assert!(must(&scene.inject(plan, &[]), 3).contains("drill injects faults until"));
    let site = scene.api.get_expected("/v1/sites/s1").unwrap();
    assert_eq!(site["injected_faults"], json!(["reply-lost"]), "{site}");
    let list = must(&scene.cospan(&["site", "list"]), 0);
    assert_eq!(
        list.matches("FAULTS INJECTED: reply-lost").count(),
        1,
        "{list}"
    );
    let ApiReply::Answered(200, Value::String(ready)) = scene.api.get("/readyz") else {
        panic!()
    };
    assert!(ready.contains("faults are injected until"), "{ready}");
    assert_eq!(scene.metric("cospan_chaos_injections_active"), 1);
    let mut promises = ClientPromises::default();
    let mut number = 0;
    let begun = Instant::now();
    while scene.runs() {
        assert!(begun.elapsed() < PATIENCE, "it does not end by itself");
        for site in [Some("s1"), None] {
            number += 1;
            scene.submit(&mut promises, &format!("job-{number}"), site);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let (verdict, _) =
        settle_and_judge(&scene.environment, &scene.api, &promises, &mut [], PATIENCE).unwrap();
    assert!(verdict.violations.is_empty(), "{:?}", verdict.violations);
    for row in scene.api.jobs().unwrap() {
        assert_eq!(row["state"], "finished", "{row}");
    }
    wait("it recovered", || {
        scene.report()["recovered_at"].is_string()
    });
    tells_what_happened(&scene);
}

fn tells_what_happened(scene: &Scene) {
    let report = scene.report();
    let rows = report["strikes"].as_array().unwrap();
    let sum = |key: &str| {
        rows.iter()
            .map(|row| row[key].as_u64().unwrap())
            .sum::<u64>()
    };
    let calls = sum("calls");
    let strikes = sum("strikes");
    assert!(strikes > 0 && strikes < calls, "{report}");
    assert!(
        rows.iter()
            .all(|row| row["site"] == "s1" && row["fault"] == "reply-lost"),
        "{report}"
    );
    let uncertain = report["jobs"]["submissions_uncertain"].as_u64().unwrap();
    assert!(uncertain > 0, "{report}");
    assert!(report["rehearsal"]["ended_at"].is_string(), "{report}");
    assert!(
        report["rehearsal"]["stopped_by"].is_null(),
        "it ended by itself: {report}"
    );
    assert!(report["jobs"]["finished"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(scene.metric("cospan_chaos_strikes_total"), strikes);
    assert_eq!(scene.metric("cospan_chaos_injections_active"), 0);
    let told = must(&scene.cospan(&["chaos", "report"]), 0);
    assert!(
        told.contains("recovered") && told.contains("Submissions uncertain"),
        "{told}"
    );
    let log = std::fs::read_to_string(scene.environment.log()).unwrap();
    for words in [
        "FAULTS ARE BEING INJECTED",
        "by=drill",
        "no more faults are injected",
    ] {
        assert!(log.contains(words), "{words:?} is not in the log");
    }
}

#[test]
fn a_frozen_site_goes_on_at_once_when_the_faults_are_stopped() {
    let scene = scene(ALLOWED);
    must(&scene.inject(&PLAN.replace("reply-lost", "frozen"), &[]), 0);
    let mut promises = ClientPromises::default();
    let id = scene.submit(&mut promises, "frozen", Some("s1"));
    wait("the submission is held up", || {
        !scene.report()["strikes"].as_array().unwrap().is_empty()
    });
    assert_ne!(scene.state(id), "finished");
    let told = must(&scene.cospan(&["chaos", "stop", "-o", "json"]), 0);
    let report: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(report["rehearsal"]["stopped_by"], "drill");
    wait("the job finishes", || scene.state(id) == "finished");
}

#[test]
fn no_injected_fault_outlives_the_server() {
    let mut scene = scene(ALLOWED);
    must(
        &scene.inject(&PLAN.replace("reply-lost", "refused"), &[]),
        0,
    );
    assert!(scene.runs());
    scene.server.kill().unwrap();
    scene.server.start().unwrap();
    assert!(!scene.runs());
    scene.await_sites();
    let mut promises = ClientPromises::default();
    let id = scene.submit(&mut promises, "after", Some("s1"));
    wait("the job finishes", || scene.state(id) == "finished");
    let site = scene.api.get_expected("/v1/sites/s1").unwrap();
    assert_eq!(
        (&site["consecutive_errors"], &site["injected_faults"]),
        (&json!(0), &Value::Null)
    );
}
