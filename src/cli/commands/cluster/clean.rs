//! `cospan site clean`

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};

use cospan_domain::ids::JobId;
use cospan_domain::units::Bytes;
use cospan_sites::port::Attempts;
use cospan_sites::slurm::SlurmSite;
use cospan_sites::slurm::remains::Remains;
use serde::Serialize;

use super::{Cluster, section, wait_for};
use crate::cli::args_cluster::SiteCleanArgs;
use crate::cli::context::{Context, PAGE};
use crate::cli::exit::{CliError, Exit};
use crate::cli::out::{note, warning_word};
use crate::client::JobFilter;

/// What was there and what became of it.
#[derive(Debug, Default, Serialize)]
struct Cleaned {
    removed: usize,
    removed_bytes: u64,
    /// With a job in the queue.
    live: usize,
    /// Of jobs that the server works on.
    needed: usize,
    /// That could not be removed, and why.
    failed: Vec<String>,
}

/// Removes what attempts left at a site.
pub(crate) fn run(context: &mut Context, args: &SiteCleanArgs) -> Result<Exit, CliError> {
    let section = section(context, &args.site)?;
    let needed = unfinished(context);
    if needed.is_none() {
        note(&format!(
            "{}: no server answers: nobody knows which of them it still needs",
            warning_word()
        ));
    }
    let cleaned = wait_for(async {
        let cluster = Cluster::of(&section, section.root.clone())?;
        let cleaned = clean(&cluster.site()?, &needed.unwrap_or_default(), args).await;
        cluster.close().await;
        cleaned
    })?;
    let Some(cleaned) = cleaned else {
        note("nothing was removed");
        return Ok(Exit::Done);
    };
    context.out.answer(&cleaned, text)?;
    Ok(if cleaned.failed.is_empty() { Exit::Done } else { Exit::Usage })
}

/// Jobs that the server has not finished with; `None` if it cannot be asked.
fn unfinished(context: &Context) -> Option<BTreeSet<JobId>> {
    let client = context.client().ok()?;
    let (mut found, mut after) = (BTreeSet::new(), None);
    loop {
        let filter = JobFilter { limit: PAGE, after, ..JobFilter::default() };
        let page = client.jobs(&filter).ok()?;
        let is_over = |state: &str| matches!(state, "finished" | "failed" | "cancelled");
        let open = page.jobs.iter().filter(|job| !is_over(&job.state));
        found.extend(open.map(|job| JobId(job.id)));
        match page.next {
            Some(next) => after = Some(next),
            None => return Some(found),
        }
    }
}

/// `None` if the user does not want it.
async fn clean(
    site: &SlurmSite,
    needed: &BTreeSet<JobId>,
    args: &SiteCleanArgs,
) -> Result<Option<Cleaned>, CliError> {
    let failed = |error| {
        let remedy = format!("see `cospan site check {}`", args.site);
        CliError::usage(format!("{}: {error}", args.site), remedy)
    };
    let remains = site.remains().await.map_err(failed)?;
    let is_needed = |one: &&Remains| needed.contains(&one.tag.job);
    let going: Vec<&Remains> =
        remains.iter().filter(|one| !one.is_live && !is_needed(one)).collect();
    let mut cleaned = Cleaned {
        live: remains.iter().filter(|one| one.is_live).count(),
        needed: remains.iter().filter(|one| !one.is_live).filter(is_needed).count(),
        ..Cleaned::default()
    };
    let bytes: u64 = going.iter().map(|one| one.bytes.0).sum();
    if !going.is_empty() && !agreed(args, going.len(), Bytes(bytes))? {
        return Ok(None);
    }
    for one in going {
        match site.remove_attempt(one.tag).await {
            Ok(()) => {
                cleaned.removed += 1;
                cleaned.removed_bytes += one.bytes.0;
            }
            Err(error) => cleaned.failed.push(format!("{}: {error}", one.tag)),
        }
    }
    Ok(Some(cleaned))
}

fn agreed(args: &SiteCleanArgs, count: usize, bytes: Bytes) -> Result<bool, CliError> {
    let what = format!("{} at {}, {bytes},", directories(count), args.site);
    if args.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(format!("{what} would be removed"), "say so with --yes"));
    }
    note(&format!("{what} would be removed, with what is in them. Remove them? [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn directories(count: usize) -> String {
    match count {
        1 => "the directory of 1 attempt".to_owned(),
        _ => format!("the directories of {count} attempts"),
    }
}

fn text(cleaned: &Cleaned) -> String {
    let bytes = Bytes(cleaned.removed_bytes);
    let mut text = format!("removed {}, {bytes}\n", directories(cleaned.removed));
    for (count, why) in [
        (cleaned.live, "more with a job in Slurm's queue: not touched"),
        (cleaned.needed, "more of jobs that are not finished: not touched"),
    ] {
        if count > 0 {
            text.push_str(&format!("{count} {why}\n"));
        }
    }
    cleaned.failed.iter().for_each(|why| text.push_str(&format!("not removed: {why}\n")));
    text
}
