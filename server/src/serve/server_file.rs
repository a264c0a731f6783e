//! The running server's record beside its store: its process, and its addresses. The command line
//! finds it there, to send requests to the server and to stop it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file's name in the data directory.
const FILE: &str = "running.json";

/// A server that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningServerInfo {
    pub process: u32,
    /// The addresses, the preferred one first.
    pub addresses: Vec<String>,
    /// The control plane that it runs. Earlier versions do not say.
    #[serde(default)]
    pub instance: Option<String>,
    /// The data directory: a copy of it names the original. Earlier versions do not say.
    #[serde(default)]
    pub data: Option<String>,
}

/// A lock that a server holds as long as it runs: its record counts until the lock is gone, which
/// the system removes however the process ends.
#[derive(Debug)]
pub(crate) struct RunningServerLock {
    _locked: File,
}

impl RunningServerInfo {
    /// Writes the record and locks it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn announce(&self, data: &Path) -> std::io::Result<RunningServerLock> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let mut file = options.open(data.join(FILE))?;
        // A reader holds it for microseconds, and a server that ends for not much longer.
        file.lock()?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(RunningServerLock { _locked: file })
    }

    /// Finds the server that runs with this data directory and has announced itself.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn find_running(data: &Path) -> std::io::Result<Option<Self>> {
        let mut file = match File::open(data.join(FILE)) {
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) =>
            {
                return Ok(None);
            }
            file => file?,
        };
        match file.try_lock_shared() {
            Ok(()) => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // A record that cannot be parsed is being written.
        Ok(serde_json::from_str(&text).ok())
    }

    /// Finds the server that runs the same control plane with the data directory from which this
    /// one was copied: the latest record here names that one. A directory that was moved names one
    /// with which nobody runs this control plane.
    pub(crate) fn find_original(data: &Path, instance: &str) -> Option<Self> {
        let latest: Self = serde_json::from_slice(&std::fs::read(data.join(FILE)).ok()?).ok()?;
        let original = PathBuf::from(latest.data?);
        if original.canonicalize().ok()? == data.canonicalize().ok()? {
            return None;
        }
        let running = Self::find_running(&original).ok().flatten()?;
        (running.instance.as_deref() == Some(instance)).then_some(running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_itself_counts_for_as_long_as_it_runs() {
        let data = tempfile::tempdir().unwrap();
        let look = || RunningServerInfo::find_running(data.path()).unwrap();
        assert_eq!(look(), None);
        let running = RunningServerInfo {
            process: 7,
            addresses: vec!["http://127.0.0.1:1".into()],
            instance: None,
            data: None,
        };
        let sign = running.announce(data.path()).unwrap();
        assert_eq!(look(), Some(running.clone()));
        drop(sign);
        assert_eq!(look(), None, "the file is there still, but nobody holds it");
        let shorter = RunningServerInfo {
            process: 8,
            addresses: Vec::new(),
            ..running
        };
        let _sign = shorter.announce(data.path()).unwrap();
        assert_eq!(look(), Some(shorter));
    }

    #[test]
    fn a_copy_of_a_data_directory_finds_the_server_of_the_original_for_as_long_as_it_runs() {
        let home = tempfile::tempdir().unwrap();
        let original = home.path().join("original");
        let copy = home.path().join("copy");
        for place in [&original, &copy] {
            std::fs::create_dir(place).unwrap();
        }
        let running = RunningServerInfo {
            process: 7,
            addresses: Vec::new(),
            instance: Some("aaaaaaaa".into()),
            data: original.to_str().map(str::to_owned),
        };
        let sign = running.announce(&original).unwrap();
        std::fs::copy(original.join(FILE), copy.join(FILE)).unwrap();
        assert_eq!(
            RunningServerInfo::find_original(&copy, "aaaaaaaa"),
            Some(running)
        );
        assert_eq!(
            RunningServerInfo::find_original(&original, "aaaaaaaa"),
            None,
            "it is no copy"
        );
        assert_eq!(
            RunningServerInfo::find_original(&copy, "bbbbbbbb"),
            None,
            "another one runs there now"
        );
        drop(sign);
        assert_eq!(RunningServerInfo::find_original(&copy, "aaaaaaaa"), None);
    }
}
