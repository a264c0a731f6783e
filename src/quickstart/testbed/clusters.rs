//! Real clusters under Slurm on this machine: started, hurt and ended by a script that the
//! program contains.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::demo_directory::{DemoDirectory, DemoSites, quoted};
use super::super::error::QuickstartError;

/// A cluster of the demonstration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cluster {
    /// Its name.
    pub(super) name: &'static str,
    /// Its processors.
    pub(super) processors: u32,
    /// Its slurmctld listens here, its slurmd at the next one.
    port: u16,
}

/// The clusters. Neither can hold the whole job.
pub(super) const CLUSTERS: [Cluster; 2] = [
    Cluster { name: "alpha", processors: 8, port: 27_610 },
    Cluster { name: "beta", processors: 8, port: 27_620 },
];

/// Where everything of it lies.
pub(super) const BASE: &str = "/var/tmp/cospan-quickstart";

const SCRIPT: &str = include_str!("../../../tests/testbed/slurm.sh");

/// The clusters, and the account that the server runs as.
#[derive(Debug, Clone)]
pub(super) struct SlurmClusters {
    account: Account,
}

/// An ordinary user.
#[derive(Debug, Clone)]
struct Account {
    name: String,
    user: u32,
    group: u32,
}

impl SlurmClusters {
    /// Makes sure that they can be started here, and makes the user.
    pub(super) fn prepare() -> Result<Self, QuickstartError> {
        if !rustix::process::geteuid().is_root() {
            return Err(QuickstartError::NotRoot);
        }
        script(&["free"])?;
        let name = script(&["user"])?.trim().to_owned();
        let (user, group) = (number("-u", &name)?, number("-g", &name)?);
        Ok(Self { account: Account { name, user, group } })
    }

    /// Starts one, unless it runs.
    pub(super) fn start(&self, cluster: Cluster) -> Result<(), QuickstartError> {
        let (processors, port) = (cluster.processors.to_string(), cluster.port.to_string());
        script(&["up", cluster.name, &processors, &port]).map(drop)
    }

    /// Kills the controller of one.
    pub(super) fn kill_controller(&self, cluster: &str) -> Result<(), QuickstartError> {
        script(&["kill", cluster]).map(drop)
    }

    /// What a command of Slurm says of a cluster to that user, or why it says nothing.
    pub(super) fn say(&self, cluster: &str, command: &[&str]) -> Result<String, QuickstartError> {
        let mut asked = Command::new(command[0]);
        asked.args(&command[1..]).env("SLURM_CONF", conf(cluster));
        self.ask(asked)
    }

    /// What a command prints that is run by that user, or why it fails.
    fn ask(&self, mut command: Command) -> Result<String, QuickstartError> {
        self.run_as(&mut command);
        let output = command.stdin(Stdio::null()).output();
        let output =
            output.map_err(QuickstartError::file("start", command.get_program().as_ref()))?;
        let said = if output.status.success() { output.stdout } else { output.stderr };
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    }

    /// A directory in which the server may write.
    pub(super) fn directory(&self) -> Result<PathBuf, QuickstartError> {
        let directory = Path::new(BASE).join("cospan");
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(QuickstartError::file("clear", &directory))?;
        }
        fs::create_dir_all(&directory).map_err(QuickstartError::file("make", &directory))?;
        Ok(directory)
    }

    /// Copies this program to where that user can read it, and hands the directory over.
    pub(super) fn hand_over(&self, demo: &DemoDirectory) -> Result<(), QuickstartError> {
        let here = std::env::current_exe()
            .map_err(QuickstartError::file("find", "this program's file".as_ref()))?;
        let copy = program(demo);
        fs::copy(&here, &copy).map_err(QuickstartError::file("write", &copy))?;
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&copy, executable).map_err(QuickstartError::file("change", &copy))?;
        let Account { user, group, .. } = self.account;
        std::os::unix::fs::chown(&demo.directory, Some(user), Some(group))
            .map_err(QuickstartError::file("hand over", &demo.directory))
    }

    /// The name of the user.
    pub(super) fn user(&self) -> &str {
        &self.account.name
    }
}

