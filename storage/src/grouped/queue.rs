//! What waits for the journal's thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::GroupLimits;
use crate::judge::Pending;

/// Units in the order of append. How many may wait is the business of those who
/// append: each has its own bound.
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    limits: GroupLimits,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Pending>,
    closed: bool,
}

impl Queue {
    pub(super) fn new(limits: GroupLimits) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), limits }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, pending: Pending) {
        let mut state = self.state();
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

    /// The next group; `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Vec<Pending>> {
        let mut state = self.state();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
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

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_all();
    }
}
