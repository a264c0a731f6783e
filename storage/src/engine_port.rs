//! The interface of a backend; everything else is written once above it.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::port::{StoreError, StoreKey, StoreSize};

/// Writes that become durable together: the bytes to store, or `None` to delete.
pub(crate) type StoreWrites = Vec<(StoreKey, Option<Vec<u8>>)>;

/// A callback that gets stored bytes without a copy of them.
pub(crate) type BytesVisitor<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), StoreError>;

/// A callback that gets keys with their stored bytes, until it breaks.
pub(crate) type EntryVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// A place that keeps bytes by key. One thread at a time uses it.
pub(crate) trait StorageEngine: Send {
    /// Runs `work` while nobody else writes.
    fn run_exclusively(
        &mut self,
        work: &mut dyn FnMut(&mut dyn EngineTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Returns a reader for any thread.
    fn reader(&self) -> Arc<dyn EngineReader>;
}

impl StorageEngine for Box<dyn StorageEngine> {
    fn run_exclusively(
        &mut self,
        work: &mut dyn FnMut(&mut dyn EngineTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        (**self).run_exclusively(work)
    }

    fn reader(&self) -> Arc<dyn EngineReader> {
        (**self).reader()
    }
}

/// Reading and writing while nobody else writes.
pub(crate) trait EngineTransaction {
    /// Returns true if stored data cannot have changed since: they are memory of this process.
    fn is_memory(&self) -> bool {
        false
    }

    /// Passes the bytes under a key to `see`; does not call it if the key is not there.
    fn get(&mut self, key: &[u8], see: BytesVisitor<'_>) -> Result<(), StoreError>;

    /// Makes all writes durable, or none. Returns the time that it took, in microseconds.
    fn commit(&mut self, writes: StoreWrites) -> Result<u64, StoreError>;
}

/// Reads what is durable, from any thread.
pub(crate) trait EngineReader: Send + Sync {
    /// Returns the same as [`EngineTransaction::is_memory`].
    fn is_memory(&self) -> bool {
        false
    }

    /// Visits everything that begins with `prefix`, in order, as of one moment.
    fn walk(&self, prefix: &[u8], visit: EntryVisitor<'_>) -> Result<(), StoreError>;

    /// Returns the size of the store; `keys` is left to the caller.
    fn size(&self) -> StoreSize;
}
