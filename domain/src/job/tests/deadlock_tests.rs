//! Which of jobs gives way that wait for each other.

use proptest::prelude::*;

use super::job_world::{JobWorld, site, spec};
use crate::ids::{Attempt, ComponentIndex, JobId, LrmId};
use crate::job::deadlock::find_yielding_component;
use crate::job::job_state::{AttemptState, Component, Job, JobPhase};
use crate::placed::Placement;
use crate::units::{DurationMs, Timestamp};

/// What a component does at which site.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ComponentActivity {
    Holds,
    Waits,
    Nothing,
}

use ComponentActivity::{Holds, Nothing, Waits};

fn claiming_job(id: u64, submitted: u64, components: &[(ComponentActivity, usize)]) -> Job {
    let mut job = JobWorld::new(spec(components.len())).job;
    job.id = JobId(id);
    job.submitted_at = Timestamp(submitted);
    job.phase = JobPhase::Claiming {
        since: Timestamp(9),
    };
    job.components = components
        .iter()
        .map(|(does, at)| component_doing(*does, *at))
        .collect();
    job
}

fn lrm_id() -> LrmId {
    LrmId::new("1").unwrap()
}

fn component_doing(does: ComponentActivity, at: usize) -> Component {
    let run = match does {
        Holds => AttemptState::AtGate {
            lrm_id: lrm_id(),
            since: Timestamp(9),
            host: "n".into(),
            clock: None,
        },
        Waits => AttemptState::Submitted {
            lrm_id: lrm_id(),
            at: Timestamp(9),
            absences: 0,
            waits: None,
        },
        Nothing => AttemptState::Idle,
    };
    let placement = Placement {
        site: site(at),
        sources: Vec::new(),
        transfer_time: DurationMs::ZERO,
        share: None,
        acquisition: Default::default(),
    };
    Component {
        placement: Some(placement),
        attempt: Attempt(1),
        run,
        ..Component::default()
    }
}

#[test]
fn of_two_jobs_that_hold_what_the_other_waits_for_the_later_gives_way() {
    let earlier = claiming_job(7, 1, &[(Holds, 0), (Waits, 1)]);
    let later = claiming_job(3, 2, &[(Waits, 0), (Holds, 1)]);
    assert_eq!(
        find_yielding_component(&later, [&earlier]),
        Some((ComponentIndex(0), JobId(7)))
    );
    assert_eq!(find_yielding_component(&earlier, [&later]), None);
}

#[test]
fn nobody_gives_way_to_one_that_is_not_held_up_by_it() {
    let ours = claiming_job(3, 2, &[(Waits, 0), (Holds, 1)]);
    for theirs in [
        &[(Holds, 0), (Waits, 2)][..],
        &[(Waits, 1), (Waits, 0)],
        &[(Holds, 0), (Nothing, 1)],
        &[(Holds, 2), (Waits, 1)],
    ] {
        assert_eq!(
            find_yielding_component(&ours, [&claiming_job(7, 1, theirs)]),
            None,
            "{theirs:?}"
        );
    }
    let mut started = claiming_job(7, 1, &[(Holds, 0), (Waits, 1)]);
    started.phase = JobPhase::Starting {
        since: Timestamp(9),
    };
    assert_eq!(
        find_yielding_component(&ours, [&started]),
        None,
        "it waits for nothing any more"
    );
}

#[test]
fn of_three_that_wait_in_a_ring_only_the_last_gives_way() {
    let first = claiming_job(1, 1, &[(Holds, 0), (Waits, 1)]);
    let second = claiming_job(2, 2, &[(Holds, 1), (Waits, 2)]);
    let last = claiming_job(3, 3, &[(Holds, 2), (Waits, 0)]);
    assert_eq!(
        find_yielding_component(&last, [&first, &second]),
        Some((ComponentIndex(1), JobId(1)))
    );
    assert_eq!(find_yielding_component(&first, [&second, &last]), None);
    assert_eq!(find_yielding_component(&second, [&first, &last]), None);
    assert_eq!(
        find_yielding_component(&last, [&first]),
        None,
        "the second has begun, and will end"
    );
}

