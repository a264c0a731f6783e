//! Inspection of a file: its digest takes reading all of it, so an agent does it.

use std::io;

use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::content::Content;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;

use super::agent_messages::{
    CopyAgentOutcome, CopyAgentRequest, WrittenCopyBlame, WrittenFilePlace,
};
use super::agent_task::AgentTaskDirectory;
use super::copy_tasks::describe_lost_agent;
use super::file_area::FileArea;
use super::file_root::{INSPECT, OpenSiteRoot};
use super::stamp;
use crate::port::{InspectedFile, InspectionProgress, SiteError};

/// The state of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InspectionStatus {
    /// None was started, or its result was forgotten.
    Absent,
    /// A process is reading.
    Running(InspectionProgress),
    /// The result. The file did not change while it was read.
    Done(InspectedFile),
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
    pub fn start_inspection(&self, place: &FilePlace) -> Result<(), SiteError> {
        let root = self.open_root()?;
        let _gate = self.lock_copy_state(&root)?;
        let order = CopyAgentRequest {
            source_root: self.config.root.clone(),
            source_attempts: self.config.attempts.clone(),
            place: place.into(),
            stall_ms: u64::try_from(self.config.stall.as_millis()).unwrap_or(u64::MAX),
            expected: None,
            cut: None,
            limit: None,
            leased: true,
        };
        self.start_agent(&root, ("inspect", INSPECT, &inspection_name(place)), &order)
    }

    /// Returns the stamp of a file or directory; see [`FileStamp`]. `None` for a directory that is
    /// too large to be looked through.
    ///
    /// # Errors
    /// `Refused` if there is no such file.
    pub fn file_stamp(&self, place: &FilePlace) -> Result<Option<FileStamp>, SiteError> {
        let root = self.open_root()?;
        let file = root.open_place(&self.config.attempts, place);
        let looked = file.and_then(stamp::stamp_of);
        looked.map_err(|error| {
            let what = match place {
                FilePlace::Store(digest) => digest.to_string(),
                FilePlace::User(path) | FilePlace::Output(_, path) => path.to_string(),
            };
            SiteError::Refused(format!("cannot look at {what}: {error}"))
        })
    }

    /// Returns the state of the inspection of a file.
    ///
    /// # Errors
    /// `NotSent` if it cannot be found out.
    pub fn inspection_status(&self, place: &FilePlace) -> Result<InspectionStatus, SiteError> {
        let root = self.open_root()?;
        let _gate = self.lock_copy_state(&root)?;
        read_inspection_status(&root, place)
            .map_err(|error| self.area_error("read the state of an inspection", &error))
    }

    /// Returns how far an inspection is that somebody waits for.
    pub(crate) fn read_so_far(&self, place: &FilePlace) -> Option<InspectionProgress> {
        self.readers.read_so_far(place)
    }

    /// Ends an inspection and drops its result; a missing one is no error.
    ///
    /// # Errors
    /// As [`FileArea::stop_copy`].
    pub fn forget_inspection(&self, place: &FilePlace) -> Result<(), SiteError> {
        let root = self.open_root()?;
        self.stop_task(&root, INSPECT, &inspection_name(place), true)
    }
}

fn read_inspection_status(root: &OpenSiteRoot, place: &FilePlace) -> io::Result<InspectionStatus> {
    let Some(task) = AgentTaskDirectory::open_task(root, INSPECT, &inspection_name(place))? else {
        return Ok(InspectionStatus::Absent);
    };
    if task.try_lock()?.is_none() {
        let progress = task.read_progress()?;
        return Ok(InspectionStatus::Running(InspectionProgress {
            done: Bytes(progress.done_bytes),
            of: progress.of_bytes.map(Bytes),
        }));
    }
    Ok(task.read_outcome()?.map_or_else(
        || InspectionStatus::Failed(SiteError::NotSent(describe_lost_agent(&task))),
        interpret_outcome,
    ))
}

fn interpret_outcome(outcome: CopyAgentOutcome) -> InspectionStatus {
    match outcome {
        CopyAgentOutcome::Inspected {
            digest,
            size_bytes,
            directory,
        } => match digest.parse() {
            Ok(digest) => InspectionStatus::Done(InspectedFile {
                content: Content {
                    digest,
                    size: Bytes(size_bytes),
                },
                directory,
            }),
            Err(error) => InspectionStatus::Failed(SiteError::NotSent(error.to_string())),
        },
        CopyAgentOutcome::Failed {
            blame: WrittenCopyBlame::Source,
            detail,
        } => InspectionStatus::Failed(SiteError::Refused(detail)),
        CopyAgentOutcome::Failed {
            blame: WrittenCopyBlame::Destination | WrittenCopyBlame::Process,
            detail,
        } => InspectionStatus::Failed(SiteError::NotSent(detail)),
    }
}

/// Makes one name per place, whatever characters its path has.
fn inspection_name(place: &FilePlace) -> String {
    let mut hasher = blake3::Hasher::new();
    match WrittenFilePlace::from(place) {
        WrittenFilePlace::Store { digest } => hasher.update(b"store\0").update(digest.as_bytes()),
        WrittenFilePlace::User { path } => hasher.update(b"user\0").update(path.as_bytes()),
        WrittenFilePlace::Output { tag, path } => hasher
            .update(b"output\0")
            .update(tag.as_bytes())
            .update(b"\0")
            .update(path.as_bytes()),
    };
    hasher.finalize().to_string()
}
