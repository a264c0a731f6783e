//! Notices between two polls that an attempt is ready, has begun or has ended.
//!
//! These are only hints: nothing depends on them. The thread lives while attempts do.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::LocalSiteState;
use super::attempt_processes::{self, ProcessHandle};
use super::live_attempts::LiveAttempts;
use super::live_entry::LiveAttempt;

/// The pause between two looks while a file is awaited that appears soon.
const SOON: Duration = Duration::from_millis(5);
/// The pause between two looks otherwise; the end of a process is noticed at once.
const LATER: Duration = Duration::from_millis(500);
/// The rest after each look, for every attempt that it covered: what happens to many at about the
/// same time is seen in one look. Without it the looks took a tenth of two processors.
const REST_PER_ATTEMPT: Duration = Duration::from_micros(200);
/// The longest of these rests, and the shortest: an ended process stays readable until its end is
/// determined, and must never be spun on.
const REST_MAX: Duration = Duration::from_millis(20);
const REST_MIN: Duration = Duration::from_millis(1);

/// Wakes the watcher when there is something new to watch.
#[derive(Debug)]
pub(super) struct WatcherWaker(Option<OwnedFd>);

impl WatcherWaker {
    /// Makes one; if the system gives none, the watcher wakes a little later by itself.
    pub(super) fn new() -> Self {
        Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok())
    }

    pub(super) fn wake_watcher(&self) {
        if let Some(fd) = &self.0 {
            // Full means that it is about to wake.
            let _ = rustix::io::write(fd, &1_u64.to_ne_bytes());
        }
    }

    fn clear_wake(&self) {
        if let Some(fd) = &self.0 {
            // Empty means that nobody woke it.
            let _ = rustix::io::read(fd, &mut [0_u8; 8]);
        }
    }
}

impl LocalSiteState {
    /// Starts the watcher, unless it runs or there is nothing to watch.
    pub(super) fn ensure_watched(self: &Arc<Self>, ledger: &mut LiveAttempts) {
        if ledger.watched || ledger.entries.is_empty() {
            return;
        }
        let shared = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("cospan-local-site".to_owned());
        // Without a thread there are no hints, and polls suffice.
        ledger.watched = thread.spawn(move || watch_attempts(&shared)).is_ok();
    }

    /// Looks once; returns the processes to wait for and for how long, or `None` if there are none.
    fn refresh_once(&self) -> Option<(Vec<Arc<ProcessHandle>>, Duration)> {
        let mut ledger = self.lock_ledger();
        if ledger.entries.is_empty() {
            ledger.watched = false;
            return None;
        }
        let refreshed = self
            .open_root()
            .ok()
            .and_then(|root| ledger.refresh_entries(&root, false).ok());
        if refreshed.is_some_and(|refreshed| refreshed.changed) {
            self.changes
                .send_modify(|count| *count = count.wrapping_add(1));
        }
        let restless = ledger.entries.values().any(LiveAttempt::awaits_file_soon);
        let wrappers = ledger
            .entries
            .values()
            .filter_map(|e| e.wrapper().cloned())
            .collect();
        Some((wrappers, if restless { SOON } else { LATER }))
    }
}

/// Returns how long the next look waits at least if this many attempts are watched.
fn rest_after_look(attempts: usize) -> Duration {
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    REST_PER_ATTEMPT
        .saturating_mul(attempts)
        .clamp(REST_MIN, REST_MAX)
}

fn watch_attempts(shared: &Weak<LocalSiteState>) {
    while let Some(shared) = shared.upgrade() {
        let Some((wrappers, pause)) = shared.refresh_once() else {
            return;
        };
        let wrappers: Vec<&ProcessHandle> = wrappers.iter().map(|wrapper| &**wrapper).collect();
        attempt_processes::wait_for_ends(&wrappers, pause, shared.waker.0.as_ref());
        std::thread::sleep(rest_after_look(wrappers.len()));
        shared.waker.clear_wake();
    }
}
