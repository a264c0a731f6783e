//! Where a job stands that is to be promised a start, in words.

use cospan_domain::job::state::{Job, Phase, Reservation};

use crate::api::v1::Instant;

/// What it waits for; `None` if that is no start that it is to be promised.
pub(super) fn told(job: &Job) -> Option<String> {
    job.reservation_wish()?;
    match (&job.phase, &job.reservation) {
        (Phase::Queued { .. }, Some(reservation)) if !reservation.spent => {
            Some(asking(reservation))
        }
        (Phase::Queued { .. }, _) => Some(
            "it waits until a site that grants reservations, and could hold it, takes jobs".into(),
        ),
        (Phase::Placed { .. } | Phase::Claiming { .. }, Some(reservation)) => {
            let start = Instant(job.promised_start()?);
            let flexible = match job.is_promised_flexibly() {
                true => "; it is moved to an earlier start once its sites have more free",
                false => "",
            };
            let held = held(job, reservation);
            Some(format!("it starts at {start}, as promised: {held}{flexible}"))
        }
        _ => None,
    }
}

fn asking(reservation: &Reservation) -> String {
    let answers = reservation.answers;
    match reservation.question() {
        Some((_, ask)) => format!(
            "sites are asked for its reservations: {answers} answer(s) so far, now {}",
            ask.site()
        ),
        None => format!("sites were asked for its reservations: {answers} answer(s)"),
    }
}

fn held(job: &Job, reservation: &Reservation) -> String {
    let held = reservation.parts().filter_map(|(part, held)| {
        let (name, held) = (job.name_of(part.component)?, held?);
        let (from, to) = (Instant(held.start), Instant(held.start + part.length));
        let processors = part.resources.processors;
        Some(format!("{name} has {processors} processors at {} from {from} to {to}", held.site))
    });
    held.collect::<Vec<_>>().join("; ")
}
