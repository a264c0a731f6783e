//! Arguments of the commands about jobs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cospan_domain::ids::ReservationName;

use super::args_line::CommandLineJobArgs;
use super::ids::JobIdList;
use cospan_api::v1::Length;
use cospan_api::v1::commands::StateName;
use cospan_api::v1::reservation::Wanted;
use cospan_api::v1::time::Moment;
use cospan_client::JobFilter;

/// `submit`
#[derive(Debug, Args)]
#[command(after_help = "\
A job file is TOML, JSON or YAML, recognized by its name or content; `-` reads standard input. JSON
and YAML files may hold a list of jobs. Several jobs are accepted all together or not at all.

If the program of a component fails, the job fails; with max_retries in the file, the whole job
starts over, and with restart_scope = \"component\" only that component, while the others go on. All
keys of a file are in docs/src/guide/job-files.md.

A file that begins with `#!` is a Slurm batch script: Cospan reads its #SBATCH lines as sbatch does,
and names each option that it refuses. See docs/src/guide/sbatch.md.

Without a file, each component runs the command after `--`: an absolute path at its site, a name in
PATH there, or a relative path like ./run.sh to a file here, which is uploaded.

Examples:
  cospan submit job.toml
  cospan submit -n 4 --wait -- hostname
  cospan submit --input mesh.nc --result out.nc -- ./solve.sh --steps 100
  cospan submit --workdir case -- ./solve.sh run.toml      all that is in case/
  cospan submit job.sh                   a batch script as it is
  cospan submit job.sh -- case.dat 7     with arguments of its own
  cospan submit job.yaml --wait
  generate-jobs | cospan submit - --idempotency-key run-2026-03-01
  cospan submit job.toml --dry-run       check it and see where it would go now")]
pub(crate) struct SubmitArgs {
    /// Job files or batch scripts; `-` for standard input.
    #[arg(required_unless_present = "words", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Arguments of a batch script, or without a file a command and its arguments.
    #[arg(last = true, value_name = "COMMAND OR ARGUMENT")]
    pub(crate) words: Vec<String>,
    /// The job, if there is no file.
    #[command(flatten)]
    pub(crate) line: CommandLineJobArgs,
    /// A directory of this machine: each component finds all that is in it in its work directory. It
    /// is packed, uploaded, and unpacked before the program starts.
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// Check the jobs and show where they would go now, but submit nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Wait until all jobs have ended; the exit code says how.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    /// With --wait: give up waiting after this time (exit code 6); the jobs go on.
    #[arg(long, requires = "wait", value_name = "DURATION")]
    pub(crate) timeout: Option<Length>,
    /// Reserve a start for each job, or refuse it: `tomorrow 09:00`, `2026-11-27 09:00`, `in 2h`.
    /// Without a zone it is local time. Replaces `[reservation]` in the job file; components with
    /// `start_after` begin that much later.
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Option<Moment>,
    /// With --start: the latest start, how long after the earliest.
    #[arg(long, requires = "start", value_name = "DURATION")]
    pub(crate) within: Option<Length>,
    /// Reserve a start for each job, or not: `if-needed` claims idle processors first, and asks
    /// sites for a reservation once claims have failed for --reserve-after. Replaces `wanted` in
    /// `[reservation]`.
    #[arg(long, value_enum, conflicts_with = "reservation", value_name = "WHEN")]
    pub(crate) reserve: Option<Wanted>,
    /// With --reserve if-needed: how long claims may fail before sites are asked. [default: 10m, or
    /// half the time until the latest start]
    #[arg(long, requires = "reserve", value_name = "DURATION")]
    pub(crate) reserve_after: Option<Length>,
    /// Run each job on the processors of this shared reservation, with others that name it.
    /// Replaces `[reservation]` in the job file.
    #[arg(long, conflicts_with = "start", value_name = "NAME")]
    pub(crate) reservation: Option<ReservationName>,
    /// Run each job again after an error of its own, or after it put itself back into the queue
    /// (`scontrol requeue`), at most this often. [default: as the job file says; a script: 0]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_retries: Option<u32>,
    /// Accept a job even if no known site could ever hold it.
    #[arg(long)]
    pub(crate) allow_unplaceable: bool,
    /// Refuse a job that names a site which accepts no jobs now, instead of waiting for that site.
    #[arg(long)]
    pub(crate) refuse_closed: bool,
    /// A name for this submission: submitting the same jobs again under it returns the first ones,
    /// and makes no new ones. [default: a random one, so that a lost answer never makes a second
    /// job]
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

/// A filter for a list or a report of jobs.
#[derive(Debug, Args)]
pub(crate) struct JobFilterArgs {
    /// Only jobs in this state: queued, placed, claiming, starting, running, collecting, aborting,
    /// finished, failed or cancelled.
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<StateName>,
    /// Only jobs with a component at this site.
    #[arg(long)]
    pub(crate) site: Option<String>,
    /// Only jobs submitted with this key.
    #[arg(long, value_name = "KEY-NAME")]
    pub(crate) owner: Option<String>,
    /// Only jobs with this text in their name.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only the runs of the sweep that begins with this job.
    #[arg(long, value_name = "ID")]
    pub(crate) group: Option<u64>,
}

impl JobFilterArgs {
    /// Converts the filter for the server: jobs after this one, with this many on a page.
    pub(crate) fn to_job_filter(&self, after: Option<u64>, limit: u32) -> JobFilter {
        JobFilter {
            state: self.state.map(|state| state.to_string()),
            site: self.site.clone(),
            owner: self.owner.clone(),
            name: self.name.clone(),
            group: self.group,
            after,
            limit,
        }
    }
}

/// `list`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cospan list                            the newest 50
  cospan list --state running --site delft
  cospan list --group 12 --all           the runs of a sweep
  cospan list --all -o json              every job, page after page
  cospan list --after 4711               the next page")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) only: JobFilterArgs,
    /// Most jobs on a page.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Only jobs after this one in the list.
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    pub(crate) after: Option<u64>,
    /// Every page.
    #[arg(long)]
    pub(crate) all: bool,
}

