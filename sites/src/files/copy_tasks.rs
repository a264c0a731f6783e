//! Copies as the control plane sees them: start or join one, ask for its state, stop it.

use std::io;
use std::time::{Duration, Instant};

use cospan_domain::units::{BitsPerSecond, Bytes};
use rustix::process::Signal;

use super::agent_messages::{
    ChunkOrigin, CopyAgentOutcome, CopyAgentRequest, LinkBandwidthLimit, WrittenCopyBlame,
};
use super::agent_task::AgentTaskDirectory;
use super::file_area::{CopySourceArea, FileArea};
use super::file_root::{INCOMING, INSPECT, OpenSiteRoot};
use crate::port::{CopyBlame, CopyRequest, CopyStatus, SiteError};

/// The longest nonce, in bytes.
const NONCE_MAX: usize = 64;
/// The time that an agent has to end by itself.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// The time that it has to be gone after it was killed.
const KILL_GRACE: Duration = Duration::from_secs(8);

impl FileArea {
    /// Starts a copy, or joins the one that runs under the same nonce (even if that one reads from
    /// another source). Bytes that arrived before are checked and kept.
    ///
    /// # Errors
    /// `Refused`: the request makes no sense or the disk is full. `NotSent`: the root is not there,
    /// or no process could be started.
    pub fn start_copy(
        &self,
        order: &CopyRequest,
        source: &CopySourceArea,
    ) -> Result<(), SiteError> {
        let name = copy_task_name(order)?;
        if order.limit == Some(BitsPerSecond(0)) {
            return Err(SiteError::Refused(format!(
                "the link from {} carries nothing (bandwidth 0)",
                order.source.site
            )));
        }
        let root = self.open_root()?;
        let _gate = self.lock_copy_state(&root)?;
        if root
            .has_content(order.content.digest)
            .map_err(|e| self.area_error("look into the store", &e))?
        {
            return Ok(());
        }
        let written = CopyAgentRequest {
            source_root: source.root.clone(),
            source_attempts: source.attempts.clone(),
            place: (&order.source.place).into(),
            stall_ms: u64::try_from(self.config.stall.as_millis()).unwrap_or(u64::MAX),
            expected: Some(order.content.into()),
            cut: order.chunk.map(|chunk| ChunkOrigin {
                file: chunk.of.into(),
                offset_bytes: chunk.offset.0,
            }),
            limit: order.limit.map(|limit| LinkBandwidthLimit {
                link: order.source.site.to_string(),
                bits_per_second: limit.0,
            }),
            leased: false,
        };
        self.start_agent(&root, ("copy", INCOMING, &name), &written)
    }

    /// Returns the state of a copy. `Complete` says that the content is in the store now,
    /// whichever copy brought it.
    ///
    /// # Errors
    /// `NotSent` if it cannot be found out, which says nothing about the copy.
    pub fn copy_status(&self, order: &CopyRequest) -> Result<CopyStatus, SiteError> {
        let name = copy_task_name(order)?;
        let root = self.open_root()?;
        let _gate = self.lock_copy_state(&root)?;
        read_copy_status(&root, order, &name)
            .map_err(|error| self.area_error("read the state of the copy", &error))
    }

    /// Stops a copy; what arrived stays for a later start, unless `discard`. May take seconds.
    ///
    /// # Errors
    /// `OutcomeUnknown` if its process does not go away; `NotSent` as for the other calls.
    pub fn stop_copy(&self, order: &CopyRequest, discard: bool) -> Result<(), SiteError> {
        let name = copy_task_name(order)?;
        let root = self.open_root()?;
        self.stop_task(&root, INCOMING, &name, discard)
    }

    /// Ends a task's agent, and keeps or removes what it left.
    pub(super) fn stop_task(
        &self,
        root: &OpenSiteRoot,
        family: &str,
        name: &str,
        discard: bool,
    ) -> Result<(), SiteError> {
        let started = Instant::now();
        loop {
            let gate = self.lock_copy_state(root)?;
            let over = self.try_end_task(root, family, name, discard, started.elapsed());
            drop(gate);
            match over {
                Ok(true) => break,
                Ok(false) if started.elapsed() > KILL_GRACE => {
                    return Err(SiteError::OutcomeUnknown(format!(
                        "the process of {family}/{name} does not end; it may hang in its file system"
                    )));
                }
                Ok(false) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(self.area_error("stop the copy", &error)),
            }
        }
        let removed = if discard {
            root.empty_trash(family, name)
        } else {
            Ok(())
        };
        removed.map_err(|error| SiteError::OutcomeUnknown(format!("removing {name}: {error}")))
    }

