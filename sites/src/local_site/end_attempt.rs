//! Ends an attempt, at whatever stage: ask, wait the grace, kill.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use rustix::process::Signal;

use super::final_evidence::kill_attempt_processes;
use super::{LocalSiteState, outcome_unknown_error};
use crate::port::{GateDecision, GateState, SiteError};

/// The time beyond the grace that the wrapper gets to record its end.
const MARGIN: Duration = Duration::from_secs(2);
/// The longest that killing is tried at a site that does not answer; then the request is repeated.
const GIVEN_UP: Duration = Duration::from_secs(60);
/// The pause between two looks at an attempt that is being ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl LocalSiteState {
    /// Asks for the end and sees it through in the background. If this control plane dies
    /// meanwhile, the next one asks again.
    pub(super) fn cancel(self: &Arc<Self>, tag: AttemptTag) -> Result<(), SiteError> {
        // Whatever is not past the gate never will be.
        let state = self.decide_gate(tag, &GateDecision::Void)?;
        let root = self.open_root()?;
        let mut ledger = self.lock_ledger();
        ledger
            .refresh_entries(&root, true)
            .map_err(|e| outcome_unknown_error(&e))?;
        let Some(entry) = ledger.entries.get(&tag) else {
            return Ok(());
        };
        if let Some(wrapper) = entry.wrapper() {
            if state == GateState::Opened {
                wrapper.send_signal(Signal::TERM);
            }
            // A wrapper that was stopped cannot act on it.
            wrapper.send_signal(Signal::CONT);
        }
        drop(ledger);
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if ending.insert(tag) {
            let shared = self.clone();
            let thread = std::thread::Builder::new().name("cospan-local-end".to_owned());
            if let Err(error) = thread.spawn(move || shared.end_in_background(tag)) {
                ending.remove(&tag);
                return Err(outcome_unknown_error(&error));
            }
        }
        Ok(())
    }

    fn end_in_background(&self, tag: AttemptTag) {
        let grace = Duration::from_millis(self.config.grace.0) + MARGIN;
        let asked = Instant::now();
        while asked.elapsed() < grace && !self.has_ended(tag) {
            std::thread::sleep(LOOK_EVERY);
        }
        // Now kill what ignored the request, and what went to groups of its own.
        while asked.elapsed() < grace + GIVEN_UP
            && !self
                .open_root()
                .is_ok_and(|root| kill_attempt_processes(&root, tag).is_ok_and(|left| left == 0))
        {
            std::thread::sleep(LOOK_EVERY);
        }
        self.ending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&tag);
    }

    /// Returns true if an attempt uses nothing any more.
    fn has_ended(&self, tag: AttemptTag) -> bool {
        let Ok(root) = self.open_root() else {
            return false;
        };
        let mut ledger = self.lock_ledger();
        ledger.refresh_entries(&root, false).is_ok() && !ledger.entries.contains_key(&tag)
    }
}
