//! Promises that sites lose before the start.

use super::job_world::site;
use super::reservations::ReservationWorld;
use crate::ids::SiteName;
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_state::PhaseKind;
use crate::reservation::ReservationSerial;
use crate::units::DurationMs;

const HOUR: DurationMs = DurationMs::from_secs(3_600);

fn reservation_gone_command(site: SiteName, serial: ReservationSerial) -> JobCommand {
    JobCommand::ReservationGone { site, serial }
}

#[test]
fn a_promise_that_its_site_lost_is_asked_for_anew_before_its_start() {
    let mut story = ReservationWorld::new(2, HOUR, 2);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    let first = site(0);
    let serial = story.world.job.components[0]
        .acquisition()
        .reservation_use();
    let serial = serial.unwrap().serial;
    let other = story.world.apply_command(reservation_gone_command(
        first.clone(),
        ReservationSerial(serial.0 + 7),
    ));
    assert_eq!(other, Err(JobRejection::Stale), "of an earlier round");
    let told = story
        .world
        .apply_command(reservation_gone_command(first.clone(), serial))
        .unwrap();
    assert_eq!(told[0], "RoundAborted");
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Queued);
    assert!(
        story.held_serials().is_empty(),
        "what the other site holds is given back"
    );
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(
        (story.world.phase(), story.held_serials().len()),
        (PhaseKind::Placed, 2)
    );
    assert_eq!(
        story
            .world
            .apply_command(reservation_gone_command(first, serial)),
        Err(JobRejection::Stale),
        "told twice"
    );
}

#[test]
fn a_promise_that_is_made_use_of_is_not_given_up_for_a_list_without_it() {
    let mut story = ReservationWorld::new(1, HOUR, 1);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    let serial = story.world.job.components[0]
        .acquisition()
        .reservation_use()
        .unwrap()
        .serial;
    story.world.now = story.earliest_start() - story.world.parameters.reservation_lead;
    story.world.claim_all(Default::default());
    assert_eq!(
        story
            .world
            .apply_command(reservation_gone_command(site(0), serial)),
        Err(JobRejection::Stale)
    );
    assert_eq!(story.world.phase(), PhaseKind::Claiming);
}
