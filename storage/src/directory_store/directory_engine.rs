//! The embedded engines, which keep a store in a directory. Each has a folder, and a line here.

use std::path::Path;

use crate::engine_port::StorageEngine;
use crate::port::StoreError;

/// An engine that was opened, or why it was not.
type OpenedEngine = Result<Box<dyn StorageEngine>, StoreError>;

/// An engine that keeps a store in a directory.
pub(crate) struct DirectoryEngine {
    /// The name in configuration and on disk.
    pub(crate) name: &'static str,
    /// The files that are there as soon as there is a store; the first has the data.
    pub(crate) files: &'static [&'static str],
    /// Returns true for the name of a file that it may make beside those.
    pub(crate) is_further_file: fn(&str) -> bool,
    /// Opens or makes the store in a directory, with so many bytes of cache.
    pub(crate) open: fn(&Path, u64) -> OpenedEngine,
}

macro_rules! directory_engines {
    ($($(#[$attribute:meta])* $kind:ident => $engine:expr;)+) => {
        /// The engines that keep a store in a directory.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EngineKind {
            $($(#[$attribute])* $kind,)+
        }

        impl EngineKind {
            /// All engines that this program was built with, the default first.
            pub const ALL: &'static [EngineKind] = &[$($(#[$attribute])* EngineKind::$kind,)+];

            pub(crate) fn engine(self) -> &'static DirectoryEngine {
                match self {
                    $($(#[$attribute])* EngineKind::$kind => $engine,)+
                }
            }
        }
    };
}

directory_engines! {
    #[cfg(feature = "sled")] Sled => &crate::sled::ENGINE;
    #[cfg(feature = "redb")] Redb => &crate::redb::ENGINE;
}

impl EngineKind {
    /// Returns its name in configuration and on disk.
    pub fn as_str(self) -> &'static str {
        self.engine().name
    }

    /// Returns the name of its data file.
    pub(crate) fn data_file_name(self) -> &'static str {
        self.engine().files[0]
    }

    /// Returns the engine of this name, if this program has it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}
