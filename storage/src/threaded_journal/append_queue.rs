//! Units that wait for the journal's thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::FlushLimits;
use crate::decide_group::PendingUnit;

/// Units in the order of append. Their number is not limited here: each appender has its own bound.
pub(super) struct AppendQueue {
    state: Mutex<AppendQueueState>,
    wake: Condvar,
    limits: FlushLimits,
    idle: Duration,
}

#[derive(Default)]
struct AppendQueueState {
    waiting: VecDeque<PendingUnit>,
    closed: bool,
}

impl AppendQueue {
    pub(super) fn new(limits: FlushLimits, idle: Duration) -> Self {
        Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            limits,
            idle,
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, AppendQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, pending: PendingUnit) {
        let mut state = self.lock_state();
        if state.closed {
            return;
        }
        state.waiting.push_back(pending);
        let first = state.waiting.len() == 1;
        drop(state);
        // The thread sleeps only when it found nothing at all.
        if first {
            self.wake.notify_one();
        }
    }

    /// Returns the next group, an empty one if none comes for a while; `None` once the queue is
    /// closed and empty.
    pub(super) fn take_group(&self) -> Option<Vec<PendingUnit>> {
        let mut state = self.lock_state();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            let woken = self.wake.wait_timeout(state, self.idle);
            let (now, waited) = woken.unwrap_or_else(PoisonError::into_inner);
            state = now;
            if waited.timed_out() && state.waiting.is_empty() && !state.closed {
                return Some(Vec::new());
            }
        }
        let mut bytes = 0;
        let fits = state
            .waiting
            .iter()
            .take(self.limits.units_max.max(1))
            .take_while(|pending| {
                bytes += pending.bytes;
                bytes <= self.limits.bytes_max
            })
            .count();
        Some(state.waiting.drain(..fits.max(1)).collect())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock_state().closed
    }

    pub(super) fn close(&self) {
        self.lock_state().closed = true;
        self.wake.notify_all();
    }
}
