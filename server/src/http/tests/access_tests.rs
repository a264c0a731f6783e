//! Every address asked as every role, about what is one's own and what is another's.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::{Attempt, ComponentIndex, JobId, LrmId};
use cospan_domain::job::job_state::{AttemptState, Component, TermsChange};
use cospan_domain::reservation::StartWindow;
use cospan_domain::units::Timestamp;

use super::*;
use crate::http::access::{AccessNeed, AccessRule, RULES};
use crate::keys::Role;
use cospan_api::v1::commands::{OrderReport, OutcomeName};
use cospan_api::v1::event::ChangeReport;
use cospan_api::v1::file::{FilePage, FileReport};
use cospan_api::v1::job::JobPage;
use cospan_api::v1::upload::UploadReport;

/// In everything that is of the job and the file of a key.
fn mark_of(owner: &str) -> String {
    format!("mark-of-{owner}")
}

fn file_of(owner: &str) -> String {
    format!("data/{}", mark_of(owner))
}

/// Gives a key a job that runs and has printed and left something.
fn give_job(served: &TestServer, token: &str, owner: &str) -> u64 {
    let mut document = named_job_document(&mark_of(owner));
    document["component"][0]["environment"] = serde_json::json!({ "SECRET": mark_of(owner) });
    let id = served.submit_as(token, &document.to_string());
    served.fake.change_job(id, |job| {
        let run = AttemptState::Running {
            lrm_id: LrmId::new("1").unwrap(),
            host: "node".into(),
            since: Timestamp(1),
        };
        let component = || Component {
            attempt: Attempt(1),
            run: run.clone(),
            ..Component::default()
        };
        job.components = vec![component(), component()];
        let window = StartWindow::single_start(Timestamp(1));
        let wish = ReservationTerms {
            window,
            ..ReservationTerms::default()
        };
        job.wish = TermsChange::Changed(wish);
    });
    for file in [
        "stdout".to_owned(),
        "out".to_owned(),
        format!("tree/{}", mark_of(owner)),
    ] {
        let key = (JobId(id), ComponentIndex(0), file);
        served
            .fake
            .contents
            .lock()
            .unwrap()
            .insert(key, mark_of(owner).into_bytes());
    }
    id
}

/// Uploads that a key has begun, of no bytes: one for each method of the address of an upload.
fn give_uploads(
    served: &TestServer,
    token: &str,
    owner: &str,
    round: usize,
) -> BTreeMap<&'static str, String> {
    let of_one = RULES
        .iter()
        .filter(|rule| rule.path.starts_with("/v1/uploads/{id}"));
    let begun = of_one.map(|rule| {
        let announced = serde_json::json!({
            "name": format!("{}/{round}/{}", file_of(owner), rule.method),
            "size_bytes": 0,
            "digest": blake3::hash(b"").to_hex().to_string(),
            "site": "delft",
        });
        let reply = served.send_as(token, "POST", "/v1/uploads", Some(&announced.to_string()));
        assert_eq!(
            reply.status,
            201,
            "{}",
            String::from_utf8_lossy(&reply.body)
        );
        (rule.method, reply.json::<UploadReport>().id.unwrap())
    });
    begun.collect()
}

fn give_file(served: &TestServer, owner: &str) {
    let report = FileReport {
        name: file_of(owner),
        owner: owner.into(),
        digest: "00".repeat(32),
        size_bytes: 5,
        replicas: Vec::new(),
    };
    served
        .fake
        .files
        .lock()
        .unwrap()
        .insert(file_of(owner).parse().unwrap(), report);
}

