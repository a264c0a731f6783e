//! `cospan cancel`, `freeze`, `thaw`, `release`, `priority`

use cospan_domain::ids::{KeyName, SiteName};

use crate::cli::args_job::CancelArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::ids::JobIdList;
use crate::cli::print::{print_note, single_line};
use cospan_api::v1::commands::{JobSelection, OrderReport, OutcomeName, OutcomeReport};
use cospan_api::v1::document::PriorityName;
use cospan_client::{Client, JobAction};

/// Most jobs that one request may name.
const MOST_IDS: usize = 10_000;

pub(crate) fn cancel_jobs(
    context: &mut CommandContext,
    args: &CancelArgs,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let is_filtered = args.site.is_some() || args.owner.is_some();
    let names_all = args.ids.iter().any(JobIdList::contains_all);
    let what = JobSelection {
        abandon: args.abandon,
        ..JobSelection::default()
    };
    if !(args.all || is_filtered && names_all) {
        if is_filtered {
            return Err(CliError::usage_error(
                "--site and --owner choose among all jobs, and these are named",
                "write `cospan cancel all --site SITE`, or leave the options out",
            ));
        }
        let report = select_by_ids(context, &client, JobAction::Cancel, &args.ids, &what)?;
        return print_results(context, JobAction::Cancel, &report);
    }
    let site = args.site.as_deref().map(SiteName::new).transpose();
    let owner = args.owner.as_deref().map(KeyName::new).transpose();
    let selection = JobSelection {
        all: true,
        site: site.map_err(|error| reject_option("site", error))?,
        owner: owner.map_err(|error| reject_option("owner", error))?,
        ..what
    };
    let report = command_all_pages(&client, JobAction::Cancel, selection)?;
    let exit = print_results(context, JobAction::Cancel, &report)?;
    print_note(&count_cancelled(&report, args.site.as_deref()));
    Ok(exit)
}

/// Counts the jobs that a command for all of a kind has reached.
fn count_cancelled(report: &OrderReport, site: Option<&str>) -> String {
    let done = report
        .jobs
        .iter()
        .filter(|job: &&OutcomeReport| matches!(job.outcome, OutcomeName::Done));
    let place = site
        .map(|site| format!(" with a component at site {site}"))
        .unwrap_or_default();
    match done.count() {
        1 => format!("1 job{place} is being cancelled"),
        count => format!("{count} jobs{place} are being cancelled"),
    }
}

fn reject_option(name: &str, error: cospan_domain::ids::IdentifierError) -> CliError {
    CliError::usage_error(format!("--{name}: {error}"), "correct the name")
}

/// Sends another command about jobs.
pub(crate) fn command_jobs(
    context: &mut CommandContext,
    order: JobAction,
    ids: &[JobIdList],
    priority: Option<PriorityName>,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let what = JobSelection {
        priority,
        ..JobSelection::default()
    };
    let report = select_by_ids(context, &client, order, ids, &what)?;
    print_results(context, order, &report)
}

fn select_by_ids(
    context: &CommandContext,
    client: &Client,
    order: JobAction,
    ids: &[JobIdList],
    what: &JobSelection,
) -> Result<OrderReport, CliError> {
    let mut report = OrderReport::default();
    for ids in context.resolve_ids(client, ids)?.chunks(MOST_IDS) {
        let selection = JobSelection {
            ids: ids.to_vec(),
            ..what.clone()
        };
        report
            .jobs
            .extend(command_all_pages(client, order, selection)?.jobs);
    }
    Ok(report)
}

/// Repeats a command about many jobs until it has reached the last of them.
fn command_all_pages(
    client: &Client,
    order: JobAction,
    mut selection: JobSelection,
) -> Result<OrderReport, CliError> {
    let mut report = client.send_job_command(order, &selection)?;
    while let Some(next) = report.next.take() {
        selection.after = Some(next);
        let more = client.send_job_command(order, &selection)?;
        report.jobs.extend(more.jobs);
        report.next = more.next;
    }
    Ok(report)
}

fn print_results(
    context: &mut CommandContext,
    order: JobAction,
    report: &OrderReport,
) -> Result<CliExitCode, CliError> {
    context
        .out
        .print_answer(report, |report| match report.jobs.as_slice() {
            [] => "no jobs\n".into(),
            jobs => jobs.iter().map(|job| format_result(order, job)).collect(),
        })?;
    Ok(
        if report.jobs.iter().any(|job: &OutcomeReport| {
            matches!(job.outcome, OutcomeName::Refused | OutcomeName::NotFound)
        }) {
            CliExitCode::Refused
        } else {
            CliExitCode::Done
        },
    )
}

fn format_result(order: JobAction, job: &OutcomeReport) -> String {
    let done = match order {
        JobAction::Cancel => "is being cancelled",
        JobAction::Freeze => "frozen",
        JobAction::Thaw => "thawed",
        JobAction::Release => "released",
        JobAction::Priority => "has the new priority",
    };
    let what = match job.outcome {
        OutcomeName::Done => done,
        OutcomeName::Unchanged => "unchanged",
        OutcomeName::NotFound => "not found",
        OutcomeName::Refused => "refused",
    };
    let detail = job
        .detail
        .as_ref()
        .map(|detail| format!(": {detail}"))
        .unwrap_or_default();
    single_line(&format!("job {} {what}{detail}", job.id))
}
