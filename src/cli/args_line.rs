//! Arguments of `submit` that describe a job without a file.

use std::sync::Arc;

use clap::Args;
use cospan_domain::ids::{RelPath, SiteName};

use cospan_api::v1::Length;

/// A job that is given on the command line.
#[derive(Debug, Args)]
#[command(next_help_heading = "A job without a file (-- COMMAND ARGUMENTS)")]
pub(crate) struct CommandLineJobArgs {
    /// Processors of each component. [default: 1]
    #[arg(short = 'n', long, value_name = "NUMBER", conflicts_with = "files",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) processors: Option<u32>,
    /// Number of components that run the command. They start together. [default: 1, or one for each
    /// --site]
    #[arg(long, value_name = "NUMBER", conflicts_with = "files",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) components: Option<u32>,
    /// The site to run at, or several, separated by commas: one component runs at each. [default:
    /// the policy chooses]
    #[arg(
        long,
        value_name = "SITES",
        value_delimiter = ',',
        conflicts_with = "files"
    )]
    pub(crate) site: Vec<SiteName>,
    /// A file that every component finds in its work directory: a file on this machine, which is
    /// uploaded, or the logical name of a registered file. Can be repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    pub(crate) input: Vec<String>,
    /// A file that each component writes, for `cospan output`. Can be repeated.
    #[arg(long, value_name = "PATH", conflicts_with = "files")]
    pub(crate) result: Vec<RelPath>,
    /// An environment variable of the job. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "files", value_parser = parse_variable)]
    pub(crate) env: Vec<(Arc<str>, Arc<str>)>,
    /// The job's name. [default: the name of the command]
    #[arg(long, conflicts_with = "files")]
    pub(crate) name: Option<Arc<str>>,
    /// Longest time that the job may run. [default: 1h]
    #[arg(long, value_name = "DURATION", conflicts_with = "files")]
    pub(crate) wall_time: Option<Length>,
}

fn parse_variable(text: &str) -> Result<(Arc<str>, Arc<str>), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write NAME=VALUE".into()),
    }
}
