//! Promised starts that are brought forward.

use super::job_world::{key, site};
use super::reservations::ReservationWorld;
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_state::PhaseKind;
use crate::reservation::flexco::PartsPlan;
use crate::units::DurationMs;

const HOUR: DurationMs = DurationMs::from_secs(3_600);

impl ReservationWorld {
    /// A job of so many components, promised a start an hour after the earliest that it accepts,
    /// as one of two sites was taken until then; which it is not any more.
    fn with_late_reservation(components: usize, flexible: bool) -> Self {
        let mut story = Self::new_flexible(components, HOUR + HOUR, 2, flexible);
        story.occupy_site(0, DurationMs::ZERO, HOUR);
        story.occupy_site(1, DurationMs::ZERO, HOUR);
        story.request_reservations().unwrap();
        story.answer_all_calls();
        let start = story.earliest_start() + HOUR + story.world.parameters.reservation_lead;
        assert_eq!(story.world.job.reserved_start(), Some(start));
        story.free_all_sites();
        story
    }

    /// Its reservations could begin so long after the earliest start that it accepts.
    fn bring_forward(
        &mut self,
        after: DurationMs,
        sites: &[usize],
    ) -> Result<Vec<&'static str>, JobRejection> {
        let plan = PartsPlan {
            start: self.earliest_start() + after,
            sites: sites.iter().map(|at| site(*at)).collect(),
        };
        self.world.apply_command(JobCommand::BringForward {
            plan,
            freed: vec![site(0)],
        })
    }
}

#[test]
fn a_better_plan_is_promised_once_all_of_it_is_had() {
    let mut story = ReservationWorld::with_late_reservation(2, true);
    let late = story.world.job.reserved_start().unwrap();
    let before = story.held_serials();
    let half = DurationMs(HOUR.0 / 2);
    assert_eq!(
        story.bring_forward(half, &[1, 1]).unwrap(),
        ["ReservationForwardSought"]
    );
    let (question, ask) = story.due_call().unwrap();
    assert_eq!(ask.site(), &site(1), "as planned");
    let outcome = story.outcome_at_site(&ask);
    story.apply_outcome(question, outcome).unwrap();
    assert_eq!(
        story.world.job.reserved_start(),
        Some(late),
        "not all of it is confirmed"
    );
    story.answer_all_calls();
    let lead = story.world.parameters.reservation_lead;
    assert_eq!(
        story.world.job.reserved_start(),
        Some(story.earliest_start() + half + lead)
    );
    assert_eq!(
        (story.world.phase(), story.held_serials().len()),
        (PhaseKind::Placed, 2)
    );
    assert!(
        story
            .held_serials()
            .iter()
            .all(|serial| !before.contains(serial)),
        "the old went back"
    );
    let wish = story.world.job.reservation_terms().unwrap();
    assert_eq!(
        Some(wish),
        story.world.job.spec.run.reservation,
        "what it accepts is as it was"
    );
}

#[test]
fn a_plan_that_sites_do_not_grant_leaves_the_promise_as_it_is() {
    let mut story = ReservationWorld::with_late_reservation(2, true);
    let late = story.world.job.reserved_start();
    let before = story.held_serials();
    // Others were faster.
    story.occupy_site(0, DurationMs::ZERO, HOUR);
    story.occupy_site(1, DurationMs::ZERO, HOUR);
    story.bring_forward(DurationMs::ZERO, &[0, 1]).unwrap();
    story.answer_all_calls();
    assert_eq!(
        (story.world.job.reserved_start(), story.held_serials()),
        (late, before)
    );
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    story.free_all_sites();
    story.bring_forward(DurationMs::ZERO, &[0, 1]).unwrap();
    story.answer_all_calls();
    assert!(
        story.world.job.reserved_start() < late,
        "another time it is granted"
    );
}

#[test]
fn no_plan_is_replaced_but_by_a_better_one_within_what_is_accepted() {
    let mut story = ReservationWorld::with_late_reservation(2, true);
    let present = story
        .world
        .job
        .reschedulable_job(story.world.now)
        .unwrap()
        .present;
    for at in [HOUR, HOUR + DurationMs(1)] {
        let same = story.bring_forward(at, &[0, 1]);
        assert_eq!(
            same,
            Err(JobRejection::Stale),
            "{at}: no better than {present:?}"
        );
    }
    let elsewhere = story.bring_forward(DurationMs::ZERO, &[0, 7]);
    assert_eq!(elsewhere, Err(JobRejection::Stale), "no site of its own");
    let incomplete = story.bring_forward(DurationMs::ZERO, &[0]);
    assert_eq!(incomplete, Err(JobRejection::Stale));
    story.bring_forward(DurationMs::ZERO, &[0, 1]).unwrap();
    let twice = story.bring_forward(DurationMs::ZERO, &[0, 1]);
    assert_eq!(twice, Err(JobRejection::Stale), "it is being moved already");
}

#[test]
fn what_its_user_did_not_allow_to_move_stays() {
    let mut story = ReservationWorld::with_late_reservation(1, false);
    assert!(story.world.job.reschedulable_job(story.world.now).is_none());
    assert_eq!(
        story.bring_forward(DurationMs::ZERO, &[0]),
        Err(JobRejection::Stale)
    );
}

#[test]
fn a_frozen_job_or_one_whose_reservation_has_begun_is_not_moved() {
    let mut story = ReservationWorld::with_late_reservation(1, true);
    story
        .world
        .apply_command(JobCommand::Freeze(key()))
        .unwrap();
    assert_eq!(
        story.bring_forward(DurationMs::ZERO, &[0]),
        Err(JobRejection::Stale)
    );
    story.world.apply_command(JobCommand::Thaw(key())).unwrap();
    story.world.now = story.world.job.last_reservation_begin().unwrap();
    assert!(story.world.job.reschedulable_job(story.world.now).is_none());
}
