//! The files of one site, as the control plane calls them.

use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::agent_messages::CopyAgentRequest;
use super::agent_task::AgentTaskDirectory;
use super::awaited_inspection::InspectionWaiters;
use super::file_root::{CopyStateLock, OpenSiteRoot};
use crate::port::SiteError;

/// The configuration of a [`FileArea`].
#[derive(Debug, Clone)]
pub struct FileAreaConfig {
    /// The site's root; an absolute path.
    pub root: PathBuf,
    /// The name of the directory of attempts below the root.
    pub attempts: String,
    /// The command line that starts an agent: the absolute path of an executable that passes what
    /// follows to [`super::agent::main`], and its first arguments.
    pub agent: Vec<OsString>,
    /// A copy has failed if no byte moves for this long.
    pub stall: Duration,
}

/// The site that a copy comes from, as seen from where the copy is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySourceArea {
    /// The site's root; an absolute path.
    pub root: PathBuf,
    /// The name of the directory of attempts below the root.
    pub attempts: String,
}

/// The files below one site's root. Calls block for as long as the file system does,
/// normally microseconds. Agents read and write whole files: they are processes of their
/// own. Those that copy outlive this value; those that inspect end with it.
#[derive(Debug)]
pub struct FileArea {
    pub(super) config: FileAreaConfig,
    /// The agents that we started, kept until they can be waited for.
    agents: Mutex<Vec<StartedCopyAgent>>,
    pub(super) readers: InspectionWaiters,
}

/// An agent that we started.
#[derive(Debug)]
struct StartedCopyAgent {
    process: Child,
    /// An inspecting agent ends when this is closed, as it is when our process ends.
    _lease: Option<PipeWriter>,
}

impl FileArea {
    /// Makes one; touches nothing.
    ///
    /// # Errors
    /// `Refused` if a path that must be absolute is not, or the name of the
    /// directory of attempts is none.
    pub fn new(config: FileAreaConfig) -> Result<Self, SiteError> {
        let agent_is_absolute = config
            .agent
            .first()
            .is_some_and(|program| Path::new(program).is_absolute());
        if !config.root.is_absolute() || !agent_is_absolute {
            return Err(SiteError::Refused(format!(
                "the site's root ({}) and its agent ({:?}) must be absolute paths",
                config.root.display(),
                config.agent,
            )));
        }
        if config.attempts.is_empty() || config.attempts.contains(['/', '\0']) {
            return Err(SiteError::Refused(format!(
                "{:?} cannot be the name of the directory of attempts",
                config.attempts
            )));
        }
        Ok(Self {
            config,
            agents: Mutex::default(),
            readers: InspectionWaiters::default(),
        })
    }

    /// Returns this site as a source of copies to others.
    pub fn as_source(&self) -> CopySourceArea {
        CopySourceArea {
            root: self.config.root.clone(),
            attempts: self.config.attempts.clone(),
        }
    }

    /// Makes the directories below the root that are missing; the root must exist.
    ///
    /// # Errors
    /// `NotSent` if it does not, or they cannot be made.
    pub fn prepare_root(&self) -> Result<(), SiteError> {
        self.open_root()?
            .make_directories()
            .map_err(|error| self.area_error("prepare its directories", &error))
    }

    pub(super) fn open_root(&self) -> Result<OpenSiteRoot, SiteError> {
        self.reap_agents();
        OpenSiteRoot::open(&self.config.root).map_err(|error| self.area_error("open it", &error))
    }

    pub(super) fn lock_copy_state(&self, root: &OpenSiteRoot) -> Result<CopyStateLock, SiteError> {
        root.lock_copy_state()
            .map_err(|error| self.area_error("take its turn", &error))
    }

    /// Starts an agent on a task, unless one has it. The caller must have the gate.
    pub(super) fn start_agent(
        &self,
        root: &OpenSiteRoot,
        (verb, family, name): (&str, &str, &str),
        order: &CopyAgentRequest,
    ) -> Result<(), SiteError> {
        let task = AgentTaskDirectory::ensure_task(root, family, name)
            .map_err(|error| self.area_error("make the task's directory", &error))?;
        let locked = task
            .try_lock()
            .map_err(|error| self.area_error("lock the task", &error))?;
        let Some(lock) = locked else { return Ok(()) };
        let words = task
            .begin_task(order)
            .and_then(|()| task.open_error_output())
            .map_err(|error| self.area_error("write the order", &error))?;
        let (program, arguments) = self
            .config
            .agent
            .split_first()
            .ok_or_else(|| self.agent_start_error("none is configured"))?;
        let (output, lease) = if order.leased {
            let (reader, writer) =
                io::pipe().map_err(|error| self.area_error("make a pipe", &error))?;
            (Stdio::from(reader), Some(writer))
        } else {
            (Stdio::null(), None)
        };
        let process = Command::new(program)
            .args(arguments)
            .args([verb.as_ref(), self.config.root.as_os_str(), name.as_ref()])
            .stdin(Stdio::from(lock))
            .stdout(output)
            .stderr(Stdio::from(words))
            // A signal to the control plane's group must not reach it, and our secrets
            // are none of its business.
            .process_group(0)
            .env_clear()
            .current_dir("/")
            .spawn()
            .map_err(|error| self.agent_start_error(error))?;
        self.agents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(StartedCopyAgent {
                process,
                _lease: lease,
            });
        Ok(())
    }

    fn agent_start_error(&self, why: impl std::fmt::Display) -> SiteError {
        SiteError::NotSent(format!(
            "cannot start {:?} to copy: {why}",
            self.config.agent
        ))
    }

    /// Waits for our agents that have ended, so that they do not stay as zombies.
    fn reap_agents(&self) {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        agents.retain_mut(|agent| matches!(agent.process.try_wait(), Ok(None)));
    }

    /// Returns an error for something that was not done at all.
    pub(super) fn area_error(&self, what: &str, error: &io::Error) -> SiteError {
        let root = self.config.root.display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SiteError::Refused(
                format!("site directory {root}: cannot {what}: {error}; free some space"),
            ),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SiteError::NotSent(format!(
                "site directory {root}: cannot {what}: {error}; is it mounted?"
            )),
            _ => SiteError::NotSent(format!("site directory {root}: cannot {what}: {error}")),
        }
    }
}