    /// Looks once at a task that has to end; `true` when none of its processes runs any more.
    fn try_end_task(
        &self,
        root: &OpenSiteRoot,
        family: &str,
        name: &str,
        discard: bool,
        waited: Duration,
    ) -> io::Result<bool> {
        let Some(task) = AgentTaskDirectory::open_task(root, family, name)? else {
            return Ok(true);
        };
        if let Some(_lock) = task.try_lock()? {
            if discard {
                root.move_to_trash(family, name)?;
            } else if task.read_outcome()?.is_none() {
                task.set_outcome(&CopyAgentOutcome::from_failure(
                    WrittenCopyBlame::Process,
                    "the copy was stopped",
                ))?;
            }
            return Ok(true);
        }
        // An agent that has not announced itself yet will do so soon.
        if let Some(agent) = task.read_agent()? {
            // What only reads has nothing to bring to an end.
            agent.send_signal(if waited > TERM_GRACE || family == INSPECT {
                Signal::KILL
            } else {
                Signal::TERM
            })?;
        }
        Ok(false)
    }
}

fn read_copy_status(
    root: &OpenSiteRoot,
    order: &CopyRequest,
    name: &str,
) -> io::Result<CopyStatus> {
    if !root.has_content(order.content.digest)? {
        return copy_task_status(root, name);
    }
    remove_finished_task(root, name)?;
    Ok(CopyStatus::Complete)
}

/// Returns the state of a copy whose content is not in the store. The caller must have the gate.
fn copy_task_status(root: &OpenSiteRoot, name: &str) -> io::Result<CopyStatus> {
    let Some(task) = AgentTaskDirectory::open_task(root, INCOMING, name)? else {
        return Ok(CopyStatus::Absent);
    };
    let Some(_lock) = task.try_lock()? else {
        return Ok(CopyStatus::Running {
            done: Bytes(task.read_progress()?.done_bytes),
        });
    };
    Ok(match task.read_outcome()? {
        Some(CopyAgentOutcome::Failed { blame, detail }) => CopyStatus::Failed {
            blame: blame.into(),
            detail,
        },
        // The agent ended without an outcome, or with that of another kind of task.
        Some(CopyAgentOutcome::Inspected { .. }) | None => CopyStatus::Failed {
            blame: CopyBlame::Process,
            detail: describe_lost_agent(&task),
        },
    })
}

/// Removes the task of an agent that was killed between its last two steps. The
/// caller must have the gate.
fn remove_finished_task(root: &OpenSiteRoot, name: &str) -> io::Result<()> {
    let Some(task) = AgentTaskDirectory::open_task(root, INCOMING, name)? else {
        return Ok(());
    };
    if let Some(_lock) = task.try_lock()? {
        root.move_to_trash(INCOMING, name)?;
        root.empty_trash(INCOMING, name)?;
    }
    Ok(())
}

/// Describes the end of an agent that left no outcome.
pub(super) fn describe_lost_agent(task: &AgentTaskDirectory) -> String {
    let words = task.read_error_output();
    if words.is_empty() {
        "its process ended without a word; it was killed, or the machine went down".to_owned()
    } else {
        format!("its process ended without an outcome, saying: {words}")
    }
}

pub(super) fn copy_task_name(order: &CopyRequest) -> Result<String, SiteError> {
    let nonce = &order.nonce;
    if nonce.is_empty()
        || nonce.len() > NONCE_MAX
        || !nonce
            .chars()
            .all(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    {
        return Err(SiteError::Refused(format!(
            "{nonce:?} is no nonce; it must be 1 to {NONCE_MAX} letters, digits, - and _"
        )));
    }
    Ok(format!("{}.{nonce}", order.content.digest))
}
