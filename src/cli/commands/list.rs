//! `cospan list`

use crate::cli::args_job::ListArgs;
use crate::cli::context::{CommandContext, PAGE};
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::{format_age, now};
use crate::cli::print::{color_state, format_columns, print_note};
use cospan_api::v1::job::{JobPage, JobRow};
use cospan_client::{Client, JobFilter};

pub(crate) fn run(context: &mut CommandContext, args: &ListArgs) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let limit = if args.all { PAGE } else { args.limit };
    let filter = args.only.to_job_filter(args.after, limit);
    let page = if args.all {
        read_all_pages(&client, filter)?
    } else {
        read_full_page(&client, filter)?
    };
    context.out.print_answer(&page, format_jobs)?;
    if let Some(next) = page.next {
        print_note(&format!(
            "there are more: cospan list --after {next}, or --all"
        ));
    }
    Ok(CliExitCode::Done)
}

/// Reads a page as full as asked for: the server may send less although there is more.
fn read_full_page(client: &Client, mut filter: JobFilter) -> Result<JobPage, CliError> {
    let mut page = client.list_jobs(&filter)?;
    let wanted = filter.limit as usize;
    while let Some(next) = page.next.filter(|_| page.jobs.len() < wanted) {
        filter.after = Some(next);
        filter.limit = u32::try_from(wanted - page.jobs.len()).unwrap_or(PAGE);
        let more = client.list_jobs(&filter)?;
        page.jobs.extend(more.jobs);
        page.next = more.next;
    }
    Ok(page)
}

pub(super) fn read_all_pages(client: &Client, mut filter: JobFilter) -> Result<JobPage, CliError> {
    let mut page = client.list_jobs(&filter)?;
    while let Some(next) = page.next {
        filter.after = Some(next);
        let more = client.list_jobs(&filter)?;
        page.jobs.extend(more.jobs);
        page.next = more.next;
    }
    Ok(page)
}

pub(super) fn format_jobs(page: &JobPage) -> String {
    let now = now();
    let rows: Vec<Vec<String>> = page.jobs.iter().map(|row| job_cells(row, now)).collect();
    if rows.is_empty() {
        return "no jobs\n".into();
    }
    format_columns(
        &[
            "ID", "NAME", "STATE", "SINCE", "PRIORITY", "COMP", "PROC", "SITES", "OWNER",
        ],
        &rows,
    )
}

fn job_cells(row: &JobRow, now: cospan_domain::units::Timestamp) -> Vec<String> {
    let mut shown = color_state(&row.state);
    if row.held {
        shown.push_str(&format!(" {}", color_state("held")));
    } else if row.frozen {
        shown.push_str(&format!(" {}", color_state("frozen")));
    }
    vec![
        row.id.to_string(),
        row.name.clone().unwrap_or_else(|| "-".into()),
        shown,
        format_age(row.since, now),
        row.priority.to_string(),
        row.components.to_string(),
        row.processors.to_string(),
        if row.sites.is_empty() {
            "-".into()
        } else {
            row.sites.join(",")
        },
        row.owner.clone(),
    ]
}
