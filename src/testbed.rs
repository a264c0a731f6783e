//! Real clusters under Slurm on this machine's loopback: started, hurt and ended by a script
//! that the program contains. Root on Debian.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use thiserror::Error;

const SCRIPT: &str = include_str!("../tests/testbed/slurm.sh");

/// Why a cluster is not there.
#[derive(Debug, Error)]
pub enum TestbedError {
    /// Daemons run under users of their own.
    #[error("only root can start clusters on this machine: try it with sudo")]
    NotRoot,
    /// The script says why.
    #[error("the clusters cannot be had: {0}")]
    Refused(String),
    /// A program is missing.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
}

/// A cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestbedCluster {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its processors.
    pub(crate) processors: u32,
    /// Its slurmctld listens here, its slurmd at the next one.
    pub(crate) port: u16,
}

/// An ordinary user of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Its name.
    pub(crate) name: String,
    user: u32,
    group: u32,
}

impl Account {
    /// Makes a process run as that user, with this home.
    pub(crate) fn run_as(&self, command: &mut Command, home: &Path) {
        command.uid(self.user).gid(self.group);
        command
            .env("USER", &self.name)
            .env("LOGNAME", &self.name)
            .env("HOME", home);
    }

    /// Hands a file over.
    pub(crate) fn own(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.user), Some(self.group))
    }
}

/// Clusters below one directory.
#[derive(Debug, Clone)]
pub(crate) struct Testbed {
    base: PathBuf,
}

impl Testbed {
    /// Those below this directory, if clusters can be started here at all.
    pub(crate) fn below(base: &str) -> Result<Self, TestbedError> {
        if !rustix::process::geteuid().is_root() {
            return Err(TestbedError::NotRoot);
        }
        Ok(Self { base: base.into() })
    }

    /// An error if somebody else's Slurm runs here.
    pub(crate) fn check_free(&self) -> Result<(), TestbedError> {
        self.script(&["free"]).map(drop)
    }

    /// The user that tests run as; made if missing.
    pub(crate) fn account(&self) -> Result<Account, TestbedError> {
        let name = self.script(&["user"])?;
        let user = number("-u", &name)?;
        let group = number("-g", &name)?;
        Ok(Account { name, user, group })
    }

    /// Starts what of a cluster does not run.
    pub(crate) fn up(&self, cluster: TestbedCluster) -> Result<(), TestbedError> {
        let processors = cluster.processors.to_string();
        let port = cluster.port.to_string();
        self.script(&["up", cluster.name, &processors, &port])
            .map(drop)
    }

    /// Kills the controller of a cluster.
    pub(crate) fn kill_controller(&self, cluster: &str) -> Result<(), TestbedError> {
        self.script(&["kill", cluster]).map(drop)
    }

    /// Freezes the controller of a cluster, or lets it go on.
    pub(crate) fn freeze_controller(
        &self,
        cluster: &str,
        freeze: bool,
    ) -> Result<(), TestbedError> {
        let signal = if freeze { Signal::STOP } else { Signal::CONT };
        let sent = kill_process(self.daemon(cluster, "slurmctld")?, signal);
        sent.map_err(|error| TestbedError::Refused(format!("slurmctld of {cluster}: {error}")))
    }

    /// Cuts all connections by SSH; the server goes on.
    pub(crate) fn cut_connections(&self) -> Result<(), TestbedError> {
        let user = self.account()?.name;
        // Those that serve a connection run as its user; what root has beside each ends with it. None
        // is as good.
        said(Command::new("pkill").args(["-KILL", "-u", &user, "^sshd"])).map(drop)
    }

    fn daemon(&self, cluster: &str, name: &str) -> Result<Pid, TestbedError> {
        let file = self.base.join(cluster).join(format!("run/{name}.pid"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let number = text.trim().parse().ok().and_then(Pid::from_raw);
        number.ok_or_else(|| TestbedError::Refused(format!("{name} of {cluster} does not run")))
    }

    /// An SSH server by which the user can log in; the configuration file of that.
    pub(crate) fn ssh(&self, port: u16) -> Result<PathBuf, TestbedError> {
        self.script(&["ssh", &port.to_string()]).map(PathBuf::from)
    }

    /// Ends a cluster, and removes what it left.
    pub(crate) fn down(&self, cluster: &str) -> Result<(), TestbedError> {
        self.script(&["down", cluster]).map(drop)
    }

    /// Ends all of them, and removes all that was made or installed for them.
    pub(crate) fn remove(&self) -> Result<(), TestbedError> {
        self.script(&["remove"]).map(drop)
    }

    /// The directory below which everything lies.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// The configuration file of a cluster.
    pub(crate) fn conf(&self, cluster: &str) -> PathBuf {
        self.base.join(cluster).join("slurm.conf")
    }

    /// Runs the script. What it prints is given back; what it complains of is the error.
    fn script(&self, words: &[&str]) -> Result<String, TestbedError> {
        let mut command = Command::new("bash");
        command
            .args(["-c", SCRIPT, "testbed"])
            .args(words)
            .env("COSPAN_TESTBED", &self.base);
        let output = said(&mut command)?;
        output.map_err(|said| {
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            let last = last
                .unwrap_or("no reason given")
                .trim_start_matches("testbed: ");
            TestbedError::Refused(last.to_owned())
        })
    }
}

/// What a command prints, or what it complains of.
pub(crate) fn said(command: &mut Command) -> Result<Result<String, String>, TestbedError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| TestbedError::Start {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    })
}

fn number(what: &str, name: &str) -> Result<u32, TestbedError> {
    let found = said(Command::new("id").args([what, name]))?.ok();
    let number = found.and_then(|number| number.parse().ok());
    number.ok_or_else(|| TestbedError::Refused(format!("no user is called {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_the_clusters_says_what_is_wrong_with_a_command() {
        let nowhere = Testbed {
            base: "/nonexistent/testbed".into(),
        };
        let Err(TestbedError::Refused(why)) = nowhere.script(&["fly"]) else {
            panic!("it flies")
        };
        assert!(why.contains("up, conf") || why.contains("root"), "{why}");
    }
}
