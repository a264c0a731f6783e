//! Stamps: what files look like without being read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use cospan_domain::catalogue::file_state::FileStamp;

use super::open_beneath::DirectoryHandle;
use super::tree_walk::{DirectoryWalk, DirectoryWalkError, WalkStep, is_directory};

/// A directory with more entries is not looked through: that would take as long as reading it.
const ENTRIES_MAX: usize = 20_000;

/// Returns size, time of modification and inode of a file; for a directory the digest of
/// those of all that is in it.
pub(super) fn stamp_of(file: File) -> io::Result<Option<FileStamp>> {
    let meta = file.metadata()?;
    if !meta.is_dir() {
        return Ok(Some(stamp_line(&meta).into()));
    }
    match digest_tree_stamps(DirectoryHandle::from_file(file)) {
        Ok(digest) => Ok(Some(format!("tree {}", digest.to_hex()).into())),
        Err(DirectoryWalkError::Failed(error)) => Err(error),
        Err(
            DirectoryWalkError::TooDeep
            | DirectoryWalkError::TooMany(_)
            | DirectoryWalkError::TooLong,
        ) => Ok(None),
    }
}

fn stamp_line(meta: &Metadata) -> String {
    let seconds = meta.mtime();
    let nanoseconds = meta.mtime_nsec();
    format!(
        "size {} modified {seconds}.{nanoseconds:09} inode {}",
        meta.len(),
        meta.ino()
    )
}

fn digest_tree_stamps(top: DirectoryHandle) -> Result<blake3::Hash, DirectoryWalkError> {
    let mut hasher = blake3::Hasher::new();
    let mut walk = DirectoryWalk::new(top, ENTRIES_MAX)?;
    while let Some(step) = walk.next_step()? {
        match step {
            WalkStep::Found(name, stat) => {
                hasher.update(name.as_bytes());
                // None of these characters is in a name, or in what follows a name.
                let size = stat.st_size;
                let mode = stat.st_mode;
                let modified = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ino);
                hasher.update(format!("\0{size} {mode} {modified:?}\0").as_bytes());
                if is_directory(&stat) {
                    walk.enter_found(&name)?;
                }
            }
            WalkStep::Leaves => {
                hasher.update(b"/");
                walk.leave_current()?;
            }
        }
    }
    hasher.update(b"/");
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn stamp_at(path: &Path) -> FileStamp {
        stamp_of(File::open(path).unwrap()).unwrap().unwrap()
    }

    #[test]
    fn a_file_that_was_written_or_replaced_looks_different() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("mesh");
        fs::write(&file, "old").unwrap();
        let first = stamp_at(&file);
        assert_eq!(stamp_at(&file), first);
        // Of the same size, and as old as the other.
        let other = home.path().join("other");
        fs::write(&other, "new").unwrap();
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_modified(modified)
            .unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(stamp_at(&file), first);
        let second = stamp_at(&file);
        fs::write(&file, "longer").unwrap();
        assert_ne!(stamp_at(&file), second);
    }

    #[test]
    fn a_directory_looks_different_once_anything_in_it_does() {
        let home = tempfile::tempdir().unwrap();
        let deep = home.path().join("tree/deep");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("leaf"), "1").unwrap();
        let tree = home.path().join("tree");
        let first = stamp_at(&tree);
        assert_eq!(stamp_at(&tree), first);
        fs::write(deep.join("leaf"), "12").unwrap();
        let second = stamp_at(&tree);
        assert_ne!(second, first);
        fs::rename(deep.join("leaf"), deep.join("twig")).unwrap();
        assert_ne!(stamp_at(&tree), second);
    }
}
