//! Payload and wrapper: signals, ends, evidence.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use cospan_domain::units::DurationMs;
use cospan_sites::port::ExitCause;
use rustix::process::{Pid, Signal};

use super::bench::{Bench, Wrapper, script, shells, with_each_shell};
use crate::unprivileged::unprivileged;

#[test]
fn usr1_reaches_the_payload_and_ends_nothing() {
    with_each_shell(|bench| {
        let text = "trap 'echo told' USR1; echo begun; n=0; \
                    while [ $n -lt 1200 ] && ! [ -e stop ]; do sleep 0.05; n=$((n+1)); done; exit 6";
        let wrapper = bench.running(&script(text));
        bench.await_printed("begun");
        for times in 1..=3 {
            wrapper.signal(Signal::USR1);
            bench.await_printed(&"told\n".repeat(times));
        }
        fs::write(bench.path("work/stop"), "").unwrap();
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(6)));
    });
}

/// Each alarm has the wrapper read the clock, and the next one may interrupt that.
#[test]
fn a_burst_of_alarms_ends_no_payload_before_its_time() {
    with_each_shell(|bench| {
        let text = "echo begun; until [ -e stop ]; do sleep 0.05; done; exit 6";
        let wrapper = bench.running(&script(text));
        bench.await_printed("begun");
        for round in 0..1_500_u64 {
            wrapper.signal(Signal::ALARM);
            std::thread::sleep(Duration::from_micros(round % 50 * 10));
        }
        fs::write(bench.path("work/stop"), "").unwrap();
        assert_end_told_or_unknown(bench, wrapper, 6);
    });
}

/// Traps that interrupt each other lose exit codes in some shells, and run out of stack in all.
#[test]
fn a_flood_of_alarms_ends_neither_wrapper_nor_payload() {
    with_each_shell(|bench| {
        let text = "echo begun; until [ -e stop ]; do sleep 0.05; done; exit 6";
        let wrapper = bench.running(&script(text));
        bench.await_printed("begun");
        for _ in 0..10_000 {
            wrapper.signal(Signal::ALARM);
            std::thread::sleep(Duration::from_micros(1));
        }
        fs::write(bench.path("work/stop"), "").unwrap();
        assert_end_told_or_unknown(bench, wrapper, 6);
    });
}

/// Bash forgets how a payload ended if it hears a signal at that moment.
fn assert_end_told_or_unknown(bench: &Bench, wrapper: Wrapper, payload_code: i32) {
    let code = wrapper.wait().code();
    match bench.exit() {
        Some(cause) => assert_eq!((cause, code), (ExitCause::Code(payload_code), Some(0))),
        None => assert_eq!(code, Some(74)),
    }
}

#[test]
fn a_payload_finds_all_signals_at_their_defaults() {
    with_each_shell(|bench| {
        let payload = script("sed -n 's/^SigIgn:.*\\(...\\)$/\\1/p' /proc/self/status");
        let mut with_variable = payload.clone();
        with_variable.environment.push(("A".into(), b"b".to_vec()));
        for command in [&payload, &with_variable] {
            let wrapper = bench.at_gate_with(&["-", "/usr/bin/env"], command);
            bench.decide(cospan_sites::port::GateState::Opened);
            wrapper.signal(Signal::USR2);
            assert!(wrapper.wait().success());
            assert_eq!(bench.printed(), b"000\n");
            bench.clear();
        }
    });
}

#[test]
fn an_end_among_alarms_is_told_or_unknown_and_no_other() {
    with_each_shell(|bench| {
        for _ in 0..15 {
            let wrapper = bench.running(&script("echo begun; sleep 0.05; exit 6"));
            bench.await_printed("begun");
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_millis(150) {
                wrapper.signal(Signal::ALARM);
                std::thread::sleep(Duration::from_micros(20));
            }
            assert_end_told_or_unknown(bench, wrapper, 6);
            bench.clear();
        }
    });
}

#[test]
fn a_hint_at_the_end_of_a_payload_changes_nothing() {
    with_each_shell(|bench| {
        for _ in 0..15 {
            let wrapper = bench.running(&script("echo begun; sleep 0.05; exit 6"));
            bench.await_printed("begun");
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_millis(150) {
                wrapper.signal(Signal::USR2);
                std::thread::sleep(Duration::from_micros(20));
            }
            assert!(wrapper.wait().success());
            assert_eq!(bench.exit(), Some(ExitCause::Code(6)));
            bench.clear();
        }
    });
}

