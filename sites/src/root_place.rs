//! Checks which directory may become the root of a site. A root is empty, or bears our mark; it is
//! nothing that the machine or its users depend on, and nobody else can put another in its place.
//! Nothing that is there is changed to make it one.
//!
//! Sites that only an agent reaches follow the same rules, which the agent has in its own script.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use cospan_domain::ids::SiteName;
use rustix::fs::{Access, AtFlags, CWD, FileType, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use thiserror::Error;

use crate::files::file_root::{FILES, OURS as COPIES};
use crate::local_site::attempt_root::{
    GONE, MARKER, OURS as ATTEMPTS, is_cut_off_marker, marker_text,
};
use crate::local_site::root_owner::{OWNER, RootOwner};

/// Directories of the system, and those in which others have theirs. Directories below them
/// belong to whoever has them.
const TOPS: [&str; 29] = [
    "/",
    "/boot",
    "/home",
    "/lost+found",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/run/lock",
    "/run/shm",
    "/run/user",
    "/dev/shm",
    "/srv",
    "/tmp",
    "/usr/local",
    "/var",
    "/var/backups",
    "/var/cache",
    "/var/lib",
    "/var/local",
    "/var/lock",
    "/var/log",
    "/var/mail",
    "/var/opt",
    "/var/run",
    "/var/spool",
    "/var/tmp",
    "/var/www",
];
/// Directories of the system in which nobody has anything, but for those above.
const WHOLE: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin",
    "/sys", "/usr",
];
/// The mark of any site begins with this.
const MARK_BEGINNING: &[u8] = b"cospan site ";
const STICKY: u32 = 0o1000;
const BY_GROUP: u32 = 0o020;
const BY_OTHERS: u32 = 0o002;
const ROOT: u32 = 0;
/// The user id that the kernel shows for users that the container does not know; nobody logs in as
/// it.
const UNMAPPED: u32 = 65_534;

/// The reason why a directory is not made the root of a site: what was found, and what to do.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum UnfitRootError {
    #[error("it is {found}; give the site a directory of its own, like {}", example.display())]
    NotOurs { found: String, example: PathBuf },
    #[error("it is reached by {found}; name the directory itself: {}", real.display())]
    Detour { found: String, real: PathBuf },
    #[error(
        "it belongs to user {owner}, not to user {us} who runs this; name one that is not there yet"
    )]
    Foreign { owner: u32, us: u32 },
    #[error(
        "it has no {MARKER}, and it is not empty: it holds {held}; name a directory that is empty \
         or not there yet"
    )]
    Occupied { held: String },
    #[error(
        "others can write to it (mode {mode:03o}); look at what is in it, and then run: chmod 700 {}",
        path.display()
    )]
    Loose { path: PathBuf, mode: u32 },
    #[error(
        "others can put another directory in its place: {} can be changed by others (mode \
         {mode:03o}, not sticky); name one below a directory of your own",
        above.display()
    )]
    Above { above: PathBuf, mode: u32 },
    #[error(
        "others can put another directory in its place: {} belongs to user {owner}, not to root or \
         to user {us} who runs this; name one below a directory of your own",
        above.display()
    )]
    AboveForeign { above: PathBuf, owner: u32, us: u32 },
    #[error(
        "user {us}, who runs this, cannot write to {} (mode {mode:03o}, user {owner}); give back \
         the right to read, write and enter it, or name another directory",
        place.display()
    )]
    Closed {
        place: PathBuf,
        mode: u32,
        owner: u32,
        us: u32,
    },
    #[error(
        "the file system of {} can only be read; mount it anew, or name another directory",
        place.display()
    )]
    ReadOnly { place: PathBuf },
    #[error("its {MARKER} names another site; give each site its own directory")]
    OfAnother,
    #[error("it lies inside the root of another site, {}; give each site its own directory",
        other.display())]
    Within { other: PathBuf },
    #[error(
        "{} cannot be looked at: {source}; let the user who runs this enter the directories above \
         it, or name another directory",
        path.display()
    )]
    Unseen { path: PathBuf, source: io::Error },
}

/// The state of a place that may become a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootPlaceState {
    /// Nothing is there, or only what we began to make.
    Free,
    /// It bears the site's mark.
    Ours,
}

