//! Keeps the surroundings of a store while it is in use: its marker, its floor, and the check that
//! it is still where it was.

use std::time::{Duration, Instant};

use cospan_domain::ids::Seq;

use super::still_there::OpenedStoreFiles;
use super::{EngineKind, FloorFile, LockedDirectory, StoreMarker};
use crate::port::StoreError;
use crate::store_floor::StoreJobCounts;
use crate::threaded_journal::JournalHooks;

/// Longest time by which the floor is behind after a power cut.
const SYNC_EVERY: Duration = Duration::from_secs(1);

pub(super) struct StoreDirectoryHooks {
    directory: LockedDirectory,
    marker: StoreMarker,
    floor: Option<FloorFile>,
    places: OpenedStoreFiles,
    tally: StoreJobCounts,
    synced_at: Instant,
    is_synced: bool,
}

impl StoreDirectoryHooks {
    /// Begins to keep a store that was just opened; writes marker and floor.
    pub(super) fn begin_keeping(
        directory: LockedDirectory,
        marker: StoreMarker,
        floor: Option<FloorFile>,
        engine: EngineKind,
        tally: StoreJobCounts,
    ) -> Result<Self, StoreError> {
        marker.write(&directory)?;
        let places = OpenedStoreFiles::open_places(directory.path(), engine)?;
        let synced_at = Instant::now();
        let mut keeper = Self {
            directory,
            marker,
            floor,
            places,
            tally,
            synced_at,
            is_synced: true,
        };
        let instance = keeper.marker.instance;
        let at = tally.to_floor(keeper.marker.epoch, keeper.marker.seq);
        keeper
            .floor
            .as_mut()
            .map_or(Ok(()), |floor| floor.reset_floor(instance, at))?;
        Ok(keeper)
    }

    fn sync_floor(&mut self) -> Result<(), StoreError> {
        self.synced_at = Instant::now();
        self.is_synced = true;
        self.floor.as_ref().map_or(Ok(()), FloorFile::sync)
    }
}

impl JournalHooks for StoreDirectoryHooks {
    fn check_place(&self) -> Result<(), StoreError> {
        self.places.check_still_there()
    }

    fn on_committed(&mut self, seq: Seq, tally: StoreJobCounts) -> Result<(), StoreError> {
        let reserved = tally.next_job > self.tally.next_job;
        self.marker.seq = seq;
        self.tally = tally;
        let instance = self.marker.instance;
        let at = tally.to_floor(self.marker.epoch, seq);
        if let Some(floor) = &mut self.floor {
            floor.write_floor(instance, at)?;
            self.is_synced = false;
        }
        if reserved || self.synced_at.elapsed() >= SYNC_EVERY {
            self.sync_floor()
        } else {
            Ok(())
        }
    }

    fn on_idle(&mut self) -> Result<(), StoreError> {
        if self.is_synced {
            Ok(())
        } else {
            self.sync_floor()
        }
    }

    fn on_closed(&mut self) {
        // These are only lower bounds: without them less is noticed, but nothing is lost.
        let _ = self.sync_floor();
        // A new marker would lie in the place of another store.
        if self.places.check_still_there().is_ok() {
            let _ = self.marker.write(&self.directory);
        }
    }
}
