//! Components that begin later than the others of their job.

use std::sync::Arc;

use super::job_world::{key, site, spec};
use super::reservations::ReservationWorld;
use crate::acquisition::ReservationTerms;
use crate::claim::{ClaimPlace, ClaimTry, ClaimableSites, PreemptibleJob, plan_claim};
use crate::ids::{ComponentIndex, LrmId};
use crate::job::demands::list_holdings;
use crate::job::job_command::{
    AttemptSighting, InputState, JobCommand, JobRejection, JobSurroundings, SiteClockTimes,
    SubmissionAnswer,
};
use crate::job::job_due::{JobEffectKind, next_wake};
use crate::job::job_state::{Job, PhaseKind};
use crate::job::spec::{JobSpec, JobSpecError, JobSpecLimits, StartOffsetError};
use crate::placed::Placement;
use crate::reservation::StartWindow;
use crate::resources::Resources;
use crate::runner::RestartScope;
use crate::units::{DurationMs, Timestamp};

const MINUTE: DurationMs = DurationMs::from_secs(60);
const HOUR: DurationMs = DurationMs::from_secs(3_600);
const LATE: usize = 1;

/// Two components, of which the second begins ten minutes after the first, as is promised.
fn with_late_component(change: impl FnOnce(&mut JobSpec)) -> ReservationWorld {
    let mut story = ReservationWorld::new_flexible(2, HOUR, 2, false);
    let mut spec = JobSpec::clone(&story.world.job.spec);
    spec.components[LATE].start_after = DurationMs(10 * MINUTE.0);
    change(&mut spec);
    story.world.job.spec = Arc::new(spec);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    story
}

/// The same once the first runs.
fn with_first_running(change: impl FnOnce(&mut JobSpec)) -> ReservationWorld {
    let mut story = with_late_component(change);
    story.world.now = story.earliest_start() - story.world.parameters.reservation_lead;
    assert_eq!(
        story.world.claim_all(JobSurroundings::default()),
        ["ComponentsClaimed"]
    );
    accept_submission(&mut story, 0);
    story
        .world
        .sight_attempt(0, AttemptSighting::Ready("node1".into()));
    let start = story.earliest_start();
    story.advance_until(start);
    assert_eq!(story.world.phase(), PhaseKind::Starting);
    story
        .world
        .sight_attempt(0, AttemptSighting::Begun("node1".into()));
    assert_eq!(story.world.phase(), PhaseKind::Running);
    story
}

fn accept_submission(story: &mut ReservationWorld, index: usize) {
    story
        .world
        .answer_submission(index, SubmissionAnswer::Accepted(LrmId::new("1").unwrap()));
}

/// The late one is claimed as soon as it may be.
fn claim_late_component(story: &mut ReservationWorld) {
    story.world.now = story
        .world
        .job
        .next_claim_time(&story.world.parameters)
        .unwrap();
    assert_eq!(
        story.world.look_with_inputs(InputState::Unknown),
        ["ComponentsClaimed"]
    );
    accept_submission(story, LATE);
}

fn late_component_start(story: &ReservationWorld) -> Timestamp {
    story
        .world
        .job
        .component_start(ComponentIndex(LATE as u32))
        .unwrap()
}

#[test]
fn a_component_that_begins_later_has_no_part_in_the_common_start() {
    let story = with_late_component(|_| ());
    let job = &story.world.job;
    let parameters = &story.world.parameters;
    assert_eq!(job.reserved_start(), Some(story.earliest_start()));
    let from = |index: usize| {
        job.components[index]
            .acquisition()
            .reservation_use()
            .unwrap()
            .from
    };
    assert_eq!(from(LATE), from(0) + DurationMs(10 * MINUTE.0));
    assert_eq!(
        job.unclaimed_components().collect::<Vec<_>>(),
        [ComponentIndex(0)]
    );
    assert_eq!(job.next_claim_time(parameters), Some(from(0)));

    let story = with_first_running(|_| ());
    let late = &story.world.job.components[LATE];
    assert!(late.run.as_str() == "idle" && late.is_to_begin_later());
    assert_eq!(story.world.due_effects(), []);
}

