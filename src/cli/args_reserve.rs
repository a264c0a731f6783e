//! Arguments of the commands about reservations.

use std::str::FromStr;

use clap::{Args, Subcommand};
use cospan_domain::ids::{ReservationName, SiteName};

use super::args_job::JobFilterArgs;
use super::ids::JobIdList;
use cospan_api::v1::Length;
use cospan_api::v1::time::Moment;

/// `slots`
#[derive(Debug, Args)]
#[command(after_help = "\
Asks the sites that grant reservations what is free; nothing is reserved. `cospan submit --start`
gets a start that is shown here unless somebody else takes it first.

Examples:
  cospan slots --processors 300 --for 4h
  cospan slots --processors 16 --components 4 --for 30m --start 'tomorrow 09:00' --within 2h
  cospan slots --processors 8 --for 1h --site delft -o json")]
pub(crate) struct SlotsArgs {
    /// Processors of each component.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) processors: u32,
    /// Wall time of the components.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) wall_time: Length,
    /// Number of components that start together. [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) components: Option<u32>,
    /// The earliest start: `tomorrow 09:00`, `2026-11-27 09:00`, `in 2h`. [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Option<Moment>,
    /// The latest start: how long after the earliest. [default: 7d]
    #[arg(long, value_name = "DURATION")]
    pub(crate) within: Option<Length>,
    /// Only this site.
    #[arg(long)]
    pub(crate) site: Option<String>,
    /// Most windows to show for each site. [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: Option<u32>,
}

/// Reservations of jobs, or a shared reservation by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReservationTarget {
    /// Jobs.
    Jobs(JobIdList),
    /// A shared reservation.
    Shared(ReservationName),
}

impl FromStr for ReservationTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse(), text.parse()) {
            (Ok(ids), _) => Ok(Self::Jobs(ids)),
            (Err(_), Ok(name)) => Ok(Self::Shared(name)),
            (Err(problem), Err(_)) => Err(problem),
        }
    }
}

/// `reservation create`
#[derive(Debug, Args)]
pub(crate) struct ReservationCreateArgs {
    /// The name by which jobs refer to the reservation.
    pub(crate) name: ReservationName,
    /// The sites of the reservation, each optionally with its processors. All reserve for the same
    /// time, or none does.
    #[arg(long, value_name = "SITE[=N]", num_args = 1.., value_delimiter = ',', required = true)]
    pub(crate) site: Vec<SiteProcessorsArg>,
    /// Processors at each site that is given without a number; all jobs that run at the same time
    /// share them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) processors: Option<u32>,
    /// The earliest start: `tomorrow 09:00`, `2026-11-27 09:00`, `in 2h`. [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Option<Moment>,
    /// The latest start: how long after the earliest.
    #[arg(long, value_name = "DURATION")]
    pub(crate) within: Option<Length>,
    /// Length of the reservation.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasts: Length,
    /// Keys whose jobs may use it. [default: all keys]
    #[arg(long, value_name = "KEY", num_args = 1.., value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
    /// Longest time between the starts at several sites. [default: 1m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) tolerance: Option<Length>,
}

/// A site, and the processors that it is to reserve: `delft`, `delft=16`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteProcessorsArg {
    pub(crate) site: SiteName,
    pub(crate) processors: Option<u32>,
}

impl FromStr for SiteProcessorsArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (site, processors) = match text.split_once('=') {
            Some((site, count)) => {
                let count = count.parse().ok().filter(|count| *count > 0);
                (
                    site,
                    Some(count.ok_or_else(|| {
                        format!("write it as {site}=N, with N processors, at least 1")
                    })?),
                )
            }
            None => (text, None),
        };
        let site = site.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { site, processors })
    }
}

/// The arguments that name keys.
const CHANGES: [&str; 3] = ["add", "remove", "only"];

