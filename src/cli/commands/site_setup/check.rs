//! `cospan site check`

use super::{SlurmSession, block_on_future, find_section, judge_findings};
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
    print_progress(&format!("looking at {}", args.site));
    let probed = block_on_future(async {
        let cluster = SlurmSession::open_session(&section, section.root.clone())?;
        let probed = cluster.probe_cluster(true).await;
        cluster.close_connection().await;
        Ok::<_, CliError>(probed)
    })?;
    let (checks, exit) = judge_findings(&probed.findings);
    context
        .out
        .print_answer(&checks, |checks| doctor::format_checks(checks))?;
    Ok(exit)
}
