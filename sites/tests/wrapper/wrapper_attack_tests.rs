//! Payloads that write what their wrapper writes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use cospan_domain::ids::Attempt;
use cospan_sites::port::ExitCause;
use rustix::process::{Pid, Signal, kill_process};

use super::bench::{Bench, script, shells, with_each_shell};
use crate::unprivileged::unprivileged;

/// Lets a payload end that waits for this.
const UNTIL_STOPPED: &str = "while ! [ -e stop ]; do sleep 0.02; done;";

#[test]
fn an_end_that_a_payload_wrote_counts_for_nothing_and_is_replaced() {
    with_each_shell(|bench| {
        let forged = r"printf 'cause code 0\nran 1\nend %s\n' $COSPAN_TAG > ../exit; echo forged;";
        let wrapper = bench.running(&script(&format!("{forged} {UNTIL_STOPPED} exit 3")));
        bench.await_printed("forged");
        assert!(bench.path("exit").exists());
        assert_eq!(bench.exit(), None);
        fs::write(bench.path("work/stop"), "").unwrap();
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(3)));
    });
}

#[test]
fn no_payload_finds_the_words_that_end_an_attempt() {
    with_each_shell(|bench| {
        let search = "cat ../* ../../../spool/*/* /proc/$PPID/environ /proc/$PPID/cmdline; env; \
                      for n in /proc/$PPID/fd/*; do cat < $n & done 2> /dev/null; sleep 0.1; \
                      echo searched; kill $(jobs -p)";
        let command = script(search);
        bench.prepare(&command);
        let params = fs::read_to_string(bench.spool().join("params")).unwrap();
        let words: Vec<&str> = params.lines().next().unwrap().split(' ').collect();
        assert_eq!((words[0], words.len()), ("words", 3));
        bench.running(&command).wait();
        let printed = String::from_utf8_lossy(&bench.printed()).into_owned();
        assert!(printed.contains("searched"));
        assert!(
            !words[1..].iter().any(|word| printed.contains(word)),
            "{printed}"
        );
    });
}

/// What payloads put in the place of state files, or do to their directory.
const OBSTACLES: [&str; 10] = [
    "mkdir -p ../exit/full",
    "ln -s /nowhere ../exit",
    "ln -s /dev/full ../exit",
    "mkfifo ../exit",
    "echo cut short > ../exit; chmod 000 ../exit",
    "rm ../begun",
    "rm ../begun; mkdir ../begun",
    "rm ../begun; ln -s /nowhere ../begun",
    "rm ../ready ../decision; mkdir ../ready ../decision",
    "chmod 000 ..",
];

#[test]
fn whatever_a_payload_does_to_the_files_its_own_end_is_told() {
    unprivileged(|| {
        for shell in shells() {
            let bench = Bench::anywhere(shell);
            for obstacle in OBSTACLES {
                assert!(
                    bench
                        .running(&script(&format!("{obstacle}; exit 3")))
                        .wait()
                        .success()
                );
                assert_eq!(bench.exit(), Some(ExitCause::Code(3)), "after {obstacle:?}");
                bench.clear();
            }
        }
    });
}

/// Leaves a process in a session of its own, whose number is in `left`.
const LEAVES: &str = "setsid sh -c 'echo $$ > left; exec sleep 300' & \
                      until [ -s left ]; do sleep 0.01; done;";

fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn left(bench: &Bench, file: &str) -> u32 {
    fs::read_to_string(bench.path("work").join(file))
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn what_left_its_session_is_over_before_its_payload_is_called_over() {
    with_each_shell(|bench| {
        // Soon after the start, long after it, and behind many others.
        let behind = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do \
                      $(:)$(:)$(:)$(:)$(:)$(:)$(:)$(:)$(:)$(:); done";
        for rest in [":", "sleep 2", behind] {
            bench
                .running(&script(&format!("{LEAVES} {rest}; exit 4")))
                .wait();
            assert_eq!(bench.exit(), Some(ExitCause::Code(4)));
            assert!(!is_there(left(bench, "left")), "after {rest:?}");
            bench.clear();
        }
    });
}

#[test]
fn what_a_process_left_that_was_left_itself_is_found_too() {
    with_each_shell(|bench| {
        let chain = "setsid sh -c 'setsid sh -c \"echo \\$\\$ > inner; exec sleep 300\" & \
                     echo $$ > outer; sleep 300; :' & until [ -s inner ] && [ -s outer ]; do sleep 0.01; done";
        bench.running(&script(chain)).wait();
        assert!(!is_there(left(bench, "outer")) && !is_there(left(bench, "inner")));
    });
}

#[test]
fn what_another_attempt_left_is_not_touched() {
    with_each_shell(|bench| {
        let directory = bench.path("").display().to_string();
        let other = |attempt: String| {
            let mut command = std::process::Command::new("setsid");
            command.args(["--fork", "sh", "-c", "echo $$; exec sleep 300"]);
            command
                .env("COSPAN_ATTEMPT_DIR", attempt)
                .env("A_LAST_ONE", "1");
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            child.wait().unwrap();
            line.trim().parse::<u32>().unwrap()
        };
        let directory = directory.trim_end_matches('/');
        let others = [format!("{directory}7"), "/elsewhere".to_owned()].map(other);
        let wrapper = bench.running(&script(&format!("{LEAVES} sleep 2")));
        let later = [format!("{directory}0"), String::new()].map(other);
        wrapper.wait();
        assert!(!is_there(left(bench, "left")));
        for pid in others.into_iter().chain(later) {
            assert!(is_there(pid));
            kill_process(
                Pid::from_raw(pid.try_into().unwrap()).unwrap(),
                Signal::KILL,
            )
            .unwrap();
        }
    });
}

/// Its wrapper could not end it, because it was killed.
#[test]
fn what_an_earlier_attempt_left_is_over_before_the_next_one_runs() {
    for shell in shells() {
        let mut bench = Bench::new(shell);
        let first = bench.running(&script(&format!("{LEAVES} sleep 300")));
        bench.await_file("work/left", |bytes| bytes.ends_with(b"\n"));
        first.signal(Signal::KILL);
        first.wait();
        let left = [left(&bench, "left"), bench.payload()];
        assert_eq!(left.map(is_there), [true, true]);
        bench.tag.attempt = Attempt(2);
        let [one, other] = left;
        // What nobody has waited for yet is over, too.
        let looks = format!("cat /proc/{one}/stat /proc/{other}/stat | grep -v ') Z '; exit 0");
        bench.running(&script(&looks)).wait();
        assert_eq!(
            (bench.exit(), bench.printed()),
            (Some(ExitCause::Code(0)), Vec::new())
        );
    }
}
