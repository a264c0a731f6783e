//! The store of a control plane that may be killed at any append, and the hash of
//! all that it made durable.

use std::hash::{DefaultHasher, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use cospan_actors::clock::Clock;
use cospan_domain::ids::Epoch;
use cospan_storage::port::{Journal, StoreError, StoreSize, Stored, Token, Unit};

use super::doom::Doom;

/// What happened in a run, as one number: equal seeds give equal hashes.
#[derive(Debug, Default)]
pub struct EventHash {
    state: Mutex<(DefaultHasher, u64)>,
}

impl EventHash {
    /// Adds one record of what happened.
    pub fn add(&self, parts: &[&[u8]]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        for part in parts {
            state.0.write_usize(part.len());
            state.0.write(part);
        }
    }

    /// The hash so far, in hexadecimal digits, and how many records went in.
    pub fn finish(&self) -> (String, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (format!("{:016x}", state.0.finish()), state.1)
    }
}

/// A journal that stops with its control plane.
pub(super) struct MortalJournal {
    pub(super) inner: Arc<dyn Journal>,
    pub(super) doom: Arc<Doom>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) hash: Arc<EventHash>,
}

impl MortalJournal {
    fn note(&self, unit: &Unit) {
        let now = self.clock.now().0.to_le_bytes();
        for change in &unit.changes {
            let value = change.value.as_deref().unwrap_or_default();
            self.hash.add(&[&now, &change.key.0, value]);
        }
    }
}

impl Journal for MortalJournal {
    fn append(&self, epoch: Epoch, token: Token, unit: Unit) {
        let (lives, last) = self.doom.append();
        if !lives {
            return;
        }
        self.note(&unit);
        self.inner.append(epoch, token, unit);
        if last {
            self.doom.strike();
        }
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(Stored) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.inner.scan(prefix, visit)
    }

    fn size(&self) -> StoreSize {
        self.inner.size()
    }

    fn close(&self) {
        self.inner.close();
    }
}