/// `report`
#[derive(Debug, Args)]
#[command(after_help = "\
Writes one row for each job, by number, archived jobs included. Times are RFC 3339, durations are in
milliseconds; what is not known yet is empty.

  placement_time     in the placement queue, at its latest visit (total_: all visits)
  queue_time         submission to latest placement
  wait_time          submission to start
  start_overhead     latest placement to start
  start_delay        latest estimated start less the first
  gained_time        latest placement to claim
  gained_processor   of rounds that started: processors x time from placement to the
                     claim, less what was claimed in between and given back
  wasted_processor   processors x time held without running, also in rounds that failed
  execution_time     start to the end of the last payload
  response_time      submission to end
  group, parameters  of a run of a sweep: the sweep, and its values, with blanks in between

Examples:
  cospan report > jobs.csv
  cospan report --state finished --owner alice
  cospan report -o json")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) only: JobFilterArgs,
    /// Only jobs after this number, to continue an earlier report.
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<u64>,
}

/// `show`
#[derive(Debug, Args)]
#[command(after_help = "\
Shows where each component is, what it waits for, the job's history, and who did what to it.
For a sweep as a whole (group:ID, or last), it shows how many runs are in each state.

Examples:
  cospan show last
  cospan show group:12
  cospan show 12-14 -o json")]
pub(crate) struct ShowArgs {
    /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12.
    #[arg(required = true, value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
    /// Without the history.
    #[arg(long)]
    pub(crate) brief: bool,
}

/// `explain`
#[derive(Debug, Args)]
#[command(after_help = "\
For a waiting job, lists every site and what keeps the job from it; for a placed job, says why it
went there.

Where there are many verdicts, it sums up those with the same code; `-o json` lists each, and so
does --limit, page by page.

Examples:
  cospan explain last
  cospan explain 7 --limit 20 --after 40")]
pub(crate) struct ExplainArgs {
    /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12.
    #[arg(required = true, value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
    /// Explain at most this many components, site by site.
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<u64>,
    /// Explain only components after the first N.
    #[arg(long, value_name = "COUNT")]
    pub(crate) after: Option<u64>,
}

/// `map`
#[derive(Debug, Args)]
#[command(after_help = "\
Draws sites as points, with the job at the origin: x is what a site lacks, y what the job's input
costs there. The nearest site that has room is chosen. Only for jobs under the policy mrs.

Examples:
  cospan map last
  cospan map 12 --svg map.svg")]
pub(crate) struct VirtualMapArgs {
    /// The job: 12, last.
    #[arg(value_name = "ID")]
    pub(crate) id: JobIdList,
    /// Also draw it into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `wait`
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 all finished, 1 one failed, 5 one was cancelled (and none failed), 6 timed out.
For more than ten jobs, one line shows the progress of all; at the end come those that failed, with
what they printed last.
Waiting changes nothing: interrupt it and wait again whenever you like.

Examples:
  cospan wait last
  cospan wait 7 8 9
  cospan wait 12-20 --timeout 1h30m
  cospan wait group:12                   every run of a sweep
  cospan wait 12-20 --any                until the first has ended")]
pub(crate) struct WaitArgs {
    /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12.
    #[arg(required = true, value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
    /// Wait only until the first of them has ended.
    #[arg(long)]
    pub(crate) any: bool,
    /// Give up waiting after this time (exit code 6).
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<Length>,
}

/// `logs`
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the standard output of payloads to standard output, then their standard error to standard
error, with `stderr` in front of each line. Without --component it prints all components. A line
begins with the name of its component if there are several, and with the number of its job if
several jobs are named. One stream of one component is printed unchanged.

Examples:
  cospan logs last
  cospan logs last -f                    follow until the job has ended
  cospan logs group:12 --stream stdout   every run of a sweep
  cospan logs 12 --component solver --stream stderr --tail 4kB")]
pub(crate) struct LogsArgs {
    /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12.
    #[arg(required = true, value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
    /// Only this component.
    #[arg(long, value_name = "NAME")]
    pub(crate) component: Option<String>,
    /// Only this stream.
    #[arg(long, value_enum)]
    pub(crate) stream: Option<StreamArg>,
    /// Keep printing new output until the job has ended.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Begin at this many bytes before the end, instead of at the beginning.
    #[arg(long, value_name = "SIZE")]
    pub(crate) tail: Option<cospan_api::v1::Size>,
}

/// A stream of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamArg {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl StreamArg {
    /// Returns the name that the server uses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            StreamArg::Stdout => "stdout",
            StreamArg::Stderr => "stderr",
        }
    }
}

