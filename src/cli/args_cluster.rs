//! Arguments of the commands that access clusters themselves, without a server.

use std::path::PathBuf;

use clap::Args;

/// `site add`
#[derive(Debug, Args)]
#[command(after_help = "\
Run it as the account that runs the server. It examines the cluster, reports what it finds, and adds
a [[site]] to the configuration file; the rest of the file stays as it is. The server reads the file
at its next start. Nothing changes at the cluster.

Examples:
  cospan site add alpha
  cospan site add alpha --ssh login.alpha.example.org --partition normal --account physics
  cospan site add alpha --ssh login.alpha.example.org --dry-run")]
pub(crate) struct SiteAddArgs {
    /// The name of the site in Cospan: letters, digits, `-`, `_` and `.`, a letter first.
    pub(crate) site: String,
    /// Host where Slurm's commands work, by its name in your SSH configuration.
    #[arg(long, value_name = "HOST")]
    pub(crate) ssh: Option<String>,
    /// Configuration file of the SSH client, in place of the account's own.
    #[arg(long, value_name = "FILE", requires = "ssh")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// Slurm's configuration file on that host, if it serves several clusters.
    #[arg(long, value_name = "FILE")]
    pub(crate) slurm_conf: Option<PathBuf>,
    /// Partition for the jobs.
    #[arg(long)]
    pub(crate) partition: Option<String>,
    /// Account to charge.
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Quality of service.
    #[arg(long)]
    pub(crate) qos: Option<String>,
    /// Directory for Cospan on the cluster. [default: cospan-NAME in the account's home directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) root: Option<PathBuf>,
    /// Most processors that Cospan may use. [default: all of the partition]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) processors: Option<u32>,
    /// Only show what would be written.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `site check`
#[derive(Debug, Args)]
#[command(after_help = "\
Run it as the account that runs the server; the server need not be up. It submits a job of one
processor and one minute to see whether the nodes have the site's directory. The exit code is 2 if
anything does not work.

Example:
  cospan site check alpha")]
pub(crate) struct SiteCheckArgs {
    /// The site, as the configuration names it.
    pub(crate) site: String,
}

/// `site clean`
#[derive(Debug, Args)]
#[command(after_help = "\
Removes the directories of attempts that no longer have a job in Slurm's queue. It keeps those of
jobs that the server still works on, whoever owns them, and those of other servers. If no server
answers, it removes nothing, as it cannot know what is still needed. What a payload printed and
wrote goes with its directory, so fetch outputs first. Copies of inputs stay.

Examples:
  cospan site clean alpha
  cospan site clean alpha --yes
  cospan site clean alpha --needed-by-nobody")]
pub(crate) struct SiteCleanArgs {
    /// The site, as the configuration names it.
    pub(crate) site: String,
    /// Remove without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Ask no server: you are sure that none needs the files any more.
    #[arg(long)]
    pub(crate) needed_by_nobody: bool,
}
