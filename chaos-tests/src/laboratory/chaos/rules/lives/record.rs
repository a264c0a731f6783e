//! The record of a job after an event, field by field: which events change it, and to what.

use cospan_domain::ids::{ComponentIndex, Round};
use cospan_domain::job::event::Happened;
use cospan_domain::job::spec::Request;
use cospan_domain::job::state::{AbortCause, Instants, Job, Phase, Run, Setbacks};
use cospan_domain::placed::Placement;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};

use super::super::records::indexed;
use super::parts;

/// The whole record after an event; what no event changes stays as it is.
pub(super) fn after(job: &Job, at: Timestamp, what: &Happened) -> Job {
    let mut next = job.clone();
    next.components = parts::after(job, at, what);
    next.phase = phase(job, at, what);
    next.setbacks = setbacks(job, what);
    next.instants = instants(job, at, what);
    next.inputs_here = inputs_here(job, what);
    next.next_claim = next_claim(job, what);
    next.round = round(job, what);
    match what {
        Happened::PriorityChanged { to, by } => {
            (next.priority, next.promoted) = (*to, by.is_none());
        }
        Happened::JobFrozen { by } => next.frozen_by = Some(by.clone()),
        Happened::JobThawed { .. } => next.frozen_by = None,
        Happened::JobHeld { reason } => next.held = Some(reason.clone()),
        Happened::JobReleased { .. } => next.held = None,
        Happened::GoDecided { start_at } => next.start_at = Some(*start_at),
        Happened::EndTold { target, .. } => {
            next.told.insert(target.clone());
        }
        Happened::ComponentsClaimed { preempting, .. } if !runs(job) => {
            next.preempting = [job.preempting.as_slice(), preempting].concat();
        }
        Happened::JobPlaced { by, .. } => {
            (next.start_at, next.placed_by) = (None, by.clone());
            next.preempting = Vec::new();
        }
        _ => {}
    }
    next
}

pub(super) fn runs(job: &Job) -> bool {
    matches!(job.phase, Phase::Running { .. })
}

fn round(job: &Job, what: &Happened) -> Round {
    match what {
        Happened::JobPlaced { round, .. } => *round,
        _ => job.round,
    }
}

/// The table of the book: what each event makes of a phase.
fn phase(job: &Job, at: Timestamp, what: &Happened) -> Phase {
    let since = at;
    match (what, &job.phase) {
        (Happened::JobPlaced { start_estimate, .. }, _) => {
            Phase::Placed { at, start_estimate: *start_estimate }
        }
        (Happened::StartPostponed { start_estimate, .. }, Phase::Placed { at, .. }) => {
            Phase::Placed { at: *at, start_estimate: *start_estimate }
        }
        (Happened::ClaimReturned, _) => Phase::Placed {
            at: job.instants.placed.unwrap_or(at),
            start_estimate: job.instants.start_estimate.unwrap_or(at),
        },
        // The payloads of the others go on.
        (Happened::ComponentsClaimed { .. }, Phase::Running { .. }) => job.phase.clone(),
        (Happened::ClaimBegun | Happened::ComponentsClaimed { .. }, _) => Phase::Claiming { since },
        (Happened::GoDecided { .. }, _) => Phase::Starting { since },
        (Happened::JobStarted, _) => Phase::Running { since },
        (Happened::PayloadsSucceeded, _) => Phase::Collecting { since },
        (Happened::RoundAborted { why, then }, _) => {
            Phase::Aborting { since, why: why.clone(), then: then.clone() }
        }
        (Happened::AbortRedirected { then }, Phase::Aborting { since, why, .. }) => {
            Phase::Aborting { since: *since, why: why.clone(), then: then.clone() }
        }
        (Happened::JobRequeued { not_before }, _) => {
            Phase::Queued { since, not_before: *not_before }
        }
        (Happened::JobFinished, _) => Phase::Finished { at },
        (Happened::JobFailed { reason }, _) => Phase::Failed { at, reason: reason.clone() },
        (Happened::JobCancelled { by }, _) => Phase::Cancelled { at, by: by.clone() },
        (_, before) => before.clone(),
    }
}

/// A failure counts once for what caused it, whether one component bears it or all.
fn setbacks(job: &Job, what: &Happened) -> Setbacks {
    let before = job.setbacks;
    let (cause, whole) = match what {
        Happened::RoundAborted { why, .. } => (Some(why), true),
        Happened::ComponentFailed { why, .. } => (Some(why), false),
        _ => (None, false),
    };
    let lost = whole && matches!(cause, Some(AbortCause::ClaimLost { .. }));
    let try_failed = matches!(what, Happened::ClaimMissed { .. }) && !runs(job);
    let wanted = matches!(cause, Some(AbortCause::Cancelled));
    let anything = job.components.iter().any(|c| !matches!(c.run, Run::Idle));
    Setbacks {
        claims: before.claims + u32::from(lost || try_failed),
        missed_starts: before.missed_starts + u32::from(lost),
        preemptions: before.preemptions
            + u32::from(matches!(cause, Some(AbortCause::Preempted { .. }))),
        rounds: before.rounds + u32::from(whole && !wanted && anything),
        site_errors: before.site_errors + u32::from(matches!(what, Happened::SiteCharged { .. })),
        own_errors: before.own_errors
            + u32::from(matches!(cause, Some(AbortCause::Application { .. }))),
        inputs: before.inputs + u32::from(matches!(cause, Some(AbortCause::InputLost { .. }))),
    }
}

