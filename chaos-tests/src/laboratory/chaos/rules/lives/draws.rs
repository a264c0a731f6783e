//! Records of jobs as they come about, in any phase, and settings under which much of what
//! they wait for is over about now.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::claim::{ClaimParameters, MinClaimStep};
use cospan_domain::ids::{Attempt, InstanceId, KeyName, LrmId, Round};
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::spec::{Flexible, JobSpec, OnUnreachable, Request};
use cospan_domain::job::state::{
    AbortCause, AfterAbort, Charge, Collected, Component, Ending, Job, Origin, Phase, Restart,
    RestartStep, Run, Setbacks,
};
use cospan_domain::placed::{Placement, Source};
use cospan_domain::runner::RestartScope;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{NOW, content, drawn, site};

/// Some seconds ago, often the same.
pub(super) fn lately(chance: &mut StdRng) -> Timestamp {
    Timestamp(NOW.0 - 1_000 * chance.random_range(0..8))
}

pub(super) fn seconds(chance: &mut StdRng, most: u64) -> DurationMs {
    DurationMs(1_000 * chance.random_range(0..=most))
}

pub(super) fn one_of<T: Clone>(chance: &mut StdRng, all: &[T]) -> T {
    all[chance.random_range(0..all.len())].clone()
}

pub(super) fn parameters(chance: &mut StdRng) -> JobParameters {
    let quarters = |chance: &mut StdRng, most| PerMillion(250_000 * chance.random_range(0..=most));
    let claim = ClaimParameters {
        l: quarters(chance, 4),
        l_step: quarters(chance, 2),
        l_min: quarters(chance, 1),
        min_claim_step: one_of(chance, &[MinClaimStep::Auto, MinClaimStep::Fixed(DurationMs(500))]),
        threshold: one_of(chance, &[PerMillion::ONE, PerMillion(500_000)]),
        max_claim_tries: chance.random_bool(0.3).then(|| chance.random_range(1..4)),
    };
    JobParameters {
        claim,
        claim_timeout: seconds(chance, 7),
        hold_slack: seconds(chance, 3),
        hold_max: seconds(chance, 7),
        go_grace: seconds(chance, 4),
        go_lead: seconds(chance, 2),
        settle: seconds(chance, 5),
        look_up_interval: seconds(chance, 3),
        claim_backoff: one_of(chance, &[DurationMs(1_000), DurationMs(40_000)]),
        site_backoff: one_of(chance, &[DurationMs(1_000), DurationMs(3_000)]),
        backoff_max: one_of(chance, &[DurationMs(5_000), DurationMs(600_000)]),
        avoid_for: seconds(chance, 7),
        max_input_losses: chance.random_range(0..4),
        wall_margin: seconds(chance, 3),
    }
}

fn spec(chance: &mut StdRng, spec: &mut JobSpec) {
    spec.rerunnable = chance.random_bool(0.75);
    spec.max_retries = chance.random_range(0..3);
    spec.max_claim_tries = chance.random_bool(0.3).then(|| chance.random_range(1..4));
    spec.wall_time = seconds(chance, 4);
    let patience = seconds(chance, 5);
    let choices = [OnUnreachable::RerunAfter(patience), OnUnreachable::Wait];
    spec.on_unreachable = choices[usize::from(chance.random_bool(0.2))];
    if spec.components.len() == 1 && chance.random_bool(0.6) {
        spec.request = Request::Flexible(Flexible::default());
    }
    if chance.random_bool(0.5) {
        spec.run.restart_scope = RestartScope::Component;
    }
    let outputs = spec.components[0].outputs.clone();
    for asked in spec.components.iter_mut().skip(1) {
        asked.outputs = outputs.clone().into_iter().filter(|_| chance.random_bool(0.5)).collect();
    }
}

fn setbacks(chance: &mut StdRng) -> Setbacks {
    let mut few = || chance.random_range(0..4);
    Setbacks {
        claims: few(),
        missed_starts: few(),
        preemptions: few(),
        rounds: few(),
        site_errors: few(),
        own_errors: few(),
        inputs: few(),
    }
}

