//! Begins an ownership: checks that a store is whole, and takes it.

use std::ops::ControlFlow;
use std::sync::Arc;

use cospan_domain::ids::{Epoch, InstanceId, Seq};

use crate::decide_group::{self, ledger_write};
use crate::engine_port::{EngineReader, EngineTransaction, StorageEngine, StoreWrites};
use crate::envelope::{self, EnvelopeHead};
use crate::port::{Journal, KeyVersion, OpenedStore, StoreError, StoreKey, StoredValue};
use crate::scans;
use crate::store_floor::{FoundStore, KnownFloor, StoreJobCounts};
use crate::store_totals::{
    self, EPOCH_KEY, FORMAT, FORMAT_KEY, INSTANCE_KEY, LEDGER_KEY, RESERVED_PREFIX, StoreChecksum,
    StoreOwner,
};

/// An ownership that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenOwnership {
    pub(crate) owner: StoreOwner,
    pub(crate) seq: Seq,
    pub(crate) tally: StoreJobCounts,
}

impl OpenedStore {
    pub(crate) fn new(journal: Arc<dyn Journal>, begun: TakenOwnership) -> Self {
        let StoreOwner { instance, epoch } = begun.owner;
        Self {
            journal,
            epoch,
            instance,
            former: Vec::new(),
        }
    }
}

/// Checks the whole store against its ledger, passes every value to `load`, and makes the next
/// epoch durable. An empty store is founded first.
///
/// # Errors
/// Fails if the store is damaged, newer than this program, behind its floor, or its engine fails.
pub(crate) fn begin_ownership<E: StorageEngine>(
    engine: &mut E,
    place: &str,
    known: &KnownFloor,
    instance: InstanceId,
    load: &mut dyn FnMut(StoredValue),
) -> Result<TakenOwnership, StoreError> {
    let reader = engine.reader();
    let format = match read_format(&*reader, place)? {
        Some(format) => format,
        None => {
            known.check_complete(place, FoundStore::Empty)?;
            create_empty_store(engine, instance)?;
            FORMAT
        }
    };
    let (ledger, tally) = verify_ledger(&*reader, format, load)?;
    let epoch = read_epoch(&*reader)?;
    drop(reader);
    known.check_complete(
        place,
        FoundStore::Reached(tally.to_floor(epoch, ledger.seq)),
    )?;
    if format < FORMAT {
        commit_writes(engine, vec![format_write(), ledger_write(&ledger)])?;
    }
    take_ownership(engine, known.floor.epoch, tally)
}

/// Reads the epoch of a store.
pub(crate) fn read_epoch(reader: &dyn EngineReader) -> Result<Epoch, StoreError> {
    store_totals::parse_text(EPOCH_KEY, &scans::read_own_value(reader, EPOCH_KEY)?)
}

/// Reads the format of a store, if this program knows it; `None` if the store is empty.
pub(crate) fn read_format(
    reader: &dyn EngineReader,
    place: &str,
) -> Result<Option<u32>, StoreError> {
    let mut format = None;
    reader.walk(FORMAT_KEY, &mut |key, stored| {
        format = Some(store_totals::parse_text::<u32>(key, stored));
        ControlFlow::Break(())
    })?;
    let Some(format) = format else {
        return if is_store_empty(reader)? {
            Ok(None)
        } else {
            Err(store_totals::damaged_own_key_error(
                FORMAT_KEY,
                "it is missing",
            ))
        };
    };
    match format? {
        0 => Err(store_totals::damaged_own_key_error(
            FORMAT_KEY,
            "there is no format 0",
        )),
        found if found > FORMAT => Err(StoreError::Newer {
            path: place.into(),
            found,
            known: FORMAT,
        }),
        found => Ok(Some(found)),
    }
}

fn is_store_empty(reader: &dyn EngineReader) -> Result<bool, StoreError> {
    let mut empty = true;
    reader.walk(b"", &mut |_, _| {
        empty = false;
        ControlFlow::Break(())
    })?;
    Ok(empty)
}

/// Writes the values that every store has. The format has no envelope, so that any later program
/// can read it.
pub(crate) fn create_empty_store<E: StorageEngine>(
    engine: &mut E,
    instance: InstanceId,
) -> Result<(), StoreError> {
    write_new_store(
        engine,
        StoreOwner {
            instance,
            epoch: Epoch(0),
        },
        StoreChecksum::default(),
        StoreWrites::new(),
    )
}

