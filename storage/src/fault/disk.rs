//! The disk and what may go wrong with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::memory::MemoryValues;

/// What strikes one commit. All but `Slow` end the journal that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// The write fails after a share of it (in 1/256) has reached the disk.
    WriteError {
        /// That share.
        written: u8,
    },
    /// All is written, the sync fails. Whether the disk has it then, nobody is told.
    SyncError {
        /// Whether it does.
        kept: bool,
    },
    /// The power goes between write and sync: of what was not synced a share
    /// (in 1/256) survives, so that the last commit is lost or torn.
    PowerCut {
        /// That share.
        kept: u8,
    },
    /// The disk is full: nothing more fits.
    Full,
    /// The commit succeeds after this time.
    Slow {
        /// Microseconds.
        us: u64,
    },
}

/// A disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct FaultDisk(Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
pub(super) struct DiskState {
    /// What was read at the last opening, so that nothing is read twice.
    pub(super) read: MemoryValues,
    /// How long the log of that was.
    pub(super) read_bytes: usize,
    /// Frames since then that survive anything.
    pub(super) durable: Vec<u8>,
    /// Bytes that survive the process, but not the power.
    pub(super) written: Vec<u8>,
    faults: BTreeMap<u64, DiskFault>,
    always_us: u64,
    capacity_bytes: Option<usize>,
    commits: u64,
    struck: Vec<DiskFault>,
    /// Raised by every opening: a journal of an earlier one writes no more.
    pub(super) opening: u64,
}

impl FaultDisk {
    pub(super) fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a fault strike the commit that comes after `commits` more.
    pub fn strike_after(&self, commits: u64, fault: DiskFault) {
        let mut state = self.state();
        let at = state.commits + commits;
        state.faults.insert(at, fault);
    }

    /// Draws faults for the next `commits` commits: each is struck with the
    /// probability `rate`.
    pub fn strike_by_chance(&self, seed: u64, commits: u64, rate: f64) {
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
                self.strike_after(ahead, fault);
            }
        }
    }

    /// Every commit takes this long, in microseconds.
    pub fn be_slow(&self, us: u64) {
        self.state().always_us = us;
    }

    /// The disk holds no more than this; `None` for no bound.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.state().capacity_bytes = bytes;
    }

    /// Nothing that was to strike does any more, and there is room for everything.
    pub fn spare(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.capacity_bytes = None;
    }

    /// Faults that struck so far.
    pub fn struck(&self) -> Vec<DiskFault> {
        self.state().struck.clone()
    }

    /// The power goes now: of what is not synced a share (in 1/256) survives.
    pub fn cut_power(&self, kept: u8) {
        self.state().cut_power(kept);
    }
}

impl DiskState {
    pub(super) fn cut_power(&mut self, kept: u8) {
        self.written.truncate(share(self.written.len(), kept));
        self.opening += 1;
    }

    /// What happens to the next commit, of so many bytes.
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

/// A share of a length, in 1/256.
pub(super) fn share(length: usize, of_256: u8) -> usize {
    length * usize::from(of_256) / 256
}
