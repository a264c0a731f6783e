//! Sessions whose other end is a shell of this machine: what they promise needs no network.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use tokio::time::Instant;

use super::session::{SshSession, pipe_streams};
use crate::exec::{
    CommandChannel, CommandExit, CommandOutput, ExecCommand, ExecError, ProgramOrScript,
};

const ODD: [&str; 14] = [
    "",
    " ",
    "-n",
    "--",
    "a b",
    "'",
    "\"",
    "$HOME",
    "$(touch pwned)",
    "`id`",
    "\\",
    "\n",
    "two\nlines\n",
    "ä\u{81}\u{88} *",
];

async fn open_session_after(start_files: &str, lane: CommandChannel) -> SshSession {
    let mut shell = tokio::process::Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(format!("{start_files}\nexec /bin/sh -s"))
        .kill_on_drop(true)
        .process_group(0);
    let child = pipe_streams(&mut shell).spawn().unwrap();
    SshSession::start(child, lane, "sh", Duration::from_secs(20))
        .await
        .unwrap()
}

async fn open_session(lane: CommandChannel) -> SshSession {
    open_session_after("", lane).await
}

fn make_command(work: ProgramOrScript) -> ExecCommand {
    ExecCommand {
        work,
        lane: CommandChannel::Control,
        input: Vec::new(),
        environment: BTreeMap::new(),
        deadline: Duration::from_secs(20),
        output_max: 1 << 20,
    }
}

fn script(text: &str, words: &[&str]) -> ExecCommand {
    let words = words.iter().map(OsString::from).collect();
    make_command(ProgramOrScript::Script {
        text: text.into(),
        words,
    })
}

fn program(words: &[&str]) -> ExecCommand {
    make_command(ProgramOrScript::Program(
        words.iter().map(OsString::from).collect(),
    ))
}

async fn run_in_session(
    session: &SshSession,
    command: ExecCommand,
) -> Result<CommandOutput, ExecError> {
    let until = Instant::now() + command.deadline;
    session.run_command(command, until).await
}

async fn run_and_read_stdout(session: &SshSession, command: ExecCommand) -> Vec<u8> {
    let output = run_in_session(session, command).await.unwrap();
    assert_eq!(output.ended, CommandExit::Code(0), "{output:?}");
    output.stdout
}

#[tokio::test]
async fn words_arrive_byte_for_byte_and_no_shell_reads_them() {
    let expected: String = ODD.iter().map(|word| format!("<{word}>")).collect();
    for lane in [CommandChannel::Control, CommandChannel::Bulk] {
        let session = open_session(lane).await;
        let words: Vec<&str> = ["printf", "<%s>"].into_iter().chain(ODD).collect();
        let got = run_and_read_stdout(&session, program(&words)).await;
        assert_eq!(String::from_utf8(got).unwrap(), expected);
        let got = run_and_read_stdout(&session, script("printf '<%s>' \"$@\"", &ODD)).await;
        assert_eq!(String::from_utf8(got).unwrap(), expected);
        let mut reader = program(&["printenv", "ODD"]);
        reader.environment.insert("ODD".into(), ODD.concat().into());
        assert_eq!(
            run_and_read_stdout(&session, reader).await,
            (ODD.concat() + "\n").into_bytes()
        );
        let mut cat = program(&["cat"]);
        cat.input = ODD.concat().into_bytes();
        assert_eq!(
            run_and_read_stdout(&session, cat).await,
            ODD.concat().into_bytes()
        );
    }
}

#[tokio::test]
async fn what_start_files_print_is_passed_over() {
    let noise =
        "echo Welcome; echo ready N; printf 'answer 1 0 3\\nyes'; echo odd >&2; export IFS=x";
    for lane in [CommandChannel::Control, CommandChannel::Bulk] {
        let session = open_session_after(noise, lane).await;
        assert_eq!(
            run_and_read_stdout(&session, program(&["echo", "a"])).await,
            b"a\n"
        );
    }
}

#[tokio::test]
async fn start_files_that_leave_are_told_with_what_they_said() {
    let mut shell = tokio::process::Command::new("/bin/sh");
    shell.args(["-c", "echo 'This account is closed.'; exit 1"]);
    let child = pipe_streams(&mut shell).spawn().unwrap();
    let why = SshSession::start(
        child,
        CommandChannel::Control,
        "sh",
        Duration::from_secs(20),
    )
    .await
    .unwrap_err();
    assert!(why.contains("This account is closed."), "{why}");
}

