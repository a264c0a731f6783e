//! `cospan chaos inject`, `status`, `stop`, `report`: rehearsals of failures on a running server.

use std::io::Read;
use std::path::Path;

use cospan_domain::units::DurationMs;
use cospan_sites::port::SiteCallKind;

use crate::cli::args_chaos::{ChaosCommand, ChaosInjectArgs};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::format_clock;
use crate::cli::print::{bold, color_state, format_columns, format_name_values, print_note};
use cospan_api::v1::Length;
use cospan_api::v1::chaos::{
    ChaosReport, ChaosStatus, InjectionReport, JobDeeds, RehearsalReport, SiteDeeds, StateSince,
};
use cospan_server::chaos::fault_plan;

/// Runs `chaos ...`.
pub(crate) fn run(
    context: &mut CommandContext,
    command: &ChaosCommand,
) -> Result<CliExitCode, CliError> {
    match command {
        ChaosCommand::Inject(args) => inject(context, args),
        ChaosCommand::Status => print_status(context),
        ChaosCommand::Stop => stop_faults(context),
        ChaosCommand::Report => print_report(context),
    }
}

fn inject(context: &mut CommandContext, args: &ChaosInjectArgs) -> Result<CliExitCode, CliError> {
    let (name, text) = read_plan(&args.plan)?;
    let client = context.client()?;
    let status = client.chaos_status()?;
    if !status.allowed {
        return Err(not_allowed_error());
    }
    let lasting = args.lasting.map(|Length(lasting)| lasting);
    let plan = fault_plan::parse_plan(Path::new(&name), &text, lasting, &status.into()).map_err(
        |problems| {
            let count = problems.len();
            let noun = if problems.len() == 1 {
                "problem"
            } else {
                "problems"
            };
            let message = format!("the plan has {count} {noun}\n\n{problems}");
            CliError {
                exit: CliExitCode::Usage,
                message,
                remedy: None,
                quiet: false,
            }
        },
    )?;
    let rehearsal = client.inject_faults(&plan, args.dry_run)?;
    context.out.print_answer(&rehearsal, rehearsal_text)?;
    print_note(if args.dry_run {
        "nothing was injected: this is what would run"
    } else {
        "faults are being injected; `cospan chaos stop` ends them at once, `cospan chaos report` \
         shows their effects"
    });
    Ok(CliExitCode::Done)
}

fn read_plan(file: &Path) -> Result<(String, String), CliError> {
    if file.as_os_str() != "-" {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| CliError::file_error("read", file, &error))?;
        return Ok((file.display().to_string(), text));
    }
    let mut text = String::new();
    let name = "standard input";
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| CliError::file_error("read", Path::new(name), &error))?;
    Ok((name.to_owned(), text))
}

fn not_allowed_error() -> CliError {
    let remedy = "set allowed = true in [chaos] of its configuration, and restart it";
    CliError {
        exit: CliExitCode::Refused,
        message: "this server does not allow fault injection".into(),
        remedy: Some(remedy.into()),
        quiet: false,
    }
}

/// Shows the bounds, and the running rehearsal.
fn print_status(context: &mut CommandContext) -> Result<CliExitCode, CliError> {
    let status = context.client()?.chaos_status()?;
    context.out.print_answer(&status, status_text)?;
    Ok(CliExitCode::Done)
}

/// Ends all faults at once.
fn stop_faults(context: &mut CommandContext) -> Result<CliExitCode, CliError> {
    let report = context.client()?.stop_chaos()?;
    context.out.print_answer(&report, report_text)?;
    Ok(CliExitCode::Done)
}

/// Shows the injected faults, and their effects on the control plane.
fn print_report(context: &mut CommandContext) -> Result<CliExitCode, CliError> {
    let report = context.client()?.chaos_report()?;
    context.out.print_answer(&report, report_text)?;
    Ok(CliExitCode::Done)
}

fn status_text(status: &ChaosStatus) -> String {
    match &status.rehearsal {
        _ if !status.allowed => {
            "this server does not allow fault injection: allowed is not set in [chaos]\n".into()
        }
        None => format!(
            "no faults are injected; a rehearsal may take {} and strike {} of {} sites\n",
            status.max_duration,
            status.max_sites,
            status.sites.len()
        ),
        Some(rehearsal) => rehearsal_text(rehearsal),
    }
}

