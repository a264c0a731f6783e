//! `cospan quickstart`

use crate::cli::args::Format;
use crate::cli::args_operate::QuickstartArgs;
use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::quickstart::{Options, QuickstartError, run as demonstrate};

/// Does the main job before the user's eyes.
pub(crate) fn run(context: &mut Context, args: &QuickstartArgs) -> Result<Exit, CliError> {
    let options = Options {
        directory: args.directory.clone(),
        keep: args.keep,
        silent: context.out.format() != Format::Table,
        corrupt_output: args.corrupt_output,
    };
    let report = demonstrate(&options)?;
    // People have read it already.
    context.out.answer(&report, |_| String::new())?;
    Ok(if report.right { Exit::Done } else { Exit::JobFailed })
}

impl From<QuickstartError> for CliError {
    fn from(error: QuickstartError) -> Self {
        match error {
            QuickstartError::Client(error) => error.into(),
            QuickstartError::Untold(error) => error.into(),
            QuickstartError::JobEnded { .. } => {
                let message = error.to_string();
                Self { exit: Exit::JobFailed, message, remedy: None, quiet: false }
            }
            QuickstartError::ServerEnded { .. } | QuickstartError::TooSlow { .. } => {
                let message = error.to_string();
                Self { exit: Exit::Unreachable, message, remedy: None, quiet: false }
            }
            error => {
                Self { exit: Exit::Usage, message: error.to_string(), remedy: None, quiet: false }
            }
        }
    }
}