#[test]
fn what_is_being_given_back_holds_nobody_up() {
    let ours = claiming_job(3, 2, &[(Waits, 0), (Holds, 1)]);
    let mut theirs = claiming_job(7, 1, &[(Holds, 0), (Waits, 1)]);
    theirs.components[0].given_back = true;
    assert_eq!(find_yielding_component(&ours, [&theirs]), None);
}

fn any_activities() -> impl Strategy<Value = Vec<(ComponentActivity, usize)>> {
    let does = prop_oneof![Just(Holds), Just(Waits), Just(Nothing)];
    proptest::collection::vec((does, 0..4usize), 1..5)
}

proptest! {
    /// Held up by each other: then exactly one of them gives way, and with a component that
    /// waits where the other holds.
    #[test]
    fn exactly_one_of_two_that_wait_for_each_other_gives_way(
        one in any_activities(), other in any_activities(), at_once: bool,
    ) {
        let first = claiming_job(1, 5, &one);
        let second = claiming_job(2, if at_once { 5 } else { 6 }, &other);
        let meet = |waits: &[(ComponentActivity, usize)], holds: &[(ComponentActivity, usize)]| {
            waits.iter().any(|(does, at)| *does == Waits && holds.contains(&(Holds, *at)))
        };
        let deadlock = meet(&one, &other) && meet(&other, &one);
        let found = find_yielding_component(&second, [&first]);
        prop_assert_eq!(found.is_some(), deadlock);
        prop_assert_eq!(find_yielding_component(&first, [&second]), None);
        if let Some((component, to)) = found {
            let (does, at) = other[component.0 as usize];
            prop_assert!(does == Waits && one.contains(&(Holds, at)) && to == JobId(1));
        }
    }

    /// Progress: once nobody gives way any more no ring is left, so that somebody waits for none
    /// of them; and the first never has to give way.
    #[test]
    fn of_any_number_enough_give_way_that_no_ring_is_left(
        all in proptest::collection::vec(any_activities(), 2..7),
    ) {
        let ids = 1..;
        let jobs = ids.zip(&all).map(|(id, does)| claiming_job(id, id, does));
        let mut jobs: Vec<Job> = jobs.filter(crate::job::deadlock::holds_and_waits).collect();
        let gives_way = |job: &Job, jobs: &[Job]| {
            find_yielding_component(job, jobs.iter().filter(|other| other.id != job.id)).is_some()
        };
        loop {
            let ways: Vec<bool> = jobs.iter().map(|job| gives_way(job, &jobs)).collect();
            prop_assert!(!ways.first().is_some_and(|first| *first), "the first gives way");
            prop_assert_eq!(ways.contains(&true), has_ring(&jobs));
            if !ways.contains(&true) {
                break;
            }
            let mut ways = ways.into_iter();
            jobs.retain(|_| !ways.next().unwrap_or_default());
        }
    }
}

/// Takes away whoever waits for none of the others, again and again: a ring stays.
fn has_ring(jobs: &[Job]) -> bool {
    let at = |job: &Job, so: fn(&AttemptState) -> bool| -> Vec<usize> {
        (0..4)
            .filter(|at: &usize| {
                let mut parts = job.components.iter().filter(|c| so(&c.run));
                parts.any(|c| {
                    c.placement
                        .as_ref()
                        .is_some_and(|placed| placed.site == site(*at))
                })
            })
            .collect()
    };
    let waits = |job: &Job, other: &Job| {
        let held = at(other, |run| matches!(run, AttemptState::AtGate { .. }));
        let wanted = at(job, |run| matches!(run, AttemptState::Submitted { .. }));
        job.id != other.id && wanted.iter().any(|at| held.contains(at))
    };
    let mut left: Vec<&Job> = jobs.iter().collect();
    loop {
        let blocked: Vec<&Job> = left
            .iter()
            .copied()
            .filter(|job: &&Job| left.iter().any(|other| waits(job, other)))
            .collect();
        if blocked.len() == left.len() {
            return !left.is_empty();
        }
        left = blocked;
    }
}
