//! A journal without a thread: the caller of `append` decides, and calls the sink.
//!
//! Deterministic, for the simulator and for tests. A unit appended from within
//! the sink waits until the sink has returned.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::Epoch;

use crate::decide_group::{self, PendingUnit};
use crate::engine_port::StorageEngine;
use crate::port::{
    CommitReport, CommitReportSink, Journal, JournalUnit, StoreError, StoreSize, StoredValue,
    UnitToken,
};
use crate::scans::JournalReader;
use crate::store_floor::StoreJobCounts;

/// A journal over an engine, decided in-line.
pub(crate) struct InlineJournal<E> {
    engine: Mutex<Option<E>>,
    queue: Mutex<InlineJournalQueue>,
    reading: JournalReader,
    sink: CommitReportSink,
    max_units: usize,
}

#[derive(Default)]
struct InlineJournalQueue {
    waiting: VecDeque<PendingUnit>,
    /// True while somebody decides, who will take all new units.
    busy: bool,
    closed: bool,
}

impl<E: StorageEngine> InlineJournal<E> {
    pub(crate) fn new(engine: E, place: &str, max_units: usize, sink: CommitReportSink) -> Self {
        let reading = JournalReader::new(place, engine.reader());
        Self {
            engine: Mutex::new(Some(engine)),
            queue: Mutex::default(),
            reading,
            sink,
            max_units,
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, InlineJournalQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next group, or stops deciding if there is none.
    fn next_group(&self) -> Option<Vec<PendingUnit>> {
        let mut queue = self.lock_queue();
        let count = queue.waiting.len().min(self.max_units);
        queue.busy = count > 0;
        (count > 0).then(|| queue.waiting.drain(..count).collect())
    }

    fn decide_all(&self) {
        let _idle = IdleOnPanicGuard(&self.queue);
        while let Some(group) = self.next_group() {
            let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            let report = match engine.as_mut().map(|engine| {
                decide_group::decide_group(engine, group, &mut StoreJobCounts::default())
            }) {
                Some(Ok(group)) => CommitReport::Group(group),
                Some(Err(error)) => {
                    *engine = None;
                    CommitReport::Fatal(error.to_string())
                }
                None => continue,
            };
            drop(engine);
            (self.sink)(report);
        }
    }
}

/// Lets others decide again when the sink panics. Without a panic, the one who finds the queue
/// empty has already said so, and another may have begun since.
struct IdleOnPanicGuard<'a>(&'a Mutex<InlineJournalQueue>);

impl Drop for IdleOnPanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).busy = false;
        }
    }
}

impl<E: StorageEngine> Journal for InlineJournal<E> {
    fn append(&self, epoch: Epoch, token: UnitToken, unit: JournalUnit) {
        let mut queue = self.lock_queue();
        if queue.closed {
            return;
        }
        queue
            .waiting
            .push_back(PendingUnit::new(epoch, token, unit));
        if !std::mem::replace(&mut queue.busy, true) {
            drop(queue);
            self.decide_all();
        }
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
        self.lock_queue().closed = true;
        self.reading.close();
    }
}
