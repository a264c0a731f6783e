//! What kill -9 cannot show of the real server: between the write of a job and the answer to
//! its client the store's file was synced. Seen by `strace`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "what was seen, or skipped, belongs to the result")]

#[path = "../storage/tests/crash/watch.rs"]
mod watch;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cospan_chaos_tests::api::{Api, Reply};
use cospan_chaos_tests::ground::Ground;
use cospan_chaos_tests::stimulus::signal;
use rustix::process::Signal;
use serde_json::json;
use watch::Watch;

/// Submissions that are looked at.
const JOBS: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);
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

fn traced(ground: &Ground, log: &Path) -> Traced {
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "16", "-e", CALLS, "-o"]).arg(log);
    command.arg(env!("CARGO_BIN_EXE_cospan")).args(["serve", "--config"]).arg(ground.config());
    command.env_clear().env("HOME", ground.path()).env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Traced(command.spawn().unwrap())
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The server itself, which strace runs.
fn server_of(strace: &Child) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let children = std::fs::read_to_string(children).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn every_submission_is_synced_between_its_write_and_its_answer() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("SKIPPED, nothing was shown: strace is not installed");
        return;
    }
    // Nothing is tried, so that nothing but the submissions is written.
    let sections = "[queue]\nscan_interval = \"1h\"\nevents = false\n";
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ground = Ground::with_sites(base, &[1], sections, "1Mbit/s").unwrap();
    let log = ground.path().join("trace");
    let mut server = traced(&ground, &log);
    let probe = Api::new(ground.port(), String::new());
    until("it takes work", || matches!(probe.get("/readyz"), Reply::Answered(200, _)));
    let token = std::fs::read_to_string(ground.data().join("keys/admin.token")).unwrap();
    let api = Api::new(ground.port(), token.trim().into());
    for number in 0..JOBS {
        let component = json!({ "name": "only", "processors": 1, "executable": "/bin/true" });
        let document =
            json!({ "name": format!("job {number}"), "wall_time": "1m", "component": [component] });
        api.must("/v1/jobs", &document).unwrap();
    }
    signal(server_of(&server.0), Signal::TERM);
    assert!(server.0.wait().unwrap().success());

    let db = ground.data().canonicalize().unwrap().join("store/db");
    let file = format!("<{}>", db.display());
    let mut watch = Watch::new(is_answer);
    let trace = std::fs::read(&log).unwrap();
    String::from_utf8_lossy(&trace).lines().for_each(|line| watch.line(line, &file));
    println!("{} submissions answered, each after a sync of {file}", watch.acknowledged);
    assert_eq!(watch.acknowledged, JOBS);
}
