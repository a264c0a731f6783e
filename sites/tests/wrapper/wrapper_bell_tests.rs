//! A wrapper that has a bell waits at its gate without another process.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use cospan_domain::units::DurationMs;
use cospan_sites::contract::PATIENCE;
use cospan_sites::port::{ExitCause, GateState};
use cospan_sites::wrapper::state_files;
use rustix::process::Signal;

use super::bench::{Bench, Wrapper, our_tag, script, seal, shells};

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(200);
const SHORT: Duration = Duration::from_millis(50);

/// The shells that can listen to a bell; the others have their alarms.
fn listening() -> impl Iterator<Item = Vec<String>> {
    shells().into_iter().filter(|shell| !is_deaf(shell))
}

/// Busybox, also where it is the `sh` of the system.
fn is_deaf(shell: &[String]) -> bool {
    let help = Command::new(&shell[0])
        .args(&shell[1..])
        .arg("--help")
        .output()
        .unwrap();
    String::from_utf8_lossy(&help.stderr).contains("BusyBox")
}

/// A wrapper at its gate, and its bell, to whose silence it listens for so long.
fn with_bell(bench: &Bench, patience: Duration) -> (Wrapper, UnixStream) {
    let (bell, heard) = UnixStream::pair().unwrap();
    heard.set_read_timeout(Some(patience)).unwrap();
    bench.prepare(&script("exit 4"));
    let wrapper = bench.spawn_with(&["bell"], std::os::fd::OwnedFd::from(heard));
    bench.await_file("ready", |bytes| {
        state_files::parse_ready(bytes, our_tag()).is_some()
    });
    (wrapper, bell)
}

/// Waits until it sleeps and no process of its own is there that could wake it.
fn await_alone(wrapper: &Wrapper) {
    let started = Instant::now();
    let pid = wrapper.id();
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    while !(read("stat").contains(") S ") && read(&format!("task/{pid}/children")).is_empty()) {
        assert!(started.elapsed() < PATIENCE, "it does not wait alone");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_rung_bell_is_never_missed() {
    for shell in listening() {
        let mut bench = Bench::new(shell);
        // Without the bell each round would take this long.
        bench.pace.poll = DurationMs::from_secs(200);
        for round in 0..40_u64 {
            let (wrapper, mut bell) = with_bell(&bench, LONG);
            // Rings meet the wrapper at another place each time.
            std::thread::sleep(Duration::from_micros(150 * round));
            bench.decide(GateState::Opened);
            bell.write_all(b"\n").unwrap();
            drop(bell);
            assert!(wrapper.wait().success());
            assert_eq!(bench.exit(), Some(ExitCause::Code(4)));
            bench.clear();
        }
    }
}

#[test]
fn a_wrapper_with_a_bell_waits_alone() {
    for shell in listening() {
        let bench = Bench::new(shell);
        let (wrapper, mut bell) = with_bell(&bench, LONG);
        await_alone(&wrapper);
        bench.decide(GateState::Opened);
        bell.write_all(b"\n").unwrap();
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(4)));
    }
}

#[test]
fn a_signal_is_heard_beside_the_bell() {
    for shell in listening() {
        let bench = Bench::new(shell);
        let (opened, _bell) = with_bell(&bench, LONG);
        await_alone(&opened);
        bench.decide(GateState::Opened);
        opened.signal(Signal::USR2);
        assert!(opened.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(4)));
        bench.clear();
        let (ended, _bell) = with_bell(&bench, LONG);
        await_alone(&ended);
        ended.signal(Signal::TERM);
        assert!(ended.wait().success());
        let decision = state_files::parse_decision(
            &fs::read(bench.path("decision")).unwrap(),
            our_tag(),
            &seal(),
        );
        assert_eq!((decision, bench.exit()), (Some(GateState::Voided), None));
    }
}

#[test]
fn a_gate_is_noticed_behind_a_silent_bell_and_behind_one_that_is_gone() {
    for shell in shells() {
        let bench = Bench::new(shell);
        for gone in [false, true] {
            let (wrapper, bell) = with_bell(&bench, if gone { LONG } else { SHORT });
            let kept = (!gone).then_some(bell);
            bench.decide(GateState::Opened);
            assert!(wrapper.wait().success());
            assert_eq!(bench.exit(), Some(ExitCause::Code(4)));
            drop(kept);
            bench.clear();
        }
    }
}

#[test]
fn a_shell_that_cannot_listen_hangs_up_so_that_whoever_rings_knows() {
    for shell in shells().into_iter().filter(|shell| is_deaf(shell)) {
        let bench = Bench::new(shell);
        let (wrapper, mut bell) = with_bell(&bench, LONG);
        bench.decide(GateState::Opened);
        assert!(
            bell.write_all(b"\n").is_err(),
            "it is rung in vain, and nobody knows"
        );
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(4)));
    }
}

#[test]
fn a_wrapper_whose_bell_nobody_rings_closes_its_gate_in_time() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        bench.pace.hold_max = DurationMs::from_secs(1);
        let (wrapper, _bell) = with_bell(&bench, SHORT);
        assert!(wrapper.wait().success());
        let decision = state_files::parse_decision(
            &fs::read(bench.path("decision")).unwrap(),
            our_tag(),
            &seal(),
        );
        assert_eq!((decision, bench.exit()), (Some(GateState::Voided), None));
    }
}
