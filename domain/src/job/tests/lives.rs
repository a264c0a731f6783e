//! Random lives: whatever comes in whatever order, the rules hold, and once the
//! world behaves, every job comes to its end.

use proptest::prelude::*;

use super::job_world::{JobWorld, flexible_spec, key, lost_input, site, spec};
use crate::claim::ClaimTry;
use crate::ids::{Attempt, ComponentIndex, JobId, LrmId};
use crate::job::decide::{decide, is_new_sighting};
use crate::job::evolve::evolve;
use crate::job::job_command::{
    AttemptSighting, InputState, JobCommand, JobSurroundings, SiteClockTimes, SubmissionAnswer,
};
use crate::job::job_due::{JobEffectKind, due, next_wake};
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{JobPhase, PhaseKind, RestartStep};
use crate::job::spec::Priority;
use crate::placed::Placement;
use crate::runner::RestartScope;
use crate::units::DurationMs;

#[derive(Debug, Clone)]
pub(super) enum LifeStep {
    Place(bool),
    Submit(usize, u8),
    LookUp(usize, bool),
    See(usize, u8),
    SeeStale(usize, u8),
    Gate(usize, bool),
    Inputs(u8),
    Silent(usize, u64),
    Charges,
    Claim(u8, bool),
    Preempt,
    GiveWay(usize),
    Order(u8),
    Recover,
    Pass(u64),
}

pub(super) fn any_step() -> impl Strategy<Value = LifeStep> {
    let index = 0..3usize;
    prop_oneof![
        2 => any::<bool>().prop_map(LifeStep::Place),
        4 => (index.clone(), 0..7u8).prop_map(|(i, a)| LifeStep::Submit(i, a)),
        2 => (index.clone(), any::<bool>()).prop_map(|(i, f)| LifeStep::LookUp(i, f)),
        8 => (index.clone(), 0..8u8).prop_map(|(i, s)| LifeStep::See(i, s)),
        1 => (index.clone(), 0..8u8).prop_map(|(i, s)| LifeStep::SeeStale(i, s)),
        2 => (index.clone(), any::<bool>()).prop_map(|(i, o)| LifeStep::Gate(i, o)),
        2 => (0..4u8).prop_map(LifeStep::Inputs),
        1 => (index, 0..4_000u64).prop_map(|(i, s)| LifeStep::Silent(i, s)),
        2 => Just(LifeStep::Charges),
        4 => (0..8u8, any::<bool>()).prop_map(|(mask, moves)| LifeStep::Claim(mask, moves)),
        1 => Just(LifeStep::Preempt),
        1 => (0..3usize).prop_map(LifeStep::GiveWay),
        1 => (0..7u8).prop_map(LifeStep::Order),
        1 => Just(LifeStep::Recover),
        2 => (0..200u64).prop_map(LifeStep::Pass),
    ]
}

fn sighting_of_kind(kind: u8) -> AttemptSighting {
    match kind {
        0 => AttemptSighting::Absent,
        1 => AttemptSighting::Pending,
        2 => AttemptSighting::Ready("n".into()),
        3 => AttemptSighting::Begun("n".into()),
        4 => AttemptSighting::Succeeded,
        5 => AttemptSighting::Failed("exit code 1".into()),
        6 => AttemptSighting::Void,
        _ => AttemptSighting::Vanished("gone".into()),
    }
}

fn answer_of_kind(kind: u8) -> SubmissionAnswer {
    match kind {
        0 => SubmissionAnswer::Refused("no".into()),
        1 => SubmissionAnswer::Full("full".into()),
        2 => SubmissionAnswer::NotSent("off".into()),
        3 => SubmissionAnswer::Unknown(DurationMs::from_secs(30)),
        5 | 6 => SubmissionAnswer::Unfit {
            detail: "no such feature".into(),
            fits_elsewhere: kind == 5,
        },
        _ => SubmissionAnswer::Accepted(LrmId::new("5").unwrap()),
    }
}