/// Writes a whole store into an empty engine.
pub(crate) fn write_new_store<E: StorageEngine>(
    engine: &mut E,
    owner: StoreOwner,
    mut ledger: StoreChecksum,
    mut writes: StoreWrites,
) -> Result<(), StoreError> {
    let own = [
        (INSTANCE_KEY, owner.instance.to_string()),
        (EPOCH_KEY, owner.epoch.to_string()),
    ];
    for (key, value) in own {
        let (head, bytes) = envelope::seal_value(key, KeyVersion(1), value.as_bytes());
        ledger.add(key, head);
        writes.push((StoreKey(key.into()), Some(bytes)));
    }
    writes.extend([format_write(), ledger_write(&ledger)]);
    commit_writes(engine, writes)
}

fn format_write() -> (StoreKey, Option<Vec<u8>>) {
    (
        StoreKey(FORMAT_KEY.into()),
        Some(FORMAT.to_string().into_bytes()),
    )
}

/// Makes writes durable without a decision of the journal.
pub(crate) fn commit_writes<E: StorageEngine>(
    engine: &mut E,
    writes: StoreWrites,
) -> Result<(), StoreError> {
    let mut writes = Some(writes);
    engine.run_exclusively(&mut |txn| txn.commit(writes.take().unwrap_or_default()).map(drop))
}

