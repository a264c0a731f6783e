//! A journal with one thread of its own that decides whatever is queued
//! together, so that one flush serves many units.

mod queue;

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, ThreadId};

use cospan_domain::ids::{Epoch, Seq};

use crate::engine::Engine;
use crate::judge::{self, Pending};
use crate::port::{Journal, Outcome, Report, Sink, StoreError, StoreSize, Stored, Token, Unit};
use crate::reading::Reading;
use queue::Queue;

/// How much one flush may serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// Most units.
    pub units_max: usize,
    /// Most bytes of keys and values; a single unit may exceed it.
    pub bytes_max: usize,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self { units_max: 512, bytes_max: 4 << 20 }
    }
}

/// Called with the last committed unit when a journal is closed in good order.
pub(crate) type Farewell = Box<dyn FnOnce(Seq) + Send>;

/// A journal over an engine, decided by a thread.
pub(crate) struct Grouped {
    queue: Arc<Queue>,
    reading: Reading,
    thread: Mutex<Option<JoinHandle<()>>>,
    thread_id: ThreadId,
}

impl Grouped {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start<E: Engine + 'static>(
        engine: E,
        place: &str,
        limits: GroupLimits,
        sink: Sink,
        farewell: Farewell,
    ) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::new(limits));
        let reading = Reading::new(place, engine.reader());
        let worker = Worker { engine: Some(engine), queue: Arc::clone(&queue), sink, last: None };
        let thread = std::thread::Builder::new()
            .name("cospan-journal".into())
            .spawn(move || worker.run(farewell))
            .map_err(|source| StoreError::Io {
                path: place.into(),
                action: "served by a thread of its own",
                source,
            })?;
        let thread_id = thread.thread().id();
        Ok(Self { queue, reading, thread: Mutex::new(Some(thread)), thread_id })
    }
}

impl Journal for Grouped {
    fn append(&self, epoch: Epoch, token: Token, unit: Unit) {
        self.queue.push(Pending::new(epoch, token, unit));
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(Stored) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.reading.scan(prefix, visit)
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
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the thread was reported as fatal already.
            let _ = thread.join();
        }
    }
}

impl Drop for Grouped {
    fn drop(&mut self) {
        self.close();
    }
}

/// What the thread owns.
struct Worker<E> {
    engine: Option<E>,
    queue: Arc<Queue>,
    sink: Sink,
    last: Option<Seq>,
}

impl<E: Engine> Worker<E> {
    fn run(mut self, farewell: Farewell) {
        let result = catch_unwind(AssertUnwindSafe(|| self.serve()))
            .unwrap_or_else(|panic| Err(format!("the journal panicked: {}", panic_text(&*panic))));
        self.queue.close();
        let engine = self.engine.take();
        match result {
            Ok(()) => {
                // Dropped first: what the marker says must be true on disk.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(engine)));
                if let Some(seq) = self.last {
                    farewell(seq);
                }
            }
            Err(reason) => {
                let sink = self.sink;
                let _ = catch_unwind(AssertUnwindSafe(|| sink(Report::Fatal(reason))));
                let _ = catch_unwind(AssertUnwindSafe(|| drop(engine)));
            }
        }
    }

    fn serve(&mut self) -> Result<(), String> {
        while let Some(units) = self.queue.take() {
            let Some(engine) = self.engine.as_mut() else { return Ok(()) };
            let group = judge::decide(engine, units).map_err(|error| error.to_string())?;
            let last = group.outcomes.iter().rev().find_map(|(_, outcome)| match outcome {
                Outcome::Committed(seq) => Some(*seq),
                Outcome::Conflict(_) | Outcome::Fenced | Outcome::Refused(_) => None,
            });
            self.last = last.or(self.last);
            (self.sink)(Report::Group(group));
        }
        Ok(())
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a word")
}
