//! Commands of a site that this machine is part of, run as child processes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};

use super::{CommandExecutor, CommandExit, CommandOutput, ExecCommand, ExecError, ProgramOrScript};

/// Variables of ours that a command gets as well: where programs are, who we are, which cluster is
/// meant. Our other variables are none of its business, and some of them would change what the
/// commands of batch systems do.
const INHERITED: [&str; 7] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "KRB5CCNAME",
    "SLURM_CONF",
    "TZ",
];

/// The most that is kept of standard error, in bytes.
const STDERR_MAX: usize = 16 << 10;

/// The longest that output may go on after the command's end: a process that it
/// started may hold it open.
const AFTER_END: Duration = Duration::from_secs(1);

/// Runs commands as child processes, each in a process group of its own.
#[derive(Debug)]
pub struct ChildProcessExecutor {
    environment: BTreeMap<OsString, OsString>,
}

impl ChildProcessExecutor {
    /// Takes over those variables of this process that a command needs.
    pub fn with_process_environment() -> Self {
        let inherited = INHERITED
            .iter()
            .filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
        Self {
            environment: inherited.collect(),
        }
    }

    fn spawn_group(&self, command: &ExecCommand) -> Result<ProcessGroup, ExecError> {
        let argv = command_line(&command.work);
        let [program, arguments @ ..] = &argv[..] else {
            return Err(ExecError::NotStarted("there is no command".to_owned()));
        };
        let child = tokio::process::Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .envs(&command.environment)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        child.map(ProcessGroup).map_err(|error| {
            ExecError::NotStarted(format!("{} cannot be run: {error}", program.display()))
        })
    }
}

fn command_line(work: &ProgramOrScript) -> Cow<'_, [OsString]> {
    match work {
        ProgramOrScript::Program(argv) => Cow::Borrowed(argv),
        ProgramOrScript::Script { text, words } => {
            let shell = ["/bin/sh", "-c", text, "script"].map(OsString::from);
            Cow::Owned(shell.into_iter().chain(words.iter().cloned()).collect())
        }
    }
}

/// A child and the processes that it started. Dropping it ends them.
struct ProcessGroup(Child);

impl ProcessGroup {
    /// Kills the group. Only while nobody has waited for the child is the number certainly its own.
    fn kill_group(&self) {
        let id = self
            .0
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(group) = id {
            // The only failure is that no process is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_group();
    }
}

#[async_trait]
impl CommandExecutor for ChildProcessExecutor {
    fn ends_overdue(&self) -> bool {
        true
    }

    async fn run(&self, command: ExecCommand) -> Result<CommandOutput, ExecError> {
        let mut group = self.spawn_group(&command)?;
        let stdin = group.0.stdin.take();
        let stdout = group.0.stdout.take();
        let stderr = group.0.stderr.take();
        let attended = async {
            let mut kept = (Vec::new(), Vec::new());
            let status = {
                let reads = async {
                    tokio::try_join!(
                        read_output(
                            stdout,
                            &mut kept.0,
                            command.output_max,
                            ExcessOutputRule::Refused
                        ),
                        read_output(stderr, &mut kept.1, STDERR_MAX, ExcessOutputRule::Dropped),
                        write_input(stdin, &command.input),
                    )
                };
                wait_for_end(&mut group.0, reads).await?
            };
            Ok::<_, io::Error>((status, kept))
        };
        match tokio::time::timeout(command.deadline, attended).await {
            Ok(Ok((status, (stdout, stderr)))) => match exit_from_status(status) {
                Some(ended) => Ok(CommandOutput {
                    ended,
                    stdout,
                    stderr,
                }),
                None => Err(ExecError::PerhapsDone(format!(
                    "it ended in an unknown way: {status}"
                ))),
            },
            Ok(Err(error)) => Err(ExecError::PerhapsDone(error.to_string())),
            Err(_) => Err(ExecError::PerhapsDone(format!(
                "no answer within {:?}",
                command.deadline
            ))),
        }
    }
}

fn exit_from_status(status: ExitStatus) -> Option<CommandExit> {
    status
        .code()
        .map(CommandExit::Code)
        .or_else(|| status.signal().map(CommandExit::Signal))
}

/// Waits for the child while its output is read. Processes that it left behind may print a moment
/// longer, and are not waited for.
async fn wait_for_end<T>(
    child: &mut Child,
    reads: impl Future<Output = io::Result<T>>,
) -> io::Result<ExitStatus> {
    tokio::pin!(reads);
    let status = tokio::select! {
        biased;
        read = &mut reads => {
            read?;
            return child.wait().await;
        }
        status = child.wait() => status?,
    };
    match tokio::time::timeout(AFTER_END, reads).await {
        Ok(read) => read.map(|_| status),
        Err(_) => Ok(status),
    }
}

/// The treatment of output beyond its bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExcessOutputRule {
    Refused,
    Dropped,
}

