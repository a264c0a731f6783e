//! The store on redb 4: one table, one transaction a group.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};

use crate::directory_store::{DirectoryEngine, io_error};
use crate::engine_port::{
    BytesVisitor, EngineReader, EngineTransaction, EntryVisitor, StorageEngine, StoreWrites,
};
use crate::port::{StoreError, StoreSize};

const FILE: &str = "redb";
/// redb, as an engine of a directory.
pub(crate) const ENGINE: DirectoryEngine = DirectoryEngine {
    name: "redb",
    files: &[FILE],
    is_further_file: |_| false,
    open: |path, cache| Ok(Box::new(RedbEngine::open(path, cache)?)),
};

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("values");

/// An open redb database.
pub(crate) struct RedbEngine(Arc<RedbDatabase>);

struct RedbDatabase {
    db: Database,
    path: PathBuf,
}

impl RedbEngine {
    /// Opens or makes the database in a directory, and checks all of its pages: a damaged branch
    /// could hide what a walk over the leaves still shows.
    fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let path = path.join(FILE);
        let db = open_database(&path, cache_bytes)
            .map_err(|error| convert_error(&path, "opened", error))?;
        Ok(Self(Arc::new(RedbDatabase { db, path })))
    }
}

fn open_database(path: &Path, cache_bytes: u64) -> Result<Database, redb::Error> {
    let mut db = Database::builder()
        .set_cache_size(usize::try_from(cache_bytes).unwrap_or(usize::MAX))
        .create(path)?;
    db.check_integrity()?;
    let txn = db.begin_write()?;
    txn.open_table(TABLE)?;
    txn.commit()?;
    Ok(db)
}

impl StorageEngine for RedbEngine {
    fn run_exclusively(
        &mut self,
        work: &mut dyn FnMut(&mut dyn EngineTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.0.open_table()?;
        work(&mut RedbTransaction {
            shared: &self.0,
            table,
        })
    }

    fn reader(&self) -> Arc<dyn EngineReader> {
        Arc::clone(&self.0) as Arc<dyn EngineReader>
    }
}

type RedbTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

struct RedbTransaction<'a> {
    shared: &'a RedbDatabase,
    table: RedbTable,
}

impl EngineTransaction for RedbTransaction<'_> {
    fn get(&mut self, key: &[u8], see: BytesVisitor<'_>) -> Result<(), StoreError> {
        let stored = self
            .table
            .get(key)
            .map_err(|error| self.shared.to_store_error("read", error))?;
        stored.map_or(Ok(()), |stored| see(stored.value()))
    }

    fn commit(&mut self, writes: StoreWrites) -> Result<u64, StoreError> {
        let begun = Instant::now();
        write_changes(&self.shared.db, &writes)
            .map_err(|error| self.shared.to_store_error("written", error))?;
        Ok(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

fn write_changes(db: &Database, writes: &StoreWrites) -> Result<(), redb::Error> {
    let txn = db.begin_write()?;
    {
        let mut table = txn.open_table(TABLE)?;
        for (key, bytes) in writes {
            match bytes {
                Some(bytes) => drop(table.insert(&*key.0, bytes.as_slice())?),
                None => drop(table.remove(&*key.0)?),
            }
        }
    }
    txn.commit()?;
    Ok(())
}

impl RedbDatabase {
    fn open_table(&self) -> Result<RedbTable, StoreError> {
        let open =
            || -> Result<RedbTable, redb::Error> { Ok(self.db.begin_read()?.open_table(TABLE)?) };
        open().map_err(|error| self.to_store_error("read", error))
    }

    fn to_store_error(&self, action: &'static str, error: impl Into<redb::Error>) -> StoreError {
        convert_error(&self.path, action, error.into())
    }
}

impl EngineReader for RedbDatabase {
    fn walk(&self, prefix: &[u8], visit: EntryVisitor<'_>) -> Result<(), StoreError> {
        let table = self.open_table()?;
        let entries = table
            .range(prefix..)
            .map_err(|error| self.to_store_error("read", error))?;
        for entry in entries {
            let (key, stored) = entry.map_err(|error| self.to_store_error("read", error))?;
            if !key.value().starts_with(prefix) || visit(key.value(), stored.value()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn size(&self) -> StoreSize {
        let disk_bytes = std::fs::metadata(&self.path).map_or(0, |found| found.len());
        StoreSize {
            disk_bytes,
            keys: 0,
        }
    }
}

/// Converts an error of redb to its meaning for the user.
fn convert_error(path: &Path, action: &'static str, error: redb::Error) -> StoreError {
    match error {
        redb::Error::DatabaseAlreadyOpen => StoreError::InUse {
            path: path.display().to_string(),
        },
        redb::Error::Io(source) if source.kind() == std::io::ErrorKind::InvalidData => {
            damaged_database(path, source.to_string())
        }
        redb::Error::Io(source) => io_error(path, action, source),
        other => damaged_database(path, other.to_string()),
    }
}

fn damaged_database(path: &Path, problem: String) -> StoreError {
    StoreError::Damaged {
        place: path.display().to_string(),
        problem,
    }
}
