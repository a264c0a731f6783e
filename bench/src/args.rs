//! Arguments of `cospan-bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The bench to run.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Durable submissions over HTTP: rate, latency, memory with 100,000 queued jobs
    Submit(BenchArgs),
    /// Measure one user's submissions beside 200,000 jobs, or the largest dry runs, of another
    Crowd(BenchArgs),
    /// From kill -9 with 100,000 live jobs to the first placement
    Recover(BenchArgs),
    /// Local components, started to finished, compared with the bare wrapper
    Run(BenchArgs),
    /// Cost of a decision and of a scan by policy, and placement rate of the actors
    Place(BenchArgs),
    /// Reservations: queries of a timeline, co-allocation searches, reservations through the actors
    #[command(after_help = "\
Example:
  cospan-bench reserve --log SDSC-BLUE-2000-4.2-cln.swf.gz --processors 1024")]
    Reserve(LogBenchArgs),
    /// Jobs through the control plane under virtual time: rate, growth, memory
    #[command(after_help = "\
Example:
  cospan-bench simulate --log DAS2-fs1-2003-1.swf.xz --processors 144")]
    Simulate(LogBenchArgs),
    /// Two clusters under Slurm on this machine: killed, frozen, cut off and timed (root, Debian)
    #[command(after_help = "\
It starts the clusters and installs what is missing of Slurm; the server runs as an ordinary user.
It refuses where somebody else's Slurm or munge runs. It takes seven minutes; --full, an hour.
Jobs that are lost, done twice or judged wrongly are an error; slow figures are not. Ctrl-C ends the
clusters and servers first; what a run that was killed left is ended by the next one.

Example:
  sudo cospan-bench sites")]
    Sites {
        /// Run in full: 25 rounds of kills, 300 payloads, 5,000 attempts, half an hour of soak.
        #[arg(long)]
        full: bool,
    },
    /// Calls to one cluster compared with the commands that they run
    #[command(hide = true)]
    SiteCalls {
        /// A directory for this bench alone.
        #[arg(long)]
        root: PathBuf,
        /// Configuration of the cluster.
        #[arg(long)]
        conf: PathBuf,
        /// The way to log in.
        #[arg(long)]
        ssh: PathBuf,
        /// Pairs of blocks.
        #[arg(long)]
        pairs: usize,
        /// Attempts to poll.
        #[arg(long)]
        attempts: usize,
    },
    /// The floor of a submission, as a server of its own
    #[command(hide = true)]
    FloorServer {
        /// Port to listen at.
        #[arg(long)]
        port: u16,
        /// The directory of its store.
        #[arg(long)]
        directory: PathBuf,
    },
    /// Turn a store full of queued jobs into one with jobs in every phase, then kill itself
    #[command(hide = true)]
    ForgeStore {
        /// The store.
        #[arg(long)]
        directory: PathBuf,
    },
}

/// Arguments of every bench.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// A directory on a disk for the files of the bench; they are removed afterwards.
    #[arg(long, default_value = ".")]
    pub(crate) directory: PathBuf,
    /// Do a tenth of the work, to see that it runs; the figures say little.
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Arguments of benches that can use a log.
#[derive(Debug, Args)]
pub(crate) struct LogBenchArgs {
    #[command(flatten)]
    pub(crate) every: BenchArgs,
    /// A job log of one cluster (.swf, .swf.gz or .swf.xz). `simulate` runs it besides the drawn
    /// jobs; `reserve` reserves processors for them, to see how the time of a fit grows.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Processors of the cluster that wrote the log.
    #[arg(long, default_value_t = 144, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) processors: u32,
}
