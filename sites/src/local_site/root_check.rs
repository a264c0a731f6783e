//! Checks that all our files and directories in a root are in order. It looks at names alone:
//! opening what somebody put there could wait for ever.

use std::io;

use rustix::fs::{Access, AtFlags, FileType, statat};
use rustix::io::Errno;

use super::attempt_root::{ATTEMPTS, MARKER, OURS, SPOOL, VerifiedSiteRoot};
use super::local_reservations::LEASES;
use super::root_owner::OWNER;
use crate::files::file_root::OURS as FILES;
use crate::root_place::describe_file_kind;
use crate::wrapper::wrapper_script_name;

/// The least free space in bytes: an attempt needs some files before its payload writes any.
pub(crate) const ROOM_MIN: u64 = 1 << 20;

impl VerifiedSiteRoot {
    /// Returns what is not in order, and what to do; `None` if all is.
    ///
    /// # Errors
    /// The root could not be looked at.
    pub(super) fn find_disorder(&self) -> io::Result<Option<String>> {
        for name in OURS.iter().chain(&FILES) {
            // Without its attempts it is not the site, which is found out when it is opened.
            let must_be = OURS.contains(name) && *name != ATTEMPTS;
            if let Some(found) = self.describe_entry_fault(name, FileType::Directory, must_be)? {
                return Ok(Some(found));
            }
        }
        let script = wrapper_script_name();
        for name in [MARKER, OWNER, LEASES, &script] {
            if let Some(found) = self.describe_entry_fault(name, FileType::RegularFile, false)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn describe_entry_fault(
        &self,
        name: &str,
        wanted: FileType,
        must_be: bool,
    ) -> io::Result<Option<String>> {
        let place = self.path().join(name);
        let place = place.display();
        let is_directory = wanted == FileType::Directory;
        let found = match statat(self.directory(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) if !must_be => return Ok(None),
            Err(Errno::NOENT) => {
                return Ok(Some(format!(
                    "the directory {place} is missing; put it back, or make it: mkdir -m 700 {place}"
                )));
            }
            found => found?,
        };
        if FileType::from_raw_mode(found.st_mode) != wanted {
            let kind = describe_file_kind(found.st_mode);
            let ours = if is_directory {
                "the directory"
            } else {
                "the file"
            };
            return Ok(Some(format!(
                "{place} is {kind}; move it away, and put back {ours} that was there"
            )));
        }
        let rights = Access::READ_OK | Access::WRITE_OK;
        let rights = if is_directory {
            rights | Access::EXEC_OK
        } else {
            rights
        };
        match self.check_access(name, rights) {
            Err(Errno::ACCESS) => Ok(Some(format!(
                "{place} cannot be read and written by the account of the server (mode {:03o}, \
                 user {}); give its rights back",
                found.st_mode & 0o7777,
                found.st_uid
            ))),
            _ => Ok(None),
        }
    }

    fn check_access(&self, name: &str, rights: Access) -> Result<(), Errno> {
        rustix::fs::accessat(self.directory(), name, rights, AtFlags::EACCESS)
    }

    /// Returns why nothing can be begun there, although what goes on there can be seen.
    pub(super) fn find_hindrance(&self) -> Option<String> {
        let place = self.path().display();
        if self.check_access(SPOOL, Access::WRITE_OK) == Err(Errno::ROFS) {
            return Some(format!(
                "the file system of {place} can only be read; mount it anew"
            ));
        }
        let space = rustix::fs::fstatvfs(self.directory()).ok()?;
        let is_root = rustix::process::geteuid().is_root();
        let (blocks, files) = if is_root {
            (space.f_bfree, space.f_ffree)
        } else {
            (space.f_bavail, space.f_favail)
        };
        // Some file systems do not count.
        if space.f_blocks > 0 && blocks.saturating_mul(space.f_frsize) < ROOM_MIN {
            return Some(format!("the disk of {place} is full; make room there"));
        }
        (space.f_files > 0 && files == 0)
            .then(|| format!("the disk of {place} has room for no more files; remove some there"))
    }
}
