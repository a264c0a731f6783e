//! The tree below a site's root, held open for one call: what is found absent through it is absent
//! at the site, even if the root is renamed meanwhile.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use cospan_domain::ids::{AttemptTag, SiteName};
use cospan_domain::units::Timestamp;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::removal::{self, RemovalExtent};
use crate::wrapper::attempt_files::FoundStateFile;
use crate::wrapper::attempt_words::AttemptAuthenticator;

/// The directory of those that wrappers make, one per attempt.
pub(crate) const ATTEMPTS: &str = "attempts";
/// The directory of what the adapter prepares for wrappers, one directory per attempt.
pub(crate) const SPOOL: &str = "spool";
/// The directory with one file per attempt that uses resources.
pub(super) const LIVE: &str = "live";
/// The directory for what is being removed or is not in its place yet; nobody misses it.
pub(crate) const GONE: &str = "gone";

pub(crate) const OURS: [&str; 4] = [ATTEMPTS, SPOOL, LIVE, GONE];
/// The file that tells a site from a directory that happens to be in its place.
pub(crate) const MARKER: &str = "site-id";
/// State files are small but for `decision`, which names every component of a round.
const STATE_FILE_MAX: u64 = 4 << 20;

/// A site's root, known to be that site's.
#[derive(Debug)]
pub(crate) struct VerifiedSiteRoot {
    directory: OwnedFd,
    path: PathBuf,
    seal: AttemptAuthenticator,
}

/// The content of a file, and the time when it was written.
#[derive(Debug)]
pub(super) struct DatedContent {
    pub(super) bytes: Vec<u8>,
    pub(super) modified: Timestamp,
}

