//! Reservations as the metrics count them.

use std::sync::Arc;

use cospan_domain::acquisition::{Acquisition, UsedReservation};
use cospan_domain::job::job_state::{Component, JobPhase};
use cospan_domain::placed::Placement;
use cospan_domain::reservation::{Coallocation, CoallocationPart, ReservationSerial, StartWindow};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;
use prometheus::Registry;

use super::*;
use crate::metrics::ControlPlaneMetrics;
use crate::transfer::testing::{content, queued_job, site};

fn searching_job() -> Job {
    let mut job = queued_job(1, content(1));
    let window = StartWindow::new(Timestamp(0), Timestamp(100_000));
    let part = CoallocationPart {
        component: ComponentIndex(0),
        resources: Resources::processors(4),
        length: DurationMs(60_000),
        sites: vec![site("Delft")],
        offset: DurationMs::ZERO,
    };
    let wanted = Coallocation {
        parts: vec![part],
        window,
        tolerance: DurationMs::ZERO,
        unit: DurationMs(1),
        windows_max: 9,
        rankings: Vec::new(),
    };
    job.reservation = Some(Box::new(JobReservations {
        search: ReservationSearch::new(wanted),
        placements: vec![Vec::new()],
        lead: DurationMs::ZERO,
        answers: 0,
        asked_since: Timestamp(0),
        spent: false,
        other: None,
        claimed: Vec::new(),
        withheld: false,
        notices: Default::default(),
        split: None,
        refusals: 0,
    }));
    job
}

fn make_event(what: JobEventKind) -> JobEvent {
    JobEvent {
        at: Timestamp(50_000),
        what,
    }
}

fn answer_call(metrics: &ControlPlaneMetrics, job: &Job, outcome: ReservationOutcome) -> Job {
    let mut new = job.clone();
    if let Some(reservation) = &mut new.reservation {
        reservation.search.record_outcome(outcome);
    }
    let answered = JobEventKind::ReservationAnswered {
        site: site("Delft"),
        outcome,
    };
    count_reservation_event(&metrics.reservations, job, &new, &make_event(answered));
    count_live_reservations(&metrics.reservations, job, -1);
    count_live_reservations(&metrics.reservations, &new, 1);
    new
}

fn held_reservation_counts(metrics: &ControlPlaneMetrics) -> [i64; 3] {
    let held = &metrics.reservations.held;
    ["granted", "confirmed", "released"].map(|s| held.with_label_values(&["Delft", s]).get())
}

#[test]
fn reservations_are_counted_from_their_grant_until_they_are_given_back() {
    let metrics = ControlPlaneMetrics::new(&Registry::new()).expect("metrics");
    let job = searching_job();
    assert_eq!(held_reservation_counts(&metrics), [0, 0, 0]);
    let job = answer_call(
        &metrics,
        &job,
        ReservationOutcome::Granted {
            start: Timestamp(0),
        },
    );
    assert_eq!(held_reservation_counts(&metrics), [1, 0, 0]);
    let job = answer_call(&metrics, &job, ReservationOutcome::Done);
    let job = answer_call(&metrics, &job, ReservationOutcome::Done);
    assert_eq!(held_reservation_counts(&metrics), [0, 1, 0]);
    let mut given_up = job.clone();
    given_up
        .reservation
        .iter_mut()
        .for_each(|reservation| reservation.search.give_up());
    count_live_reservations(&metrics.reservations, &job, -1);
    count_live_reservations(&metrics.reservations, &given_up, 1);
    assert_eq!(held_reservation_counts(&metrics), [0, 0, 1]);
    answer_call(&metrics, &given_up, ReservationOutcome::Done);
    assert_eq!(held_reservation_counts(&metrics), [0, 0, 0]);
}

#[test]
fn refusals_and_losses_are_counted_by_site() {
    let metrics = ControlPlaneMetrics::new(&Registry::new()).expect("metrics");
    let refused = |reason| {
        metrics
            .reservations
            .refused
            .with_label_values(&["Delft", reason])
            .get()
    };
    answer_call(
        &metrics,
        &searching_job(),
        ReservationOutcome::Refused {
            next: Some(Timestamp(9)),
        },
    );
    assert_eq!((refused("later"), refused("never")), (1, 0));
    answer_call(
        &metrics,
        &searching_job(),
        ReservationOutcome::Refused { next: None },
    );
    assert_eq!((refused("later"), refused("never")), (1, 1));
    let granted = answer_call(
        &metrics,
        &searching_job(),
        ReservationOutcome::Granted {
            start: Timestamp(0),
        },
    );
    answer_call(&metrics, &granted, ReservationOutcome::Lost { next: None });
    assert_eq!(
        metrics
            .reservations
            .lost
            .with_label_values(&["Delft"])
            .get(),
        1
    );
}

#[test]
fn what_was_reserved_and_not_used_is_counted_when_the_job_ends() {
    let metrics = ControlPlaneMetrics::new(&Registry::new()).expect("metrics");
    let mut old = queued_job(1, content(1));
    let from = Timestamp(10_000);
    let to = Timestamp(60_000);
    let promised = UsedReservation {
        serial: ReservationSerial(1),
        from,
        to,
        shared: false,
    };
    let placement = Placement {
        site: site("Delft"),
        sources: Vec::new(),
        transfer_time: DurationMs::ZERO,
        share: None,
        acquisition: Acquisition::Reserved(promised),
    };
    old.components = vec![Component {
        placement: Some(placement),
        ..Component::default()
    }];
    Arc::make_mut(&mut old.spec).components[0].resources = Resources::processors(4);
    old.instants.started = Some(Timestamp(20_000));
    let new = Job {
        phase: JobPhase::Finished {
            at: Timestamp(50_000),
        },
        ..old.clone()
    };
    count_reservation_event(
        &metrics.reservations,
        &old,
        &new,
        &make_event(JobEventKind::JobFinished),
    );
    let metrics = &metrics.reservations;
    let counted = (
        metrics.processor_seconds.get(),
        metrics.unused_processor_seconds.get(),
    );
    assert_eq!(counted, (4 * 40, 4 * 10));
}
