//! The clients that work with the server while the power is on, and the answers they received.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::PowerStage;
use super::machine::signal;
use crate::test_environment::TestEnvironment;

/// Pause between two commands of clients that are not in a hurry.
const PAUSE: Duration = Duration::from_millis(400);
/// Largest upload.
const UPLOAD_BYTES: usize = 3_000_000;

/// Everything that the command line reported as done.
#[derive(Debug, Clone, Default)]
pub(super) struct ToldClients {
    /// Keys, with their secrets while they exist.
    pub(super) keys: BTreeMap<String, Option<String>>,
    /// Uploads by name, with their digests.
    pub(super) uploads: BTreeMap<String, String>,
    /// Exports, with their digests.
    pub(super) exports: BTreeMap<PathBuf, String>,
}

/// The state that the clients of one life share.
#[derive(Debug)]
struct ClientsShared {
    program: PathBuf,
    config: PathBuf,
    home: PathBuf,
    exports: PathBuf,
    told: Mutex<ToldClients>,
    /// Running commands; `None` once no other may begin.
    running: Mutex<Option<BTreeSet<u32>>>,
    done: [AtomicU64; 3],
    is_over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct Clients {
    shared: Arc<ClientsShared>,
    threads: Vec<JoinHandle<Result<()>>>,
}

/// The work of each client.
const WORK: [PowerStage; 3] = [PowerStage::Keys, PowerStage::Uploads, PowerStage::Exports];

impl Clients {
    /// Starts the clients; `life` tells their names from those of others.
    pub(super) fn start(
        program: &Path,
        environment: &TestEnvironment,
        told: ToldClients,
        (life, busy): (u32, PowerStage),
    ) -> Self {
        let shared = Arc::new(ClientsShared {
            program: program.into(),
            config: environment.config(),
            home: environment.path().into(),
            exports: environment.disk().join("exports"),
            told: Mutex::new(told),
            running: Mutex::new(Some(BTreeSet::new())),
            done: Default::default(),
            is_over: AtomicBool::new(false),
        });
        let threads = (0..WORK.len()).map(|at| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.run_client(at, life, WORK[at] == busy))
        });
        Self {
            threads: threads.collect(),
            shared,
        }
    }

    /// Counts the commands of one client that were reported as done.
    pub(super) fn done_count(&self, stage: PowerStage) -> u64 {
        let at = WORK.iter().position(|work| *work == stage);
        at.map_or(u64::MAX, |at| self.shared.done[at].load(Ordering::Relaxed))
    }

    /// Returns the running commands and lets no other begin.
    pub(super) fn stop_new_commands(&self) -> Vec<u32> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        lock(&self.shared.running)
            .take()
            .into_iter()
            .flatten()
            .collect()
    }

    /// Ends those commands, and returns what was reported as done.
    ///
    /// # Errors
    /// One of them could not work at all.
    pub(super) fn finish(self, held: &[u32]) -> Result<ToldClients> {
        held.iter().for_each(|pid| signal(*pid, Signal::KILL));
        for thread in self.threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        Ok(lock(&self.shared.told).clone())
    }
}

impl ClientsShared {
    fn run_client(&self, at: usize, life: u32, is_busy: bool) -> Result<()> {
        for turn in 0_u64.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("{life}-{turn}");
            let is_done = match WORK[at] {
                PowerStage::Keys => self.change_keys(&name, turn)?,
                PowerStage::Uploads => self.upload(&name, turn)?,
                _ => self.export(&name)?,
            };
            self.done[at].fetch_add(u64::from(is_done), Ordering::Relaxed);
            if !is_busy {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Makes a key, or removes the last but one: the other is changed then.
    fn change_keys(&self, name: &str, turn: u64) -> Result<bool> {
        let there = lock(&self.told).keys.clone();
        let mut there = there.iter().filter(|(_, secret)| secret.is_some());
        if turn % 3 == 2
            && let Some((old, _)) = there.next()
        {
            // From now on nobody knows, unless there is an answer.
            lock(&self.told).keys.remove(old);
            let is_done = self.run_command(&["key", "remove", old])?.is_some();
            if is_done {
                lock(&self.told).keys.insert(old.clone(), None);
            }
            return Ok(is_done);
        }
        let name = format!("k{name}");
        let Some(secret) = self.run_command(&["key", "add", &name, "-o", "json"])? else {
            return Ok(false);
        };
        let made: serde_json::Value = serde_json::from_str(&secret)?;
        let secret = made["token"]
            .as_str()
            .context("no secret was printed")?
            .to_owned();
        lock(&self.told).keys.insert(name, Some(secret));
        Ok(true)
    }

    fn upload(&self, name: &str, turn: u64) -> Result<bool> {
        let file = self.home.join(format!("upload-{name}"));
        let length = (turn as usize * 700_001 + 1_000) % UPLOAD_BYTES;
        let bytes: Vec<u8> = name.bytes().cycle().take(length).collect();
        std::fs::write(&file, &bytes)?;
        let logical = format!("up/{name}");
        let place = file.display().to_string();
        let is_done = self
            .run_command(&["file", "upload", &place, "--name", &logical])?
            .is_some();
        std::fs::remove_file(&file)?;
        if is_done {
            let digest = blake3::hash(&bytes).to_hex().to_string();
            lock(&self.told).uploads.insert(logical, digest);
        }
        Ok(is_done)
    }

    fn export(&self, name: &str) -> Result<bool> {
        std::fs::create_dir_all(&self.exports)?;
        let file = self.exports.join(name);
        let is_done = self
            .run_command(&["store", "export", &file.display().to_string()])?
            .is_some();
        if is_done {
            lock(&self.told)
                .exports
                .insert(file.clone(), digest_of(&file)?);
        }
        Ok(is_done)
    }

    /// Returns the output of a command that ended well; `None`: nobody knows what it did.
    fn run_command(&self, arguments: &[&str]) -> Result<Option<String>> {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--config").arg(&self.config);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/bin:/bin");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = {
            let mut running = lock(&self.running);
            let Some(running) = running.as_mut() else {
                return Ok(None);
            };
            let child = command.spawn()?;
            running.insert(child.id());
            child
        };
        let pid = child.id();
        let done = child.wait_with_output()?;
        if let Some(running) = lock(&self.running).as_mut() {
            running.remove(&pid);
        }
        Ok(done
            .status
            .success()
            .then(|| String::from_utf8_lossy(&done.stdout).into_owned()))
    }
}

/// Returns the digest of a file.
///
/// # Errors
/// It cannot be read.
pub(super) fn digest_of(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("{}", file.display()))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}
