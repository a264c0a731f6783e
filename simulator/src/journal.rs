//! The store of a control plane that may be killed at any append, over a disk whose syncs take time
//! and may fail.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cospan_actors::clock::Clock;
use cospan_domain::ids::{Epoch, InstanceId};
use cospan_storage::fault::{self, DiskFault, FaultDisk};
use cospan_storage::memory::{self, MemoryDisk};
use cospan_storage::port::{
    CommitReport, CommitReportSink, Journal, JournalUnit, OpenedStore, StoreError, StoreSize,
    StoredValue, UnitToken,
};
use cospan_storage::record::keys;

use super::actor_lives::{ActorLives, RecordedActorEvent};
use super::call_faults::{CallFaultModel, WriteFault};
use super::fault_kinds::FaultKind;
use super::journal_hash::EventHash;
use super::kill_switch::KillSwitch;

/// Returns the kind of a unit, for tables: that of its first change.
fn unit_kind(unit: &JournalUnit) -> &'static str {
    let Some(change) = unit.changes.first() else {
        return "barrier";
    };
    let key = &change.key.0;
    let kinds = [
        (keys::ARCHIVE, "archive"),
        (keys::COPIES, "copy"),
        (keys::SITES, "site"),
        (keys::FILES, "file"),
        (keys::BATCHES, "batch"),
        (keys::TEXTS, "text"),
        (keys::NEXT_JOB.as_bytes(), "job-ids"),
    ];
    kinds
        .iter()
        .find(|(prefix, _)| key.starts_with(prefix))
        .map_or("job", |(_, kind)| kind)
}

/// The medium of a store.
#[derive(Debug, Clone)]
pub enum StoreDisk {
    /// Memory, which has no faults.
    Memory(MemoryDisk),
    /// A disk that can tear records, fail and be full.
    Faulty(FaultDisk),
}

impl Default for StoreDisk {
    fn default() -> Self {
        StoreDisk::Memory(MemoryDisk::default())
    }
}

impl StoreDisk {
    /// Opens the store, and passes every stored value to `sink`. A full disk does not open.
    pub(super) fn open(
        &self,
        is_full: bool,
        instance: InstanceId,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError> {
        match self {
            StoreDisk::Memory(disk) => memory::open_and_load(disk, instance, sink, load),
            StoreDisk::Faulty(disk) => {
                disk.set_capacity(is_full.then_some(0));
                fault::open(disk, instance, sink, load)
            }
        }
    }
}

/// A journal that stops with its control plane.
#[derive(Clone)]
pub(super) struct KillableJournal(pub(super) Arc<SimulatedDisk>);

/// The disk under a journal.
pub(super) struct SimulatedDisk {
    pub(super) inner: Arc<dyn Journal>,
    pub(super) sink: CommitReportSink,
    pub(super) kill_switch: Arc<KillSwitch>,
    pub(super) call_faults: Arc<CallFaultModel>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) lives: Arc<ActorLives>,
    pub(super) hash: Arc<EventHash>,
    pub(super) waiting: Mutex<UnsyncedUnits>,
    pub(super) store: StoreDisk,
    /// True once the disk takes no more records.
    pub(super) broken: AtomicBool,
    pub(super) keeps_archive: bool,
}

/// Units that are written and not yet on the disk.
#[derive(Default)]
pub(super) struct UnsyncedUnits {
    units: VecDeque<(Epoch, UnitToken, JournalUnit)>,
    syncing: bool,
}

impl SimulatedDisk {
    fn lock_waiting(&self) -> MutexGuard<'_, UnsyncedUnits> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the oldest `count` units and puts them on the disk, unless it fails.
    fn write_oldest(&self, count: usize) {
        for _ in 0..count {
            match (&self.store, self.call_faults.draw_write(self.clock.now())) {
                (StoreDisk::Faulty(disk), Some(fault)) if self.fail_oldest_write(disk, fault) => {
                    return;
                }
                (StoreDisk::Faulty(_), Some(_)) => {}
                _ => self.put_oldest_on_disk(1),
            }
        }
    }

    /// Writes the oldest unit to a disk that fails on it, so that the store takes no more and says
    /// so itself. Returns `false` if there was nothing to write.
    fn fail_oldest_write(&self, disk: &FaultDisk, fault: WriteFault) -> bool {
        let Some(kind) = self
            .lock_waiting()
            .units
            .front()
            .map(|(.., unit)| unit_kind(unit))
        else {
            return false;
        };
        let fault = match fault {
            WriteFault::Fails { written } => {
                disk.plan_fault_after(0, DiskFault::WriteError { written });
                FaultKind::WriteFails
            }
            WriteFault::Full => {
                disk.set_capacity(Some(0));
                FaultKind::StoreFull
            }
        };
        if !self.does_fault_hit_oldest(disk) {
            return false;
        }
        self.call_faults.tally().count_fault(fault, kind);
        self.broken.store(true, Ordering::Relaxed);
        self.lives
            .record_event(self.clock.now(), RecordedActorEvent::DiskFailed);
        for (.., unit) in self.lock_waiting().units.drain(..) {
            self.call_faults
                .tally()
                .count_fault(fault, unit_kind(&unit));
        }
        true
    }

