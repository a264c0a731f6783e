//! Makes a store from an export, as that of another control plane.
//!
//! The new store draws a new instance: what the exporting one does from now on is foreign, but the
//! attempts in the export are taken over under their old tags. The epoch is above the exported one.

use std::io::BufRead;

use cospan_domain::ids::{Epoch, InstanceId, JobId, Seq};
use thiserror::Error;

use crate::directory_store::draw_instance;
pub use crate::directory_store::import_store;
use crate::engine_port::{StorageEngine, StoreWrites};
use crate::envelope;
use crate::export::{ExportEnd, ExportHeader, ExportLine, STREAM};
use crate::port::{JournalUnit, KeyChange, KeyVersion, StoreError, StoreKey, StoredValue};
use crate::record::adoption::RecordAdopter;
use crate::record::{keys, small_records};
use crate::store_floor::StoreJobCounts;
use crate::store_totals::{FORMAT, RESERVED_PREFIX, StoreChecksum, StoreOwner};
use crate::take_over;

/// Number of bytes that are written together.
const BATCH_BYTES: usize = 4 << 20;

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportOutcome {
    /// The control plane that the new store belongs to.
    pub instance: InstanceId,
    /// The control plane that the export came from.
    pub exported_from: InstanceId,
    /// Epoch of the store; opening it takes a higher one.
    pub epoch: Epoch,
    /// Number of values.
    pub records: u64,
    /// Values that the export had to leave out, because they were damaged.
    pub damaged: u64,
}

/// The reason why nothing was imported.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum ImportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{path} is not empty (there is {found}); import into a new directory")]
    NotEmpty { path: String, found: String },
    #[error("line {line} of the export {problem}; export again")]
    Line { line: u64, problem: String },
    #[error(
        "the export was written by a newer version (stream {stream}, format {format}); import it with that version"
    )]
    Newer { stream: u32, format: u32 },
    #[error("the export cannot be read: {0}")]
    Read(#[from] std::io::Error),
}

/// A store that was filled from an export, and whose engine is closed again.
pub(crate) struct FilledStore {
    pub(crate) instance: InstanceId,
    pub(crate) exported_from: InstanceId,
    pub(crate) epoch: Epoch,
    pub(crate) seq: Seq,
    pub(crate) tally: StoreJobCounts,
    records: u64,
    damaged: u64,
}

impl FilledStore {
    pub(crate) fn outcome(&self) -> ImportOutcome {
        ImportOutcome {
            instance: self.instance,
            exported_from: self.exported_from,
            epoch: self.epoch,
            records: self.records,
            damaged: self.damaged,
        }
    }
}

/// Fills an engine, which is opened once the export has begun well. `given_out`: an earlier store
/// in its place may have given out the job ids below.
pub(crate) fn fill_engine(
    open_engine: impl FnOnce() -> Result<Box<dyn StorageEngine>, StoreError>,
    given_out: JobId,
    input: &mut dyn BufRead,
) -> Result<FilledStore, ImportError> {
    let instance = draw_instance()?;
    let mut lines = ImportLineReader {
        input,
        hasher: blake3::Hasher::new(),
        number: 0,
    };
    let header = lines.read_header()?;
    let exported_from: InstanceId = header
        .instance
        .parse()
        .map_err(|error| lines.line_error(error))?;
    let mut engine = open_engine()?;
    let mut batch = ImportBatch::default();
    let mut adoption = RecordAdopter::new(exported_from);
    let end = loop {
        match lines.read_content()? {
            ImportLine::Record(stored) if *stored.key.0 == *keys::NEXT_JOB.as_bytes() => {
                batch
                    .tally
                    .note_next_job(&stored.key.0, stored.version, &stored.value);
            }
            ImportLine::Record(stored) => {
                batch.add_values(adoption.take_value(stored), &mut engine)?
            }
            ImportLine::End(end) => break end,
        }
    };
    batch.add_values(adoption.take_rest(), &mut engine)?;
    batch.add_next_job(given_out, &mut engine)?;
    batch.write_batch(&mut engine)?;
    let epoch = Epoch(header.epoch.saturating_add(1));
    take_over::write_new_store(
        &mut engine,
        StoreOwner { instance, epoch },
        batch.ledger,
        StoreWrites::new(),
    )?;
    Ok(FilledStore {
        instance,
        exported_from,
        epoch,
        seq: batch.ledger.seq,
        tally: batch.tally,
        records: batch.records,
        damaged: end.damaged,
    })
}

/// Values that are about to be written.
#[derive(Default)]
struct ImportBatch {
    writes: StoreWrites,
    bytes: usize,
    ledger: StoreChecksum,
    records: u64,
    tally: StoreJobCounts,
}

