//! Checks a whole store, damaged or not, and reports what is wrong with it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use cospan_domain::ids::{Epoch, InstanceId};

use super::{
    EngineKind, FloorFileContent, LockedDirectory, StoreMarker, StoreOptions, catch_panics,
    combine_known_floors,
};
use crate::engine_port::EngineReader;
use crate::port::{StoreError, StoredValue};
use crate::record::RecordLoader;
use crate::scans;
use crate::store_floor::{FoundStore, KnownFloor};
use crate::store_totals::{self, EPOCH_KEY, INSTANCE_KEY};
use crate::take_over;

/// The result of a check.
#[derive(Debug, Default)]
pub struct StoreCheckReport {
    /// Number of values that are whole.
    pub records: u64,
    /// All damage, each with the place and the remedy; empty if there is none.
    pub damage: Vec<StoreError>,
}

/// Checks a store that nobody uses: every value, every record, and whether all of them are there.
/// Work on a copy: opening an engine may change its files.
///
/// Fails if the store cannot be opened at all: in use, newer, or not there.
pub fn check_store(path: &Path, options: &StoreOptions) -> Result<StoreCheckReport, StoreError> {
    let mut report = StoreCheckReport::default();
    let kept = options.read_floor()?;
    if let Some(kept) = &kept
        && !StoreMarker::is_store_in(path)
    {
        let gap = kept
            .known
            .check_complete(&path.display().to_string(), FoundStore::Missing);
        report.damage.extend(gap.err());
        return Ok(report);
    }
    let wreck = match UncheckedStore::open(path) {
        Ok(wreck) => wreck,
        Err(error @ StoreError::Damaged { .. }) => {
            report.damage.push(error);
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    if let Err(error) = &wreck.marker {
        report.damage.push(StoreError::Damaged {
            place: wreck.place.clone(),
            problem: error.clone(),
        });
    }
    let mut loader = RecordLoader::default();
    let walked = wreck.examine_values(&mut |found| {
        match found.and_then(|stored| loader.take_stored_value(stored)) {
            Ok(()) => report.records += 1,
            Err(error) => report.damage.push(error),
        }
        ControlFlow::Continue(())
    });
    let whole = walked.and_then(|()| loader.finish().map(drop));
    report.damage.extend(whole.err());
    report
        .damage
        .extend(catch_panics(&wreck.place, || wreck.verify_complete(kept.as_ref())).err());
    Ok(report)
}

/// A store that may be damaged.
pub(crate) struct UncheckedStore {
    reader: Arc<dyn EngineReader>,
    place: String,
    /// The marker, or the problem with it.
    marker: Result<StoreMarker, String>,
    directory: LockedDirectory,
}

impl UncheckedStore {
    /// Opens the engine of a store without any check.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.is_dir() {
            let problem = "there is no store; name the data directory".into();
            return Err(StoreError::NotADirectory {
                path: path.display().to_string(),
                problem,
            });
        }
        let lock_wait = StoreOptions::new(EngineKind::ALL[0]).lock_wait;
        let directory = LockedDirectory::create_and_lock(path, lock_wait)?;
        let marker = match StoreMarker::read(&directory) {
            Ok(Some(marker)) => Ok(marker),
            Ok(None) => {
                let problem = "there is no store in it; name the data directory".into();
                return Err(StoreError::NotADirectory {
                    path: directory.place_text(),
                    problem,
                });
            }
            Err(error @ StoreError::Damaged { .. }) => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        let named = marker.as_ref().ok().and_then(StoreMarker::engine_kind);
        let engine = named
            .or_else(|| {
                EngineKind::ALL
                    .iter()
                    .copied()
                    .find(|kind| path.join(kind.data_file_name()).exists())
            })
            .ok_or_else(|| StoreError::Damaged {
                place: directory.place_text(),
                problem: "no engine of this program has a file there".into(),
            })?;
        let place = directory.place_text();
        let options = StoreOptions::new(engine);
        let reader = catch_panics(&place, || Ok(options.open_engine(&directory)?.reader()))?;
        Ok(Self {
            reader,
            place,
            marker,
            directory,
        })
    }

    /// Checks that everything is there that was ever durable, as far as that is known.
    fn verify_complete(&self, kept: Option<&FloorFileContent>) -> Result<(), StoreError> {
        let known = match &self.marker {
            Ok(marker) => combine_known_floors(&self.directory, marker, kept)?,
            Err(_) => KnownFloor::default(),
        };
        let Some(format) = take_over::read_format(&*self.reader, &self.place)? else {
            return known.check_complete(&self.place, FoundStore::Empty);
        };
        let (ledger, tally) = take_over::verify_ledger(&*self.reader, format, &mut |_| {})?;
        let epoch = take_over::read_epoch(&*self.reader)?;
        known.check_complete(
            &self.place,
            FoundStore::Reached(tally.to_floor(epoch, ledger.seq)),
        )
    }

    /// Returns instance and epoch of the store, as far as they can be read.
    pub(crate) fn instance_and_epoch(&self) -> (InstanceId, Epoch) {
        let marker = self.marker.as_ref().ok();
        let instance = self
            .read_own_value(INSTANCE_KEY)
            .and_then(|value| store_totals::parse_text(INSTANCE_KEY, &value).ok())
            .or(marker.map(|marker| marker.instance));
        let epoch = self
            .read_own_value(EPOCH_KEY)
            .and_then(|value| store_totals::parse_text(EPOCH_KEY, &value).ok())
            .max(marker.map(|marker| marker.epoch));
        (
            instance.unwrap_or(InstanceId::from_random(0)),
            epoch.unwrap_or_default(),
        )
    }

    fn read_own_value(&self, key: &[u8]) -> Option<Vec<u8>> {
        catch_panics(&self.place, || scans::read_own_value(&*self.reader, key)).ok()
    }

    /// Visits every value that can be read, and the damage of the others.
    pub(crate) fn examine_values(
        &self,
        visit: &mut dyn FnMut(Result<StoredValue, StoreError>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        catch_panics(&self.place, || {
            scans::examine_reader(&*self.reader, b"", visit)
        })
    }
}
