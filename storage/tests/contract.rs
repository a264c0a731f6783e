//! The contract, for every backend.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cospan_domain::ids::InstanceId;
use cospan_storage::contract::StoreUnderTest;
use cospan_storage::memory::{self, MemoryDisk};
use cospan_storage::port::{CommitReportSink, StoreError, StoredValue};
use cospan_storage::{EngineKind, OpenedStore, StoreOptions, contract_tests, open_and_load};
use tempfile::TempDir;

struct InMemory(MemoryDisk);

impl StoreUnderTest for InMemory {
    fn open(
        &self,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError> {
        memory::open_and_load(&self.0, InstanceId::from_random(7), sink, load)
    }
}

struct InDirectory {
    directory: TempDir,
    engine: EngineKind,
}

impl InDirectory {
    fn new(engine: EngineKind) -> Self {
        Self {
            directory: TempDir::new().unwrap(),
            engine,
        }
    }
}

impl StoreUnderTest for InDirectory {
    fn open(
        &self,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError> {
        let path = self.directory.path().join("store");
        open_and_load(&path, &StoreOptions::new(self.engine), sink, load)
    }
}

contract_tests!(in_memory, InMemory(MemoryDisk::default()));
#[cfg(feature = "sled")]
contract_tests!(on_sled, InDirectory::new(EngineKind::Sled));
#[cfg(feature = "redb")]
contract_tests!(on_redb, InDirectory::new(EngineKind::Redb));