fn rehearsal_text(rehearsal: &RehearsalReport) -> String {
    let end = match (&rehearsal.ended_at, &rehearsal.stopped_by) {
        (None, _) => format_clock(rehearsal.ends_at),
        (Some(at), None) => format!("{}, when its time was over", format_clock(*at)),
        (Some(at), Some(by)) => format!("{}, stopped by {by}", format_clock(*at)),
    };
    let whole = format_name_values(&[
        ("By", rehearsal.by.clone()),
        ("From", format_clock(rehearsal.begun_at)),
        ("Until", end),
        ("Seed", rehearsal.seed.to_string()),
    ]);
    let rows: Vec<Vec<String>> = rehearsal
        .injections
        .iter()
        .map(|one: &InjectionReport| {
            let delay = one
                .delay
                .map(|delay| format!(" by {delay}"))
                .unwrap_or_default();
            vec![
                one.sites.join(", "),
                format!("{}{delay}", one.fault),
                format!("{} %", one.probability * 100.0),
                format_clock(one.from),
                format_clock(one.until),
                one.state.clone(),
                if one.calls.len() == SiteCallKind::ALL.len() {
                    "all".into()
                } else {
                    one.calls.join(", ")
                },
            ]
        })
        .collect();
    let heading = ["SITES", "FAULT", "SHARE", "FROM", "UNTIL", "NOW", "CALLS"];
    format!("{whole}\n{}", format_columns(&heading, &rows))
}

fn report_text(report: &ChaosReport) -> String {
    let mut text = rehearsal_text(&report.rehearsal);
    let strikes: Vec<Vec<String>> = report
        .strikes
        .iter()
        .map(|row| {
            let counts = [row.calls.to_string(), row.strikes.to_string()];
            [row.site.clone(), row.fault.clone(), row.call.clone()]
                .into_iter()
                .chain(counts)
                .collect()
        })
        .collect();
    text += "\n";
    text += &match strikes.as_slice() {
        [] => "no call came that a fault could strike\n".to_owned(),
        rows => format_columns(&["SITE", "FAULT", "CALL", "CALLS", "STRUCK"], rows),
    };
    let sites: Vec<Vec<String>> = report
        .sites
        .iter()
        .map(|site| site_row(site, report.rehearsal.begun_at.0))
        .collect();
    let heading = ["SITE", "ERRORS", "OPENED", "CLOSED", "STATES"];
    text += &format!(
        "\n{}\n{}",
        format_columns(&heading, &sites),
        jobs_text(&report.jobs)
    );
    if report.isolated {
        text += "\nso many sites fell silent at once that the control plane took itself to be \
                 isolated\n";
    }
    if report.changes_missed > 0 {
        text += &format!(
            "\n{} changes were missed: counts are too low\n",
            report.changes_missed
        );
    }
    text + &recovery_text(report)
}

fn site_row(site: &SiteDeeds, begun_at: cospan_domain::units::Timestamp) -> Vec<String> {
    vec![
        bold(&site.site),
        site.errors_charged.to_string(),
        site.breaker_opened.to_string(),
        site.breaker_closed.to_string(),
        site.states
            .iter()
            .map(|one: &StateSince| match one.at.0.since(begun_at) {
                DurationMs::ZERO => color_state(&one.state),
                later => format!(
                    "{} +{}",
                    color_state(&one.state),
                    Length(DurationMs(later.0 / 1_000 * 1_000))
                ),
            })
            .collect::<Vec<_>>()
            .join(", "),
    ]
}

fn jobs_text(jobs: &JobDeeds) -> String {
    let aborted: u64 = jobs.rounds_aborted.values().sum();
    let causes = jobs
        .rounds_aborted
        .iter()
        .map(|(cause, count)| format!("{count} {cause}"));
    let causes = causes.collect::<Vec<_>>().join(", ");
    let causes = if causes.is_empty() {
        causes
    } else {
        format!(" ({causes})")
    };
    format_name_values(&[
        (
            "Submissions uncertain",
            jobs.submissions_uncertain.to_string(),
        ),
        ("Attempts renewed", jobs.attempts_renewed.to_string()),
        ("Rounds aborted", format!("{aborted}{causes}")),
        ("Jobs placed again", jobs.placed_again.to_string()),
        ("Jobs started", jobs.started.to_string()),
        ("Jobs finished", jobs.finished.to_string()),
        ("Jobs failed", jobs.failed.to_string()),
        ("Jobs cancelled", jobs.cancelled.to_string()),
    ])
}

fn recovery_text(report: &ChaosReport) -> String {
    let RehearsalReport { ended_at, .. } = &report.rehearsal;
    match (report.recovered_at, ended_at) {
        (Some(at), Some(ended)) => {
            let after = Length(at.0.since(ended.0));
            format!("\nrecovered {after} after the faults had ended\n")
        }
        (_, None) => "\nfaults are still being injected\n".into(),
        (None, Some(_)) if report.not_recovered.is_empty() => "\nrecovered\n".into(),
        (None, Some(_)) => format!("\nnot recovered yet: {}\n", report.not_recovered.join("; ")),
    }
}
