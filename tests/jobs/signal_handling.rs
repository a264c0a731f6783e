//! Signals that users, service managers and terminals send to the server and to commands.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::job_fixture::{Scene, environment, scene, until};
use cospan_chaos_tests::server::ServerProcess;
use cospan_chaos_tests::test_environment::Layout;

/// The realtime signals that every C library leaves to programs.
const REALTIME: std::ops::RangeInclusive<i32> = 35..=64;

/// Numbers of signals that ask for nothing that a server does.
fn meaningless() -> impl Iterator<Item = i32> {
    let named = [
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::STKFLT,
        Signal::PIPE,
        Signal::XFSZ,
        Signal::WINCH,
        Signal::URG,
    ];
    named.into_iter().map(Signal::as_raw).chain(REALTIME)
}

/// Sends one by its number; `kill` of the shell knows all of them.
fn send(pid: u32, number: i32) {
    let mut kill = std::process::Command::new("/bin/sh");
    let line = format!("kill -{number} {pid}");
    assert!(
        kill.args(["-c", &line]).status().unwrap().success(),
        "{line}"
    );
}

fn ended(server: &mut ServerProcess) -> ExitStatus {
    let mut status = None;
    let begun = std::time::Instant::now();
    while status.is_none() {
        assert!(
            begun.elapsed() < super::job_fixture::PATIENCE,
            "the server does not end"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
        status = server.exit_status().unwrap();
    }
    status.unwrap()
}

fn log_of(scene: &Scene) -> String {
    std::fs::read_to_string(scene.environment.log()).unwrap()
}

#[test]
fn signals_that_ask_for_nothing_leave_the_server_running_and_are_told_of() {
    let mut scene = scene(1);
    let pid = scene.server.pid().unwrap();
    for number in meaningless() {
        send(pid, number);
    }
    until("the last one is told of", || {
        log_of(&scene).contains("signal 64")
    });
    assert_eq!(
        scene.server.exit_status().unwrap(),
        None,
        "{}",
        log_of(&scene)
    );
    scene.run(
        "wall_time = \"1m\"\n[[component]]\nname = \"a\"\nprocessors = 1\nexecutable = \"/bin/true\"",
    );
}

#[test]
fn signals_that_ask_for_an_end_stop_the_server_in_order() {
    let mut scene = scene(1);
    for signal in [
        Signal::QUIT,
        Signal::XCPU,
        Signal::POWER,
        Signal::INT,
        Signal::TERM,
    ] {
        send(scene.server.pid().unwrap(), signal.as_raw());
        let status = ended(&mut scene.server);
        assert_eq!(status.code(), Some(0), "{signal:?}: {status}");
        assert!(log_of(&scene).trim_end().ends_with("stopped"), "{signal:?}");
        scene.server.start().unwrap();
    }
}

#[test]
fn a_signal_while_the_server_starts_ends_it_in_order_or_not_at_all() {
    let environment = environment(&Layout {
        sites: 1,
        ..Layout::default()
    });
    let mut server = ServerProcess::new(env!("CARGO_BIN_EXE_cospan").as_ref(), &environment);
    let log = || std::fs::read_to_string(environment.log()).unwrap_or_default();
    let begins = |times: usize| {
        until("it starts", || {
            log().matches(": starting version=").count() == times
        })
    };
    server.spawn().unwrap();
    begins(1);
    for number in [Signal::USR1, Signal::HUP, Signal::ALARM].map(Signal::as_raw) {
        send(server.pid().unwrap(), number);
    }
    server.await_ready().unwrap();
    server.kill().unwrap();
    server.spawn().unwrap();
    begins(2);
    send(server.pid().unwrap(), Signal::QUIT.as_raw());
    let status = ended(&mut server);
    assert_eq!(status.code(), Some(0), "{status}: {}", log());
}

/// The two that the C library keeps for threads: whatever started the tests may ignore them.
const LEFT_TO_LIBRARY: u64 = 1 << 31 | 1 << 32;

/// SIGUSR2, which a wrapper ignores behind its gate.
const HINT_OF_GATE: u64 = 1 << 11;

#[test]
fn payloads_and_their_wrappers_ignore_and_block_no_signal() {
    let scene = scene(1);
    let script = "grep Sig[BI] /proc/self/status /proc/$PPID/status";
    let component = json!({
        "name": "only", "processors": 1, "executable": "/bin/sh", "arguments": ["-c", script],
    });
    scene
        .server
        .api()
        .unwrap()
        .post_expected(
            "/v1/jobs",
            &json!({ "wall_time": "20m", "component": [component] }),
        )
        .unwrap();
    scene.must(&["wait", "1"]);
    let said = scene.must(&["logs", "1"]);
    assert_eq!(said.lines().count(), 4, "{said}");
    for line in said.lines() {
        let mask = line.rsplit('\t').next().unwrap();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        let is_payload = line.starts_with("/proc/self/");
        let allowed = if is_payload { 0 } else { HINT_OF_GATE };
        assert_eq!(mask & !(allowed | LEFT_TO_LIBRARY), 0, "{said}");
    }
}

/// A command that waits for a job which does not end.
fn waiting(scene: &Scene) -> Child {
    let component = json!({
        "name": "only", "processors": 1, "executable": "/bin/sleep", "arguments": ["600"],
    });
    let document = json!({ "wall_time": "20m", "component": [component] });
    let answer = scene
        .server
        .api()
        .unwrap()
        .post_expected("/v1/jobs", &document)
        .unwrap();
    let id = answer["jobs"][0]["id"].to_string();
    let mut wait = scene.command(&["wait", &id]);
    wait.stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_command_that_waits_ends_as_interrupted_by_whatever_signal_would_end_it() {
    let scene = scene(1);
    let children: Vec<(Signal, Child)> = [
        Signal::QUIT,
        Signal::USR1,
        Signal::ALARM,
        Signal::XCPU,
        Signal::INT,
    ]
    .map(|signal| (signal, waiting(&scene)))
    .into();
    for (signal, child) in children {
        let pid = Pid::from_child(&child);
        let status = format!("/proc/{}/status", child.id());
        // Its handlers are there once it catches an interruption.
        until("it listens", || {
            let text = std::fs::read_to_string(&status).unwrap();
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
            u64::from_str_radix(caught.unwrap(), 16).unwrap() & 0b10 != 0
        });
        kill_process(pid, signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(130),
            "{signal:?} {:?}",
            output.status.signal()
        );
    }
}
