//! Exports a store as a stream of lines: a header, a line for every value, and a last line with the
//! number of values and a checksum of everything before it.
//!
//! The export of a store in use shows one moment and does not stop its writer.

mod line;

use std::io::Write;
use std::ops::ControlFlow;

use cospan_domain::ids::{Epoch, InstanceId};
use thiserror::Error;

pub(crate) use line::{ExportEnd, ExportHeader, ExportLine, STREAM};

use crate::port::{Journal, OpenedStore, StoreError, StoredValue};

/// The result of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportOutcome {
    /// Values written.
    pub records: u64,
    /// Values left out because they are damaged.
    pub damaged: u64,
}

/// The reason why an export broke off.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum ExportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the export cannot be written: {0}; what there is of it is of no use")]
    Write(#[from] std::io::Error),
}

/// Exports an open store.
///
/// # Errors
/// Fails if the store cannot be read, a value is damaged, or `out` cannot be written.
pub fn export_store(
    opened: &OpenedStore,
    out: &mut dyn Write,
) -> Result<ExportOutcome, ExportError> {
    export_journal(&*opened.journal, opened.instance, opened.epoch, out)
}

/// Exports the content of a journal, as the store of this control plane.
///
/// # Errors
/// As for [`export_store`].
pub fn export_journal(
    journal: &dyn Journal,
    instance: InstanceId,
    epoch: Epoch,
    out: &mut dyn Write,
) -> Result<ExportOutcome, ExportError> {
    let mut writer = ExportWriter::write_header(out, instance, epoch)?;
    let mut failed = None;
    journal.scan(b"", &mut |stored| match writer.write_value(&stored) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    Ok(writer.write_end()?)
}

/// Exports what can be read of a store that does not open, without the damaged values. Work on a
/// copy: opening an engine may change its files.
///
/// # Errors
/// Fails if nothing can be read, or `out` cannot be written.
#[cfg(any(feature = "sled", feature = "redb"))]
pub fn export_damaged(
    path: &std::path::Path,
    out: &mut dyn Write,
) -> Result<ExportOutcome, ExportError> {
    let wreck = crate::check::UncheckedStore::open(path)?;
    let (instance, epoch) = wreck.instance_and_epoch();
    let mut writer = ExportWriter::write_header(out, instance, epoch)?;
    let mut failed = None;
    let walked = wreck.examine_values(&mut |found| {
        let written = match found {
            Ok(stored) => writer.write_value(&stored),
            Err(_) => {
                writer.exported.damaged += 1;
                Ok(())
            }
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    failed.map_or(Ok(()), Err)?;
    // The engine failed on the way: what came before is still worth keeping.
    writer.exported.damaged += u64::from(walked.is_err());
    Ok(writer.write_end()?)
}

/// Writes lines, and counts and hashes them.
struct ExportWriter<'a> {
    out: &'a mut dyn Write,
    hasher: blake3::Hasher,
    exported: ExportOutcome,
}

impl<'a> ExportWriter<'a> {
    fn write_header(
        out: &'a mut dyn Write,
        instance: InstanceId,
        epoch: Epoch,
    ) -> std::io::Result<Self> {
        let mut writer = Self {
            out,
            hasher: blake3::Hasher::new(),
            exported: ExportOutcome::default(),
        };
        writer.write_line(&ExportHeader {
            cospan_export: STREAM,
            format: crate::store_totals::FORMAT,
            instance: instance.to_string(),
            epoch: epoch.0,
        })?;
        Ok(writer)
    }

    fn write_value(&mut self, stored: &StoredValue) -> std::io::Result<()> {
        self.exported.records += 1;
        self.write_line(&ExportLine::from_stored(stored))
    }

    fn write_line(&mut self, line: &impl serde::Serialize) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.hasher.update(&bytes);
        self.out.write_all(&bytes)
    }

    fn write_end(mut self) -> std::io::Result<ExportOutcome> {
        let blake3 = self.hasher.finalize().to_hex().to_string();
        let exported = self.exported;
        self.write_line(&ExportEnd {
            end: exported.records,
            damaged: exported.damaged,
            blake3,
        })?;
        self.out.flush()?;
        Ok(exported)
    }
}
