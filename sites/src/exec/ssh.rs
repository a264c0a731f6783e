//! Commands of a site that is reached over SSH. We use the system's client and its user's own
//! configuration, so that whatever gets people to the site gets us there.
//!
//! Each site has one connection (a master that others share), and in it two long-lived sessions,
//! each a shell that serves requests: one for control, one for the contents of files. No shell at
//! the other end reads anything that a user wrote. A connection that cannot be made is not tried
//! again at once: the pauses grow.

mod client_stderr;
mod session;
mod session_answers;
mod ssh_connection;
pub mod ssh_problem;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::session::SshSession;
use self::ssh_connection::SshMasterConnection;
use self::ssh_problem::{SshProblem, SshProblemKind};
use super::{
    CommandChannel, CommandExecutor, CommandExit, CommandOutput, ExecCommand, ExecError,
    ProgramOrScript,
};

/// The way to a site over SSH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshConfig {
    /// A name that the client's configuration knows.
    pub host: String,
    /// The client's configuration file; the user's own if left out.
    pub config: Option<PathBuf>,
    /// The socket of the connection: a path of its own, in a directory of ours.
    pub socket: PathBuf,
    /// A command that is needed at the site: if it is not found at once, the start files
    /// of login shells are read.
    pub wanted: &'static str,
    /// The longest that connecting may take.
    pub patience: Duration,
}

/// The first pause after a connection that could not be made; the next ones double.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The longest that an answer about an overdue program may be late.
const LATE: Duration = Duration::from_secs(3);

/// Longest path of a socket, in bytes, less what the client appends while it makes one.
const SOCKET_MAX: usize = 107 - 18;

/// Runs commands over SSH.
#[derive(Debug)]
pub struct SshExecutor {
    config: Arc<SshConfig>,
    link: Arc<tokio::sync::Mutex<SshConnectionState>>,
    /// The sessions that are up, for callers who need not wait.
    up: Arc<Mutex<OpenSshSessions>>,
}

#[derive(Debug, Default, Clone)]
struct OpenSshSessions {
    control: Option<SshSession>,
    bulk: Option<SshSession>,
}

impl OpenSshSessions {
    fn session_slot(&mut self, lane: CommandChannel) -> &mut Option<SshSession> {
        match lane {
            CommandChannel::Control => &mut self.control,
            CommandChannel::Bulk => &mut self.bulk,
        }
    }
}

/// The connection, and how the last try to make it failed.
#[derive(Debug, Default)]
struct SshConnectionState {
    master: Option<SshMasterConnection>,
    failed: Option<FailedConnection>,
}

#[derive(Debug)]
struct FailedConnection {
    trouble: SshProblem,
    pause: Duration,
    /// Nothing is tried before this.
    until: Instant,
}

impl SshExecutor {
    /// Makes one for the site of this configuration. Touches nothing.
    ///
    /// # Errors
    /// Says why the name of the host or the path of the socket cannot be used.
    pub fn new(config: SshConfig) -> Result<Self, String> {
        let host = &config.host;
        if host.is_empty()
            || host.starts_with('-')
            || host.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(format!("{host:?} is not a host name"));
        }
        if config.socket.as_os_str().len() > SOCKET_MAX {
            let socket = config.socket.display();
            return Err(format!(
                "{socket} is too long for a socket: {SOCKET_MAX} bytes at most"
            ));
        }
        Ok(Self {
            config: Arc::new(config),
            link: Arc::default(),
            up: Arc::default(),
        })
    }

    /// Returns what went wrong when the connection was last tried, and what to do about it.
    pub async fn connection_fault(&self) -> Option<(String, String)> {
        let link = self.link.lock().await;
        let trouble = &link.failed.as_ref()?.trouble;
        Some((
            trouble.said.clone(),
            trouble.advise(&self.config.manual_command()),
        ))
    }

    /// Ends the connection, unless others made it. What runs at the site goes on.
    pub async fn close_connection(&self) {
        let up = std::mem::take(&mut *lock_sessions(&self.up));
        up.control
            .iter()
            .chain(&up.bulk)
            .for_each(SshSession::request_end);
        if let Some(master) = self
            .link
            .lock()
            .await
            .master
            .take()
            .filter(SshMasterConnection::is_own_connection)
        {
            master.end_connection(&self.config).await;
        }
    }

    /// Returns a session of this lane, made if need be. A caller that gives up does not stop
    /// what others wait for, too.
    async fn open_session(
        &self,
        lane: CommandChannel,
        until: Instant,
    ) -> Result<SshSession, ExecError> {
        if let Some(session) = lock_sessions(&self.up)
            .session_slot(lane)
            .clone()
            .filter(SshSession::is_up)
        {
            return Ok(session);
        }
        let config = self.config.clone();
        let link = self.link.clone();
        let up = self.up.clone();
        let made: JoinHandle<Result<_, SshProblem>> = tokio::spawn(async move {
            let mut link = link.lock().await;
            if let Some(session) = lock_sessions(&up)
                .session_slot(lane)
                .clone()
                .filter(SshSession::is_up)
            {
                return Ok(session);
            }
            let session = link.open_session_after_pause(&config, lane).await?;
            *lock_sessions(&up).session_slot(lane) = Some(session.clone());
            Ok(session)
        });
        let host = &self.config.host;
        match tokio::time::timeout_at(until, made).await {
            Ok(Ok(Ok(session))) => Ok(session),
            Ok(Ok(Err(trouble))) => {
                let told = trouble.explain_at(host, &self.config.manual_command());
                Err(if trouble.is_about_trust() {
                    ExecError::LockedOut(told)
                } else {
                    ExecError::NotStarted(told)
                })
            }
            Ok(Err(error)) => Err(ExecError::NotStarted(format!(
                "connecting to {host}: {error}"
            ))),
            Err(_) => Err(ExecError::NotStarted(format!("still connecting to {host}"))),
        }
    }
}