impl ImportBatch {
    /// Writes the first job id that was never given out.
    fn add_next_job(
        &mut self,
        at_least: JobId,
        engine: &mut Box<dyn StorageEngine>,
    ) -> Result<(), StoreError> {
        let next = self.tally.next_job.max(at_least);
        if next == JobId::default() {
            return Ok(());
        }
        self.tally.next_job = next;
        let value = small_records::next_job_value(next)?;
        self.add_value(
            StoredValue {
                key: StoreKey::from(keys::NEXT_JOB),
                version: KeyVersion(1),
                value,
            },
            engine,
        )
    }

    fn add_values(
        &mut self,
        values: Vec<StoredValue>,
        engine: &mut Box<dyn StorageEngine>,
    ) -> Result<(), StoreError> {
        values
            .into_iter()
            .try_for_each(|stored| self.add_value(stored, engine))
    }

    fn add_value(
        &mut self,
        stored: StoredValue,
        engine: &mut Box<dyn StorageEngine>,
    ) -> Result<(), StoreError> {
        let (head, bytes) = envelope::seal_value(&stored.key.0, stored.version, &stored.value);
        self.ledger.add(&stored.key.0, head);
        self.tally.count_key(&stored.key.0, false, true);
        self.records += 1;
        self.ledger.seq = Seq(self.records);
        self.bytes += bytes.len();
        self.writes.push((stored.key, Some(bytes)));
        if self.bytes >= BATCH_BYTES {
            self.write_batch(engine)
        } else {
            Ok(())
        }
    }

    fn write_batch(&mut self, engine: &mut Box<dyn StorageEngine>) -> Result<(), StoreError> {
        self.bytes = 0;
        take_over::commit_writes(engine, std::mem::take(&mut self.writes))
    }
}

/// A line after the header.
enum ImportLine {
    Record(StoredValue),
    End(ExportEnd),
}

struct ImportLineReader<'a> {
    input: &'a mut dyn BufRead,
    hasher: blake3::Hasher,
    number: u64,
}

impl ImportLineReader<'_> {
    fn line_error(&self, problem: impl std::fmt::Display) -> ImportError {
        ImportError::Line {
            line: self.number,
            problem: format!("is wrong: {problem}"),
        }
    }

    fn read_line(&mut self) -> Result<Vec<u8>, ImportError> {
        let mut line = Vec::new();
        self.number += 1;
        self.input.read_until(b'\n', &mut line)?;
        match line.last() {
            Some(b'\n') => Ok(line),
            _ => Err(ImportError::Line {
                line: self.number,
                problem: "is cut short".into(),
            }),
        }
    }

    fn read_header(&mut self) -> Result<ExportHeader, ImportError> {
        let line = self.read_line()?;
        let header: ExportHeader = serde_json::from_slice(&line)
            .map_err(|_| self.line_error("this is not an export of a store"))?;
        if header.cospan_export > STREAM || header.format > FORMAT {
            let stream = header.cospan_export;
            let format = header.format;
            return Err(ImportError::Newer { stream, format });
        }
        self.hasher.update(&line);
        Ok(header)
    }

    fn read_content(&mut self) -> Result<ImportLine, ImportError> {
        let line = self.read_line()?;
        if line.starts_with(b"{\"end\"") {
            return self.check_end(&line).map(ImportLine::End);
        }
        self.hasher.update(&line);
        let parsed: ExportLine =
            serde_json::from_slice(&line).map_err(|error| self.line_error(error))?;
        let stored = parsed
            .decode()
            .map_err(|problem| self.line_error(problem))?;
        self.check_value(&stored)?;
        Ok(ImportLine::Record(stored))
    }

    /// Refuses values that no unit could have written.
    fn check_value(&self, stored: &StoredValue) -> Result<(), ImportError> {
        let key: &StoreKey = &stored.key;
        if stored.version.0 == 0 || key.0.starts_with(RESERVED_PREFIX) {
            return Err(self.line_error("no store has such a value"));
        }
        let value = Some(stored.value.clone());
        let change = KeyChange {
            key: key.clone(),
            expected: None,
            value,
        };
        JournalUnit {
            changes: vec![change],
        }
        .check_bounds()
        .map_err(|error| self.line_error(error))
    }

    fn check_end(&self, line: &[u8]) -> Result<ExportEnd, ImportError> {
        let end: ExportEnd =
            serde_json::from_slice(line).map_err(|error| self.line_error(error))?;
        // The header and this line are no values.
        if end.end != self.number - 2 || end.blake3 != self.hasher.finalize().to_hex().as_str() {
            return Err(self.line_error("its checksum does not fit what came before"));
        }
        Ok(end)
    }
}