/// Checks that a directory of this machine may be the root of a site. Changes nothing. One that
/// bears the site's mark may go on, wherever it is.
///
/// # Errors
/// It may not: what was found, and what to do.
pub fn check_root_place(path: &Path, site: &SiteName) -> Result<RootPlaceState, UnfitRootError> {
    if bears_mark(path, site)? {
        return Ok(RootPlaceState::Ours);
    }
    let real = path_without_detours(path)?;
    check_not_system_path(&real)?;
    for above in real.ancestors().skip(1) {
        check_ancestor(&real, above)?;
    }
    if let Some(found) = metadata_of(&real)? {
        check_owner(&real, &found)?;
        check_access(&real, &found)?;
        check_contents(&real, site)?;
        check_rights(&real, &found)?;
    } else {
        check_can_be_made(&real)?;
    }
    Ok(RootPlaceState::Free)
}

/// Resolves a path of which some part exists: the missing part is still to be made.
pub fn resolve_existing(path: &Path) -> PathBuf {
    let found = path
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, mut real)) = found else {
        return path.to_owned();
    };
    for part in path.strip_prefix(above).unwrap_or(path).components() {
        match part {
            Component::ParentDir => {
                real.pop();
            }
            part => real.push(part),
        }
    }
    real
}

/// Checks by the path alone that it does not name a directory that no site can have.
///
/// # Errors
/// The directory is the system's.
pub fn check_root_path(path: &Path) -> Result<(), UnfitRootError> {
    let is_top = is_among_paths(path, &TOPS);
    let is_below = WHOLE.iter().any(|one| path.starts_with(one));
    let is_kept = ["/dev/shm", "/usr/local"]
        .iter()
        .any(|one| path.starts_with(one));
    if is_top || is_below && !is_kept {
        let found = if path == Path::new("/") {
            "the root directory of the machine".to_owned()
        } else {
            format!("{}, a directory of the system", path.display())
        };
        let example = if is_top && !is_among_paths(path, &["/", "/boot", "/lost+found"]) {
            path.join("cospan")
        } else {
            PathBuf::from("/var/tmp/cospan")
        };
        return Err(UnfitRootError::NotOurs { found, example });
    }
    Ok(())
}

fn is_among_paths(path: &Path, all: &[&str]) -> bool {
    all.iter().any(|one| path == Path::new(one))
}

fn bears_mark(path: &Path, site: &SiteName) -> Result<bool, UnfitRootError> {
    match read_mark(path) {
        // The mark was cut off by a loss of power: then the rest must be ours.
        None => Ok(false),
        Some(mark) if is_cut_off_marker(&mark, site) => Ok(false),
        Some(mark) if mark == marker_text(site) => Ok(true),
        Some(_) => Err(UnfitRootError::OfAnother),
    }
}

/// Reads the mark of a directory.
fn read_mark(path: &Path) -> Option<Vec<u8>> {
    read_small_file(&path.join(MARKER))
}