impl DemoSites for SlurmClusters {
    fn config_text(&self, demo: &DemoDirectory, port: u16) -> String {
        let mut text = format!("{CONFIG_HEAD}\n{}{CONFIG_SETTINGS}", demo.server_section(port));
        for Cluster { name, processors, .. } in CLUSTERS {
            let (root, conf) = (quoted(&demo.site(name)), quoted(&conf(name)));
            text.push_str(&format!(
                "\n[[site]]\nname = \"{name}\"\nkind = \"slurm\"\nroot = {root}\n\
                 slurm_conf = {conf}\nprocessors = {processors}\n",
            ));
        }
        text
    }

    fn program(&self, demo: &DemoDirectory) -> Option<PathBuf> {
        Some(program(demo))
    }

    fn run_as(&self, command: &mut Command) {
        let Account { name, user, group } = &self.account;
        command.uid(*user).gid(*group);
        command.env("USER", name).env("LOGNAME", name).env("HOME", BASE);
    }

    /// Read by that user: to others the file is closed, and what we read must be closed to others.
    fn token(&self, demo: &DemoDirectory) -> Result<Option<String>, QuickstartError> {
        let mut command = Command::new("cat");
        command.arg(demo.data().join("keys/admin.token"));
        self.ask(command).map(Some)
    }

    fn end(&self, _: &DemoDirectory) -> Result<(), QuickstartError> {
        CLUSTERS.iter().try_for_each(|cluster| script(&["down", cluster.name]).map(drop))
    }
}

/// Ends the clusters, and removes all that was made or installed for them.
pub(super) fn remove() -> Result<(), QuickstartError> {
    if !rustix::process::geteuid().is_root() {
        return Err(QuickstartError::NotRoot);
    }
    script(&["remove"]).map(drop)
}

fn program(demo: &DemoDirectory) -> PathBuf {
    demo.directory.join("cospan")
}

/// The configuration file of a cluster.
pub(super) fn conf(cluster: &str) -> PathBuf {
    Path::new(BASE).join(cluster).join("slurm.conf")
}

/// Runs the script. What it prints is given back; what it complains of is the error.
fn script(words: &[&str]) -> Result<String, QuickstartError> {
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT, "testbed"]).args(words).env("COSPAN_TESTBED", BASE);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(QuickstartError::file("start", "bash".as_ref()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(QuickstartError::Testbed(last.trim_start_matches("testbed: ").to_owned()))
}

fn number(what: &str, name: &str) -> Result<u32, QuickstartError> {
    let output = Command::new("id").args([what, name]).output();
    let output = output.map_err(QuickstartError::file("start", "id".as_ref()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| QuickstartError::Testbed(format!("no user is called {name}")))
}

const CONFIG_HEAD: &str = "\
# Made by `cospan quickstart --testbed`: two real clusters under Slurm, on this machine.
# `cospan config show` prints every setting with its value.
";

const CONFIG_SETTINGS: &str = "
# For impatient spectators; the defaults suit clusters with more to do.
[sites]
poll_interval = \"500ms\"
unreachable_after = \"2s\"
query_timeout = \"3s\"
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_configuration_names_two_clusters_under_slurm() {
        let home = tempfile::tempdir().unwrap();
        let demo = DemoDirectory::prepare(Some(&home.path().join("new"))).unwrap();
        let account = Account { name: "you".into(), user: 1000, group: 1000 };
        let clusters = SlurmClusters { account };
        let loaded = Config::parse(&demo.config(), &clusters.config_text(&demo, 7000)).unwrap();
        assert_eq!(loaded.config.site.len(), CLUSTERS.len());
        assert_eq!(loaded.config.site[1].slurm_conf, Some(conf("beta")));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }

    #[test]
    fn the_script_of_the_clusters_says_what_is_wrong_with_a_command() {
        let Err(QuickstartError::Testbed(why)) = script(&["fly"]) else { panic!("it flies") };
        assert!(why.contains("up") || why.contains("root"), "{why}");
    }
}
