//! Every address does what it says.

use std::sync::atomic::Ordering;

use cospan_domain::ids::{ComponentIndex, JobId, LrmId, Round};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{AbortCause, AbortConsequence, AttemptState, Component};
use cospan_domain::placed::Placement;
use cospan_domain::units::{DurationMs, Timestamp};
use serde_json::Value;

use super::*;
use cospan_api::v1::accounting::AccountPage;
use cospan_api::v1::event::HistoryReport;
use cospan_api::v1::explain::ExplainReport;
use cospan_api::v1::file::{FilePage, FileReport};
use cospan_api::v1::job::{JobPage, JobReport};
use cospan_api::v1::site::{SiteList, SiteReport};
use cospan_api::v1::store::StoreReport;

#[test]
fn a_job_is_shown_whole() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    served.fake.change_job(1, |job| {
        job.round = Round(1);
        job.components = vec![
            Component {
                placement: Some(Placement {
                    share: None,
                    acquisition: Default::default(),
                    site: "delft".parse().unwrap(),
                    sources: Vec::new(),
                    transfer_time: DurationMs(1500),
                }),
                run: AttemptState::AtGate {
                    lrm_id: LrmId::new("77").unwrap(),
                    host: "node1".into(),
                    since: Timestamp(5000),
                    clock: None,
                },
                ..Component::default()
            },
            Component::default(),
        ];
    });
    let report: JobReport = served.get("/v1/jobs/1").json();
    assert_eq!((report.id, report.owner.as_str()), (1, "admin"));
    assert_eq!(report.phase.state, "queued");
    assert_eq!(report.components[0].state, "at-gate");
    assert_eq!(report.components[0].site.as_deref(), Some("delft"));
    assert_eq!(report.components[0].host.as_deref(), Some("node1"));
    assert_eq!(report.components[0].lrm_id.as_deref(), Some("77"));
    assert_eq!(report.components[1].state, "idle");
    assert_eq!(report.document.name.as_deref(), Some("wave"));
    served.get("/v1/jobs/2").problem(404, "C3001");
}

#[test]
fn an_archived_job_is_shown_too() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    let archived = served
        .fake
        .view
        .lock()
        .unwrap()
        .jobs
        .remove(&JobId(1))
        .unwrap();
    served.get("/v1/jobs/1").problem(404, "C3001");
    served
        .fake
        .archive
        .lock()
        .unwrap()
        .insert(JobId(1), archived);
    assert_eq!(served.get("/v1/jobs/1").status, 200);
}

#[test]
fn the_accounts_hold_every_job_page_by_page_also_those_that_are_archived() {
    let served = TestServer::start();
    served.submit_many(25);
    served.fake.view.lock().unwrap().next_id = JobId(60);
    for id in [3, 11, 25] {
        let archived = served
            .fake
            .view
            .lock()
            .unwrap()
            .jobs
            .remove(&JobId(id))
            .unwrap();
        served
            .fake
            .archive
            .lock()
            .unwrap()
            .insert(JobId(id), archived);
    }
    served.fake.change_job(2, |job| {
        job.instants.placed = Some(job.submitted_at + DurationMs(700));
        job.instants.placement_time = DurationMs(700);
    });
    let mut rows = Vec::new();
    let mut after = 0;
    loop {
        let page: AccountPage = served
            .get(&format!("/v1/accounts?limit=10&after={after}"))
            .json();
        rows.extend(page.jobs);
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert!(rows.iter().map(|row| row.id).eq(1..=25));
    assert_eq!(rows[1].accounting.placement_time_ms, Some(700));
    assert_eq!(rows[1].accounting.wait_time_ms, None, "it has not started");
    let page: AccountPage = served.get("/v1/accounts?owner=somebody").json();
    assert_eq!(page.jobs, []);
}

#[test]
fn a_history_begins_with_the_submission_and_says_who_did_what() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    let frozen = JobEventKind::JobFrozen {
        by: "alice".parse().unwrap(),
    };
    let events = vec![JobEvent {
        at: Timestamp(7000),
        what: frozen,
    }];
    served.fake.history.lock().unwrap().insert(JobId(1), events);
    let report: HistoryReport = served.get("/v1/jobs/1/events").json();
    let names: Vec<&str> = report
        .events
        .iter()
        .map(|event| event.event.as_str())
        .collect();
    assert_eq!(names, ["JobSubmitted", "JobFrozen"]);
    assert_eq!(report.events[0].by.as_deref(), Some("admin"));
    assert_eq!(report.events[1].by.as_deref(), Some("alice"));
    served.get("/v1/jobs/9/events").problem(404, "C3001");
}

