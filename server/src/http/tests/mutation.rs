//! Whatever a client sends, it gets an answer: accepted, or a problem document
//! with a status of its own making. Never a fault of the server.

use proptest::prelude::*;

use super::*;

/// A document with everything in it.
fn full_document() -> Value {
    serde_json::json!({
        "name": "wave", "request": "fixed", "policy": "worst-fit", "priority": "high",
        "wall_time": "1-12:00:00", "rerunnable": true, "on_unreachable": {"rerun_after": "45m"},
        "max_placement_tries": 9, "max_claim_tries": 3, "max_retries": 2,
        "component": [{
            "name": "solver", "site": "delft", "processors": 4, "memory": "4GB", "disk": "1GB",
            "gpus": 2, "resources": {"licences": 1}, "constraints": ["arch=x86_64", "os!=windows"],
            "executable": {"file": "solver"}, "arguments": ["-n", "4"],
            "environment": {"A": "b"}, "directory": "run", "setup": ["module load gcc"],
            "input": [{"file": "data/mesh", "path": "mesh"}],
            "output": [{"path": "r", "site": "leiden", "register": "wave/r"}],
            "at": {"delft": {"executable": "/bin/x", "arguments": ["z"]}, "arch=arm64": {}},
        }],
    })
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!([[{"a": []}]])),
        Just(serde_json::json!({"file": 3})),
    ]
}

/// All places of a document.
fn collect_pointers(value: &Value, at: String, found: &mut Vec<String>) {
    found.push(at.clone());
    match value {
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, item)| collect_pointers(item, format!("{at}/{i}"), found));
        }
        Value::Object(items) => {
            for (key, item) in items {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect_pointers(item, format!("{at}/{key}"), found);
            }
        }
        _ => {}
    }
}

fn check_reply(reply: &TestReply) {
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    if reply.status == 201 {
        return;
    }
    assert!(
        (400..500).contains(&reply.status),
        "{} {text}",
        reply.status
    );
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json")
    );
    let problem: Problem = reply.json();
    assert_eq!(problem.status, reply.status);
    assert!(!problem.detail.is_empty());
}

#[test]
fn the_whole_document_is_accepted() {
    assert_eq!(
        TestServer::start()
            .submit(&full_document().to_string())
            .status,
        201
    );
}

#[test]
fn a_document_with_one_value_replaced_is_taken_or_refused_with_a_problem() {
    let served = TestServer::start();
    let mut all = Vec::new();
    collect_pointers(&full_document(), String::new(), &mut all);
    let strategy = (0..all.len(), odd_value(), any::<bool>());
    proptest!(ProptestConfig::with_cases(600), |((at, value, in_array) in strategy)| {
        let mut document = full_document();
        *document.pointer_mut(&all[at]).unwrap() = value;
        let body = if in_array { format!("[{document}]") } else { document.to_string() };
        check_reply(&served.submit(&body));
    });
}

#[test]
fn a_document_with_a_key_less_or_more_is_taken_or_refused_with_a_problem() {
    let served = TestServer::start();
    let mut all = Vec::new();
    collect_pointers(&full_document(), String::new(), &mut all);
    let strategy = (0..all.len(), any::<String>(), any::<bool>());
    proptest!(ProptestConfig::with_cases(300), |((at, key, remove) in strategy)| {
        let mut document = full_document();
        if let Some(object) = document.pointer_mut(&all[at]).unwrap().as_object_mut() {
            if remove { drop(object.keys().next().cloned().and_then(|key| object.remove(&key))) } else { drop(object.insert(key, Value::Null)) }
        }
        check_reply(&served.submit(&document.to_string()));
    });
}

#[test]
fn bytes_damaged_anywhere_are_accepted_or_refused_with_a_problem() {
    let served = TestServer::start();
    let text = full_document().to_string().into_bytes();
    let strategy = (
        0..text.len(),
        0usize..8,
        proptest::collection::vec(any::<u8>(), 0..4),
    );
    proptest!(ProptestConfig::with_cases(600), |((at, cut, put) in strategy)| {
        let mut bytes = text.clone();
        bytes.splice(at..(at + cut).min(text.len()), put);
        check_reply(&served.send("POST", "/v1/jobs", Some(&bytes)));
    });
}

#[test]
fn any_path_and_parameter_gets_an_answer() {
    let served = TestServer::start();
    let strategy = (
        prop_oneof![Just("GET"), Just("DELETE"), Just("POST")],
        prop_oneof![
            Just("/v1/jobs/"),
            Just("/v1/jobs?"),
            Just("/v1/files/"),
            Just("/v1/sites/"),
            Just("/"),
            Just("/v1/jobs/1/logs/"),
            Just("/v1/jobs/1/outputs/a/"),
            Just("/v1/files?after="),
            Just("/v1/jobs?state="),
        ],
        "[a-z0-9%/?&=._~:-]{0,40}",
    );
    served.submit_many(1);
    proptest!(ProptestConfig::with_cases(400), |((method, start, rest) in strategy)| {
        let path = format!("{start}{rest}");
        if path.parse::<ureq::http::Uri>().is_ok() && !path.contains("/events") {
            let reply = served.send(method, &path, None);
            prop_assert!(reply.status < 500, "{method} {path}: {}", reply.status);
        }
    });
}
