//! Arguments of the commands about sites, files, store, keys and the installation.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::args_cluster::{SiteAddArgs, SiteCheckArgs, SiteCleanArgs};
use cospan_api::v1::Length;
use cospan_api::v1::time::Moment;
use cospan_server::keys::Role;

/// `quickstart`
#[derive(Debug, Args)]
#[command(after_help = "\
Starts a server of its own with three sites below a new directory, runs a job on them, kills one
site midway, and checks the outputs at the end. This takes less than a minute. Without --keep it
leaves nothing running, even after Ctrl-C. Exit code 0 means that the outputs are right.

Examples:
  cospan quickstart
  cospan quickstart --keep --directory ./first-steps
  sudo cospan quickstart --testbed --keep")]
pub(crate) struct QuickstartArgs {
    /// Directory for everything; must be new or empty. [default: a new temporary directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
    /// Leave the server running at the end.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Run on two real clusters under Slurm, started on this machine (root, Debian); one of them
    /// loses its controller midway.
    #[arg(long, conflicts_with = "directory")]
    pub(crate) testbed: bool,
    /// Remove everything that `--testbed` made and installed, and do nothing else.
    #[arg(long, requires = "testbed", conflicts_with = "keep")]
    pub(crate) remove: bool,
    /// Damage an output before it is checked; for tests of the check.
    #[arg(long, hide = true)]
    pub(crate) corrupt_output: bool,
}

/// `site ...`
#[derive(Debug, Subcommand)]
pub(crate) enum SiteSubcommand {
    /// List the sites with their state and load
    #[command(after_help = "Example:\n  cospan site list")]
    List,
    /// Examine a cluster under Slurm and add it to the configuration
    Add(SiteAddArgs),
    /// Examine a cluster under Slurm as the server sees it, with a remedy for every problem
    Check(SiteCheckArgs),
    /// Remove the files of ended attempts from a cluster under Slurm
    Clean(SiteCleanArgs),
    /// Show one site in full
    #[command(after_help = "\
Asks a site that grants reservations what is free when; its answer counts all that runs there or is
reserved.

Examples:
  cospan site show delft
  cospan site show delft --ahead 7d")]
    Show(SiteShowArgs),
    /// Place nothing new there; running work goes on, waiting work moves elsewhere
    #[command(after_help = "Example:\n  cospan site drain delft")]
    Drain(SiteNameArg),
    /// End a drain
    #[command(after_help = "Example:\n  cospan site undrain delft")]
    Undrain(SiteNameArg),
    /// Place nothing new there, and move nothing away
    #[command(after_help = "Example:\n  cospan site freeze delft")]
    Freeze(SiteNameArg),
    /// End a freeze
    #[command(after_help = "Example:\n  cospan site thaw delft")]
    Thaw(SiteNameArg),
    /// Forget a site's errors and use it again at once
    #[command(after_help = "Example:\n  cospan site reset delft")]
    Reset(SiteNameArg),
    /// Place nothing there that would run during a maintenance window
    #[command(
        after_help = "Times are from now on (+2h), local (\"tomorrow 18:00\", \"2026-03-01 18:00\"), or \
        RFC 3339 (2026-03-01T17:00:00Z).\nTo change a window, give the same --from again.\n\n\
        Examples:\n  \
        cospan site maintenance delft --from +2h --until +6h\n  \
        cospan site maintenance delft --from '2026-03-01 06:00' --until '2026-03-01 18:00'"
    )]
    Maintenance {
        /// The site.
        site: String,
        /// Start of the window.
        #[arg(long, value_name = "TIME")]
        from: Moment,
        /// End of the window.
        #[arg(long, value_name = "TIME")]
        until: Moment,
        /// The reason, for users to see.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Remove a maintenance window
    #[command(after_help = "Example:\n  \
        cospan site end-maintenance delft --from 2026-03-01T06:00:00Z")]
    EndMaintenance {
        /// The site.
        site: String,
        /// Start of the window.
        #[arg(long, value_name = "TIME")]
        from: Moment,
    },
    /// Force a site to be usable or unusable for a while, whatever its errors
    #[command(after_help = "Example:\n  cospan site force delft usable --lasting 1h")]
    Force {
        /// The site.
        site: String,
        /// The forced state.
        #[arg(value_enum)]
        verdict: ForcedStateArg,
        /// Time for which the site stays forced.
        #[arg(long, value_name = "DURATION")]
        lasting: Length,
    },
    /// End the forced state of a site
    #[command(after_help = "Example:\n  cospan site unforce delft")]
    Unforce(SiteNameArg),
}

