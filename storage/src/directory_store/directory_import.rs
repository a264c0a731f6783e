//! Imports an export into a directory. The marker is written last: an import that broke off is not a
//! store.

use std::io::BufRead;
use std::path::Path;

use super::{FloorFile, LockedDirectory, StoreMarker, StoreOptions};
use crate::import::{ImportError, ImportOutcome, fill_engine};

/// Imports into `path`, which must be empty or not there.
///
/// # Errors
/// Fails if the directory is not empty or cannot be used, or if the export is cut short, changed,
/// or newer. The directory is empty again then.
pub fn import_store(
    path: &Path,
    options: &StoreOptions,
    input: &mut dyn BufRead,
) -> Result<ImportOutcome, ImportError> {
    let directory = LockedDirectory::create_and_lock(path, options.lock_wait)?;
    let floor = options.floor_file()?;
    if let Some(found) = directory.first_entry()? {
        return Err(ImportError::NotEmpty {
            path: directory.place_text(),
            found,
        });
    }
    let imported = fill_directory(&directory, floor, options, input);
    if imported.is_err() {
        directory.clear_entries(|_| true);
    }
    imported
}

fn fill_directory(
    directory: &LockedDirectory,
    floor: Option<FloorFile>,
    options: &StoreOptions,
    input: &mut dyn BufRead,
) -> Result<ImportOutcome, ImportError> {
    let before = floor.as_ref().and_then(|floor| floor.kept.as_ref());
    let lost = before.map(|kept| kept.instance);
    let given_out = before.map(|kept| kept.known.floor.next_job);
    let open_engine = || options.open_engine(directory);
    let filled = fill_engine(open_engine, given_out.unwrap_or_default(), input)?;
    if let Some(mut floor) = floor {
        let reached = filled.tally.to_floor(filled.epoch, filled.seq);
        floor.reset_floor(filled.instance, reached)?;
    }
    let mut marker = StoreMarker::new(options.engine, filled.instance, filled.epoch, filled.seq);
    marker.former.push(filled.exported_from);
    marker
        .former
        .extend(lost.filter(|lost| *lost != filled.exported_from));
    marker.write(directory)?;
    Ok(filled.outcome())
}