#[test]
fn it_is_claimed_in_its_own_reservation_and_begins_when_its_time_has_come() {
    let mut story = with_first_running(|_| ());
    let at = late_component_start(&story);
    assert_eq!(at, story.earliest_start() + DurationMs(10 * MINUTE.0));
    let lead = story.world.parameters.reservation_lead;
    assert_eq!(
        story.world.job.next_claim_time(&story.world.parameters),
        Some(at - lead)
    );
    story.world.advance_secs(60);
    assert_eq!(
        story.world.look_with_inputs(InputState::Unknown),
        Vec::<&str>::new(),
        "it is too early"
    );
    claim_late_component(&mut story);
    story
        .world
        .sight_attempt(LATE, AttemptSighting::Ready("node2".into()));
    assert_eq!(story.world.due_effects(), [], "its gate stays shut");
    let job = &story.world.job;
    let parameters = &story.world.parameters;
    let now = story.world.now;
    assert_eq!(next_wake(job, parameters, now), Some(at));
    story.world.now = at;
    assert_eq!(story.world.due_effects(), [JobEffectKind::OpenGate]);
    assert!(!story.world.job.is_restarted(), "none of it has run before");
    story
        .world
        .sight_attempt(LATE, AttemptSighting::Begun("node2".into()));
    assert_eq!(story.world.job.components[LATE].run.as_str(), "running");
}

#[test]
fn the_job_is_done_once_the_late_one_is_and_gives_all_back() {
    let mut story = with_first_running(|_| ());
    story.world.sight_attempt(0, AttemptSighting::Succeeded);
    assert_eq!(
        (story.world.phase(), story.held_serials().len()),
        (PhaseKind::Running, 2)
    );
    claim_late_component(&mut story);
    story
        .world
        .sight_attempt(LATE, AttemptSighting::Ready("node2".into()));
    story.world.now = late_component_start(&story);
    story
        .world
        .sight_attempt(LATE, AttemptSighting::Begun("node2".into()));
    assert!(story.world.job.components[LATE].restart.is_none());
    story.world.sight_attempt(LATE, AttemptSighting::Succeeded);
    assert_eq!(story.world.phase(), PhaseKind::Collecting);
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Finished);
    assert!(story.held_serials().is_empty());
}

#[test]
fn what_the_late_one_holds_before_it_begins_counts_as_wasted() {
    let mut story = with_first_running(|_| ());
    let placed = story.world.job.instants.placed.unwrap();
    let before = story.world.job.instants.gained_processor_ms;
    claim_late_component(&mut story);
    story
        .world
        .sight_attempt(LATE, AttemptSighting::Ready("node2".into()));
    let held = story.world.now;
    let wasted = story.world.job.instants.wasted_processor_ms;
    story.world.now = late_component_start(&story);
    story
        .world
        .sight_attempt(LATE, AttemptSighting::Begun("node2".into()));
    let instants = &story.world.job.instants;
    assert_eq!(
        instants.wasted_processor_ms - wasted,
        2 * story.world.now.since(held).0
    );
    assert_eq!(
        instants.gained_processor_ms - before,
        2 * held.since(placed).0
    );
}

#[test]
fn a_lost_reservation_of_the_late_one_gives_up_the_round_and_the_others() {
    let mut story = with_first_running(|_| ());
    claim_late_component(&mut story);
    let names = story
        .world
        .sight_attempt(LATE, AttemptSighting::Taken("its lease is gone".into()));
    assert_eq!(names, ["AttemptEnded", "RoundAborted"]);
    assert!(story.world.job.components[LATE].restart.is_none());
    story
        .world
        .sight_attempt(0, AttemptSighting::Vanished("ended".into()));
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Queued);
    assert!(story.held_serials().is_empty());
}

