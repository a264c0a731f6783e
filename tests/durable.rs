//! What kill -9 cannot show of the real server: between the write of a job and the answer to
//! its client the store's file was synced, and a disk that is full loses nothing of what was
//! answered. `strace` sees the one, and brings about the other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::print_stdout,
    reason = "what was seen, or skipped, belongs to the result"
)]

#[path = "../storage/tests/crash/watch.rs"]
mod watch;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cospan_chaos_tests::api::{Api, ApiReply};
use cospan_chaos_tests::server::{ServerProcess, serve_permission};
use cospan_chaos_tests::stimulus::signal;
use cospan_chaos_tests::test_environment::TestEnvironment;
use rustix::process::Signal;
use serde_json::{Value, json};
use watch::Watch;

/// Submissions that are looked at.
const JOBS: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Nothing but submissions is written, and nothing runs that strace would wait for.
const NOTHING_IS_TRIED: &str = "[queue]\nscan_interval = \"1h\"\nevents = false\n";
const CALLS: &str = "trace=write,writev,pwrite64,pwritev,pwritev2,fdatasync,fsync,sendto,sendmsg";

/// The answer to a submission, by whatever call it is sent.
fn is_answer(call: &str) -> bool {
    call.contains("\"HTTP/1.1 201 ")
}

/// strace and the server below it, ended with the test however that ends.
struct Traced(Child);

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn traced(environment: &TestEnvironment, arguments: &[&str], stderr: Stdio) -> Traced {
    let mut command = Command::new("strace");
    command.arg("-f").args(arguments);
    command
        .arg(env!("CARGO_BIN_EXE_cospan"))
        .args(["serve", "--config"])
        .arg(environment.config());
    command
        .env_clear()
        .env("HOME", environment.path())
        .env("PATH", "/usr/bin:/bin");
    command.envs(serve_permission());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr);
    Traced(command.spawn().unwrap())
}

fn lacks_strace() -> bool {
    let lacks = Command::new("strace").arg("-V").output().is_err();
    if lacks {
        println!("SKIPPED, nothing was shown: strace is not installed");
    }
    lacks
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client of the server, once that takes work.
fn client(environment: &TestEnvironment) -> Api {
    let probe = Api::new(environment.port(), String::new());
    until("it takes work", || {
        matches!(probe.get("/readyz"), ApiReply::Answered(200, _))
    });
    let token = std::fs::read_to_string(environment.data().join("keys/admin.token")).unwrap();
    Api::new(environment.port(), token.trim().into())
}

fn job(number: u64) -> Value {
    let component = json!({ "name": "only", "processors": 1, "executable": "/bin/true" });
    json!({ "name": format!("job {number}"), "wall_time": "1m", "component": [component] })
}

/// The server itself, which strace runs.
fn server_of(strace: &Child) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let children = std::fs::read_to_string(children).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn every_submission_is_synced_between_its_write_and_its_answer() {
    if lacks_strace() {
        return;
    }
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let environment = TestEnvironment::with_sites(base, &[1], NOTHING_IS_TRIED, "1Mbit/s").unwrap();
    let log = environment.path().join("trace");
    let text = log.display().to_string();
    let arguments = ["-y", "-s", "16", "-e", CALLS, "-o", &text];
    let said = environment.path().join("said");
    let mut server = traced(
        &environment,
        &arguments,
        File::create(&said).unwrap().into(),
    );
    let api = client(&environment);
    for number in 0..JOBS {
        api.post_expected("/v1/jobs", &job(number)).unwrap();
    }
    signal(server_of(&server.0), Signal::TERM);
    let status = server.0.wait().unwrap();
    assert!(
        status.success(),
        "{status}: {}",
        std::fs::read_to_string(&said).unwrap()
    );

    let db = environment.data().canonicalize().unwrap().join("store/db");
    let file = format!("<{}>", db.display());
    let mut watch = Watch::new(is_answer);
    let trace = std::fs::read(&log).unwrap();
    String::from_utf8_lossy(&trace)
        .lines()
        .for_each(|line| watch.line(line, &file));
    println!(
        "{} submissions answered, each after a sync of {file}",
        watch.acknowledged
    );
    assert_eq!(watch.acknowledged, JOBS);
}

/// A server on whose store's file every write after the first `fitting` finds the disk full.
fn on_a_full_disk(environment: &TestEnvironment, fitting: u32, stderr: Stdio) -> Traced {
    let file = environment
        .data()
        .canonicalize()
        .unwrap()
        .join("store/db")
        .display()
        .to_string();
    let calls = format!(
        "inject=write,pwrite64,pwritev,ftruncate,fallocate:error=ENOSPC:when={}+",
        fitting + 1
    );
    let log = environment.path().join("trace").display().to_string();
    traced(
        environment,
        &["-P", &file, "-e", &calls, "-o", &log],
        stderr,
    )
}

fn ended(server: &mut Traced) -> ExitStatus {
    let mut status = None;
    until("the server ends", || {
        status = server.0.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

#[test]
fn a_full_disk_ends_the_server_by_name_and_nothing_answered_is_lost() {
    if lacks_strace() {
        return;
    }
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let environment = TestEnvironment::with_sites(base, &[1], NOTHING_IS_TRIED, "1Mbit/s").unwrap();
    let stderr = |name: &str| Stdio::from(File::create(environment.path().join(name)).unwrap());
    let said = |name: &str| std::fs::read_to_string(environment.path().join(name)).unwrap();
    let full = [
        "the disk that holds the store at",
        "store",
        "is full",
        "free some space there",
    ];

    // The file must be there for strace to know it.
    let mut whole = ServerProcess::new(env!("CARGO_BIN_EXE_cospan").as_ref(), &environment);
    whole.start().unwrap();
    whole.kill().unwrap();

    let mut server = on_a_full_disk(&environment, 60, stderr("running"));
    let api = client(&environment);
    let mut answered = Vec::new();
    for number in 0.. {
        match api.post("/v1/jobs", None, &job(number)) {
            ApiReply::Answered(201, body) => {
                answered.push(body["jobs"][0]["id"].as_u64().unwrap());
            }
            _ => break,
        }
    }
    assert!(!answered.is_empty(), "some were answered before");
    assert_eq!(ended(&mut server).code(), Some(70));
    for words in full {
        assert!(
            said("running").contains(words),
            "{words:?} is not in: {}",
            said("running")
        );
    }

    let mut server = on_a_full_disk(&environment, 0, stderr("starting"));
    assert!(!ended(&mut server).success());
    for words in full {
        assert!(
            said("starting").contains(words),
            "{words:?} is not in: {}",
            said("starting")
        );
    }

    whole.start().unwrap();
    let api = whole.api().unwrap();
    for id in &answered {
        api.get_expected(&format!("/v1/jobs/{id}")).unwrap();
    }
    println!(
        "{} submissions answered before the disk was full, all there",
        answered.len()
    );
}
