//! `cospan site check`

use super::{SiteSession, block_on_future, find_examiner, find_section, judge_findings};
use crate::cli::args_cluster::SiteCheckArgs;
use crate::cli::commands::doctor;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print_progress;

/// Examines a site, and prints a remedy for each failure.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &SiteCheckArgs,
) -> Result<CliExitCode, CliError> {
    let section = find_section(context, &args.site)?;
    let examiner = find_examiner(&args.site, section.kind)?;
    print_progress(&format!("looking at {}", args.site));
    let findings = block_on_future(async {
        let session = SiteSession::open_session(&section)?;
        let findings = examiner.examine(&section, &session.way).await;
        session.close_session().await;
        Ok::<_, CliError>(findings)
    })?;
    let (checks, exit) = judge_findings(&findings);
    context
        .out
        .print_answer(&checks, |checks| doctor::format_checks(checks))?;
    Ok(exit)
}
