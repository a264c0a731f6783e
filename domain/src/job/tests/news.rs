//! What is worth telling a job, and what it knows already.

use super::job_world::{JobWorld, spec};
use crate::ids::ComponentIndex;
use crate::job::decide::is_new_sighting;
use crate::job::job_command::{AttemptSighting, JobCommand, SiteClockTimes};
use crate::job::job_state::PhaseKind;
use crate::units::ClockSkew;

#[test]
fn what_a_site_repeats_is_news_after_an_absence_or_when_it_should_be_over() {
    let mut world = JobWorld::new(spec(1));
    let told = |world: &JobWorld, sighting: AttemptSighting| {
        is_new_sighting(
            &world.job,
            &world.parameters,
            ComponentIndex(0),
            world.now,
            SiteClockTimes::default(),
            &sighting,
        )
    };
    let begun = || AttemptSighting::Begun("node1".into());
    world.place_job();
    world.accept_all_submissions();
    assert!(!told(&world, AttemptSighting::Pending), "it was submitted");
    assert!(told(&world, begun()));
    world.advance_secs(100);
    assert_eq!(
        world.sight_attempt(0, AttemptSighting::Absent),
        ["AttemptAbsent"]
    );
    assert!(
        told(&world, AttemptSighting::Pending),
        "it is there after all"
    );
    world.sight_attempt(0, AttemptSighting::Ready("node1".into()));
    assert!(!told(&world, AttemptSighting::Ready("node1".into())));
    world.sight_attempt(0, begun());
    assert!(!told(&world, begun()));
    assert!(told(&world, AttemptSighting::Succeeded));
    world.advance_secs(3_600 + 61);
    assert!(told(&world, begun()), "it ought to be over");
}

#[test]
fn a_payload_is_not_overdue_because_our_clock_was_set_between_two_starts() {
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.accept_all_submissions();
    world.sight_attempt(0, AttemptSighting::Ready("node1".into()));
    let began_at = Some(world.now);
    let begun = || AttemptSighting::Begun("node1".into());
    world.sight_attempt_at(
        0,
        SiteClockTimes {
            began_at,
            ..SiteClockTimes::default()
        },
        begun(),
    );
    assert_eq!(world.job.phase.kind(), PhaseKind::Running);
    // Two hours ahead after ten seconds.
    let ahead = 7_200;
    world.advance_secs(10 + ahead);
    let times = SiteClockTimes {
        began_at,
        clock: ClockSkew(-1_000 * ahead as i64),
        ..SiteClockTimes::default()
    };
    let told = is_new_sighting(
        &world.job,
        &world.parameters,
        ComponentIndex(0),
        world.now,
        times,
        &begun(),
    );
    assert!(!told, "it has run for ten seconds of an hour");
    assert!(world.sight_attempt_at(0, times, begun()).is_empty());
    assert_eq!(world.job.phase.kind(), PhaseKind::Running);
    world.advance_secs(3_600 + 61);
    world.sight_attempt_at(0, times, begun());
    assert_ne!(
        world.job.phase.kind(),
        PhaseKind::Running,
        "by now it ought to be over"
    );
}

#[test]
fn nothing_has_been_missed_before_all_that_was_seen_until_now_is_known() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_all(AttemptSighting::Ready("n".into()));
    world.advance_secs(31);
    let component = ComponentIndex(0);
    let attempt = world.attempt(0);
    let late = JobCommand::GateAnswered {
        component,
        attempt,
        open: true,
    };
    assert_eq!(world.apply_command(late).unwrap(), ["GateOpened"]);
    world.sight_all(AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Finished);
}
