//! Inspections that callers wait for: one agent reads for all who ask about the same place, and
//! ends when the last of them is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cospan_domain::transfer::file_place::FilePlace;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::task::JoinHandle;

use super::attached_files::AttachedFiles;
use super::inspect::InspectionStatus;
use crate::port::{InspectedFile, InspectionProgress, SiteError};

/// The first pause between two looks at an inspection: short ones are over at once.
const LOOK_MIN: Duration = Duration::from_millis(5);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// The callers that wait for inspections, by the place that is read.
#[derive(Debug, Default)]
pub(super) struct InspectionWaiters(Mutex<BTreeMap<FilePlace, PlaceWaiters>>);

#[derive(Debug, Default)]
struct PlaceWaiters {
    /// Callers share it. Whoever ends the agent has it alone, so that nobody joins an agent that
    /// is ending.
    line: Arc<RwLock<()>>,
    so_far: InspectionProgress,
}

impl InspectionWaiters {
    fn lock_places(&self) -> MutexGuard<'_, BTreeMap<FilePlace, PlaceWaiters>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place_lock(&self, place: &FilePlace) -> Arc<RwLock<()>> {
        self.lock_places()
            .entry(place.clone())
            .or_default()
            .line
            .clone()
    }

    fn note_progress(&self, place: &FilePlace, so_far: InspectionProgress) {
        if let Some(readers) = self.lock_places().get_mut(place) {
            readers.so_far = so_far;
        }
    }

    /// Returns how far the inspection of a place is, if somebody waits for one.
    pub(super) fn read_so_far(&self, place: &FilePlace) -> Option<InspectionProgress> {
        self.lock_places().get(place).map(|readers| readers.so_far)
    }

    /// Forgets a place for which nobody waits.
    fn forget_unused(&self, place: &FilePlace) {
        let mut places = self.lock_places();
        if places
            .get(place)
            .is_some_and(|readers| Arc::strong_count(&readers.line) == 1)
        {
            places.remove(place);
        }
    }
}

/// Waits for the agent that reads a file, as long as that takes.
pub(super) async fn inspect_file(
    files: &AttachedFiles,
    place: &FilePlace,
) -> Result<InspectedFile, SiteError> {
    let line = files.known_area().readers.place_lock(place);
    let mut caller = WaitingInspectionCaller {
        files: files.clone(),
        place: place.clone(),
        share: Some(line.read_owned().await),
        start: None,
    };
    let result = caller.await_result().await;
    caller.share = None;
    end_unless_awaited(files.clone(), place.clone()).await?;
    result
}

/// Ends the agent, or drops its result, unless another caller waits for the same.
async fn end_unless_awaited(files: AttachedFiles, place: FilePlace) -> Result<(), SiteError> {
    let readers = &files.known_area().readers;
    let Ok(alone) = readers.place_lock(&place).try_write_owned() else {
        return Ok(());
    };
    let forgotten = place.clone();
    let ended = files
        .call_area(move |area| area.forget_inspection(&forgotten))
        .await;
    drop(alone);
    readers.forget_unused(&place);
    ended
}

/// A caller that waits. If it is dropped so, the agent ends with its last caller.
struct WaitingInspectionCaller {
    files: AttachedFiles,
    place: FilePlace,
    /// A share in the line of the place; `None` once it has its result.
    share: Option<OwnedRwLockReadGuard<()>>,
    /// The start of the agent, while it is under way. It is carried through even if the caller goes,
    /// and an agent can be ended only once it has started.
    start: Option<JoinHandle<Result<(), SiteError>>>,
}

impl WaitingInspectionCaller {
    async fn await_result(&mut self) -> Result<InspectedFile, SiteError> {
        self.start_agent().await?;
        let mut pause = LOOK_MIN;
        loop {
            let place = self.place.clone();
            let status = self
                .files
                .call_area(move |area| area.inspection_status(&place))
                .await?;
            match status {
                InspectionStatus::Running(so_far) => {
                    let readers = &self.files.known_area().readers;
                    readers.note_progress(&self.place, so_far);
                }
                InspectionStatus::Done(inspected) => return Ok(inspected),
                InspectionStatus::Failed(error) => return Err(error),
                // Another process that inspected the same file took its result.
                InspectionStatus::Absent => {
                    let why = "the inspection is over; ask again".to_owned();
                    return Err(SiteError::NotSent(why));
                }
            }
            tokio::time::sleep(pause).await;
            pause = LOOK_MAX.min(pause * 2);
        }
    }

    async fn start_agent(&mut self) -> Result<(), SiteError> {
        let files = self.files.clone();
        let place = self.place.clone();
        let start = tokio::spawn(async move {
            files
                .call_area(move |area| area.start_inspection(&place))
                .await
        });
        let started = self.start.insert(start).await;
        self.start = None;
        started.unwrap_or_else(|death| {
            Err(SiteError::OutcomeUnknown(format!(
                "the start of an inspection died: {death}"
            )))
        })
    }
}

impl Drop for WaitingInspectionCaller {
    fn drop(&mut self) {
        if self.share.take().is_none() {
            return;
        }
        // Without a runtime the process is ending, and the agent with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let start = self.start.take();
            let ending = end_unless_awaited(self.files.clone(), self.place.clone());
            runtime.spawn(async {
                if let Some(start) = start {
                    let _ = start.await;
                }
                // An agent that cannot be ended now ends with this process.
                let _ = ending.await;
            });
        }
    }
}
