//! The store of a control plane that may be killed at any append, over a disk that
//! takes its time and may fail; and the hash of all that became durable.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cospan_actors::clock::Clock;
use cospan_domain::ids::{Epoch, InstanceId};
use cospan_storage::memory::{self, MemoryDisk};
use cospan_storage::port::{Journal, Report, Sink, StoreError, StoreSize, Stored, Token, Unit};
use cospan_storage::record::keys;

use super::doom::Doom;
use super::lives::{Lived, Lives};
use super::weather::Weather;

/// What happened in a run, as one number: equal seeds give equal hashes.
#[derive(Debug, Default)]
pub struct EventHash {
    state: Mutex<Hashed>,
}

#[derive(Debug, Clone, Default)]
struct Hashed {
    hasher: blake3::Hasher,
    /// What is still to go in: much at once takes a fraction of the time.
    waiting: Vec<u8>,
    records: u64,
}

impl EventHash {
    const MANY_BYTES: usize = 64 * 1_024;

    /// Adds one record of what happened.
    pub fn add(&self, parts: &[&[u8]]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Hashed { hasher, waiting, records } = &mut *state;
        *records += 1;
        for part in parts {
            waiting.extend_from_slice(&part.len().to_le_bytes());
            waiting.extend_from_slice(part);
        }
        if waiting.len() >= Self::MANY_BYTES {
            hasher.update(waiting);
            waiting.clear();
        }
    }

    /// The hash so far, in hexadecimal digits, and how many records went in.
    pub fn finish(&self) -> (String, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Hashed { mut hasher, waiting, records } = state.clone();
        let hash = hasher.update(&waiting).finalize().to_hex();
        (hash.chars().take(16).collect(), records)
    }
}

/// What a unit is about, for tables: that of its first change.
fn kind_of(unit: &Unit) -> &'static str {
    let Some(change) = unit.changes.first() else { return "barrier" };
    let key = &change.key.0;
    let kinds = [
        (keys::ARCHIVE, "archive"),
        (keys::COPIES, "copy"),
        (keys::SITES, "site"),
        (keys::FILES, "file"),
        (keys::BATCHES, "batch"),
        (keys::NEXT_JOB.as_bytes(), "job-ids"),
    ];
    kinds.iter().find(|(prefix, _)| key.starts_with(prefix)).map_or("job", |(_, kind)| kind)
}

/// A journal that stops with its control plane.
#[derive(Clone)]
pub(super) struct MortalJournal(pub(super) Arc<Disk>);

/// What lies under it.
pub(super) struct Disk {
    pub(super) inner: Arc<dyn Journal>,
    pub(super) sink: Sink,
    pub(super) doom: Arc<Doom>,
    pub(super) weather: Arc<Weather>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) lives: Arc<Lives>,
    pub(super) hash: Arc<EventHash>,
    pub(super) waiting: Mutex<Waiting>,
    pub(super) keeps_archive: bool,
    /// Takes whatever is written at once, and acknowledges it: a planted bug.
    pub(super) hasty: Option<Hasty>,
}

/// What was written, whether or not it is on the disk: gone when the machine stops.
pub(super) struct Hasty {
    journal: Arc<dyn Journal>,
    epoch: Epoch,
}

impl Hasty {
    /// Over what is on the disk now.
    pub(super) fn over(
        disk: &MemoryDisk,
        instance: InstanceId,
        sink: Sink,
    ) -> Result<Self, StoreError> {
        let opened = memory::open(&disk.copy(), instance, sink)?;
        Ok(Self { journal: opened.journal, epoch: opened.epoch })
    }
}

/// Written and not yet on the disk.
#[derive(Default)]
pub(super) struct Waiting {
    units: VecDeque<(Epoch, Token, Unit)>,
    syncing: bool,
}

impl Disk {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The oldest `count` units are on the disk.
    fn harden(&self, count: usize) {
        for _ in 0..count {
            let Some((epoch, token, mut unit)) = self.waiting().units.pop_front() else { return };
            let now = self.clock.now().0.to_le_bytes();
            for change in &unit.changes {
                let value = change.value.as_deref().unwrap_or_default();
                self.hash.add(&[&now, &change.key.0, value]);
            }
            if !self.keeps_archive {
                unit.changes.retain(|change| !change.key.0.starts_with(keys::ARCHIVE));
            }
            self.inner.append(epoch, token, unit);
        }
    }

    /// Syncs until nothing waits; or fails, with no more than a beginning on the disk.
    async fn sync(self: Arc<Self>) {
        loop {
            let (length, fails) = self.weather.draw_sync();
            let count = self.waiting().units.len();
            tokio::time::sleep(Duration::from_millis(length.0)).await;
            if self.doom.is_dead() {
                return;
            }
            if fails {
                self.fall("sync-fails");
                self.lives.note(self.clock.now(), Lived::DiskFailed);
                return (self.sink)(Report::Fatal("the disk does not take it".into()));
            }
            self.harden(count);
            let mut waiting = self.waiting();
            waiting.syncing = !waiting.units.is_empty();
            if !waiting.syncing {
                return;
            }
        }
    }

    /// The machine stops: of what was not yet on the disk a beginning may be there.
    pub(super) fn fall(&self, kind: &'static str) {
        let count = self.waiting().units.len();
        self.harden(self.weather.draw_below(count + 1));
        for (.., unit) in self.waiting().units.drain(..) {
            self.weather.tally().count(kind, kind_of(&unit));
        }
    }
}

impl Journal for MortalJournal {
    fn append(&self, epoch: Epoch, token: Token, unit: Unit) {
        let disk = &self.0;
        let (lives, last) = disk.doom.append(kind_of(&unit));
        if !lives {
            return;
        }
        if let Some(hasty) = &disk.hasty {
            hasty.journal.append(hasty.epoch, token, unit.clone());
        }
        disk.waiting().units.push_back((epoch, token, unit));
        if last {
            let all = disk.waiting().units.len();
            disk.harden(all);
            return disk.doom.strike();
        }
        if !disk.weather.has_slow_disk() && !disk.waiting().syncing {
            return disk.harden(1);
        }
        if !std::mem::replace(&mut disk.waiting().syncing, true) {
            actix_rt::spawn(disk.clone().sync());
        }
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(Stored) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let journal = self.0.hasty.as_ref().map_or(&self.0.inner, |hasty| &hasty.journal);
        journal.scan(prefix, visit)
    }

    fn size(&self) -> StoreSize {
        self.0.inner.size()
    }

    fn close(&self) {
        self.0.inner.close();
    }
}
