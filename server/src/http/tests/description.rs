//! The OpenAPI document, as a reader sees it who knows nothing else.

use std::collections::BTreeSet;

use super::*;

fn parsed_document() -> Value {
    serde_json::from_str(&crate::http::openapi_document()).unwrap()
}

/// Every operation, by its path and method.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap().iter();
        item.map(move |(method, operation)| (path.clone(), method.to_uppercase(), operation))
    });
    each.collect()
}

#[test]
fn every_answer_is_described_with_the_problems_that_it_may_be() {
    let document = parsed_document();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let answers = operation["responses"].as_object().unwrap();
        for (status, answer) in answers {
            let text = answer["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{method} {path} {status}");
        }
        let open = operation["security"] == serde_json::json!([{}]);
        assert_eq!(answers.contains_key("401"), !open, "{method} {path}");
        assert!(
            answers.contains_key("4XX") && answers.contains_key("5XX"),
            "{method} {path}"
        );
        assert!(
            ids.insert(operation["operationId"].to_string()),
            "{method} {path}"
        );
    }
}

#[test]
fn one_job_or_several_are_sent_and_a_dry_run_is_told_apart() {
    let document = parsed_document();
    let submit = &document["paths"]["/v1/jobs"]["post"];
    let refers = |part: &Value| part["content"]["application/json"]["schema"]["$ref"].clone();
    let choices = |reference: Value| {
        let name = reference
            .as_str()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        document["components"]["schemas"][name]["oneOf"].to_string()
    };
    let sent = choices(refers(&submit["requestBody"]));
    assert!(
        sent.contains("array") && sent.matches("JobDocument").count() == 2,
        "{sent}"
    );
    let answered = choices(refers(&submit["responses"]["200"]));
    assert!(answered.contains("SubmittedReport") && answered.contains("CheckedReport"));
}

#[test]
fn every_parameter_has_bounds_that_hold() {
    let served = TestServer::start();
    let document = parsed_document();
    let limit = |path: &str| {
        let all = document["paths"][path]["get"]["parameters"]
            .as_array()
            .unwrap();
        all.iter()
            .find(|parameter| parameter["name"] == "limit")
            .unwrap()["schema"]
            .clone()
    };
    for path in ["/v1/jobs", "/v1/accounts", "/v1/files"] {
        let schema = limit(path);
        let least = schema["minimum"].as_u64().unwrap();
        let most = &schema["maximum"];
        let most = most.as_u64().unwrap();
        for given in [least, most] {
            assert_eq!(served.get(&format!("{path}?limit={given}")).status, 200);
        }
        for given in [least - 1, most + 1] {
            let problem = served
                .get(&format!("{path}?limit={given}"))
                .problem(400, "C1002");
            assert_eq!(problem.key.as_deref(), Some("limit"), "{path} {given}");
        }
    }
    let text = document.to_string();
    assert!(
        !text.contains("\"int32\""),
        "a number without a sign goes beyond it"
    );
    served
        .get("/v1/jobs?group=9223372036854775808")
        .problem(400, "C1002");
}

#[test]
fn no_parameter_is_described_as_null() {
    let document = parsed_document();
    for (path, method, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let schema = parameter["schema"].to_string();
            assert!(!schema.contains("null"), "{method} {path}: {schema}");
        }
    }
}

#[test]
fn the_document_is_served_to_whoever_has_no_key() {
    let served = TestServer::start();
    let reply = served.send_with("GET", "/v1/openapi.json", None, &[]);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json::<Value>(), parsed_document());
}

#[test]
fn the_book_lists_every_address() {
    let book = include_str!("../../../../docs/src/reference/http.md");
    let at = book.find("## Addresses").unwrap();
    let listed = &book[at..at + book[at..].find("## Submitting").unwrap()];
    for (path, method, _) in operations(&parsed_document()) {
        let tail = path.rsplit_once(['/', ':']).unwrap().1;
        let is_there = listed.lines().any(|line| {
            line.contains(&format!("`{method} {path}`"))
                || (line.contains(&format!("`{method} "))
                    && [
                        format!("`{path}`"),
                        format!("`/{tail}`"),
                        format!("`:{tail}`"),
                    ]
                    .iter()
                    .any(|short| line.contains(short)))
        });
        assert!(is_there, "{method} {path}");
    }
}

#[test]
fn a_wrong_parameter_or_method_is_named_with_what_would_be_right() {
    let served = TestServer::start();
    let problem = served.get("/v1/jobs?limti=5").problem(400, "C1002");
    assert_eq!(problem.key.as_deref(), Some("limti"));
    assert_eq!(problem.remedy.as_deref(), Some("did you mean `limit`?"));
    for (query, name) in [("limit=x", "limit"), ("state=running&site=-", "site")] {
        let problem = served
            .get(&format!("/v1/jobs?{query}"))
            .problem(400, "C1002");
        assert_eq!(problem.key.as_deref(), Some(name));
    }
    let reply = served.send("PUT", "/v1/jobs", None);
    assert_eq!(reply.header("allow"), Some("GET, POST"));
    let problem = served.get("/v1/sties").problem(404, "C3002");
    assert_eq!(problem.remedy.as_deref(), Some("did you mean /v1/sites?"));
    let problem = served
        .post("/v1/sites/delft/drian", "")
        .problem(404, "C3002");
    assert_eq!(
        problem.remedy.as_deref(),
        Some("did you mean /v1/sites/delft/drain?")
    );
}

