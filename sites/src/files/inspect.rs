//! Inspection of a file: its digest takes reading all of it, so an agent does it.

use std::io;

use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::content::Content;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;

use super::agent_messages::{AgentOrder, AgentOutcome, WireBlame, WirePlace};
use super::agent_task::TaskDirectory;
use super::copy_tasks::epitaph;
use super::file_area::FileArea;
use super::file_root::{INSPECT, OpenRoot};
use super::stamp;
use crate::port::{Inspected, SiteError};

/// The state of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InspectStatus {
    /// None was started, or its result was forgotten.
    Absent,
    /// A process is reading.
    Running {
        /// Bytes read.
        done: Bytes,
    },
    /// The result. The file did not change while it was read.
    Done(Inspected),
    /// `Refused` if the file is missing, changed, or of a kind that cannot be content; `NotSent` if
    /// the process died: start again.
    Failed(SiteError),
}

impl FileArea {
    /// Starts reading a file, or joins the process that reads it; a result that is there is
    /// dropped and found out anew.
    ///
    /// # Errors
    /// As [`FileArea::start_copy`].
    pub fn start_inspect(&self, place: &FilePlace) -> Result<(), SiteError> {
        let root = self.open_root()?;
        let _gate = self.enter_gate(&root)?;
        let order = AgentOrder {
            source_root: self.config.root.clone(),
            source_attempts: self.config.attempts.clone(),
            place: place.into(),
            stall_ms: u64::try_from(self.config.stall.as_millis()).unwrap_or(u64::MAX),
            expected: None,
            cut: None,
            limit: None,
        };
        self.start_agent(&root, ("inspect", INSPECT, &inspection_name(place)), &order)
    }

    /// Returns the stamp of a file or directory; see [`FileStamp`]. `None` for a directory that is too
    /// large to be looked through.
    ///
    /// # Errors
    /// `Refused` if there is no such file.
    pub fn file_stamp(&self, place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        let root = self.open_root()?;
        let file = root.open_place(&self.config.attempts, place);
        let looked = file.and_then(stamp::stamp_of);
        looked.map_err(|error| SiteError::Refused(format!("cannot look at {place:?}: {error}")))
    }

    /// Returns the state of the inspection of a file.
    ///
    /// # Errors
    /// `NotSent` if it cannot be found out.
    pub fn inspect_status(&self, place: &FilePlace) -> Result<InspectStatus, SiteError> {
        let root = self.open_root()?;
        let _gate = self.enter_gate(&root)?;
        read_status(&root, place)
            .map_err(|error| self.area_error("read the state of an inspection", &error))
    }

    /// Ends an inspection and drops its result; a missing one is no error.
    ///
    /// # Errors
    /// As [`FileArea::stop_copy`].
    pub fn forget_inspect(&self, place: &FilePlace) -> Result<(), SiteError> {
        let root = self.open_root()?;
        self.stop_task(&root, INSPECT, &inspection_name(place), true)
    }
}

fn read_status(root: &OpenRoot, place: &FilePlace) -> io::Result<InspectStatus> {
    let Some(task) = TaskDirectory::open_task(root, INSPECT, &inspection_name(place))? else {
        return Ok(InspectStatus::Absent);
    };
    if task.try_lock()?.is_none() {
        return Ok(InspectStatus::Running {
            done: Bytes(task.read_progress()?.done_bytes),
        });
    }
    Ok(task.read_outcome()?.map_or_else(
        || InspectStatus::Failed(SiteError::NotSent(epitaph(&task))),
        read_outcome,
    ))
}

fn read_outcome(outcome: AgentOutcome) -> InspectStatus {
    match outcome {
        AgentOutcome::Inspected {
            digest,
            size_bytes,
            directory,
        } => match digest.parse() {
            Ok(digest) => InspectStatus::Done(Inspected {
                content: Content {
                    digest,
                    size: Bytes(size_bytes),
                },
                directory,
            }),
            Err(error) => InspectStatus::Failed(SiteError::NotSent(error.to_string())),
        },
        AgentOutcome::Failed {
            blame: WireBlame::Source,
            detail,
        } => InspectStatus::Failed(SiteError::Refused(detail)),
        AgentOutcome::Failed {
            blame: WireBlame::Destination | WireBlame::Process,
            detail,
        } => InspectStatus::Failed(SiteError::NotSent(detail)),
    }
}

/// Makes one name per place, whatever characters its path has.
fn inspection_name(place: &FilePlace) -> String {
    let mut hasher = blake3::Hasher::new();
    match WirePlace::from(place) {
        WirePlace::Store { digest } => hasher.update(b"store\0").update(digest.as_bytes()),
        WirePlace::User { path } => hasher.update(b"user\0").update(path.as_bytes()),
        WirePlace::Output { tag, path } => hasher
            .update(b"output\0")
            .update(tag.as_bytes())
            .update(b"\0")
            .update(path.as_bytes()),
    };
    hasher.finalize().to_string()
}
