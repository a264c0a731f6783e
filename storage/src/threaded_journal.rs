//! A journal with a thread of its own that decides all queued units together, so that one flush
//! serves many units.

mod append_queue;

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use cospan_domain::ids::{Epoch, Seq};
use tracing::{info, warn};

use crate::decide_group::{self, PendingUnit};
use crate::engine_port::StorageEngine;
use crate::port::{
    AppendGroupOutcome, AppendOutcome, CommitReport, CommitReportSink, Journal, JournalUnit,
    StoreError, StoreSize, StoredValue, UnitToken,
};
use crate::scans::JournalReader;
use crate::store_floor::StoreJobCounts;
use append_queue::AppendQueue;

/// Limits of one flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushLimits {
    /// Most units in a group.
    pub units_max: usize,
    /// Most bytes of keys and values in a group; a single unit may exceed it.
    pub bytes_max: usize,
}

impl Default for FlushLimits {
    fn default() -> Self {
        Self {
            units_max: 512,
            bytes_max: 4 << 20,
        }
    }
}

/// Time that the thread waits for units before it checks the surroundings of the store.
const IDLE: Duration = Duration::from_secs(1);

/// Time for which, and interval at which, the journal looks for a store that cannot be checked.
const UNSEEN_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = (UNSEEN_MAX.as_millis() / LOOK_EVERY.as_millis()) as u32;

/// Checks and updates the surroundings of a store, on the journal's thread.
pub(crate) trait JournalHooks: Send {
    /// Checks that the store is where it was. Until this succeeds nothing is reported, and neither
    /// [`JournalHooks::on_committed`] nor [`JournalHooks::on_idle`] is called.
    ///
    /// # Errors
    /// Fails if it is not there, or ([`StoreError::Unseen`]) if that cannot be checked now.
    fn check_place(&self) -> Result<(), StoreError>;

    /// Called when a group that ends with this unit is durable, but not yet reported.
    ///
    /// # Errors
    /// Fails if the progress of the store cannot be stored: then the group is not reported, and no
    /// other is taken.
    fn on_committed(&mut self, seq: Seq, tally: StoreJobCounts) -> Result<(), StoreError>;

    /// Called when no unit came for a second.
    ///
    /// # Errors
    /// Fails as [`JournalHooks::on_committed`].
    fn on_idle(&mut self) -> Result<(), StoreError>;

    /// Called when the journal was closed in good order.
    fn on_closed(&mut self);
}

/// The attendant of a store without surroundings.
pub(crate) struct NoJournalHooks;

impl JournalHooks for NoJournalHooks {
    fn check_place(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn on_committed(&mut self, _: Seq, _: StoreJobCounts) -> Result<(), StoreError> {
        Ok(())
    }

    fn on_idle(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn on_closed(&mut self) {}
}

/// A journal over an engine, decided by a thread.
pub(crate) struct ThreadedJournal {
    queue: Arc<AppendQueue>,
    reading: JournalReader,
    thread: Mutex<Option<JoinHandle<()>>>,
    thread_id: ThreadId,
}

impl ThreadedJournal {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the system gives no thread.
    pub(crate) fn start<E: StorageEngine + 'static>(
        engine: E,
        place: &str,
        limits: FlushLimits,
        sink: CommitReportSink,
        attendant: Box<dyn JournalHooks>,
        tally: StoreJobCounts,
    ) -> Result<Self, StoreError> {
        let queue = Arc::new(AppendQueue::new(limits, IDLE));
        let reading = JournalReader::new(place, engine.reader());
        let queued = Arc::clone(&queue);
        let worker = JournalWorker {
            engine: Some(engine),
            queue: queued,
            sink,
            attendant,
            tally,
        };
        let thread = std::thread::Builder::new()
            .name("cospan-journal".into())
            .spawn(move || worker.run())
            .map_err(|source| StoreError::Io {
                path: place.into(),
                action: "served by a thread of its own",
                source,
            })?;
        let thread_id = thread.thread().id();
        Ok(Self {
            queue,
            reading,
            thread: Mutex::new(Some(thread)),
            thread_id,
        })
    }
}

impl Journal for ThreadedJournal {
    fn append(&self, epoch: Epoch, token: UnitToken, unit: JournalUnit) {
        self.queue.push(PendingUnit::new(epoch, token, unit));
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(StoredValue) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.reading.scan_values(prefix, visit)
    }

