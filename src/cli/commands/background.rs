//! `cospan serve --background`, which returns once the server answers, and `cospan stop`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use cospan_server::data_directory;
use cospan_server::serve::server_file::RunningServerInfo;

/// The name of the server's log, in the data directory.
const LOG: &str = "server.log";
/// Longest wait until the server answers: it takes a while to read a large store.
const READY_MAX: Duration = Duration::from_secs(120);
/// Longest wait for the sites once the server answers.
const SITES_MAX: Duration = Duration::from_secs(2);
/// Longest wait until the server has ended; it gives itself ten seconds.
const STOP_MAX: Duration = Duration::from_secs(30);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Starts the server as a process that outlives the terminal, and waits until it answers.
pub(crate) fn start_background(
    context: &mut CommandContext,
    data: &Path,
) -> Result<CliExitCode, CliError> {
    data_directory::prepare_data_directory(data)
        .map_err(|error| CliError::usage_error(error.to_string(), "`cospan doctor` tells more"))?;
    if let Some(running) = find_running(data)? {
        return print_running(
            context,
            data,
            &running,
            "a server already runs here and answers",
        );
    }
    let file = data.join(LOG);
    let mut log = open_log(data).map_err(|error| CliError::file_error("open", &file, &error))?;
    let begin = log
        .seek(SeekFrom::End(0))
        .map_err(|error| CliError::file_error("read", &file, &error))?;
    let mut child = spawn_detached(&log)?;
    let begun = Instant::now();
    loop {
        match find_running(data)? {
            Some(running) if running.process == child.id() => {
                wait_for_sites(context);
                return print_running(context, data, &running, "the server answers");
            }
            _ => fail_if_ended(&mut child, &mut log, begin)?,
        }
        if begun.elapsed() > READY_MAX {
            return Err(CliError::usage_error(
                format!(
                    "the server (process {}) does not answer after {} s",
                    child.id(),
                    READY_MAX.as_secs()
                ),
                format!("see its log: {}", file.display()),
            ));
        }
        std::thread::sleep(LOOK);
    }
}

/// Opens the log of a server in the background, or makes it.
pub(super) fn open_log(data: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true).mode(0o600);
    options.open(data.join(LOG))
}

/// Waits a little for the first report of each site, so that a `site list` right afterwards does
/// not show them as unknown. A site that does not answer delays nobody.
fn wait_for_sites(context: &CommandContext) {
    if context.names_server() {
        return;
    }
    let begun = Instant::now();
    while let Ok(client) = context.client()
        && client
            .list_sites()
            .is_ok_and(|list| list.sites.iter().any(|site| site.state == "unknown"))
        && begun.elapsed() < SITES_MAX
    {
        std::thread::sleep(LOOK);
    }
}

/// Starts this program with the same arguments, but as the leader of its own session.
fn spawn_detached(log: &File) -> Result<Child, CliError> {
    let program = std::env::current_exe().map_err(report_failure)?;
    let arguments = std::env::args_os()
        .skip(1)
        .filter(|argument| argument != "--background");
    Command::new(program)
        .args(arguments)
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.try_clone().map_err(report_failure)?)
        .spawn()
        .map_err(report_failure)
}

fn report_failure(error: std::io::Error) -> CliError {
    CliError::usage_error(
        format!("cannot start the server: {error}"),
        "run `cospan serve`",
    )
}

/// Fails with the process's own message if it has ended.
fn fail_if_ended(child: &mut Child, log: &mut File, begin: u64) -> Result<(), CliError> {
    let Ok(Some(status)) = child.try_wait() else {
        return Ok(());
    };
    let mut said = Vec::new();
    let read = log
        .seek(SeekFrom::Start(begin))
        .and_then(|_| log.read_to_end(&mut said));
    let said = read
        .map(|_| String::from_utf8_lossy(&said).into_owned())
        .unwrap_or_default();
    let message = format!(
        "the server ended while it started ({status})\n\n{}",
        said.trim_end()
    );
    Err(CliError {
        exit: CliExitCode::Usage,
        message,
        remedy: None,
        quiet: false,
    })
}

fn find_running(data: &Path) -> Result<Option<RunningServerInfo>, CliError> {
    RunningServerInfo::find_running(data)
        .map_err(|error| CliError::file_error("look into", data, &error))
}

fn print_running(
    context: &mut CommandContext,
    data: &Path,
    running: &RunningServerInfo,
    what: &str,
) -> Result<CliExitCode, CliError> {
    let process: u32 = running.process;
    let log: PathBuf = data.join(LOG);
    let answer = json!({ "process": process, "addresses": running.addresses, "log": log });
    context.out.print_answer(&answer, |_| {
        let address = running.addresses.join(" and ");
        format!(
            "{what} at {address} (process {process})\n  log   {}\n  stop  cospan stop\n",
            log.display()
        )
    })?;
    Ok(CliExitCode::Done)
}

/// Stops the server that works with the configured data directory, and waits for its end.
pub(crate) fn stop_server(context: &mut CommandContext) -> Result<CliExitCode, CliError> {
    let located = context.config()?;
    let data = located.loaded.config.data_directory(&context.environment);
    let Some(RunningServerInfo { process, .. }) = find_running(&data)? else {
        let remedy = "name its configuration with --config or COSPAN_CONFIG";
        let message = format!(
            "no server runs here with the data directory {}",
            data.display()
        );
        let remedy = Some(remedy.to_owned());
        return Err(CliError {
            exit: CliExitCode::Unreachable,
            message,
            remedy,
            quiet: false,
        });
    };
    send_end_signal(process)?;
    let begun = Instant::now();
    while find_running(&data)?.is_some_and(|running| running.process == process) {
        if begun.elapsed() > STOP_MAX {
            return Err(CliError::usage_error(
                format!(
                    "the server (process {process}) has not ended after {} s",
                    STOP_MAX.as_secs()
                ),
                format!("end it at once with: kill -9 {process}; nothing durable is lost"),
            ));
        }
        std::thread::sleep(LOOK);
    }
    context
        .out
        .print_answer(&json!({ "stopped": process }), |_| {
            format!("the server (process {process}) has ended; what runs at the sites goes on\n")
        })?;
    Ok(CliExitCode::Done)
}

fn send_end_signal(process: u32) -> Result<(), CliError> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    match pid.map(|pid| kill_process(pid, Signal::TERM)) {
        // It ended by itself in the meantime.
        Some(Ok(()) | Err(Errno::SRCH)) | None => Ok(()),
        Some(Err(error)) => Err(CliError::usage_error(
            format!("cannot stop the server (process {process}): {error}"),
            "run this as the user that runs the server",
        )),
    }
}
