//! Progress and stalls: a thread watches the copying thread.
//!
//! A read from a file system that hangs does not return, so the reader cannot notice that itself.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::task_error::AgentTaskError;

/// The interval at which progress is written and stalls are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The phase of the copying thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyThreadPhase {
    /// Something that may take any time: waiting for its share of the link, flushing.
    Free = 0,
    /// Reading the source.
    Reading = 1,
    /// Writing the destination.
    Writing = 2,
}

/// The state that the copying thread and the watching one share.
#[derive(Debug, Default)]
pub(super) struct CopyThreadState {
    phase: AtomicU8,
    steps: AtomicU64,
    done_bytes: AtomicU64,
    /// The size of the file; 0 for a directory.
    of_bytes: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl CopyThreadState {
    /// Makes one whose copy ends when a signal sets `stop`.
    pub(super) fn new(stop: Arc<AtomicBool>) -> Self {
        Self {
            stop,
            ..Self::default()
        }
    }

    /// Enters a phase, or begins a new step within it.
    pub(super) fn begin_step(&self, phase: CopyThreadPhase) {
        self.phase.store(phase as u8, Relaxed);
        self.steps.fetch_add(1, Relaxed);
    }

    /// Counts bytes that arrived, or were found to be there.
    pub(super) fn count_bytes(&self, bytes: usize) {
        self.done_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Begins to count from nothing again.
    pub(super) fn reset_count(&self) {
        self.done_bytes.store(0, Relaxed);
    }

    pub(super) fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Relaxed)
    }

    /// Notes the size of the file.
    pub(super) fn set_size(&self, bytes: u64) {
        self.of_bytes.store(bytes, Relaxed);
    }

    pub(super) fn size(&self) -> Option<u64> {
        Some(self.of_bytes.load(Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Returns an error if a signal asked the task to end.
    pub(super) fn check_stop(&self) -> Result<(), AgentTaskError> {
        if self.stop.load(Relaxed) {
            return Err(AgentTaskError::blaming_process(
                "the copy was stopped by a signal; what arrived is kept",
            ));
        }
        Ok(())
    }

    /// Waits for its share of the link; a signal to end makes that an error.
    pub(super) fn wait_unless_stopped(&self, time: Duration) -> Result<(), AgentTaskError> {
        const SLICE: Duration = Duration::from_millis(50);
        let until = Instant::now() + time;
        loop {
            self.check_stop()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(SLICE));
        }
    }
}

/// Detects that no step was made for too long.
#[derive(Debug)]
struct StallDetector {
    stall_after: Duration,
    steps: u64,
    since: Instant,
}

impl StallDetector {
    fn new(stall_after: Duration, now: Instant) -> Self {
        Self {
            stall_after,
            steps: 0,
            since: now,
        }
    }

    fn detect_stall(&mut self, watch: &CopyThreadState, now: Instant) -> Option<AgentTaskError> {
        let steps = watch.steps.load(Relaxed);
        if steps != self.steps {
            self.steps = steps;
            self.since = now;
            return None;
        }
        let stalled = now.saturating_duration_since(self.since);
        let phase = watch.phase.load(Relaxed);
        if stalled < self.stall_after || phase == CopyThreadPhase::Free as u8 {
            return None;
        }
        let detail = format!("no byte for {} s", stalled.as_secs());
        Some(if phase == CopyThreadPhase::Reading as u8 {
            AgentTaskError::blaming_source(detail)
        } else {
            AgentTaskError::blaming_destination(detail)
        })
    }
}

/// The watching thread; ends when dropped.
#[derive(Debug)]
pub(super) struct CopyWatchThread {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl CopyWatchThread {
    /// Starts it. `on_progress` gets the bytes done when they have changed; `on_stall` is called
    /// once when nothing moves for `stall_after`.
    pub(super) fn start_watching(
        watch: Arc<CopyThreadState>,
        stall_after: Duration,
        mut on_progress: impl FnMut(u64) + Send + 'static,
        on_stall: impl FnOnce(AgentTaskError) + Send + 'static,
    ) -> Self {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let ended = over.clone();
        let thread = thread::spawn(move || {
            let mut detector = StallDetector::new(stall_after, Instant::now());
            let mut written = 0;
            while !wait_for_end(&ended, LOOK_EVERY) {
                let done = watch.done_bytes();
                if done != written {
                    on_progress(done);
                    written = done;
                }
                if let Some(trouble) = detector.detect_stall(&watch, Instant::now()) {
                    return on_stall(trouble);
                }
            }
        });
        Self {
            over,
            thread: Some(thread),
        }
    }
}

fn wait_for_end((over, changed): &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let guard = over.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(guard, time, |over| !*over);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for CopyWatchThread {
    fn drop(&mut self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot panic in a way that matters here; the task's outcome is written already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc;

    use super::*;
    use crate::files::agent_messages::WrittenCopyBlame;

    const STALL: Duration = Duration::from_secs(30);

    fn detect_stall_in(phase: CopyThreadPhase) -> Option<WrittenCopyBlame> {
        let watch = CopyThreadState::default();
        let start = Instant::now();
        let mut detector = StallDetector::new(STALL, start);
        watch.begin_step(phase);
        assert_eq!(
            detector.detect_stall(&watch, start + STALL * 2),
            None,
            "a step was made"
        );
        assert_eq!(
            detector.detect_stall(&watch, start + STALL * 3 - Duration::from_millis(1)),
            None
        );
        detector
            .detect_stall(&watch, start + STALL * 3)
            .map(|trouble| trouble.blame)
    }

    #[test]
    fn whoever_is_waited_for_is_blamed_for_a_stall_but_not_when_we_wait() {
        assert_eq!(
            detect_stall_in(CopyThreadPhase::Reading),
            Some(WrittenCopyBlame::Source)
        );
        assert_eq!(
            detect_stall_in(CopyThreadPhase::Writing),
            Some(WrittenCopyBlame::Destination)
        );
        assert_eq!(detect_stall_in(CopyThreadPhase::Free), None);
    }

    #[test]
    fn a_source_that_gives_no_byte_is_noticed_while_the_reader_hangs_in_it() {
        let (mut silent, _writer) = std::io::pipe().unwrap();
        let watch = Arc::new(CopyThreadState::default());
        let reading = watch.clone();
        thread::spawn(move || {
            reading.begin_step(CopyThreadPhase::Reading);
            let _ = silent.read(&mut [0]);
        });
        let (report, stalls) = mpsc::channel();
        let _looker = CopyWatchThread::start_watching(
            watch,
            Duration::from_millis(300),
            |_| {},
            move |trouble| report.send(trouble).unwrap(),
        );
        let trouble = stalls.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(trouble.blame, WrittenCopyBlame::Source);
    }

    #[test]
    fn waiting_for_a_share_ends_when_told_to() {
        let stop = Arc::new(AtomicBool::new(true));
        assert!(
            CopyThreadState::new(stop)
                .wait_unless_stopped(Duration::from_secs(3600))
                .is_err()
        );
    }
}
