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
    fn promised_late(components: usize, flexible: bool) -> Self {
        let mut story = Self::flexible(components, HOUR + HOUR, 2, flexible);
        story.take(0, DurationMs::ZERO, HOUR);
        story.take(1, DurationMs::ZERO, HOUR);
        story.seek().unwrap();
        story.ask_all();
        let start = story.start() + HOUR + story.world.parameters.reservation_lead;
        assert_eq!(story.world.job.reserved_start(), Some(start));
        story.give_back_taken();
        story
    }

    /// Its reservations could begin so long after the earliest start that it accepts.
    fn could_begin(
        &mut self,
        after: DurationMs,
        sites: &[usize],
    ) -> Result<Vec<&'static str>, JobRejection> {
        let plan = PartsPlan {
            start: self.start() + after,
            sites: sites.iter().map(|at| site(*at)).collect(),
        };
        self.world.tell(JobCommand::BringForward {
            plan,
            freed: vec![site(0)],
        })
    }
}

#[test]
fn a_better_plan_is_promised_once_all_of_it_is_had() {
    let mut story = ReservationWorld::promised_late(2, true);
    let late = story.world.job.reserved_start().unwrap();
    let before = story.held();
    let half = DurationMs(HOUR.0 / 2);
    assert_eq!(
        story.could_begin(half, &[1, 1]).unwrap(),
        ["ReservationForwardSought"]
    );
    let (question, ask) = story.question().unwrap();
    assert_eq!(ask.site(), &site(1), "as planned");
    let outcome = story.outcome(&ask);
    story.tell(question, outcome).unwrap();
    assert_eq!(
        story.world.job.reserved_start(),
        Some(late),
        "not all of it is confirmed"
    );
    story.ask_all();
    let lead = story.world.parameters.reservation_lead;
    assert_eq!(
        story.world.job.reserved_start(),
        Some(story.start() + half + lead)
    );
    assert_eq!(
        (story.world.phase(), story.held().len()),
        (PhaseKind::Placed, 2)
    );
    assert!(
        story.held().iter().all(|serial| !before.contains(serial)),
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
    let mut story = ReservationWorld::promised_late(2, true);
    let late = story.world.job.reserved_start();
    let before = story.held();
    // Others were faster.
    story.take(0, DurationMs::ZERO, HOUR);
    story.take(1, DurationMs::ZERO, HOUR);
    story.could_begin(DurationMs::ZERO, &[0, 1]).unwrap();
    story.ask_all();
    assert_eq!(
        (story.world.job.reserved_start(), story.held()),
        (late, before)
    );
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    story.give_back_taken();
    story.could_begin(DurationMs::ZERO, &[0, 1]).unwrap();
    story.ask_all();
    assert!(
        story.world.job.reserved_start() < late,
        "another time it is granted"
    );
}

#[test]
fn no_plan_is_replaced_but_by_a_better_one_within_what_is_accepted() {
    let mut story = ReservationWorld::promised_late(2, true);
    let present = story
        .world
        .job
        .earlier_start_basis(story.world.now)
        .unwrap()
        .present;
    for at in [HOUR, HOUR + DurationMs(1)] {
        let same = story.could_begin(at, &[0, 1]);
        assert_eq!(
            same,
            Err(JobRejection::Stale),
            "{at}: no better than {present:?}"
        );
    }
    let elsewhere = story.could_begin(DurationMs::ZERO, &[0, 7]);
    assert_eq!(elsewhere, Err(JobRejection::Stale), "no site of its own");
    let incomplete = story.could_begin(DurationMs::ZERO, &[0]);
    assert_eq!(incomplete, Err(JobRejection::Stale));
    story.could_begin(DurationMs::ZERO, &[0, 1]).unwrap();
    let twice = story.could_begin(DurationMs::ZERO, &[0, 1]);
    assert_eq!(twice, Err(JobRejection::Stale), "it is being moved already");
}

#[test]
fn what_its_user_did_not_allow_to_move_stays() {
    let mut story = ReservationWorld::promised_late(1, false);
    assert!(
        story
            .world
            .job
            .earlier_start_basis(story.world.now)
            .is_none()
    );
    assert_eq!(
        story.could_begin(DurationMs::ZERO, &[0]),
        Err(JobRejection::Stale)
    );
}

#[test]
fn a_frozen_job_or_one_whose_reservation_has_begun_is_not_moved() {
    let mut story = ReservationWorld::promised_late(1, true);
    story.world.tell(JobCommand::Freeze(key())).unwrap();
    assert_eq!(
        story.could_begin(DurationMs::ZERO, &[0]),
        Err(JobRejection::Stale)
    );
    story.world.tell(JobCommand::Thaw(key())).unwrap();
    story.world.now = story.world.job.reservations_begin().unwrap();
    assert!(
        story
            .world
            .job
            .earlier_start_basis(story.world.now)
            .is_none()
    );
}
