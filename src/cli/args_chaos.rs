//! Arguments of `chaos`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use cospan_api::v1::Length;

/// `chaos ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ChaosCommand {
    /// Inject faults into a running server's calls to its sites, to rehearse failures
    #[command(after_help = "\
The server's configuration must allow it (allowed = true in [chaos]), and the key must have the
role chaos (`cospan key grant NAME --role chaos`). Faults are what any site may do to its callers:
lose, delay, repeat or refuse requests and replies. They end when their time is over, at `cospan
chaos stop`, or when the server stops. Jobs stay as safe as they are without faults.

Examples:
  cospan chaos inject plan.toml --dry-run
  cospan chaos inject plan.toml --for 10m")]
    Inject(ChaosInjectArgs),
    /// Show whether faults may be injected, and which are active
    #[command(after_help = "Example:\n  cospan chaos status")]
    Status,
    /// End all injected faults at once, and report
    #[command(after_help = "Example:\n  cospan chaos stop")]
    Stop,
    /// Report the injected faults and their effects on the control plane
    #[command(after_help = "\
Reports on the running rehearsal, or on the latest since the server started.

Example:
  cospan chaos report -o json")]
    Report,
}

/// Arguments of `chaos inject`.
#[derive(Debug, Args)]
pub(crate) struct ChaosInjectArgs {
    /// The plan (TOML); `-` for standard input.
    pub(crate) plan: PathBuf,
    /// Length of the rehearsal; overrides the plan's own.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasting: Option<Length>,
    /// Only show what would run.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
