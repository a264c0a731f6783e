//! Counts the events of a job's reservations in the metrics.

use cospan_domain::ids::{ComponentIndex, SiteName};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{AbortCause, Job, JobReservations};
use cospan_domain::reservation::{
    ReservationCall, ReservationOutcome, ReservationSearch, ReservationSearchState,
};
use cospan_domain::units::Timestamp;

use crate::metrics::ReservationMetrics;

/// Adds `change` to the count for each reservation that sites have for a job.
pub(crate) fn count_live_reservations(metrics: &ReservationMetrics, job: &Job, change: i64) {
    let Some(reservation) = job.reservation.as_deref() else {
        return;
    };
    let other = reservation.other.as_ref().map(|other| &other.search);
    for search in [&reservation.search].into_iter().chain(other) {
        let state = state_label(search);
        for owned in search.owned_reservations() {
            metrics
                .held
                .with_label_values(&[owned.site.as_str(), state])
                .add(change);
        }
    }
}

fn state_label(search: &ReservationSearch) -> &'static str {
    match search.current_state() {
        ReservationSearchState::Confirmed => "confirmed",
        ReservationSearchState::Asks(ReservationCall::Cancel { .. }) if search.given_up => {
            "released"
        }
        ReservationSearchState::Asks(_) | ReservationSearchState::Failed(_) => "granted",
    }
}

/// Counts what happened to the reservations of a job.
pub(super) fn count_reservation_event(
    metrics: &ReservationMetrics,
    old: &Job,
    new: &Job,
    event: &JobEvent,
) {
    match &event.what {
        JobEventKind::ReservationAnswered { site, outcome } => {
            count_answer(metrics, old, site, *outcome);
        }
        JobEventKind::ReservationWithheld { site, .. } => {
            count_refusal(metrics, site, "quota");
        }
        JobEventKind::ReservationMoved => metrics.moves.with_label_values(&["moved"]).inc(),
        JobEventKind::ReservationStayed { .. } => {
            metrics.moves.with_label_values(&["stayed"]).inc();
        }
        JobEventKind::RoundAborted {
            why: AbortCause::ClaimLost { component, .. },
            ..
        } => {
            let lost = old.components.get(component.0 as usize);
            let lost =
                lost.filter(|c| c.acquisition().reservation_use().is_some_and(|p| !p.shared));
            if let Some(placed) = lost.and_then(|component| component.placement.as_ref()) {
                metrics
                    .lost
                    .with_label_values(&[placed.site.as_str()])
                    .inc();
            }
        }
        JobEventKind::JobFinished
        | JobEventKind::JobFailed { .. }
        | JobEventKind::JobCancelled { .. } => {
            count_reserved_time(metrics, old, new, event.at);
        }
        _ => {}
    }
}

fn count_answer(
    metrics: &ReservationMetrics,
    old: &Job,
    site: &SiteName,
    outcome: ReservationOutcome,
) {
    let asked = old
        .reservation
        .as_deref()
        .and_then(JobReservations::due_call);
    match outcome {
        ReservationOutcome::Refused { next: None } => count_refusal(metrics, site, "never"),
        ReservationOutcome::Refused { next: Some(_) } => count_refusal(metrics, site, "later"),
        // A reservation may be lost by a change, and is then requested anew.
        ReservationOutcome::Lost { .. }
            if !matches!(asked, Some((_, ReservationCall::Modify { .. }))) =>
        {
            metrics.lost.with_label_values(&[site.as_str()]).inc();
        }
        ReservationOutcome::Lost { .. }
        | ReservationOutcome::Granted { .. }
        | ReservationOutcome::Done => {}
    }
}

fn count_refusal(metrics: &ReservationMetrics, site: &SiteName, reason: &str) {
    metrics
        .refused
        .with_label_values(&[site.as_str(), reason])
        .inc();
}

/// Counts the time that was reserved until the job ended, and the unused part of it.
fn count_reserved_time(metrics: &ReservationMetrics, old: &Job, new: &Job, ended: Timestamp) {
    for (index, component) in old.components.iter().enumerate() {
        let promised = component.acquisition().reservation_use();
        let Some(promised) = promised.filter(|promised| !promised.shared) else {
            continue;
        };
        let index = ComponentIndex(index as u32);
        let resources = old.resources_of(index);
        let processors = resources.map_or(0, |resources| u64::from(resources.processors));
        let until = ended.min(promised.to);
        let reserved = until.since(promised.from);
        let began = new
            .instants
            .started
            .map(|at| at + old.spec.offset_of(index));
        let used = began.map(|at| until.since(at.max(promised.from)));
        let unused = reserved.0.saturating_sub(used.unwrap_or_default().0);
        metrics
            .processor_seconds
            .inc_by(reserved.0 * processors / 1_000);
        metrics
            .unused_processor_seconds
            .inc_by(unused * processors / 1_000);
    }
}

#[cfg(test)]
#[path = "reservation_metrics_tests.rs"]
mod tests;
