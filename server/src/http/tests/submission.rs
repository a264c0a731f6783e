//! Submission: one job, many, repeated, refused.

use cospan_actors::api::ApiRefusal;
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::spec::Priority;
use cospan_domain::queue::ClassLimitError;

use std::sync::atomic::Ordering;

use super::*;
use cospan_api::v1::job::{CheckedReport, SubmittedReport};

fn submit_with_key(served: &TestServer, key: &str, body: &str) -> TestReply {
    let token = format!("Bearer {}", served.token);
    let headers = [("Authorization", token.as_str()), ("Idempotency-Key", key)];
    served.send_with("POST", "/v1/jobs", Some(body.as_bytes()), &headers)
}

fn submitted_ids(reply: &TestReply) -> Vec<u64> {
    reply
        .json::<SubmittedReport>()
        .jobs
        .iter()
        .map(|job| job.id)
        .collect()
}

#[test]
fn a_job_is_accepted_with_its_number() {
    let served = TestServer::start();
    let reply = served.submit(&job_document().to_string());
    assert_eq!(reply.status, 201);
    assert_eq!(
        String::from_utf8(reply.body.clone()).unwrap(),
        r#"{"jobs":[{"id":1,"repeated":false}]}"#
    );
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let view = served.fake.view.lock().unwrap().clone();
    let kept = view.jobs.get(&JobId(1)).unwrap();
    assert_eq!(kept.owner.as_str(), "admin");
    assert_eq!(kept.spec.components.len(), 2);
}

#[test]
fn an_array_is_accepted_as_a_whole_in_its_order() {
    let served = TestServer::start();
    let body = format!(
        " \n[{},{}]",
        named_job_document("x"),
        named_job_document("y")
    );
    let reply = served.submit(&body);
    assert_eq!((reply.status, submitted_ids(&reply)), (201, vec![1, 2]));
    let view = served.fake.view.lock().unwrap().clone();
    assert_eq!(
        view.jobs.get(&JobId(2)).unwrap().spec.name.as_deref(),
        Some("y")
    );
}

#[test]
fn one_wrong_job_in_an_array_refuses_all_and_is_named_by_its_index() {
    let served = TestServer::start();
    let cases = [
        (
            named_job_document("x")
                .to_string()
                .replace("\"processors\":3", "\"processors\":0"),
            400,
            "C1001",
            "component[1].processors",
        ),
        (
            named_job_document("x")
                .to_string()
                .replace("wall_time", "wal_time"),
            400,
            "C1001",
            "wal_time",
        ),
        (
            r#"{"wall_time":"1h","rerunnable":false,"on_unreachable":{"rerun_after":"1h"}}"#.into(),
            422,
            "C1101",
            "on_unreachable",
        ),
    ];
    for (wrong, status, code, key) in cases {
        let reply = served.submit(&format!(
            "[{},{},{wrong}]",
            named_job_document("a"),
            named_job_document("b")
        ));
        let problem = reply.problem(status, code);
        assert_eq!(
            (problem.index, problem.key.as_deref()),
            (Some(2), Some(key)),
            "{problem}"
        );
    }
    let twice = named_job_document("x")
        .to_string()
        .replace("\"name\":\"b\"", "\"name\":\"a\"");
    let problem = served
        .submit(&format!("[{},{twice}]", named_job_document("a")))
        .problem(422, "C1101");
    assert_eq!(problem.index, Some(1));
    assert!(served.fake.view.lock().unwrap().jobs.is_empty());
}

#[test]
fn a_single_wrong_job_has_no_index() {
    let served = TestServer::start();
    for wrong in [
        "{\"wall_time\":\"0s\",\"component\":[]}",
        "{\"wall_time\":\"1h\"}",
    ] {
        assert_eq!(served.submit(wrong).problem(422, "C1101").index, None);
    }
}

#[test]
fn the_same_key_and_body_is_the_same_job() {
    let served = TestServer::start();
    let body = job_document().to_string();
    let first = submit_with_key(&served, "k1", &body);
    let second = submit_with_key(&served, "k1", &body);
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(submitted_ids(&first), submitted_ids(&second));
    assert!(second.json::<SubmittedReport>().jobs[0].repeated);
    let other = submit_with_key(&served, "k1", &named_job_document("other").to_string());
    let problem = other.problem(409, "C4001");
    assert!(problem.detail.contains("job 1"), "{problem}");
    assert_eq!(submitted_ids(&submit_with_key(&served, "k2", &body)), [2]);
}

#[test]
fn a_key_holds_for_every_job_of_an_array() {
    let served = TestServer::start();
    let body = format!("[{},{}]", named_job_document("a"), named_job_document("b"));
    assert_eq!(submitted_ids(&submit_with_key(&served, "k", &body)), [1, 2]);
    let again = submit_with_key(&served, "k", &body);
    assert_eq!((again.status, submitted_ids(&again)), (200, vec![1, 2]));
    let longer = format!(
        "[{},{},{}]",
        named_job_document("a"),
        named_job_document("b"),
        named_job_document("c")
    );
    submit_with_key(&served, "k", &longer).problem(409, "C4001");
}

#[test]
fn a_key_that_is_none_is_refused() {
    let served = TestServer::start();
    for wrong in ["", "a b", &"x".repeat(241)] {
        let problem =
            submit_with_key(&served, wrong, &job_document().to_string()).problem(400, "C1003");
        assert_eq!(problem.key.as_deref(), Some("Idempotency-Key"));
    }
}

