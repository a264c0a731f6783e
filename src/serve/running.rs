//! What a server says of itself beside its store for as long as it runs: its process, and the
//! addresses where it answers. The command line finds it there, to ask it and to stop it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Its name in the data directory.
const FILE: &str = "running.json";

/// A server that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningProcess {
    /// Its process.
    pub(crate) process: u32,
    /// Where it answers, the first first.
    pub(crate) addresses: Vec<String>,
}

/// Held by a server for as long as it runs: what it said counts until the lock is gone, which the
/// system sees to however the process ends.
#[derive(Debug)]
pub(crate) struct RunningSign {
    _locked: File,
}

impl RunningProcess {
    /// Says so.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn announce(&self, data: &Path) -> std::io::Result<RunningSign> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let mut file = options.open(data.join(FILE))?;
        // Who looks holds it for microseconds, and one that ends for not much longer.
        file.lock()?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(RunningSign { _locked: file })
    }

    /// The server that runs with this data directory, and says so already.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub(crate) fn look(data: &Path) -> std::io::Result<Option<Self>> {
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
        // What cannot be read is being written.
        Ok(serde_json::from_str(&text).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_itself_counts_for_as_long_as_it_runs() {
        let data = tempfile::tempdir().unwrap();
        let look = || RunningProcess::look(data.path()).unwrap();
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
