//! A store that an embedded engine keeps in a directory: its lock, its marker, its floor, and all that
//! is done with it as a whole.

pub mod accept_loss;
pub mod check;
mod directory;
mod directory_engine;
mod directory_import;
mod floor_file;
mod marker;
mod still_there;
mod surroundings;

use std::io::BufRead;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::InstanceId;
use rand::TryRngCore;
use rand::rngs::OsRng;

use self::accept_loss::AcceptedLoss;
use self::check::StoreCheckReport;
use crate::engine_port::StorageEngine;
use crate::import::{ImportError, ImportOutcome};
use crate::port::{CommitReportSink, OpenedStore, StoreError, StoredValue};
use crate::store_floor::{FoundStore, KnownFloor};
use crate::store_place::StorePlace;
use crate::take_over;
use crate::threaded_journal::{FlushLimits, ThreadedJournal, panic_text};
pub(crate) use directory::{LockedDirectory, io_error, sync_directory};
pub(crate) use directory_engine::DirectoryEngine;
pub use directory_engine::EngineKind;
pub use directory_import::import_store;
pub(crate) use floor_file::{FloorFile, FloorFileContent};
pub(crate) use marker::StoreMarker;
use surroundings::StoreDirectoryHooks;

/// The options for opening a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// The engine of a new store; an old one must have the same.
    pub engine: EngineKind,
    /// Memory for the engine's cache, in bytes. sled takes it as a hint: give it twice the live
    /// data.
    pub cache_bytes: u64,
    /// Limits of one flush.
    pub group: FlushLimits,
    /// Longest time to wait until a killed process releases the store.
    pub lock_wait: Duration,
    /// The file outside of the store's directory that states how far the store has come; `None`: it
    /// is not noticed if an older copy replaces the store.
    pub floor: Option<PathBuf>,
}

impl StoreOptions {
    /// Returns the shipped settings for an engine.
    pub fn new(engine: EngineKind) -> Self {
        Self {
            engine,
            cache_bytes: 256 << 20,
            group: FlushLimits::default(),
            lock_wait: Duration::from_secs(2),
            floor: None,
        }
    }

    /// Reads the floor file, if there is one.
    pub(crate) fn read_floor(&self) -> Result<Option<FloorFileContent>, StoreError> {
        self.floor.as_deref().map_or(Ok(None), FloorFile::read_kept)
    }

    /// Opens the floor file for as long as the store is used.
    pub(crate) fn floor_file(&self) -> Result<Option<FloorFile>, StoreError> {
        self.floor
            .as_deref()
            .map(|path| FloorFile::open(path, self.lock_wait))
            .transpose()
    }

    /// Opens the engine in a directory, waiting for a lock that an earlier opening is about to
    /// release, and makes the names of its files durable.
    pub(crate) fn open_engine(
        &self,
        directory: &LockedDirectory,
    ) -> Result<Box<dyn StorageEngine>, StoreError> {
        let path = directory.path();
        let cache = self.cache_bytes;
        let engine =
            retry_while_in_use(self.lock_wait, || (self.engine.engine().open)(path, cache))?;
        directory.sync()?;
        Ok(engine)
    }
}

/// A directory with a store, and the options to open it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryStore {
    /// The directory.
    pub path: PathBuf,
    /// The engine, and the rest.
    pub options: StoreOptions,
}

impl StorePlace for DirectoryStore {
    fn engine_name(&self) -> &'static str {
        self.options.engine.as_str()
    }

    fn place_text(&self) -> String {
        self.path.display().to_string()
    }

    fn open_and_load(
        &self,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError> {
        open_and_load(&self.path, &self.options, sink, load)
    }

    fn check_openable(&self) -> Result<(), StoreError> {
        check_openable(&self.path, &self.options)
    }

    fn check_store(&self) -> Result<StoreCheckReport, StoreError> {
        check::check_store(&self.path, &self.options)
    }

    fn import_store(&self, input: &mut dyn BufRead) -> Result<ImportOutcome, ImportError> {
        import_store(&self.path, &self.options, input)
    }

    fn accept_loss(&self) -> Result<Option<AcceptedLoss>, StoreError> {
        accept_loss::accept_loss(&self.path, &self.options)
    }
}

