//! One decision, one payload, one wrapper.

use std::fs;
use std::time::{Duration, Instant};

use cospan_domain::units::DurationMs;
use cospan_sites::contract::PATIENCE;
use cospan_sites::port::{ExitCause, GateState};
use cospan_sites::wrapper::EXIT_TAKEN;
use cospan_sites::wrapper::parameters::SlowPollTiming;
use cospan_sites::wrapper::state_files;
use rustix::process::Signal;

use super::bench::{Bench, Wrapper, names, our_tag, script, seal, shells, uptime, with_each_shell};

#[test]
fn a_second_wrapper_of_the_same_attempt_ends_and_touches_nothing() {
    with_each_shell(|bench| {
        let first = bench.at_gate(&script("echo ran"));
        let before = (
            names(&bench.path("")),
            fs::read(bench.path("ready")).unwrap(),
        );
        assert_eq!(bench.spawn().wait().code(), Some(EXIT_TAKEN));
        assert_eq!(
            (
                names(&bench.path("")),
                fs::read(bench.path("ready")).unwrap()
            ),
            before
        );
        bench.decide(GateState::Opened);
        first.wait();
        assert_eq!(bench.printed(), b"ran\n");
    });
}

#[test]
fn an_opened_gate_is_noticed_without_any_hint() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate(&script("exit 4"));
        bench.decide(GateState::Opened);
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(4)));
    });
}

#[test]
fn a_hint_is_never_lost() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        // Without the hint each round would take this long.
        bench.pace.poll = DurationMs::from_secs(200);
        for round in 0..40_u64 {
            let wrapper = bench.at_gate(&script("exit 0"));
            // Hints meet the wrapper at another place each time.
            std::thread::sleep(Duration::from_micros(150 * round));
            bench.decide(GateState::Opened);
            wrapper.signal(Signal::USR2);
            assert!(wrapper.wait().success());
            assert_eq!(bench.exit(), Some(ExitCause::Code(0)));
            bench.clear();
        }
    }
}

#[test]
fn a_wrapper_and_an_adapter_that_decide_together_agree() {
    for shell in shells() {
        let races: Vec<_> = (0..24_u64).map(|number| (number, shell.clone())).collect();
        std::thread::scope(|scope| {
            for (number, shell) in races {
                scope.spawn(move || race(shell, Duration::from_millis(900 + number * 10)));
            }
        });
    }
}

/// The wrapper closes after one second; we open at about the same time.
fn race(shell: Vec<String>, delay: Duration) {
    let mut bench = Bench::new(shell);
    bench.pace.hold_max = DurationMs::from_secs(1);
    let wrapper = bench.at_gate(&script("echo ran"));
    std::thread::sleep(delay);
    let decided = bench.decide(GateState::Opened);
    wrapper.wait();
    let expected: &[u8] = if decided == GateState::Opened {
        b"ran\n"
    } else {
        b""
    };
    assert_eq!(bench.printed(), expected);
    assert_eq!(bench.exit().is_some(), decided == GateState::Opened);
}

#[test]
fn a_decision_that_is_cut_short_lets_nobody_in() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        bench.pace.hold_max = DurationMs::from_secs(1);
        let wrapper = bench.at_gate(&script("echo ran"));
        let whole = "go\nround 1\nepoch 1\nstart_at 0\nwait_ms 0\nrank 0\nend ";
        fs::write(bench.path("decision"), whole).unwrap();
        wrapper.signal(Signal::USR2);
        assert_eq!(wrapper.wait().code(), Some(74));
        assert_eq!(bench.printed(), b"");
        assert!(
            state_files::parse_trouble(&fs::read(bench.path("trouble")).unwrap(), our_tag())
                .is_some()
        );
    }
}

#[test]
fn a_gate_that_is_opened_after_the_last_moment_starts_nothing() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate(&script("echo ran"));
        bench.open_until(uptime() - 1);
        wrapper.signal(Signal::USR2);
        assert!(wrapper.wait().success(), "that is no fault of its site");
        assert_eq!(
            (bench.printed(), bench.exit()),
            (vec![], Some(ExitCause::TooLate))
        );
        let written = fs::read_to_string(bench.path("exit")).unwrap();
        assert!(written.starts_with("cause unstarted late\n"), "{written}");
        assert!(!bench.path("begun").exists());
    });
}

#[test]
fn a_gate_that_is_opened_before_the_last_moment_lets_in() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate(&script("echo ran"));
        bench.open_until(uptime() + 100 * 3_600);
        wrapper.signal(Signal::USR2);
        assert!(wrapper.wait().success());
        assert_eq!(
            (bench.printed(), bench.exit()),
            (b"ran\n".into(), Some(ExitCause::Code(0)))
        );
    });
}

/// As when its machine is frozen: the gate was opened in time, and it comes to it later.
#[test]
fn a_wrapper_that_is_stopped_until_after_the_last_moment_starts_nothing() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate(&script("echo ran"));
        wrapper.signal(Signal::STOP);
        let start_by = uptime() + 20;
        bench.open_until(start_by);
        while uptime() <= start_by {
            std::thread::sleep(Duration::from_millis(5));
        }
        wrapper.signal(Signal::CONT);
        assert!(wrapper.wait().success());
        assert_eq!(
            (bench.printed(), bench.exit()),
            (vec![], Some(ExitCause::TooLate))
        );
    });
}

#[test]
fn parameters_that_are_cut_short_start_nothing() {
    with_each_shell(|bench| {
        let command = script("echo ran");
        let whole = command.encode_parameters(our_tag(), &bench.pace, &seal());
        for length in [0, 20, whole.len() / 2, whole.len() - 10] {
            bench.prepare(&command);
            fs::write(bench.spool().join("params"), &whole[..length]).unwrap();
            let wrapper = bench.spawn();
            assert_eq!(wrapper.wait().code(), Some(74), "{length}");
            assert_eq!((bench.printed(), bench.exit()), (vec![], None), "{length}");
            bench.clear();
        }
    });
}

#[test]
fn a_wrapper_told_to_end_at_the_gate_closes_it() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate(&script("echo ran"));
        wrapper.signal(Signal::TERM);
        assert!(wrapper.wait().success());
        let decision = state_files::parse_decision(
            &fs::read(bench.path("decision")).unwrap(),
            our_tag(),
            &seal(),
        );
        assert_eq!((decision, bench.exit()), (Some(GateState::Voided), None));
    });
}

/// How long a process sleeps at a time that a wrapper has started.
fn naps(wrapper: &Wrapper) -> Vec<String> {
    let children = |pid: u32| {
        let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        listed
            .unwrap_or_default()
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    };
    let below: Vec<u32> = children(wrapper.id());
    let sleepers = below
        .into_iter()
        .flat_map(|alarm| -> Vec<u32> { children(alarm) });
    let line = |pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    sleepers
        .filter_map(|pid| Some(line(pid).strip_prefix("sleep\0")?.to_owned()))
        .collect()
}

#[test]
fn a_wrapper_that_waits_for_long_looks_less_often_and_sees_its_gate_all_the_same() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        let poll = DurationMs::from_secs(3);
        let after = DurationMs::from_secs(2);
        bench.pace.seldom = Some(SlowPollTiming { poll, after });
        let wrapper = bench.at_gate(&script("exit 4"));
        for nap in ["1\0", "3\0"] {
            let started = Instant::now();
            while naps(&wrapper) != [nap] {
                assert!(
                    started.elapsed() < PATIENCE,
                    "it does not sleep for {nap:?}"
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        bench.decide(GateState::Opened);
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(4)));
    }
}
