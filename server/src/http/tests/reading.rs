//! Logs and outputs.

use std::io::Read;
use std::sync::atomic::Ordering;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId, LrmId};
use cospan_domain::job::job_state::{AttemptEnding, AttemptState, Component, JobPhase};
use cospan_domain::units::Timestamp;

use super::*;
use cospan_api::v1::tree::{TreeEntry, TreeReport};

fn running_attempt() -> AttemptState {
    AttemptState::Running {
        lrm_id: LrmId::new("1").unwrap(),
        host: "node".into(),
        since: Timestamp(1),
    }
}

fn submit_with_attempt(served: &TestServer, run: AttemptState) {
    served.submit(&job_document().to_string());
    begin_attempt(served, run);
}

fn begin_attempt(served: &TestServer, run: AttemptState) {
    served.fake.change_job(1, |job| {
        let component = || Component {
            attempt: Attempt(1),
            run: run.clone(),
            ..Default::default()
        };
        job.components = vec![component(), component()];
    });
}

fn put_content(served: &TestServer, file: &str, text: &[u8]) {
    let key = (JobId(1), ComponentIndex(1), file.to_owned());
    served
        .fake
        .contents
        .lock()
        .unwrap()
        .entry(key)
        .or_default()
        .extend_from_slice(text);
}

#[test]
fn a_piece_of_a_log_is_read_with_its_place_in_the_whole() {
    let served = TestServer::start();
    submit_with_attempt(&served, running_attempt());
    put_content(&served, "stdout", b"hello world");
    let reply = served.get("/v1/jobs/1/logs/b/stdout?offset=6&limit=3");
    assert_eq!(reply.body, b"wor");
    assert_eq!(reply.header("cospan-size"), Some("11"));
    assert_eq!(reply.header("cospan-offset"), Some("6"));
    assert_eq!(reply.header("cospan-attempt"), Some("1"));
    assert_eq!(served.get("/v1/jobs/1/logs/b/stdout?offset=99").body, b"");
}

#[test]
fn what_does_not_exist_cannot_be_read() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    served.get("/v1/jobs/1/logs/b/stdout").problem(404, "C3001");
    submit_with_attempt(&served, running_attempt());
    served.get("/v1/jobs/1/logs/b/stdout").problem(404, "C3001");
    let problem = served
        .get("/v1/jobs/1/logs/bb/stdout")
        .problem(404, "C3001");
    assert_eq!(problem.remedy.as_deref(), Some("did you mean \"b\"?"));
    served.get("/v1/jobs/1/logs/b/stdlog").problem(404, "C3001");
    served
        .get("/v1/jobs/1/logs/b/stdout?attempt=2")
        .problem(404, "C3001");
    served
        .get("/v1/jobs/1/logs/b/stdout?attempt=0")
        .problem(404, "C3001");
    served
        .get("/v1/jobs/1/logs/b/stdout?limit=0")
        .problem(400, "C1002");
    served
        .get("/v1/jobs/1/logs/b/stdout?offset=-1")
        .problem(400, "C1002");
    served
        .get("/v1/jobs/1/outputs/b/none")
        .problem(404, "C3001");
    served
        .get("/v1/jobs/1/outputs/b/..%2F..%2Fetc%2Fpasswd")
        .problem(400, "C1002");
    served
        .get("/v1/jobs/1/outputs/b/%2Fetc%2Fpasswd")
        .problem(400, "C1002");
}

#[test]
fn an_output_of_many_pieces_arrives_whole_with_its_length() {
    let served = TestServer::start();
    submit_with_attempt(&served, running_attempt());
    let text: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    put_content(&served, "d/result.dat", &text);
    let reply = served.get("/v1/jobs/1/outputs/b/d/result.dat");
    assert_eq!(reply.header("content-length"), Some("4000000"));
    assert!(reply.body == text);
    let reply = served.get("/v1/jobs/1/outputs/b/d/result.dat?offset=3999998&limit=10");
    assert_eq!(reply.body, text[3_999_998..]);
    let reply = served.get("/v1/jobs/1/outputs/b/d/result.dat?offset=5&limit=300000");
    assert_eq!(reply.body, text[5..300_005]);
    put_content(&served, "empty", b"");
    assert_eq!(served.get("/v1/jobs/1/outputs/b/empty").body, b"");
}

