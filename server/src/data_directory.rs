//! Checks that only we can change the data directory: whoever can change it, or put another in its
//! place, has the keys, the store and the processes at the sites.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use thiserror::Error;

const ROOT: u32 = 0;
/// The user id that the kernel shows for users that the container does not know; nobody logs in as
/// it.
const UNMAPPED: u32 = 65_534;
const STICKY: u32 = 0o1000;
const BY_GROUP: u32 = 0o020;
const BY_OTHERS: u32 = 0o002;

/// The reason why a data directory is not used.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum DataDirectoryError {
    #[error(
        "{path} cannot be used as the data directory: {source}; move it away, or set \
         server.data_directory to another place",
        path = path.display()
    )]
    Unusable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "the data directory {path} is a symbolic link to {to}: whoever can change the link chooses \
         what the server works with; set server.data_directory to {to} itself",
        path = path.display(), to = to.display()
    )]
    Link { path: PathBuf, to: PathBuf },
    #[error(
        "the data directory {path} belongs to user {owner}, not to user {us} who runs this: \
         somebody else made it; look at what is in it, and then change its owner, or set \
         server.data_directory to another place",
        path = path.display()
    )]
    Foreign { path: PathBuf, owner: u32, us: u32 },
    #[error(
        "others can change what is in the data directory {path} (mode {mode:03o}); look at what is \
         in it, and then run: chmod 700 {path}",
        path = path.display()
    )]
    Loose { path: PathBuf, mode: u32 },
    #[error(
        "others can put another directory in place of the data directory {path}: {above} {how}; \
         mend that, or set server.data_directory to another place",
        path = path.display(), above = above.display()
    )]
    Above {
        path: PathBuf,
        above: PathBuf,
        how: String,
    },
}

/// Makes the directory, for its user alone, if it is missing; else checks who else can change it.
///
/// # Errors
///
/// The directory cannot be made, or others can change it.
pub fn prepare_data_directory(path: &Path) -> Result<(), DataDirectoryError> {
    check_data_directory(path)?;
    cospan_durable::make_directory(path).map_err(unusable_error(path))?;
    // Another process may have made it first.
    check_data_directory(path)
}

/// Checks who else can change the directory, or put another in its place. A directory that does not
/// exist yet is judged by those above it.
///
/// # Errors
///
/// Others can change the directory.
pub fn check_data_directory(path: &Path) -> Result<(), DataDirectoryError> {
    let whole = std::path::absolute(path).map_err(unusable_error(path))?;
    for above in whole.ancestors().skip(1) {
        check_above(path, above)?;
    }
    let Some(found) = read_metadata(path, &whole)? else {
        return Ok(());
    };
    if found.is_symlink() {
        let to = std::fs::canonicalize(&whole).map_err(unusable_error(path))?;
        return Err(DataDirectoryError::Link {
            path: path.into(),
            to,
        });
    }
    if !found.is_dir() {
        return Err(unusable_error(path)(ErrorKind::NotADirectory.into()));
    }
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us {
        return Err(DataDirectoryError::Foreign {
            path: path.into(),
            owner: found.uid(),
            us,
        });
    }
    match found.mode() & (BY_GROUP | BY_OTHERS) {
        0 => Ok(()),
        _ => Err(DataDirectoryError::Loose {
            path: path.into(),
            mode: found.mode() & 0o777,
        }),
    }
}

/// Returns true if the directory is this account's: it belongs to it, or could be made by it.
pub fn is_ours(path: &Path) -> bool {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let us = rustix::process::geteuid().as_raw();
    if let Ok(found) = std::fs::symlink_metadata(&whole) {
        return found.uid() == us;
    }
    let rights = Access::WRITE_OK | Access::EXEC_OK;
    whole
        .ancestors()
        .skip(1)
        .find(|above| above.exists())
        .is_some_and(|above| rustix::fs::accessat(CWD, above, rights, AtFlags::EACCESS).is_ok())
}

fn unusable_error(path: &Path) -> impl Fn(std::io::Error) -> DataDirectoryError + '_ {
    |source| DataDirectoryError::Unusable {
        path: path.into(),
        source,
    }
}

/// Returns the metadata of a place, without following a link; `None` if nothing is there.
fn read_metadata(path: &Path, place: &Path) -> Result<Option<Metadata>, DataDirectoryError> {
    match std::fs::symlink_metadata(place) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable_error(path)(error)),
    }
}

