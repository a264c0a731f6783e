//! Processors of a round are held or left to others, and nothing is counted as both.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::job_world::{JobWorld, flexible_spec, spec};
use super::lives::{LifeStep, any_step, apply_step, run_without_faults};
use super::queued::world_waiting_at_sites;
use crate::acquisition::{Acquisition, QueueTimeLimits};
use crate::ids::{ComponentIndex, LrmId};
use crate::job::evolve::evolve;
use crate::job::job_command::{AttemptSighting, InputState, SubmissionAnswer};
use crate::job::job_event::{JobEvent, JobEventKind};
use crate::job::job_state::{Job, PhaseKind};
use crate::runner::RestartScope;
use crate::units::{DurationMs, Timestamp};

/// What a job came to, told by its events alone, in processors x time.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProcessorTimeCosts {
    /// Each stretch from a site's start to the begin of the payload or the attempt's end.
    held: u64,
    /// In rounds that started, from placement to there; in others and of restarts what was held.
    whole: u64,
}

#[derive(Default)]
struct CostWatch {
    costs: ProcessorTimeCosts,
    placed: Timestamp,
    is_decided: bool,
    /// Since when they hold processors that they have not begun on.
    since: BTreeMap<ComponentIndex, Timestamp>,
    /// What each has held in the round, and since the start was decided which are yet to begin.
    held: BTreeMap<ComponentIndex, u64>,
    to_begin: Vec<ComponentIndex>,
}

impl CostWatch {
    /// Before the event is applied.
    fn observe_event(&mut self, job: &Job, event: &JobEvent) {
        match &event.what {
            JobEventKind::JobPlaced { .. } => {
                self.close_round();
                self.placed = event.at;
                self.is_decided = false;
            }
            JobEventKind::ComponentReady { component, .. } => {
                self.since.entry(*component).or_insert(event.at);
            }
            JobEventKind::GoDecided { .. } => {
                self.is_decided = true;
                self.to_begin = self.since.keys().copied().collect();
            }
            JobEventKind::ComponentBegan { component, .. } => {
                self.release_component(job, *component, event.at)
            }
            JobEventKind::AttemptEnded {
                component, attempt, ..
            } if job.components[component.0 as usize].attempt == *attempt => {
                self.release_component(job, *component, event.at);
            }
            _ => {}
        }
    }

    fn release_component(&mut self, job: &Job, index: ComponentIndex, at: Timestamp) {
        let Some(since) = self.since.remove(&index) else {
            return;
        };
        let processors = u64::from(job.processors_of(index));
        let held = processors * at.since(since).0;
        self.costs.held += held;
        let starts = self.to_begin.iter().position(|of| *of == index);
        if let Some(of) = starts {
            self.to_begin.swap_remove(of);
            self.held.remove(&index);
            self.costs.whole += processors * at.since(self.placed).0;
        } else if self.is_decided {
            self.costs.whole += held;
        } else {
            *self.held.entry(index).or_default() += held;
        }
    }

    /// What its round held that never came to a start.
    fn close_round(&mut self) {
        self.costs.whole += std::mem::take(&mut self.held).into_values().sum::<u64>();
    }
}

fn costs_from_events(start: &Job, events: &[JobEvent]) -> ProcessorTimeCosts {
    let mut job = start.clone();
    let mut watch = CostWatch::default();
    for event in events {
        watch.observe_event(&job, event);
        evolve(&mut job, event);
    }
    watch.close_round();
    watch.costs
}

fn counted_costs(job: &Job) -> ProcessorTimeCosts {
    let instants = &job.instants;
    let held = instants.wasted_processor_ms;
    ProcessorTimeCosts {
        held,
        whole: held + instants.gained_processor_ms,
    }
}

/// Blows under which many rounds wait in queues, give back and come to a start.
fn any_steps() -> impl Strategy<Value = Vec<LifeStep>> {
    let more = prop_oneof![
        4 => (0..3usize).prop_map(|index| LifeStep::See(index, 2)),
        2 => (0..3usize).prop_map(|index| LifeStep::See(index, 6)),
        2 => Just(LifeStep::Inputs(1)),
        4 => (0..3usize).prop_map(|index| LifeStep::Submit(index, 4)),
        1 => (100..400u64).prop_map(LifeStep::Pass),
    ];
    proptest::collection::vec(prop_oneof![any_step(), more], 0..160)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_gained_and_wasted_is_the_whole_of_each_round(
        components in 0..4usize,
        queued in any::<bool>(),
        alone in any::<bool>(),
        blows in any_steps(),
    ) {
        let mut spec = if components == 0 { flexible_spec() } else { spec(components) };
        spec.max_retries = 2;
        spec.run.restart_scope = if alone { RestartScope::Component } else { RestartScope::Job };
        let mut world = JobWorld::new(spec);
        if queued {
            let deadline = DurationMs::from_secs(3_600);
            let max_hold = DurationMs::from_secs(300);
            world.acquisition = Acquisition::Queue(QueueTimeLimits { deadline, max_hold });
        }
        let start = world.job.clone();
        blows.iter().for_each(|blow| apply_step(&mut world, blow));
        run_without_faults(&mut world);
        prop_assert!(world.job.is_final(), "stuck: {:?}", world.job);
        prop_assert_eq!(counted_costs(&world.job), costs_from_events(&start, &world.events));
    }
}

#[test]
fn what_was_held_and_given_back_is_not_gained_too() {
    let mut world = world_waiting_at_sites(2);
    world.advance_secs(100);
    world.sight_attempt(0, AttemptSighting::Ready("n".into()));
    world.advance_secs(300);
    assert_eq!(
        world.look_with_inputs(InputState::Here),
        ["ClaimGivenBack", "StartDeferred"]
    );
    world.sight_attempt(0, AttemptSighting::Void);
    assert_eq!(
        world.look_with_inputs(InputState::Here),
        ["ComponentsClaimed"]
    );
    world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("2").unwrap()));
    world.advance_secs(50);
    world.sight_all(AttemptSighting::Ready("n".into()));
    assert_eq!(world.phase(), PhaseKind::Starting);
    let instants = &world.job.instants;
    assert_eq!(instants.wasted_processor_ms, 2 * 300_000);
    // 450 s from placement to the start, of two processors each.
    assert_eq!(instants.gained_processor_ms, 2 * 2 * 450_000 - 2 * 300_000);
}
