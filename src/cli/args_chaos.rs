//! Arguments of `chaos`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use cospan_api::v1::Length;

/// `chaos ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ChaosCommand {
    /// Inject faults into the calls of a running server to its sites, to rehearse failures
    #[command(after_help = "\
The server's configuration must allow it (allowed = true in [chaos]), and the key must have the
role chaos (`cospan key grant NAME --role chaos`). Faults are what any site may do to its callers:
requests and replies lost, late, doubled, refused. They end by themselves when the time is over,
with `cospan chaos stop`, and with the server's process. Jobs stay as safe as they are without.

Examples:
  cospan chaos inject plan.toml --dry-run
  cospan chaos inject plan.toml --for 10m")]
    Inject(ChaosInjectArgs),
    /// Show if faults may be injected, and which are
    #[command(after_help = "Example:\n  cospan chaos status")]
    Status,
    /// End all injected faults at once, and report
    #[command(after_help = "Example:\n  cospan chaos stop")]
    Stop,
    /// Report the injected faults and their effects on the control plane
    #[command(after_help = "\
Tells of the rehearsal that runs, or of the latest one since the server's start.

Example:
  cospan chaos report -o json")]
    Report,
}

/// Arguments of `chaos inject`.
#[derive(Debug, Args)]
pub(crate) struct ChaosInjectArgs {
    /// The plan (TOML); `-` for standard input.
    pub(crate) plan: PathBuf,
    /// Length of the rehearsal; takes precedence over the plan's own value.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasting: Option<Length>,
    /// Only show what would run.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