    fn size(&self) -> StoreSize {
        self.reading.size()
    }

    fn close(&self) {
        self.queue.close();
        self.reading.close();
        // The sink may close its own journal: the thread cannot wait for itself.
        if std::thread::current().id() == self.thread_id {
            return;
        }
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic of the thread was already reported as fatal.
            let _ = thread.join();
        }
    }
}

impl Drop for ThreadedJournal {
    fn drop(&mut self) {
        self.close();
    }
}

/// State of the thread.
struct JournalWorker<E> {
    engine: Option<E>,
    queue: Arc<AppendQueue>,
    sink: CommitReportSink,
    attendant: Box<dyn JournalHooks>,
    tally: StoreJobCounts,
}

impl<E: StorageEngine> JournalWorker<E> {
    fn run(mut self) {
        let result = catch_unwind(AssertUnwindSafe(|| self.serve_groups()))
            .unwrap_or_else(|panic| Err(format!("the journal panicked: {}", panic_text(&*panic))));
        self.queue.close();
        let engine = self.engine.take();
        match result {
            Ok(()) => {
                // Dropped first: what the marker says must be true on disk.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(engine)));
                self.attendant.on_closed();
            }
            Err(reason) => {
                let sink = self.sink;
                let _ = catch_unwind(AssertUnwindSafe(|| sink(CommitReport::Fatal(reason))));
                let _ = catch_unwind(AssertUnwindSafe(|| drop(engine)));
            }
        }
    }

    fn serve_groups(&mut self) -> Result<(), String> {
        while let Some(units) = self.queue.take_group() {
            let Some(engine) = self.engine.as_mut() else {
                return Ok(());
            };
            if units.is_empty() {
                self.wait_for_place()
                    .and_then(|()| self.attendant.on_idle())
                    .map_err(|e| e.to_string())?;
                continue;
            }
            let decided = decide_group::decide_group(engine, units, &mut self.tally);
            let group = decided.and_then(|group| {
                if let Some(seq) = last_committed(&group) {
                    self.wait_for_place()?;
                    self.attendant.on_committed(seq, self.tally)?;
                }
                Ok(group)
            });
            (self.sink)(CommitReport::Group(
                group.map_err(|error| error.to_string())?,
            ));
        }
        Ok(())
    }

    /// Checks that the store is where it was. If that cannot be checked, it tries again for a
    /// while: modes and mounts are repaired in seconds, and until then nothing is reported.
    fn wait_for_place(&self) -> Result<(), StoreError> {
        let mut looks = 0;
        loop {
            match self.attendant.check_place() {
                Ok(()) => {
                    if looks > 0 {
                        info!("the store is seen again; it goes on");
                    }
                    return Ok(());
                }
                Err(problem @ StoreError::Unseen { .. }) => {
                    if looks == 0 {
                        let patience = UNSEEN_MAX.as_secs();
                        warn!("{problem}; nothing is acknowledged, looking again for {patience} s");
                    }
                    if looks == LOOKS_MAX || self.queue.is_closed() {
                        let seconds = (LOOK_EVERY * looks).as_secs();
                        let problem = problem.to_string();
                        return Err(StoreError::UnseenTooLong { problem, seconds });
                    }
                    looks += 1;
                    std::thread::sleep(LOOK_EVERY);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the last committed unit of a group.
fn last_committed(group: &AppendGroupOutcome) -> Option<Seq> {
    group
        .outcomes
        .iter()
        .rev()
        .find_map(|(_, outcome)| match outcome {
            AppendOutcome::Committed(seq) => Some(*seq),
            AppendOutcome::Conflict(_) | AppendOutcome::Fenced | AppendOutcome::Refused(_) => None,
        })
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a word")
}
