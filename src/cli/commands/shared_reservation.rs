//! `cospan reservation ...` for shared reservations, which belong to no job.

use std::time::{Duration, Instant as Clock};

use crate::cli::args_reserve::{ReservationAllowArgs, ReservationCreateArgs};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::format_local;
use crate::cli::print::{format_columns, format_name_values, print_note};
use cospan_api::v1::shared_reservation::{
    SharedAccess, SharedDocument, SharedExtension, SharedPart, SharedPartReport, SharedReport,
};
use cospan_client::Client;

/// Time between two looks at a reservation whose site is being asked.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for a site; a slower site goes on being asked, but nobody waits for it here.
const PATIENCE: Duration = Duration::from_secs(90);

/// Creates a shared reservation, and waits for the answer of the site.
///
/// # Errors
///
/// The site refused, or the server was not reached.
pub(super) fn create_and_wait(
    context: &mut CommandContext,
    client: &Client,
    args: &ReservationCreateArgs,
) -> Result<(), CliError> {
    let name = args.name.as_str();
    let mut parts = args
        .site
        .iter()
        .map(|part| -> Result<SharedPart, CliError> {
            let processors = part.processors.or(args.processors).ok_or_else(|| {
                let site = &part.site;
                let remedy = format!("give --processors N, or --site {site}=N");
                CliError::usage_error(
                    format!("the number of processors at {site} is missing"),
                    remedy,
                )
            })?;
            Ok(SharedPart {
                site: part.site.clone(),
                processors,
            })
        });
    let first = parts.next().transpose()?;
    let first =
        first.ok_or_else(|| CliError::usage_error("no site is named", "give --site NAME"))?;
    let wanted = SharedDocument {
        name: args.name.clone(),
        site: first.site,
        processors: first.processors,
        also: parts.collect::<Result<_, CliError>>()?,
        tolerance: args.tolerance,
        start: args.start,
        within: args.within,
        lasts: args.lasts,
        allow: args.allow.clone(),
    };
    client.create_shared(&wanted)?;
    let report = wait_for_shared(client, name)?;
    match report.state.as_str() {
        "confirmed" => {
            context.out.print_answer(&report, format_shared)?;
            print_note(&format!(
                "jobs use it with: cospan submit --reservation {name}"
            ));
            Ok(())
        }
        "asking" => {
            print_note(&format!(
                "sites are still being asked; see: cospan reservation show {name}"
            ));
            Ok(())
        }
        _ => Err(refused_error(
            format!(
                "reservation {name} was refused by {}",
                report.format_sites()
            ),
            &report,
        )),
    }
}

fn refused_error(message: String, report: &SharedReport) -> CliError {
    let next = report.next.map(format_local);
    let remedy = next.map(|next| {
        if report.parts.is_empty() {
            format!("the earliest start that it could get is {next}: --start \"{next}\"")
        } else {
            format!("sites may offer it from {next} on: --start \"{next}\", --within")
        }
    });
    CliError {
        exit: CliExitCode::Refused,
        message,
        remedy,
        quiet: false,
    }
}