#[test]
fn a_history_calls_components_by_their_names_and_says_what_each_time_is() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    let component = ComponentIndex(0);
    let happened = [
        JobEventKind::GoDecided {
            start_at: Timestamp(7000),
            start_by: None,
        },
        JobEventKind::ComponentBegan {
            component,
            began_at: None,
        },
        JobEventKind::ComponentsClaimed {
            components: vec![component],
            preempting: vec![],
        },
        JobEventKind::RoundAborted {
            why: AbortCause::Unreachable { component },
            then: AbortConsequence::Requeue {
                not_before: Timestamp(9000),
            },
        },
    ];
    let events = happened.map(|what| JobEvent {
        at: Timestamp(7000),
        what,
    });
    served
        .fake
        .history
        .lock()
        .unwrap()
        .insert(JobId(1), events.into());
    let report: HistoryReport = served.get("/v1/jobs/1/events").json();
    let lines: Vec<String> = report
        .events
        .iter()
        .skip(1)
        .map(ToString::to_string)
        .collect();
    let name = job_document()["component"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let expected = [
        "GoDecided (start at 1970-01-01T00:00:07.000Z)".to_owned(),
        format!("ComponentBegan component {name}"),
        format!("ComponentsClaimed: components {name}"),
        format!(
            "RoundAborted -> queued: the site of component {name} stopped answering \
             (not placed before 1970-01-01T00:00:09.000Z)"
        ),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn an_explanation_that_takes_long_holds_up_nobody_and_its_key_has_so_many() {
    let served = TestServer::start_with(|settings| settings.workers = 1);
    let [bob, carol] = ["bob", "carol"].map(|name| served.create_key(name, &[Role::User]));
    let [his, hers] =
        [&bob, &carol].map(|token| served.submit_as(token, &job_document().to_string()));
    served.fake.explanations_wait.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        // One is worked on, fifteen wait, and one more is told to come back.
        let asked: Vec<_> = (0..17)
            .map(|_| {
                let path = format!("/v1/jobs/{his}/explain");
                let bob = bob.clone();
                let served = &served;
                scope.spawn(move || served.send_as(&bob, "GET", &path, None))
            })
            .collect();
        wait_until("one is told to come back", || {
            asked.iter().any(|one| one.is_finished())
        });
        assert_eq!(
            served
                .send_as(&carol, "GET", &format!("/v1/jobs/{hers}"), None)
                .status,
            200
        );
        served.fake.explanations_wait.store(false, Ordering::SeqCst);
        let replies: Vec<TestReply> = asked.into_iter().map(|one| one.join().unwrap()).collect();
        let refused = replies.iter().filter(|reply| reply.status == 429);
        let refused: Vec<&TestReply> = refused.collect();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].header("retry-after"), Some("1"));
        refused[0].problem(429, "C5002");
        assert_eq!(
            replies.iter().filter(|reply| reply.status == 200).count(),
            16
        );
    });
}

#[test]
fn an_explanation_is_asked_for_page_by_page() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    let summary = |query: &str| {
        served
            .get(&format!("/v1/jobs/1/explain{query}"))
            .json::<ExplainReport>()
            .summary
    };
    assert_eq!(summary(""), "it waits, 1000 after 0");
    assert_eq!(summary("?after=40&limit=20"), "it waits, 20 after 40");
    for wrong in ["?limit=0", "?limit=1001", "?after=-1", "?page=2"] {
        served
            .get(&format!("/v1/jobs/1/explain{wrong}"))
            .problem(400, "C1002");
    }
}

