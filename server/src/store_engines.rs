//! The engines of the store. Each has a line in `adapter_of`, which makes the store from the engine's
//! own options; nobody else knows what differs by engine.

use std::path::{Path, PathBuf};

use cospan_storage::{DirectoryStore, EngineKind, StoreOptions, StorePlace};

use crate::config::sections::{Engine, Store};

/// The adapter of an engine: each engine has its line.
fn adapter_of(engine: Engine) -> &'static dyn StoreEngineAdapter {
    match engine {
        Engine::Sled => &EngineKind::Sled,
        Engine::Redb => &EngineKind::Redb,
    }
}

/// All that differs by the engine of a store.
trait StoreEngineAdapter {
    /// The directory that the store has to itself; `None`: it is not kept in a directory.
    fn directory(&self, section: &Store, data: &Path) -> Option<PathBuf>;

    /// Makes the store from its section. Nothing is touched.
    fn make_place(&self, section: &Store, data: &Path) -> Box<dyn StorePlace>;
}

/// An embedded engine keeps the store in a directory.
impl StoreEngineAdapter for EngineKind {
    fn directory(&self, section: &Store, data: &Path) -> Option<PathBuf> {
        Some(data.join(&section.directory))
    }

    fn make_place(&self, section: &Store, data: &Path) -> Box<dyn StorePlace> {
        let mut options = StoreOptions::new(*self);
        options.cache_bytes = section.cache.0;
        options.floor = Some(data.join(&section.floor));
        Box::new(DirectoryStore {
            path: data.join(&section.directory),
            options,
        })
    }
}

/// The directory that the store has to itself, if it is kept in one.
pub(crate) fn store_directory(section: &Store, data: &Path) -> Option<PathBuf> {
    adapter_of(section.engine).directory(section, data)
}

/// Makes the store from its section; `data` is the data directory. Nothing is touched.
pub fn store_place(section: &Store, data: &Path) -> Box<dyn StorePlace> {
    adapter_of(section.engine).make_place(section, data)
}
