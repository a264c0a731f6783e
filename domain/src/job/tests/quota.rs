//! Jobs whose users may reserve only so much.

use super::job_world::key;
use super::reservations::ReservationWorld;
use crate::acquisition::ReservationTerms;
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_state::JobPhase;
use crate::reservation::{ReservationCall, StartWindow};
use crate::units::DurationMs;

const HOUR: DurationMs = DurationMs::from_secs(3_600);

#[test]
fn a_user_who_holds_too_much_is_told_so_and_the_site_is_not_asked() {
    let mut story = ReservationWorld::new_flexible(1, DurationMs::ZERO, 1, false);
    story.request_reservations().unwrap();
    let (question, ask) = story.due_call().unwrap();
    assert!(matches!(ask, ReservationCall::Create { .. }));
    let withhold = |question| JobCommand::WithholdReservation {
        question,
        most: 1,
        next: None,
    };
    assert_eq!(
        story.world.apply_command(withhold(question + 1)),
        Err(JobRejection::Stale)
    );
    let told = story.world.apply_command(withhold(question)).unwrap();
    assert_eq!(told, ["ReservationWithheld", "JobFailed"]);
    let JobPhase::Failed { reason, .. } = &story.world.job.phase else {
        panic!()
    };
    assert!(reason.contains("reservations.most_share"), "{reason}");
    assert!(story.held_serials().is_empty());
}

#[test]
fn a_start_is_moved_no_further_ahead_than_its_user_may_reserve() {
    let mut story = ReservationWorld::new_flexible(1, DurationMs::ZERO, 1, false);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    story.world.parameters.reservation_ahead = Some(HOUR + HOUR);
    let mut move_to = |hours: u64, exempt| {
        let window = StartWindow::single_start(story.earliest_start() + DurationMs(hours * HOUR.0));
        let wish = Some(ReservationTerms {
            window,
            exempt,
            ..Default::default()
        });
        story
            .world
            .apply_command(JobCommand::ChangeReservation { wish, by: key() })
    };
    let refused = move_to(2, false);
    assert!(matches!(refused, Err(JobRejection::Impossible(why)) if why.contains("most_ahead")));
    assert!(move_to(2, true).is_ok());
}
