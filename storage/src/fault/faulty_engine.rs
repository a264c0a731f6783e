//! Bytes by key, replayed from the log on the disk.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::disk::{DiskFault, FaultDisk, FaultDiskState, share_of};
use crate::engine_port::{
    BytesVisitor, EngineReader, EngineTransaction, EntryVisitor, StorageEngine, StoreWrites,
};
use crate::memory::{MemoryValues, apply_writes, visit_values};
use crate::port::{StoreError, StoreKey, StoreSize};

/// Name of the disk in messages.
pub(super) const PLACE: &str = "the fault disk";

/// The engine of one user of a [`FaultDisk`].
pub(super) struct FaultEngine {
    disk: FaultDisk,
    values: Arc<Mutex<MemoryValues>>,
    opening: u64,
    waits: bool,
}

impl FaultEngine {
    /// Reads the log. Unsynced writes are still there, unless the power was cut; an incomplete
    /// commit at the end is cut off.
    pub(super) fn open(disk: &FaultDisk, waits: bool) -> Result<Self, StoreError> {
        let mut state = disk.lock_state();
        let FaultDiskState {
            read,
            read_bytes,
            durable,
            written,
            opening,
            ..
        } = &mut *state;
        durable.append(written);
        *opening += 1;
        let mut whole = 0;
        while let Some((writes, length)) = durable.get(whole..).and_then(read_frame) {
            apply_writes(read, writes);
            whole += length;
        }
        durable.clear();
        *read_bytes += whole;
        let values = Arc::new(Mutex::new(read.clone()));
        Ok(Self {
            disk: disk.clone(),
            values,
            opening: *opening,
            waits,
        })
    }

    fn write_frame(&self, frame: &[u8]) -> Result<u64, StoreError> {
        let mut state = self.disk.lock_state();
        if state.opening != self.opening {
            return Err(io_failure("written", "the disk is gone"));
        }
        match state.next_fault(frame.len()) {
            None => state.durable.extend_from_slice(frame),
            Some(DiskFault::Slow { us }) => {
                state.durable.extend_from_slice(frame);
                return Ok(us);
            }
            Some(DiskFault::Full) => return Err(StoreError::Full { path: PLACE.into() }),
            Some(DiskFault::WriteError { written }) => {
                let written = share_of(frame.len(), written);
                state.written.extend_from_slice(&frame[..written]);
                return Err(io_failure("written", "input/output error"));
            }
            Some(DiskFault::SyncError { kept }) => {
                state
                    .written
                    .extend_from_slice(if kept { frame } else { &[] });
                return Err(io_failure("made durable", "input/output error"));
            }
            Some(DiskFault::PowerCut { kept }) => {
                state.written.extend_from_slice(frame);
                state.cut_power(kept);
                return Err(io_failure("made durable", "the disk is gone"));
            }
        }
        Ok(0)
    }
}

fn io_failure(action: &'static str, problem: &str) -> StoreError {
    StoreError::Io {
        path: PLACE.into(),
        action,
        source: io::Error::other(problem),
    }
}

impl StorageEngine for FaultEngine {
    fn run_exclusively(
        &mut self,
        work: &mut dyn FnMut(&mut dyn EngineTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        work(self)
    }

    fn reader(&self) -> Arc<dyn EngineReader> {
        Arc::new(FaultReader {
            disk: self.disk.clone(),
            values: Arc::clone(&self.values),
        })
    }
}

impl EngineTransaction for FaultEngine {
    fn get(&mut self, key: &[u8], see: BytesVisitor<'_>) -> Result<(), StoreError> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.get(key).map_or(Ok(()), see)
    }

    fn commit(&mut self, writes: StoreWrites) -> Result<u64, StoreError> {
        let us = self.write_frame(&encode_frame(&writes))?;
        if self.waits && us > 0 {
            std::thread::sleep(Duration::from_micros(us));
        }
        apply_writes(
            &mut self.values.lock().unwrap_or_else(PoisonError::into_inner),
            writes,
        );
        Ok(us)
    }
}

struct FaultReader {
    disk: FaultDisk,
    values: Arc<Mutex<MemoryValues>>,
}

impl EngineReader for FaultReader {
    fn walk(&self, prefix: &[u8], visit: EntryVisitor<'_>) -> Result<(), StoreError> {
        let found = self
            .values
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values_with_prefix(prefix);
        visit_values(found, visit);
        Ok(())
    }

    fn size(&self) -> StoreSize {
        let state = self.disk.lock_state();
        StoreSize {
            disk_bytes: (state.read_bytes + state.durable.len()) as u64,
            keys: 0,
        }
    }
}

/// Encodes a commit for the log: length and checksum of what follows, then the writes.
fn encode_frame(writes: &StoreWrites) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, bytes) in writes {
        push_with_length(&mut body, &key.0);
        body.push(u8::from(bytes.is_some()));
        push_with_length(&mut body, bytes.as_deref().unwrap_or_default());
    }
    let mut frame = crc32fast::hash(&body).to_le_bytes().to_vec();
    push_with_length(&mut frame, &body);
    frame
}

fn push_with_length(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

/// Reads the first commit in a log, and returns its writes and its length; `None` if it is not
/// whole.
fn read_frame(log: &[u8]) -> Option<(StoreWrites, usize)> {
    let (crc, mut rest) = log.split_at_checked(4)?;
    let body = take_bytes(&mut rest)?;
    if crc32fast::hash(body).to_le_bytes() != crc {
        return None;
    }
    let mut writes = StoreWrites::new();
    let mut left = body;
    while !left.is_empty() {
        let key = StoreKey(take_bytes(&mut left)?.into());
        let (present, after) = left.split_first()?;
        left = after;
        let bytes = take_bytes(&mut left)?.to_vec();
        writes.push((key, (*present == 1).then_some(bytes)));
    }
    Some((writes, 8 + body.len()))
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = from.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let (bytes, rest) = rest.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
}