#[test]
fn a_dry_run_accepts_nothing() {
    let served = TestServer::start();
    let reply = served.post(
        "/v1/jobs?dry_run=true&allow_unplaceable=true",
        &job_document().to_string(),
    );
    assert_eq!(reply.status, 200);
    let report: CheckedReport = reply.json();
    assert_eq!(report.jobs[0].summary, "allow_unplaceable is true");
    assert!(served.fake.view.lock().unwrap().jobs.is_empty());
    let unplaceable = ApiRefusal::Unplaceable {
        index: 0,
        problem: "too large".into(),
    };
    *served.fake.refusal.lock().unwrap() = Some(unplaceable);
    let body = format!("[{}]", job_document());
    let problem = served
        .post("/v1/jobs?dry_run=true", &body)
        .problem(422, "C1103");
    assert_eq!(problem.index, Some(0));
}

#[test]
fn who_asks_at_once_what_sites_would_do_waits_for_their_first_words() {
    let served = TestServer::start();
    let unheard = |count: usize| served.fake.unheard.swap(count, Ordering::SeqCst);
    unheard(3);
    assert_eq!(
        served
            .post("/v1/jobs?dry_run=true", &job_document().to_string())
            .status,
        200
    );
    assert_eq!(unheard(3), 0);
    assert_eq!(served.get("/v1/slots?processors=4&for=1h").status, 200);
    assert_eq!(unheard(4), 0);
    let mut promised = job_document();
    promised["reservation"] = serde_json::json!({ "earliest": "in 1h", "within": "1h" });
    assert_eq!(served.submit(&promised.to_string()).status, 201);
    assert_eq!(unheard(4), 0);
    assert_eq!(served.submit(&job_document().to_string()).status, 201);
    assert_eq!(unheard(4), 4, "who asks for no promise does not wait");
    let course =
        serde_json::json!({ "name": "course", "site": "delft", "processors": 2, "for": "1h" });
    served.post("/v1/shared-reservations", &course.to_string());
    assert_eq!(unheard(0), 0);
}

#[test]
fn a_dry_run_holds_up_nobody_and_its_key_has_one_at_a_time() {
    let served =
        TestServer::start_with(|settings| (settings.workers, settings.max_dry_runs) = (1, 2));
    let [bob, carol] = ["bob", "carol"].map(|name| served.create_key(name, &[Role::User]));
    let dry_run = |token: &str| {
        served.send_as(
            token,
            "POST",
            "/v1/jobs?dry_run=true",
            Some(&job_document().to_string()),
        )
    };
    let begun = || served.fake.previews.load(Ordering::SeqCst);
    served.fake.previews_wait.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| dry_run(&bob));
        wait_until("the dry run is worked on", || begun() == 1);
        assert_eq!(
            served.submit(&job_document().to_string()).status,
            201,
            "the one worker is free"
        );
        let problem = dry_run(&bob).problem(429, "C5005");
        assert!(problem.detail.contains("of the key bob"), "{problem}");
        let second = scope.spawn(|| dry_run(&carol));
        wait_until("another key's is worked on beside it", || begun() == 2);
        let problem = dry_run(&served.token).problem(429, "C5005");
        assert!(problem.detail.contains("2 dry runs"), "{problem}");
        served.fake.previews_wait.store(false, Ordering::SeqCst);
        assert_eq!(first.join().unwrap().status, 200);
        assert_eq!(second.join().unwrap().status, 200);
    });
    assert_eq!(dry_run(&bob).status, 200, "its place is free again");
}

#[test]
fn a_dry_run_is_broken_off_when_its_time_is_over() {
    let served = TestServer::start_with(|settings| settings.dry_run_budget = Duration::ZERO);
    let two = format!("[{},{}]", job_document(), job_document());
    let problem = served
        .post("/v1/jobs?dry_run=true", &two)
        .problem(422, "C1110");
    assert!(problem.detail.contains("0 of 2 jobs"), "{problem}");
    assert_eq!(served.fake.previews.load(Ordering::SeqCst), 0);
    assert_eq!(served.submit(&two).status, 201, "that is for dry runs only");
}

#[test]
fn every_refusal_of_the_control_plane_has_its_status_and_code() {
    let served = TestServer::start();
    let text = || "because".to_owned();
    let site = SiteName::new("delft").unwrap();
    let file = "none".parse().unwrap();
    let above = ClassLimitError {
        asked: Priority::High,
        highest: Priority::Low,
        rule: 1,
    };
    let cases = [
        (
            ApiRefusal::Invalid {
                index: 0,
                problem: text(),
            },
            422,
            "C1101",
        ),
        (
            ApiRefusal::Unplaceable {
                index: 0,
                problem: text(),
            },
            422,
            "C1103",
        ),
        (
            ApiRefusal::ClosedSite {
                index: 0,
                component: text(),
                site,
                why: text(),
            },
            422,
            "C1109",
        ),
        (
            ApiRefusal::UnknownFile {
                index: 0,
                name: file,
            },
            422,
            "C1104",
        ),
        (ApiRefusal::AboveHighest { index: 0, above }, 403, "C2002"),
        (
            ApiRefusal::IdempotencyMismatch { job: JobId(7) },
            409,
            "C4001",
        ),
        (ApiRefusal::NotFound(text()), 404, "C3001"),
        (ApiRefusal::Conflict(text()), 409, "C4002"),
        (ApiRefusal::Busy { retry_after_s: 3 }, 429, "C5002"),
        (ApiRefusal::Stopping, 503, "C6001"),
        (ApiRefusal::Site(text()), 502, "C7001"),
    ];
    for (refusal, status, code) in cases {
        *served.fake.refusal.lock().unwrap() = Some(refusal.clone());
        let reply = served.submit(&job_document().to_string());
        reply.problem(status, code);
        match refusal {
            ApiRefusal::Busy { .. } => assert_eq!(reply.header("retry-after"), Some("3")),
            ApiRefusal::Stopping => assert!(reply.header("retry-after").is_some()),
            _ => assert_eq!(reply.header("retry-after"), None),
        }
    }
}
