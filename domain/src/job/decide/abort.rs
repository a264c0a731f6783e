//! Aborts a round: the cause, and the fate of the job.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{ComponentIndex, KeyName, SiteName};
use crate::job::decide::decide_restarts;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::job_command::JobRejection;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{
    AbortCause, AbortConsequence, AttemptEnding, Job, JobPhase, SiteCharge,
};

/// Incidents in a row after which a job is not tried again.
pub const MAX_SITE_ERRORS: u32 = 100;

/// Charges the site of a component with an error, until its record has it.
pub(super) fn charge_component_site(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    detail: Arc<str>,
) {
    let component = &draft.job.components[index.0 as usize];
    if let Some(placement) = &component.placement {
        let charge = SiteCharge {
            site: placement.site.clone(),
            attempt: component.attempt,
            detail,
        };
        draft.emit(JobEventKind::SiteCharged {
            component: index,
            charge,
        });
    }
}

/// Makes a component avoid its site next time, without a charge: the site works, but has no room
/// for its input.
pub(super) fn avoid_site(draft: &mut DecisionDraft<'_>, index: ComponentIndex) {
    let component = &draft.job.components[index.0 as usize];
    let site = component
        .placement
        .as_ref()
        .map(|placement| &placement.site);
    if site.is_some_and(|site| !component.avoid.contains(site)) {
        draft.emit(JobEventKind::SiteAvoided { component: index });
    }
}

/// Aborts the round and decides the fate of the job; or gives up only the component that failed, if
/// the others can go on without it.
pub(super) fn abort_round(draft: &mut DecisionDraft<'_>, why: AbortCause) {
    if let Some(component) = why.component()
        && decide_restarts::give_up_single_component(draft, component, &why)
    {
        return;
    }
    let then = decide_after_abort(draft, &why);
    draft.emit(JobEventKind::RoundAborted { why, then });
}

pub(super) fn decide_after_abort(draft: &DecisionDraft<'_>, why: &AbortCause) -> AbortConsequence {
    let job = &draft.job;
    let parameters = draft.parameters;
    let seed = job.id.0.wrapping_add(u64::from(job.round.0) << 32);
    let requeue = |first, count| AbortConsequence::Requeue {
        not_before: draft.now + parameters.backoff_after(first, count, seed),
    };
    let setbacks = &job.setbacks;
    match why {
        AbortCause::Cancelled => fail_after_abort("cancelled".into()),
        // Once the start is decided a payload may have begun, seen or not.
        _ if job.start_at.is_some() && !job.spec.rerunnable => fail_after_abort(match why {
            AbortCause::Application { component, detail } => {
                describe_own_failure(job, *component, detail)
            }
            _ => "its payload may have begun before this round was lost, and the job must not run \
                  twice"
                .into(),
        }),
        AbortCause::ClaimLost { detail, .. } => {
            let max = job
                .spec
                .max_claim_tries
                .or(parameters.claim.max_claim_tries);
            if max.is_some_and(|max| setbacks.claims >= max) {
                fail_after_abort(format!(
                    "no processors after {} claims: {detail}",
                    setbacks.claims + 1
                ))
            } else {
                requeue(parameters.claim_backoff, setbacks.missed_starts + 1)
            }
        }
        // Nobody refused it processors.
        AbortCause::Barred { .. } => requeue(parameters.claim_backoff, 1),
        AbortCause::Unfit {
            component,
            detail,
            fits_elsewhere,
        } => {
            if *fits_elsewhere {
                AbortConsequence::Requeue {
                    not_before: draft.now,
                }
            } else {
                fail_after_abort(describe_refusal(job, *component, detail))
            }
        }
        AbortCause::InputLost { detail } if setbacks.inputs >= parameters.max_input_losses => {
            fail_after_abort(format!("input could not be brought to its site: {detail}"))
        }
        AbortCause::InputLost { .. } => requeue(parameters.site_backoff, setbacks.inputs + 1),
        AbortCause::Application { component, detail } => {
            if setbacks.own_errors >= job.spec.max_retries || !job.spec.rerunnable {
                fail_after_abort(describe_own_failure(job, *component, detail))
            } else {
                requeue(parameters.site_backoff, setbacks.own_errors + 1)
            }
        }
        // A job that was lost so often everywhere is not the victim of its sites alone.
        AbortCause::SiteError { component, detail } if setbacks.incidents >= MAX_SITE_ERRORS => {
            let name = job.component_name(*component).unwrap_or_default();
            let times = setbacks.incidents;
            fail_after_abort(format!(
                "component {name}: {times} times lost at its sites, at last: {detail}"
            ))
        }
        AbortCause::SiteError { .. }
        | AbortCause::StartMissed { .. }
        | AbortCause::Unreachable { .. } => {
            requeue(parameters.site_backoff, setbacks.incidents.max(1))
        }
        AbortCause::Preempted { .. }
        | AbortCause::Drained { .. }
        | AbortCause::ReservationChanged { .. } => AbortConsequence::Requeue {
            not_before: draft.now,
        },
    }
}

