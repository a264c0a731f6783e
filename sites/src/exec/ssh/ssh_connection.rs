//! The connection that all sessions of a site share.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::SshConfig;
use super::client_stderr::SshClientStderr;
use super::session::pipe_streams;
use super::ssh_problem::SshProblem;

/// Variables of ours that the client needs: where programs and keys are, who we are.
const INHERITED: [&str; 8] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "SSH_AUTH_SOCK",
    "KRB5CCNAME",
    "TZ",
];

/// Options of the connection that hold whatever the user's configuration says: nobody is there to
/// answer questions, a dead line is noticed, and nothing is forwarded.
const CONNECTION: [&str; 8] = [
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlPersist=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ForkAfterAuthentication=no",
];

/// Options of a session. It never makes a connection of its own, where those above would not hold.
const SESSION: [&str; 4] = [
    "BatchMode=yes",
    "ControlMaster=no",
    "ProxyCommand=false",
    "ClearAllForwardings=yes",
];

/// The pause between two looks for the socket.
const LOOK: Duration = Duration::from_millis(20);

/// The longest that the client may take to talk to its own master.
const LOCAL: Duration = Duration::from_secs(5);

/// A connection that is up, or was.
#[derive(Debug)]
pub(super) struct SshMasterConnection {
    /// `None` if others made it: an earlier server, or people to whom it asked a question.
    child: Option<Child>,
}

impl SshMasterConnection {
    /// Joins the connection that is there, or makes one.
    pub(super) async fn connect(config: &SshConfig) -> Result<Self, SshProblem> {
        if send_control_command(config, "check").await {
            return Ok(Self { child: None });
        }
        let made = remove_socket(&config.socket).and_then(|()| {
            let mut command = client_command(config);
            add_options(&mut command, &CONNECTION).args(["-M", "-N", "-T", "-a", "-x", "--"]);
            command.arg(&config.host);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
        });
        let mut child = made.map_err(|error| SshProblem::from_missing_client(&error))?;
        let words = child.stderr.take().map(SshClientStderr::start_reading);
        let up =
            tokio::time::timeout(config.patience, await_socket(&mut child, &config.socket)).await;
        match up {
            Ok(Ok(())) => Ok(Self { child: Some(child) }),
            Ok(Err(status)) => Err(SshProblem::from_message(
                &last_words_or(words, &status).await,
            )),
            Err(_) => {
                let _ = child.start_kill();
                let why = format!("Connection timed out after {:?}", config.patience);
                Err(SshProblem::from_message(&last_words_or(words, &why).await))
            }
        }
    }

    /// Returns true if it is worth trying.
    pub(super) fn is_up(&mut self) -> bool {
        self.child
            .as_mut()
            .is_none_or(|child| matches!(child.try_wait(), Ok(None)))
    }

    pub(super) fn is_own_connection(&self) -> bool {
        self.child.is_some()
    }

    /// Ends the connection, whoever made it.
    pub(super) async fn end_connection(self, config: &SshConfig) {
        send_control_command(config, "exit").await;
        if let Some(mut child) = self.child {
            let _ = child.start_kill();
            let _ = child.wait().await;
        }
    }
}

async fn last_words_or(words: Option<Arc<SshClientStderr>>, otherwise: &str) -> String {
    match words {
        Some(words) => words
            .words_at_end()
            .await
            .unwrap_or_else(|| otherwise.to_owned()),
        None => otherwise.to_owned(),
    }
}

/// Waits for the socket; an error says how the client ended instead.
async fn await_socket(child: &mut Child, socket: &Path) -> Result<(), String> {
    loop {
        if std::fs::symlink_metadata(socket).is_ok_and(|meta| meta.file_type().is_socket()) {
            return Ok(());
        }
        match child.try_wait() {
            Ok(None) => tokio::time::sleep(LOOK).await,
            Ok(Some(status)) => return Err(format!("the client ended: {status}")),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn remove_socket(socket: &Path) -> io::Result<()> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Starts a client that becomes a session of the connection.
pub(super) fn spawn_session(config: &SshConfig) -> Result<Child, String> {
    let mut command = client_command(config);
    add_options(&mut command, &SESSION).args(["-T", "-a", "-x", "--"]);
    // These are the only words that a login shell at the other end reads.
    command.arg(&config.host).arg("exec /bin/sh -s");
    pipe_streams(&mut command)
        .spawn()
        .map_err(|error| error.to_string())
}

/// Sends the master a command; `false` if there is none, or it does not obey.
async fn send_control_command(config: &SshConfig, what: &str) -> bool {
    let mut command = client_command(config);
    command.args(["-O", what, "--"]).arg(&config.host);
    let told = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    matches!(tokio::time::timeout(LOCAL, told).await, Ok(Ok(status)) if status.success())
}

fn client_command(config: &SshConfig) -> Command {
    let mut command = Command::new("ssh");
    command.env_clear().env("LC_ALL", "C");
    command.envs(
        INHERITED
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?))),
    );
    if let Some(file) = &config.config {
        command.arg("-F").arg(file);
    }
    command.arg("-S").arg(escape_percent_signs(&config.socket));
    command.args([
        "-o",
        "RequestTTY=no",
        "-o",
        "RemoteCommand=none",
        "-o",
        "LogLevel=ERROR",
    ]);
    command.kill_on_drop(true).process_group(0).current_dir("/");
    command
}

/// Escapes percent signs: one would begin a token.
fn escape_percent_signs(path: &Path) -> OsString {
    path.to_string_lossy().replace('%', "%%").into()
}

fn add_options<'c>(command: &'c mut Command, options: &[&str]) -> &'c mut Command {
    options.iter().for_each(|option| {
        command.args(["-o", option]);
    });
    command
}
