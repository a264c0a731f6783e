//! Opens a store in a directory, whichever engine keeps it.

mod directory;
mod marker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cospan_domain::ids::InstanceId;
use rand::TryRngCore;
use rand::rngs::OsRng;

use crate::engine::Engine;
use crate::found::{self, Floor};
use crate::grouped::{GroupLimits, Grouped, panic_text};
use crate::port::{Opened, Sink, StoreError, Stored};
pub(crate) use directory::{Directory, io_error, sync_directory};
pub(crate) use marker::Marker;

/// The engines that keep a store in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// sled 0.34: the default.
    #[cfg(feature = "sled")]
    Sled,
    /// redb 4.
    #[cfg(feature = "redb")]
    Redb,
}

impl EngineKind {
    /// Those that this program was built with, the default first.
    pub const ALL: &'static [EngineKind] = &[
        #[cfg(feature = "sled")]
        EngineKind::Sled,
        #[cfg(feature = "redb")]
        EngineKind::Redb,
    ];

    /// Its name in configuration and on disk.
    pub fn as_str(self) -> &'static str {
        match self {
            #[cfg(feature = "sled")]
            EngineKind::Sled => "sled",
            #[cfg(feature = "redb")]
            EngineKind::Redb => "redb",
        }
    }

    /// The file that has its data.
    pub(crate) fn file(self) -> &'static str {
        match self {
            #[cfg(feature = "sled")]
            EngineKind::Sled => "db",
            #[cfg(feature = "redb")]
            EngineKind::Redb => "redb",
        }
    }

    /// The engine of this name, if this program has it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

/// How to open a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The engine of a new store; an old one must be of the same.
    pub engine: EngineKind,
    /// Memory for the engine's cache. sled takes it as a hint: give it twice the live data.
    pub cache_bytes: u64,
    /// How much one flush may serve.
    pub group: GroupLimits,
    /// How long to wait for a process that was killed to let go of the store.
    pub lock_wait: Duration,
}

impl Options {
    /// The shipped settings for an engine.
    pub fn new(engine: EngineKind) -> Self {
        Self {
            engine,
            cache_bytes: 256 << 20,
            group: GroupLimits::default(),
            lock_wait: Duration::from_secs(2),
        }
    }

    /// Opens the engine in a directory, waiting for a lock that an earlier
    /// opening is about to let go, and makes the names of its files durable.
    pub(crate) fn open_engine(&self, directory: &Directory) -> Result<Box<dyn Engine>, StoreError> {
        let (path, cache) = (directory.path(), self.cache_bytes);
        let engine = patiently(self.lock_wait, || {
            let engine: Box<dyn Engine> = match self.engine {
                #[cfg(feature = "sled")]
                EngineKind::Sled => Box::new(crate::sled::SledEngine::open(path, cache)?),
                #[cfg(feature = "redb")]
                EngineKind::Redb => Box::new(crate::redb::RedbEngine::open(path, cache)?),
            };
            Ok(engine)
        })?;
        directory.sync()?;
        Ok(engine)
    }
}

/// Opens the store in `path`, which is made if it is not there, and takes the
/// next epoch: from now on appends of earlier ones are fenced.
///
/// # Errors
/// The directory cannot be used, the store is in use, newer, damaged, or its
/// disk is full; each says what to do.
pub fn open(path: &Path, options: &Options, sink: Sink) -> Result<Opened, StoreError> {
    open_and_load(path, options, sink, &mut |_| {})
}

/// Like [`open`], and shows every value that the store holds on the way: the
/// check that the store is whole reads all of them anyway. After an error
/// nothing of what was shown counts.
///
/// # Errors
/// As for [`open`].
pub fn open_and_load(
    path: &Path,
    options: &Options,
    sink: Sink,
    load: &mut dyn FnMut(Stored),
) -> Result<Opened, StoreError> {
    let directory = Directory::prepare(path, options.lock_wait)?;
    let marker = match Marker::read(&directory)? {
        Some(marker) => marker,
        None => Marker::create(&directory, options.engine, draw_instance()?)?,
    };
    marker.expect_engine(&directory, options.engine)?;
    Start { directory, marker, options, sink }.run(load)
}

/// What [`open`] would say of the store before it reads it: nothing is wrong, or it is in use,
/// newer, of another engine, or its marker is damaged. Takes no epoch, and makes no store.
///
/// # Errors
/// As for [`open`].
pub fn look(path: &Path, options: &Options) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    let directory = Directory::prepare(path, options.lock_wait)?;
    let marker = Marker::read(&directory)?;
    marker.map_or(Ok(()), |marker| marker.expect_engine(&directory, options.engine))
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

struct Start<'a> {
    directory: Directory,
    marker: Marker,
    options: &'a Options,
    sink: Sink,
}

impl Start<'_> {
    fn run(self, load: &mut dyn FnMut(Stored)) -> Result<Opened, StoreError> {
        let Self { directory, mut marker, options, sink } = self;
        let place = directory.place();
        let floor = Floor { epoch: marker.epoch, seq: marker.seq };
        let instance = marker.instance;
        let (engine, begun) = guarded(&place, || {
            let mut engine = options.open_engine(&directory)?;
            let begun = found::begin(&mut engine, &place, floor, instance, load)?;
            Ok((engine, begun))
        })?;
        marker.check_instance(&directory, begun.owner.instance)?;
        marker.epoch = begun.owner.epoch;
        marker.seq = begun.seq;
        marker.write(&directory)?;
        let farewell = Box::new(move |seq| {
            marker.seq = seq;
            // Only a lower bound: without it less is noticed, nothing is lost.
            let _ = marker.write(&directory);
        });
        let journal = Grouped::start(engine, &place, options.group, sink, farewell)?;
        Ok(Opened::new(Arc::new(journal), begun))
    }
}

/// Tries again while the store is in use, until `wait` is over.
pub(crate) fn patiently<T>(
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
pub(crate) fn guarded<T>(
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
