//! What a backend must be able to do; everything else is written once above it.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::port::{Key, StoreError, StoreSize};

/// Writes that become durable together: the bytes to store, or `None` to delete.
pub(crate) type Writes = Vec<(Key, Option<Vec<u8>>)>;

/// Shows stored bytes to its caller without copying them.
pub(crate) type See<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), StoreError>;

/// Is shown keys with their stored bytes, until it has seen enough.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// A place that keeps bytes by key. One thread at a time uses it.
pub(crate) trait Engine: Send {
    /// Runs `work` with nobody else writing in between.
    fn exclusively(
        &mut self,
        work: &mut dyn FnMut(&mut dyn Txn) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// A way to read from any thread.
    fn reader(&self) -> Arc<dyn EngineReader>;
}

impl Engine for Box<dyn Engine> {
    fn exclusively(
        &mut self,
        work: &mut dyn FnMut(&mut dyn Txn) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        (**self).exclusively(work)
    }

    fn reader(&self) -> Arc<dyn EngineReader> {
        (**self).reader()
    }
}

/// Reading and writing while nobody else writes.
pub(crate) trait Txn {
    /// Whether nothing can have changed what it keeps since it was stored: it is memory of this
    /// process.
    fn is_memory(&self) -> bool {
        false
    }

    /// Shows what is stored under a key; nothing, if the key is not there.
    fn get(&mut self, key: &[u8], see: See<'_>) -> Result<(), StoreError>;

    /// Makes all writes durable, or none. Returns the microseconds that it took.
    fn commit(&mut self, writes: Writes) -> Result<u64, StoreError>;
}

/// Reads what is durable, from any thread.
pub(crate) trait EngineReader: Send + Sync {
    /// As [`Txn::is_memory`].
    fn is_memory(&self) -> bool {
        false
    }

    /// Everything that begins with `prefix`, in order, as of one moment.
    fn walk(&self, prefix: &[u8], visit: Visit<'_>) -> Result<(), StoreError>;

    /// How large the store is; `keys` is left to the caller.
    fn size(&self) -> StoreSize;
}
