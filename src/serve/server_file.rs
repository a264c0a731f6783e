//! The running server's record beside its store: its process, and its addresses. The command line
//! finds it there, to send requests to the server and to stop it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The file's name in the data directory.
const FILE: &str = "running.json";

/// A server that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningProcess {
    pub(crate) process: u32,
    /// The addresses, the preferred one first.
    pub(crate) addresses: Vec<String>,
}

/// A lock that a server holds as long as it runs: its record counts until the lock is gone, which
/// the system removes however the process ends.
#[derive(Debug)]
pub(crate) struct RunningSign {
    _locked: File,
}

impl RunningProcess {
    /// Writes the record and locks it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn announce(&self, data: &Path) -> std::io::Result<RunningSign> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let mut file = options.open(data.join(FILE))?;
        // A reader holds it for microseconds, and a server that ends for not much longer.
        file.lock()?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(RunningSign { _locked: file })
    }

    /// Finds the server that runs with this data directory and has announced itself.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub(crate) fn find_running(data: &Path) -> std::io::Result<Option<Self>> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_itself_counts_for_as_long_as_it_runs() {
        let data = tempfile::tempdir().unwrap();
        let look = || RunningProcess::find_running(data.path()).unwrap();
        assert_eq!(look(), None);
        let running = RunningProcess {
            process: 7,
            addresses: vec!["http://127.0.0.1:1".into()],
        };
        let sign = running.announce(data.path()).unwrap();
        assert_eq!(look(), Some(running.clone()));
        drop(sign);
        assert_eq!(look(), None, "the file is there still, but nobody holds it");
        let shorter = RunningProcess {
            process: 8,
            addresses: Vec::new(),
        };
        let _sign = shorter.announce(data.path()).unwrap();
        assert_eq!(look(), Some(shorter));
    }
}
