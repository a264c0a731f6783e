//! The real server as a child process that is killed and started again.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::api::{Api, ApiReply};
use crate::test_environment::TestEnvironment;

/// Longest that a start may take before the run fails.
const START_MAX: Duration = Duration::from_secs(90);

/// The configuration of a chaos build.
#[derive(Debug, Clone, Default)]
pub struct Chaos {
    /// The plan of faults; empty: none.
    pub plan: String,
    /// File of the points that it reached.
    pub coverage: PathBuf,
}

/// Returns the permission of a chaos build to serve, for an environment that is otherwise empty:
/// where tests are run with such a build, it may serve all of them.
pub fn serve_permission() -> Option<(&'static str, OsString)> {
    const LEAVE: &str = "COSPAN_ALLOW_CHAOS";
    std::env::var_os(LEAVE).map(|given| (LEAVE, given))
}

/// A server that runs, or did.
#[derive(Debug)]
pub struct ServerProcess {
    binary: PathBuf,
    config: PathBuf,
    home: PathBuf,
    log: PathBuf,
    token: PathBuf,
    port: u16,
    /// Set for a chaos build.
    pub chaos: Option<Chaos>,
    child: Option<Child>,
}

impl ServerProcess {
    /// Creates a server that is not started yet.
    pub fn new(binary: &Path, environment: &TestEnvironment) -> Self {
        Self {
            binary: binary.into(),
            config: environment.config(),
            home: environment.path().into(),
            log: environment.log(),
            token: environment.data().join("keys/admin.token"),
            port: environment.port(),
            chaos: None,
            child: None,
        }
    }

    /// Starts it, without waiting.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(&mut self) -> Result<()> {
        let log: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let mut command = Command::new(&self.binary);
        command.args(["serve", "--config"]).arg(&self.config);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/bin:/bin");
        command.envs(serve_permission());
        if let Some(chaos) = &self.chaos {
            command
                .arg("--allow-chaos")
                .env("COSPAN_CHAOS_PLAN", &chaos.plan);
            command.env("COSPAN_CHAOS_COVERAGE", &chaos.coverage);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn();
        let place = self.binary.display();
        self.child = Some(child.with_context(|| format!("cannot start {place}"))?);
        Ok(())
    }

    /// Starts it and waits until it takes work; returns how long that took.
    ///
    /// # Errors
    /// It does not start, or ends.
    pub fn start(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.spawn()?;
        self.await_ready()?;
        Ok(begun.elapsed())
    }

    /// Waits until it takes work.
    ///
    /// # Errors
    /// It ends, or takes too long.
    pub fn await_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        let probe = Api::new(self.port, String::new());
        loop {
            if let ApiReply::Answered(200, _) = probe.get("/readyz") {
                return Ok(());
            }
            if let Some(status) = self.exit_status()? {
                bail!(
                    "the server ended while it started: {status}; see {}",
                    self.log.display()
                );
            }
            if begun.elapsed() > START_MAX {
                bail!("the server was not ready within {START_MAX:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns true if it takes work now.
    pub fn is_ready(&self) -> bool {
        let probe = Api::new(self.port, String::new());
        matches!(probe.get("/readyz"), ApiReply::Answered(200, _))
    }

    /// Returns a client of it, once it was ready.
    ///
    /// # Errors
    /// It has left no key.
    pub fn api(&self) -> Result<Api> {
        let token = std::fs::read_to_string(&self.token)
            .with_context(|| format!("no key in {}", self.token.display()))?;
        Ok(Api::new(self.port, token.trim().into()))
    }

    /// Returns its exit status, if it has ended.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => Ok(Some(ExitStatus::from_raw(0))),
        }
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it with kill -9, and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // A run that fails leaves no process behind.
        let _ = self.kill();
    }
}
