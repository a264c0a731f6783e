//! Counts of faults that had an effect, by kind and by step of the protocol.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fault_kinds::FaultKind;
use crate::world::site_faults::{FaultEffectCounts, count_effect};

/// A shared count of the injected faults that had an effect.
#[derive(Debug, Default)]
pub struct FaultEffectTally(Mutex<FaultEffectCounts>);

impl FaultEffectTally {
    /// Counts one fault.
    pub fn count_fault(&self, kind: FaultKind, step: &'static str) {
        count_effect(&mut self.lock(), kind, step);
    }

    /// Returns the counts so far.
    pub fn fault_counts(&self) -> FaultEffectCounts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, FaultEffectCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
