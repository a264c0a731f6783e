//! Users who change their minds about a promised start, while others decide on what they said
//! before.

use super::divided::placements_of_parts;
use super::job_world::key;
use super::reservations::ReservationWorld;
use crate::acquisition::ReservationTerms;
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_state::{PhaseKind, TermsChange};
use crate::reservation::{ReservationCall, ReservationOutcome, StartWindow};
use crate::units::DurationMs;

const HOUR: DurationMs = DurationMs::from_secs(3_600);

impl ReservationWorld {
    fn tell_world(&mut self, command: JobCommand) -> Result<Vec<&'static str>, JobRejection> {
        self.world.apply_command(command)
    }

    /// A job that is to start between one and two hours from now, and waits for its site to say
    /// that it keeps what it granted.
    fn awaiting_confirmation() -> Self {
        let mut story = Self::new(1, HOUR, 1);
        story.request_reservations().unwrap();
        while let Some((question, ask)) = story.due_call() {
            if matches!(ask, ReservationCall::Confirm { .. }) {
                break;
            }
            let outcome = story.outcome_at_site(&ask);
            story.apply_outcome(question, outcome).unwrap();
        }
        story
    }
}

#[test]
fn what_was_confirmed_while_a_job_was_frozen_is_asked_for_again_once_it_is_thawed() {
    for is_kept in [true, false] {
        let mut story = ReservationWorld::awaiting_confirmation();
        story.tell_world(JobCommand::Freeze(key())).unwrap();
        story.answer_all_calls();
        assert_eq!(story.due_call(), None, "all is confirmed");
        story.world.now = story.world.now + DurationMs::from_secs(600);
        assert_eq!(
            story.tell_world(JobCommand::Thaw(key())).unwrap(),
            ["JobThawed"]
        );
        assert_eq!(
            story.world.phase(),
            PhaseKind::Queued,
            "its site may take nothing any more"
        );
        let (question, ask) = story.due_call().unwrap();
        assert!(matches!(ask, ReservationCall::Confirm { .. }), "{ask:?}");
        let lost = ReservationOutcome::Lost { next: None };
        let outcome = if is_kept {
            story.outcome_at_site(&ask)
        } else {
            lost
        };
        let events = story.apply_outcome(question, outcome).unwrap();
        let expected = if is_kept {
            vec!["ReservationAnswered", "JobPlaced"]
        } else {
            vec!["ReservationAnswered", "JobRequeued"]
        };
        assert_eq!(events, expected);
    }
}

#[test]
fn another_start_that_was_confirmed_for_a_frozen_job_is_asked_for_again() {
    let mut story = ReservationWorld::new(1, HOUR, 1);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    story.request_other_start(HOUR + HOUR, HOUR).unwrap();
    story.tell_world(JobCommand::Freeze(key())).unwrap();
    story.answer_all_calls();
    assert_eq!(
        story.tell_world(JobCommand::Thaw(key())).unwrap(),
        ["JobThawed"]
    );
    let (question, ask) = story.due_call().unwrap();
    assert!(matches!(ask, ReservationCall::Confirm { .. }), "{ask:?}");
    let before = story.world.job.reserved_start();
    story
        .apply_outcome(question, ReservationOutcome::Lost { next: None })
        .unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    assert_eq!(
        story.world.job.reserved_start(),
        before,
        "it keeps what it had"
    );
}

/// A job for which processors are claimed first, and is to start within three hours.
fn claiming_world() -> ReservationWorld {
    let mut story = ReservationWorld::new(1, HOUR, 1);
    let now = story.world.now;
    let window = StartWindow::new(now, now + HOUR + HOUR + HOUR);
    let wish = ReservationTerms {
        window,
        reserve_after: Some(HOUR),
        ..Default::default()
    };
    story.world.job.wish = TermsChange::Changed(wish);
    story
}

#[test]
fn an_offer_made_before_its_user_wanted_a_promise_is_not_taken() {
    let place = JobCommand::Place {
        placements: placements_of_parts(&[(0, 1)]),
        by: None,
    };
    let give_up = JobCommand::GiveUpPlacement { tries: 3 };
    let mut story = claiming_world();
    story.request_other_start(DurationMs::ZERO, HOUR).unwrap();
    assert_eq!(
        story.tell_world(place.clone()),
        Err(JobRejection::Stale),
        "sites are to be asked"
    );
    assert_eq!(
        story.tell_world(give_up),
        Err(JobRejection::Stale),
        "nobody has asked them"
    );
    let mut story = claiming_world();
    let wish = story.world.job.reservation_terms().unwrap();
    let window = StartWindow::new(wish.window.earliest + HOUR, wish.window.latest);
    let wish = Some(ReservationTerms { window, ..wish });
    story
        .tell_world(JobCommand::ChangeReservation { wish, by: key() })
        .unwrap();
    assert_eq!(
        story.tell_world(place.clone()),
        Err(JobRejection::Stale),
        "it is too early for it now"
    );
    assert!(claiming_world().tell_world(place).is_ok());
}

#[test]
fn what_was_found_for_another_start_decides_nothing() {
    let mut story = ReservationWorld::new(1, HOUR, 1);
    let wish = story.world.job.reservation_terms();
    let nowhere = |wish| JobCommand::Reserve {
        candidates: vec![Vec::new()],
        unreserved: vec![Vec::new()],
        rankings: Vec::new(),
        wish,
    };
    story.request_other_start(HOUR, HOUR).unwrap();
    assert_eq!(
        story.tell_world(nowhere(wish)),
        Err(JobRejection::Stale),
        "some site may turn up until then"
    );
    let wish = story.world.job.reservation_terms();
    assert_eq!(story.tell_world(nowhere(wish)).unwrap(), ["JobFailed"]);
    let mut story = ReservationWorld::with_flexible_job(false);
    let wish = story.world.job.reservation_terms();
    story.request_other_start(HOUR, HOUR).unwrap();
    let lose = |wish| JobCommand::LoseReservation {
        reason: "nothing is free".into(),
        wish,
    };
    assert_eq!(story.tell_world(lose(wish)), Err(JobRejection::Stale));
    let wish = story.world.job.reservation_terms();
    assert_eq!(story.tell_world(lose(wish)).unwrap(), ["JobFailed"]);
}