/// A forced state of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForcedStateArg {
    /// Place there.
    Usable,
    /// Do not place there.
    Unusable,
}

/// `site show`
#[derive(Debug, Args)]
pub(crate) struct SiteShowArgs {
    /// The site.
    pub(crate) site: String,
    /// Time span to ask about, from now on. [default: 24h]
    #[arg(long, value_name = "LENGTH")]
    pub(crate) ahead: Option<Length>,
}

/// A site by name.
#[derive(Debug, Args)]
pub(crate) struct SiteNameArg {
    /// The site.
    pub(crate) site: String,
}

/// `file ...`
#[derive(Debug, Subcommand)]
pub(crate) enum FileSubcommand {
    /// List registered files and their replicas
    #[command(after_help = "Example:\n  cospan file list")]
    List,
    /// Show one file and where its replicas are
    #[command(after_help = "Example:\n  cospan file show genome")]
    Show {
        /// The logical name of the file.
        name: String,
    },
    /// Give a file at a site a logical name
    #[command(after_help = "\
The site reads the file once to learn its digest. Registering the same content at another site under
the same name adds a replica.

Example:
  cospan file add genome --site delft --path data/genome.fa")]
    Add {
        /// The logical name that jobs use.
        name: String,
        /// The site that has the file.
        #[arg(long)]
        site: String,
        /// Path of the file below the site's file directory.
        #[arg(long, value_name = "PATH")]
        path: String,
        /// Give the name to this content even if it has other content now; jobs already submitted
        /// keep the old content.
        #[arg(long)]
        replace: bool,
    },
    /// Upload a file from this machine to a site and give it a logical name
    #[command(after_help = "\
The file goes through the server, piece by piece. A broken connection, a restart of the server or of
this command costs only the last piece. The server checks the content before it registers the file.
`cospan file remove` also deletes it at its site.

Examples:
  cospan file upload mesh.nc
  cospan file upload results/mesh.nc --name mesh --site delft")]
    Upload {
        /// The file.
        path: PathBuf,
        /// The logical name that jobs use. [default: the file's own]
        #[arg(long)]
        name: Option<String>,
        /// The site that is to have the file. [default: one that can hold it]
        #[arg(long)]
        site: Option<String>,
        /// Give the name to this content even if it has other content now; jobs already submitted
        /// keep the old content.
        #[arg(long)]
        replace: bool,
    },
    /// List incomplete uploads, or delete one
    #[command(after_help = "\
Run `cospan file upload` or `submit` again with the same file, and the upload goes on where it
stopped. An upload that nobody continues is deleted after limits.keep_uploads.

Examples:
  cospan file uploads
  cospan file uploads --give-up 7f3a")]
    Uploads {
        /// Delete this upload; the start of its id is enough if no other id begins with it.
        #[arg(long, value_name = "ID")]
        give_up: Option<String>,
    },
    /// Remove a file from the catalogue, or one replica; only uploaded content is deleted at its
    /// site
    #[command(after_help = "Example:\n  cospan file remove genome --site delft")]
    Remove {
        /// The logical name of the file.
        name: String,
        /// Remove only the replica at this site.
        #[arg(long)]
        site: Option<String>,
        /// Remove it even if unfinished jobs read it.
        #[arg(long)]
        force: bool,
    },
}

/// `store ...`
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Show the store's engine, size and position
    #[command(after_help = "Example:\n  cospan store show")]
    Show,
    /// Write the whole store to a file, while the server runs
    #[command(after_help = "Example:\n  cospan store export backup.cospan")]
    Export {
        /// The file to write; `-` for standard output.
        file: PathBuf,
    },
    /// Fill an empty store from an export; the server must not run
    #[command(after_help = "\
The new store belongs to a new control plane, which takes over all that the export knows: running
attempts go on under their old tags. It touches nothing that the old server did later. Stop the old
server for good before you start the new one, or both will run the waiting jobs.

Example:
  cospan store import backup.cospan")]
    Import {
        /// The file to read; `-` for standard input.
        file: PathBuf,
    },
    /// Read and check every record of the store; the server must not run
    #[command(after_help = "Example:\n  cospan store check")]
    Check,
    /// Continue with a store that is lost, truncated, or an older copy; the server must not run
    #[command(after_help = "\
Says what is missing and gives it up: jobs that are not in the store are lost, and work for the
others that the store does not know is done again. The store goes on in a higher epoch, with job ids
above all that may have been given out. Look for a newer copy first; `cospan store check` says what
is missing and changes nothing.