fn fail_after_abort(reason: String) -> AbortConsequence {
    AbortConsequence::Fail {
        reason: reason.into(),
    }
}

fn describe_own_failure(job: &Job, component: ComponentIndex, detail: &str) -> String {
    format!(
        "component {}: {detail}",
        job.component_name(component).unwrap_or_default()
    )
}

/// Describes the end of a job that no site takes.
fn describe_refusal(job: &Job, index: ComponentIndex, detail: &str) -> String {
    let site = job
        .components
        .get(index.0 as usize)
        .and_then(|component| component.placement.as_ref())
        .map_or_else(String::new, |placement| placement.site.to_string());
    format!(
        "component {}: the batch system of {site} refuses it ({detail}), and no other site can \
         take it",
        job.component_name(index).unwrap_or_default()
    )
}

fn holds_reservations(job: &Job) -> bool {
    job.reservation
        .as_deref()
        .is_some_and(|reservation| !reservation.is_released())
}

pub(super) fn cancel_job(draft: &mut DecisionDraft<'_>, by: KeyName) -> Result<(), JobRejection> {
    if draft.job.held.is_some() {
        draft.emit(JobEventKind::JobReleased { by: by.clone() });
    }
    match &draft.job.phase {
        JobPhase::Cancelled { .. } => return Err(JobRejection::AlreadySo),
        JobPhase::Finished { .. } | JobPhase::Failed { .. } => return Err(JobRejection::Ended),
        JobPhase::Queued { .. } | JobPhase::Placed { .. } if !holds_reservations(&draft.job) => {
            draft.emit(JobEventKind::JobCancelled { by });
        }
        JobPhase::Aborting {
            then: AbortConsequence::Cancel { .. },
            ..
        } => {
            return Err(JobRejection::AlreadySo);
        }
        JobPhase::Aborting { .. } => {
            draft.emit(JobEventKind::AbortRedirected {
                then: AbortConsequence::Cancel { by },
            });
        }
        JobPhase::Queued { .. }
        | JobPhase::Placed { .. }
        | JobPhase::Claiming { .. }
        | JobPhase::Starting { .. }
        | JobPhase::Running { .. }
        | JobPhase::Collecting { .. } => {
            let then = AbortConsequence::Cancel { by };
            draft.emit(JobEventKind::RoundAborted {
                why: AbortCause::Cancelled,
                then,
            });
        }
    }
    Ok(())
}

/// Cancels, and does not wait for silent sites. The site's reconciliation ends what may run there
/// on sight; until then only the user answers for it. It cannot run twice: a cancelled job has no
/// other attempt, and its gate is opened no more.
pub(super) fn abandon_job(
    draft: &mut DecisionDraft<'_>,
    by: KeyName,
    silent: &BTreeSet<SiteName>,
) -> Result<(), JobRejection> {
    let lost: Vec<ComponentIndex> = draft.job.components_living_at(silent).collect();
    match cancel_job(draft, by.clone()) {
        // A user who insists answers for it.
        Err(JobRejection::AlreadySo) if !lost.is_empty() => {
            draft.emit(JobEventKind::AbortRedirected {
                then: AbortConsequence::Cancel { by },
            });
        }
        answer => answer?,
    }
    for component in lost {
        let attempt = draft.job.components[component.0 as usize].attempt;
        draft.emit(JobEventKind::AttemptEnded {
            component,
            attempt,
            how: AttemptEnding::Abandoned,
        });
    }
    Ok(())
}

/// Leaves a site that is being drained, as long as no payload may have begun.
pub(super) fn leave_site(
    draft: &mut DecisionDraft<'_>,
    site: &SiteName,
) -> Result<(), JobRejection> {
    if !draft
        .job
        .components
        .iter()
        .any(|component: &crate::job::job_state::Component| {
            component
                .placement
                .as_ref()
                .is_some_and(|placement| placement.site == *site)
        })
    {
        return Err(JobRejection::Stale);
    }
    match draft.job.phase {
        JobPhase::Placed { .. } | JobPhase::Claiming { .. } => {
            abort_round(draft, AbortCause::Drained { site: site.clone() });
            Ok(())
        }
        JobPhase::Running { .. } => decide_restarts::leave_site_unclaimed(draft, site),
        JobPhase::Queued { .. }
        | JobPhase::Starting { .. }
        | JobPhase::Collecting { .. }
        | JobPhase::Aborting { .. }
        | JobPhase::Finished { .. }
        | JobPhase::Failed { .. }
        | JobPhase::Cancelled { .. } => Err(JobRejection::Stale),
    }
}