#[test]
fn a_waiting_job_is_explained() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    let report: ExplainReport = served.get("/v1/jobs/1/explain").json();
    assert_eq!(report.verdicts[0].code, "site-full");
    served.get("/v1/jobs/9/explain").problem(404, "C3001");
}

#[test]
fn pages_follow_each_other_without_gap_or_repetition() {
    let served = TestServer::start();
    served.submit_many(25);
    for (extra, forward) in [("", true), ("&newest=true", false)] {
        let mut ids = Vec::new();
        let mut after = String::new();
        loop {
            let page: JobPage = served
                .get(&format!("/v1/jobs?limit=10{extra}{after}"))
                .json();
            ids.extend(page.jobs.iter().map(|job| job.id));
            match page.next {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        let mut expected: Vec<u64> = (1..=25).collect();
        if !forward {
            expected.reverse();
        }
        assert_eq!(ids, expected);
    }
}

#[test]
fn a_list_is_narrowed_down_by_state_owner_site_and_name() {
    let served = TestServer::start();
    served.submit_many(12);
    let fixed = job_document()
        .to_string()
        .replace("\"processors\"", "\"site\":\"delft\",\"processors\"");
    assert_eq!(served.submit(&fixed).status, 201);
    let count = |query: &str| {
        served
            .get(&format!("/v1/jobs?{query}"))
            .json::<JobPage>()
            .jobs
            .len()
    };
    assert_eq!(count("name=job-1"), 3);
    assert_eq!(count("site=delft"), 1);
    assert_eq!(count("state=queued"), 13);
    assert_eq!(count("state=running"), 0);
    assert_eq!(count("owner=admin"), 13);
    assert_eq!(count("owner=bob"), 0);
    assert_eq!(count("name=job-1&limit=2"), 2);
}

#[test]
fn a_filter_that_lets_little_through_does_not_look_at_everything_at_once() {
    let served = TestServer::start();
    served.submit_many(20_050);
    let page: JobPage = served.get("/v1/jobs?name=job-20049").json();
    assert_eq!((page.jobs.len(), page.next), (0, Some(20_000)));
    let page: JobPage = served.get("/v1/jobs?name=job-20049&after=20000").json();
    assert_eq!((page.jobs.len(), page.next), (1, None));
}

#[test]
fn sites_are_listed_shown_and_ordered() {
    let served = TestServer::start();
    assert_eq!(served.get("/v1/sites").json::<SiteList>().sites.len(), 2);
    assert_eq!(
        served.get("/v1/sites/delft").json::<SiteReport>().name,
        "delft"
    );
    assert_eq!(
        served.get("/v1/sites/delft").json::<SiteReport>().links[0].bandwidth_bps,
        8
    );
    assert_eq!(
        served.get("/v1/sites/delft").json::<SiteReport>().timeline,
        None
    );
    assert_eq!(
        served.get("/v1/sites/delft").json::<SiteReport>().needs,
        None
    );
    let needs = served
        .get("/v1/sites/delft?needs=true")
        .json::<SiteReport>()
        .needs
        .unwrap();
    assert_eq!(
        (&*needs.instance, needs.jobs),
        ("abcdefgh", vec![1, 2]),
        "whoever's they are"
    );
    let timeline = |name: &str| {
        let site = served
            .get(&format!("/v1/sites/{name}?timeline=1h"))
            .json::<SiteReport>();
        site.timeline.expect("it was asked for")
    };
    let free: Vec<_> = timeline("delft")
        .steps
        .iter()
        .map(|s| (s.from.0.0, s.processors))
        .collect();
    assert_eq!(free, [(1_000, 4), (3_600_000, 16)]);
    assert_eq!(timeline("leiden").state, "grants-none");
    served
        .get("/v1/sites/delft?timeline=soon")
        .problem(400, "C1002");
    let problem = served.get("/v1/sites/deft").problem(404, "C3001");
    assert!(problem.remedy.unwrap().contains("delft"));
    for order in ["drain", "undrain", "freeze", "thaw", "reset", "unforce"] {
        assert_eq!(
            served.post(&format!("/v1/sites/delft/{order}"), "").status,
            200
        );
    }
    let window =
        r#"{"from":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z","reason":"disks"}"#;
    assert_eq!(
        served.post("/v1/sites/delft/maintenance", window).status,
        200
    );
    let end = r#"{"from":"2026-01-01T00:00:00Z"}"#;
    assert_eq!(
        served.post("/v1/sites/delft/end-maintenance", end).status,
        200
    );
    let force = r#"{"usable":true,"until":"2026-01-01T00:00:00Z"}"#;
    assert_eq!(served.post("/v1/sites/delft/force", force).status, 200);
    let asked = served.fake.asked.lock().unwrap().join("\n");
    assert_eq!(asked.lines().count(), 9, "{asked}");
    assert!(
        asked.contains("disks") && asked.starts_with("admin: Site(\"delft\", Drain)"),
        "{asked}"
    );
}

#[test]
fn wrong_orders_about_sites_are_refused() {
    let served = TestServer::start();
    let backwards = r#"{"from":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}"#;
    served
        .post("/v1/sites/delft/maintenance", backwards)
        .problem(422, "C1112");
    served
        .post("/v1/sites/delft/maintenance", "")
        .problem(400, "C1001");
    served.post("/v1/sites/-/drain", "").problem(400, "C1002");
    assert!(served.fake.asked.lock().unwrap().is_empty());
}

#[test]
fn files_are_registered_listed_shown_and_forgotten() {
    let served = TestServer::start();
    for name in ["a/b c", "b", "ä"] {
        let body = serde_json::json!({"name": name, "site": "delft", "path": "d/x"}).to_string();
        let reply = served.post("/v1/files", &body);
        assert_eq!(
            (reply.status, reply.json::<FileReport>().name.as_str()),
            (201, name)
        );
    }
    let page: FilePage = served.get("/v1/files?limit=2").json();
    assert_eq!(page.files.len(), 2);
    let page: FilePage = served
        .get(&format!("/v1/files?after={}", page.next.unwrap()))
        .json();
    assert_eq!((page.files[0].name.as_str(), page.next), ("ä", None));
    assert_eq!(
        served.get("/v1/files/a/b%20c").json::<FileReport>().name,
        "a/b c"
    );
    assert_eq!(served.get("/v1/files/%C3%A4").status, 200);
    assert_eq!(
        served
            .send("DELETE", "/v1/files/b?site=delft&force=true", None)
            .status,
        200
    );
    served
        .send("DELETE", "/v1/files/b", None)
        .problem(404, "C3001");
    served.get("/v1/files/b").problem(404, "C3001");
    let asked = served.fake.asked.lock().unwrap().join("\n");
    assert!(
        asked.contains("force: true") && asked.contains("Some(\"delft\")"),
        "{asked}"
    );
}

#[test]
fn the_store_is_shown_and_exported() {
    let served = TestServer::start();
    assert_eq!(
        served.get("/v1/store").json::<StoreReport>().engine,
        "paper"
    );
    let pieces = ["one", "two", "three"].map(|text| Ok(actix_web::web::Bytes::from(text)));
    *served.fake.export.lock().unwrap() = pieces.to_vec();
    assert_eq!(served.get("/v1/store/export").body, b"onetwothree");
}

#[test]
fn an_export_that_fails_half_way_is_cut_off_and_not_ended() {
    let served = TestServer::start();
    *served.fake.export.lock().unwrap() = vec![Ok("one".into()), Err("the disk".into())];
    let request = ureq::get(served.url("/v1/store/export"))
        .header("Authorization", format!("Bearer {}", served.token));
    // Whether the break comes before or after the head is a matter of timing.
    let whole = request
        .call()
        .and_then(|mut answer| answer.body_mut().read_to_vec());
    assert!(whole.is_err());
}

#[test]
fn health_is_told_without_a_key() {
    let served = TestServer::start();
    assert_eq!(served.send_with("GET", "/livez", None, &[]).status, 200);
    assert_eq!(served.send_with("GET", "/readyz", None, &[]).status, 200);
    served
        .fake
        .ready
        .store(false, std::sync::atomic::Ordering::SeqCst);
    let problem = served
        .send_with("GET", "/readyz", None, &[])
        .problem(503, "C6002");
    assert_eq!(problem.detail, "the store is being read");
}

#[test]
fn metrics_count_what_was_answered() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    served.get("/v1/jobs/9");
    let text = String::from_utf8(served.get("/metrics").body).unwrap();
    for line in [
        "cospan_http_answers_total{class=\"2xx\",endpoint=\"submit\"} 1",
        "cospan_http_answers_total{class=\"4xx\",endpoint=\"jobs\"} 1",
        "cospan_http_answer_seconds_count{endpoint=\"submit\"} 1",
        "cospan_http_streams 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_openapi_document_lists_every_address_and_every_address_is_in_it() {
    let served = TestServer::start();
    let document: Value = served.get("/v1/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let listed: Vec<&str> = paths.keys().map(String::as_str).collect();
    let mut expected = vec![
        "/livez",
        "/metrics",
        "/readyz",
        "/v1/accounts",
        "/v1/chaos",
        "/v1/chaos/report",
        "/v1/events",
        "/v1/files",
        "/v1/files/{name}",
        "/v1/jobs",
        "/v1/jobs/{id}",
        "/v1/jobs/{id}/events",
        "/v1/jobs/{id}/explain",
        "/v1/jobs/{id}/logs/{component}/{stream}",
        "/v1/jobs/{id}/outputs/{component}/{path}",
        "/v1/jobs/{id}/trees/{component}/{path}",
        "/v1/jobs:cancel",
        "/v1/jobs:freeze",
        "/v1/jobs:priority",
        "/v1/jobs:release",
        "/v1/jobs:rerun",
        "/v1/jobs:thaw",
        "/v1/openapi.json",
        "/v1/reservations",
        "/v1/reservations/{id}",
        "/v1/reservations/{id}/cancel",
        "/v1/reservations/{id}/move",
        "/v1/shared-reservations",
        "/v1/shared-reservations/{name}",
        "/v1/shared-reservations/{name}/extend",
        "/v1/shared-reservations/{name}/allow",
        "/v1/shared-reservations/{name}/cancel",
        "/v1/sites",
        "/v1/sites/{name}",
        "/v1/sites/{name}/drain",
        "/v1/sites/{name}/end-maintenance",
        "/v1/sites/{name}/force",
        "/v1/sites/{name}/freeze",
        "/v1/sites/{name}/maintenance",
        "/v1/sites/{name}/reset",
        "/v1/sites/{name}/thaw",
        "/v1/sites/{name}/undrain",
        "/v1/sites/{name}/unforce",
        "/v1/slots",
        "/v1/store",
        "/v1/store/export",
        "/v1/uploads",
        "/v1/uploads/{id}",
        "/v1/uploads/{id}/complete",
    ];
    expected.sort_unstable();
    assert_eq!(listed, expected);
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let real = path.replace(['{', '}'], "");
            if real == "/v1/events" {
                continue; // never ends
            }
            let reply = served.send(&method.to_uppercase(), &real, None);
            let code = serde_json::from_slice::<Problem>(&reply.body).map(|p| p.code);
            assert!(
                !matches!(code.as_deref(), Ok("C3002" | "C3003")),
                "{method} {path}"
            );
            assert!(operation["responses"].is_object() && operation["tags"][0].is_string());
        }
    }
    // Every schema that is referred to is there.
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}

#[test]
fn an_unknown_address_and_a_wrong_method_are_told_apart() {
    let served = TestServer::start();
    served.get("/v1/nothing").problem(404, "C3002");
    served.get("/").problem(404, "C3002");
    let problem = served.send("PUT", "/v1/jobs", None).problem(405, "C3003");
    assert!(problem.detail.contains("GET, POST"), "{}", problem.detail);
    served.get("/v1/jobs:cancel").problem(405, "C3003");
    served
        .send("DELETE", "/v1/sites/delft", None)
        .problem(405, "C3003");
    served
        .send("POST", "/v1/files/a/b", None)
        .problem(405, "C3003");
}
