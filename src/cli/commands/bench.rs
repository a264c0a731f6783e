//! `cospan bench`.

use std::fmt::Write;

use crate::bench::{
    self, BenchFigure, BenchKind, BenchReport, BenchSettings, CallBenchSettings, ClusterLog,
};
use crate::cli::args_bench::{BenchArgs, BenchCommand, LogBenchArgs};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};

/// Runs a bench and prints its report.
pub(crate) fn run(
    context: &mut CommandContext,
    command: &BenchCommand,
) -> Result<CliExitCode, CliError> {
    let (bench, args) = match command {
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
            let report = bench::run(&plan).map_err(bench_error)?;
            context.out.print_answer(&report, format_bench)?;
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
            let calls = bench::measure_calls(&plan).map_err(bench_error)?;
            context
                .out
                .print_answer(&calls, |calls| format!("{calls:?}\n"))?;
            return Ok(CliExitCode::Done);
        }
        BenchCommand::FloorServer { port, directory } => {
            bench::serve_floor(directory, *port).map_err(bench_error)?;
            return Ok(CliExitCode::Done);
        }
        BenchCommand::ForgeStore { directory } => {
            bench::forge_store(directory).map_err(bench_error)?;
            return Ok(CliExitCode::Done);
        }
    };
    let BenchArgs { directory, quick } = args;
    let plan = BenchSettings {
        bench,
        directory: directory.clone(),
        quick: *quick,
    };
    let report = bench::run(&plan).map_err(bench_error)?;
    context.out.print_answer(&report, format_bench)?;
    Ok(CliExitCode::Done)
}

fn cluster_log(args: &LogBenchArgs) -> Option<ClusterLog> {
    args.log.clone().map(|file| ClusterLog {
        file,
        processors: args.processors,
    })
}

/// A missed target is only reported; a wrong result is an error.
fn exit_for_report(report: &BenchReport) -> Result<CliExitCode, CliError> {
    let mistakes: Vec<String> = report
        .failed_figures()
        .iter()
        .map(|figure: &&BenchFigure| format!("{} is {}", figure.name, figure.value))
        .collect();
    if mistakes.is_empty() {
        return Ok(CliExitCode::Done);
    }
    Err(CliError {
        exit: CliExitCode::JobFailed,
        message: format!("{}, and must be 0", mistakes.join(", ")),
        remedy: Some(
            "lines above name the jobs; servers' logs and what payloads wrote stay below \
             /var/tmp/cospan-bench"
                .into(),
        ),
        quiet: false,
    })
}

fn bench_error(error: anyhow::Error) -> CliError {
    CliError {
        exit: CliExitCode::JobFailed,
        message: format!("the bench did not come to its end: {error:#}"),
        remedy: Some("its directory must be on a disk, with some GB free".into()),
        quiet: false,
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
    text
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
