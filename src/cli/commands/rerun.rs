//! `cospan rerun`: submits jobs again that have ended.

use super::submit::{draw_idempotency_key, format_submitted, submit_repeatedly};
use super::wait::{WaitConditions, wait_for};
use crate::cli::args_job::RerunArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::print_note;
use cospan_api::v1::commands::RerunOrder;
use cospan_client::Client;

pub(crate) fn run(context: &mut CommandContext, args: &RerunArgs) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let mut ids = context.resolve_ids(&client, &args.ids)?;
    if args.failed {
        ids = keep_failed(&client, &ids)?;
        if ids.is_empty() {
            print_note("none of these jobs failed; nothing was submitted");
            return Ok(CliExitCode::Done);
        }
    }
    let order = RerunOrder {
        ids,
        allow_unplaceable: false,
    };
    let key = draw_idempotency_key()?;
    let submitted = submit_repeatedly(|| client.rerun_jobs(&order, &key))?;
    if !args.wait {
        context.out.print_answer(&submitted, format_submitted)?;
        return Ok(CliExitCode::Done);
    }
    print_note(format_submitted(&submitted).trim_end());
    let ids: Vec<u64> = submitted.jobs.iter().map(|row| row.id).collect();
    let until = WaitConditions {
        any: false,
        timeout: args.timeout,
    };
    wait_for(context, &client, &ids, &until)
}

fn keep_failed(client: &Client, ids: &[u64]) -> Result<Vec<u64>, CliError> {
    let mut failed = Vec::new();
    for &id in ids {
        if client.phase(id)?.state == "failed" {
            failed.push(id);
        }
    }
    Ok(failed)
}