pub(super) fn apply_step(world: &mut JobWorld, blow: &LifeStep) {
    let attempt = |world: &JobWorld, index: usize| world.attempt(index);
    let at = |index: usize| ComponentIndex(index as u32);
    let command = match *blow {
        LifeStep::Place(input) => JobCommand::Place {
            placements: world.placements(if input { 9_000 } else { 0 }),
            by: None,
        },
        LifeStep::Submit(index, kind) => JobCommand::SubmitAnswered {
            component: at(index),
            attempt: attempt(world, index),
            answer: answer_of_kind(kind),
        },
        LifeStep::LookUp(index, found) => JobCommand::LookUpAnswered {
            component: at(index),
            attempt: attempt(world, index),
            asked_at: world.now,
            found: found.then(|| LrmId::new("6").unwrap()),
        },
        LifeStep::See(index, kind) => JobCommand::AttemptObserved {
            component: at(index),
            attempt: attempt(world, index),
            asked_at: world.now,
            times: SiteClockTimes::default(),
            sighting: sighting_of_kind(kind),
        },
        LifeStep::SeeStale(index, kind) => JobCommand::AttemptObserved {
            component: at(index),
            attempt: Attempt(attempt(world, index).0.saturating_sub(1)),
            asked_at: world.now,
            times: SiteClockTimes::default(),
            sighting: sighting_of_kind(kind),
        },
        LifeStep::Gate(index, open) => JobCommand::GateAnswered {
            component: at(index),
            attempt: attempt(world, index),
            open,
        },
        LifeStep::Inputs(kind) => {
            let inputs = match kind {
                0 => InputState::Unknown,
                1 => InputState::Here,
                2 => InputState::Expected(world.now + DurationMs::from_secs(500)),
                _ => lost_input(&[0, 1]),
            };
            JobCommand::Look(JobSurroundings {
                inputs,
                ..JobSurroundings::default()
            })
        }
        LifeStep::Silent(index, secs) => JobCommand::Look(JobSurroundings {
            unreachable: vec![(at(index), world.now - DurationMs::from_secs(secs))],
            ..JobSurroundings::default()
        }),
        LifeStep::Claim(mask, moves) => claim_some_command(world, mask, moves),
        LifeStep::Preempt => JobCommand::Preempt { by: JobId(9) },
        LifeStep::GiveWay(index) => JobCommand::Look(JobSurroundings {
            yields: Some((at(index), JobId(3))),
            ..JobSurroundings::default()
        }),
        LifeStep::Charges => return world.record_charges(),
        LifeStep::Order(kind) => match kind {
            0 => JobCommand::Cancel(key()),
            1 => JobCommand::Freeze(key()),
            2 => JobCommand::Thaw(key()),
            3 => JobCommand::Promote { to: Priority::High },
            4 => JobCommand::LeaveSite(site(1)),
            5 => JobCommand::Abandon {
                by: key(),
                silent: [site(0), site(2)].into(),
            },
            _ => JobCommand::Release(key()),
        },
        LifeStep::Recover => JobCommand::Recover { settle: Vec::new() },
        LifeStep::Pass(secs) => return world.advance_secs(secs),
    };
    // A command that does not fit is rejected; that nothing happened then is the rule.
    let _ = world.apply_command(command);
}

/// A try that finds some of the unclaimed components startable, perhaps elsewhere.
fn claim_some_command(world: &JobWorld, mask: u8, moves: bool) -> JobCommand {
    let start: Vec<ComponentIndex> = world
        .job
        .unclaimed_components()
        .filter(|index| mask & (1 << index.0) != 0)
        .collect();
    let moved = start.first().filter(|_| moves).map(|&index| {
        let before = world.job.components[index.0 as usize].placement.clone();
        let placement = Placement {
            site: site(3),
            ..before.unwrap()
        };
        (index, placement)
    });
    let attempt = ClaimTry {
        round: world.job.round,
        start,
        moves: moved.into_iter().collect(),
        preempting: Vec::new(),
    };
    JobCommand::Claim(attempt, JobSurroundings::default())
}

/// A try that finds all startable, and a site for who is restarted and has none.
fn claim_all_command(world: &JobWorld) -> JobCommand {
    let start: Vec<ComponentIndex> = world.job.unclaimed_components().collect();
    let moved = start.iter().filter_map(|index| {
        let component = &world.job.components[index.0 as usize];
        let restart = component.restart.as_ref()?;
        let placement = component
            .placement
            .clone()
            .filter(|_| restart.step == RestartStep::ToPlace)?;
        Some((
            *index,
            Placement {
                site: site(3),
                ..placement
            },
        ))
    });
    let attempt = ClaimTry {
        round: world.job.round,
        moves: moved.collect(),
        start,
        preempting: Vec::new(),
    };
    JobCommand::Claim(attempt, JobSurroundings::default())
}

