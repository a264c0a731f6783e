//! The clusters of the demonstration, and the server that drives them as an ordinary user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::super::demo_directory::{DemoDirectory, DemoSites, quote_path};
use super::super::quickstart_error::QuickstartError;
use cospan_sites::slurm_testbed::{Testbed, TestbedAccount, TestbedCluster, capture_output};

/// The clusters. Neither can hold the whole job.
pub(super) const CLUSTERS: [TestbedCluster; 2] = [
    TestbedCluster {
        name: "alpha",
        processors: 8,
        port: 27_610,
    },
    TestbedCluster {
        name: "beta",
        processors: 8,
        port: 27_620,
    },
];

/// Directory of all files.
const BASE: &str = "/var/tmp/cospan-quickstart";

/// The clusters, and the account that the server runs as.
#[derive(Debug, Clone)]
pub(super) struct SlurmClusters {
    testbed: Testbed,
    account: TestbedAccount,
}

impl SlurmClusters {
    /// Checks that the clusters can be started here, and creates the user.
    pub(super) fn prepare() -> Result<Self, QuickstartError> {
        let testbed = Testbed::below(BASE)?;
        testbed.check_free()?;
        let account = testbed.ensure_account()?;
        Ok(Self { testbed, account })
    }

    /// Starts the parts of a cluster that do not run.
    pub(super) fn start_cluster(&self, cluster: TestbedCluster) -> Result<(), QuickstartError> {
        Ok(self.testbed.start_cluster(cluster)?)
    }

    /// Kills the controller of a cluster.
    pub(super) fn kill_controller(&self, cluster: &str) -> Result<(), QuickstartError> {
        Ok(self.testbed.kill_controller(cluster)?)
    }

    /// Runs a command of Slurm on a cluster as that user; returns its output, or the reason of its
    /// failure.
    pub(super) fn run_slurm(
        &self,
        cluster: &str,
        command: &[&str],
    ) -> Result<String, QuickstartError> {
        let mut asked = Command::new(command[0]);
        asked
            .args(&command[1..])
            .env("SLURM_CONF", self.conf_file(cluster));
        self.run_as_user(asked)
    }

    /// Runs a command as that user; returns its output, or the reason of its failure.
    fn run_as_user(&self, mut command: Command) -> Result<String, QuickstartError> {
        self.run_as(&mut command);
        Ok(capture_output(&mut command)?.unwrap_or_else(|why| why))
    }

    /// Creates a new directory for the server.
    pub(super) fn create_directory(&self) -> Result<PathBuf, QuickstartError> {
        let directory = self.testbed.base_directory().join("cospan");
        if directory.exists() {
            cospan_sites::remove_tree(&directory)
                .map_err(QuickstartError::file_error("clear", &directory))?;
        }
        fs::create_dir_all(&directory).map_err(QuickstartError::file_error("make", &directory))?;
        Ok(directory)
    }

    /// Copies this program to where that user can read it, and hands the directory over.
    pub(super) fn hand_directory_over(&self, demo: &DemoDirectory) -> Result<(), QuickstartError> {
        let here = std::env::current_exe().map_err(QuickstartError::file_error(
            "find",
            "this program's file".as_ref(),
        ))?;
        let copy = program_path(demo);
        fs::copy(&here, &copy).map_err(QuickstartError::file_error("write", &copy))?;
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&copy, executable)
            .map_err(QuickstartError::file_error("change", &copy))?;
        let owned = self.account.chown_file(&demo.directory);
        owned.map_err(QuickstartError::file_error("hand over", &demo.directory))
    }

    pub(super) fn user_name(&self) -> &str {
        &self.account.name
    }

    /// The configuration file of a cluster.
    pub(super) fn conf_file(&self, cluster: &str) -> PathBuf {
        self.testbed.config_file_path(cluster)
    }
}

impl DemoSites for SlurmClusters {
    fn config_text(&self, demo: &DemoDirectory, port: u16) -> String {
        config_text(demo, port, |cluster| self.conf_file(cluster))
    }

    fn server_program(&self, demo: &DemoDirectory) -> Option<PathBuf> {
        Some(program_path(demo))
    }

    fn run_as(&self, command: &mut Command) {
        self.account.run_as(command, self.testbed.base_directory());
    }

    /// Reads the token as that user: the file is closed to others, and our copy must be, too.
    fn admin_token(&self, demo: &DemoDirectory) -> Result<Option<String>, QuickstartError> {
        let mut command = Command::new("cat");
        command.arg(demo.data_directory().join("keys/admin.token"));
        self.run_as_user(command).map(Some)
    }

    fn end_sites(&self, _: &DemoDirectory) -> Result<(), QuickstartError> {
        CLUSTERS
            .iter()
            .try_for_each(|cluster| Ok(self.testbed.end_cluster(cluster.name)?))
    }
}

/// Ends the clusters, and removes all that was made or installed for them.
pub(super) fn remove_testbed() -> Result<(), QuickstartError> {
    Ok(Testbed::below(BASE)?.remove_everything()?)
}

fn program_path(demo: &DemoDirectory) -> PathBuf {
    demo.directory.join("cospan")
}

fn config_text(demo: &DemoDirectory, port: u16, conf: impl Fn(&str) -> PathBuf) -> String {
    let mut text = format!(
        "{CONFIG_HEAD}\n{}{CONFIG_SETTINGS}",
        demo.server_section(port)
    );
    for TestbedCluster {
        name, processors, ..
    } in CLUSTERS
    {
        let root = quote_path(&demo.site_root(name));
        let conf = quote_path(&conf(name));
        text.push_str(&format!(
            "\n[[site]]\nname = \"{name}\"\nkind = \"slurm\"\nroot = {root}\n\
             slurm_conf = {conf}\nprocessors = {processors}\n",
        ));
    }
    let [one, other] = CLUSTERS.map(|cluster| cluster.name);
    text.push_str(&format!(
        "\n[[link]]\nfrom = \"{one}\"\nto = \"{other}\"\nbandwidth = \"1Gbit/s\"\n"
    ));
    text
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
    use cospan_server::config::Config;

    #[test]
    fn the_configuration_names_two_clusters_under_slurm() {
        let home = tempfile::tempdir().unwrap();
        let demo = DemoDirectory::prepare(Some(&home.path().join("new"))).unwrap();
        let text = config_text(&demo, 7000, |cluster| {
            format!("/clusters/{cluster}.conf").into()
        });
        let loaded = Config::parse(&demo.config_file(), &text).unwrap();
        assert_eq!(loaded.config.site.len(), CLUSTERS.len());
        assert_eq!(
            loaded.config.site[1].slurm_conf,
            Some("/clusters/beta.conf".into())
        );
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    }
}
