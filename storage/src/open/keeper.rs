//! What looks after the surroundings of a store while it is in use: its marker, its floor, and
//! whether it is still where it was.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cospan_domain::ids::Seq;

use super::directory::LOCK_FILE;
use super::{Directory, EngineKind, FloorFile, Marker, io_error};
use crate::floor::Tally;
use crate::grouped::Attendant;
use crate::port::StoreError;

/// The floor is at most so far behind after a power cut.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The directory and the files of a store, as they were at its opening.
struct Places(Vec<(PathBuf, (u64, u64))>);

impl Places {
    fn of(directory: &Path, engine: EngineKind) -> Result<Self, StoreError> {
        let names = [LOCK_FILE, engine.file()].map(|name| directory.join(name));
        let places = std::iter::once(directory.to_path_buf()).chain(names);
        let known = places.map(|place| {
            let id = identity(&place).map_err(|source| io_error(&place, "looked at", source))?;
            Ok((place, id))
        });
        known.collect::<Result<_, _>>().map(Self)
    }

    /// # Errors
    /// [`StoreError::Vanished`]: what is written now goes nowhere.
    fn look(&self) -> Result<(), StoreError> {
        let is_other = |(place, id): &&(PathBuf, _)| identity(place).ok().as_ref() != Some(id);
        match self.0.iter().find(is_other) {
            None => Ok(()),
            Some((place, _)) => Err(StoreError::Vanished { path: place.display().to_string() }),
        }
    }
}

fn identity(place: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(place).map(|found| (found.dev(), found.ino()))
}

/// See the module.
pub(super) struct Keeper {
    directory: Directory,
    marker: Marker,
    floor: Option<FloorFile>,
    places: Places,
    tally: Tally,
    synced_at: Instant,
    is_synced: bool,
}

impl Keeper {
    /// Of a store that was just opened; writes marker and floor.
    pub(super) fn begin(
        directory: Directory,
        marker: Marker,
        floor: Option<FloorFile>,
        engine: EngineKind,
        tally: Tally,
    ) -> Result<Self, StoreError> {
        marker.write(&directory)?;
        let places = Places::of(directory.path(), engine)?;
        let synced_at = Instant::now();
        let mut keeper =
            Self { directory, marker, floor, places, tally, synced_at, is_synced: true };
        let (instance, at) =
            (keeper.marker.instance, tally.at(keeper.marker.epoch, keeper.marker.seq));
        keeper.floor.as_mut().map_or(Ok(()), |floor| floor.reset(instance, at))?;
        Ok(keeper)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.synced_at = Instant::now();
        self.is_synced = true;
        self.floor.as_ref().map_or(Ok(()), FloorFile::sync)
    }
}

impl Attendant for Keeper {
    fn committed(&mut self, seq: Seq, tally: Tally) -> Result<(), StoreError> {
        self.places.look()?;
        let reserved = tally.next_job > self.tally.next_job;
        (self.marker.seq, self.tally) = (seq, tally);
        let (instance, at) = (self.marker.instance, tally.at(self.marker.epoch, seq));
        if let Some(floor) = &mut self.floor {
            floor.advance(instance, at)?;
            self.is_synced = false;
        }
        match reserved || self.synced_at.elapsed() >= SYNC_EVERY {
            true => self.sync(),
            false => Ok(()),
        }
    }

    fn idle(&mut self) -> Result<(), StoreError> {
        self.places.look()?;
        if self.is_synced { Ok(()) } else { self.sync() }
    }

    fn closed(&mut self) {
        // Only lower bounds: without them less is noticed, nothing is lost.
        let _ = self.sync();
        // A marker that is written anew would lie in the place of another store.
        if self.places.look().is_ok() {
            let _ = self.marker.write(&self.directory);
        }
    }
}