/// Reads the beginning of a file. Never waits for a writer.
fn read_small_file(file: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    if !std::fs::symlink_metadata(file).ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    std::fs::File::open(file)
        .ok()?
        .take(1 << 10)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

/// Returns the path, if it leads nowhere else than it says.
fn path_without_detours(path: &Path) -> Result<PathBuf, UnfitRootError> {
    let plain: PathBuf = path.components().collect();
    let is_detour = plain.components().any(|part| part == Component::ParentDir);
    if is_detour {
        return Err(UnfitRootError::Detour {
            found: "way of \"..\"".to_owned(),
            real: resolve_existing(&plain),
        });
    }
    let mut at: Vec<&Path> = plain.ancestors().collect();
    at.reverse();
    for above in at {
        let Some(found) = metadata_of(above)? else {
            break;
        };
        if found.is_symlink() {
            let to = std::fs::read_link(above).map_err(to_unseen_error(above))?;
            let found = format!("a symbolic link, {} -> {}", above.display(), to.display());
            return Err(UnfitRootError::Detour {
                found,
                real: resolve_existing(&plain),
            });
        }
        if !found.is_dir() && above != plain {
            let found = format!(
                "below {}, which is {}",
                above.display(),
                describe_file_kind(found.mode())
            );
            return Err(UnfitRootError::NotOurs {
                found,
                example: suggested_path(above),
            });
        }
    }
    Ok(plain)
}

/// Refuses what people and the machine depend on.
fn check_not_system_path(path: &Path) -> Result<(), UnfitRootError> {
    check_root_path(path)?;
    let home = list_homes().into_iter().find(|home| home.starts_with(path));
    if let Some(home) = home {
        let (found, example) = if home == path {
            ("a home directory".to_owned(), home.join("cospan"))
        } else {
            (
                format!("above the home directory {}", home.display()),
                PathBuf::from("/var/tmp/cospan"),
            )
        };
        return Err(UnfitRootError::NotOurs { found, example });
    }
    if is_mount_point(path) {
        let found = "the mount point of a file system".to_owned();
        Err(UnfitRootError::NotOurs {
            found,
            example: path.join("cospan"),
        })
    } else {
        Ok(())
    }
}

/// Lists the homes of all users that this machine lists, and ours.
fn list_homes() -> Vec<PathBuf> {
    let listed = std::fs::read("/etc/passwd").unwrap_or_default();
    let listed = listed.split(|byte| *byte == b'\n').filter_map(|line| {
        let home = line.split(|byte| *byte == b':').nth(5)?;
        Some(PathBuf::from(OsStr::from_bytes(home)))
    });
    let ours = std::env::var_os("HOME").map(PathBuf::from);
    let homes = listed
        .chain(ours)
        .filter(|home| home.is_absolute() && home != Path::new("/"));
    homes
        .flat_map(|home| [home.canonicalize().ok(), Some(home)])
        .flatten()
        .collect()
}

fn is_mount_point(path: &Path) -> bool {
    let told = rustix::fs::statx(
        CWD,
        path,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS,
    );
    let told = told.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    // An older kernel does not report it.
    let above = path.parent().and_then(device_of);
    told || device_of(path).is_some_and(|own| above.is_some_and(|above| own != above))
}

fn device_of(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path)
        .map(|found| found.dev())
        .ok()
}

/// Checks a directory above: whoever can rename its entries can put another in the root's place.
/// Its owner can, even if it is sticky. A group of the account's own is nobody else; one that
/// shares a project is trusted not to rename what is further up.
fn check_ancestor(path: &Path, above: &Path) -> Result<(), UnfitRootError> {
    let Some(found) = metadata_of(above)? else {
        return Ok(());
    };
    if !found.is_dir() {
        return Ok(());
    }
    if read_mark(above).is_some_and(|mark| mark.starts_with(MARK_BEGINNING)) {
        return Err(UnfitRootError::Within {
            other: above.into(),
        });
    }
    let us = rustix::process::geteuid().as_raw();
    if ![ROOT, UNMAPPED, us].contains(&found.uid()) {
        return Err(UnfitRootError::AboveForeign {
            above: above.into(),
            owner: found.uid(),
            us,
        });
    }
    let groups = if path.parent() == Some(above) {
        too_wide_rights(&found)
    } else {
        BY_OTHERS
    };
    if found.mode() & groups != 0 && found.mode() & STICKY == 0 {
        Err(UnfitRootError::Above {
            above: above.into(),
            mode: found.mode() & 0o7777,
        })
    } else {
        Ok(())
    }
}

/// Returns the write permissions that are too wide.
fn too_wide_rights(found: &Metadata) -> u32 {
    let is_ours = [ROOT, rustix::process::getegid().as_raw()].contains(&found.gid());
    if is_ours {
        BY_OTHERS
    } else {
        BY_GROUP | BY_OTHERS
    }
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), UnfitRootError> {
    if !found.is_dir() {
        return Err(UnfitRootError::NotOurs {
            found: describe_file_kind(found.mode()).to_owned(),
            example: suggested_path(path),
        });
    }
    let us = rustix::process::geteuid().as_raw();
    if found.uid() == us {
        Ok(())
    } else {
        Err(UnfitRootError::Foreign {
            owner: found.uid(),
            us,
        })
    }
}

fn check_rights(path: &Path, found: &Metadata) -> Result<(), UnfitRootError> {
    match found.mode() & too_wide_rights(found) {
        0 => Ok(()),
        _ => Err(UnfitRootError::Loose {
            path: path.into(),
            mode: found.mode() & 0o7777,
        }),
    }
}

/// Checks that a directory that is still to be made can be.
fn check_can_be_made(path: &Path) -> Result<(), UnfitRootError> {
    for above in path.ancestors().skip(1) {
        if let Some(found) = metadata_of(above)? {
            return check_access(above, &found);
        }
    }
    Ok(())
}

