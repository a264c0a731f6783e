//! A store in memory, for the simulator and for tests: no thread, no disk, no
//! clock, and the same outcomes for the same appends.

mod memory_engine;
mod values;

use std::sync::Arc;

use cospan_domain::ids::InstanceId;

pub use memory_engine::MemoryDisk;
pub(crate) use memory_engine::MemoryEngine;
pub(crate) use memory_engine::{apply_writes, visit_values};
pub(crate) use values::MemoryValues;

use crate::inline_journal::InlineJournal;
use crate::port::{CommitReportSink, OpenedStore, StoreError, StoredValue};
use crate::store_floor::KnownFloor;
use crate::take_over;

/// Most units that are decided together.
const MAX_UNITS: usize = 512;

/// Opens a store in memory. Committed values stay on `disk`: opening it again finds them, with the
/// next epoch, and fences off the former owner. `instance` is used if the store is new.
///
/// # Errors
/// Fails only if the store is damaged, which memory never is.
pub fn open(
    disk: &MemoryDisk,
    instance: InstanceId,
    sink: CommitReportSink,
) -> Result<OpenedStore, StoreError> {
    open_and_load(disk, instance, sink, &mut |_| {})
}

/// Opens a store like [`open`], and passes every stored value to `load`.
///
/// # Errors
/// As for [`open`].
pub fn open_and_load(
    disk: &MemoryDisk,
    instance: InstanceId,
    sink: CommitReportSink,
    load: &mut dyn FnMut(StoredValue),
) -> Result<OpenedStore, StoreError> {
    let mut engine = MemoryEngine::new(disk.clone());
    let begun = take_over::begin_ownership(
        &mut engine,
        "memory",
        &KnownFloor::default(),
        instance,
        load,
    )?;
    let journal = Arc::new(InlineJournal::new(engine, "memory", MAX_UNITS, sink));
    Ok(OpenedStore::new(journal, begun))
}
