//! An engine over bytes in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::MemoryValues;
use crate::engine_port::{
    BytesVisitor, EngineReader, EngineTransaction, EntryVisitor, StorageEngine, StoreWrites,
};
use crate::port::{StoreError, StoreKey, StoreSize};

/// The data of a store in memory, which outlive its journal.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<MemoryValues>>);

impl MemoryDisk {
    /// Copies the disk with its present content.
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock_values().clone())))
    }

    fn lock_values(&self) -> MutexGuard<'_, MemoryValues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine of one user of a [`MemoryDisk`].
#[derive(Debug)]
pub(crate) struct MemoryEngine(MemoryDisk);

impl MemoryEngine {
    pub(crate) fn new(disk: MemoryDisk) -> Self {
        Self(disk)
    }
}

impl StorageEngine for MemoryEngine {
    fn run_exclusively(
        &mut self,
        work: &mut dyn FnMut(&mut dyn EngineTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        work(&mut MemoryTransaction(&mut self.0.lock_values()))
    }

    fn reader(&self) -> Arc<dyn EngineReader> {
        Arc::new(self.0.clone())
    }
}

struct MemoryTransaction<'a>(&'a mut MemoryValues);

impl EngineTransaction for MemoryTransaction<'_> {
    fn is_memory(&self) -> bool {
        true
    }

    fn get(&mut self, key: &[u8], see: BytesVisitor<'_>) -> Result<(), StoreError> {
        self.0.get(key).map_or(Ok(()), see)
    }

    fn commit(&mut self, writes: StoreWrites) -> Result<u64, StoreError> {
        apply_writes(self.0, writes);
        Ok(0)
    }
}

/// Applies writes to values in memory.
pub(crate) fn apply_writes(values: &mut MemoryValues, writes: StoreWrites) {
    for (key, bytes) in writes {
        match bytes {
            Some(bytes) => values.insert(&key.0, bytes.into()),
            None => values.remove(&key.0),
        }
    }
}

/// Shows values to a visitor until it has seen enough.
pub(crate) fn visit_values(found: Vec<(StoreKey, Box<[u8]>)>, visit: EntryVisitor<'_>) {
    for (key, stored) in found {
        if visit(&key.0, &stored).is_break() {
            return;
        }
    }
}

impl EngineReader for MemoryDisk {
    fn is_memory(&self) -> bool {
        true
    }

    fn walk(&self, prefix: &[u8], visit: EntryVisitor<'_>) -> Result<(), StoreError> {
        let found = self.lock_values().values_with_prefix(prefix);
        visit_values(found, visit);
        Ok(())
    }

    fn size(&self) -> StoreSize {
        StoreSize::default()
    }
}
