//! Makes such trees.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many levels as end a thread of two megabytes that goes down by recursion.
pub(crate) const DEEP: usize = 10_000;

/// What a test holds that has the few descriptors of this process for itself.
pub(crate) struct FewDescriptors {
    _alone: MutexGuard<'static, ()>,
}

/// From now on this process may have few files open: tests that show it go one after the other.
#[must_use]
pub(crate) fn limit_descriptors() -> FewDescriptors {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let few = Rlimit {
        current: Some(128),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, few).unwrap();
    FewDescriptors { _alone: alone }
}

/// Makes a directory in an open one, and opens it.
pub(crate) fn below(parent: &OwnedFd, name: &str) -> OwnedFd {
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => panic!("{error}"),
    }
    openat(
        parent,
        name,
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .unwrap()
}

/// Makes so many directories, each in the one before, and opens the last one.
pub(crate) fn grow(top: &Path, levels: usize) -> OwnedFd {
    std::fs::create_dir_all(top).unwrap();
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        at = below(&at, "d");
    }
    at
}

/// Makes a file in an open directory.
pub(crate) fn leaf(at: &OwnedFd, name: &str) {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::RUSR | Mode::WUSR).unwrap();
}
