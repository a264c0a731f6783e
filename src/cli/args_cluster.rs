//! Arguments of the commands that access clusters themselves, without a server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use cospan_server::config::sections::SiteKind;
use cospan_server::site_kinds::list_kind_options;

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
    /// Kind of the site.
    #[arg(long, default_value = "slurm", value_name = "KIND",
        value_parser = site_kind_parser())]
    pub(crate) kind: SiteKind,
    /// Host where the cluster's commands work, by its name in your SSH configuration.
    #[arg(long, value_name = "HOST")]
    pub(crate) ssh: Option<String>,
    /// Configuration file of the SSH client, in place of the account's own.
    #[arg(long, value_name = "FILE", requires = "ssh")]
    pub(crate) ssh_config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) of_kind: KindOptionArgs,
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

fn site_kind_parser() -> impl TypedValueParser<Value = SiteKind> {
    let words = SiteKind::ALL.iter().map(|kind| kind.word());
    PossibleValuesParser::new(words).try_map(parse_site_kind)
}

fn parse_site_kind(word: String) -> Result<SiteKind, String> {
    SiteKind::from_word(&word).ok_or_else(|| format!("there is no kind of site {word:?}"))
}

/// The options that not every kind of site has: the kinds say which, and what they are for.
#[derive(Debug, Clone, Default)]
pub(crate) struct KindOptionArgs {
    /// Values that are given, by the keys of the configuration.
    pub(crate) given: BTreeMap<&'static str, String>,
}

impl Args for KindOptionArgs {
    fn augment_args(command: Command) -> Command {
        let mut command = command;
        for option in list_kind_options() {
            let arg = Arg::new(option.key)
                .long(option.flag)
                .value_name(option.value_name)
                .help(option.help);
            command = command.arg(if option.is_path {
                arg.value_parser(value_parser!(PathBuf))
            } else {
                arg.value_parser(value_parser!(String))
            });
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KindOptionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut read = Self::default();
        read.update_from_arg_matches(matches)?;
        Ok(read)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in list_kind_options() {
            let value = if option.is_path {
                let path = matches.get_one::<PathBuf>(option.key);
                path.map(|path| path.display().to_string())
            } else {
                matches.get_one::<String>(option.key).cloned()
            };
            if let Some(value) = value {
                self.given.insert(option.key, value);
            }
        }
        Ok(())
    }
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