#[test]
fn term_ends_wrapper_and_payload_and_leaves_an_exit() {
    with_each_shell(|bench| {
        let wrapper = bench.running(&script("echo begun; sleep 300 & echo $!; wait"));
        bench.await_file("stdout", |bytes| {
            bytes.ends_with(b"\n") && bytes.split(|b| *b == b'\n').count() > 2
        });
        wrapper.signal(Signal::TERM);
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Terminated));
        let printed = String::from_utf8(bench.printed()).unwrap();
        let grandchild: u32 = printed.lines().nth(1).unwrap().parse().unwrap();
        await_gone(grandchild);
    });
}

#[test]
fn int_ends_a_payload_too() {
    with_each_shell(|bench| {
        let wrapper = bench.running(&script("echo begun; sleep 300"));
        bench.await_printed("begun");
        wrapper.signal(Signal::INT);
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Terminated));
    });
}

#[test]
fn what_ignores_term_is_killed_after_the_grace_also_when_stopped() {
    with_each_shell(|bench| {
        let wrapper = bench.running(&script(
            "trap '' TERM; echo begun; kill -STOP $$; sleep 300",
        ));
        bench.await_printed("begun");
        wrapper.signal(Signal::TERM);
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Terminated));
    });
}

#[test]
fn the_wall_time_counts_from_the_opening_of_the_gate() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        bench.pace.wall_time = DurationMs::from_secs(1);
        let wrapper = bench.running(&script(
            "trap 'echo asked; exit 0' TERM; while :; do sleep 0.05; done",
        ));
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::WallTime));
        assert_eq!(bench.printed(), b"asked\n");
    }
}

#[test]
fn a_payload_that_outlives_the_gates_alarm_is_ended_at_its_wall_time() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        bench.pace.wall_time = DurationMs::from_secs(3);
        let wrapper = bench.at_gate(&script("while :; do sleep 0.05; done"));
        bench.decide(cospan_sites::port::GateState::Opened);
        wrapper.signal(Signal::USR2);
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::WallTime));
        let ran = bench.ran_hundredths();
        assert!(
            (300..1_000).contains(&ran),
            "it ran for {ran} hundredths of a second"
        );
    }
}

#[test]
fn a_full_disk_under_the_output_leaves_the_exit_alone() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate(&script("echo lost; echo lost >&2; exit 9"));
        std::os::unix::fs::symlink("/dev/full", bench.path("stdout")).unwrap();
        std::os::unix::fs::symlink("/dev/full", bench.path("stderr")).unwrap();
        bench.decide(cospan_sites::port::GateState::Opened);
        wrapper.signal(Signal::USR2);
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(9)));
    });
}

#[test]
fn an_exit_that_cannot_be_written_is_tried_again() {
    unprivileged(|| {
        for shell in shells() {
            let bench = Bench::anywhere(shell);
            let wrapper =
                bench.running(&script("echo begun; while [ -x .. ]; do sleep 0.02; done"));
            bench.await_printed("begun");
            let payload = bench.payload();
            let there = bench.path("");
            let aside = bench.path("").with_extension("aside");
            let set_mode =
                |mode| fs::set_permissions(&aside, Permissions::from_mode(mode)).unwrap();
            // Its wrapper does not find it, and so cannot open it.
            fs::rename(&there, &aside).unwrap();
            set_mode(0o000);
            await_gone(payload);
            set_mode(0o700);
            fs::rename(&aside, &there).unwrap();
            assert!(wrapper.wait().success());
            assert_eq!(bench.exit(), Some(ExitCause::Code(0)));
        }
    });
}

#[test]
fn no_alarm_outlives_its_wrapper() {
    with_each_shell(|bench| {
        for _ in 0..20 {
            bench.running(&script("exit 0")).wait();
            bench.clear();
        }
        let ours = bench.path("");
        let started = std::time::Instant::now();
        // Alarms carry the attempt's directory in their environment.
        while processes_naming(&ours) > 0 {
            assert!(
                started.elapsed() < cospan_sites::contract::PATIENCE,
                "a process is left"
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
}

fn processes_naming(path: &std::path::Path) -> usize {
    let name = path.as_os_str().as_encoded_bytes();
    let name = name.strip_suffix(b"/").unwrap_or(name);
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry: &fs::DirEntry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.windows(name.len()).any(|window| window == name)
        })
        .count()
}

fn await_gone(pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let started = std::time::Instant::now();
    while rustix::process::test_kill_process(pid).is_ok() {
        assert!(
            started.elapsed() < cospan_sites::contract::PATIENCE,
            "{pid:?} is left"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