impl SshConfig {
    /// Returns the command that people would type to get there.
    pub fn manual_command(&self) -> String {
        let config = self
            .config
            .as_ref()
            .map(|file| format!("-F {} ", file.display()));
        format!("ssh {}{}", config.unwrap_or_default(), self.host)
    }
}

fn lock_sessions(up: &Mutex<OpenSshSessions>) -> std::sync::MutexGuard<'_, OpenSshSessions> {
    up.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SshConnectionState {
    async fn open_session_after_pause(
        &mut self,
        config: &SshConfig,
        lane: CommandChannel,
    ) -> Result<SshSession, SshProblem> {
        if let Some(failed) = self
            .failed
            .as_ref()
            .filter(|failed| Instant::now() < failed.until)
        {
            return Err(failed.trouble.clone());
        }
        let made = self.try_open_session(config, lane).await;
        match &made {
            Ok(_) => self.failed = None,
            Err(trouble) => {
                let last = self.failed.as_ref().map(|failed| failed.pause * 2);
                let pause = last.unwrap_or(PAUSE_MIN).clamp(PAUSE_MIN, PAUSE_MAX);
                let until = Instant::now() + pause;
                self.failed = Some(FailedConnection {
                    trouble: trouble.clone(),
                    pause,
                    until,
                });
            }
        }
        made
    }

    async fn try_open_session(
        &mut self,
        config: &SshConfig,
        lane: CommandChannel,
    ) -> Result<SshSession, SshProblem> {
        if !self.master.as_mut().is_some_and(SshMasterConnection::is_up) {
            self.master = Some(SshMasterConnection::connect(config).await?);
        }
        match self.start_session(config, lane).await {
            Err(trouble) if self.is_unrelated_to_master(&trouble) => Err(trouble),
            // The connection may be one that an earlier server left, or one that hangs.
            Err(_) => {
                if let Some(master) = self.master.take() {
                    master.end_connection(config).await;
                }
                self.master = Some(SshMasterConnection::connect(config).await?);
                self.start_session(config, lane).await
            }
            started => started,
        }
    }

    fn is_unrelated_to_master(&self, trouble: &SshProblem) -> bool {
        match trouble.kind {
            SshProblemKind::Sessions => true,
            // A connection that is not ours need not notice that its line is dead.
            SshProblemKind::Shell => self
                .master
                .as_ref()
                .is_some_and(SshMasterConnection::is_own_connection),
            _ => false,
        }
    }

    async fn start_session(
        &self,
        config: &SshConfig,
        lane: CommandChannel,
    ) -> Result<SshSession, SshProblem> {
        let child =
            ssh_connection::spawn_session(config).map_err(|why| SshProblem::from_message(&why))?;
        let started = SshSession::start(child, lane, config.wanted, config.patience).await;
        started.map_err(|why| SshProblem::from_message(&why))
    }
}

impl Drop for SshExecutor {
    fn drop(&mut self) {
        let up = lock_sessions(&self.up);
        up.control
            .iter()
            .chain(&up.bulk)
            .for_each(SshSession::request_end);
    }
}

#[async_trait]
impl CommandExecutor for SshExecutor {
    async fn run(&self, command: ExecCommand) -> Result<CommandOutput, ExecError> {
        let started = Instant::now();
        let deadline = command.deadline;
        if command.lane == CommandChannel::Control && command.input.contains(&0) {
            return Err(ExecError::NotStarted(
                "a request has a byte that is no text".to_owned(),
            ));
        }
        let is_program = matches!(command.work, ProgramOrScript::Program(_));
        // The other end gives up a program itself, and says so.
        let until = started + deadline + if is_program { LATE } else { Duration::ZERO };
        let output = self
            .open_session(command.lane, until)
            .await?
            .run_command(command, until)
            .await?;
        if is_program && output.ended == CommandExit::Code(124) && started.elapsed() >= deadline {
            return Err(ExecError::PerhapsDone(format!(
                "no answer within {deadline:?}"
            )));
        }
        Ok(output)
    }
}
