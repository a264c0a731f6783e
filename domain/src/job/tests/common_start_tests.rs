//! All together or not at all, whatever happens between two gates.

use super::job_world::{JobWorld, spec};
use crate::ids::ComponentIndex;
use crate::job::job_command::{AttemptSighting, InputState, JobCommand, SiteClockTimes};
use crate::job::job_due::JobEffectKind;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AbortCause, AttemptEnding, AttemptState, PhaseKind};
use crate::units::{ClockSkew, DurationMs, Timestamp};

/// A site's clock that is so far ahead of ours, in seconds.
fn clock_ahead(secs: i64) -> SiteClockTimes {
    SiteClockTimes {
        clock: ClockSkew(secs * 1_000),
        began_at: None,
        held_at: None,
    }
}

fn ready_sighting() -> AttemptSighting {
    AttemptSighting::Ready("node1".into())
}

/// Two components at their gates, and the start decided.
fn starting_world() -> JobWorld {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_all(ready_sighting());
    assert_eq!(world.phase(), PhaseKind::Starting);
    world
}

fn open_gate(world: &mut JobWorld, index: usize) {
    let component = ComponentIndex(index as u32);
    let attempt = world.attempt(index);
    world
        .apply_command(JobCommand::GateAnswered {
            component,
            attempt,
            open: true,
        })
        .unwrap();
}

fn recover(world: &mut JobWorld) -> Vec<&'static str> {
    world
        .apply_command(JobCommand::Recover { settle: Vec::new() })
        .unwrap()
}

fn abort_cause(world: &JobWorld) -> &AbortCause {
    let abort = world
        .events
        .iter()
        .rev()
        .find_map(|event| match &event.what {
            JobEventKind::RoundAborted { why, .. } => Some(why),
            _ => None,
        });
    abort.unwrap_or_else(|| panic!("{:?}", world.job.phase))
}

#[test]
fn a_gate_that_a_restart_left_shut_stays_shut_once_it_is_late_there() {
    // Our clock says that we were away for a second; the sites', for 271.
    let mut world = starting_world();
    let began_at = Some(world.now);
    open_gate(&mut world, 0);
    assert_eq!(recover(&mut world), ["ReadinessDoubted"]);
    world.advance_secs(1);
    assert_eq!(
        world.due_effects(),
        [],
        "who may have left its gate meanwhile is asked for first"
    );
    world.sight_attempt_at(
        0,
        SiteClockTimes {
            began_at,
            ..clock_ahead(270)
        },
        AttemptSighting::Succeeded,
    );
    world.sight_attempt_at(1, clock_ahead(270), ready_sighting());
    assert_eq!(world.due_effects(), [], "too late at its site");
    world.look_with_inputs(InputState::Unknown);
    assert_eq!(
        *abort_cause(&world),
        AbortCause::StartMissed {
            component: ComponentIndex(1)
        }
    );
    assert_eq!(world.due_effects(), [JobEffectKind::End]);
}

#[test]
fn the_other_gate_is_opened_after_a_quick_restart() {
    let mut world = starting_world();
    open_gate(&mut world, 0);
    recover(&mut world);
    world.advance_secs(2);
    world.sight_attempt(1, ready_sighting());
    assert_eq!(world.due_effects(), [JobEffectKind::OpenGate]);
    open_gate(&mut world, 1);
    world.sight_all(AttemptSighting::Begun("node1".into()));
    assert_eq!(world.phase(), PhaseKind::Running);
}

#[test]
fn no_start_is_decided_on_what_was_seen_before_a_restart() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_attempt(0, ready_sighting());
    recover(&mut world);
    world.sight_attempt(1, ready_sighting());
    assert_eq!(world.phase(), PhaseKind::Claiming);
    let since = |world: &JobWorld| match world.job.components[0].run {
        AttemptState::AtGate { since, .. } => since,
        ref other => panic!("{other:?}"),
    };
    let before = since(&world);
    world.advance_secs(3);
    assert_eq!(
        world.sight_attempt(0, ready_sighting()),
        ["ComponentReady", "GoDecided"]
    );
    assert_eq!(
        since(&world),
        before,
        "its processors have been held since then"
    );
}