/// Everything goes well from here on: does what is due, sees what is to be seen.
pub(super) fn run_without_faults(world: &mut JobWorld) {
    let _ = world.apply_command(JobCommand::Thaw(key()));
    let _ = world.apply_command(JobCommand::Release(key()));
    for _ in 0..400 {
        if world.job.is_final() {
            return;
        }
        world.advance_secs(20);
        if matches!(world.job.phase, JobPhase::Queued { .. }) {
            world.record_charges();
            world.place_job();
        }
        for effect in due(&world.job, world.now) {
            let component = effect.component;
            let attempt = effect.attempt;
            let _ = match effect.kind {
                JobEffectKind::Submit => world.apply_command(JobCommand::SubmitAnswered {
                    component,
                    attempt,
                    answer: answer_of_kind(4),
                }),
                JobEffectKind::Withdraw => world.apply_command(JobCommand::SubmitAnswered {
                    component,
                    attempt,
                    answer: answer_of_kind(2),
                }),
                JobEffectKind::LookUp => world.apply_command(JobCommand::LookUpAnswered {
                    component,
                    attempt,
                    asked_at: world.now,
                    found: None,
                }),
                JobEffectKind::OpenGate => world.apply_command(JobCommand::GateAnswered {
                    component,
                    attempt,
                    open: true,
                }),
                JobEffectKind::End => world.apply_command(JobCommand::AttemptObserved {
                    component,
                    attempt,
                    asked_at: world.now,
                    times: SiteClockTimes::default(),
                    sighting: AttemptSighting::Void,
                }),
                JobEffectKind::RecordCharge => {
                    world.apply_command(JobCommand::ChargeRecorded { component, attempt })
                }
                JobEffectKind::ReadOutput(_)
                | JobEffectKind::RegisterOutput(_)
                | JobEffectKind::Reserve => Ok(Vec::new()),
            };
        }
        for index in 0..world.job.components.len() {
            let sighting = match world.job.components[index].run.as_str() {
                "submitted" => AttemptSighting::Ready("n".into()),
                "at-gate" if world.job.start_at.is_some() => AttemptSighting::Begun("n".into()),
                "opened" => AttemptSighting::Begun("n".into()),
                "running" => AttemptSighting::Succeeded,
                _ => continue,
            };
            world.sight_attempt(index, sighting);
        }
        if !world.job.is_final() {
            // To look is to claim where all are, which leaves nobody the time to go elsewhere.
            if matches!(world.job.phase, JobPhase::Running { .. }) {
                let _ = world.apply_command(claim_all_command(world));
            }
            world.look_with_inputs(InputState::Here);
            let _ = world.apply_command(claim_all_command(world));
        }
    }
}

fn restart_scope(alone: bool) -> RestartScope {
    if alone {
        RestartScope::Component
    } else {
        RestartScope::Job
    }
}

