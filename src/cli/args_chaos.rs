//! Arguments of `chaos`.

use clap::{Args, Subcommand};

/// `chaos ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ChaosCommand {
    /// Run this program's own control plane through drawn trouble, and judge it
    #[command(after_help = "\
Nothing real is touched: sites, links, users, time and chance are simulated, the control plane is
the one that serves. Each seed draws a grid, its users, and what goes wrong: lost, late and doubled
requests and replies, refusals, false answers, dead nodes, sites and schedulers, slow and cut links,
and kills of the control plane. Then the trouble stops, and everything must come to rest. What was
really run is judged by the simulated sites' own ledger.

A seed is the same run every time. Exit code 1 if a seed broke a rule.

Examples:
  cospan chaos run --seeds 100
  cospan chaos run --first 4711 --seeds 1 --timeline")]
    Run(ChaosRunArgs),
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
    /// Sites of each run.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=5))]
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
