//! What files look like without being read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use cospan_domain::catalogue::state::Stamp;
use rustix::fs::FileType;

use super::beneath::{Dir, kind};

/// A directory with more in it is not looked through: that would take as long as reading it.
const ENTRIES_MAX: usize = 20_000;

/// Size, time of modification and number of a file; of a directory the digest of those of all
/// that is in it.
pub(super) fn of(file: File) -> io::Result<Option<Stamp>> {
    let meta = file.metadata()?;
    if !meta.is_dir() {
        return Ok(Some(line(&meta).into()));
    }
    let (mut hasher, mut left) = (blake3::Hasher::new(), ENTRIES_MAX);
    let whole = look_through(&Dir::from_file(file), &mut hasher, &mut left)?;
    Ok(whole.then(|| format!("tree {}", hasher.finalize().to_hex()).into()))
}

fn line(meta: &Metadata) -> String {
    let (seconds, nanoseconds) = (meta.mtime(), meta.mtime_nsec());
    format!("size {} modified {seconds}.{nanoseconds:09} inode {}", meta.len(), meta.ino())
}

/// `false` if there is too much.
fn look_through(dir: &Dir, hasher: &mut blake3::Hasher, left: &mut usize) -> io::Result<bool> {
    let mut names = dir.names()?;
    names.sort_unstable();
    for name in names {
        let Some(fewer) = left.checked_sub(1) else { return Ok(false) };
        *left = fewer;
        let stat = dir.stat(&name)?;
        hasher.update(name.as_bytes());
        // None of these is in a name, or in what follows a name.
        let (size, mode) = (stat.st_size, stat.st_mode);
        let modified = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ino);
        hasher.update(format!("\0{size} {mode} {modified:?}\0").as_bytes());
        if kind(&stat) == FileType::Directory && !look_through(&dir.dir(&name)?, hasher, left)? {
            return Ok(false);
        }
    }
    hasher.update(b"/");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn look(path: &Path) -> Stamp {
        of(File::open(path).unwrap()).unwrap().unwrap()
    }

    #[test]
    fn a_file_that_was_written_or_replaced_looks_different() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("mesh");
        fs::write(&file, "old").unwrap();
        let first = look(&file);
        assert_eq!(look(&file), first);
        // Of the same size, and as old as the other.
        let other = home.path().join("other");
        fs::write(&other, "new").unwrap();
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(look(&file), first);
        let second = look(&file);
        fs::write(&file, "longer").unwrap();
        assert_ne!(look(&file), second);
    }

    #[test]
    fn a_directory_looks_different_once_anything_in_it_does() {
        let home = tempfile::tempdir().unwrap();
        let deep = home.path().join("tree/deep");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("leaf"), "1").unwrap();
        let tree = home.path().join("tree");
        let first = look(&tree);
        assert_eq!(look(&tree), first);
        fs::write(deep.join("leaf"), "12").unwrap();
        let second = look(&tree);
        assert_ne!(second, first);
        fs::rename(deep.join("leaf"), deep.join("twig")).unwrap();
        assert_ne!(look(&tree), second);
    }
}