/// Checks that we can make entries in a directory.
fn check_access(place: &Path, found: &Metadata) -> Result<(), UnfitRootError> {
    let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::accessat(CWD, place, rights, AtFlags::EACCESS) {
        Ok(()) => Ok(()),
        Err(Errno::ROFS) => Err(UnfitRootError::ReadOnly {
            place: place.into(),
        }),
        Err(Errno::ACCESS) => Err(UnfitRootError::Closed {
            place: place.into(),
            mode: found.mode() & 0o7777,
            owner: found.uid(),
            us: rustix::process::geteuid().as_raw(),
        }),
        Err(error) => Err(to_unseen_error(place)(error.into())),
    }
}

/// Checks that nothing is in it but users' files where they belong, and the remains of a start that
/// was cut off: directories of ours without a mark.
fn check_contents(path: &Path, site: &SiteName) -> Result<(), UnfitRootError> {
    if is_used_root_without_mark(path) {
        return Ok(());
    }
    let mut held = Vec::new();
    for entry in std::fs::read_dir(path).map_err(to_unseen_error(path))? {
        let entry = entry.map_err(to_unseen_error(path))?;
        if !is_left_of_cut_off_start(&entry, site).map_err(to_unseen_error(&entry.path()))? {
            held.push(entry.file_name().display().to_string());
        }
    }
    held.sort_unstable();
    match &held[..] {
        [] => Ok(()),
        [one] => Err(UnfitRootError::Occupied {
            held: format!("{one:?}"),
        }),
        [one, .., last] => {
            let rest = held.len() - 2;
            let more = if rest == 0 {
                String::new()
            } else {
                format!(" and {rest} more")
            };
            Err(UnfitRootError::Occupied {
                held: format!("{one:?}, {last:?}{more}"),
            })
        }
    }
}

/// Returns true for a root that has been in use, and lost its mark by a power cut: earlier versions
/// did not make sure that the file was on the disk. Others may have directories of these names; the
/// beginning of a mark, or the name of its owner, only we write.
fn is_used_root_without_mark(path: &Path) -> bool {
    let has_directories = ATTEMPTS
        .iter()
        .all(|name| std::fs::symlink_metadata(path.join(name)).is_ok_and(|found| found.is_dir()));
    // Another site's mark was found before.
    let has_mark = read_mark(path).is_some_and(|mark| mark.starts_with(b"cospan "));
    let owner = read_small_file(&path.join(OWNER)).unwrap_or_default();
    let has_owner = RootOwner::parse_owner(&String::from_utf8_lossy(&owner)).is_some();
    has_directories && (has_mark || has_owner)
}

/// Returns true if an entry of a root without a mark is what we leave when we are cut off, or where
/// users' files belong. All else that has a name of ours is somebody's.
fn is_left_of_cut_off_start(entry: &std::fs::DirEntry, site: &SiteName) -> io::Result<bool> {
    let name = entry.file_name();
    if name == MARKER {
        return Ok(read_small_file(&entry.path()).is_some());
    }
    let is_ours = ATTEMPTS.iter().chain(&COPIES).any(|one| name == *one);
    if !is_ours || !entry.metadata()?.is_dir() {
        return Ok(false);
    }
    if name == FILES {
        return Ok(true);
    }
    for inner in std::fs::read_dir(entry.path())? {
        if name != GONE || !is_unfinished_mark(&inner?.path(), site) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true for a mark of the site that was being written, before it gets its name.
fn is_unfinished_mark(file: &Path, site: &SiteName) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_temporary = name.strip_suffix(".tmp").is_some_and(|word| {
        word.chars()
            .all(|char| char.is_ascii_digit() || char == '-')
    });
    let is_named = is_temporary || name.starts_with("site-id.");
    is_named
        && read_small_file(file)
            .is_some_and(|mark| mark == marker_text(site) || is_cut_off_marker(&mark, site))
}

fn metadata_of(path: &Path) -> Result<Option<Metadata>, UnfitRootError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) =>
        {
            Ok(None)
        }
        Err(error) => Err(to_unseen_error(path)(error)),
    }
}

fn to_unseen_error(path: &Path) -> impl Fn(io::Error) -> UnfitRootError + '_ {
    |source| UnfitRootError::Unseen {
        path: path.into(),
        source,
    }
}

fn suggested_path(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).join("cospan")
}

/// Describes what is there instead of something else.
pub(crate) fn describe_file_kind(mode: u32) -> &'static str {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    }
}
