//! Bad jobs through the real server: each is refused with what is wrong and what to do, or
//! fails as the job's own error; nothing is kept of the former and no site is charged for the
//! latter.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::time::{Duration, Instant};

use cospan_chaos_tests::api::{Api, ApiReply};
use cospan_chaos_tests::server::ServerProcess;
use cospan_chaos_tests::test_environment::{Layout, TestEnvironment};
use serde_json::{Value, json};

fn started() -> (TestEnvironment, ServerProcess, Api) {
    started_with("")
}

/// With these bounds of what users may ask.
fn started_with(limits: &str) -> (TestEnvironment, ServerProcess, Api) {
    let limits = limits.to_owned();
    let layout = Layout {
        sites: 2,
        processors: 2,
        limits,
        ..Layout::default()
    };
    let environment =
        TestEnvironment::new(Path::new(env!("CARGO_TARGET_TMPDIR")), &layout).unwrap();
    let mut server = ServerProcess::new(env!("CARGO_BIN_EXE_cospan").as_ref(), &environment);
    server.start().unwrap();
    let api = server.api().unwrap();
    // What a site can hold is not known before it answered.
    while api.get_expected("/v1/sites").unwrap()["sites"]
        .as_array()
        .unwrap()
        .iter()
        .any(|site| site["state"] != "usable")
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    (environment, server, api)
}

/// A job of one component with these members besides.
fn job(members: &Value) -> Value {
    let mut component = json!({ "name": "only", "processors": 1, "executable": "/bin/true" });
    let members = members.as_object().unwrap().clone();
    component.as_object_mut().unwrap().extend(members);
    json!({ "wall_time": "1m", "component": [component] })
}

fn posted(api: &Api, document: &Value) -> (u16, String) {
    match api.post("/v1/jobs", None, document) {
        ApiReply::Answered(status, answer) => (status, answer.to_string()),
        ApiReply::Silent(problem) => panic!("no answer: {problem}"),
    }
}

#[test]
fn a_job_that_makes_no_sense_is_refused_with_the_reason_and_not_kept() {
    let (_ground, _server, api) = started();
    let twice = json!({ "name": "x", "processors": 1, "executable": "/bin/true" });
    let many: Vec<Value> = (0..1_001)
        .map(|n| json!({ "name": format!("c{n}"), "processors": 1, "executable": "/bin/true" }))
        .collect();
    let cases = [
        (
            job(&json!({ "processors": 64 })),
            422,
            "needs 64 processors; one component gets 2",
        ),
        (job(&json!({ "processors": 0 })), 400, "from 1 to"),
        (job(&json!({ "processors": -1 })), 400, "processors"),
        (job(&json!({ "processors": 1u64 << 60 })), 400, "processors"),
        (
            job(&json!({ "site": "nowhere" })),
            422,
            "nowhere, which is not configured; there are: s1",
        ),
        (
            job(&json!({ "input": [{ "file": "none", "path": "in" }] })),
            422,
            "cospan file add none",
        ),
        (
            job(&json!({ "input": [{ "file": "none", "path": "in" }] })),
            422,
            "C1104",
        ),
        (job(&json!({ "directory": "/etc" })), 400, "absolute"),
        (
            job(&json!({ "output": [{ "path": "../../etc/x" }] })),
            400,
            ".. part",
        ),
        (
            job(&json!({ "procesors": 1 })),
            400,
            "did you mean `processors`",
        ),
        (
            json!({ "wall_time": "1m", "component": [] }),
            422,
            "no components",
        ),
        (
            json!({ "wall_time": "1m", "component": [twice, twice] }),
            422,
            "two components are called",
        ),
        (
            json!({ "wall_time": "1m", "component": many }),
            422,
            "at most 1000",
        ),
        (json!([]), 422, "job"),
    ];
    for (document, status, words) in cases {
        let (answered, text) = posted(&api, &document);
        let text_shown = text.chars().take(500).collect::<String>();
        assert_eq!(answered, status, "{text_shown}");
        assert!(text.contains(words), "{words:?} is not in {text_shown}");
    }
    let all_or_nothing = json!([job(&json!({})), job(&json!({ "processors": 64 }))]);
    let (answered, text) = posted(&api, &all_or_nothing);
    assert!(
        answered == 422 && text.contains('1'),
        "the second is named: {text}"
    );
    let (answered, text) = posted(&api, &Value::String("x".repeat(5 << 20)));
    assert_eq!(answered, 413, "{text}");
    assert_eq!(api.get_expected("/v1/jobs").unwrap()["jobs"], json!([]));
}