/// Returns the reservation once its site has answered, or when the wait is over.
fn wait_for_shared(client: &Client, name: &str) -> Result<SharedReport, CliError> {
    let until = Clock::now() + PATIENCE;
    loop {
        let report = client.shared_reservation(name)?;
        let asks = matches!(report.state.as_str(), "asking" | "extending" | "releasing");
        if !asks || Clock::now() >= until {
            return Ok(report);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Moves the end of a reservation to a later time, and waits for the answer of the site.
///
/// # Errors
///
/// The site refused, or the server was not reached.
pub(super) fn extend_and_wait(
    context: &mut CommandContext,
    client: &Client,
    name: &str,
    to: &SharedExtension,
) -> Result<(), CliError> {
    let before = client.extend_shared(name, to)?;
    let report = wait_for_shared(client, name)?;
    if report.state == "extending" {
        print_note(&format!(
            "its site is still being asked; see: cospan reservation show {name}"
        ));
        return Ok(());
    }
    if report.until == before.until {
        let sites = report.format_sites();
        let until = format_local(report.until);
        let message = format!("reservation {name} at {sites} cannot last longer than {until}");
        return Err(refused_error(message, &report));
    }
    context.out.print_answer(&report, format_shared)?;
    Ok(())
}

/// Changes the keys whose jobs may use a reservation.
///
/// # Errors
///
/// There is no such reservation, or the change has no effect, or the server was not reached.
pub(super) fn change_access(
    context: &mut CommandContext,
    client: &Client,
    args: &ReservationAllowArgs,
) -> Result<(), CliError> {
    let add = args.add.clone();
    let remove = args.remove.clone();
    let only = args.only.clone();
    let who = SharedAccess {
        add,
        remove,
        only,
        everybody: args.everybody,
    };
    let report = client.change_shared_access(args.name.as_str(), &who)?;
    context.out.print_answer(&report, format_shared)?;
    print_note(&format!(
        "jobs that run in {} go on; waiting jobs that may no longer use it fail",
        args.name
    ));
    Ok(())
}

/// Cancels a reservation, and prints what it cost.
///
/// # Errors
///
/// There is no such reservation, or the server was not reached.
pub(super) fn cancel_and_report(
    context: &mut CommandContext,
    client: &Client,
    name: &str,
) -> Result<(), CliError> {
    let before = client.cancel_shared(name)?;
    let report = wait_for_shared(client, name)?;
    context.out.print_answer(&report, format_shared)?;
    print_note(&format!(
        "reservation {name} at {} is cancelled: {}",
        report.format_sites(),
        format_usage(&report)
    ));
    if !before.jobs.is_empty() {
        let jobs: Vec<String> = before.jobs.iter().map(ToString::to_string).collect();
        print_note(&format!(
            "jobs that named it go on, or fail if they still wait: {}",
            jobs.join(", ")
        ));
    }
    Ok(())
}

/// Formats the processor time that was reserved up to now, and the part that was used.
fn format_usage(report: &SharedReport) -> String {
    let reserved = report.reserved_s as f64 / 3_600.0;
    let used = report.used_s as f64 / 3_600.0;
    format!("it reserved {reserved:.1} processor-hours so far, of which jobs used {used:.1}")
}

/// Lists the shared reservations, below the jobs.
pub(super) fn format_table(reservations: &[SharedReport]) -> String {
    if reservations.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = reservations
        .iter()
        .map(|shared: &SharedReport| {
            vec![
                shared.name.clone(),
                shared.format_sites(),
                shared.state.clone(),
                shared.processors.to_string(),
                format_local(shared.start),
                format_local(shared.until),
                shared.jobs.len().to_string(),
            ]
        })
        .collect();
    format!(
        "\n{}",
        format_columns(
            &["SHARED", "SITE", "STATE", "PROC", "FROM", "UNTIL", "JOBS"],
            &rows
        )
    )
}

pub(super) fn format_shared(shared: &SharedReport) -> String {
    let jobs: Vec<String> = shared.jobs.iter().map(ToString::to_string).collect();
    format_name_values(&[
        ("reservation", shared.name.clone()),
        ("site", shared.format_sites()),
        ("state", shared.state.clone()),
        ("processors", shared.processors.to_string()),
        ("from", format_local(shared.start)),
        ("until", format_local(shared.until)),
        ("made by", shared.by.clone()),
        (
            "for",
            if shared.allowed.is_empty() {
                "all".into()
            } else {
                shared.allowed.join(", ")
            },
        ),
        ("jobs", jobs.join(", ")),
        ("cost", format_usage(shared)),
        ("serial", format!("r{}", shared.serial)),
    ]) + "\n"
        + &format_site_parts(shared)
}

/// Lists the part of each site, if there are several.
fn format_site_parts(shared: &SharedReport) -> String {
    if shared.parts.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = shared
        .parts
        .iter()
        .map(|part: &SharedPartReport| {
            vec![
                part.site.clone(),
                part.state.clone(),
                part.processors.to_string(),
                format_local(part.start),
                format_local(part.until),
                format!("r{}", part.serial),
            ]
        })
        .collect();
    format!(
        "{}\n",
        format_columns(&["SITE", "STATE", "PROC", "FROM", "UNTIL", "SERIAL"], &rows)
    )
}
