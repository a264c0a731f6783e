//! Under a batch system, which ends jobs in its own way and runs them on other machines.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::contract::PATIENCE;
use cospan_sites::port::{ExitCause, GateState, GoDecision};
use cospan_sites::wrapper::parameters::encode_go_for_site;
use cospan_sites::wrapper::state_files;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::bench::{Bench, Wrapper, go, our_tag, script, seal, shells, with_each_shell};

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis()
        .try_into()
        .unwrap()
}

/// A decision as it stands at a site: whoever writes it there adds the start by its clock.
fn decision(go: &GoDecision, start_ms: u64) -> Vec<u8> {
    let mut bytes = encode_go_for_site(go);
    bytes.extend_from_slice(format!("start_ms {start_ms}\nend {}\n", our_tag()).as_bytes());
    bytes
}

fn payload(bench: &Bench) -> Pid {
    bench.await_file("begun", |bytes| {
        state_files::parse_begun(bytes, our_tag()).is_some()
    });
    let name =
        state_files::parse_begun(&fs::read(bench.path("begun")).unwrap(), our_tag()).unwrap();
    Pid::from_raw(name.pid.try_into().unwrap()).unwrap()
}

/// Asserts that a wrapper ended as its payload did, for what the batch system mails and accounts.
fn assert_told_to_batch_system(bench: &Bench, wrapper: Wrapper) {
    let told = wrapper.wait().code();
    let right = match bench.exit() {
        None | Some(ExitCause::TooLate) => 0,
        Some(ExitCause::Code(code)) => code,
        Some(ExitCause::Signal(signal)) => 128 + signal,
        Some(_) => 1,
    };
    assert_eq!(told, Some(right), "{:?}", bench.exit());
}

#[test]
fn a_payload_ended_just_before_its_wrapper_heard_of_it_is_no_success() {
    with_each_shell(|bench| {
        let stubborn = script("trap : TERM; echo begun; sleep 100; exit 0");
        let wrapper = bench.at_gate_with(&["batch"], &stubborn);
        assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
        bench.await_printed("begun");
        kill_process_group(payload(bench), Signal::TERM).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        wrapper.signal(Signal::TERM);
        assert_told_to_batch_system(bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::Terminated));
    });
}

#[test]
fn a_payload_that_ends_by_itself_has_its_own_code() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate_with(&["batch"], &script("exit 3"));
        assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
        assert_told_to_batch_system(bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::Code(3)));
    });
}

#[test]
fn all_nodes_of_a_batch_job_stand_in_ready_as_they_were_written() {
    let given = |list: &str, more: &[&str]| {
        let mut shell = vec!["env".to_owned(), format!("SLURM_JOB_NODELIST={list}")];
        shell.extend(shells().swap_remove(0));
        let bench = Bench::new(shell);
        let wrapper = bench.at_gate_with(more, &script("exit 0"));
        let ready =
            state_files::parse_ready(&fs::read(bench.path("ready")).unwrap(), our_tag()).unwrap();
        assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
        assert_told_to_batch_system(&bench, wrapper);
        ready.nodes
    };
    assert_eq!(
        given("n[1-3,07],m", &["batch"]).as_deref(),
        Some("n[1-3,07],m")
    );
    for (list, more) in [
        ("n1", &["batch"][..]),
        ("n[1-3]", &[]),
        ("a,b\nend x", &["batch"]),
    ] {
        assert_eq!(given(list, more), None, "{list}");
    }
    assert_eq!(
        given(&"n,".repeat(1_500), &["batch"]),
        None,
        "it would be longer than any file"
    );
}