/// Reads everything and compares it with the ledger. Returns the ledger of today's format, and the
/// counts of jobs.
pub(crate) fn verify_ledger(
    reader: &dyn EngineReader,
    format: u32,
    load: &mut dyn FnMut(StoredValue),
) -> Result<(StoreChecksum, StoreJobCounts), StoreError> {
    let mut kept = None;
    let mut tally = StoreJobCounts::default();
    let mut counted = StoreChecksum::default();
    let mut sum_of_format_1 = 0_u128;
    let mut problem = None;
    reader.walk(b"", &mut |key, stored| {
        if key == FORMAT_KEY {
            return ControlFlow::Continue(());
        }
        let step = envelope::open_envelope(key, stored).and_then(|(head, value)| {
            if key == LEDGER_KEY {
                kept = Some(StoreChecksum::decode(value)?);
            } else {
                counted.add(key, head);
                tally.count_key(key, false, true);
                tally.note_next_job(key, head.version, value);
                if format == 1 {
                    let fingerprint = head.fingerprint_of_format_1(key);
                    sum_of_format_1 = sum_of_format_1.wrapping_add(fingerprint);
                }
                pass_to_load(key, head, value, load);
            }
            Ok(())
        });
        match step {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                problem = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = problem {
        return Err(error);
    }
    let kept =
        kept.ok_or_else(|| store_totals::damaged_own_key_error(LEDGER_KEY, "it is missing"))?;
    counted.seq = kept.seq;
    let sum = if format == 1 {
        sum_of_format_1
    } else {
        counted.sum
    };
    check_ledgers_equal(kept, StoreChecksum { sum, ..counted })?;
    Ok((counted, tally))
}

fn pass_to_load(key: &[u8], head: EnvelopeHead, value: &[u8], load: &mut dyn FnMut(StoredValue)) {
    if !key.starts_with(RESERVED_PREFIX) {
        load(StoredValue {
            key: StoreKey(key.into()),
            version: head.version,
            value: value.into(),
        });
    }
}

/// Checks that the counted ledger is the one that the last group left.
pub(crate) fn check_ledgers_equal(
    kept: StoreChecksum,
    counted: StoreChecksum,
) -> Result<(), StoreError> {
    let problem = if kept.keys != counted.keys {
        format!(
            "{} keys are there, but there should be {}",
            counted.keys, kept.keys
        )
    } else if kept.sum != counted.sum {
        "some values are not the ones that were written last".into()
    } else {
        return Ok(());
    };
    Err(store_totals::damaged_own_key_error(LEDGER_KEY, &problem))
}

/// Makes the next epoch durable.
fn take_ownership<E: StorageEngine>(
    engine: &mut E,
    above: Epoch,
    tally: StoreJobCounts,
) -> Result<TakenOwnership, StoreError> {
    let mut begun = Err(store_totals::damaged_own_key_error(
        INSTANCE_KEY,
        "it is missing",
    ));
    engine.run_exclusively(&mut |txn| {
        let mut instance = Err(store_totals::damaged_own_key_error(
            INSTANCE_KEY,
            "it is missing",
        ));
        txn.get(INSTANCE_KEY, &mut |stored| {
            let value = envelope::open_envelope(INSTANCE_KEY, stored)?.1;
            instance = store_totals::parse_text::<InstanceId>(INSTANCE_KEY, value);
            Ok(())
        })?;
        begun = raise_epoch(txn, above).and_then(|(epoch, seq)| {
            Ok(TakenOwnership {
                owner: StoreOwner {
                    instance: instance?,
                    epoch,
                },
                seq,
                tally,
            })
        });
        Ok(())
    })?;
    begun
}

fn raise_epoch(txn: &mut dyn EngineTransaction, above: Epoch) -> Result<(Epoch, Seq), StoreError> {
    let epoch = Epoch(
        decide_group::read_epoch(txn)?
            .max(above)
            .0
            .saturating_add(1),
    );
    let mut ledger = decide_group::read_ledger(txn)?;
    let write = replace_own_value(txn, &mut ledger, EPOCH_KEY, epoch.to_string().as_bytes())?;
    txn.commit(vec![write, ledger_write(&ledger)])?;
    Ok((epoch, ledger.seq))
}

/// Returns the write that puts a value under a key, whatever is there, and adds it to the ledger.
pub(crate) fn replace_own_value(
    txn: &mut dyn EngineTransaction,
    ledger: &mut StoreChecksum,
    key: &[u8],
    value: &[u8],
) -> Result<(StoreKey, Option<Vec<u8>>), StoreError> {
    let mut before = None;
    txn.get(key, &mut |stored| {
        before = Some(envelope::open_envelope(key, stored)?.0);
        Ok(())
    })?;
    let next = KeyVersion(before.map_or(0, |head| head.version.0).saturating_add(1));
    let (head, bytes) = envelope::seal_value(key, next, value);
    decide_group::update_ledger(ledger, key, before, Some(head));
    Ok((StoreKey(key.into()), Some(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryDisk, MemoryEngine};
    use crate::store_floor::StoreFloor;

    fn begin_on(disk: &MemoryDisk, floor: StoreFloor) -> Result<TakenOwnership, StoreError> {
        let mut engine = MemoryEngine::new(disk.clone());
        let known = KnownFloor {
            floor,
            by: "elsewhere".into(),
        };
        begin_ownership(
            &mut engine,
            "memory",
            &known,
            InstanceId::from_random(1),
            &mut |_| {},
        )
    }

    /// A store with three keys, and what the engine has for one of them, now and before.
    fn three_key_store() -> (MemoryDisk, Vec<u8>) {
        let disk = MemoryDisk::default();
        begin_on(&disk, StoreFloor::default()).unwrap();
        let sink: crate::port::CommitReportSink = Arc::new(|_| {});
        let opened = crate::memory::open(&disk, InstanceId::from_random(1), sink).unwrap();
        let put = |key: &str, value: &str| crate::port::KeyChange {
            key: StoreKey::from(key),
            expected: None,
            value: Some(value.as_bytes().into()),
        };
        let append = |changes| {
            let unit = crate::port::JournalUnit { changes };
            opened
                .journal
                .append(opened.epoch, crate::port::UnitToken(0), unit);
        };
        append(vec![put("a", "1"), put("b", "1"), put("c", "1")]);
        let before = stored_bytes(&disk, "b");
        append(vec![put("b", "2")]);
        (disk, before)
    }

    fn stored_bytes(disk: &MemoryDisk, key: &str) -> Vec<u8> {
        let mut found = Vec::new();
        let visit = &mut |_: &[u8], stored: &[u8]| {
            found = stored.to_vec();
            ControlFlow::Break(())
        };
        disk.walk(key.as_bytes(), visit).unwrap();
        found
    }

    fn open_after_tampering(disk: &MemoryDisk, key: &str, bytes: Option<Vec<u8>>) -> String {
        let mut engine = MemoryEngine::new(disk.clone());
        commit_writes(&mut engine, vec![(StoreKey::from(key), bytes)]).unwrap();
        begin_on(disk, StoreFloor::default())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_value_that_vanished_is_noticed() {
        let (disk, _) = three_key_store();
        let error = open_after_tampering(&disk, "b", None);
        assert!(
            error.contains("4 keys are there, but there should be 5"),
            "{error}"
        );
    }

    #[test]
    fn an_older_value_that_came_back_is_noticed() {
        let (disk, before) = three_key_store();
        let error = open_after_tampering(&disk, "b", Some(before));
        assert!(
            error.contains("not the ones that were written last"),
            "{error}"
        );
    }

    #[test]
    fn a_value_that_nobody_wrote_is_noticed() {
        let (disk, before) = three_key_store();
        assert!(open_after_tampering(&disk, "d", Some(before.clone())).contains("checksum"));
        let (disk, _) = three_key_store();
        let (_, sealed) = envelope::seal_value(b"d", KeyVersion(1), b"1");
        assert!(open_after_tampering(&disk, "d", Some(sealed)).contains("6 keys are there"));
    }

    #[test]
    fn a_store_behind_its_floor_is_noticed() {
        let (disk, _) = three_key_store();
        let error = begin_on(
            &disk,
            StoreFloor {
                epoch: Epoch(2),
                seq: Seq(3),
                ..StoreFloor::default()
            },
        )
        .unwrap_err();
        assert!(error.to_string().contains("ends with unit 2"), "{error}");
        let begun = begin_on(
            &disk,
            StoreFloor {
                epoch: Epoch(9),
                seq: Seq(2),
                ..StoreFloor::default()
            },
        )
        .unwrap();
        assert_eq!(
            begun.owner.epoch,
            Epoch(10),
            "an epoch is never taken twice"
        );
    }

    #[test]
    fn a_newer_format_is_refused_with_the_remedy() {
        let (disk, _) = three_key_store();
        let error = open_after_tampering(&disk, "m/store/format", Some(b"3".to_vec()));
        assert!(
            error.contains("format 3") && error.contains("start that version"),
            "{error}"
        );
        assert!(
            open_after_tampering(&disk, "m/store/format", Some(b"x".to_vec())).contains("damaged")
        );
        assert!(open_after_tampering(&disk, "m/store/format", None).contains("it is missing"));
    }

    #[test]
    fn each_of_the_stores_own_keys_is_missed() {
        for key in ["m/store/ledger", "m/store/epoch", "m/store/instance"] {
            let (disk, _) = three_key_store();
            assert!(
                open_after_tampering(&disk, key, None).contains("damaged"),
                "{key}"
            );
        }
    }

    /// Makes a store into what a program of format 1 would have left.
    fn to_format_1(disk: &MemoryDisk) {
        let mut ledger = StoreChecksum::default();
        disk.walk(b"", &mut |key, stored| {
            if key == LEDGER_KEY {
                ledger.seq = StoreChecksum::decode(envelope::open_envelope(key, stored).unwrap().1)
                    .unwrap()
                    .seq;
            } else if key != FORMAT_KEY {
                let (head, _) = envelope::open_envelope(key, stored).unwrap();
                ledger.keys += 1;
                ledger.sum = ledger.sum.wrapping_add(head.fingerprint_of_format_1(key));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        let format = (StoreKey(FORMAT_KEY.into()), Some(b"1".to_vec()));
        let mut engine = MemoryEngine::new(disk.clone());
        commit_writes(&mut engine, vec![format, ledger_write(&ledger)]).unwrap();
    }

    #[test]
    fn a_store_of_format_1_is_taken_and_has_todays_format_from_then_on() {
        let (disk, _) = three_key_store();
        to_format_1(&disk);
        let begun = begin_on(&disk, StoreFloor::default()).unwrap();
        assert_eq!(begun.seq, Seq(2));
        assert_eq!(
            stored_bytes(&disk, "m/store/format"),
            FORMAT.to_string().into_bytes()
        );
        let next = begin_on(&disk, StoreFloor::default()).unwrap();
        assert_eq!(next.owner.epoch.0, begun.owner.epoch.0 + 1);
    }

    #[test]
    fn damage_in_a_store_of_format_1_is_noticed() {
        let (disk, before) = three_key_store();
        to_format_1(&disk);
        let error = open_after_tampering(&disk, "b", Some(before));
        assert!(
            error.contains("not the ones that were written last"),
            "{error}"
        );
    }
}
