//! Decides a group of units: which are committed, in which order, and as what bytes.
//!
//! Units are decided one after the other against what is stored and what their predecessors wrote.
//! The final state goes to the engine as one batch, with the ledger.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cospan_domain::ids::{Epoch, Seq};

use crate::engine_port::{EngineTransaction, StorageEngine, StoreWrites};
use crate::envelope::{self, EnvelopeHead};
use crate::port::{
    AppendGroupOutcome, AppendOutcome, JournalUnit, KeyChange, KeyVersion, StoreError, StoreKey,
    UnitError, UnitToken,
};
use crate::store_floor::StoreJobCounts;
use crate::store_totals::{self, EPOCH_KEY, LEDGER_KEY, StoreChecksum};

/// A unit that waits for its decision.
#[derive(Debug)]
pub(crate) struct PendingUnit {
    epoch: Epoch,
    token: UnitToken,
    unit: Result<JournalUnit, UnitError>,
    /// Bytes that it may add to its group.
    pub(crate) bytes: usize,
}

impl PendingUnit {
    pub(crate) fn new(epoch: Epoch, token: UnitToken, unit: JournalUnit) -> Self {
        let bytes = unit
            .changes
            .iter()
            .map(|change: &KeyChange| {
                change.key.0.len() + change.value.as_ref().map_or(0, |value| value.len())
            })
            .sum();
        let unit = unit.check_bounds().map(|()| unit);
        Self {
            epoch,
            token,
            unit,
            bytes,
        }
    }
}

/// A key that the group writes.
#[derive(Debug)]
struct PendingKeyWrite {
    stored: Option<EnvelopeHead>,
    now: Option<EnvelopeHead>,
    /// Bytes to be stored; `None`: the key is deleted.
    bytes: Option<Vec<u8>>,
}

/// Decides a group and makes it durable.
///
/// # Errors
/// Fails if the engine failed, or its content is damaged. It is unknown then whether anything of
/// the group is durable.
pub(crate) fn decide_group<E: StorageEngine>(
    engine: &mut E,
    group: Vec<PendingUnit>,
    tally: &mut StoreJobCounts,
) -> Result<AppendGroupOutcome, StoreError> {
    let mut group = Some(group);
    let mut decided = AppendGroupOutcome::default();
    engine.run_exclusively(&mut |txn| {
        let mut sitting = GroupDecision::begin_decision(txn, tally)?;
        let group = group.take().unwrap_or_default();
        decided.outcomes.reserve_exact(group.len());
        for pending in group {
            let outcome = match pending.unit {
                Ok(unit) => sitting.decide_unit(pending.epoch, unit)?,
                Err(error) => AppendOutcome::Refused(error),
            };
            decided.outcomes.push((pending.token, outcome));
        }
        decided.flush_us = sitting.commit_group()?;
        Ok(())
    })?;
    Ok(decided)
}

/// The decision of a group, under way.
struct GroupDecision<'a> {
    txn: &'a mut dyn EngineTransaction,
    epoch: Epoch,
    before: StoreChecksum,
    ledger: StoreChecksum,
    slots: BTreeMap<StoreKey, PendingKeyWrite>,
    tally: &'a mut StoreJobCounts,
}

impl<'a> GroupDecision<'a> {
    fn begin_decision(
        txn: &'a mut dyn EngineTransaction,
        tally: &'a mut StoreJobCounts,
    ) -> Result<Self, StoreError> {
        let epoch = read_epoch(txn)?;
        let ledger = read_ledger(txn)?;
        Ok(Self {
            txn,
            epoch,
            before: ledger,
            ledger,
            slots: BTreeMap::new(),
            tally,
        })
    }

    fn decide_unit(
        &mut self,
        epoch: Epoch,
        unit: JournalUnit,
    ) -> Result<AppendOutcome, StoreError> {
        if epoch != self.epoch {
            return Ok(AppendOutcome::Fenced);
        }
        let mut before = Vec::with_capacity(unit.changes.len());
        for change in &unit.changes {
            let head = self.head_of(&change.key)?;
            let version = head.map_or(KeyVersion(0), |head| head.version);
            if change.expected.is_some_and(|expected| expected != version) {
                return Ok(AppendOutcome::Conflict(change.key.clone()));
            }
            before.push(head);
        }
        if !unit.changes.is_empty() {
            self.ledger.seq = Seq(self.ledger.seq.0.saturating_add(1));
        }
        unit.changes
            .into_iter()
            .zip(before)
            .for_each(|(change, head)| self.apply_change(change, head));
        Ok(AppendOutcome::Committed(self.ledger.seq))
    }