#[test]
fn the_number_and_the_run_of_a_batch_job_stand_in_ready() {
    let found = |run: &str| {
        let mut shell = vec!["env".to_owned(), "SLURM_JOB_ID=5".to_owned()];
        shell.push(format!("SLURM_JOB_SLUID={run}"));
        shell.extend(shells().swap_remove(0));
        let bench = Bench::new(shell);
        let wrapper = bench.at_gate_with(&["batch"], &script("exit 0"));
        let ready =
            state_files::parse_ready(&fs::read(bench.path("ready")).unwrap(), our_tag()).unwrap();
        assert_eq!(bench.decide(GateState::Voided), GateState::Voided);
        assert_told_to_batch_system(&bench, wrapper);
        assert_eq!(ready.job.as_deref(), Some("5"));
        ready.run
    };
    assert_eq!(found("s8HSM").as_deref(), Some("s8HSM"));
    assert_eq!(found(""), None, "an older Slurm");
    assert_eq!(found("s\nend x"), None);
}

#[test]
fn a_start_in_the_sites_time_is_kept_whenever_its_gate_was_seen_open() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate_with(&["batch"], &script("date +%s%3N"));
        let start = now_ms() + 2_300;
        bench.decide_with(&decision(&go(), start));
        assert_told_to_batch_system(bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::Code(0)));
        let printed = String::from_utf8(bench.printed()).unwrap();
        // `date` of some systems knows whole seconds only.
        let began: u64 = printed.trim().parse().unwrap();
        assert!(
            (start - 20..start + 5_000).contains(&began),
            "{began}, not {start}"
        );
    });
}

#[test]
fn a_start_is_kept_on_a_node_whose_own_clock_is_wrong() {
    for how_far in ["1 hour", "-1 hour", "30 days", "1970-01-02"] {
        let bin = tempfile::tempdir().unwrap();
        let date = bin.path().join("date");
        let text = format!(
            "#!/bin/sh\ncase \" $* \" in *' -r '*) exec /bin/date \"$@\" ;; esac\n\
             exec /bin/date -d '{how_far}' \"$@\"\n"
        );
        fs::write(&date, text).unwrap();
        fs::set_permissions(&date, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("PATH={}:/usr/bin:/bin", bin.path().display());
        let shell = ["env".to_owned(), path]
            .into_iter()
            .chain(shells().swap_remove(0));
        let bench = Bench::new(shell.collect());
        let wrapper = bench.at_gate_with(&["batch"], &script("/bin/date +%s%3N"));
        let start = now_ms() + 1_500;
        let in_time = GoDecision {
            start_by: Timestamp(start + 30_000),
            ..go()
        };
        bench.decide_with(&decision(&in_time, start));
        assert_told_to_batch_system(&bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::Code(0)), "{how_far}");
        let began: u64 = String::from_utf8(bench.printed())
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(
            (start - 20..start + 5_000).contains(&began),
            "{how_far}: {began}, not {start}"
        );
    }
}

#[test]
fn nothing_starts_after_the_last_moment_in_the_sites_time() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate_with(&["batch"], &script("echo ran"));
        let late = GoDecision {
            start_by: Timestamp(now_ms() - 1_000),
            ..go()
        };
        bench.decide_with(&decision(&late, now_ms() - 3_000));
        assert_told_to_batch_system(bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::TooLate));
        assert_eq!(bench.printed(), b"");
    });
}

/// Slurm ends a job by CONT and TERM.
#[test]
fn an_end_that_comes_with_a_resumption_ends_the_payload() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate_with(&["batch"], &script("exec sleep 100"));
        assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
        payload(bench);
        // Both arrive at the same moment, as it is stopped until then.
        wrapper.signal(Signal::STOP);
        wrapper.signal(Signal::TERM);
        wrapper.signal(Signal::CONT);
        assert_told_to_batch_system(bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::Terminated));
    });
}

