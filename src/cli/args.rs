//! The command line: every command, option and help text.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::args_chaos::ChaosCommand;
use super::args_job::{
    CancelArgs, ExplainArgs, JobCommandArgs, ListArgs, LogsArgs, OutputArgs, PriorityArgs,
    ReportArgs, RerunArgs, ShowArgs, SubmitArgs, VirtualMapArgs, WaitArgs,
};
use super::args_operate::{
    CompletionArgs, ConfigCommand, DoctorArgs, FileSubcommand, KeyCommand, ManArgs, QuickstartArgs,
    SiteSubcommand, StoreCommand,
};
use super::args_reserve::{ReservationCommand, SlotsArgs};
use super::args_simulate::SimulateArgs;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER: &str = "\
First steps:
  cospan quickstart                  see it work on this machine, in less than a minute
  cospan submit job.toml --wait      run a job and wait for its end
  cospan list                        all jobs, newest first
  cospan explain last                why a job runs where it does, or still waits
  cospan logs last -f                follow what it prints

Ids: 17 is one job, 1,3,5-8 are several; `last` is your newest job, `all` is every job.
Durations: 250ms, 90s, 1h30m, 1-12:00:00 (days-hours:minutes:seconds).

Exit codes: 0 done, 1 the job failed, 2 usage, 3 refused by the server, 4 server not reachable,
5 cancelled, 6 wait timed out, 130 interrupted.";

/// Run one job on many clusters at once.
///
/// Cospan places the components of a job on several sites, brings their input there, claims
/// processors just before they are needed, starts all components together, and carries on when
/// sites fail.
#[derive(Debug, Parser)]
#[command(name = "cospan", version = super::version::short(), long_version = super::version::long(),
    styles = STYLES, after_help = AFTER, max_term_width = 100, disable_help_subcommand = true,
    subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct GlobalArgs {
    /// The format of the answer.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = OutputFormat::Table,
        global = true, value_name = "FORMAT")]
    pub(crate) format: OutputFormat,
    /// The server: http://host:port, https://host:port or unix:/path. [env: COSPAN_SERVER]
    /// [default: as configured]
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// The configuration file. [env: COSPAN_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// PEM file with the certificate of the authority that signed the server's certificate. [env:
    /// COSPAN_CA_CERTIFICATE] [default: `client.ca_certificate`]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca_certificate: Option<PathBuf>,
    /// The format of log lines (on standard error). [default: as configured]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormatArg>,
}

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Columns for people.
    Table,
    /// A JSON document, as the interface defines it.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// For people.
    Text,
    /// A JSON object on each line.
    Json,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Start the server in the background and return once it answers. It logs to server.log in the
    /// data directory; `cospan stop` stops it.
    #[arg(long)]
    pub(crate) background: bool,
    /// Run in a session of its own, without a terminal; --background starts the server with it.
    #[arg(long, hide = true, conflicts_with = "background")]
    pub(crate) detached: bool,
    /// Serve although this build fails on purpose
    #[cfg(cospan_chaos)]
    #[arg(long, env = "COSPAN_ALLOW_CHAOS", hide = true)]
    pub(crate) allow_chaos: bool,
}

/// Arguments of `login`.
#[derive(Debug, Args)]
#[command(after_help = "\
The key is asked for, or read from standard input or COSPAN_TOKEN. Once the server has taken it, it is
kept in `cospan/login.toml` below $XDG_CONFIG_HOME or ~/.config, which only you can read. Commands
that name another server or a configuration do not use it.

Examples:
  cospan login https://cospan.example.org:7440
  cospan login https://10.0.0.7:7440 --ca-certificate server.pem < key")]
pub(crate) struct LoginArgs {
    /// The server: http://host:port, https://host:port or unix:/path.
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run the server
    #[command(after_help = "\
The server keeps everything in its data directory. SIGTERM or Ctrl-C stops it; what runs at the
sites goes on. `cospan config show` prints the configuration in effect.

COSPAN_LISTEN=ADDRESS:PORT overrides the configured addresses.

Examples:
  cospan serve --config cospan.toml
  cospan serve --background              returns once it answers")]
    Serve(ServeArgs),
    /// Stop the server on this machine; work at the sites goes on
    #[command(after_help = "\
Stops the server that uses the configured data directory, however it was started.

Example:
  cospan stop")]
    Stop,
    /// See it work: one job on three sites, one of which dies
    Quickstart(QuickstartArgs),
    /// Submit jobs, from files or as a command line
    Submit(SubmitArgs),
    /// List jobs, newest first
    List(ListArgs),
    /// Show one job, or several, in full
    Show(ShowArgs),
    /// Report waits, transfers and processor time of jobs, as CSV
    Report(ReportArgs),
    /// Explain why a job is where it is, or what it waits for
    Explain(ExplainArgs),
    /// Draw a job's virtual map, with every site that bids for it
    Map(VirtualMapArgs),
    /// Wait until jobs end
    Wait(WaitArgs),
    /// Print what a job printed
    Logs(LogsArgs),
    /// Fetch the output files of a job
    Output(OutputArgs),
    /// Submit jobs again that have ended
    Rerun(RerunArgs),
    /// Cancel jobs
    Cancel(CancelArgs),
    /// Do not place jobs until they are thawed
    #[command(after_help = "Example:\n  cospan freeze 12-20")]
    Freeze(JobCommandArgs),
    /// Let frozen jobs be placed again
    #[command(after_help = "Example:\n  cospan thaw 12-20")]
    Thaw(JobCommandArgs),
    /// Release jobs that are held after an internal error
    #[command(
        after_help = "`cospan show` says why a job is held.\n\nExample:\n  cospan release 17"
    )]
    Release(JobCommandArgs),
    /// Change the priority of jobs
    Priority(PriorityArgs),
    /// List when a job could start with a reservation
    Slots(SlotsArgs),
    /// Show, create, change and cancel reservations
    #[command(subcommand)]
    Reservation(ReservationCommand),
    /// Add, show and operate sites
    #[command(subcommand)]
    Site(SiteSubcommand),
    /// Register input files by logical names
    #[command(subcommand)]
    File(FileSubcommand),
    /// Show, check, export and import the store
    #[command(subcommand)]
    Store(StoreCommand),
    /// Create, list and remove keys for the server, and set their roles
    #[command(subcommand)]
    Key(KeyCommand),
    /// Keep a server and a key for all later commands
    Login(LoginArgs),
    /// Forget what `cospan login` keeps
    #[command(after_help = "Example:\n  cospan logout")]
    Logout,
    /// Check an installation and collect a support bundle
    Doctor(DoctorArgs),
    /// Check and show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    Completion(CompletionArgs),
    /// Print the manual page, or write one for each command
    Man(ManArgs),
    /// Print the OpenAPI document of the HTTP interface
    #[command(after_help = "Example:\n  cospan openapi > cospan.json")]
    Openapi,
    /// Try out a grid, a policy or a load on simulated sites
    Simulate(Box<SimulateArgs>),
    /// Inject faults, in a simulation or on a running server
    #[command(subcommand)]
    Chaos(ChaosCommand),
    /// Copy or read a file for a site; the server starts this, not people
    #[command(hide = true, disable_help_flag = true)]
    CopyAgent {
        /// The task of the agent.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}