async fn read_output(
    from: Option<impl AsyncRead + Unpin>,
    kept: &mut Vec<u8>,
    most: usize,
    excess: ExcessOutputRule,
) -> io::Result<()> {
    let Some(mut from) = from else { return Ok(()) };
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let fits = length.min(most - kept.len());
        kept.extend_from_slice(&buffer[..fits]);
        if fits < length && excess == ExcessOutputRule::Refused {
            return Err(io::Error::other(format!(
                "it printed more than {most} bytes"
            )));
        }
    }
}

/// Writes the input. A command that ends without having read all of it had its reasons.
async fn write_input(to: Option<ChildStdin>, bytes: &[u8]) -> io::Result<()> {
    let Some(mut to) = to else { return Ok(()) };
    match to.write_all(bytes).await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::exec::CommandChannel;

    fn shell_command(text: &str, input: &[u8]) -> ExecCommand {
        ExecCommand {
            work: ProgramOrScript::Script {
                text: text.into(),
                words: Vec::new(),
            },
            lane: CommandChannel::Control,
            input: input.to_vec(),
            environment: BTreeMap::new(),
            deadline: Duration::from_secs(20),
            output_max: 1 << 20,
        }
    }

    async fn run(command: ExecCommand) -> Result<CommandOutput, ExecError> {
        ChildProcessExecutor::with_process_environment()
            .run(command)
            .await
    }

    #[tokio::test]
    async fn what_goes_in_comes_out_whatever_its_size() {
        let input = vec![b'x'; 700_000];
        let output = run(shell_command("cat; echo odd >&2; exit 3", &input))
            .await
            .unwrap();
        assert_eq!(output.ended, CommandExit::Code(3));
        assert_eq!((output.stdout, &output.stderr[..]), (input, &b"odd\n"[..]));
    }

    #[tokio::test]
    async fn input_that_nobody_reads_is_no_error() {
        let output = run(shell_command("exit 0", &vec![b'x'; 700_000]))
            .await
            .unwrap();
        assert_eq!(output.ended, CommandExit::Code(0));
        assert_eq!(
            run(shell_command("kill -9 $$", b"")).await.unwrap().ended,
            CommandExit::Signal(9)
        );
    }

    #[tokio::test]
    async fn a_deadline_ends_the_whole_group_and_leaves_the_outcome_open() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("late");
        let mut late = shell_command(
            &format!("(sleep 2; : > {}) & sleep 60", file.display()),
            b"",
        );
        late.deadline = Duration::from_millis(300);
        let started = Instant::now();
        assert!(matches!(run(late).await, Err(ExecError::PerhapsDone(_))));
        assert!(started.elapsed() < Duration::from_secs(2));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!file.exists(), "a process of its group lived on");
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_is_not_waited_for() {
        let started = Instant::now();
        let output = run(shell_command("echo here; sleep 30 & exit 0", b""))
            .await
            .unwrap();
        assert_eq!(
            (output.ended, &output.stdout[..]),
            (CommandExit::Code(0), &b"here\n"[..])
        );
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn too_much_output_is_an_error_and_too_many_words_of_error_are_dropped() {
        let mut loud = shell_command("yes", b"");
        loud.output_max = 1_000;
        assert!(matches!(run(loud).await, Err(ExecError::PerhapsDone(_))));
        let output = run(shell_command("yes | head -c 100000 >&2", b""))
            .await
            .unwrap();
        assert_eq!(output.stderr.len(), STDERR_MAX);
    }

    #[tokio::test]
    async fn what_is_not_there_was_not_started() {
        let mut missing = shell_command("", b"");
        missing.work = ProgramOrScript::Program(vec!["/no/such/program".into()]);
        assert!(matches!(run(missing).await, Err(ExecError::NotStarted(_))));
    }
}
