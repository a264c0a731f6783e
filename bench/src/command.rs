//! The command line of the benches.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use cospan_printing::terminal;
use serde::Serialize;

use crate::args::{BenchArgs, BenchCommand, LogBenchArgs};
use crate::interrupt;
use crate::{BenchFigure, BenchKind, BenchReport, BenchSettings, CallBenchSettings, ClusterLog};

/// Measures Cospan on this machine, and what the machine can do at most.
#[derive(Debug, Parser)]
#[command(
    name = "cospan-bench",
    version,
    after_help = "Example:\n  cospan-bench submit --directory /var/tmp"
)]
struct BenchCli {
    /// The form of the report.
    #[arg(short = 'o', long = "output", global = true, value_enum, default_value_t = ReportFormat::Table)]
    format: ReportFormat,
    #[command(subcommand)]
    command: BenchCommand,
}

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// Columns for people.
    Table,
    /// JSON.
    Json,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = BenchCli::parse();
    if let Err(error) = interrupt::listen_for_signals() {
        terminal::print_error(&format!("error: cannot listen for signals: {error}\n"));
        return ExitCode::from(2);
    }
    let ended = run(&cli);
    interrupt::give_way_to_interrupt();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::print_error(&format!("error: {}\n", error.message));
            terminal::print_error(&format!("  > {}\n", error.remedy));
            ExitCode::FAILURE
        }
    }
}

/// The reason why a bench failed, and what to do about it.
#[derive(Debug)]
struct BenchFailure {
    message: String,
    remedy: &'static str,
}

fn print_answer<T: Serialize>(
    format: ReportFormat,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), BenchFailure> {
    let text = match format {
        ReportFormat::Table => text(value),
        ReportFormat::Json => {
            serde_json::to_string_pretty(value).map_err(|error| bench_error(error.into()))? + "\n"
        }
    };
    let printed = terminal::stdout().print_text(&text);
    printed.map_err(|error: io::Error| bench_error(error.into()))
}

fn align_columns(text: &str) -> String {
    let mut writer = tabwriter::TabWriter::new(Vec::new()).padding(2);
    // Writing to memory cannot fail.
    let _ = writer.write_all(text.as_bytes());
    let aligned = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&aligned).into_owned()
}

/// Runs a bench and prints its report.
fn run(cli: &BenchCli) -> Result<(), BenchFailure> {
    let format = cli.format;
    let (bench, args) = match &cli.command {
        BenchCommand::Submit(args) => (BenchKind::Submit, args),
        BenchCommand::Crowd(args) => (BenchKind::Crowd, args),
        BenchCommand::Recover(args) => (BenchKind::Recover, args),
        BenchCommand::Run(args) => (BenchKind::Run, args),
        BenchCommand::Place(args) => (BenchKind::Place, args),
        BenchCommand::Reserve(args) => (BenchKind::Reserve(cluster_log(args)), &args.every),
        BenchCommand::Simulate(args) => (BenchKind::Simulate(cluster_log(args)), &args.every),
        BenchCommand::Sites { full } => {
            let plan = BenchSettings {
                bench: BenchKind::Sites { full: *full },
                directory: ".".into(),
                quick: false,
            };
            let report = crate::run(&plan).map_err(bench_error)?;
            print_answer(format, &report, format_bench)?;
            return exit_for_report(&report);
        }
        BenchCommand::SiteCalls {
            root,
            conf,
            ssh,
            pairs,
            attempts,
        } => {
            let root = root.clone();
            let conf = conf.clone();
            let ssh = ssh.clone();
            let plan = CallBenchSettings {
                root,
                conf,
                ssh,
                pairs: *pairs,
                attempts: *attempts,
            };
            let calls = crate::measure_calls(&plan).map_err(bench_error)?;
            print_answer(format, &calls, |calls| format!("{calls:?}\n"))?;
            return Ok(());
        }
        BenchCommand::FloorServer { port, directory } => {
            crate::serve_floor(directory, *port).map_err(bench_error)?;
            return Ok(());
        }
        BenchCommand::ForgeStore { directory } => {
            crate::forge_store(directory).map_err(bench_error)?;
            return Ok(());
        }
    };
    let BenchArgs { directory, quick } = args;
    let plan = BenchSettings {
        bench,
        directory: directory.clone(),
        quick: *quick,
    };
    let report = crate::run(&plan).map_err(bench_error)?;
    print_answer(format, &report, format_bench)?;
    Ok(())
}

fn cluster_log(args: &LogBenchArgs) -> Option<ClusterLog> {
    args.log.clone().map(|file| ClusterLog {
        file,
        processors: args.processors,
    })
}

/// A missed target is only reported; a wrong result is an error.
fn exit_for_report(report: &BenchReport) -> Result<(), BenchFailure> {
    let mistakes: Vec<String> = report
        .failed_figures()
        .iter()
        .map(|figure: &&BenchFigure| format!("{} is {}", figure.name, figure.value))
        .collect();
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(BenchFailure {
        message: format!("{}, and must be 0", mistakes.join(", ")),
        remedy: "lines above name the jobs; servers' logs and what payloads wrote stay below \
             /var/tmp/cospan-bench",
    })
}

fn bench_error(error: anyhow::Error) -> BenchFailure {
    BenchFailure {
        message: format!("the bench did not come to its end: {error:#}"),
        remedy: "its directory must be on a disk, with some GB free",
    }
}

fn format_bench(report: &BenchReport) -> String {
    let mut text = String::from("FIGURE\tVALUE\tUNIT\tTARGET\n");
    for figure in report.figures.iter().chain(&report.floors) {
        let BenchFigure {
            name,
            value,
            unit,
            target,
        } = figure;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}\t{value}\t{unit}\t{target}");
    }
    align_columns(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(value: f64, target: &'static str) -> BenchReport {
        let figures = vec![BenchFigure::new("slurm_kill_lost", value, "jobs", target)];
        BenchReport {
            bench: "sites",
            figures,
            floors: Vec::new(),
            machine: [].into(),
        }
    }

    #[test]
    fn mistakes_that_a_bench_found_are_an_error_and_slowness_is_none() {
        assert!(exit_for_report(&report(0.0, "0")).is_ok());
        assert!(exit_for_report(&report(9.0, "<= 4")).is_ok());
        let Err(error) = exit_for_report(&report(2.0, "0")) else {
            panic!("two are lost")
        };
        assert_eq!(error.message, "slurm_kill_lost is 2, and must be 0");
    }
}
