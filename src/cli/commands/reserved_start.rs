//! Reports of `cospan submit` on reservations: confirmed, or refused with the earliest time that
//! would be granted.

use std::time::{Duration, Instant};

use cospan_domain::units::DurationMs;

use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::format_local;
use crate::cli::print::{print_note, warning_word};
use cospan_api::v1::JobDocument;
use cospan_api::v1::job::{JobReport, SubmittedReport};
use cospan_api::v1::reservation::{HeldReport, ReservationReport};
use cospan_client::Client;

/// Time between two looks at a job whose sites are being asked.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for sites; slower sites go on being asked, but nobody waits for them here.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until the reservation of each job is confirmed or refused, and prints the result.
///
/// # Errors
///
/// A reservation was refused, or the server was not reached.
pub(super) fn print_reserved_starts(
    client: &Client,
    jobs: &[JobDocument],
    submitted: &SubmittedReport,
) -> Result<(), CliError> {
    if !jobs.iter().any(|job: &JobDocument| {
        job.reservation
            .as_ref()
            .is_some_and(|it| it.shared.is_none())
    }) {
        return Ok(());
    }
    let until = Instant::now() + PATIENCE;
    let mut refusal = None;
    for row in &submitted.jobs {
        let job = wait_for_start(client, row.id, until)?;
        refusal = print_reserved_start(&job).err().or(refusal);
    }
    refusal.map_or(Ok(()), Err)
}

/// Returns the job once its sites have answered, or when the wait is over.
fn wait_for_start(client: &Client, id: u64, until: Instant) -> Result<JobReport, CliError> {
    loop {
        let job = client.job(id)?;
        let state = job
            .reservation
            .as_ref()
            .map(|reservation| reservation.state.as_str());
        let asks = matches!(state, Some("wanted" | "asking"));
        if !asks || job.phase.is_final() || Instant::now() >= until {
            return Ok(job);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Formats the reservation of each part of the job, with its site.
fn format_parts(reservation: &ReservationReport) -> String {
    reservation
        .held
        .iter()
        .map(|held: &HeldReport| format!("{} at {}", held.processors, held.site))
        .collect::<Vec<_>>()
        .join(", ")
}

fn print_reserved_start(job: &JobReport) -> Result<(), CliError> {
    let Some(reservation) = &job.reservation else {
        return Ok(());
    };
    let id = job.id;
    match (reservation.state.as_str(), reservation.start) {
        ("confirmed", Some(start)) => {
            let mut sites: Vec<&str> = reservation
                .held
                .iter()
                .map(|held| held.site.as_str())
                .collect();
            sites.dedup();
            print_note(&format!(
                "job {id} starts at {} at {}",
                format_local(start),
                sites.join(", ")
            ));
            if let Some(split) = &reservation.split {
                print_note(&format!(
                    "job {id} is divided: {split}: {}",
                    format_parts(reservation)
                ));
            }
            for one in &reservation.claimed {
                let component = &one.component;
                let site = &one.site;
                print_note(&format!(
                    "{}: job {id}: {component} is not reserved, as {site} grants no reservations: \
                     it claims processors at the start, if any are idle then",
                    warning_word()
                ));
            }
            Ok(())
        }
        ("refused", _) => {
            let why = job.phase.reason.as_deref().unwrap_or("its sites refused");
            let remedy = reservation.next.map(|next| {
                // Rounded up to the next second: an earlier start would be refused again.
                let next = format_local((next.0 + DurationMs(999)).into());
                format!("the earliest start that it could get is {next}: --start \"{next}\"")
            });
            let message = format!("job {id} got no reservation: {why}");
            Err(CliError {
                exit: CliExitCode::Refused,
                message,
                remedy,
                quiet: false,
            })
        }
        ("claims-first", _) => {
            // Unknown while processors are being claimed.
            let asks = reservation
                .asks_at
                .map(|at| format!(" at {}", format_local(at)));
            let asks = asks.unwrap_or_default();
            print_note(&format!(
                "job {id} starts once processors are idle; if it still waits{asks}, sites are \
                 asked for a reservation"
            ));
            Ok(())
        }
        ("not-needed", _) => Ok(()),
        _ => {
            print_note(&format!(
                "sites are still being asked for job {id}; see: cospan show {id}"
            ));
            Ok(())
        }
    }
}