/// `output`
#[derive(Debug, Args)]
#[command(after_help = "\
Puts each file below DIRECTORY/COMPONENT/, for several jobs below DIRECTORY/job-ID/COMPONENT/, whole
or not at all. The folder of a run of a sweep has its parameters too: job-12,size=64. Without
--overwrite, a different file that is already there stays as it is, and the exit code is 2. Sites
delete outputs that nobody fetched after store.keep_attempts (default 7d).

Examples:
  cospan output last
  cospan output group:12 --to results    every run of a sweep
  cospan output 12 --to results --component solver")]
pub(crate) struct OutputArgs {
    /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12.
    #[arg(required = true, value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
    /// Directory for the files. [default: job-ID, and for several jobs the current directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) to: Option<PathBuf>,
    /// Only outputs of this component.
    #[arg(long, value_name = "NAME")]
    pub(crate) component: Option<String>,
    /// Replace files that are already there.
    #[arg(long, visible_alias = "replace")]
    pub(crate) overwrite: bool,
}

/// `rerun`
#[derive(Debug, Args)]
#[command(after_help = "\
Each job is submitted as it was the first time, with the input that it had then, and gets a number
of its own. Runs of a sweep keep their numbers and parameters, and make a new sweep.

Examples:
  cospan rerun last
  cospan rerun group:12 --failed         the runs of a sweep that failed
  cospan rerun 12 15 --wait")]
pub(crate) struct RerunArgs {
    /// Jobs of one sweep, or of none: 1 3 5-8 or 1,3,5-8; last, group:12.
    #[arg(required = true, value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
    /// Of these jobs only those that failed.
    #[arg(long)]
    pub(crate) failed: bool,
    /// Wait until all new jobs have ended; the exit code says how.
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: give up waiting after this time (exit code 6); the jobs go on.
    #[arg(long, requires = "wait", value_name = "DURATION")]
    pub(crate) timeout: Option<Length>,
}

/// `cancel`
#[derive(Debug, Args)]
#[command(after_help = "\
Ends what runs; jobs that have already ended stay as they are. A cancelled job can be shown, but not
continued.

Examples:
  cospan cancel 12
  cospan cancel 12 15-20
  cospan cancel group:12                 every run of a sweep
  cospan cancel all --site delft         every job that has a component there
  cospan cancel --abandon 12             do not wait for a site that is gone for good")]
pub(crate) struct CancelArgs {
    /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12.
    #[arg(required_unless_present = "all", value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
    /// All unfinished jobs that match --site and --owner, as with the word `all`.
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
    /// With `all`: only jobs with a component that is placed, claiming or running at this site. Jobs
    /// that wait for a placement stay, even those that can go nowhere else.
    #[arg(long)]
    pub(crate) site: Option<String>,
    /// With `all`: only jobs submitted with this key.
    #[arg(long, value_name = "KEY-NAME")]
    pub(crate) owner: Option<String>,
    /// Abandon components at sites that do not answer or left the configuration. They may still run
    /// there, and are ended if the site ever answers again.
    #[arg(long)]
    pub(crate) abandon: bool,
}

/// `freeze`, `thaw`, `release`
#[derive(Debug, Args)]
pub(crate) struct JobCommandArgs {
    /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12.
    #[arg(required = true, value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
}

/// `priority`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cospan priority 12-20 high")]
pub(crate) struct PriorityArgs {
    /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12.
    #[arg(required = true, value_name = "IDS")]
    pub(crate) ids: Vec<JobIdList>,
    /// The new priority.
    #[arg(value_enum)]
    pub(crate) class: JobPriorityArg,
}

/// The priority of a job: its placement queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobPriorityArg {
    /// Scanned first.
    SuperHigh,
    /// Promoted after enough failed tries.
    High,
    /// Promoted after enough failed tries.
    Low,
    /// Never preempts, and is never promoted.
    SuperLow,
}