/// A job in any phase, as such jobs are.
pub(super) fn life(chance: &mut StdRng) -> Option<Job> {
    let id = chance.random_range(1..1_000);
    let mut job = drawn(chance, id).ok()?;
    spec(chance, Arc::make_mut(&mut job.spec));
    job.held = chance.random_bool(0.06).then(|| "it panicked".into());
    job.frozen_by = job.frozen_by.filter(|_| chance.random_bool(0.5));
    job.round = Round(chance.random_range(1..4));
    job.setbacks = setbacks(chance);
    let placed = Timestamp(NOW.0 - 2_000 * chance.random_range(3..15));
    let start = placed + seconds(chance, 30);
    (job.instants.placed, job.instants.start_estimate) = (Some(placed), Some(start));
    job.instants.first_placed = Some(placed);
    job.instants.first_start_estimate = Some(placed + seconds(chance, 40));
    job.phase = phase(chance, placed, start)?;
    job.next_claim = chance.random_bool(0.4).then(|| lately(chance));
    if matches!(job.phase, Phase::Queued { .. }) && chance.random_bool(0.3) {
        job.components.clear();
    }
    (job.start_at, job.inputs_here) = (Some(NOW), true);
    if matches!(job.phase, Phase::Placed { .. } | Phase::Claiming { .. }) {
        (job.start_at, job.inputs_here) = (None, chance.random_bool(0.4));
    } else if matches!(job.phase, Phase::Aborting { .. } | Phase::Queued { .. }) {
        job.start_at = job.start_at.filter(|_| chance.random_bool(0.5));
    }
    let shared = matches!(job.spec.request, Request::Flexible(_));
    let drawn_parts: Vec<Component> = job.components.clone();
    let parts = drawn_parts.into_iter().map(|before| part(chance, &job, before, shared));
    job.components = parts.collect::<Option<_>>()?;
    if shared && !job.components.is_empty() && chance.random_bool(0.5) {
        let another = part(chance, &job, job.components[0].clone(), shared)?;
        job.components.push(another);
    }
    Some(job)
}

fn phase(chance: &mut StdRng, placed: Timestamp, start: Timestamp) -> Option<Phase> {
    let (at, since, by) = (lately(chance), lately(chance), KeyName::new("alice").ok()?);
    let then = [
        AfterAbort::Requeue { not_before: NOW },
        AfterAbort::Fail { reason: "it failed".into() },
        AfterAbort::Cancel { by: by.clone() },
    ];
    let then = one_of(chance, &then);
    let why = AbortCause::Preempted { by: cospan_domain::ids::JobId(7) };
    Some(match chance.random_range(0..30) {
        0..3 => Phase::Queued { since, not_before: at },
        3..7 => Phase::Placed { at: placed, start_estimate: start },
        7..13 => Phase::Claiming { since },
        13..16 => Phase::Starting { since },
        16..24 => Phase::Running { since },
        24..26 => Phase::Collecting { since },
        26..29 => Phase::Aborting { since, why, then },
        _ => match chance.random_range(0..3) {
            0 => Phase::Finished { at },
            1 => Phase::Failed { at, reason: "it failed".into() },
            _ => Phase::Cancelled { at, by },
        },
    })
}

pub(super) fn placement(chance: &mut StdRng, share: Option<u32>) -> Option<Placement> {
    let sources = (0..chance.random_range(0..3)).filter_map(|number| {
        Some(Source { content: content(number), from: site(chance).ok()?, chunk: None })
    });
    let sources = sources.collect();
    let (site, transfer_time) = (site(chance).ok()?, seconds(chance, 3));
    Some(Placement { site, sources, transfer_time, share })
}