/// Asleep it goes on, as a payload that waits for something else does.
#[test]
fn a_job_that_is_suspended_loses_nothing_of_its_wall_time() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        bench.pace.wall_time = DurationMs::from_secs(6);
        let wrapper = bench.at_gate_with(&["batch"], &script("exec sleep 9"));
        assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
        let payload = payload(&bench);
        wrapper.signal(Signal::TSTP);
        std::thread::sleep(Duration::from_secs(2));
        let both = |signal| {
            wrapper.signal(signal);
            kill_process_group(payload, signal).unwrap();
        };
        both(Signal::STOP);
        std::thread::sleep(Duration::from_secs(5));
        both(Signal::CONT);
        assert_told_to_batch_system(&bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::Code(0)));
    }
}

/// And has no more of it than it was given.
#[test]
fn a_job_that_was_suspended_ends_at_its_wall_time_all_the_same() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        bench.pace.wall_time = DurationMs::from_secs(3);
        let wrapper = bench.at_gate_with(&["batch"], &script("exec sleep 100"));
        assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
        payload(&bench);
        wrapper.signal(Signal::TSTP);
        std::thread::sleep(Duration::from_secs(2));
        wrapper.signal(Signal::CONT);
        assert_told_to_batch_system(&bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::WallTime));
        assert!(bench.ran_hundredths() >= 350, "{}", bench.ran_hundredths());
    }
}

/// A node may end it meanwhile.
#[test]
fn a_payloads_own_end_is_written_before_anything_is_waited_for() {
    with_each_shell(|bench| {
        for (text, cause) in [
            ("exit 0", ExitCause::Code(0)),
            ("exit 3", ExitCause::Code(3)),
            ("kill -SEGV $$", ExitCause::Signal(11)),
        ] {
            let wrapper = bench.at_gate_with(&["batch"], &script(text));
            assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
            bench.await_file("ended", |bytes| {
                state_files::parse_ended(bytes, our_tag(), &seal()) == Some(cause.clone())
            });
            wrapper.signal(Signal::KILL);
            assert!(!wrapper.wait().success());
            assert_eq!(bench.exit(), None, "{text}");
            bench.clear();
        }
    });
}

#[test]
fn what_was_told_to_end_has_no_end_of_its_own() {
    with_each_shell(|bench| {
        let wrapper =
            bench.at_gate_with(&["batch"], &script("trap 'exit 0' TERM; sleep 100 & wait"));
        assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
        payload(bench);
        wrapper.signal(Signal::TERM);
        assert_told_to_batch_system(bench, wrapper);
        assert_eq!(bench.exit(), Some(ExitCause::Terminated));
        assert!(!bench.path("ended").exists());
    });
}

/// At the gate and while its payload runs; and nothing of that outlives it.
#[test]
fn a_wrapper_shows_that_it_is_there_until_it_ends() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate_with(&["batch"], &script("exec sleep 100"));
        let sign = || fs::read_to_string(bench.path("live")).unwrap_or_default();
        let mut seen = String::new();
        let mut await_sign = || {
            bench.await_file("live", |bytes| {
                bytes.ends_with(b"\n") && bytes != seen.as_bytes()
            });
            seen = sign();
        };
        await_sign();
        assert_eq!(bench.decide(GateState::Opened), GateState::Opened);
        payload(bench);
        await_sign();
        let group = wrapper.id();
        wrapper.signal(Signal::TERM);
        assert_told_to_batch_system(bench, wrapper);
        await_end_of_group(group);
    });
}

/// Somebody who ends a wrapper ends no more than that.
#[test]
fn a_wrapper_that_is_killed_shows_no_more_that_it_is_there() {
    with_each_shell(|bench| {
        let wrapper = bench.at_gate_with(&["batch"], &script("exit 0"));
        let group = wrapper.id();
        wrapper.signal(Signal::KILL);
        assert!(!wrapper.wait().success());
        await_end_of_group(group);
    });
}

fn await_end_of_group(group: u32) {
    let group = Pid::from_raw(group.try_into().unwrap()).unwrap();
    let started = Instant::now();
    while test_kill_process_group(group).is_ok() {
        assert!(started.elapsed() < PATIENCE, "something goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