Example:
  cospan store accept-loss")]
    AcceptLoss,
}

/// `key ...`
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key; its secret is printed once
    #[command(after_help = "\
A key has one of four ranks, each with the rights of those before it: `reader` reads, `user` submits
jobs and manages its own jobs and files, `operator` manages sites (drain, freeze, reset),
`administrator` manages the jobs and files of every key, and the store. `chaos` and `priority` come
on top of a rank.

Examples:
  cospan key add alice
  cospan key add dashboard --role reader
  cospan key add drill --role chaos")]
    Add {
        /// The name of the key, which owns the jobs submitted with it.
        name: String,
        /// A role of the key; without a rank, the key is a user. Can be repeated.
        #[arg(long = "role", value_enum, value_name = "ROLE")]
        roles: Vec<RoleArg>,
    },
    /// List the keys by name
    #[command(after_help = "Example:\n  cospan key list")]
    List,
    /// Give a key a role; it takes effect within server.key_refresh (default 250ms)
    #[command(after_help = "\
A rank replaces the one that the key has, whether higher or lower.

Examples:
  cospan key grant alice --role operator
  cospan key grant alice --role chaos")]
    Grant(KeyRoleArgs),
    /// Remove a role from a key; it takes effect within server.key_refresh (default 250ms)
    #[command(after_help = "Example:\n  cospan key revoke alice --role chaos")]
    Revoke(KeyRoleArgs),
    /// Remove a key; its jobs go on
    #[command(after_help = "Example:\n  cospan key remove alice")]
    Remove {
        /// The key.
        name: String,
    },
}

/// Arguments of `key grant` and `key revoke`.
#[derive(Debug, Args)]
pub(crate) struct KeyRoleArgs {
    /// The key's name.
    pub(crate) name: String,
    /// The role.
    #[arg(long, value_enum)]
    pub(crate) role: RoleArg,
}

/// A role of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Only read.
    Reader,
    /// Also submit jobs, register files, and manage its own.
    User,
    /// Also manage sites: drain, freeze, reset.
    Operator,
    /// Also manage the jobs and files of every key, and the store.
    Administrator,
    /// Inject faults on purpose.
    Chaos,
    /// Give jobs any priority, whatever the configured rules say.
    Priority,
}

impl RoleArg {
    /// Converts it into the role.
    pub(crate) fn role(self) -> Role {
        match self {
            RoleArg::Reader => Role::Reader,
            RoleArg::User => Role::User,
            RoleArg::Operator => Role::Operator,
            RoleArg::Administrator => Role::Administrator,
            RoleArg::Chaos => Role::Chaos,
            RoleArg::Priority => Role::Priority,
        }
    }
}

/// `doctor`
#[derive(Debug, Args)]
#[command(after_help = "\
Checks what usually goes wrong, and says what to do. The bundle contains versions, configuration,
sites, metrics and checks, but no secrets. Read it before you send it to anybody.

Examples:
  cospan doctor
  cospan doctor --bundle cospan-support.json")]
pub(crate) struct DoctorArgs {
    /// Also write everything to this file (JSON).
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
}

/// `config ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration and print every problem
    #[command(after_help = "Example:\n  cospan config check --config cospan.toml")]
    Check,
    /// Print the configuration in effect, defaults marked, secrets hidden
    #[command(after_help = "Example:\n  cospan config show > cospan.toml")]
    Show {
        /// Leave out the description of each option.
        #[arg(long)]
        brief: bool,
    },
    /// Write a configuration to begin with: one local site, on this machine
    #[command(after_help = "\
An existing file is never changed. Without FILE it goes where the program looks for it: to --config
or COSPAN_CONFIG, else to cospan/cospan.toml below $XDG_CONFIG_HOME or ~/.config.

Examples:
  cospan config init
  cospan config init ./cospan.toml")]
    Init {
        /// The file to write.
        file: Option<PathBuf>,
    },
    /// Print the reference of all options for the book
    #[command(hide = true)]
    Reference,
}

/// `man`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cospan man | man -l -
  cospan man --to /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write a page for the program and one for each command into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) to: Option<PathBuf>,
}

/// `completion`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cospan completion bash > ~/.local/share/bash-completion/completions/cospan
  cospan completion zsh > ~/.zfunc/_cospan
  cospan completion fish > ~/.config/fish/completions/cospan.fish")]
pub(crate) struct CompletionArgs {
    /// The shell.
    pub(crate) shell: Shell,
}
