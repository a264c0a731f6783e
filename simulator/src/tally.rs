//! How often each kind of trouble struck with effect, and at which step of the protocol.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::kinds::Kind;
use crate::world::trouble::{Struck, count};

/// A count that whoever brings trouble adds to.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Struck>);

impl Tally {
    /// Counts one strike.
    pub fn count(&self, kind: Kind, step: &'static str) {
        count(&mut self.lock(), kind, step);
    }

    /// All strikes so far.
    pub fn struck(&self) -> Struck {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Struck> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
