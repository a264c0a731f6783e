//! Properties of file systems: in memory nothing is durable.

use std::path::Path;

// The magic numbers of the kernel's file systems.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// Returns the nearest existing directory above: a directory that does not exist yet will be on the
/// same file system.
pub fn existing_ancestor(directory: &Path) -> &Path {
    // The last ancestor of a relative path is empty, and means the current directory.
    let mut all = directory.ancestors().map(|above| {
        if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        }
    });
    all.find(|above| above.is_dir()).unwrap_or(Path::new("/"))
}

/// Returns true if files there do not survive a power cut.
pub fn is_in_memory(place: &Path) -> bool {
    let kind = rustix::fs::statfs(existing_ancestor(place)).map(|found| found.f_type);
    kind.is_ok_and(|kind| matches!(u64::try_from(kind), Ok(TMPFS | RAMFS)))
}
