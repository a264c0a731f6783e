//! Accepts the loss of a store that has fallen behind its floor, once an operator confirms it.
//!
//! What is missing stays missing. The store continues after it: with an epoch above every earlier
//! one, units that count on from the last, and job ids above all that may have been given out, so
//! that no number ever stands for two jobs.

use std::path::Path;

use cospan_domain::ids::{Epoch, InstanceId, JobId, Seq};

use super::{FloorFile, LockedDirectory, StoreMarker, StoreOptions, catch_panics};
use crate::decide_group::{self, ledger_write};
use crate::engine_port::StorageEngine;
use crate::port::StoreError;
use crate::record::{keys, small_records};
use crate::store_floor::{FoundStore, KnownFloor, StoreFloor, StoreGap, StoreJobCounts};
use crate::store_totals::EPOCH_KEY;
use crate::take_over;

/// The accepted loss, and the state from which the store continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The gap that was accepted.
    pub gap: StoreGap,
    /// Epoch of the store; opening it takes a higher one.
    pub epoch: Epoch,
    /// The first job id that will be given out.
    pub next_job: JobId,
    /// Number of live jobs that are still there.
    pub live_jobs: u64,
}

/// Accepts the store as it is; returns `None` if nothing is missing. Nobody may use it meanwhile.
///
/// # Errors
/// Fails if there is no store and never was, or it is in use, newer, or damaged in itself.
pub fn accept_loss(
    path: &Path,
    options: &StoreOptions,
) -> Result<Option<AcceptedLoss>, StoreError> {
    let was_there = options.read_floor()?.is_some();
    if !was_there && !StoreMarker::is_store_in(path) {
        let problem = "there is no store in it; name the data directory".into();
        return Err(StoreError::NotADirectory {
            path: path.display().to_string(),
            problem,
        });
    }
    let directory = LockedDirectory::create_and_lock(path, options.lock_wait)?;
    let mut floor = options.floor_file()?;
    let marker = StoreMarker::read(&directory)?;
    let Some(StoreDescription { marker, known, gap }) =
        describe_store(&directory, marker, floor.as_ref(), options)?
    else {
        return Ok(None);
    };
    marker.check_engine(&directory, options.engine)?;
    let place = directory.place_text();
    let (whole, mut engine) = catch_panics(&place, || {
        let mut engine = options.open_engine(&directory)?;
        Ok((
            read_whole_store(&mut engine, &place, marker.instance)?,
            engine,
        ))
    })?;
    let Some(gap) = gap.or_else(|| known.find_gap(&place, whole.found)) else {
        return Ok(None);
    };
    let reached = whole.tally.next_job.max(known.floor.next_job);
    let tally = StoreJobCounts {
        next_job: reached,
        ..whole.tally
    };
    let (epoch, seq) = continue_after_floor(&mut engine, known.floor, tally.next_job)?;
    drop(engine);
    let instance = marker.instance;
    marker.with_progress(epoch, seq).write(&directory)?;
    if let Some(floor) = &mut floor {
        floor.reset_floor(instance, tally.to_floor(epoch, seq))?;
    }
    let next_job = tally.next_job;
    let live_jobs = tally.live_jobs;
    Ok(Some(AcceptedLoss {
        gap,
        epoch,
        next_job,
        live_jobs,
    }))
}

/// A store as described by its marker and its floor.
struct StoreDescription {
    marker: StoreMarker,
    known: KnownFloor,
    /// The gap, as far as it is known before the store is read.
    gap: Option<StoreGap>,
}

fn describe_store(
    directory: &LockedDirectory,
    marker: Option<StoreMarker>,
    floor: Option<&FloorFile>,
    options: &StoreOptions,
) -> Result<Option<StoreDescription>, StoreError> {
    let kept = floor.and_then(|floor| floor.kept.as_ref());
    let place = directory.place_text();
    Ok(match (marker, kept) {
        (None, None) => None,
        (None, Some(kept)) => {
            // Attempts that may still run at the sites have tags of that instance.
            let marker = StoreMarker::create(directory, options.engine, kept.instance)?;
            let gap = kept.known.find_gap(&place, FoundStore::Missing);
            Some(StoreDescription {
                marker,
                known: kept.known.clone(),
                gap,
            })
        }
        (Some(marker), None) => {
            let known = marker.known_floor(directory);
            Some(StoreDescription {
                marker,
                known,
                gap: None,
            })
        }
        (Some(marker), Some(kept)) => {
            let both = FoundStore::Of {
                instance: marker.instance,
                of: kept.instance,
            };
            let gap = kept.known.find_gap(&place, both);
            let known = kept.known.clone().combine(marker.known_floor(directory));
            Some(StoreDescription { marker, known, gap })
        }
    })
}

/// The state of a store after reading it.
struct StoreReadOutcome {
    found: FoundStore,
    tally: StoreJobCounts,
}

/// Reads all of a store; an empty one is founded.
fn read_whole_store<E: StorageEngine>(
    engine: &mut E,
    place: &str,
    instance: InstanceId,
) -> Result<StoreReadOutcome, StoreError> {
    let reader = engine.reader();
    let Some(format) = take_over::read_format(&*reader, place)? else {
        drop(reader);
        take_over::create_empty_store(engine, instance)?;
        return Ok(StoreReadOutcome {
            found: FoundStore::Empty,
            tally: StoreJobCounts::default(),
        });
    };
    let (ledger, tally) = take_over::verify_ledger(&*reader, format, &mut |_| {})?;
    let epoch = take_over::read_epoch(&*reader)?;
    Ok(StoreReadOutcome {
        found: FoundStore::Reached(tally.to_floor(epoch, ledger.seq)),
        tally,
    })
}

/// Sets the store's own values to continue after the known floor.
fn continue_after_floor<E: StorageEngine>(
    engine: &mut E,
    known: StoreFloor,
    next_job: JobId,
) -> Result<(Epoch, Seq), StoreError> {
    let value = small_records::next_job_value(next_job)?;
    let mut reached = (Epoch(0), Seq(0));
    engine.run_exclusively(&mut |txn| {
        let mut ledger = decide_group::read_ledger(txn)?;
        ledger.seq = Seq(ledger.seq.max(known.seq).0.saturating_add(1));
        let epoch = Epoch(
            decide_group::read_epoch(txn)?
                .max(known.epoch)
                .0
                .saturating_add(1),
        );
        let text = epoch.to_string();
        let mut writes = vec![take_over::replace_own_value(
            txn,
            &mut ledger,
            EPOCH_KEY,
            text.as_bytes(),
        )?];
        writes.push(take_over::replace_own_value(
            txn,
            &mut ledger,
            keys::NEXT_JOB.as_bytes(),
            &value,
        )?);
        writes.push(ledger_write(&ledger));
        txn.commit(writes)?;
        reached = (epoch, ledger.seq);
        Ok(())
    })?;
    Ok(reached)
}
