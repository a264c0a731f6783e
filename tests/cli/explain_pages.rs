//! Explanations of several pages.

use serde_json::{Value, json};

use super::fake_server::{Fake, FakeAnswer, Request};
use super::{code, run, stderr, stdout};

/// A page of two, as the job was after so many changes.
fn page(request: &Request, revision: usize) -> FakeAnswer {
    let is_first = !request.head.lines().next().unwrap().contains("after=1");
    let (component, next) = if is_first {
        ("c0", json!(1))
    } else {
        ("c1", Value::Null)
    };
    FakeAnswer::json(&json!({
        "job": 1, "revision": revision, "summary": "it waits", "next": next,
        "verdicts": [{
            "component": component, "site": "delft", "code": "site-full", "chosen": false,
            "detail": format!("seen after {revision} changes"),
        }],
    }))
}

fn told(server: &Fake) -> (Vec<String>, String) {
    let output = run(server, &["explain", "1", "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let verdicts = report[0]["verdicts"].as_array().unwrap();
    let details = verdicts
        .iter()
        .map(|verdict| verdict["detail"].as_str().unwrap().to_owned());
    (details.collect(), stderr(&output))
}

#[test]
fn pages_of_different_states_of_a_job_are_read_again() {
    let server = Fake::start(|request| page(request, usize::from(request.number > 0)));
    let (details, said) = told(&server);
    assert_eq!(details, ["seen after 1 changes", "seen after 1 changes"]);
    assert_eq!((server.requests().len(), said.as_str()), (4, ""));
}

#[test]
fn of_a_job_that_never_holds_still_it_is_said() {
    let server = Fake::start(|request| page(request, request.number));
    let (details, said) = told(&server);
    assert_eq!(details, ["seen after 4 changes", "seen after 5 changes"]);
    assert!(said.contains("job 1 kept changing"), "{said}");
}
