//! A store on a disk with planned faults: for tests, and for chaos runs.
//!
//! The disk is a log in memory with a durable part and a part that is only written. It outlives the
//! journals on it, as a real disk outlives processes.

mod disk;
mod faulty_engine;

use std::sync::Arc;

use cospan_domain::ids::InstanceId;

pub use disk::{DiskFault, FaultDisk};
use faulty_engine::FaultEngine;

use crate::inline_journal::InlineJournal;
use crate::port::{CommitReportSink, OpenedStore, StoreError, StoredValue};
use crate::store_floor::KnownFloor;
use crate::take_over;
use crate::threaded_journal::{FlushLimits, NoJournalHooks, ThreadedJournal};

/// Opens the store on a disk, decided in-line and without waiting: a slow disk only reports how
/// long it would have taken.
///
/// # Errors
/// Fails if the content of the disk is damaged, or by a planned fault.
pub fn open(
    disk: &FaultDisk,
    instance: InstanceId,
    sink: CommitReportSink,
    load: &mut dyn FnMut(StoredValue),
) -> Result<OpenedStore, StoreError> {
    let mut engine = FaultEngine::open(disk, false)?;
    let begun = take_over::begin_ownership(
        &mut engine,
        faulty_engine::PLACE,
        &KnownFloor::default(),
        instance,
        load,
    )?;
    let limits = FlushLimits::default();
    let journal = InlineJournal::new(engine, faulty_engine::PLACE, limits.units_max, sink);
    Ok(OpenedStore::new(Arc::new(journal), begun))
}

/// Opens the store on a disk with a thread of its own, like sled and redb: a slow disk really takes
/// its time.
///
/// # Errors
/// As for [`open`].
pub fn open_threaded(
    disk: &FaultDisk,
    instance: InstanceId,
    sink: CommitReportSink,
    load: &mut dyn FnMut(StoredValue),
) -> Result<OpenedStore, StoreError> {
    let mut engine = FaultEngine::open(disk, true)?;
    let begun = take_over::begin_ownership(
        &mut engine,
        faulty_engine::PLACE,
        &KnownFloor::default(),
        instance,
        load,
    )?;
    let limits = FlushLimits::default();
    let journal = ThreadedJournal::start(
        engine,
        faulty_engine::PLACE,
        limits,
        sink,
        Box::new(NoJournalHooks),
        begun.tally,
    )?;
    Ok(OpenedStore::new(Arc::new(journal), begun))
}
