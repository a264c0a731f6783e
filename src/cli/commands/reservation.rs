//! `cospan reservation ...`

use std::time::{Duration, Instant as Clock};

use super::{ranking, shared_reservation};
use crate::cli::args_job::JobFilterArgs;
use crate::cli::args_reserve::{ReservationCommand, ReservationTarget};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::format_local;
use crate::cli::print::{
    bold, color_state, format_columns, format_name_values, print_note, single_line,
};
use cospan_api::v1::Instant;
use cospan_api::v1::event::EventReport;
use cospan_api::v1::reservation::{
    ReservationDocument, ReservationPage, ReservationReport, ReservationRow,
};
use cospan_api::v1::shared_reservation::SharedExtension;
use cospan_client::Client;

/// Number of rows of a page.
const PAGE: u32 = 1_000;
/// Time between two looks at a job whose sites are being asked.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for sites; slower sites go on being asked, but nobody waits for them here.
const PATIENCE: Duration = Duration::from_secs(90);

/// Shows, creates, changes and cancels reservations.
pub(crate) fn run(
    context: &mut CommandContext,
    command: &ReservationCommand,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    match command {
        ReservationCommand::List { only } => {
            let page = read_reservation_pages(&client, only)?;
            context.out.print_answer(&page, format_page)?;
        }
        ReservationCommand::Show { ids } => {
            for target in ids {
                show_target(context, &client, target)?;
            }
        }
        ReservationCommand::Create(args) => {
            shared_reservation::create_and_wait(context, &client, args)?
        }
        ReservationCommand::Allow(args) => {
            shared_reservation::change_access(context, &client, args)?
        }
        ReservationCommand::Extend {
            name,
            longer,
            until,
        } => {
            let to = SharedExtension {
                until: *until,
                longer: *longer,
            };
            shared_reservation::extend_and_wait(context, &client, name.as_str(), &to)?;
        }
        ReservationCommand::Cancel { ids } => {
            for target in ids {
                cancel_target(context, &client, target)?;
            }
        }
        ReservationCommand::Move { id, start, within } => {
            let earliest = Some(*start);
            let within = *within;
            let to = ReservationDocument {
                earliest,
                within,
                ..ReservationDocument::default()
            };
            for id in context.resolve_ids(&client, std::slice::from_ref(id))? {
                client.move_reservation(id, &to)?;
                let row = wait_for_reservation(&client, id)?;
                print_move_result(&row)?;
            }
        }
    }
    Ok(CliExitCode::Done)
}

fn show_target(
    context: &mut CommandContext,
    client: &Client,
    target: &ReservationTarget,
) -> Result<(), CliError> {
    match target {
        ReservationTarget::Shared(name) => context.out.print_answer(
            &client.shared_reservation(name.as_str())?,
            shared_reservation::format_shared,
        )?,
        ReservationTarget::Jobs(ids) => {
            for id in context.resolve_ids(client, std::slice::from_ref(ids))? {
                context
                    .out
                    .print_answer(&client.reservation(id)?, format_job_reservation)?;
            }
        }
    }
    Ok(())
}

fn cancel_target(
    context: &mut CommandContext,
    client: &Client,
    target: &ReservationTarget,
) -> Result<(), CliError> {
    match target {
        ReservationTarget::Shared(name) => {
            shared_reservation::cancel_and_report(context, client, name.as_str())
        }
        ReservationTarget::Jobs(ids) => {
            for id in context.resolve_ids(client, std::slice::from_ref(ids))? {
                client.cancel_reservation(id)?;
                print_note(&format!(
                    "the reservations of job {id} are cancelled; it waits as others do"
                ));
            }
            Ok(())
        }
    }
}

fn read_reservation_pages(
    client: &Client,
    only: &JobFilterArgs,
) -> Result<ReservationPage, CliError> {
    let mut page = client.list_reservations(&only.to_job_filter(None, PAGE))?;
    while let Some(next) = page.next {
        let more = client.list_reservations(&only.to_job_filter(Some(next), PAGE))?;
        page.reservations.extend(more.reservations);
        page.next = more.next;
    }
    Ok(page)
}

