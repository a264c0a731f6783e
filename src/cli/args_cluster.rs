//! Arguments of the commands that access clusters themselves, without a server.

use std::path::PathBuf;

use clap::Args;

/// `site add`
#[derive(Debug, Args)]
#[command(after_help = "\
Run it as the account that runs the server. It looks at the cluster, says what it found, and adds a
[[site]] to the configuration file; what is in the file stays as it is. The server reads it when it
is started the next time. Nothing is changed at the cluster.

Examples:
  cospan site add alpha
  cospan site add alpha --ssh login.alpha.example.org --partition normal --account physics
  cospan site add alpha --ssh login.alpha.example.org --dry-run")]
pub(crate) struct SiteAddArgs {
    /// The name of the site in Cospan: letters, digits, `-`, `_` and `.`, a letter first.
    pub(crate) site: String,
    /// Host where Slurm's commands work, as your own SSH configuration knows it.
    #[arg(long, value_name = "HOST")]
    pub(crate) ssh: Option<String>,
    /// Configuration file of the SSH client, in place of the account's own.
    #[arg(long, value_name = "FILE", requires = "ssh")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// Configuration file of Slurm, there, if there are several clusters.
    #[arg(long, value_name = "FILE")]
    pub(crate) slurm_conf: Option<PathBuf>,
    /// Partition for the jobs.
    #[arg(long)]
    pub(crate) partition: Option<String>,
    /// Account that is charged.
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Quality of service.
    #[arg(long)]
    pub(crate) qos: Option<String>,
    /// Directory for Cospan on the cluster. [default: cospan-NAME in the account's home directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) root: Option<PathBuf>,
    /// Most processors that Cospan uses. [default: all of the partition]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) processors: Option<u32>,
    /// Only show what would be written.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `site check`
#[derive(Debug, Args)]
#[command(after_help = "\
Run it as the account that runs the server, whether that is up or not. A job of one processor and a
minute is submitted to see whether nodes have the site's directory. The exit code is 2 if anything
does not work.

Example:
  cospan site check alpha")]
pub(crate) struct SiteCheckArgs {
    /// The site, as the configuration names it.
    pub(crate) site: String,
}

/// `site clean`
#[derive(Debug, Args)]
#[command(after_help = "\
Removes the directories of attempts that have no job in Slurm's queue any more. Those of jobs that
the server still works on stay, whoever's they are, and those of other servers; where no server
answers, nobody knows of which, and nothing is removed. With a directory goes what its payload
printed and wrote: fetch outputs before. Copies of inputs stay.

Examples:
  cospan site clean alpha
  cospan site clean alpha --yes
  cospan site clean alpha --needed-by-nobody")]
pub(crate) struct SiteCleanArgs {
    /// The site, as the configuration names it.
    pub(crate) site: String,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Ask no server: you know that no server needs any of the files any more.
    #[arg(long)]
    pub(crate) needed_by_nobody: bool,
}