#[test]
fn one_that_is_restarted_alone_still_begins_no_earlier_than_was_said() {
    let mut story = with_first_running(|spec| spec.run.restart_scope = RestartScope::Component);
    let at = late_component_start(&story);
    let names = story.world.apply_command(JobCommand::LeaveSite(site(0)));
    let late_site = story.world.job.components[LATE]
        .placement
        .as_ref()
        .unwrap()
        .site
        .clone();
    if late_site != site(0) {
        assert_eq!(names, Err(JobRejection::Stale));
        story
            .world
            .apply_command(JobCommand::LeaveSite(late_site))
            .unwrap();
    }
    let lead = story.world.parameters.reservation_lead;
    assert_eq!(
        story.world.job.next_claim_time(&story.world.parameters),
        Some(at - lead)
    );
    story.world.now = at - lead;
    let index = ComponentIndex(LATE as u32);
    let placement = Placement {
        site: site(3),
        ..story.world.placements(0)[LATE].clone()
    };
    let round = story.world.job.round;
    let moves = vec![(index, placement)];
    let attempt = ClaimTry {
        round,
        start: vec![index],
        moves,
        preempting: Vec::new(),
    };
    story
        .world
        .apply_command(JobCommand::Claim(attempt, JobSurroundings::default()))
        .unwrap();
    accept_submission(&mut story, LATE);
    story
        .world
        .sight_attempt(LATE, AttemptSighting::Ready("node3".into()));
    assert_eq!(story.world.due_effects(), []);
    story.world.now = at;
    assert_eq!(story.world.due_effects(), [JobEffectKind::OpenGate]);
}

#[test]
fn a_site_that_is_being_emptied_keeps_who_is_promised_a_later_begin() {
    let mut story = with_first_running(|_| ());
    let late = story.world.job.components[LATE]
        .placement
        .as_ref()
        .unwrap()
        .site
        .clone();
    let leaves = story
        .world
        .apply_command(JobCommand::LeaveSite(late.clone()));
    assert_eq!(
        leaves,
        Err(JobRejection::Stale),
        "others run, and would be ended"
    );
    let held = list_holdings(&story.world.job);
    let held = held
        .iter()
        .find(|held| held.component.0 as usize == LATE)
        .unwrap();
    assert!(held.site == late && !held.live, "it is not empty yet");
    assert_eq!(
        held.resources,
        Resources::default(),
        "nothing of it is in use yet"
    );
}

#[test]
fn a_silent_site_of_the_late_one_is_waited_for_as_that_of_the_others() {
    let mut story = with_first_running(|_| ());
    claim_late_component(&mut story);
    let unreachable = vec![(ComponentIndex(LATE as u32), story.world.now)];
    let external = JobSurroundings {
        unreachable,
        ..JobSurroundings::default()
    };
    assert_eq!(
        story
            .world
            .apply_command(JobCommand::Look(external))
            .unwrap(),
        Vec::<&str>::new()
    );
    let limit = story.world.parameters.claim_timeout;
    story.world.now = story.world.now + limit;
    let names = story
        .world
        .apply_command(JobCommand::Look(JobSurroundings::default()))
        .unwrap();
    assert_eq!(
        names,
        ["RoundAborted"],
        "its processors were not had in time"
    );
}

#[test]
fn all_of_a_job_is_moved_by_as_much() {
    let mut story = with_late_component(|_| ());
    story
        .request_other_start(HOUR + HOUR, DurationMs::ZERO)
        .unwrap();
    story.answer_all_calls();
    let job = &story.world.job;
    assert_eq!(
        job.reserved_start(),
        Some(story.earliest_start() + HOUR + HOUR)
    );
    let from = |index: usize| {
        job.components[index]
            .acquisition()
            .reservation_use()
            .unwrap()
            .from
    };
    assert_eq!(from(LATE), from(0) + DurationMs(10 * MINUTE.0));
    let window = StartWindow::single_start(story.earliest_start() + HOUR);
    let flexible = ReservationTerms {
        window,
        flexible: true,
        ..ReservationTerms::default()
    };
    for wish in [None, Some(flexible)] {
        let answer = story
            .world
            .apply_command(JobCommand::ChangeReservation { wish, by: key() });
        assert!(
            matches!(answer, Err(JobRejection::Impossible(_))),
            "{answer:?}"
        );
    }
}

