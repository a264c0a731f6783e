//! Orders about many jobs at once.

use cospan_domain::job::job_state::JobPhase;
use cospan_domain::units::Timestamp;

use super::*;
use cospan_api::v1::commands::{OrderReport, OutcomeName};

#[test]
fn jobs_named_by_number_are_ordered_and_each_is_answered() {
    let served = TestServer::start();
    served.submit_many(3);
    served
        .fake
        .change_job(2, |job| job.phase = JobPhase::Finished { at: Timestamp(9) });
    served
        .fake
        .change_job(3, |job| job.held = Some("after a panic".into()));
    let orders = ["cancel", "freeze", "thaw", "release"];
    for order in orders {
        let reply = served.post(&format!("/v1/jobs:{order}"), r#"{"ids":[1,2,3,9,1]}"#);
        let report: OrderReport = reply.json();
        let outcomes: Vec<_> = report
            .jobs
            .iter()
            .map(|job| (job.id, job.outcome))
            .collect();
        let expected = [
            (1, OutcomeName::Done),
            (2, OutcomeName::Unchanged),
            (3, OutcomeName::Refused),
            (9, OutcomeName::NotFound),
        ];
        assert_eq!(outcomes, expected);
        assert_eq!(report.jobs[2].detail.as_deref(), Some("it is held"));
    }
    let reply = served.post("/v1/jobs:priority", r#"{"ids":[1],"priority":"high"}"#);
    assert_eq!(reply.status, 200);
    let reply = served.post("/v1/jobs:cancel", r#"{"ids":[1],"abandon":true}"#);
    assert_eq!(reply.status, 200);
    let asked = served.fake.asked.lock().unwrap().join("\n");
    for what in [
        "Cancel",
        "Abandon([JobId(1)])",
        "Freeze",
        "Thaw",
        "Release",
        "SetPriority { jobs: [JobId(1)], to: High, uncapped: false }",
    ] {
        assert!(asked.contains(what), "{asked}");
    }
}

#[test]
fn all_jobs_of_a_site_are_meant_and_none_that_has_ended() {
    let served = TestServer::start();
    let at = |site: &str| {
        job_document().to_string().replace(
            "\"processors\"",
            &format!("\"site\":\"{site}\",\"processors\""),
        )
    };
    for site in ["delft", "leiden", "delft", "delft"] {
        assert_eq!(served.submit(&at(site)).status, 201);
    }
    served
        .fake
        .change_job(4, |job| job.phase = JobPhase::Finished { at: Timestamp(9) });
    let all_at_delft = r#"{"all":true,"site":"delft"}"#;
    let report: OrderReport = served.post("/v1/jobs:freeze", all_at_delft).json();
    let ids: Vec<u64> = report.jobs.iter().map(|job| job.id).collect();
    assert_eq!((ids, report.next), (vec![1, 3], None));
    let report: OrderReport = served.post("/v1/jobs:cancel", all_at_delft).json();
    assert!(report.jobs.is_empty(), "none has a component there yet");
}

#[test]
fn a_long_selection_is_done_in_steps_that_reach_every_job_once() {
    let served = TestServer::start();
    served.submit_many(2500);
    let mut reached = Vec::new();
    let mut after = String::new();
    loop {
        let body = format!(r#"{{"all":true,"state":"queued"{after}}}"#);
        let report: OrderReport = served.post("/v1/jobs:freeze", &body).json();
        reached.extend(report.jobs.iter().map(|job| job.id));
        match report.next {
            Some(next) => after = format!(",\"after\":{next}"),
            None => break,
        }
    }
    assert_eq!(reached, (1..=2500).collect::<Vec<u64>>());
}

#[test]
fn an_ambiguous_selection_is_refused() {
    let served = TestServer::start();
    served.submit_many(1);
    let many: Vec<u64> = (0..10_001).collect();
    let many = serde_json::json!({"ids": many}).to_string();
    for wrong in [
        "{}",
        r#"{"ids":[]}"#,
        r#"{"site":"delft"}"#,
        r#"{"ids":[1],"all":true}"#,
        r#"{"ids":[1],"site":"delft"}"#,
        r#"{"ids":[1],"priority":"high"}"#,
        &many,
    ] {
        served.post("/v1/jobs:cancel", wrong).problem(422, "C1107");
    }
    served
        .post("/v1/jobs:priority", r#"{"ids":[1]}"#)
        .problem(422, "C1107");
    served
        .post("/v1/jobs:freeze", r#"{"ids":[1],"abandon":true}"#)
        .problem(422, "C1107");
    let problem = served.post("/v1/jobs:cancel", r#"{"all":true,"stat":"queued"}"#);
    assert_eq!(
        problem.problem(400, "C1001").nearest.as_deref(),
        Some("state")
    );
    served
        .post("/v1/jobs:cancel", r#"{"all":true,"state":"quued"}"#)
        .problem(400, "C1001");
    served
        .post("/v1/jobs:cancel", r#"{"ids":[-1]}"#)
        .problem(400, "C1001");
    assert!(served.fake.asked.lock().unwrap().is_empty());
}

#[test]
fn one_job_is_cancelled_by_deleting_it() {
    let served = TestServer::start();
    served.submit_many(2);
    served.fake.change_job(2, |job| job.held = Some("x".into()));
    assert_eq!(served.send("DELETE", "/v1/jobs/1", None).status, 200);
    served
        .send("DELETE", "/v1/jobs/2", None)
        .problem(409, "C4002");
    served
        .send("DELETE", "/v1/jobs/3", None)
        .problem(404, "C3001");
    served
        .send("DELETE", "/v1/jobs/x", None)
        .problem(400, "C1002");
}