/// A job of two components that runs, and restarts them alone.
fn running_world_restarting_alone(max_retries: u32) -> JobWorld {
    let mut spec = spec(2);
    spec.run.restart_scope = RestartScope::Component;
    spec.max_retries = max_retries;
    let mut world = JobWorld::new(spec);
    world.run_to_payloads();
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Until the round itself is given up.
    #[test]
    fn a_failure_of_one_component_touches_no_other_that_is_restarted_alone(
        blows in proptest::collection::vec(any_step(), 0..120),
    ) {
        let mut world = running_world_restarting_alone(3);
        for blow in &blows {
            let before = world.job.clone();
            let seen = world.events.len();
            apply_step(&mut world, blow);
            let failed: Vec<_> = world.events[seen..].iter().filter_map(|e| match e.what {
                JobEventKind::ComponentFailed { component, .. } => Some(component),
                _ => None,
            }).collect();
            if world.phase() != PhaseKind::Running || failed.len() != 1 {
                continue;
            }
            for (index, component) in world.job.indexed_components().filter(|(i, _)| !failed.contains(i)) {
                let then = &before.components[index.0 as usize];
                if then.restart.is_some() {
                    continue;
                }
                prop_assert_eq!(then.attempt, component.attempt);
                prop_assert_eq!(then.given_back, component.given_back);
            }
        }
    }

    /// The table, the rule of the common start and the numbering of attempts are
    /// checked at each step by the world itself.
    #[test]
    fn any_life_keeps_the_rules_and_ends_once_the_world_behaves(
        components in 0..4usize,
        rerunnable in any::<bool>(),
        alone in any::<bool>(),
        blows in proptest::collection::vec(any_step(), 0..120),
    ) {
        let mut spec = if components == 0 { flexible_spec() } else { spec(components) };
        spec.rerunnable = rerunnable;
        spec.run.restart_scope = restart_scope(alone);
        let mut world = JobWorld::new(spec);
        let mut attempts = [Attempt(0); 3];
        for blow in &blows {
            let before = world.job.clone();
            apply_step(&mut world, blow);
            if before.is_final() {
                prop_assert_eq!(&before, &world.job, "an end is an end");
            }
            // A component that another split does without keeps its last number.
            for (index, last) in attempts.iter_mut().enumerate().take(world.job.components.len()) {
                prop_assert!(world.attempt(index) >= *last, "attempt numbers never fall");
                *last = world.attempt(index);
            }
        }
        run_without_faults(&mut world);
        prop_assert!(world.job.is_final(), "stuck: {:?}", world.job);
        prop_assert!(!world.job.may_live_anywhere(), "an end with something alive");
    }

    /// So nobody needs to look who was told nothing and was not woken.
    #[test]
    fn whoever_looks_before_its_next_wake_and_sees_nothing_decides_nothing(
        components in 0..4usize,
        alone in any::<bool>(),
        blows in proptest::collection::vec(any_step(), 0..120),
    ) {
        let mut spec = if components == 0 { flexible_spec() } else { spec(components) };
        spec.run.restart_scope = restart_scope(alone);
        let mut world = JobWorld::new(spec);
        for blow in &blows {
            apply_step(&mut world, blow);
            let look = |at| {
                let look = JobCommand::Look(JobSurroundings::default());
                decide(&world.job, &world.parameters, look, at).unwrap_or_default()
            };
            let wake = next_wake(&world.job, &world.parameters, world.now);
            let before = wake.map_or(world.now + DurationMs::from_secs(1 << 30), |at| {
                (at - DurationMs(1)).max(world.now)
            });
            if wake.is_none_or(|at| at > world.now) {
                prop_assert_eq!(look(world.now), [], "{:?}", world.job);
                prop_assert_eq!(look(before), [], "{:?}", world.job);
            }
        }
    }

    #[test]
    fn what_is_no_news_decides_nothing(
        alone in any::<bool>(),
        blows in proptest::collection::vec(any_step(), 0..120),
    ) {
        let mut spec = spec(3);
        spec.run.restart_scope = restart_scope(alone);
        let mut world = JobWorld::new(spec);
        for blow in &blows {
            apply_step(&mut world, blow);
            let each = (0..world.job.components.len()).flat_map(|i| (0..8).map(move |k| (i, k)));
            for (index, kind) in each {
                let component = ComponentIndex(index as u32);
                let attempt = world.attempt(index);
                let asked_at = world.now;
                let sighting = sighting_of_kind(kind);
                if is_new_sighting(&world.job, &world.parameters, component, asked_at, SiteClockTimes::default(), &sighting) {
                    continue;
                }
                let told = JobCommand::AttemptObserved {
                    component,
                    attempt,
                    asked_at,
                    times: SiteClockTimes::default(),
                    sighting,
                };
                let decided = decide(&world.job, &world.parameters, told, world.now);
                let wake = next_wake(&world.job, &world.parameters, world.now);
                if wake.is_none_or(|at| at > world.now) {
                    prop_assert_eq!(decided.unwrap_or_default(), [], "{:?}", world.job);
                }
            }
        }
    }

    #[test]
    fn folding_the_events_gives_the_record(
        blows in proptest::collection::vec(any_step(), 0..120),
        is_flexible in any::<bool>(),
        alone in any::<bool>(),
    ) {
        let mut spec = if is_flexible { flexible_spec() } else { spec(3) };
        spec.run.restart_scope = restart_scope(alone);
        let mut world = JobWorld::new(spec);
        let mut fold = world.job.clone();
        blows.iter().for_each(|blow| apply_step(&mut world, blow));
        world.events.iter().for_each(|event| evolve(&mut fold, event));
        prop_assert_eq!(fold, world.job);
    }

    /// A site is charged once an attempt, however often its failure is seen.
    #[test]
    fn no_attempt_is_charged_twice(
        blows in proptest::collection::vec(any_step(), 0..150),
        is_flexible in any::<bool>(),
        alone in any::<bool>(),
    ) {
        let mut spec = if is_flexible { flexible_spec() } else { spec(3) };
        spec.run.restart_scope = restart_scope(alone);
        let mut world = JobWorld::new(spec);
        blows.iter().for_each(|blow| apply_step(&mut world, blow));
        let mut charged = std::collections::BTreeSet::new();
        for event in &world.events {
            if let crate::job::job_event::JobEventKind::SiteCharged { component, charge } = &event.what {
                prop_assert!(charged.insert((*component, charge.attempt)), "{:?}", event);
            }
        }
    }

    /// Also where an index went with one split and came back with another.
    #[test]
    fn no_attempt_of_a_component_is_begun_twice_however_the_job_is_split(
        blows in proptest::collection::vec(any_step(), 0..200),
    ) {
        let mut world = JobWorld::new(flexible_spec());
        let mut begun = std::collections::BTreeSet::new();
        for blow in &blows {
            let before = world.job.clone();
            apply_step(&mut world, blow);
            for index in 0..world.job.components.len() {
                let old = before.components.get(index).filter(|_| before.round == world.job.round);
                let attempt = world.attempt(index);
                let is_new = old.is_some_and(|old| old.attempt != attempt);
                prop_assert!(!is_new || begun.insert((index, attempt)), "{index} {attempt:?}");
            }
        }
    }
}