/// Nothing is idle, and nobody gives way.
struct FullSites;

impl ClaimableSites for FullSites {
    fn idle_at(&self, _: &ClaimPlace) -> Option<Resources> {
        Some(Resources::default())
    }

    fn take(&mut self, _: &ClaimPlace, _: &Resources) {}

    fn replace(&mut self, _: &Job, _: ComponentIndex) -> Option<Placement> {
        None
    }

    fn victims_at(&self, _: &ClaimPlace) -> Vec<PreemptibleJob> {
        Vec::new()
    }
}

#[test]
fn what_is_promised_to_the_late_one_need_not_be_idle() {
    let story = with_first_running(|_| ());
    let job = &story.world.job;
    let claim = &story.world.parameters.claim;
    assert_eq!(
        plan_claim(job, claim, story.world.now, &mut FullSites).start,
        []
    );
    let late = plan_claim(job, claim, late_component_start(&story), &mut FullSites);
    assert_eq!(late.start, [ComponentIndex(LATE as u32)]);
}

#[test]
fn a_common_start_is_torn_by_nobody_who_begins_later() {
    let mut story = with_first_running(|_| ());
    claim_late_component(&mut story);
    story
        .world
        .sight_attempt(LATE, AttemptSighting::Ready("node2".into()));
    story.world.now = late_component_start(&story) + DurationMs(1);
    let began_at = Some(story.world.now);
    let times = SiteClockTimes {
        began_at,
        ..SiteClockTimes::default()
    };
    story
        .world
        .sight_attempt_at(LATE, times, AttemptSighting::Begun("node2".into()));
    assert_eq!(story.world.phase(), PhaseKind::Running);
}

#[test]
fn offsets_are_for_what_is_promised_a_start_as_a_whole() {
    let promised = || {
        let mut spec = spec(2);
        let window = StartWindow::single_start(Timestamp(5_000));
        spec.run.reservation = Some(ReservationTerms {
            window,
            ..Default::default()
        });
        spec.components[LATE].start_after = MINUTE;
        spec
    };
    let check = |change: &dyn Fn(&mut JobSpec)| {
        let mut spec = promised();
        change(&mut spec);
        match spec.validate(&JobSpecLimits::default()) {
            Err(JobSpecError::Offset(error)) => Some(error),
            other => {
                assert_eq!(other, Ok(()));
                None
            }
        }
    };
    let wish = |change: fn(&mut ReservationTerms)| {
        check(&move |spec| spec.run.reservation.iter_mut().for_each(change))
    };
    assert_eq!(check(&|_| ()), None);
    assert!(matches!(
        check(&|spec| spec.run.reservation = None),
        Some(StartOffsetError::NoReservation(_))
    ));
    let if_needed = wish(|wish| wish.reserve_after = Some(MINUTE));
    assert!(matches!(if_needed, Some(StartOffsetError::IfNeeded(_))));
    let moved = wish(|wish| wish.flexible = true);
    assert!(matches!(moved, Some(StartOffsetError::Moved(_))));
    let unreserved = wish(|wish| wish.unreserved = true);
    assert!(matches!(unreserved, Some(StartOffsetError::Unreserved(_))));
    let all = check(&|spec| spec.components[0].start_after = MINUTE);
    assert_eq!(all, Some(StartOffsetError::NoneAtStart));
    let parallel = check(&|spec| spec.run.runner = Some("parallel".parse().unwrap()));
    assert!(matches!(
        parallel,
        Some(StartOffsetError::WithRunner {
            runner: "parallel",
            ..
        })
    ));
    let too_long = check(&|spec| spec.components[LATE].start_after = DurationMs(u64::MAX));
    assert!(matches!(too_long, Some(StartOffsetError::TooLong { .. })));
}