fn inputs_here(job: &Job, what: &Happened) -> bool {
    match what {
        Happened::JobPlaced { placements, .. } => placements.iter().all(|p| p.sources.is_empty()),
        Happened::InputsArrived => !runs(job) || job.inputs_here,
        Happened::ComponentMoved { placement, .. } if !runs(job) => {
            job.inputs_here && placement.sources.is_empty()
        }
        _ => job.inputs_here,
    }
}

fn next_claim(job: &Job, what: &Happened) -> Option<Timestamp> {
    match what {
        Happened::JobPlaced { .. } => None,
        Happened::StartPostponed { next_claim, .. } => Some(*next_claim),
        Happened::ClaimMissed { next_claim, .. } if !runs(job) => Some(*next_claim),
        // Once its input is there it need not wait for its estimated start.
        Happened::InputsArrived if matches!(job.phase, Phase::Placed { .. }) => None,
        _ => job.next_claim,
    }
}

/// KOALA's accounting, from the events that begin and end each length of time.
fn instants(job: &Job, at: Timestamp, what: &Happened) -> Instants {
    let mut next = job.instants;
    next.wasted_processor_ms += wasted(job, at, what);
    match what {
        Happened::JobPlaced { placements, start_estimate, .. } => {
            if let Phase::Queued { since, .. } = job.phase {
                let waited = at.0.saturating_sub(since.0);
                next.placement_time = DurationMs(waited);
                next.total_placement_time = DurationMs(next.total_placement_time.0 + waited);
            }
            next.first_placed = next.first_placed.or(Some(at));
            next.first_start_estimate = next.first_start_estimate.or(Some(*start_estimate));
            (next.placed, next.start_estimate) = (Some(at), Some(*start_estimate));
            next.transfer_volume.0 += placements.iter().map(moved).sum::<u64>();
        }
        Happened::ComponentMoved { placement, .. } => next.transfer_volume.0 += moved(placement),
        Happened::StartPostponed { start_estimate, .. } => {
            next.start_estimate = Some(*start_estimate);
        }
        Happened::GoDecided { .. } => {
            let since = job.components.iter().filter_map(|c| at_gate(&c.run));
            next.claimed = Some(since.max().unwrap_or(at));
            next.gained_processor_ms += gained(job);
        }
        Happened::JobStarted => next.started = Some(at),
        Happened::PayloadsSucceeded => next.succeeded = Some(at),
        _ => {}
    }
    next
}

/// What is to be moved from other sites, in bytes.
fn moved(placement: &Placement) -> u64 {
    let from_afar = placement.sources.iter().filter(|source| source.from != placement.site);
    let sizes = from_afar.map(|source| {
        let Bytes(size) = source.content.size;
        size
    });
    sizes.sum()
}

fn at_gate(run: &Run) -> Option<Timestamp> {
    match run {
        Run::AtGate { since, .. } => Some(*since),
        _ => None,
    }
}

/// Processors that a component has: its share, or what was asked for it.
pub(super) fn processors(job: &Job, index: ComponentIndex) -> u64 {
    let at = index.0 as usize;
    let share = job.components.get(at).and_then(|c| c.placement.as_ref()?.share);
    let asked = match job.spec.request {
        Request::Flexible(_) => job.spec.components.first(),
        _ => job.spec.components.get(at),
    };
    let asked = asked.map_or(0, |asked| asked.resources.processors);
    u64::from(share.unwrap_or(asked))
}

/// PGT: between placement and claim others could use its processors.
fn gained(job: &Job) -> u64 {
    let gained = indexed(job).filter_map(|(index, c)| {
        let (placed, claimed) = (job.instants.placed?, at_gate(&c.run)?);
        Some(processors(job, index) * claimed.0.saturating_sub(placed.0))
    });
    gained.sum()
}

/// PWT: the time at its gate of whatever leaves it now, and was not counted at the start.
fn wasted(job: &Job, at: Timestamp, what: &Happened) -> u64 {
    let all: Vec<ComponentIndex> = indexed(job).map(|(index, _)| index).collect();
    let restarts = |index: &ComponentIndex| {
        job.components.get(index.0 as usize).is_some_and(|c| c.restart.is_some())
    };
    let leaving: Vec<ComponentIndex> = match what {
        Happened::GoDecided { .. } => all,
        Happened::RoundAborted { .. } => all.into_iter().filter(restarts).collect(),
        Happened::GateOpened { component } => [*component].into_iter().filter(restarts).collect(),
        Happened::AttemptEnded { component, .. } => {
            let held = job.start_at.is_none() || restarts(component);
            [*component].into_iter().filter(|_| held).collect()
        }
        _ => Vec::new(),
    };
    let held = leaving.into_iter().filter_map(|index| {
        let since = at_gate(&job.components.get(index.0 as usize)?.run)?;
        Some(processors(job, index) * at.0.saturating_sub(since.0))
    });
    held.sum()
}
