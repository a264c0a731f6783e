//! `cospan quickstart`

use crate::cli::args::OutputFormat;
use crate::cli::args_operate::QuickstartArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::print_note;
use crate::quickstart::{QuickstartError, QuickstartOptions, run as demonstrate, testbed};

/// Runs a job on three sites before the user's eyes.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &QuickstartArgs,
) -> Result<CliExitCode, CliError> {
    if args.remove {
        testbed::remove()?;
        print_note("nothing of the testbed is left");
        return Ok(CliExitCode::Done);
    }
    let options = QuickstartOptions {
        directory: args.directory.clone(),
        keep: args.keep,
        silent: context.out.format() != OutputFormat::Table,
        corrupt_output: args.corrupt_output,
    };
    // People have read it already.
    let right = if args.testbed {
        let report = testbed::run(&options)?;
        context.out.print_answer(&report, |_| String::new())?;
        report.right
    } else {
        let report = demonstrate(&options)?;
        context.out.print_answer(&report, |_| String::new())?;
        report.right
    };
    Ok(if right {
        CliExitCode::Done
    } else {
        CliExitCode::JobFailed
    })
}

impl From<QuickstartError> for CliError {
    fn from(error: QuickstartError) -> Self {
        match error {
            QuickstartError::Client(error) => error.into(),
            QuickstartError::Untold(error) => error.into(),
            QuickstartError::JobEnded { .. } => {
                let message = error.to_string();
                Self {
                    exit: CliExitCode::JobFailed,
                    message,
                    remedy: None,
                    quiet: false,
                }
            }
            QuickstartError::ServerEnded { .. } | QuickstartError::TooSlow { .. } => {
                let message = error.to_string();
                Self {
                    exit: CliExitCode::Unreachable,
                    message,
                    remedy: None,
                    quiet: false,
                }
            }
            error => Self {
                exit: CliExitCode::Usage,
                message: error.to_string(),
                remedy: None,
                quiet: false,
            },
        }
    }
}
