//! Arguments of `simulate`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use cospan_domain::ids::{LogicalName, PolicyName};

use super::args_job::JobPriorityArg;
use cospan_api::v1::{Length, Size};
use cospan_simulator::simulate::workload::{ESTIMATES_TIMES_MAX, JobSize, WorkloadSplit};

/// `simulate`
#[derive(Debug, Args)]
#[command(after_help = "\
Runs the control plane of `cospan serve`, with its journal, over simulated sites and under a
simulated clock: a month takes seconds to minutes. The grid file lists sites, links, local users and
failures; the chapter \"What if: simulating\" of the book describes it. It needs no server, and
writes only below --to.

--policy, --scheduler, --rerunnable and --load-scale take several values, separated by commas. All
values run on the same jobs, and each is compared with the first. With --seeds above 1, comparisons
have 95 % confidence intervals.

It writes jobs.csv (one row for each job), summary.json, figures/*.svg and report.html. The same
options give the same jobs.csv, byte for byte.

Examples:
  cospan simulate --example
  cospan simulate grid.toml --model lublin --jobs 500
  cospan simulate grid.toml --log DAS2-fs1-2003-1.swf.xz --split above:32 --to das2
  cospan simulate grid.toml --log das2.swf --load-scale 0.8,1,1.2 --seeds 5
  cospan simulate grid.toml --model poisson --jobs 200 --interarrival 30s --scheduler easy,fcfs")]
pub(crate) struct SimulateArgs {
    /// The grid file, in TOML.
    #[arg(value_name = "GRID")]
    pub(crate) grid: Option<PathBuf>,
    /// Write an example grid to grid.toml below --to and use it; with 500 jobs of the model lublin
    /// unless you choose other jobs.
    #[arg(long, conflicts_with = "grid")]
    pub(crate) example: bool,
    /// The jobs.
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// The parameters that vary.
    #[command(flatten)]
    pub(crate) runs: SimulateRunArgs,
    /// The directory for all results; existing files of the same names are replaced.
    #[arg(long, value_name = "DIRECTORY", default_value = "simulation")]
    pub(crate) to: PathBuf,
}

/// The origin of the jobs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Jobs")]
pub(crate) struct WorkloadArgs {
    /// A job log in Standard Workload Format, plain, .gz or .xz.
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub(crate) log: Option<PathBuf>,
    /// A model of jobs instead of a log.
    #[arg(long, value_enum, requires = "jobs")]
    pub(crate) model: Option<JobModelArg>,
    /// Number of jobs: drawn from the model, or the first of the log. [default: all of the log]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    pub(crate) jobs: Option<u32>,
    /// Split of jobs into components: none, a number of components, above:N for components of at
    /// most N processors, or random for 1, 2 or 4.
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub(crate) split: SplitArg,
    /// Where users' estimates of run times come from; a job ends at its estimate at the latest.
    #[arg(long, value_enum, default_value_t = EstimatesArg::AsGiven)]
    pub(crate) estimates: EstimatesArg,
    /// Multiply all estimates by this factor, above 0 and at most 100, as if users knew less about
    /// their jobs.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_factor)]
    pub(crate) estimates_times: f64,
    /// Files of the grid that jobs read, separated by commas; each job draws one. [default: none]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) input: Vec<LogicalName>,
    /// Instead of --input: sizes of files, separated by commas. Each job draws one, and reads a
    /// file of that size that no other job reads.
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        conflicts_with = "input"
    )]
    pub(crate) input_size: Vec<Size>,
    /// With --input-size: how many sites, drawn at random, have each file.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "input_size",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replicas: u32,
    /// Slowdown of a job for each site beyond the first: with 0.2 it runs 1.4 times as long at
    /// three sites. If the slowest link between its sites has a third of the bandwidth of the
    /// grid's fastest link, the slowdown is three times as large. Users' estimates grow to the
    /// worst case.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    pub(crate) slowdown: f64,
    /// Priorities, separated by commas; each job draws one. [default: low]
    #[arg(long, value_enum, value_name = "CLASSES", value_delimiter = ',')]
    pub(crate) priority: Vec<JobPriorityArg>,
    /// Treatment of log lines that cannot be used, and of jobs that have no room.
    #[arg(long, value_enum, default_value_t = BadInputArg::Skip)]
    pub(crate) on_bad: BadInputArg,
    /// Poisson only: mean time between submissions.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) interarrival: Length,
    /// Poisson only: processors of a job, each entry equally likely; 4x9 is a job of four
    /// components of nine, whatever --split says.
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "1,2,4,8,16"
    )]
    pub(crate) sizes: Vec<JobSize>,
    /// Poisson only: the shortest run time.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub(crate) shortest: Length,
    /// Poisson only: the longest run time.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub(crate) longest: Length,
}

/// The parameters that vary.
#[derive(Debug, Args)]
#[command(next_help_heading = "Runs")]
pub(crate) struct SimulateRunArgs {
    /// Placement policies. Simulations have more than servers: the rivals of mrs in its publication
    /// (rival-backfill, rival-replication and rival-replication-cancel), and FlexCo's own model
    /// without the control plane (flexco-rigid, flexco-shift and flexco-remap). [default: as
    /// configured, else worst-fit]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) policy: Vec<PolicyName>,
    /// Let policies that can split jobs do so, mrs included. Otherwise each job has the components
    /// of --split wherever its policy can place those.
    #[arg(long)]
    pub(crate) flexible: bool,
    /// The scheduler of the batch systems at all sites. [default: as the grid file says]
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) scheduler: Vec<SchedulerArg>,
    /// Place jobs again whose site fails after they begin (yes), or let them fail (no).
    #[arg(
        long,
        value_enum,
        value_name = "YES_OR_NO",
        value_delimiter = ',',
        default_value = "yes"
    )]
    pub(crate) rerunnable: Vec<YesNoArg>,
    /// Divide the times between submissions by this: 2 doubles the load (0.001 to 1000).
    #[arg(
        long,
        value_name = "FACTORS",
        value_delimiter = ',',
        default_value = "1"
    )]
    pub(crate) load_scale: Vec<f64>,
    /// Longest time from the start of a batch job until its component is ready, drawn uniformly for
    /// each.
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub(crate) launch: Length,
    /// The first seed of all random draws.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of seeds, from the first on.
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) seeds: u32,
    /// End after this much simulated time, even if jobs still run. [default: when all jobs have
    /// ended, a year after the last submission at the latest]
    #[arg(long, value_name = "DURATION")]
    pub(crate) until: Option<Length>,
    /// Number of runs in parallel. [default: the processors of this machine]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) at_once: Option<u32>,
}

/// Parses a share from 0 to 100.
fn parse_share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=100.0).contains(share));
    share.ok_or_else(|| "write a number from 0 to 100, like 0.2".to_owned())
}

/// Parses a factor above 0, at most that of a grid file.
fn parse_factor(text: &str) -> Result<f64, String> {
    let times = text
        .parse()
        .ok()
        .filter(|times: &f64| *times > 0.0 && *times <= ESTIMATES_TIMES_MAX);
    times.ok_or_else(|| format!("write a number above 0, at most {ESTIMATES_TIMES_MAX}, like 1.25"))
}

/// A model of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobModelArg {
    /// Lublin and Feitelson: arrivals by day and night, sizes and run times of real machines.
    Lublin,
    /// Poisson arrivals; sizes and run times drawn uniformly.
    Poisson,
}

/// The origin of estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EstimatesArg {
    /// As the log says; the run time where it does not.
    AsGiven,
    /// The run time.
    Exact,
    /// The model of Tsafrir, Etsion and Feitelson; never below the run time.
    Tsafrir,
}

/// The treatment of unusable input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BadInputArg {
    /// Leave it out, count it, and report it.
    Skip,
    /// Stop at the first one.
    Refuse,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNoArg {
    /// Place them again.
    Yes,
    /// Let them fail.
    No,
}

/// The scheduling of a batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchedulerArg {
    /// First come, first served.
    Fcfs,
    /// EASY backfilling: later jobs may overtake unless that delays the first in the queue.
    Easy,
    /// Conservative backfilling: later jobs may overtake unless that delays any job before them.
    Conservative,
}

/// The split of a job into components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SplitArg(pub(crate) WorkloadSplit);

impl FromStr for SplitArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = match text.split_once(':') {
            None if text == "none" => Some(WorkloadSplit::None),
            None if text == "random" => Some(WorkloadSplit::Random),
            None => parse_number_argument(text).map(WorkloadSplit::Into),
            Some(("above", most)) => parse_number_argument(most).map(WorkloadSplit::LargerThan),
            Some(_) => None,
        };
        split.map(Self).ok_or_else(|| {
            "write none, random, a number of components like 4, or above:32 for components of at \
             most 32 processors"
                .to_owned()
        })
    }
}

fn parse_number_argument(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| *number > 0)
}