#[test]
fn payloads_that_began_far_apart_are_no_success_though_all_exited_with_0() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_attempt_at(0, clock_ahead(500), ready_sighting());
    world.sight_attempt_at(1, clock_ahead(-40), ready_sighting());
    let ended = |world: &mut JobWorld, index: usize, secs: i64, later: u64| {
        let began_at = world.now + DurationMs::from_secs(later) + ClockSkew(secs * 1_000);
        let times = SiteClockTimes {
            began_at: Some(began_at),
            ..clock_ahead(secs)
        };
        world.sight_attempt_at(index, times, AttemptSighting::Succeeded);
    };
    ended(&mut world, 0, 500, 0);
    ended(&mut world, 1, -40, 31);
    assert_eq!(
        *abort_cause(&world),
        AbortCause::StartMissed {
            component: ComponentIndex(1)
        }
    );
    assert!(
        !world.job.has_unrecorded_charges(),
        "nobody knows whose fault it is"
    );
}

#[test]
fn clocks_that_differ_between_sites_tear_no_start_apart() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_attempt_at(0, clock_ahead(500), ready_sighting());
    world.sight_attempt_at(1, clock_ahead(-40), ready_sighting());
    for (index, secs) in [(0, 500), (1, -40)] {
        let began_at = Some(world.now + ClockSkew(secs * 1_000));
        let times = SiteClockTimes {
            began_at,
            ..clock_ahead(secs)
        };
        world.sight_attempt_at(index, times, AttemptSighting::Begun("n".into()));
    }
    assert_eq!(world.phase(), PhaseKind::Running);
}

#[test]
fn what_a_site_took_back_is_nobodys_error_wherever_it_stood() {
    let detail = || "preempted by a job of the site".into();
    let mut world = starting_world();
    world.sight_attempt(1, AttemptSighting::Taken(detail()));
    assert!(
        matches!(abort_cause(&world), AbortCause::ClaimLost { .. }),
        "at its gate"
    );
    assert!(!world.job.has_unrecorded_charges());

    let mut world = starting_world();
    for index in [0, 1] {
        open_gate(&mut world, index);
        world.sight_attempt(index, AttemptSighting::Begun("node1".into()));
    }
    assert_eq!(world.phase(), PhaseKind::Running);
    world.sight_attempt(1, AttemptSighting::Taken(detail()));
    assert!(
        matches!(abort_cause(&world), AbortCause::ClaimLost { .. }),
        "running"
    );
    assert!(!world.job.has_unrecorded_charges());
    let run = &world.job.components[1].run;
    assert!(
        matches!(
            run,
            AttemptState::Ended {
                how: AttemptEnding::Lost(_),
                ..
            }
        ),
        "{run:?}"
    );
}

#[test]
fn a_gate_that_was_found_open_too_late_is_nobodys_error() {
    let mut world = starting_world();
    open_gate(&mut world, 0);
    open_gate(&mut world, 1);
    world.sight_attempt(0, AttemptSighting::Begun("node1".into()));
    world.sight_attempt(1, AttemptSighting::TooLate);
    assert_eq!(
        *abort_cause(&world),
        AbortCause::StartMissed {
            component: ComponentIndex(1)
        }
    );
    assert!(!world.job.has_unrecorded_charges());
    let run = &world.job.components[1].run;
    assert!(
        matches!(
            run,
            AttemptState::Ended {
                how: AttemptEnding::NeverRan(_),
                ..
            }
        ),
        "{run:?}"
    );
}

#[test]
fn the_last_moment_to_begin_is_told_in_each_sites_own_time() {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.accept_all_submissions();
    world.sight_attempt_at(0, clock_ahead(500), ready_sighting());
    world.sight_attempt_at(1, clock_ahead(-40), ready_sighting());
    let decided = world.events.iter().find_map(|event| match event.what {
        JobEventKind::GoDecided { start_by, .. } => start_by,
        _ => None,
    });
    let start_by: Vec<Option<Timestamp>> = world
        .job
        .components
        .iter()
        .map(|component| component.start_by)
        .collect();
    let at = |secs: i64| decided.map(|time| time + ClockSkew(secs * 1_000));
    assert_eq!(start_by, [at(500), at(-40)]);
}

/// Its wrapper looks less often after a while.
#[test]
fn a_start_is_further_away_if_a_component_was_held_for_long() {
    for (held_secs, lead_secs) in [(0, 2), (44, 2), (45, 7)] {
        let mut world = JobWorld::new(spec(2));
        world.parameters.go_lead = DurationMs::from_secs(2);
        world.parameters.go_lead_held = DurationMs::from_secs(7);
        world.place_job();
        world.accept_all_submissions();
        world.sight_attempt(0, ready_sighting());
        world.advance_secs(held_secs);
        world.sight_attempt(1, ready_sighting());
        let start_at = world.now + DurationMs::from_secs(lead_secs);
        assert_eq!(world.job.start_at, Some(start_at), "held for {held_secs} s");
    }
}