#[test]
fn who_submits_without_end_is_refused_with_the_number_and_can_make_room() {
    let (_ground, _server, api) = started_with("max_job_memory_per_key = \"100KB\"");
    let waits = job(&json!({ "executable": "/bin/sleep", "arguments": ["600"] }));
    let many = Value::Array(vec![waits.clone(); 100]);
    let (answered, text) = posted(&api, &many);
    assert!(
        answered == 422 && text.contains("C1111") && text.contains("100 jobs"),
        "{text}"
    );
    let mut accepted = 0;
    let text = loop {
        match posted(&api, &waits) {
            (201, _) => accepted += 1,
            (429, text) => break text,
            other => panic!("{other:?}"),
        }
        assert!(accepted < 100, "there is no bound");
    };
    for words in [
        "C5006",
        "100.0 kB",
        "limits.max_job_memory_per_key",
        "cancel some",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(
        text.contains(&format!("{accepted} jobs of key")),
        "{accepted}: {text}"
    );
    assert_eq!(
        api.get_expected("/v1/jobs").unwrap()["jobs"]
            .as_array()
            .unwrap()
            .len(),
        accepted
    );
    let (answered, text) = posted(&api, &Value::Array(vec![waits; 100]));
    assert_eq!(answered, 422, "{text}");
}

#[test]
fn a_store_too_large_for_the_memory_is_read_and_whole_again_with_more() {
    let (environment, mut server, api) = started_with("");
    let waits = job(&json!({ "executable": "/bin/sleep", "arguments": ["x".repeat(10_000)] }));
    let many = Value::Array(vec![waits.clone(); 100]);
    assert_eq!(posted(&api, &many).0, 201);
    server.kill().unwrap();
    let plain = std::fs::read_to_string(environment.config()).unwrap();
    let little = plain.replacen("[server]\n", "[server]\nmemory = \"1MiB\"\n", 1);
    assert_ne!(plain, little);
    std::fs::write(environment.config(), little).unwrap();
    server.spawn().unwrap();
    let begun = Instant::now();
    while !matches!(api.get("/livez"), ApiReply::Answered(200, _)) {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "it does not start"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let ApiReply::Answered(503, _) = api.get("/readyz") else {
        panic!("it takes no work")
    };
    let refused = [
        api.get("/v1/jobs"),
        api.get("/v1/sites"),
        api.post("/v1/jobs", None, &waits),
    ];
    for answer in refused {
        let ApiReply::Answered(503, problem) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(problem["code"], "C6003", "{problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains("the 100 jobs"),
            "{problem}"
        );
    }
    let shown = api.get_expected("/v1/jobs/100").unwrap();
    assert_eq!(shown["document"]["component"][0]["name"], "only", "{shown}");
    assert!(api.get_expected("/v1/jobs/100/events").unwrap()["events"].is_array());
    assert!(matches!(
        api.get("/v1/jobs/101"),
        ApiReply::Answered(404, _)
    ));
    assert_eq!(api.get_expected("/v1/store").unwrap()["jobs"], 100);
    server.kill().unwrap();
    std::fs::write(environment.config(), plain).unwrap();
    server.start().unwrap();
    assert_eq!(api.jobs().unwrap().len(), 100);
}

#[test]
fn a_program_that_cannot_run_is_the_jobs_own_error() {
    let (environment, _server, api) = started();
    let plain = environment.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    for (program, words) in [
        ("/nonexistent/program", "not there"),
        (plain.to_str().unwrap(), "mode"),
    ] {
        let answer = api
            .post_expected("/v1/jobs", &job(&json!({ "executable": program })))
            .unwrap();
        let id = answer["jobs"][0]["id"].as_u64().unwrap();
        let job = loop {
            let job = api.get_expected(&format!("/v1/jobs/{id}")).unwrap();
            match job["phase"]["state"].as_str().unwrap() {
                "failed" => break job,
                "finished" | "cancelled" => panic!("{job}"),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let reason = job["phase"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(words), "{reason}");
    }
    for site in api.get_expected("/v1/sites").unwrap()["sites"]
        .as_array()
        .unwrap()
    {
        assert_eq!(site["consecutive_errors"], 0, "{site}");
    }
}

#[test]
fn a_name_of_a_request_stands_for_one_body_only() {
    let (_ground, _server, api) = started();
    let named = |document: &Value| match api.post("/v1/jobs", Some("monday"), document) {
        ApiReply::Answered(status, answer) => (status, answer),
        ApiReply::Silent(problem) => panic!("no answer: {problem}"),
    };
    let first = job(&json!({}));
    let other = job(&json!({ "executable": "/bin/false" }));
    let (status, answer) = named(&first);
    assert_eq!(status, 201, "{answer}");
    let id = &answer["jobs"][0]["id"];
    let (status, again) = named(&first);
    assert!(status == 200 || status == 201, "{again}");
    assert_eq!(
        &again["jobs"][0]["id"], id,
        "the same request, the same job"
    );
    let (status, refused) = named(&other);
    assert_eq!(status, 409, "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains(&format!("job {id} with another body")),
        "{text}"
    );
    assert_eq!(
        api.get_expected("/v1/jobs").unwrap()["jobs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_job_that_no_site_can_hold_waits_where_its_user_allows_it() {
    let (environment, _server, api) = started();
    let large = job(&json!({ "processors": 64 }));
    let (status, text) = posted(&api, &large);
    assert!(status == 422 && text.contains("C1103"), "{status}: {text}");
    let allowed = match api.post("/v1/jobs?allow_unplaceable=true", None, &large) {
        ApiReply::Answered(201, answer) => answer["jobs"][0]["id"].as_u64().unwrap(),
        other => panic!("{other:?}"),
    };
    let file = environment.path().join("large.json");
    std::fs::write(&file, large.to_string()).unwrap();
    let submit = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cospan"));
        command
            .arg("submit")
            .arg(&file)
            .args(more)
            .arg("--config")
            .arg(environment.config());
        command
            .env_clear()
            .env("HOME", environment.path())
            .output()
            .unwrap()
    };
    let refused = submit(&[]);
    assert_eq!(refused.status.code(), Some(3));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("C1103") && said.contains("--allow-unplaceable"),
        "{said}"
    );
    let accepted = submit(&["--allow-unplaceable"]);
    assert!(
        accepted.status.success(),
        "{}",
        String::from_utf8_lossy(&accepted.stderr)
    );
    for id in [allowed, allowed + 1] {
        let job = api.get_expected(&format!("/v1/jobs/{id}")).unwrap();
        assert_eq!(job["phase"]["state"], "queued", "{job}");
        let why = api
            .get_expected(&format!("/v1/jobs/{id}/explain"))
            .unwrap()
            .to_string();
        assert!(why.contains("64 processors"), "{why}");
    }
}