    /// Returns the head under a key as its predecessors in the group leave it.
    fn head_of(&mut self, key: &StoreKey) -> Result<Option<EnvelopeHead>, StoreError> {
        match self.slots.get(key) {
            Some(slot) => Ok(slot.now),
            None => read_head(self.txn, &key.0),
        }
    }

    fn apply_change(&mut self, change: KeyChange, before: Option<EnvelopeHead>) {
        let next = KeyVersion(before.map_or(0, |head| head.version.0).saturating_add(1));
        let (now, bytes) = match change.value {
            Some(value) => {
                self.tally.note_next_job(&change.key.0, next, &value);
                let (head, bytes) = envelope::seal_value(&change.key.0, next, &value);
                (Some(head), Some(bytes))
            }
            None => (None, None),
        };
        match self.slots.entry(change.key) {
            // The value read was not written by this group.
            Entry::Vacant(slot) => drop(slot.insert(PendingKeyWrite {
                stored: before,
                now,
                bytes,
            })),
            Entry::Occupied(mut slot) => {
                let slot = slot.get_mut();
                slot.now = now;
                slot.bytes = bytes;
            }
        }
    }

    fn commit_group(mut self) -> Result<u64, StoreError> {
        if self.ledger.seq == self.before.seq {
            return Ok(0);
        }
        let mut writes = StoreWrites::with_capacity(self.slots.len() + 1);
        for (key, slot) in std::mem::take(&mut self.slots) {
            update_ledger(&mut self.ledger, &key.0, slot.stored, slot.now);
            self.tally
                .count_key(&key.0, slot.stored.is_some(), slot.now.is_some());
            if slot.bytes.is_some() || slot.stored.is_some() {
                writes.push((key, slot.bytes));
            }
        }
        writes.push(ledger_write(&self.ledger));
        self.txn.commit(writes)
    }
}

/// Updates the ledger for a changed key.
pub(crate) fn update_ledger(
    ledger: &mut StoreChecksum,
    key: &[u8],
    before: Option<EnvelopeHead>,
    now: Option<EnvelopeHead>,
) {
    if let Some(head) = before {
        ledger.remove(key, head);
    }
    if let Some(head) = now {
        ledger.add(key, head);
    }
}

/// Returns the write that stores the ledger.
pub(crate) fn ledger_write(ledger: &StoreChecksum) -> (StoreKey, Option<Vec<u8>>) {
    let (_, bytes) = envelope::seal_value(LEDGER_KEY, KeyVersion(ledger.seq.0), &ledger.encode());
    (StoreKey(LEDGER_KEY.into()), Some(bytes))
}

fn read_head(
    txn: &mut dyn EngineTransaction,
    key: &[u8],
) -> Result<Option<EnvelopeHead>, StoreError> {
    let open = envelope::opener_for(txn.is_memory());
    let mut head = None;
    txn.get(key, &mut |stored| {
        head = Some(open(key, stored)?.0);
        Ok(())
    })?;
    Ok(head)
}

/// Reads the stored ledger.
pub(crate) fn read_ledger(txn: &mut dyn EngineTransaction) -> Result<StoreChecksum, StoreError> {
    let open = envelope::opener_for(txn.is_memory());
    let mut ledger = None;
    txn.get(LEDGER_KEY, &mut |stored| {
        ledger = Some(StoreChecksum::decode(open(LEDGER_KEY, stored)?.1)?);
        Ok(())
    })?;
    ledger.ok_or_else(|| store_totals::damaged_own_key_error(LEDGER_KEY, "it is missing"))
}

/// Reads the stored epoch.
pub(crate) fn read_epoch(txn: &mut dyn EngineTransaction) -> Result<Epoch, StoreError> {
    let open = envelope::opener_for(txn.is_memory());
    let mut epoch = None;
    txn.get(EPOCH_KEY, &mut |stored| {
        epoch = Some(store_totals::parse_text(
            EPOCH_KEY,
            open(EPOCH_KEY, stored)?.1,
        )?);
        Ok(())
    })?;
    epoch.ok_or_else(|| store_totals::damaged_own_key_error(EPOCH_KEY, "it is missing"))
}
