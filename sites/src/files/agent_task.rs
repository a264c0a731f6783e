//! A task of an agent: a directory with its request, its lock and what it left.
//!
//! The control plane takes the lock, writes the request and hands the locked file to the agent as
//! its standard input. The kernel keeps a lock as long as any process has that file open, so from
//! the request to the agent's end the task is locked without a gap, whoever dies in between; and a
//! lock that is free says for certain that no agent is left.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::agent_messages::{CopyAgentOutcome, CopyAgentProgress, CopyAgentRequest};
use super::file_root::OpenSiteRoot;
use super::open_beneath::{DirectoryHandle, none_if_absent};
use super::process_identity::AgentProcessIdentity;

/// The file or directory that has arrived so far.
pub(super) const DATA: &str = "data";
const LOCK: &str = "lock";
const ORDER: &str = "order";
const AGENT: &str = "agent";
const PROGRESS: &str = "progress";
const OUTCOME: &str = "outcome";
const WORDS: &str = "words";

/// Space for an outcome, in bytes, taken before the disk can be full.
const OUTCOME_BYTES: usize = 4096;
/// The most that is read of anything an agent wrote, in bytes.
const READ_MAX: u64 = 65_536;
/// The most of an agent's last words that goes into a report, in bytes.
const WORDS_MAX: u64 = 500;

/// A task's directory, open.
#[derive(Debug)]
pub(super) struct AgentTaskDirectory {
    pub(super) dir: DirectoryHandle,
}

impl AgentTaskDirectory {
    /// Opens one that exists.
    pub(super) fn open_task(
        root: &OpenSiteRoot,
        family: &str,
        name: &str,
    ) -> io::Result<Option<Self>> {
        let parent = root.open_own_dir(family)?;
        Ok(none_if_absent(parent.open_dir(name))?.map(|dir| Self { dir }))
    }

    /// Opens one, made if it is missing.
    pub(super) fn ensure_task(root: &OpenSiteRoot, family: &str, name: &str) -> io::Result<Self> {
        Ok(Self {
            dir: root.open_own_dir(family)?.ensure_dir(name)?,
        })
    }

    /// Takes the lock; `None` if an agent has it.
    pub(super) fn try_lock(&self) -> io::Result<Option<File>> {
        let lock = self.dir.open_to_write(LOCK)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns true if this open file is the task's lock, and is ours.
    pub(super) fn holds_lock(&self, file: impl AsFd) -> io::Result<bool> {
        let given = rustix::fs::fstat(&file)?;
        let lock = self.dir.stat(LOCK)?;
        if (given.st_dev, given.st_ino) != (lock.st_dev, lock.st_ino) {
            return Ok(false);
        }
        let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        Ok(rustix::fs::flock(file, operation).is_ok())
    }

    /// Drops all that the last agent left but its data, and writes the request.
    pub(super) fn begin_task(&self, order: &CopyAgentRequest) -> io::Result<()> {
        for old in [OUTCOME, AGENT, PROGRESS, WORDS] {
            self.dir.remove_tree(old)?;
        }
        self.write_json(ORDER, order)
    }

    pub(super) fn read_order(&self) -> io::Result<Option<CopyAgentRequest>> {
        self.read_json(ORDER)
    }

    /// Records which process the agent is, and takes the space that its outcome will need.
    pub(super) fn announce_agent(&self, agent: &AgentProcessIdentity) -> io::Result<()> {
        let mut reserved = self.dir.open_to_write(&format!("{OUTCOME}.new")[..])?;
        reserved.write_all(&[b' '; OUTCOME_BYTES])?;
        self.write_json(AGENT, agent)
    }

    pub(super) fn read_agent(&self) -> io::Result<Option<AgentProcessIdentity>> {
        self.read_json(AGENT)
    }

    pub(super) fn set_progress(&self, progress: CopyAgentProgress) -> io::Result<()> {
        self.write_json(PROGRESS, &progress)
    }

    pub(super) fn read_progress(&self) -> io::Result<CopyAgentProgress> {
        Ok(self.read_json(PROGRESS)?.unwrap_or_default())
    }

    /// Writes the outcome over the space kept for it, so that a full disk can be reported.
    pub(super) fn set_outcome(&self, outcome: &CopyAgentOutcome) -> io::Result<()> {
        let temporary = format!("{OUTCOME}.new");
        let mut text = serde_json::to_vec(outcome)?;
        text.resize(text.len().max(OUTCOME_BYTES), b' ');
        self.dir
            .open_to_write(&temporary[..])?
            .write_all_at(&text, 0)?;
        self.dir.rename(&temporary[..], &self.dir, OUTCOME)
    }

    /// Returns the outcome; `None` as long as there is none, and for ever if the agent died first.
    pub(super) fn read_outcome(&self) -> io::Result<Option<CopyAgentOutcome>> {
        self.read_json(OUTCOME)
    }

    /// Opens the file for the agent's error output.
    pub(super) fn open_error_output(&self) -> io::Result<File> {
        self.dir.open_to_write(WORDS)
    }

    /// Returns the beginning of what the agent printed; empty if it died without a word.
    pub(super) fn read_error_output(&self) -> String {
        let mut words = Vec::new();
        if let Ok(file) = self.dir.open_to_read(WORDS) {
            // Whatever was read before an error is still worth showing.
            let _ = file.take(WORDS_MAX).read_to_end(&mut words);
        }
        String::from_utf8_lossy(&words).trim().to_owned()
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.dir.replace_file(name, &serde_json::to_vec(value)?)
    }

    /// Reads a file of the task. One that cannot be parsed was torn by a crash: as good as absent.
    fn read_json<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let Some(file) = none_if_absent(self.dir.open_to_read(name))? else {
            return Ok(None);
        };
        let mut text = Vec::new();
        file.take(READ_MAX).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text).ok())
    }
}
