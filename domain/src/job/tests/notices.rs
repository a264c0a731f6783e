//! What those are told of a promised start who want to know.

use std::sync::Arc;

use super::job_world::key;
use super::reservations::ReservationWorld;
use crate::acquisition::ReservationTerms;
use crate::ids::TargetName;
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_due::next_wake;
use crate::job::job_state::{PhaseKind, StartNoticeKind};
use crate::job::spec::JobSpec;
use crate::reservation::StartWindow;
use crate::units::DurationMs;

const HOUR: DurationMs = DurationMs::from_secs(3_600);

fn notified_team() -> TargetName {
    TargetName::new("team").unwrap()
}

/// A job that is promised a start in an hour, and whose end and start somebody wants to know.
fn with_notified_team() -> ReservationWorld {
    let mut story = ReservationWorld::new_flexible(1, DurationMs::ZERO, 1, false);
    let mut spec = JobSpec::clone(&story.world.job.spec);
    spec.run.notify.insert(notified_team());
    story.world.job.spec = Arc::new(spec);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    story
}

fn unsent_notice_kinds(story: &ReservationWorld) -> Vec<StartNoticeKind> {
    story
        .world
        .job
        .unsent_notices()
        .map(|(notice, _)| notice.kind)
        .collect()
}

#[test]
fn a_start_is_announced_once_and_told_until_it_was_heard() {
    let mut story = with_notified_team();
    let start = story.world.job.reserved_start().unwrap();
    let at = start - story.world.parameters.reservation_notice;
    let job = &story.world.job;
    let parameters = &story.world.parameters;
    let now = story.world.now;
    assert_eq!(
        next_wake(job, parameters, now),
        Some(at),
        "nobody else wakes it"
    );
    story.advance_until(at - DurationMs(1));
    assert_eq!(unsent_notice_kinds(&story), []);
    story.advance_until(at);
    assert_eq!(unsent_notice_kinds(&story), [StartNoticeKind::StartsSoon]);
    story.advance_until(at + DurationMs(1));
    assert_eq!(
        unsent_notice_kinds(&story),
        [StartNoticeKind::StartsSoon],
        "once"
    );
    let (notice, _) = story.world.job.unsent_notices().next().unwrap();
    assert_eq!(notice.start, start);
    let told = JobCommand::NoticeTold {
        notice: notice.id,
        target: notified_team(),
        problem: None,
    };
    assert_eq!(
        story.world.apply_command(told.clone()).unwrap(),
        ["NoticeTold"]
    );
    assert_eq!(story.world.apply_command(told), Err(JobRejection::Stale));
    assert!(unsent_notice_kinds(&story).is_empty() && !story.world.job.has_unsent_messages());
}

#[test]
fn a_start_that_was_promised_late_is_not_announced() {
    let mut story = ReservationWorld::new_flexible(1, DurationMs::ZERO, 1, false);
    story.world.now = story.earliest_start() - DurationMs::from_secs(60);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(
        story.world.job.announcement_time(&story.world.parameters),
        None
    );
}

#[test]
fn a_move_is_told_with_its_new_start_and_announced_anew() {
    let mut story = with_notified_team();
    let at = story
        .world
        .job
        .announcement_time(&story.world.parameters)
        .unwrap();
    story.advance_until(at);
    let window = StartWindow::single_start(story.earliest_start() + HOUR + HOUR);
    let wish = Some(ReservationTerms {
        window,
        ..Default::default()
    });
    story
        .world
        .apply_command(JobCommand::ChangeReservation { wish, by: key() })
        .unwrap();
    story.answer_all_calls();
    assert_eq!(
        unsent_notice_kinds(&story),
        [StartNoticeKind::StartsSoon, StartNoticeKind::StartMoved]
    );
    let last = story.world.job.unsent_notices().last().unwrap().0.start;
    assert_eq!(Some(last), story.world.job.reserved_start());
    let again = story
        .world
        .job
        .announcement_time(&story.world.parameters)
        .unwrap();
    story.advance_until(again);
    assert_eq!(unsent_notice_kinds(&story).len(), 3);
}

#[test]
fn a_job_that_has_ended_tells_nothing_of_its_start() {
    let mut story = with_notified_team();
    let at = story
        .world
        .job
        .announcement_time(&story.world.parameters)
        .unwrap();
    story.advance_until(at);
    story
        .world
        .apply_command(JobCommand::Cancel(key()))
        .unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Cancelled);
    assert_eq!(unsent_notice_kinds(&story), []);
    assert!(story.world.job.has_unsent_messages(), "of its end");
}
