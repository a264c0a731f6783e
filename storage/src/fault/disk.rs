//! The disk and its faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::memory::MemoryValues;

/// A fault of one commit. All but `Slow` end the journal that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// The write fails after a share of it (in 1/256) has reached the disk.
    WriteError {
        /// Share that is written, in 1/256.
        written: u8,
    },
    /// Everything is written, but the sync fails. Nobody learns whether it is on the disk.
    SyncError {
        /// True if it is on the disk.
        kept: bool,
    },
    /// The power goes between write and sync: a share (in 1/256) of what was not synced survives,
    /// so the last commit is lost or torn.
    PowerCut {
        /// Share that survives, in 1/256.
        kept: u8,
    },
    /// The disk is full.
    Full,
    /// The commit succeeds after this time.
    Slow {
        /// Microseconds.
        us: u64,
    },
}

/// A disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct FaultDisk(Arc<Mutex<FaultDiskState>>);

#[derive(Debug, Default)]
pub(super) struct FaultDiskState {
    /// Values read at the last opening, so that nothing is read twice.
    pub(super) read: MemoryValues,
    /// Length of their log, in bytes.
    pub(super) read_bytes: usize,
    /// Frames since then that survive anything.
    pub(super) durable: Vec<u8>,
    /// Bytes that survive the process, but not a power cut.
    pub(super) written: Vec<u8>,
    faults: BTreeMap<u64, DiskFault>,
    always_us: u64,
    capacity_bytes: Option<usize>,
    commits: u64,
    struck: Vec<DiskFault>,
    /// Incremented by every opening: a journal of an earlier one cannot write any more.
    pub(super) opening: u64,
}

impl FaultDisk {
    pub(super) fn lock_state(&self) -> MutexGuard<'_, FaultDiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a fault for the commit that comes after `commits` more.
    pub fn plan_fault_after(&self, commits: u64, fault: DiskFault) {
        let mut state = self.lock_state();
        let at = state.commits + commits;
        state.faults.insert(at, fault);
    }

    /// Draws faults for the next `commits` commits: each has one with probability `rate`.
    pub fn draw_faults(&self, seed: u64, commits: u64, rate: f64) {
        let mut random = StdRng::seed_from_u64(seed);
        for ahead in 0..commits {
            let fault = match random.random_range(0..5) {
                0 => DiskFault::WriteError {
                    written: random.random(),
                },
                1 => DiskFault::SyncError {
                    kept: random.random(),
                },
                2 => DiskFault::PowerCut {
                    kept: random.random(),
                },
                3 => DiskFault::Full,
                _ => DiskFault::Slow {
                    us: random.random_range(1..5_000),
                },
            };
            if random.random_bool(rate.clamp(0.0, 1.0)) {
                self.plan_fault_after(ahead, fault);
            }
        }
    }

    /// Makes every commit take this long, in microseconds.
    pub fn set_commit_time(&self, us: u64) {
        self.lock_state().always_us = us;
    }

    /// Limits the size of the disk; `None`: no limit.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.lock_state().capacity_bytes = bytes;
    }

    /// Removes all planned faults, and the limit of the size.
    pub fn clear_faults(&self) {
        let mut state = self.lock_state();
        state.faults.clear();
        state.capacity_bytes = None;
    }

    /// Returns the faults that took effect so far.
    pub fn struck_faults(&self) -> Vec<DiskFault> {
        self.lock_state().struck.clone()
    }

    /// Cuts the power: a share (in 1/256) of what is not synced survives.
    pub fn cut_power(&self, kept: u8) {
        self.lock_state().cut_power(kept);
    }
}

impl FaultDiskState {
    pub(super) fn cut_power(&mut self, kept: u8) {
        self.written.truncate(share_of(self.written.len(), kept));
        self.opening += 1;
    }

    /// Returns the fault of the next commit, which has this many bytes.
    pub(super) fn next_fault(&mut self, bytes: usize) -> Option<DiskFault> {
        let fault = self.faults.remove(&self.commits);
        self.commits += 1;
        let used = self.read_bytes + self.durable.len() + self.written.len();
        let fits = self
            .capacity_bytes
            .is_none_or(|capacity| used + bytes <= capacity);
        let fault = match fault {
            _ if !fits => Some(DiskFault::Full),
            None if self.always_us > 0 => Some(DiskFault::Slow { us: self.always_us }),
            fault => fault,
        };
        self.struck.extend(fault);
        fault
    }
}

/// Returns a share of a length, in 1/256.
pub(super) fn share_of(length: usize, of_256: u8) -> usize {
    length * usize::from(of_256) / 256
}