#[test]
fn numbers_and_instants_are_read_in_all_the_ways_that_json_has() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    let cancel = served.post("/v1/jobs:cancel", r#"{"ids":[1.0]}"#);
    assert_eq!(cancel.status, 200);
    for from in [
        "0650-01-30T08:10:55.2Z",
        "2026-01-01T00:00:00+01:00",
        "2026-01-01 00:00:00",
    ] {
        let end = serde_json::json!({ "from": from }).to_string();
        assert_eq!(
            served.post("/v1/sites/delft/end-maintenance", &end).status,
            200,
            "{from}"
        );
    }
    let asked = served.fake.asked.lock().unwrap().join("\n");
    assert!(
        asked.contains("1767222000000") && asked.contains("Timestamp(0)"),
        "{asked}"
    );
}

/// Bodies in which every number stands that a body can have, each written as `1.0`.
fn bodies_with_fractions() -> Vec<(&'static str, Value)> {
    use serde_json::json;
    let file = json!({ "file": "mesh", "digest": "0".repeat(64), "size_bytes": 1.0 });
    let component = json!({
        "name": "a", "processors": 1.0, "nodes": 1.0, "tasks_per_node": 1.0, "gpus": 1.0, "gflops": 1.0, "resources": { "licence": 1.0 },
        "executable": file, "input": [file],
    });
    let run = |more: Value| {
        let mut job = job_document();
        job.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        job
    };
    let tries = json!({ "max_retries": 1.0, "max_claim_tries": 1.0, "max_placement_tries": 1.0 });
    let flexible = json!({
        "request": "flexible", "component": [component],
        "flexible": {
            "min_component_size": 1.0, "max_components": 1.0, "splits": [[1.0]], "overhead": 1.0,
            "shape": [{ "processors": 2.0, "run_time": "1s" }],
        },
    });
    let sweep = json!({ "sweep": { "grid": { "x": [1] }, "at_once": 1.0 } });
    let shared = json!({ "name": "course", "site": "delft", "for": "1h", "processors": 1.0,
        "also": [{ "site": "leiden", "processors": 1.0 }] });
    let upload = json!({ "name": "mesh", "digest": "0".repeat(64), "size_bytes": 1.0 });
    vec![
        ("/v1/jobs", json!([run(tries), run(flexible), run(sweep)])),
        ("/v1/jobs:cancel", json!({ "ids": [1.0] })),
        ("/v1/jobs:cancel", json!({ "group": 1.0, "after": 1.0 })),
        ("/v1/shared-reservations", shared),
        ("/v1/uploads", upload),
        (
            "/v1/chaos",
            json!({ "for": "1s", "seed": 1.0, "inject": [] }),
        ),
    ]
}

/// The keys below a schema that hold whole numbers.
fn keys_of_numbers(document: &Value, schema: &Value, key: &str, to: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|path| path.rsplit('/').next())
    {
        // No schema holds itself.
        return keys_of_numbers(document, &document["components"]["schemas"][name], key, to);
    }
    if schema["type"].to_string().contains("\"integer\"") {
        to.insert(key.to_owned());
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        keys_of_numbers(document, property, name, to);
    }
    let choices = ["oneOf", "anyOf", "allOf"].map(|word| schema[word].as_array());
    let within = ["items", "additionalProperties"].map(|word| &schema[word]);
    let within = within.into_iter().filter(|inner| inner.is_object());
    for inner in choices.into_iter().flatten().flatten().chain(within) {
        keys_of_numbers(document, inner, key, to);
    }
}

#[test]
fn every_whole_number_of_a_body_may_be_written_with_a_fraction_of_zero() {
    let served = TestServer::start();
    let document = parsed_document();
    let mut keys = BTreeSet::new();
    for (_, _, operation) in operations(&document) {
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        keys_of_numbers(&document, body, "", &mut keys);
    }
    let bodies = bodies_with_fractions();
    for key in keys {
        let is_tried = bodies
            .iter()
            .any(|(_, body)| body.to_string().contains(&format!("\"{key}\":")));
        assert!(is_tried, "{key} is in no body");
    }
    for (path, body) in bodies {
        let reply = served.post(path, &body.to_string());
        assert_ne!(
            reply.status,
            400,
            "{path} {body}: {}",
            String::from_utf8_lossy(&reply.body)
        );
    }
}
