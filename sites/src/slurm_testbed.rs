//! Real clusters under Slurm on this machine's loopback. A script that the program contains starts,
//! damages and ends them. Needs root on Debian.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use thiserror::Error;

const SCRIPT: &str = include_str!("../../tests/testbed/slurm.sh");

/// The reason why a cluster is missing.
#[derive(Debug, Error)]
pub enum TestbedError {
    /// Only root can start daemons under users of their own.
    #[error("only root can start clusters on this machine: try it with sudo")]
    NotRoot,
    /// The message of the script.
    #[error("the clusters cannot be had: {0}")]
    Refused(String),
    /// A program is missing.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The name of the program.
        program: String,
        /// The cause.
        source: io::Error,
    },
}

/// A cluster.
#[derive(Debug, Clone, Copy)]
pub struct TestbedCluster {
    pub name: &'static str,
    pub processors: u32,
    /// The port of slurmctld; slurmd listens at the next one.
    pub port: u16,
}

/// An ordinary user of this machine.
#[derive(Debug, Clone)]
pub struct TestbedAccount {
    pub name: String,
    user: u32,
    group: u32,
}

impl TestbedAccount {
    /// Makes a process run as this user, with this home.
    pub fn run_as(&self, command: &mut Command, home: &Path) {
        command.uid(self.user).gid(self.group);
        command
            .env("USER", &self.name)
            .env("LOGNAME", &self.name)
            .env("HOME", home);
    }

    /// Makes this user the owner of a file.
    pub fn chown_file(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.user), Some(self.group))
    }
}

/// Clusters below one directory.
#[derive(Debug, Clone)]
pub struct Testbed {
    base: PathBuf,
}

impl Testbed {
    /// Uses the clusters below this directory, if clusters can be started here at all.
    pub fn below(base: &str) -> Result<Self, TestbedError> {
        if !rustix::process::geteuid().is_root() {
            return Err(TestbedError::NotRoot);
        }
        Ok(Self { base: base.into() })
    }

    /// Fails if somebody else's Slurm runs here.
    pub fn check_free(&self) -> Result<(), TestbedError> {
        self.run_script(&["free"]).map(drop)
    }

    /// Returns the user that tests run as; makes it if missing.
    pub fn ensure_account(&self) -> Result<TestbedAccount, TestbedError> {
        let name = self.run_script(&["user"])?;
        let user = read_number("-u", &name)?;
        let group = read_number("-g", &name)?;
        Ok(TestbedAccount { name, user, group })
    }

    /// Starts the daemons of a cluster that do not run.
    pub fn start_cluster(&self, cluster: TestbedCluster) -> Result<(), TestbedError> {
        let processors = cluster.processors.to_string();
        let port = cluster.port.to_string();
        self.run_script(&["up", cluster.name, &processors, &port])
            .map(drop)
    }

    /// Kills the controller of a cluster.
    pub fn kill_controller(&self, cluster: &str) -> Result<(), TestbedError> {
        self.run_script(&["kill", cluster]).map(drop)
    }

    /// Freezes the controller of a cluster, or lets it continue.
    pub fn freeze_controller(&self, cluster: &str, freeze: bool) -> Result<(), TestbedError> {
        let signal = if freeze { Signal::STOP } else { Signal::CONT };
        let sent = kill_process(self.find_daemon(cluster, "slurmctld")?, signal);
        sent.map_err(|error| TestbedError::Refused(format!("slurmctld of {cluster}: {error}")))
    }

    /// Makes the node of a cluster report which jobs it has. (Reconfiguring the controller does not
    /// do: a newer one takes all its jobs for fresh after that, and waits.)
    pub fn request_recount(&self, cluster: &str) -> Result<(), TestbedError> {
        let sent = kill_process(self.find_daemon(cluster, "slurmd")?, Signal::HUP);
        sent.map_err(|error| TestbedError::Refused(format!("slurmd of {cluster}: {error}")))
    }

    /// Cuts all SSH connections; the SSH server goes on.
    pub fn cut_connections(&self) -> Result<(), TestbedError> {
        let user = self.ensure_account()?.name;
        // The processes that serve a connection run as the user; root's process for each ends with
        // it. It is no error if there are none.
        capture_output(Command::new("pkill").args(["-KILL", "-u", &user, "^sshd"])).map(drop)
    }

    fn find_daemon(&self, cluster: &str, name: &str) -> Result<Pid, TestbedError> {
        let file = self.base.join(cluster).join(format!("run/{name}.pid"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let number = text.trim().parse().ok().and_then(Pid::from_raw);
        number.ok_or_else(|| TestbedError::Refused(format!("{name} of {cluster} does not run")))
    }

    /// Starts an SSH server where the user can log in. Returns its configuration file.
    pub fn start_ssh_server(&self, port: u16) -> Result<PathBuf, TestbedError> {
        self.run_script(&["ssh", &port.to_string()])
            .map(PathBuf::from)
    }

    /// Ends a cluster, and removes its files.
    pub fn end_cluster(&self, cluster: &str) -> Result<(), TestbedError> {
        self.run_script(&["down", cluster]).map(drop)
    }

    /// Ends all clusters, and removes everything that was made or installed for them.
    pub fn remove_everything(&self) -> Result<(), TestbedError> {
        self.run_script(&["remove"]).map(drop)
    }

    /// Returns the directory that contains everything.
    pub fn base_directory(&self) -> &Path {
        &self.base
    }

    /// Returns the configuration file of a cluster.
    pub fn config_file_path(&self, cluster: &str) -> PathBuf {
        self.base.join(cluster).join("slurm.conf")
    }

    /// Runs the script. Returns its standard output; its complaints are the error.
    fn run_script(&self, words: &[&str]) -> Result<String, TestbedError> {
        let mut command = Command::new("bash");
        command
            .args(["-c", SCRIPT, "testbed"])
            .args(words)
            .env("COSPAN_TESTBED", &self.base);
        let output = capture_output(&mut command)?;
        output.map_err(|said| {
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            let last = last
                .unwrap_or("no reason given")
                .trim_start_matches("testbed: ");
            TestbedError::Refused(last.to_owned())
        })
    }
}

/// Returns the output of a command, or its complaints.
pub fn capture_output(command: &mut Command) -> Result<Result<String, String>, TestbedError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| TestbedError::Start {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    Ok(if output.status.success() {
        Ok(stdout.trim().to_owned())
    } else {
        Err(stderr.trim().to_owned())
    })
}

fn read_number(what: &str, name: &str) -> Result<u32, TestbedError> {
    let found = capture_output(Command::new("id").args([what, name]))?.ok();
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
        let Err(TestbedError::Refused(why)) = nowhere.run_script(&["fly"]) else {
            panic!("it flies")
        };
        assert!(why.contains("up, conf") || why.contains("root"), "{why}");
    }
}