/// Opens the store in `path`, creating it if needed, and takes the next epoch: from now on appends
/// of earlier epochs are fenced.
///
/// Fails if the directory cannot be used, or the store is in use, newer or damaged, or its disk is
/// full; each error says what to do.
pub fn open(
    path: &Path,
    options: &StoreOptions,
    sink: CommitReportSink,
) -> Result<OpenedStore, StoreError> {
    open_and_load(path, options, sink, &mut |_| {})
}

/// Opens a store like [`open`], and passes every stored value to `load`: the check that the store
/// is whole reads all of them anyway. After an error none of the loaded values counts.
///
/// # Errors
/// As for [`open`].
pub fn open_and_load(
    path: &Path,
    options: &StoreOptions,
    sink: CommitReportSink,
    load: &mut dyn FnMut(StoredValue),
) -> Result<OpenedStore, StoreError> {
    // An operator who puts the store back finds no other one in its place.
    if !path
        .try_exists()
        .map_err(|source| io_error(path, "looked at", source))?
    {
        check_none_lost(path, options)?;
    }
    let directory = LockedDirectory::create_and_lock(path, options.lock_wait)?;
    let floor = options.floor_file()?;
    let marker = match StoreMarker::read(&directory)? {
        Some(marker) => marker,
        None => {
            check_none_lost(path, options)?;
            StoreMarker::create(&directory, options.engine, draw_instance()?)?
        }
    };
    marker.check_engine(&directory, options.engine)?;
    let known = floor.as_ref().and_then(|file| file.kept.as_ref());
    marker.remove_unused_engine_files(&directory, known.map(|kept| kept.known.floor.epoch));
    StoreOpening {
        directory,
        marker,
        floor,
        options,
        sink,
    }
    .open_store(load)
}

/// # Errors
/// Fails if there is no store, but there was one.
fn check_none_lost(path: &Path, options: &StoreOptions) -> Result<(), StoreError> {
    let known = options
        .read_floor()?
        .map(|kept| kept.known)
        .unwrap_or_default();
    known.check_complete(&path.display().to_string(), FoundStore::Missing)
}

/// Checks what [`open`] would say of the store before it reads it: that nothing is wrong, or that
/// it is in use, gone, newer, of another engine, or that its marker is damaged. Takes no epoch, and
/// makes no store.
///
/// # Errors
/// As for [`open`].
pub fn check_openable(path: &Path, options: &StoreOptions) -> Result<(), StoreError> {
    if !path.exists() {
        return check_none_lost(path, options);
    }
    let directory = LockedDirectory::create_and_lock(path, options.lock_wait)?;
    match StoreMarker::read(&directory)? {
        Some(marker) => marker.check_engine(&directory, options.engine),
        None => check_none_lost(path, options),
    }
}

/// Draws an instance id.
pub(crate) fn draw_instance() -> Result<InstanceId, StoreError> {
    let bits = OsRng.try_next_u64().map_err(|error| StoreError::Io {
        path: "the system's random numbers".into(),
        action: "read",
        source: std::io::Error::other(error),
    })?;
    Ok(InstanceId::from_random(bits))
}

struct StoreOpening<'a> {
    directory: LockedDirectory,
    marker: StoreMarker,
    floor: Option<FloorFile>,
    options: &'a StoreOptions,
    sink: CommitReportSink,
}

impl StoreOpening<'_> {
    fn open_store(self, load: &mut dyn FnMut(StoredValue)) -> Result<OpenedStore, StoreError> {
        let Self {
            directory,
            mut marker,
            floor,
            options,
            sink,
        } = self;
        let place = directory.place_text();
        let instance = marker.instance;
        let known = combine_known_floors(
            &directory,
            &marker,
            floor.as_ref().and_then(|file| file.kept.as_ref()),
        )?;
        let (engine, begun) = catch_panics(&place, || {
            let mut engine = options.open_engine(&directory)?;
            let begun = take_over::begin_ownership(&mut engine, &place, &known, instance, load)?;
            Ok((engine, begun))
        })?;
        marker.check_instance(&directory, begun.owner.instance)?;
        marker.epoch = begun.owner.epoch;
        marker.seq = begun.seq;
        let former = marker.former.clone();
        let keeper = StoreDirectoryHooks::begin_keeping(
            directory,
            marker,
            floor,
            options.engine,
            begun.tally,
        )?;
        let group = options.group;
        let tally = begun.tally;
        let journal = ThreadedJournal::start(engine, &place, group, sink, Box::new(keeper), tally)?;
        Ok(OpenedStore {
            former,
            ..OpenedStore::new(Arc::new(journal), begun)
        })
    }
}

