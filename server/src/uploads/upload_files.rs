//! The files behind uploads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::UploadRecord;

/// The file with the bytes of an upload that have arrived.
pub(super) fn part_file(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{id}.part"))
}

/// Creates or opens that file.
pub(super) fn make_part(directory: &Path, id: &str) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(part_file(directory, id))
}

/// Opens that file for writing; an upload that was forgotten has none.
pub(super) fn open_part(directory: &Path, id: &str) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .open(part_file(directory, id))
}

/// Removes a file; it need not exist.
pub(super) fn remove_if_present(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Free bytes on the disk of the nearest directory that exists.
pub(super) fn free_bytes(directory: &Path) -> std::io::Result<u64> {
    let there = directory.ancestors().find(|above| above.exists());
    let disk = rustix::fs::statvfs(there.unwrap_or(Path::new("/")))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Reads the records of an earlier process. Unfinished files that it left when it was killed are
/// removed.
pub(super) fn find_records(directory: &Path) -> Vec<UploadRecord> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::error!(directory = %directory.display(), %error, "cannot read the uploads");
            }
            return Vec::new();
        }
    };
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let written = files
        .iter()
        .filter(|file| file.extension() == Some(OsStr::new("json")));
    let records: Vec<UploadRecord> = written
        .clone()
        .filter_map(|file: &PathBuf| match UploadRecord::load(file) {
            Ok(record) => Some(record),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "an upload is left alone");
                None
            }
        })
        .collect();
    // A part without a record, or of an upload that is over, belongs to nobody; that of a record
    // which cannot be read stays with it.
    let over: BTreeSet<&str> = records
        .iter()
        .filter(|record| !record.is_open())
        .map(|record| &*record.id)
        .collect();
    let known: BTreeSet<&OsStr> = written.filter_map(|file| file.file_stem()).collect();
    for file in files.iter().filter(
        |file: &&PathBuf| match (file.extension(), file.file_stem()) {
            (Some(end), Some(stem)) if end == "part" => {
                !known.contains(stem) || stem.to_str().is_some_and(|id| over.contains(id))
            }
            // An earlier version gave these names to unfinished files.
            (None, Some(stem)) => stem.to_string_lossy().starts_with(".tmp"),
            _ => file
                .file_name()
                .is_some_and(cospan_durable::is_temporary_name),
        },
    ) {
        if let Err(error) = remove_if_present(file) {
            tracing::warn!(file = %file.display(), %error, "cannot remove what is left of an upload");
        }
    }
    records
}