/// `reservation allow`
#[derive(Debug, Args)]
pub(crate) struct ReservationAllowArgs {
    /// The name of the reservation.
    pub(crate) name: ReservationName,
    /// Keys whose jobs may use it from now on.
    #[arg(long, value_name = "KEY", num_args = 1.., value_delimiter = ',')]
    pub(crate) add: Vec<String>,
    /// Keys whose jobs may no longer use it.
    #[arg(long, value_name = "KEY", num_args = 1.., value_delimiter = ',')]
    pub(crate) remove: Vec<String>,
    /// The only keys whose jobs may use it.
    #[arg(long, value_name = "KEY", num_args = 1.., value_delimiter = ',')]
    #[arg(conflicts_with_all = ["add", "remove"])]
    pub(crate) only: Vec<String>,
    /// Let the jobs of all keys use it.
    #[arg(long, conflicts_with_all = CHANGES, required_unless_present_any = CHANGES)]
    pub(crate) everybody: bool,
}

/// `reservation ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ReservationCommand {
    /// List jobs that have a reservation or want one, and shared reservations
    #[command(after_help = "Example:\n  cospan reservation list --site delft")]
    List {
        /// The jobs to list.
        #[command(flatten)]
        only: JobFilterArgs,
    },
    /// Show a job's reservations, and when and why they changed; or a shared reservation
    #[command(after_help = "\
Examples:
  cospan reservation show last
  cospan reservation show course-1")]
    Show {
        /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12; or names of shared reservations.
        #[arg(required = true, value_name = "IDS OR NAME")]
        ids: Vec<ReservationTarget>,
    },
    /// Create a shared reservation: processors for jobs that name it
    #[command(after_help = "\
Jobs use it with `cospan submit --reservation NAME`, or `use` under `[reservation]` in their files.
Several sites reserve for the same time, or none does.

Examples:
  cospan reservation create course-1 --site delft --processors 16 --start 'tomorrow 09:00' --for 4h
  cospan reservation create demo --site delft=16 leiden=8 --start 'in 1h' --within 2h --for 1h")]
    Create(ReservationCreateArgs),
    /// Move the end of a shared reservation to a later time
    #[command(after_help = "\
The end moves when the site agrees. If it refuses, the end stays (exit code 3).

Examples:
  cospan reservation extend course-1 --for 30m
  cospan reservation extend course-1 --until 'tomorrow 14:00'")]
    Extend {
        /// The name of the reservation.
        name: ReservationName,
        /// Time by which to extend the reservation.
        #[arg(
            long = "for",
            value_name = "DURATION",
            required_unless_present = "until"
        )]
        longer: Option<Length>,
        /// The new end.
        #[arg(long, value_name = "TIME", conflicts_with = "longer")]
        until: Option<Moment>,
    },
    /// Change the keys whose jobs may use a shared reservation
    #[command(after_help = "\
Running jobs go on. Waiting jobs that may no longer use it fail.

Examples:
  cospan reservation allow course-1 --add carol --remove bob
  cospan reservation allow course-1 --only alice
  cospan reservation allow course-1 --everybody")]
    Allow(ReservationAllowArgs),
    /// Cancel reservations; a job is then placed as others are
    #[command(after_help = "\
To end the job as well, use `cospan cancel`. A job that has begun keeps its reservation until it
ends. If you cancel a shared reservation, jobs that run in it go on, and jobs that wait for it fail.

Examples:
  cospan reservation cancel 12
  cospan reservation cancel course-1")]
    Cancel {
        /// Jobs: 1 3 5-8 or 1,3,5-8; last, all, group:12; or names of shared reservations.
        #[arg(required = true, value_name = "IDS OR NAME")]
        ids: Vec<ReservationTarget>,
    },
    /// Move a reservation; the old one stays until the new one is confirmed
    #[command(after_help = "\
Sites reserve the new start beside the old one, so they need room for both where the two overlap.
If they refuse, the old reservation stays (exit code 3).

Example:
  cospan reservation move 12 --start 'tomorrow 14:00' --within 2h")]
    Move {
        /// The job.
        id: JobIdList,
        /// The earliest start: `tomorrow 09:00`, `2026-11-27 09:00`, `in 2h`.
        #[arg(long, value_name = "TIME")]
        start: Moment,
        /// The latest start: how long after the earliest.
        #[arg(long, value_name = "DURATION")]
        within: Option<Length>,
    },
}