/// Returns what marker and floor know of a store.
///
/// # Errors
/// Fails if they are of different stores.
pub(crate) fn combine_known_floors(
    directory: &LockedDirectory,
    marker: &StoreMarker,
    kept: Option<&FloorFileContent>,
) -> Result<KnownFloor, StoreError> {
    let told = marker.known_floor(directory);
    let Some(kept) = kept else { return Ok(told) };
    let both = FoundStore::Of {
        instance: marker.instance,
        of: kept.instance,
    };
    kept.known.check_complete(&directory.place_text(), both)?;
    Ok(kept.known.clone().combine(told))
}

/// Tries again while the store is in use, until `wait` is over.
pub(crate) fn retry_while_in_use<T>(
    wait: Duration,
    mut attempt: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let deadline = Instant::now() + wait;
    loop {
        match attempt() {
            Err(StoreError::InUse { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

/// Turns a panic of an engine, which some damage causes, into an error.
pub(crate) fn catch_panics<T>(
    place: &str,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(StoreError::Damaged {
            place: place.into(),
            problem: format!("the engine gave up on it: {}", panic_text(&*panic)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_whose_first_start_was_cut_off_is_made_anew() {
        for (engine, left) in EngineKind::ALL.iter().flat_map(|engine| {
            [&b""[..], b"\0\0\0\0\0\0\0\0", b"half of it"].map(|left| (*engine, left))
        }) {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("store");
            let options = StoreOptions::new(engine);
            let directory = LockedDirectory::create_and_lock(&path, Duration::ZERO).unwrap();
            let instance = draw_instance().unwrap();
            StoreMarker::create(&directory, engine, instance).unwrap();
            for file in [engine.data_file_name(), "conf"] {
                std::fs::write(path.join(file), left).unwrap();
            }
            drop(directory);
            let opened = open(&path, &options, Arc::new(|_| {})).unwrap();
            assert_eq!(opened.instance, instance);
            opened.journal.close();
            drop(opened);
            // What was opened once is never made anew.
            std::fs::write(path.join(engine.data_file_name()), left).unwrap();
            assert!(open(&path, &options, Arc::new(|_| {})).is_err());
        }
    }

    #[test]
    fn a_store_that_its_floor_knows_is_kept_whatever_an_old_marker_says() {
        for engine in EngineKind::ALL {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("store");
            let floor = home.path().join("floor");
            let options = StoreOptions {
                floor: Some(floor.clone()),
                ..StoreOptions::new(*engine)
            };
            let open = || open(&path, &options, Arc::new(|_| {})).unwrap();
            let first = open();
            first.journal.close();
            let instance = first.instance;
            let epoch = first.epoch;
            drop(first);
            let mark_anew = || {
                let directory = LockedDirectory::create_and_lock(&path, Duration::ZERO).unwrap();
                StoreMarker::create(&directory, *engine, instance).unwrap();
            };
            mark_anew();
            assert!(open().epoch > epoch, "it goes on");
            // Nor does anything of somebody else's go with a store that was never used.
            mark_anew();
            std::fs::remove_file(floor).unwrap();
            std::fs::write(path.join("notes"), "").unwrap();
            assert_eq!(open().epoch, epoch, "it is made anew");
            assert!(path.join("notes").exists());
        }
    }

    #[test]
    fn a_marker_that_was_never_whole_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store");
        drop(LockedDirectory::create_and_lock(&path, Duration::ZERO).unwrap());
        let half = format!(".{}.4711-0.new", marker::FILE);
        std::fs::write(path.join(half), "{").unwrap();
        let directory = LockedDirectory::create_and_lock(&path, Duration::ZERO).unwrap();
        assert_eq!(
            directory.first_entry().unwrap(),
            None,
            "an import finds it empty"
        );
        std::fs::write(path.join(".theirs.new"), "").unwrap();
        drop(directory);
        let directory = LockedDirectory::create_and_lock(&path, Duration::ZERO).unwrap();
        assert_eq!(
            directory.first_entry().unwrap().as_deref(),
            Some(".theirs.new")
        );
    }
}
