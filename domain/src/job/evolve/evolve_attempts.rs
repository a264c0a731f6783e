//! Attempts, from their submission to their end.

use super::evolve_cost::{count_gain_of_component, count_waste_of_component};
use super::{change_component, renew_attempt};
use crate::ids::{Attempt, ComponentIndex};
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{
    AttemptEnding, AttemptState, BegunAttempt, Component, Job, SiteQueueWait,
};
use crate::units::{DurationMs, Timestamp};

/// An attempt that ran for so long shows that sites can run the job, however it ended.
const HELD: DurationMs = DurationMs::from_secs(3_600);

/// Applies an event of one attempt; others change nothing.
pub(super) fn apply_attempt_event(job: &mut Job, what: &JobEventKind, at: Timestamp) {
    match what {
        JobEventKind::AttemptRenewed { component } => {
            change_component(job, *component, |c| renew_attempt(c, at));
        }
        JobEventKind::AttemptSubmitted { component, lrm_id } => {
            change_component(job, *component, |c| {
                c.run = AttemptState::Submitted {
                    lrm_id: lrm_id.clone(),
                    at,
                    absences: 0,
                    waits: None,
                };
            })
        }
        JobEventKind::SubmissionUncertain {
            component,
            settled_at,
        } => change_component(job, *component, |c| {
            c.run = AttemptState::Uncertain {
                settled_at: *settled_at,
                absences: 0,
                look_at: at,
            };
        }),
        JobEventKind::AttemptAbsent {
            component,
            counts,
            look_at: next,
        } => {
            change_component(job, *component, |c| {
                record_absence(&mut c.run, *counts, *next)
            });
        }
        JobEventKind::AttemptSeen { component } => change_component(job, *component, |c| {
            if let AttemptState::Submitted { absences, .. } = &mut c.run {
                *absences = 0;
            }
        }),
        JobEventKind::WaitingAtSite {
            component,
            expected_start,
        } => {
            change_component(job, *component, |c| {
                record_wait(&mut c.run, *expected_start, at)
            });
        }
        JobEventKind::ComponentReady {
            component,
            host,
            clock,
            held_for,
        } => {
            change_component(job, *component, |c| {
                let (since, taken) = match c.run {
                    AttemptState::AtGate { since, .. } => (since, since),
                    AttemptState::Submitted { at: taken, .. } => (at, taken),
                    _ => (at, at),
                };
                if let Some(lrm_id) = c.run.lrm_id().cloned() {
                    c.run = AttemptState::AtGate {
                        lrm_id,
                        host: host.clone(),
                        since,
                        clock: *clock,
                    };
                    // A site's clock may be wrong, but no processors are held before the
                    // submission.
                    let held = (at - held_for.unwrap_or_default()).max(taken);
                    c.held_since.get_or_insert(held);
                }
            });
        }
        JobEventKind::ReadinessDoubted { component } => change_component(job, *component, |c| {
            if let AttemptState::AtGate { clock, .. } = &mut c.run {
                *clock = None;
            }
        }),
        JobEventKind::GateOpened { component } => {
            change_component(job, *component, |c| open_gate(c, at))
        }
        JobEventKind::ComponentBegan {
            component,
            began_at,
        } => {
            let state = job.components.get(component.0 as usize);
            if state.is_some_and(Component::is_to_begin_later) {
                count_gain_of_component(job, *component);
            }
            count_waste_of_component(job, *component, at);
            change_component(job, *component, |c| begin_payload(c, *began_at, at));
        }
        JobEventKind::AttemptEnded {
            component,
            attempt,
            how,
        } => {
            end_attempt(job, *component, *attempt, how, at);
        }
        _ => {}
    }
}

fn record_absence(run: &mut AttemptState, counts: bool, next: Timestamp) {
    match run {
        AttemptState::Uncertain {
            absences, look_at, ..
        } => {
            *absences += u8::from(counts);
            *look_at = next;
        }
        AttemptState::Submitted { absences, .. } => *absences += u8::from(counts),
        AttemptState::Idle
        | AttemptState::Intended { .. }
        | AttemptState::AtGate { .. }
        | AttemptState::Opened { .. }
        | AttemptState::Running { .. }
        | AttemptState::Ended { .. } => {}
    }
}

fn record_wait(run: &mut AttemptState, expected_start: Option<Timestamp>, at: Timestamp) {
    if let AttemptState::Submitted { waits, .. } = run {
        let since = waits.map_or(at, |waits| waits.since);
        *waits = Some(SiteQueueWait {
            since,
            expected_start,
            told_at: Some(at),
        });
    }
}

fn open_gate(component: &mut Component, at: Timestamp) {
    if let AttemptState::AtGate { lrm_id, host, .. } = &component.run {
        component.run = AttemptState::Opened {
            lrm_id: lrm_id.clone(),
            host: host.clone(),
            at,
        };
    }
}

fn begin_payload(component: &mut Component, began_at: Option<Timestamp>, at: Timestamp) {
    if let AttemptState::AtGate { lrm_id, host, .. } | AttemptState::Opened { lrm_id, host, .. } =
        &component.run
    {
        component.run = AttemptState::Running {
            lrm_id: lrm_id.clone(),
            host: host.clone(),
            since: at,
        };
        component.held_since = None;
        if !component.given_back {
            component.restart = None;
        }
        component.began = component.placement.as_ref().map(|placement| BegunAttempt {
            site: placement.site.clone(),
            attempt: component.attempt,
            at: began_at,
        });
    }
}

fn end_attempt(
    job: &mut Job,
    index: ComponentIndex,
    attempt: Attempt,
    how: &AttemptEnding,
    at: Timestamp,
) {
    if job
        .components
        .get(index.0 as usize)
        .is_none_or(|c| c.attempt != attempt)
    {
        return;
    }
    count_waste_of_component(job, index, at);
    let run = &job.components[index.0 as usize].run;
    if matches!(run, AttemptState::Running { since, .. } if at.since(*since) >= HELD) {
        job.setbacks.incidents = 0;
    }
    change_component(job, index, |component| {
        component.held_since = None;
        // An attempt that was given up as too late to begin, but did begin and succeed, is done.
        let done = matches!(how, AttemptEnding::Succeeded);
        let is_dropped = component.given_back && !(done && component.restart.is_some());
        component.given_back = false;
        if is_dropped {
            component.run = AttemptState::Idle;
            return;
        }
        component.run = AttemptState::Ended {
            how: how.clone(),
            at,
        };
        if done {
            component.restart = None;
        }
    });
}
