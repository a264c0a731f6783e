//! The state of a job that wants reservations, in words.

use cospan_domain::job::job_state::{Job, JobPhase, JobReservations};
use cospan_domain::reservation::StartWindow;
use cospan_domain::units::DurationMs;

use cospan_api::v1::Instant;
use cospan_api::v1::reservation::{part_name, reservation_request_at, unreserved_reports};
use cospan_api::v1::split::SplitReport;

/// Describes the wait for reservations; `None` if the job does not wait for any.
pub(super) fn describe_reservation_wait(job: &Job) -> Option<String> {
    job.reservation_terms()
        .filter(|_| !job.claims_first() || job.has_live_reservation_search())?;
    match (&job.phase, &job.reservation) {
        (JobPhase::Queued { .. }, Some(reservation)) if !reservation.spent => Some(
            describe_request(reservation)
                + &SplitReport::of(job).map_or(String::new(), |split| format!(", for {split}")),
        ),
        (JobPhase::Queued { not_before, .. }, Some(reservation)) if reservation.split.is_some() => {
            let again = Instant(*not_before);
            Some(format!(
                "it is divided anew over what sites have free then, at {again}"
            ))
        }
        (JobPhase::Queued { .. }, _) => Some(
            "it waits until a site that grants reservations, and could hold it, takes jobs".into(),
        ),
        (JobPhase::Placed { .. } | JobPhase::Claiming { .. }, Some(reservation)) => {
            let start = Instant(job.reserved_start()?);
            let flexible = if job.is_flexibly_reserved() {
                "; it is moved to an earlier start once its sites have more free"
            } else {
                ""
            };
            let held = describe_reservations(job, reservation);
            let claimed = describe_unreserved(job, reservation);
            let split = describe_split(job);
            Some(format!(
                "it starts at {start}, as reserved: {split}{held}{claimed}{flexible}"
            ))
        }
        _ => None,
    }
}

/// Describes what happens to a job that waits for idle processors, if it waits on; `None` if
/// nothing does.
pub(super) fn describe_next_step(job: &Job) -> Option<String> {
    let StartWindow { earliest, latest } = job.reservation_terms()?.window;
    if !job.claims_first() || job.reservation_due_at().is_none() {
        return None;
    }
    let latest = Instant(latest);
    let Some(at) = reservation_request_at(job).map(Instant) else {
        return Some(format!(
            "no site is asked for a reservation any more; it fails at {latest}"
        ));
    };
    let refused = match job.reservation {
        Some(_) => "no site granted it a start; ",
        None => "",
    };
    let earliest = Instant(earliest.max(at.0));
    Some(format!(
        "{refused}if it still waits at {at}, sites are asked for a reservation with a start from \
         {earliest} to {latest}"
    ))
}

fn describe_request(reservation: &JobReservations) -> String {
    let answers = reservation.answers;
    match reservation.due_call() {
        Some((_, ask)) => format!(
            "sites are asked for its reservations: {answers} answer(s) so far, now {}",
            ask.site()
        ),
        None => format!("sites were asked for its reservations: {answers} answer(s)"),
    }
}

/// Describes the division of a flexible job.
fn describe_split(job: &Job) -> String {
    SplitReport::of(job).map_or(String::new(), |split| format!("{split}: "))
}

/// Describes the components without a reservation.
fn describe_unreserved(job: &Job, reservation: &JobReservations) -> String {
    let late = reservation.extra_claim_time();
    let told = unreserved_reports(job).map(|one| {
        let name = one.component;
        let site = one.site;
        format!(
            "; {name} is NOT reserved: it is claimed at the start at {site} if processors are idle \
             there, and the others wait for it up to {late}"
        )
    });
    told.collect()
}

fn describe_reservations(job: &Job, reservation: &JobReservations) -> String {
    let held = reservation.parts().filter_map(|(part, held)| {
        let name = part_name(job, reservation, part.component)?;
        let held = held?;
        let from = Instant(held.start);
        let to = Instant(held.start + part.length);
        let processors = part.resources.processors;
        let later = match part.offset {
            DurationMs::ZERO => String::new(),
            offset => format!(", and begins {offset} after the others"),
        };
        let site = &held.site;
        Some(format!(
            "{name} has {processors} processors at {site} from {from} to {to}{later}"
        ))
    });
    held.collect::<Vec<_>>().join("; ")
}
