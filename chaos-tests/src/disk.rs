//! Checks where data lies: a kill over memory proves nothing about a disk.

use std::path::Path;

use anyhow::{Context, Result, bail};

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;

/// Returns the name of a kind of file system, for reports.
pub fn kind_name(kind: i64) -> String {
    match kind {
        TMPFS => "tmpfs".into(),
        RAMFS => "ramfs".into(),
        0xef53 => "ext4".into(),
        0x9123_683e => "btrfs".into(),
        0x5846_5342 => "xfs".into(),
        0x794c_7630 => "overlayfs".into(),
        other => format!("type {other:#x}"),
    }
}

/// Refuses a file system in memory.
///
/// # Errors
/// It is in memory, with its kind in the message.
pub fn refuse_memory(kind: i64) -> Result<String> {
    let name = kind_name(kind);
    match kind {
        TMPFS | RAMFS => bail!("the directory lies in memory ({name}); name one on a disk"),
        _ => Ok(name),
    }
}

/// Returns the kind of file system under a directory.
///
/// # Errors
/// It cannot be asked, or lies in memory.
pub fn check_file_system(directory: &Path) -> Result<String> {
    let found = rustix::fs::statfs(directory).with_context(|| {
        format!(
            "cannot ask about the file system of {}",
            directory.display()
        )
    })?;
    refuse_memory(found.f_type as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_memory_is_refused_by_name() {
        let error = refuse_memory(TMPFS).unwrap_err().to_string();
        assert!(error.contains("tmpfs"), "{error}");
        assert_eq!(refuse_memory(0xef53).unwrap(), "ext4");
    }
}
