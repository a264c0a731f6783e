//! A small file beside the engine's: it identifies the directory, and states the least that its
//! store has reached.
//!
//! An engine whose files were truncated opens as a new, empty one. The marker reveals that, and
//! also the loss of anything that was durable at the last opening or at the last orderly close.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use cospan_domain::ids::{Epoch, InstanceId, Seq};
use serde::{Deserialize, Serialize};

use super::{EngineKind, LockedDirectory, io_error};
use crate::port::StoreError;
use crate::store_floor::{KnownFloor, StoreFloor};
use crate::store_totals::FORMAT;

pub(super) const FILE: &str = "cospan-store.json";

/// The content of the marker.
#[derive(Debug, Clone)]
pub(crate) struct StoreMarker {
    engine: String,
    pub(crate) instance: InstanceId,
    pub(crate) epoch: Epoch,
    pub(crate) seq: Seq,
    /// Control planes whose stores this one took over by an import; they exist no more.
    pub(crate) former: Vec<InstanceId>,
}

#[derive(Serialize, Deserialize)]
struct MarkerFileContent {
    cospan_store: u32,
    engine: String,
    instance: String,
    epoch: u64,
    seq: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former: Vec<String>,
    #[serde(default)]
    checksum: u32,
}

impl MarkerFileContent {
    /// Computes the checksum of everything that the store depends on.
    fn checksum(&self) -> u32 {
        let text = format!(
            "{} {} {} {} {}",
            self.cospan_store, self.engine, self.instance, self.epoch, self.seq
        );
        crc32fast::hash(text.as_bytes())
    }
}

impl StoreMarker {
    /// Reads the marker; `None` if the directory has no store yet.
    pub(crate) fn read(directory: &LockedDirectory) -> Result<Option<Self>, StoreError> {
        let path = directory.path().join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return match find_engine_file(directory.path()) {
                    None => Ok(None),
                    Some(name) => Err(marker_damage_error(
                        &path,
                        format!("it is missing, but there is {name}"),
                    )),
                };
            }
            Err(source) => return Err(io_error(&path, "read", source)),
        };
        let file: MarkerFileContent = serde_json::from_slice(&bytes)
            .map_err(|error| marker_damage_error(&path, error.to_string()))?;
        if file.cospan_store > FORMAT {
            let found = file.cospan_store;
            let known = FORMAT;
            return Err(StoreError::Newer {
                path: directory.place_text(),
                found,
                known,
            });
        }
        if file.checksum() != file.checksum {
            let problem = "its checksum does not fit its content".into();
            return Err(marker_damage_error(&path, problem));
        }
        let instance = file
            .instance
            .parse()
            .map_err(|error| marker_damage_error(&path, format!("{error}")))?;
        let epoch = Epoch(file.epoch);
        let seq = Seq(file.seq);
        let former = file
            .former
            .iter()
            .filter_map(|former| former.parse().ok())
            .collect();
        Ok(Some(Self {
            engine: file.engine,
            instance,
            epoch,
            seq,
            former,
        }))
    }

    /// Returns true if a directory has a marker, or files of an engine.
    pub(crate) fn is_store_in(path: &Path) -> bool {
        path.join(FILE).exists() || find_engine_file(path).is_some()
    }

    /// Makes a marker for a store that is already whole.
    pub(crate) fn new(engine: EngineKind, instance: InstanceId, epoch: Epoch, seq: Seq) -> Self {
        Self {
            engine: engine.as_str().into(),
            instance,
            epoch,
            seq,
            former: Vec::new(),
        }
    }

    /// Makes a marker of the same store with this progress.
    pub(crate) fn with_progress(self, epoch: Epoch, seq: Seq) -> Self {
        Self { epoch, seq, ..self }
    }

    /// Returns what the marker knows of the store.
    pub(crate) fn known_floor(&self, directory: &LockedDirectory) -> KnownFloor {
        let floor = StoreFloor {
            epoch: self.epoch,
            seq: self.seq,
            ..StoreFloor::default()
        };
        KnownFloor {
            floor,
            by: directory.path().join(FILE).display().to_string(),
        }
    }

    /// Removes what an engine left that was being created for the first time when its process died,
    /// or the power was cut: nothing was ever in it, and it may be half a store. Keeps it if
    /// anything shows otherwise: the marker may be an old one, and the store long in use.
    pub(crate) fn remove_unused_engine_files(
        &self,
        directory: &LockedDirectory,
        known: Option<Epoch>,
    ) {
        if self.epoch == Epoch(0) && known.unwrap_or_default() == Epoch(0) {
            directory.clear_entries(is_engine_file);
        }
    }

    /// Returns the engine that the marker names, if this program has it.
    pub(crate) fn engine_kind(&self) -> Option<EngineKind> {
        EngineKind::from_name(&self.engine)
    }

    /// Writes the first marker, before the engine has any files.
    pub(crate) fn create(
        directory: &LockedDirectory,
        engine: EngineKind,
        instance: InstanceId,
    ) -> Result<Self, StoreError> {
        let marker = Self::new(engine, instance, Epoch(0), Seq(0));
        marker.write(directory)?;
        directory.sync()?;
        Ok(marker)
    }

    /// Replaces the file, durably.
    pub(crate) fn write(&self, directory: &LockedDirectory) -> Result<(), StoreError> {
        let mut file = MarkerFileContent {
            cospan_store: FORMAT,
            engine: self.engine.clone(),
            instance: self.instance.to_string(),
            epoch: self.epoch.0,
            seq: self.seq.0,
            former: self.former.iter().map(InstanceId::to_string).collect(),
            checksum: 0,
        };
        file.checksum = file.checksum();
        let written = serde_json::to_vec(&file)
            .map_err(io::Error::from)
            .and_then(|text| cospan_durable::replace_file(&directory.path().join(FILE), &text));
        written.map_err(|source| io_error(directory.path(), "marked as a store", source))
    }

    /// Checks that the store is of this engine.
    pub(crate) fn check_engine(
        &self,
        directory: &LockedDirectory,
        engine: EngineKind,
    ) -> Result<(), StoreError> {
        if self.engine == engine.as_str() {
            return Ok(());
        }
        Err(StoreError::OtherEngine {
            path: directory.place_text(),
            found: self.engine.clone(),
            wanted: engine.as_str(),
        })
    }

    /// Checks that marker and engine are of the same store.
    pub(crate) fn check_instance(
        &self,
        directory: &LockedDirectory,
        found: InstanceId,
    ) -> Result<(), StoreError> {
        if self.instance == found {
            return Ok(());
        }
        Err(StoreError::Damaged {
            place: directory.place_text(),
            problem: format!(
                "its marker is of store {}, its values are of {found}",
                self.instance
            ),
        })
    }
}

fn marker_damage_error(path: &Path, problem: String) -> StoreError {
    StoreError::Damaged {
        place: path.display().to_string(),
        problem,
    }
}

/// Returns true for a name that an engine gives to its files.
fn is_engine_file(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    EngineKind::ALL.iter().any(|kind| {
        let engine = kind.engine();
        engine.files.contains(&name) || (engine.is_further_file)(name)
    })
}

/// Returns a file of an engine in a directory without a marker.
fn find_engine_file(directory: &Path) -> Option<&'static str> {
    let files = EngineKind::ALL.iter().flat_map(|kind| kind.engine().files);
    files.copied().find(|name| directory.join(name).exists())
}
