//! What a payload is told: its end beforehand, the others, and what was there before it.

use std::fs;

use cospan_domain::ids::Attempt;
use cospan_domain::runner::{EndWarning, PayloadSignal, SignalReceiver};
use cospan_domain::units::DurationMs;
use cospan_sites::port::{ExitCause, GateState, RoundPeer};
use rustix::process::Signal;

use super::bench::{Bench, go, our_tag, script, shells, with_each_shell};

fn warned(shell: Vec<String>, wall_s: u64, before_s: u64) -> Bench {
    let mut bench = Bench::new(shell);
    bench.pace.wall_time = DurationMs::from_secs(wall_s);
    let signal = PayloadSignal::Usr1;
    let before = DurationMs::from_secs(before_s);
    let to = SignalReceiver::Payload;
    bench.pace.warning = Some(EndWarning { signal, before, to });
    bench
}

#[test]
fn a_warning_comes_before_the_wall_time_and_ends_nothing_by_itself() {
    for shell in shells() {
        let bench = warned(shell, 5, 2);
        // It starts nothing while it waits: what a shell has just forked would run its trap, too.
        // Its trap takes a while, so that a second signal would be seen as one.
        let text = "mkfifo door; exec 3<> door; \
                    trap 'n=0; while [ $n -lt 2000 ]; do n=$((n + 1)); done; echo warned' USR1; \
                    trap 'echo asked; exit 0' TERM; \
                    while :; do read word <&3; done";
        assert!(bench.running(&script(text)).wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::WallTime));
        assert_eq!(bench.printed(), b"warned\nasked\n");
    }
}

#[test]
fn a_warning_of_the_script_alone_reaches_none_of_its_children() {
    for shell in shells() {
        let mut bench = warned(shell, 5, 2);
        if let Some(warning) = &mut bench.pace.warning {
            warning.to = SignalReceiver::Script;
        }
        let text = "sh -c 'trap \"echo child\" USR1; while :; do sleep 0.05; done' & \
                    trap 'echo warned' USR1; trap 'echo asked; exit 0' TERM; \
                    while :; do sleep 0.05; done";
        assert!(bench.running(&script(text)).wait().success());
        assert_eq!(bench.printed(), b"warned\nasked\n");
    }
}

#[test]
fn a_payload_that_ends_when_it_is_warned_ends_in_its_own_way() {
    for shell in shells() {
        let bench = warned(shell, 300, 299);
        let text = "trap 'echo saved; exit 9' USR1; echo begun; while :; do sleep 0.05; done";
        let wrapper = bench.running(&script(text));
        assert!(wrapper.wait().success());
        assert_eq!(bench.exit(), Some(ExitCause::Code(9)));
        assert_eq!(bench.printed(), b"begun\nsaved\n");
    }
}

#[test]
fn the_wall_time_holds_also_if_the_warning_is_due_at_once() {
    for shell in shells() {
        let bench = warned(shell, 1, 1);
        assert!(
            bench
                .running(&script("trap '' USR1; sleep 300"))
                .wait()
                .success()
        );
        // The signal may come before the shell has begun to ignore it.
        let causes = [ExitCause::WallTime, ExitCause::Signal(10)];
        assert!(bench.exit().is_some_and(|cause| causes.contains(&cause)));
    }
}

fn with_peers(bench: &Bench, lists_hosts: bool) -> String {
    with_peers_at(bench, lists_hosts, [("n17", 8), ("fs3.leiden", 2)])
}

fn with_peers_at(bench: &Bench, lists_hosts: bool, at: [(&str, u32); 2]) -> String {
    let mut command = script(
        "echo $COSPAN_RANK of $COSPAN_SIZE by $COSPAN_HOSTS; \
         echo $COSPAN_LEADER; cat $COSPAN_HOSTS_FILE < /dev/null",
    );
    command.lists_hosts = lists_hosts;
    let mut go = go();
    go.rank.0 = 1;
    let peer = |site: &str, host: &str, processors| RoundPeer {
        attempt: Attempt(4),
        site: site.parse().unwrap(),
        host: host.into(),
        processors,
    };
    let [delft, leiden] = at;
    go.peers = vec![
        peer("delft", delft.0, delft.1),
        peer("leiden", leiden.0, leiden.1),
    ];
    let wrapper = bench.at_gate(&command);
    assert_eq!(bench.decide_as(GateState::Opened, &go), GateState::Opened);
    wrapper.signal(Signal::USR2);
    assert!(wrapper.wait().success());
    String::from_utf8(bench.printed()).unwrap()
}

#[test]
fn a_parallel_program_finds_all_components_in_a_file_by_rank() {
    with_each_shell(|bench| {
        let printed = with_peers(bench, true);
        let expected = "1 of 2 by n17,fs3.leiden\nn17\nn17 8 delft 0\nfs3.leiden 2 leiden 1\n";
        assert_eq!(printed, expected);
    });
}

#[test]
fn all_nodes_of_a_component_are_told_each_with_its_share() {
    with_each_shell(|bench| {
        let printed = with_peers_at(bench, true, [("n[08-10,3]-ib", 6), ("login,c1", 3)]);
        let told = "1 of 2 by n08-ib+n09-ib+n10-ib+n3-ib,login+c1\nn08-ib\n";
        let listed = "n08-ib 2 delft 0\nn09-ib 2 delft 0\nn10-ib 1 delft 0\nn3-ib 1 delft 0\n\
                      login 2 leiden 1\nc1 1 leiden 1\n";
        assert_eq!(printed, format!("{told}{listed}"));
    });
}

#[test]
fn a_list_of_nodes_that_is_none_comes_to_an_end() {
    for odd in [
        "n[1-",
        "n[",
        "[]",
        "n[a-z]",
        ",,[,",
        "n[5-2]",
        "n]1[",
        "n[1-999999999999]",
    ] {
        with_each_shell(|bench| {
            let printed = with_peers_at(bench, true, [(odd, 6), ("c1", 3)]);
            assert!(printed.ends_with("c1 3 leiden 1\n"), "{odd}: {printed}");
        });
    }
}

#[test]
fn a_program_that_asked_for_no_file_gets_none() {
    with_each_shell(|bench| {
        assert_eq!(with_peers(bench, false), "1 of 2 by n17,fs3.leiden\n\n");
        assert!(!bench.path("hosts").exists());
    });
}

#[test]
fn a_restarted_program_is_told_what_is_there_of_an_earlier_attempt() {
    with_each_shell(|bench| {
        let mut earlier = our_tag();
        earlier.attempt = Attempt(77);
        let mut command = script("cat ${COSPAN_EARLIER_DIR:-/nowhere}/state || echo nothing");
        command.earlier = Some(earlier);
        bench.running(&command).wait();
        assert_eq!(bench.printed(), b"nothing\n");
        bench.clear();
        let left = bench.path("..").join(earlier.to_string()).join("work");
        fs::create_dir_all(bench.path("")).unwrap();
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("state"), "step 400\n").unwrap();
        fs::remove_dir(bench.path("")).unwrap();
        bench.running(&command).wait();
        assert_eq!(bench.printed(), b"step 400\n");
    });
}
