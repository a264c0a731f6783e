//! What is worth telling a job, and what it knows already.

use super::job_world::{JobWorld, spec};
use crate::ids::ComponentIndex;
use crate::job::decide::is_news;
use crate::job::job_command::{AttemptSighting, JobCommand, SiteClockTimes};
use crate::job::job_state::PhaseKind;
use crate::units::ClockSkew;

#[test]
fn what_a_site_repeats_is_news_after_an_absence_or_when_it_should_be_over() {
    let mut world = JobWorld::new(spec(1));
    let told = |world: &JobWorld, sighting: AttemptSighting| {
        is_news(
            &world.job,
            &world.parameters,
            ComponentIndex(0),
            world.now,
            SiteClockTimes::default(),
            &sighting,
        )
    };
    let begun = || AttemptSighting::Begun("node1".into());
    world.place();
    world.accept_all();
    assert!(!told(&world, AttemptSighting::Pending), "it was submitted");
    assert!(told(&world, begun()));
    world.pass(100);
    assert_eq!(world.see(0, AttemptSighting::Absent), ["AttemptAbsent"]);
    assert!(
        told(&world, AttemptSighting::Pending),
        "it is there after all"
    );
    world.see(0, AttemptSighting::Ready("node1".into()));
    assert!(!told(&world, AttemptSighting::Ready("node1".into())));
    world.see(0, begun());
    assert!(!told(&world, begun()));
    assert!(told(&world, AttemptSighting::Succeeded));
    world.pass(3_600 + 61);
    assert!(told(&world, begun()), "it ought to be over");
}

#[test]
fn a_payload_is_not_overdue_because_our_clock_was_set_between_two_starts() {
    let mut world = JobWorld::new(spec(1));
    world.place();
    world.accept_all();
    world.see(0, AttemptSighting::Ready("node1".into()));
    let began_at = Some(world.now);
    let begun = || AttemptSighting::Begun("node1".into());
    world.see_at(
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
    world.pass(10 + ahead);
    let times = SiteClockTimes {
        began_at,
        clock: ClockSkew(-1_000 * ahead as i64),
        ..SiteClockTimes::default()
    };
    let told = is_news(
        &world.job,
        &world.parameters,
        ComponentIndex(0),
        world.now,
        times,
        &begun(),
    );
    assert!(!told, "it has run for ten seconds of an hour");
    assert!(world.see_at(0, times, begun()).is_empty());
    assert_eq!(world.job.phase.kind(), PhaseKind::Running);
    world.pass(3_600 + 61);
    world.see_at(0, times, begun());
    assert_ne!(
        world.job.phase.kind(),
        PhaseKind::Running,
        "by now it ought to be over"
    );
}

#[test]
fn nothing_has_been_missed_before_all_that_was_seen_until_now_is_known() {
    let mut world = JobWorld::new(spec(2));
    world.place();
    world.accept_all();
    world.see_all(AttemptSighting::Ready("n".into()));
    world.pass(31);
    let component = ComponentIndex(0);
    let attempt = world.attempt(0);
    let late = JobCommand::GateAnswered {
        component,
        attempt,
        open: true,
    };
    assert_eq!(world.tell(late).unwrap(), ["GateOpened"]);
    world.see_all(AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Finished);
}
