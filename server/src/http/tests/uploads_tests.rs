//! Uploads that go wrong on their way to a site.

use std::time::Duration;

use cospan_domain::catalogue::file_state::{CatalogueEntry, FileRecord};
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, LogicalName, RelPath};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;

use super::*;
use cospan_api::v1::file::FileReport;
use cospan_api::v1::upload::{UploadPage, UploadReport};

const BYTES: &[u8] = b"a mesh";

fn content_digest() -> Digest {
    Digest(*blake3::hash(BYTES).as_bytes())
}

/// Begins an upload and sends all of it.
fn send_whole_upload(served: &TestServer, token: &str, name: &str) -> String {
    let announced = serde_json::json!({
        "name": name, "size_bytes": BYTES.len(), "digest": content_digest().to_string(),
    });
    let reply = served.send_as(token, "POST", "/v1/uploads", Some(&announced.to_string()));
    let id = reply.json::<UploadReport>().id.unwrap();
    let piece = std::str::from_utf8(BYTES).unwrap();
    let at = format!("/v1/uploads/{id}?offset=0");
    assert_eq!(served.send_as(token, "PATCH", &at, Some(piece)).status, 200);
    id
}

fn complete_upload(served: &TestServer, token: &str, id: &str) -> TestReply {
    served.send_as(
        token,
        "POST",
        &format!("/v1/uploads/{id}/complete"),
        Some(""),
    )
}

fn file_report(owner: &str, name: &str, digest: String) -> FileReport {
    let name = name.into();
    let owner = owner.into();
    FileReport {
        name,
        owner,
        digest,
        size_bytes: 6,
        replicas: Vec::new(),
    }
}

#[test]
fn a_file_that_was_registered_before_a_kill_is_not_written_again() {
    let served = TestServer::start();
    let token = served.create_key("bob", &[Role::User]);
    let id = send_whole_upload(&served, &token, "mesh");
    let place = FilePlace::User(RelPath::new(&format!("uploads/{id}")).unwrap());
    let mut record = FileRecord::new("mesh".parse().unwrap());
    record.entry = Some(CatalogueEntry {
        content: Content {
            digest: content_digest(),
            size: Bytes(6),
        },
        directory: false,
        replicas: vec![("delft".parse().unwrap(), place)],
        registered_at: Timestamp(1),
        registered_by: "bob".parse().unwrap(),
        stamps: Default::default(),
    });
    let name = record.name.clone();
    served
        .fake
        .view
        .lock()
        .unwrap()
        .files
        .insert(name.clone(), Arc::new(record));
    let known = file_report("bob", "mesh", content_digest().to_string());
    served.fake.files.lock().unwrap().insert(name, known);
    assert_eq!(complete_upload(&served, &token, &id).status, 200);
    assert_eq!(*served.fake.asked.lock().unwrap(), Vec::<String>::new());
    assert!(served.fake.uploaded.lock().unwrap().is_empty());
}

#[test]
fn a_name_that_became_anothers_meanwhile_is_not_taken_away() {
    let served = TestServer::start();
    let token = served.create_key("bob", &[Role::User]);
    let id = send_whole_upload(&served, &token, "mesh");
    let name: LogicalName = "mesh".parse().unwrap();
    let theirs = file_report("carol", "mesh", "11".repeat(32));
    served
        .fake
        .files
        .lock()
        .unwrap()
        .insert(name.clone(), theirs.clone());
    complete_upload(&served, &token, &id).problem(409, "C4002");
    assert_eq!(served.fake.files.lock().unwrap().get(&name), Some(&theirs));
}

#[test]
fn what_a_silent_site_kept_of_a_try_is_removed_once_it_answers() {
    let served = TestServer::start_with(|settings| {
        settings.uploads.keep = Duration::from_millis(1);
    });
    let token = served.create_key("bob", &[Role::User]);
    served
        .fake
        .silent
        .lock()
        .unwrap()
        .insert("delft".parse().unwrap());
    let begun = serde_json::json!({
        "name": "mesh", "size_bytes": 0, "digest": blake3::hash(b"").to_hex().to_string(),
    });
    // It may be dropped before it is completed: then it is begun again.
    wait_until("it is brought to another site", || {
        let reply = served.send_as(&token, "POST", "/v1/uploads", Some(&begun.to_string()));
        match reply.json::<UploadReport>().id {
            Some(id) => complete_upload(&served, &token, &id).status == 200,
            None => true,
        }
    });
    let asked = |what: &str| {
        let asked = served.fake.asked.lock().unwrap();
        asked.iter().any(|asked| asked.starts_with(what))
    };
    assert!(asked("upload to leiden: Append"));
    assert!(!asked("upload to delft: Remove"));
    served.fake.silent.lock().unwrap().clear();
    wait_until("it is removed there", || asked("upload to delft: Remove"));
}

#[test]
fn uploads_that_are_not_completed_are_listed_page_by_page() {
    let served = TestServer::start();
    let bob = served.create_key("bob", &[Role::User]);
    let carol = served.create_key("carol", &[Role::User]);
    let ids: Vec<String> = ["a", "b", "c"]
        .map(|name| send_whole_upload(&served, &bob, name))
        .into_iter()
        .collect();
    assert_eq!(complete_upload(&served, &bob, &ids[2]).status, 200);
    let mut open = ids[..2].to_vec();
    open.sort();
    let page = |token: &str, query: &str| -> UploadPage {
        served
            .send_as(token, "GET", &format!("/v1/uploads?{query}"), None)
            .json()
    };
    let first = page(&bob, "limit=1");
    assert_eq!(first.uploads[0].id.as_ref(), Some(&open[0]));
    assert_eq!(
        (first.uploads[0].offset, first.next.as_ref()),
        (6, Some(&open[0]))
    );
    let second = page(&bob, &format!("after={}", open[0]));
    assert_eq!(
        (second.uploads[0].id.as_ref(), second.next),
        (Some(&open[1]), None)
    );
    assert!(page(&carol, "").uploads.is_empty());
    assert_eq!(
        page(&served.token, "").uploads.len(),
        2,
        "administrators see all"
    );
    let given_up = served.send_as(&bob, "DELETE", &format!("/v1/uploads/{}", open[0]), None);
    assert_eq!(given_up.status, 200);
    assert_eq!(page(&bob, "").uploads.len(), 1);
}