fn wait_for_reservation(client: &Client, id: u64) -> Result<ReservationRow, CliError> {
    let until = Clock::now() + PATIENCE;
    loop {
        let row = client.reservation(id)?;
        let asks = matches!(
            row.reservation.state.as_str(),
            "wanted" | "asking" | "moving"
        );
        if !asks || Clock::now() >= until {
            return Ok(row);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Prints the result of a rescheduling.
fn print_move_result(row: &ReservationRow) -> Result<(), CliError> {
    let id = row.job;
    let reservation = &row.reservation;
    let stayed = row.events.iter().rev().find(|event| {
        matches!(
            event.event.as_str(),
            "ReservationMoved" | "ReservationStayed"
        )
    });
    let stayed = stayed.filter(|event| event.event == "ReservationStayed");
    let starts = reservation.start.map(format_local);
    match (reservation.state.as_str(), stayed, starts) {
        ("confirmed", Some(stayed), starts) => {
            let why = stayed.detail.as_deref().unwrap_or("its sites refused");
            let starts = starts.unwrap_or_default();
            let message = format!("job {id} was not moved: {why}: it starts at {starts}");
            let remedy = stayed.until.map(|next| {
                format!(
                    "a site may offer it from {} on; see also `cospan slots`",
                    format_local(next)
                )
            });
            Err(CliError {
                exit: CliExitCode::Refused,
                message,
                remedy,
                quiet: false,
            })
        }
        ("confirmed", None, Some(starts)) => {
            print_note(&format!(
                "job {id} starts at {starts} at {}",
                format_reserved_sites(reservation)
            ));
            Ok(())
        }
        ("refused", ..) => Err(CliError {
            exit: CliExitCode::Refused,
            message: format!("job {id} got no reservation"),
            remedy: Some(format!("see: cospan show {id}")),
            quiet: false,
        }),
        _ => {
            print_note(&format!(
                "sites are still being asked; see: cospan reservation show {id}"
            ));
            Ok(())
        }
    }
}

fn format_reserved_sites(reservation: &ReservationReport) -> String {
    let mut sites: Vec<&str> = reservation
        .held
        .iter()
        .map(|held| held.site.as_str())
        .collect();
    sites.dedup();
    sites.join(", ")
}

fn format_page(page: &ReservationPage) -> String {
    let shared = shared_reservation::format_table(&page.shared);
    if page.reservations.is_empty() {
        return "no job has a reservation or wants one\n".to_owned() + &shared;
    }
    let rows: Vec<Vec<String>> = page
        .reservations
        .iter()
        .map(|row: &ReservationRow| {
            let reservation = &row.reservation;
            vec![
                row.job.to_string(),
                row.name.clone().unwrap_or_default(),
                row.owner.clone(),
                color_state(&row.phase),
                reservation.state.clone(),
                reservation
                    .start
                    .or(reservation.earliest)
                    .map(format_local)
                    .unwrap_or_default(),
                format_reserved_sites(reservation),
            ]
        })
        .collect();
    format_columns(
        &[
            "JOB",
            "NAME",
            "OWNER",
            "STATE",
            "RESERVATION",
            "START",
            "SITES",
        ],
        &rows,
    ) + &shared
}

fn format_job_reservation(row: &ReservationRow) -> String {
    let reservation = &row.reservation;
    let mut text = format_name_values(&[
        ("job", row.job.to_string()),
        ("name", row.name.clone().unwrap_or_default()),
        ("owner", row.owner.clone()),
        ("state", color_state(&row.phase)),
        ("reservation", reservation.state.clone()),
        ("sites are asked", show_time(reservation.asks_at)),
        ("start", show_time(reservation.start)),
        ("earliest", show_time(reservation.earliest)),
        ("latest", show_time(reservation.latest)),
        (
            "may be moved",
            if reservation.flexible {
                "to an earlier start"
            } else {
                ""
            }
            .into(),
        ),
        (
            "divided",
            reservation
                .split
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ),
        ("perhaps from", show_time(reservation.next)),
    ]);
    if !reservation.held.is_empty() {
        let held = reservation.held.iter().map(|held| {
            vec![
                held.component.clone(),
                held.site.clone(),
                held.processors.to_string(),
                format_local(held.from),
                format_local(held.to),
                format!("r{}", held.serial),
            ]
        });
        let held: Vec<Vec<String>> = held.collect();
        text.push('\n');
        text += &format_columns(
            &["COMPONENT", "SITE", "PROC", "FROM", "TO", "SERIAL"],
            &held,
        );
    }
    if !reservation.ranking.is_empty() {
        text.push('\n');
        text += &ranking::format_rankings(&reservation.ranking);
    }
    if !row.events.is_empty() {
        text += &format!("\n{}\n", bold("what happened"));
        text.extend(row.events.iter().map(|event: &EventReport| {
            single_line(&format!(
                "  {}  {event}",
                event.at.map(format_local).unwrap_or_default()
            ))
        }));
    }
    text + "\n"
}

fn show_time(at: Option<Instant>) -> String {
    at.map(format_local).unwrap_or_default()
}
