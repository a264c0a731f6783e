//! How often each kind of trouble struck with effect, and at which step of the protocol.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::kinds::FaultKind;
use crate::world::trouble::{StruckFault, count};

/// A count that whoever brings trouble adds to.
#[derive(Debug, Default)]
pub struct StrikeTally(Mutex<StruckFault>);

impl StrikeTally {
    /// Counts one strike.
    pub fn count(&self, kind: FaultKind, step: &'static str) {
        count(&mut self.lock(), kind, step);
    }

    /// All strikes so far.
    pub fn struck(&self) -> StruckFault {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, StruckFault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