#[tokio::test]
async fn answers_of_many_at_once_are_told_apart() {
    let session = open_session(CommandChannel::Control).await;
    let text = "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); echo \"line $1 of many\"; done";
    let asked: Vec<_> = (0..60)
        .map(|number: u32| {
            let session = session.clone();
            tokio::spawn(async move {
                let got = run_and_read_stdout(&session, script(text, &[&number.to_string()])).await;
                assert_eq!(
                    got,
                    format!("line {number} of many\n").repeat(300).into_bytes()
                );
            })
        })
        .collect();
    for one in asked {
        one.await.unwrap();
    }
}

#[tokio::test]
async fn contents_of_any_bytes_go_both_ways_whether_they_are_read_or_not() {
    let session = open_session(CommandChannel::Bulk).await;
    let bytes: Vec<u8> = (0..700_000_u32)
        .map(|n| (n.wrapping_mul(n) >> 5) as u8)
        .collect();
    for (words, expected) in [(["cat", "-"], &bytes[..]), (["true", "-"], &[][..])] {
        let mut command = program(&words);
        command.input = bytes.clone();
        assert!(run_and_read_stdout(&session, command).await == expected);
    }
    let output = run_in_session(&session, script("cat > /dev/null; exit 7", &[]))
        .await
        .unwrap();
    assert_eq!(output.ended, CommandExit::Code(7));
}

#[tokio::test]
async fn too_much_output_is_an_error_and_the_session_goes_on() {
    let session = open_session(CommandChannel::Control).await;
    let mut loud = program(&["printf", "%s", "more than ten bytes"]);
    loud.output_max = 10;
    assert!(matches!(
        run_in_session(&session, loud).await,
        Err(ExecError::PerhapsDone(_))
    ));
    assert_eq!(
        run_and_read_stdout(&session, program(&["echo", "a"])).await,
        b"a\n"
    );
}

#[tokio::test]
async fn what_ran_when_the_session_died_is_perhaps_done_and_the_rest_is_not_started() {
    let session = open_session(CommandChannel::Control).await;
    let other = session.clone();
    let waits = tokio::spawn(async move { run_in_session(&other, script("sleep 10", &[])).await });
    // It is under way when another one is answered that was asked later.
    run_and_read_stdout(&session, program(&["echo", "a"])).await;
    let killed = run_in_session(&session, script("kill -9 0; sleep 10", &[])).await;
    assert!(
        matches!(killed, Err(ExecError::PerhapsDone(_))),
        "{killed:?}"
    );
    assert!(matches!(
        waits.await.unwrap(),
        Err(ExecError::PerhapsDone(_))
    ));
    let later = run_in_session(&session, program(&["true"])).await;
    assert!(matches!(later, Err(ExecError::NotStarted(_))), "{later:?}");
    assert!(!session.is_up());
}

#[tokio::test]
async fn a_session_that_says_nothing_until_a_deadline_is_given_up() {
    let session = open_session(CommandChannel::Control).await;
    let mut stops = script("kill -STOP $$", &[]);
    stops.deadline = Duration::from_millis(500);
    // Answers itself, or not; what comes next is not answered.
    let _ = run_in_session(&session, stops).await;
    let mut asks = program(&["true"]);
    asks.deadline = Duration::from_millis(500);
    assert!(run_in_session(&session, asks.clone()).await.is_err());
    while session.is_up() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(
        run_in_session(&session, asks).await,
        Err(ExecError::NotStarted(_))
    ));
}

#[tokio::test]
async fn one_that_hangs_does_not_end_a_session_that_answers_others() {
    let session = open_session(CommandChannel::Control).await;
    let mut hangs = script("sleep 3", &[]);
    hangs.deadline = Duration::from_millis(500);
    let other = session.clone();
    let hanging = tokio::spawn(async move { run_in_session(&other, hangs).await });
    while !hanging.is_finished() {
        run_and_read_stdout(&session, program(&["true"])).await;
    }
    assert!(matches!(
        hanging.await.unwrap(),
        Err(ExecError::PerhapsDone(_))
    ));
    assert!(session.is_up());
}