/// Checks a directory above, or a link to one. Of the link itself only the owner counts. Its target
/// is checked as a directory above, together with everything above that.
fn check_above(path: &Path, above: &Path) -> Result<(), DataDirectoryError> {
    let Some(found) = read_metadata(path, above)? else {
        return Ok(());
    };
    let us = rustix::process::geteuid().as_raw();
    if ![ROOT, UNMAPPED, us].contains(&found.uid()) {
        return Err(DataDirectoryError::Above {
            path: path.into(),
            above: above.into(),
            how: format!("belongs to user {}", found.uid()),
        });
    }
    if found.is_symlink() {
        let leads_to = std::fs::canonicalize(above).map_err(unusable_error(path))?;
        return leads_to
            .ancestors()
            .try_for_each(|above| check_above(path, above));
    }
    if found.is_dir() && can_others_change(&found) {
        return Err(DataDirectoryError::Above {
            path: path.into(),
            above: above.into(),
            how: format!(
                "can be changed by others (mode {:03o})",
                found.mode() & 0o7777
            ),
        });
    }
    Ok(())
}

/// Returns true if others can rename entries of a directory. In a sticky directory only owners can.
/// The user's own group, which many systems give to each user, counts as the user.
fn can_others_change(found: &Metadata) -> bool {
    let ours = [ROOT, rustix::process::getegid().as_raw()].contains(&found.gid());
    let wide = if ours {
        BY_OTHERS
    } else {
        BY_GROUP | BY_OTHERS
    };
    found.mode() & wide != 0 && found.mode() & STICKY == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn refused(path: &Path) -> String {
        prepare_data_directory(path).unwrap_err().to_string()
    }

    #[test]
    fn one_that_is_missing_is_made_for_its_user_alone() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("a/b");
        prepare_data_directory(&data).unwrap();
        assert_eq!(std::fs::metadata(&data).unwrap().mode() & 0o777, 0o700);
        prepare_data_directory(&data).unwrap();
        set_mode(&data, 0o755);
        prepare_data_directory(&data).unwrap();
    }

    #[test]
    fn one_that_others_can_change_is_refused_with_the_command_to_mend_it() {
        let home = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o770, 0o702, 0o1777] {
            let data = home.path().join(format!("{mode:o}"));
            std::fs::create_dir(&data).unwrap();
            set_mode(&data, mode);
            let said = refused(&data);
            assert!(
                said.contains(&format!("chmod 700 {}", data.display())),
                "{said}"
            );
            set_mode(&data, 0o700);
            prepare_data_directory(&data).unwrap();
        }
    }

    #[test]
    fn a_link_in_its_place_is_refused_and_named_with_what_it_leads_to() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let real = home.path().join("real");
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &data).unwrap();
        let said = refused(&data);
        assert!(
            said.contains(&format!("set server.data_directory to {}", real.display())),
            "{said}"
        );
        std::fs::remove_dir(&real).unwrap();
        refused(&data);
        assert!(!real.exists(), "nothing was made where it leads to");
    }

    #[test]
    fn what_others_can_change_above_it_is_refused_unless_it_is_sticky() {
        let home = tempfile::tempdir().unwrap();
        let shared = home.path().join("shared");
        let data = shared.join("ours/data");
        std::fs::create_dir(&shared).unwrap();
        for mode in [0o777, 0o757] {
            set_mode(&shared, mode);
            let said = refused(&data);
            assert!(
                said.contains(&format!("{} can be changed by others", shared.display())),
                "{said}"
            );
            assert!(!shared.join("ours").exists(), "nothing was made");
        }
        set_mode(&shared, 0o1777);
        prepare_data_directory(&data).unwrap();
    }

    #[test]
    fn a_link_above_it_is_followed_to_what_others_can_change() {
        let home = tempfile::tempdir().unwrap();
        let open = home.path().join("open");
        let link = home.path().join("link");
        std::fs::create_dir_all(open.join("in")).unwrap();
        symlink(open.join("in"), &link).unwrap();
        prepare_data_directory(&link.join("data")).unwrap();
        set_mode(&open, 0o777);
        let said = refused(&link.join("data"));
        assert!(
            said.contains(&format!("{} can be changed", open.display())),
            "{said}"
        );
    }

    #[test]
    fn one_of_another_user_is_refused_and_so_is_one_below_such_a_directory() {
        // Only root can give a directory away; for others the root directory is foreign.
        let home = tempfile::tempdir().unwrap();
        let theirs = home.path().join("theirs");
        std::fs::create_dir_all(theirs.join("data")).unwrap();
        if std::os::unix::fs::chown(&theirs, Some(4_711), None).is_err() {
            assert!(refused(Path::new("/")).contains("belongs to user 0"));
            return;
        }
        assert!(refused(&theirs).contains("belongs to user 4711"));
        let said = refused(&theirs.join("data"));
        assert!(
            said.contains(&format!("{} belongs to user 4711", theirs.display())),
            "{said}"
        );
    }
}