    /// Returns true if the planned fault hits the oldest unit. It misses a unit that writes
    /// nothing, and hits no other.
    fn does_fault_hit_oldest(&self, disk: &FaultDisk) -> bool {
        let before = disk.struck_faults().len();
        self.put_oldest_on_disk(1);
        disk.clear_faults();
        disk.struck_faults().len() > before
    }

    /// Puts the oldest `count` units on the disk.
    fn put_oldest_on_disk(&self, count: usize) {
        for _ in 0..count {
            let Some((epoch, token, mut unit)) = self.lock_waiting().units.pop_front() else {
                return;
            };
            let now = self.clock.now().0.to_le_bytes();
            for change in &unit.changes {
                let value = change.value.as_deref().unwrap_or_default();
                self.hash.add_record(&[&now, &change.key.0, value]);
            }
            if !self.keeps_archive {
                unit.changes
                    .retain(|change| !change.key.0.starts_with(keys::ARCHIVE));
            }
            self.inner.append(epoch, token, unit);
        }
    }

    /// Syncs until nothing waits. A failing sync puts no more than the first few units on the disk.
    async fn sync_until_empty(self: Arc<Self>) {
        loop {
            let (length, fails) = self.call_faults.draw_sync();
            let count = self.lock_waiting().units.len();
            tokio::time::sleep(Duration::from_millis(length.0)).await;
            if self.kill_switch.is_dead() {
                return;
            }
            if fails {
                self.stop_machine(FaultKind::SyncFails);
                self.broken.store(true, Ordering::Relaxed);
                self.lives
                    .record_event(self.clock.now(), RecordedActorEvent::DiskFailed);
                return (self.sink)(CommitReport::Fatal("the disk does not take it".into()));
            }
            self.write_oldest(count);
            if self.broken.load(Ordering::Relaxed) {
                return;
            }
            let mut waiting = self.lock_waiting();
            waiting.syncing = !waiting.units.is_empty();
            if !waiting.syncing {
                return;
            }
        }
    }

    /// Stops the machine: of the units not yet on the disk the first few may be there, the last of
    /// them torn.
    pub(super) fn stop_machine(&self, kind: FaultKind) {
        let count = self.lock_waiting().units.len();
        self.put_oldest_on_disk(self.call_faults.draw_below(count + 1));
        self.tear_oldest();
        for (.., unit) in self.lock_waiting().units.drain(..) {
            self.call_faults.tally().count_fault(kind, unit_kind(&unit));
        }
    }

    /// Stops the machine as this unit is about to be written: a part of it may be there.
    fn lose_unit(&self, unit: (Epoch, UnitToken, JournalUnit)) {
        if self.lock_waiting().units.is_empty() {
            self.lock_waiting().units.push_back(unit);
            self.lives
                .record_event(self.clock.now(), RecordedActorEvent::DiskFailed);
            self.tear_oldest();
            self.lock_waiting().units.clear();
        }
    }

    /// Cuts the power while the oldest unit is being written.
    fn tear_oldest(&self) {
        let StoreDisk::Faulty(disk) = &self.store else {
            return;
        };
        let kind = self
            .lock_waiting()
            .units
            .front()
            .map(|(.., unit)| unit_kind(unit));
        let Some((kind, kept)) = kind.zip(self.call_faults.draw_tear()) else {
            return;
        };
        disk.plan_fault_after(0, DiskFault::PowerCut { kept });
        if self.does_fault_hit_oldest(disk) {
            self.call_faults
                .tally()
                .count_fault(FaultKind::TornTail, kind);
        }
    }
}

impl Journal for KillableJournal {
    fn append(&self, epoch: Epoch, token: UnitToken, unit: JournalUnit) {
        let disk = &self.0;
        let lived = !disk.kill_switch.is_dead();
        let (lives, last) = disk.kill_switch.count_append(unit_kind(&unit));
        if !lives {
            if lived {
                disk.lose_unit((epoch, token, unit));
            }
            return;
        }
        if disk.broken.load(Ordering::Relaxed) {
            return;
        }
        disk.lock_waiting().units.push_back((epoch, token, unit));
        if last {
            let all = disk.lock_waiting().units.len();
            disk.put_oldest_on_disk(all);
            return disk.kill_switch.kill();
        }
        if !disk.call_faults.has_slow_disk() && !disk.lock_waiting().syncing {
            return disk.write_oldest(1);
        }
        if !std::mem::replace(&mut disk.lock_waiting().syncing, true) {
            actix_rt::spawn(disk.clone().sync_until_empty());
        }
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(StoredValue) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.0.inner.scan(prefix, visit)
    }

    fn size(&self) -> StoreSize {
        self.0.inner.size()
    }

    fn close(&self) {
        self.0.inner.close();
    }
}
