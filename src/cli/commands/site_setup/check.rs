//! `cospan site check`

use super::{SlurmSession, judged, section, wait_for};
use crate::cli::args_cluster::SiteCheckArgs;
use crate::cli::commands::doctor;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExit};
use crate::cli::progress;

/// Examines a site, and prints a remedy for each failure.
pub(crate) fn run(context: &mut CommandContext, args: &SiteCheckArgs) -> Result<CliExit, CliError> {
    let section = section(context, &args.site)?;
    progress(&format!("looking at {}", args.site));
    let probed = wait_for(async {
        let cluster = SlurmSession::of(&section, section.root.clone())?;
        let probed = cluster.probe(true).await;
        cluster.close().await;
        Ok::<_, CliError>(probed)
    })?;
    let (checks, exit) = judged(&probed.findings);
    context.out.answer(&checks, |checks| doctor::text(checks))?;
    Ok(exit)
}