impl VerifiedSiteRoot {
    /// Opens the root of a site. An error says that the site was not reached.
    pub(crate) fn open(path: &Path, site: &SiteName) -> io::Result<Self> {
        let root = Self::open_unchecked(path)?;
        let marker = root.read_file(MARKER)?.ok_or_else(|| {
            let why = format!("it has no {MARKER}; a new site's directory must be initialised");
            io::Error::new(io::ErrorKind::NotFound, why)
        })?;
        if marker.bytes != marker_text(site) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                describe_wrong_marker(&marker, site),
            ));
        }
        // Without this directory every attempt would look absent.
        if !root.exists(ATTEMPTS)? {
            let why = format!("it has no directory {ATTEMPTS}");
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(root)
    }

    fn open_unchecked(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::openat(CWD, path, dir_flags(), Mode::empty())?;
        Ok(Self {
            directory,
            path: path.to_path_buf(),
            seal: AttemptAuthenticator::without_words(),
        })
    }

    /// Makes a directory a site's root, after [`crate::root_place::check_root_place`] found that it may
    /// be. Existing files are left as they are. The marker comes last, so that half a site is none,
    /// and then all of it is durable: nothing else is made again when the site is not new any more.
    pub(super) fn initialise_root(path: &Path, site: &SiteName) -> io::Result<()> {
        cospan_durable::make_directory(path)?;
        let root = Self::open_unchecked(path)?;
        OURS.iter()
            .try_for_each(|name| root.make_dir(name).map(drop))?;
        cospan_durable::sync_directory_handle(&root.directory)?;
        match root.read_file(MARKER)? {
            Some(marker) if marker.bytes == marker_text(site) => Ok(()),
            Some(marker) if !is_cut_off_marker(&marker.bytes, site) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("its {MARKER} names another site; give each site its own directory"),
            )),
            _ => root.replace_durably(MARKER, &marker_text(site)),
        }
    }

    /// Writes the marker again if a power cut left only its beginning, or zeros, in a directory
    /// that has all that a site's has.
    pub(super) fn mend_marker(path: &Path, site: &SiteName) -> io::Result<bool> {
        let root = Self::open_unchecked(path)?;
        let marker = root.read_file(MARKER)?;
        let is_cut_off = marker.is_some_and(|marker| is_cut_off_marker(&marker.bytes, site));
        if !is_cut_off || OURS.iter().any(|name| !root.exists(name).unwrap_or(false)) {
            return Ok(false);
        }
        root.replace_durably(MARKER, &marker_text(site))
            .map(|()| true)
    }

    /// Sets the seal that wrappers and adapters write by.
    pub(super) fn with_authenticator(self, seal: &AttemptAuthenticator) -> Self {
        Self {
            seal: seal.clone(),
            ..self
        }
    }

    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn authenticator(&self) -> &AttemptAuthenticator {
        &self.seal
    }

    /// Returns the directory of attempts, as their processes name it.
    pub(super) fn attempts_directory(&self) -> PathBuf {
        self.path.join(ATTEMPTS)
    }

    /// Returns true if a file has this content, and nothing else is in its place.
    pub(super) fn has_file_content(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        Ok(self
            .read_file(name)?
            .is_some_and(|file| file.bytes == content))
    }

    /// Returns true if there is something at a path.
    pub(super) fn exists(&self, path: &str) -> io::Result<bool> {
        Ok(self.modified_at(path)?.is_some())
    }

    /// Returns when what is at a path was changed, if there is something.
    pub(super) fn modified_at(&self, path: &str) -> io::Result<Option<Timestamp>> {
        match rustix::fs::statat(&self.directory, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(modified_time(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a state file, if it is there.
    pub(super) fn read_file(&self, path: &str) -> io::Result<Option<DatedContent>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = match rustix::fs::openat(&self.directory, path, flags, Mode::empty()) {
            Ok(fd) => fd.into(),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::ISDIR.into());
        }
        let modified = modified_time(&stat);
        let mut bytes = Vec::new();
        file.take(STATE_FILE_MAX).read_to_end(&mut bytes)?;
        Ok(Some(DatedContent { bytes, modified }))
    }

    /// Reads a state file of an attempt, if there is something under its name.
    pub(super) fn read_state(&self, path: &str) -> io::Result<Option<FoundStateFile<'static>>> {
        match self.read_file(path) {
            Ok(found) => {
                Ok(found.map(|found| FoundStateFile::File(found.bytes.into(), found.modified)))
            }
            Err(error) if is_spoiled_error(&error) => Ok(Some(FoundStateFile::Spoiled)),
            Err(error) => Err(error),
        }
    }

    /// Opens a file to read and write; makes it if it is missing.
    pub(super) fn open_or_make(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = flags | OFlags::NONBLOCK;
        let file: File = rustix::fs::openat(&self.directory, path, flags, private_mode())?.into();
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other(format!("{path} is no file")))
        }
    }

    /// Returns device and inode of the file at a path, if there is one.
    pub(super) fn file_identity(&self, path: &str) -> io::Result<Option<(u64, u64)>> {
        match rustix::fs::statat(&self.directory, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the trees in [`GONE`] that a process left when it died; nobody may be removing
    /// anything. Files are removed at once: others of their names are written soon.
    pub(super) fn list_unremoved_trees(&self) -> io::Result<(OwnedFd, Vec<CString>)> {
        let gone = self.open_removal_directory()?;
        let mut trees = Vec::new();
        for entry in Dir::read_from(&gone)? {
            let name = entry?.file_name().to_owned();
            if name == c"." || name == c".." {
                continue;
            }
            // That something is no file, or cannot be removed now, is no reason not to begin.
            if rustix::fs::unlinkat(&gone, &name, AtFlags::empty()).is_err() {
                trees.push(name);
            }
        }
        Ok((gone, trees))
    }

    /// Returns true if something else is in the place of a file.
    pub(crate) fn is_spoiled_file(&self, path: &str) -> bool {
        let found = rustix::fs::statat(&self.directory, path, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) != FileType::RegularFile)
    }

    /// Opens a file for appending; makes it if it is missing.
    pub(super) fn open_to_append(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.directory, path, flags, private_mode())?.into())
    }

    /// Writes a whole file.
    pub(super) fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let mut file: File =
            rustix::fs::openat(&self.directory, path, flags, private_mode())?.into();
        file.write_all(bytes)
    }

    /// Replaces a file as a whole: readers see the old or the new one.
    pub(super) fn replace_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let aside = format!("{GONE}/{}.tmp", unique_word());
        self.write_file(&aside, bytes)?;
        Ok(rustix::fs::renameat(
            &self.directory,
            &aside[..],
            &self.directory,
            path,
        )?)
    }

    /// Does the same for a file in the root itself, and makes it survive a power cut.
    pub(super) fn replace_durably(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let aside = format!("{GONE}/{}.tmp", unique_word());
        cospan_durable::replace_file_at(&self.directory, &aside, name, bytes)
    }

    /// Gives a file a second name; `false` if the name is taken.
    pub(super) fn link_file(&self, from: &str, to: &str) -> io::Result<bool> {
        match rustix::fs::linkat(&self.directory, from, &self.directory, to, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a private directory; `false` if the name is taken.
    pub(super) fn make_dir(&self, path: &str) -> io::Result<bool> {
        match rustix::fs::mkdirat(&self.directory, path, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file; a missing one is no error.
    pub(super) fn remove_file(&self, path: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.directory, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves what is at a path away; `false` if there is nothing.
    pub(super) fn move_away(&self, from: &str, to: &str) -> io::Result<bool> {
        match rustix::fs::renameat(&self.directory, from, &self.directory, to) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves what is at a path aside, to be removed there; `false` if nothing is there. A payload
    /// may have taken away the rights to a directory of its own.
    pub(super) fn set_aside(&self, path: &str, aside: &str) -> io::Result<bool> {
        match self.move_away(path, &format!("{GONE}/{aside}")) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                removal::grant_owner_rights(self.directory.as_fd(), &CString::new(path)?)?;
                self.move_away(path, &format!("{GONE}/{aside}"))
            }
            moved => moved,
        }
    }

    /// Removes about `most` of the files that were set aside.
    pub(super) fn remove_set_aside(&self, aside: &str, most: u64) -> io::Result<RemovalExtent> {
        let aside = CString::new(format!("{GONE}/{aside}"))?;
        removal::remove_name(self.directory.as_fd(), &aside, most)
    }

    /// Opens the directory of what is being removed.
    pub(super) fn open_removal_directory(&self) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(
            &self.directory,
            GONE,
            dir_flags(),
            Mode::empty(),
        )?)
    }

    /// Lists the tags among the names of a directory.
    pub(super) fn list_tags(&self, directory: &str) -> io::Result<Vec<AttemptTag>> {
        let open = rustix::fs::openat(&self.directory, directory, dir_flags(), Mode::empty())?;
        let mut tags = Vec::new();
        for entry in Dir::new(open)? {
            let entry = entry?;
            if entry.file_type() != FileType::Symlink
                && let Some(tag) = entry.file_name().to_str().ok().and_then(|n| n.parse().ok())
            {
                tags.push(tag);
            }
        }
        Ok(tags)
    }
}

/// Makes a word that no other call of this or another control plane uses.
pub(crate) fn unique_word() -> String {
    static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let call = CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("{}-{call}", std::process::id())
}

pub(crate) fn marker_text(site: &SiteName) -> Vec<u8> {
    format!("cospan site {site}\n").into_bytes()
}

/// Returns true if this is what a power cut leaves of the marker of a site: nothing, its beginning,
/// or zeros in its place. The complete marker of another site is none of these.
pub(crate) fn is_cut_off_marker(marker: &[u8], site: &SiteName) -> bool {
    let whole = marker_text(site);
    let written = marker.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_zeros = marker[written.len()..].iter().all(|byte| *byte == 0);
    marker != whole && is_zeros && marker.len() <= whole.len() && whole.starts_with(written)
}

/// Says what is wrong with a marker that is not the site's.
fn describe_wrong_marker(marker: &DatedContent, site: &SiteName) -> String {
    if !is_cut_off_marker(&marker.bytes, site) {
        return format!("its {MARKER} names another site");
    }
    format!(
        "its {MARKER} is cut off, as after a power cut; if this is the directory of site {site}, \
         start the server again, which mends it"
    )
}

fn modified_time(stat: &rustix::fs::Stat) -> Timestamp {
    let seconds = stat.st_mtime;
    let nanoseconds = stat.st_mtime_nsec;
    let seconds = u64::try_from(seconds).unwrap_or(0);
    Timestamp(
        seconds
            .saturating_mul(1000)
            .saturating_add(nanoseconds / 1_000_000),
    )
}

/// Returns true if an error says that a name is there, but not as any wrapper made it. Other errors
/// may be the file system's, and pass.
fn is_spoiled_error(error: &io::Error) -> bool {
    let spoiled = [
        Errno::ISDIR,
        Errno::LOOP,
        Errno::ACCESS,
        Errno::NOTDIR,
        Errno::NXIO,
    ];
    Errno::from_io_error(error).is_some_and(|errno| spoiled.contains(&errno))
}

fn private_mode() -> Mode {
    Mode::RUSR | Mode::WUSR
}

fn dir_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}
