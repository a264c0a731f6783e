//! What a file system promises: in memory nothing is durable.

use std::path::Path;

// The numbers by which the kernel tells them.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// The nearest directory above that exists: what is not made yet will lie on its file system.
pub(crate) fn existing(directory: &Path) -> &Path {
    // The last ancestor of a relative path is empty, and means where we are.
    let here = |above: &Path| above.as_os_str().is_empty();
    let mut all = directory
        .ancestors()
        .map(|above| if here(above) { Path::new(".") } else { above });
    all.find(|above| above.is_dir()).unwrap_or(Path::new("/"))
}

/// Whether what is or would be there goes with the power.
pub(crate) fn is_in_memory(place: &Path) -> bool {
    let kind = rustix::fs::statfs(existing(place)).map(|found| found.f_type);
    kind.is_ok_and(|kind| matches!(u64::try_from(kind), Ok(TMPFS | RAMFS)))
}
