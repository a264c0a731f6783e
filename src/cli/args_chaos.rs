//! Arguments of `chaos`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::api::v1::Length;

/// `chaos ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ChaosCommand {
    /// Run this program's own control plane through drawn trouble, and judge it
    #[command(after_help = "\
Nothing real is touched: sites, links, users, time and chance are simulated, the control plane is
the one that serves. Each seed draws a grid, its users, and what goes wrong: lost, late and doubled
requests and replies, refusals, false, stale and unreadable answers, panics, dead nodes, sites and
schedulers, frozen sites, lost access, wrong clocks, slow, cut, flapping and corrupting links, a slow
and failing disk, and kills of the control plane. Then the trouble stops, and everything must come to rest. What was
really run is judged by the simulated sites' own ledger.

A seed is the same run every time. Exit code 1 if a seed broke a rule.

Examples:
  cospan chaos run --seeds 100
  cospan chaos run --first 4711 --seeds 1 --timeline")]
    Run(ChaosRunArgs),
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
    /// Say whether faults may be injected, and which are
    #[command(after_help = "Example:\n  cospan chaos status")]
    Status,
    /// End all injected faults at once, and report
    #[command(after_help = "Example:\n  cospan chaos stop")]
    Stop,
    /// Say what was injected, and what the control plane did
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
    /// How long the rehearsal takes; wins over what the plan says.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasting: Option<Length>,
    /// Only say what would run.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `chaos run`.
#[derive(Debug, Args)]
pub(crate) struct ChaosRunArgs {
    /// How many seeds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The first seed; the others follow. [default: drawn, and printed]
    #[arg(long)]
    pub(crate) first: Option<u64>,
    /// Jobs of each run.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) jobs: u64,
    /// Sites of each run: with one alone nobody could tell its silence from our own.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=5))]
    pub(crate) sites: u64,
    /// How long things go wrong, in simulated hours.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8_760))]
    pub(crate) hours: u64,
    /// Seeds at the same time. [default: one for each processor]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pub(crate) at_once: Option<u64>,
    /// Print what happened to each job of a seed that broke a rule, or of the only seed.
    #[arg(long)]
    pub(crate) timeline: bool,
}