/// A request to an address about the job, the file and the uploads of a key.
fn example_request(
    rule: &AccessRule,
    job: u64,
    uploads: &BTreeMap<&'static str, String>,
    owner: &str,
) -> (String, Option<String>) {
    let upload = uploads.get(rule.method).map_or("", String::as_str);
    let path = rule
        .path
        .replace("/uploads/{id}", &format!("/uploads/{upload}"))
        .replace("/files/{name}", &format!("/files/{}", file_of(owner)))
        .replace("{id}", &job.to_string())
        .replace("{stream}", "stdout")
        .replace("/trees/{component}/{path}", "/trees/{component}/tree")
        .replace("{component}", "a")
        .replace("{path}", "out")
        .replace("{name}", "delft")
        .replace("/v1/slots", "/v1/slots?processors=1&for=1h");
    let path = if rule.method == "PATCH" {
        format!("{path}?offset=0")
    } else {
        path
    };
    let body = match (rule.method, rule.path) {
        ("POST", "/v1/jobs") => {
            let mut job = named_job_document("reads");
            job["component"][0]["input"] = serde_json::json!([{ "file": file_of(owner) }]);
            Some(job.to_string())
        }
        ("POST", "/v1/jobs:priority") => Some(format!(r#"{{"ids":[{job}],"priority":"low"}}"#)),
        ("POST", path) if path.starts_with("/v1/jobs:") => Some(format!(r#"{{"ids":[{job}]}}"#)),
        ("POST", "/v1/files") => {
            let file = serde_json::json!({
                "name": file_of(owner), "site": "delft", "path": "x", "replace": true
            });
            Some(file.to_string())
        }
        ("POST", "/v1/uploads") => {
            let file = serde_json::json!({
                "name": file_of(owner), "size_bytes": 5, "digest": "11".repeat(32), "replace": true
            });
            Some(file.to_string())
        }
        ("POST", path) if path.ends_with("maintenance") || path.ends_with("/force") => {
            let mut body = serde_json::json!({ "from": "2026-01-01T00:00:00Z" });
            if path.ends_with("/maintenance") {
                body["until"] = "2026-01-02T00:00:00Z".into();
            }
            if path.ends_with("/force") {
                body = serde_json::json!({ "usable": true, "until": "2026-01-02T00:00:00Z" });
            }
            Some(body.to_string())
        }
        ("POST", path) if path.ends_with("/move") => {
            Some(r#"{"earliest":"2026-11-27T09:00:00Z"}"#.into())
        }
        ("POST", "/v1/shared-reservations") => {
            Some(r#"{"name":"course","site":"delft","processors":1,"for":"1h"}"#.into())
        }
        ("POST", path) if path.ends_with("/allow") => Some(r#"{"everybody":true}"#.into()),
        ("POST", path) if path.ends_with("/extend") => Some(r#"{"for":"1h"}"#.into()),
        ("POST" | "PATCH", _) => Some(String::new()),
        _ => None,
    };
    (path, body)
}

/// What the table says of a request.
#[derive(Debug, PartialEq, Eq)]
enum ExpectedAccess {
    /// The role that is missing.
    Missing(Role),
    /// Another's: as if it were not there.
    Hidden,
    /// Another's, of which no more is seen than a row.
    Anothers,
    Allowed,
}

fn expected_access(rule: &AccessRule, roles: &[Role], is_own: bool) -> ExpectedAccess {
    let rank = roles.iter().filter(|role| role.is_rank()).max();
    let has = |role: Role| roles.contains(&role) || (role.is_rank() && rank >= Some(&role));
    match (rule.needs, rule.others) {
        (AccessNeed::Role(role), _) if !has(role) => ExpectedAccess::Missing(role),
        (_, Some(others)) if !is_own && !has(others) => {
            let is_rowless = rule.path == "/v1/files" || rule.path.starts_with("/v1/uploads");
            let seen = has(Role::Operator) && !is_rowless;
            if seen {
                ExpectedAccess::Anothers
            } else {
                ExpectedAccess::Hidden
            }
        }
        // A job may name only files that its key sees.
        _ if rule.path == "/v1/jobs"
            && rule.method == "POST"
            && !is_own
            && !has(Role::Operator) =>
        {
            ExpectedAccess::Hidden
        }
        _ => ExpectedAccess::Allowed,
    }
}

fn check_reply(
    reply: &TestReply,
    said: &ExpectedAccess,
    (rule, path): (&AccessRule, &str),
    asked: &[String],
    owner: &str,
) {
    let text = String::from_utf8_lossy(&reply.body);
    let place = format!("{} {path}: {said:?}: {} {text}", rule.method, reply.status);
    match said {
        ExpectedAccess::Missing(role) => {
            let problem = reply.problem(403, "C2002");
            assert_eq!(problem.role.as_deref(), Some(role.as_str()), "{place}");
            assert!(problem.remedy.unwrap().contains(role.as_str()), "{place}");
            assert!(asked.is_empty(), "{place}: {asked:?}");
        }
        ExpectedAccess::Hidden | ExpectedAccess::Anothers => {
            // What was asked for may be repeated; nothing else of it is.
            let told = text.replace(&file_of(owner), "");
            assert!(
                !told.contains(&mark_of(owner)) && !told.contains(owner),
                "{place}"
            );
            check_refusal(reply, said, rule, &place);
            assert!(asked.is_empty(), "{place}: {asked:?}");
        }
        // Nothing is injected here, whoever may.
        ExpectedAccess::Allowed if rule.path.starts_with("/v1/chaos") => {
            assert!(
                matches!(reply.status, 200 | 400)
                    || text.contains("C2004")
                    || text.contains("C3001"),
                "{place}"
            );
        }
        // The job has not ended, whoever may run it again.
        ExpectedAccess::Allowed if rule.path == "/v1/jobs:rerun" => {
            assert!(text.contains("C4002"), "{place}");
        }
        // Nobody reserved anything that is shared, whoever may look.
        ExpectedAccess::Allowed if rule.path.starts_with("/v1/shared-reservations") => {
            assert!(
                matches!(reply.status, 200 | 201) || text.contains("C3001"),
                "{place}"
            );
        }
        ExpectedAccess::Allowed => assert!(matches!(reply.status, 200 | 201), "{place}"),
    }
}

fn check_refusal(reply: &TestReply, said: &ExpectedAccess, rule: &AccessRule, place: &str) {
    let is_order = rule.path.starts_with("/v1/jobs:") && rule.path != "/v1/jobs:rerun";
    let is_list = rule.method == "GET" && !rule.path.contains('{');
    let is_hidden = *said == ExpectedAccess::Hidden;
    match rule.path {
        _ if is_order => {
            let outcome = reply.json::<OrderReport>().jobs[0].outcome;
            let said = if is_hidden {
                OutcomeName::NotFound
            } else {
                OutcomeName::Refused
            };
            assert_eq!(outcome, said, "{place}");
        }
        _ if is_list => assert_eq!(reply.status, 200, "{place}"),
        "/v1/files" | "/v1/uploads" => drop(reply.problem(409, "C4002")),
        "/v1/jobs" => drop(reply.problem(422, "C1104")),
        _ if is_hidden => drop(reply.problem(404, "C3001")),
        _ => {
            let problem = reply.problem(403, "C2002");
            assert_eq!(problem.role.as_deref(), Some("administrator"), "{place}");
        }
    }
}

#[test]
fn every_address_answers_every_role_as_the_table_allows_and_no_more() {
    let served = TestServer::start();
    let somebody = served.create_key("somebody", &[Role::User]);
    let theirs = give_job(&served, &somebody, "somebody");
    let kinds: [&[Role]; 5] = [
        &[Role::Reader],
        &[Role::User],
        &[Role::Operator],
        &[Role::Administrator],
        &[Role::User, Role::Chaos],
    ];
    let mut count = 0;
    for (at, roles) in kinds.into_iter().enumerate() {
        let name = format!("key{at}");
        let token = served.create_key(&name, &[Role::User]);
        let own = give_job(&served, &token, &name);
        let own = (own, give_uploads(&served, &token, &name, at));
        let theirs = (theirs, give_uploads(&served, &somebody, "somebody", at));
        served.change_roles(&name, roles);
        for rule in RULES.iter().filter(|rule| rule.path != "/v1/events") {
            for (owner, (job, uploads)) in [(name.as_str(), &own), ("somebody", &theirs)] {
                give_file(&served, &name);
                give_file(&served, "somebody");
                served.fake.asked.lock().unwrap().clear();
                let (path, body) = example_request(rule, *job, uploads, owner);
                let reply = served.send_as(&token, rule.method, &path, body.as_deref());
                let asked = served.fake.asked.lock().unwrap().clone();
                let said = expected_access(rule, roles, owner == name);
                check_reply(&reply, &said, (rule, &path), &asked, owner);
                count += 1;
            }
        }
    }
    assert_eq!(count, 2 * kinds.len() * (RULES.len() - 1));
}

#[test]
fn the_table_has_every_address_of_the_document_and_no_other() {
    let served = TestServer::start();
    let document: Value = served.get("/v1/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let listed = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(move |method| (method.to_uppercase(), path.clone()))
    });
    let table = RULES
        .iter()
        .map(|rule| (rule.method.to_owned(), rule.path.to_owned()));
    assert_eq!(
        listed.collect::<BTreeSet<_>>(),
        table.collect::<BTreeSet<_>>()
    );
}

#[test]
fn an_address_in_other_letters_is_judged_as_the_router_reads_it() {
    let served = TestServer::start();
    let reader = served.create_key("looks", &[Role::Reader]);
    for path in ["/v1/store/%65xport", "/v1/%73tore/export"] {
        served
            .send_as(&reader, "GET", path, None)
            .problem(403, "C2002");
    }
    for path in [
        "/v1/store/export/",
        "//v1/store/export",
        "/v1//store/export",
        "/v1/STORE/export",
    ] {
        served
            .send_as(&reader, "GET", path, None)
            .problem(404, "C3002");
    }
}

#[test]
fn lists_and_selections_hold_what_the_key_reaches_only() {
    let served = TestServer::start();
    let alice = served.create_key("alice", &[Role::User]);
    let bob = served.create_key("bob", &[Role::User]);
    give_job(&served, &alice, "alice");
    let own = give_job(&served, &bob, "bob");
    let ids = |token: &str, query: &str| -> Vec<u64> {
        let reply = served.send_as(token, "GET", &format!("/v1/jobs{query}"), None);
        reply
            .json::<JobPage>()
            .jobs
            .iter()
            .map(|job| job.id)
            .collect()
    };
    assert_eq!(ids(&bob, ""), [own]);
    assert_eq!(ids(&bob, "?newest=true&name=mark"), [own]);
    assert!(ids(&bob, "?owner=alice").is_empty());
    assert_eq!(ids(&served.token, "").len(), 2);
    let cancel = r#"{"all":true}"#;
    let report: OrderReport = served
        .send_as(&bob, "POST", "/v1/jobs:cancel", Some(cancel))
        .json();
    assert_eq!(
        report.jobs.iter().map(|job| job.id).collect::<Vec<_>>(),
        [own]
    );
    let both = r#"{"ids":[1,2]}"#;
    let report: OrderReport = served
        .send_as(&bob, "POST", "/v1/jobs:freeze", Some(both))
        .json();
    let outcomes: Vec<_> = report
        .jobs
        .iter()
        .map(|job| (job.id, job.outcome))
        .collect();
    assert_eq!(
        outcomes,
        [(1, OutcomeName::NotFound), (2, OutcomeName::Done)]
    );
}

#[test]
fn what_an_operator_registered_is_everybodys_to_read_and_nobodys_to_change() {
    let served = TestServer::start();
    let bob = served.create_key("bob", &[Role::User]);
    let root = served.create_key("root", &[Role::Operator]);
    give_file(&served, "root");
    give_file(&served, "bob");
    let address = format!("/v1/files/{}", file_of("root"));
    let page: FilePage = served.send_as(&bob, "GET", "/v1/files", None).json();
    assert_eq!(page.files.len(), 2);
    assert_eq!(served.send_as(&bob, "GET", &address, None).status, 200);
    let problem = served
        .send_as(&bob, "DELETE", &address, None)
        .problem(403, "C2002");
    assert_eq!(problem.role.as_deref(), Some("administrator"));
    assert_eq!(served.send_as(&root, "DELETE", &address, None).status, 200);
}

#[test]
fn an_output_never_takes_the_name_of_another_keys_file() {
    let served = TestServer::start();
    give_file(&served, "alice");
    let mut job = job_document();
    job["component"][0]["output"] = serde_json::json!([
        { "path": "out", "site": "delft", "register": file_of("alice") }
    ]);
    for role in [Role::User, Role::Operator, Role::Administrator] {
        let key = served.create_key(role.as_str(), &[role]);
        let reply = served.send_as(&key, "POST", "/v1/jobs", Some(&job.to_string()));
        reply.problem(409, "C4002");
    }
    assert!(served.fake.view.lock().unwrap().jobs.is_empty());
}

#[test]
fn only_what_administrators_ask_of_the_catalogue_reaches_others_files() {
    let served = TestServer::start();
    for role in [Role::User, Role::Operator, Role::Administrator] {
        let key = served.create_key(role.as_str(), &[role]);
        give_file(&served, role.as_str());
        let file = file_of(role.as_str());
        let body = serde_json::json!({ "name": file, "site": "delft", "path": "x" }).to_string();
        assert_eq!(
            served
                .send_as(&key, "POST", "/v1/files", Some(&body))
                .status,
            201
        );
        let address = format!("/v1/files/{file}");
        assert_eq!(served.send_as(&key, "DELETE", &address, None).status, 200);
        let asked = std::mem::take(&mut *served.fake.asked.lock().unwrap());
        let reaches = format!("reaches_all: {}", role == Role::Administrator);
        assert_eq!(asked.len(), 2);
        assert!(
            asked.iter().all(|what| what.contains(&reaches)),
            "{asked:?}"
        );
    }
}

#[test]
fn a_follower_sees_the_changes_of_jobs_that_its_key_reaches() {
    let served = TestServer::start();
    let alice = served.create_key("alice", &[Role::User]);
    let bob = served.create_key("bob", &[Role::Operator]);
    let follow = |token: &str| {
        let request = ureq::get(served.url("/v1/events"));
        let response = request
            .header("Authorization", format!("Bearer {token}"))
            .call()
            .unwrap();
        let mut lines =
            std::io::BufRead::lines(std::io::BufReader::new(response.into_body().into_reader()));
        assert!(lines.next().unwrap().unwrap().starts_with(": hello"));
        lines
    };
    let mut of_bob = follow(&bob);
    let mut of_root = follow(&served.token);
    served.submit_as(&alice, &job_document().to_string());
    served.submit_as(&bob, &job_document().to_string());
    let mut next = |root: bool| {
        let lines = if root { &mut of_root } else { &mut of_bob };
        let line = lines
            .map(Result::unwrap)
            .find(|line| line.starts_with("data: "))
            .unwrap();
        serde_json::from_str::<ChangeReport>(line.trim_start_matches("data: "))
            .unwrap()
            .job
    };
    assert_eq!((next(false), next(true), next(true)), (2, 1, 2));
}