fn part(chance: &mut StdRng, job: &Job, before: Component, shared: bool) -> Option<Component> {
    let attempt = Attempt(chance.random_range(1..4));
    let share = shared.then(|| chance.random_range(1..8));
    let placement = placement(chance, share)?;
    let detail = "an error".into();
    let charge = Charge { site: placement.site.clone(), attempt, detail };
    let owes = match job.phase {
        Phase::Aborting { .. } => 0.25,
        Phase::Running { .. } => 0.1,
        Phase::Queued { .. } => 0.15,
        _ => 0.0,
    };
    let origin = Origin {
        instance: InstanceId::from_random(chance.random_range(0..9)),
        last: Attempt(chance.random_range(0..4)),
    };
    let mut avoid = BTreeSet::new();
    for _ in 0..2 {
        let avoided = site(chance).ok()?;
        avoid.extend(chance.random_bool(0.3).then_some(avoided));
    }
    let done = chance.random_bool(0.5);
    let collected = before.collected.iter().map(|state| Collected {
        done: done || state.done && state.content.is_some(),
        ..state.clone()
    });
    let collected = collected.collect();
    let (run, given_back, restart) = stands(chance, job)?;
    Some(Component {
        placement: Some(placement),
        attempt,
        run,
        given_back,
        charge: chance.random_bool(owes).then_some(charge),
        avoid,
        collected,
        restart,
        origins: if chance.random_bool(0.2) { vec![origin] } else { Vec::new() },
        ..before
    })
}

/// What its attempt is doing, whether it is being ended, and how far it is restarted.
fn stands(chance: &mut StdRng, job: &Job) -> Option<(Run, bool, Option<Restart>)> {
    let done = Run::Ended { how: Ending::Succeeded, at: lately(chance) };
    Some(match job.phase {
        Phase::Queued { .. }
        | Phase::Finished { .. }
        | Phase::Failed { .. }
        | Phase::Cancelled { .. } => (one_of(chance, &[Run::Idle, done]), false, None),
        Phase::Placed { .. } => (Run::Idle, false, None),
        Phase::Claiming { .. } => {
            let early = one_of(chance, &[0, 1, 2, 2, 3, 4, 4, 4]);
            let run = run(chance, early)?;
            let given_back = !matches!(run, Run::Idle) && chance.random_bool(0.12);
            (run, given_back, None)
        }
        Phase::Starting { .. } => {
            let late = one_of(chance, &[4, 5, 6, 6, 6, 7]);
            (run(chance, late)?, false, None)
        }
        Phase::Running { .. } if chance.random_bool(0.5) => {
            let running = run(chance, 6)?;
            (one_of(chance, &[running, done.clone(), done]), false, None)
        }
        Phase::Running { .. } => restarting(chance)?,
        Phase::Collecting { .. } => (done, false, None),
        Phase::Aborting { .. } => {
            let any = one_of(chance, &[0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7]);
            (run(chance, any)?, false, None)
        }
    })
}

fn restarting(chance: &mut StdRng) -> Option<(Run, bool, Option<Restart>)> {
    let steps = [RestartStep::ToPlace, RestartStep::Staging, RestartStep::Staged];
    let any = Restart {
        step: one_of(chance, &steps),
        since: lately(chance),
        tries: chance.random_range(0..3),
        not_before: Timestamp(lately(chance).0 + 3_000),
    };
    let given_back = chance.random_bool(0.25);
    let run = match chance.random_bool(0.5) && !given_back {
        true => Run::Idle,
        false => {
            let last = if given_back { 6 } else { 5 };
            let live = one_of(chance, &[1, 2, 3, 4, last, last]);
            run(chance, live)?
        }
    };
    let step = match (&run, given_back) {
        (Run::Idle, _) => any.step,
        (_, true) => RestartStep::ToPlace,
        (_, false) => RestartStep::Staged,
    };
    Some((run, given_back, Some(Restart { step, ..any })))
}

/// So far on the way of an attempt.
fn run(chance: &mut StdRng, step: u32) -> Option<Run> {
    let (at, since, lrm_id) = (lately(chance), lately(chance), LrmId::new("17").ok()?);
    let (absences, host) = (chance.random_range(0..2), Arc::from("host"));
    let word: Arc<str> = "a word".into();
    let ends = [Ending::Succeeded, Ending::Failed(word.clone()), Ending::NeverRan(word)];
    let look_at = Timestamp(since.0 + 2_000);
    Some(match step {
        0 => Run::Idle,
        1 => Run::Intended { at },
        2 => Run::Uncertain { settled_at: Timestamp(at.0 + 2_000), absences, look_at },
        3 => Run::Submitted { lrm_id, at, absences },
        4 => Run::AtGate { lrm_id, host, since },
        5 => Run::Opened { lrm_id, host, at },
        6 => Run::Running { lrm_id, host, since },
        _ => Run::Ended { how: one_of(chance, &ends), at },
    })
}
