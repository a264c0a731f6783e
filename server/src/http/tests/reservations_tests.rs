//! Starts that are promised: when they could be, which there are, and orders about them.

use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::job::job_state::TermsChange;
use cospan_domain::reservation::StartWindow;
use cospan_domain::units::{DurationMs, Timestamp};

use serde_json::json;

use super::*;
use cospan_api::v1::reservation::{ReservationPage, ReservationRow};
use cospan_api::v1::slots::SlotsReport;

fn set_reservation_terms(served: &TestServer, id: u64) {
    served.fake.change_job(id, |job| {
        let window = StartWindow::new(Timestamp(1_000), Timestamp(5_000));
        job.wish = TermsChange::Changed(ReservationTerms {
            window,
            tolerance: DurationMs::ZERO,
            ..Default::default()
        });
    });
}

#[test]
fn slots_tell_of_each_site_and_refuse_what_can_never_start() {
    let served = TestServer::start();
    let slots: SlotsReport = served.get("/v1/slots?processors=4&for=1h").json();
    let states: Vec<(&str, &str)> = slots
        .sites
        .iter()
        .map(|s| (s.site.as_str(), s.state.as_str()))
        .collect();
    assert_eq!(states, [("delft", "answered"), ("leiden", "grants-none")]);
    assert_eq!((slots.sites[0].starts.len(), slots.shortened), (3, false));
    let few: SlotsReport = served
        .get("/v1/slots?processors=4&for=1h&limit=2&site=delft")
        .json();
    assert_eq!(
        (few.sites.len(), few.sites[0].starts.len(), few.shortened),
        (1, 2, true)
    );
    for (wrong, key) in [
        ("processors=0&for=1h", "processors"),
        ("processors=1&for=1h&components=0", "components"),
        ("processors=1&for=1h&components=10001", "components"),
        ("processors=1&for=1h&limit=0", "limit"),
    ] {
        let problem = served
            .get(&format!("/v1/slots?{wrong}"))
            .problem(400, "C1002");
        assert_eq!(problem.key.as_deref(), Some(key), "{wrong}");
    }
    served.get("/v1/slots?processors=1").problem(400, "C1002");
    for (senseless, key) in [
        ("processors=1&for=0s", "for"),
        (
            "processors=1&for=1h&earliest=2001-01-01T00:00:00Z",
            "earliest",
        ),
    ] {
        let problem = served
            .get(&format!("/v1/slots?{senseless}"))
            .problem(422, "C1112");
        assert_eq!(problem.key.as_deref(), Some(key), "{senseless}");
    }
    let problem = served
        .get("/v1/slots?processors=1&for=1h&site=delf")
        .problem(404, "C3001");
    assert_eq!(problem.remedy.as_deref(), Some("did you mean delft?"));
}

#[test]
fn reservations_are_those_of_jobs_that_want_one() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    served.submit(&named_job_document("other").to_string());
    set_reservation_terms(&served, 2);
    let page: ReservationPage = served.get("/v1/reservations").json();
    assert_eq!(
        page.reservations
            .iter()
            .map(|row| row.job)
            .collect::<Vec<_>>(),
        [2]
    );
    let row: ReservationRow = served.get("/v1/reservations/2").json();
    assert_eq!(row.reservation.state, "wanted");
    assert_eq!(row.reservation.latest.unwrap().0, Timestamp(5_000));
    let problem = served.get("/v1/reservations/1").problem(404, "C3001");
    assert!(problem.remedy.unwrap().contains("--start"));
    served.get("/v1/reservations/9").problem(404, "C3001");
    served.get("/v1/reservations?limit=0").problem(400, "C1002");
}

#[test]
fn orders_about_a_reservation_reach_its_job() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    set_reservation_terms(&served, 1);
    let post = |path: &str, body: &str| served.send_as(&served.token, "POST", path, Some(body));
    assert_eq!(post("/v1/reservations/1/cancel", "").status, 200);
    let to = r#"{"earliest":"2026-11-27T09:00:00Z","within":"2h"}"#;
    assert_eq!(post("/v1/reservations/1/move", to).status, 200);
    let asked = served.fake.asked.lock().unwrap().clone();
    assert!(asked[0].contains("wish: None"), "{asked:?}");
    assert!(
        asked[1].contains("ChangeReservation") && asked[1].contains("1795770000000"),
        "{asked:?}"
    );
    let twice =
        r#"{"earliest":"2026-11-27T09:00:00Z","within":"2h","latest":"2026-11-27T10:00:00Z"}"#;
    let early = r#"{"earliest":"2026-11-27T09:00:00Z","latest":"2026-11-27T08:00:00Z"}"#;
    for wrong in [twice, early] {
        post("/v1/reservations/1/move", wrong).problem(422, "C1112");
    }
    assert!(matches!(
        post("/v1/reservations/1/move", "{}").status,
        400 | 422
    ));
    post("/v1/reservations/7/cancel", "").problem(404, "C3001");
}

#[test]
fn what_contradicts_itself_of_a_shared_reservation_is_no_unreadable_body() {
    let served = TestServer::start();
    let twice = json!({
        "name": "course", "site": "delft", "processors": 1, "for": "1h",
        "also": [{ "site": "delft", "processors": 1 }],
    });
    let allow = "/v1/shared-reservations/course/allow";
    for (path, body, key) in [
        ("/v1/shared-reservations", twice, "also"),
        (allow, json!({}), "only"),
        (allow, json!({ "everybody": true, "add": ["bob"] }), "only"),
        (allow, json!({ "add": ["no key"] }), "add"),
    ] {
        let problem = served.post(path, &body.to_string()).problem(422, "C1115");
        assert_eq!(problem.key.as_deref(), Some(key), "{body}");
    }
}