#[test]
fn an_archived_job_is_looked_up_once_however_many_pieces_are_read() {
    let served = TestServer::start();
    submit_with_attempt(
        &served,
        AttemptState::Ended {
            how: AttemptEnding::Succeeded,
            at: Timestamp(2),
        },
    );
    served
        .fake
        .change_job(1, |job| job.phase = JobPhase::Finished { at: Timestamp(2) });
    let archived = served
        .fake
        .view
        .lock()
        .unwrap()
        .jobs
        .remove(&JobId(1))
        .unwrap();
    served
        .fake
        .archive
        .lock()
        .unwrap()
        .insert(JobId(1), archived);
    let text = vec![b'a'; 1_000_000];
    for (path, file) in [
        ("logs/b/stdout?follow=true", "stdout"),
        ("outputs/b/out", "out"),
    ] {
        put_content(&served, file, &text);
        served.fake.archive_reads.store(0, Ordering::SeqCst);
        assert!(
            served.get(&format!("/v1/jobs/1/{path}")).body == text,
            "{path}"
        );
        assert_eq!(
            served.fake.archive_reads.load(Ordering::SeqCst),
            1,
            "{path}"
        );
    }
}

#[test]
fn a_directory_is_listed_and_told_from_what_was_never_left() {
    let served = TestServer::start();
    submit_with_attempt(&served, running_attempt());
    put_content(&served, "out/a", b"12");
    put_content(&served, "out/b", b"");
    let listed: TreeReport = served.get("/v1/jobs/1/trees/b/out").json();
    let file = |path: &str, size_bytes| TreeEntry::File {
        path: path.to_owned(),
        size_bytes,
        executable: false,
    };
    assert_eq!(listed.entries, [file("a", 2), file("b", 0)]);
    let problem = served.get("/v1/jobs/1/outputs/b/out").problem(404, "C3001");
    assert!(
        problem
            .detail
            .ends_with("output out of component b of job 1 is a directory"),
        "{problem}"
    );
    let problem = served.get("/v1/jobs/1/trees/b/out/a").problem(404, "C3001");
    assert!(
        problem
            .detail
            .ends_with("output out/a of job 1 is no directory"),
        "{problem}"
    );
    let problem = served.get("/v1/jobs/1/trees/b/none").problem(404, "C3001");
    assert!(problem.detail.contains("left no none"), "{problem}");
    served
        .get("/v1/jobs/1/trees/b/..%2F..")
        .problem(400, "C1002");
}

#[test]
fn a_followed_log_waits_for_the_attempt_and_ends_with_it() {
    let served = TestServer::start();
    served.submit(&job_document().to_string());
    let mut response = ureq::get(served.url("/v1/jobs/1/logs/b/stdout?follow=true"))
        .header("Authorization", format!("Bearer {}", served.token))
        .call()
        .unwrap();
    let mut reader = response.body_mut().as_reader();
    begin_attempt(&served, running_attempt());
    put_content(&served, "stdout", b"first ");
    let mut first = [0; 6];
    reader.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"first ");
    put_content(&served, "stdout", b"second");
    begin_attempt(
        &served,
        AttemptState::Ended {
            how: AttemptEnding::Succeeded,
            at: Timestamp(2),
        },
    );
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "second");
}

#[test]
fn a_stop_ends_followed_logs() {
    let mut served = TestServer::start_with(|settings| settings.stop_timeout = 2 * GENEROUS);
    submit_with_attempt(&served, running_attempt());
    put_content(&served, "stdout", b"x");
    let mut response = ureq::get(served.url("/v1/jobs/1/logs/b/stdout?follow=true"))
        .header("Authorization", format!("Bearer {}", served.token))
        .call()
        .unwrap();
    let mut reader = response.body_mut().as_reader();
    let mut first = [0; 1];
    reader.read_exact(&mut first).unwrap();
    let begun = std::time::Instant::now();
    served.stop();
    assert!(
        begun.elapsed() < GENEROUS,
        "the open stream held up the stop"
    );
}
