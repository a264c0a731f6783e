//! A store on a disk with planned faults: for tests, and for chaos runs.
//!
//! The disk is a log in memory with a durable part and a part that is only written. It outlives the
//! journals on it, as a real disk outlives processes.

mod disk;
mod engine;

use std::sync::Arc;

use cospan_domain::ids::InstanceId;

pub use disk::{DiskFault, FaultDisk};
use engine::FaultEngine;

use crate::floor::KnownFloor;
use crate::found;
use crate::grouped::{GroupLimits, Grouped, Unattended};
use crate::inline::Inline;
use crate::port::{Opened, Sink, StoreError, Stored};

/// Opens the store on a disk, decided in-line and without waiting: a slow disk only reports how
/// long it would have taken.
///
/// # Errors
/// Fails if the content of the disk is damaged, or by a planned fault.
pub fn open(
    disk: &FaultDisk,
    instance: InstanceId,
    sink: Sink,
    load: &mut dyn FnMut(Stored),
) -> Result<Opened, StoreError> {
    let mut engine = FaultEngine::open(disk, false)?;
    let begun = found::begin(
        &mut engine,
        engine::PLACE,
        &KnownFloor::default(),
        instance,
        load,
    )?;
    let limits = GroupLimits::default();
    let journal = Inline::new(engine, engine::PLACE, limits.units_max, sink);
    Ok(Opened::new(Arc::new(journal), begun))
}

/// Opens the store on a disk with a thread of its own, like sled and redb: a slow disk really takes
/// its time.
///
/// # Errors
/// As for [`open`].
pub fn open_threaded(
    disk: &FaultDisk,
    instance: InstanceId,
    sink: Sink,
    load: &mut dyn FnMut(Stored),
) -> Result<Opened, StoreError> {
    let mut engine = FaultEngine::open(disk, true)?;
    let begun = found::begin(
        &mut engine,
        engine::PLACE,
        &KnownFloor::default(),
        instance,
        load,
    )?;
    let limits = GroupLimits::default();
    let journal = Grouped::start(
        engine,
        engine::PLACE,
        limits,
        sink,
        Box::new(Unattended),
        begun.tally,
    )?;
    Ok(Opened::new(Arc::new(journal), begun))
}
