//! Decides on answers to submissions, and on look-ups where there was no answer.

use std::sync::Arc;

use crate::ids::{Attempt, ComponentIndex, LrmId};
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::decide::{abort, decide_claims};
use crate::job::job_command::{JobRejection, SubmissionAnswer};
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AbortCause, AttemptEnding, AttemptState};
use crate::text::shorten_text;
use crate::units::{DurationMs, Timestamp};

/// Absences that make a submission certainly not there.
const ABSENCES: u8 = 2;

/// Most characters that are kept of a batch system's refusal.
const KEPT_WORDS: usize = 300;

/// Returns true if an absence at `asked_at` would be the last that is needed to take an unanswered
/// submission for one that never arrived. Its gate is closed before that is reported: a submission
/// that arrives all the same finds it shut.
pub fn is_last_absence(run: &AttemptState, asked_at: Timestamp) -> bool {
    match run {
        AttemptState::Uncertain {
            settled_at,
            absences,
            ..
        } => asked_at >= *settled_at && absences + 1 >= ABSENCES,
        _ => false,
    }
}

/// Recovers after the actor was rebuilt: nobody knows whether an intended submission was sent, nor
/// who still waits at its gate. Our own clock does not say how long the server was down.
pub(super) fn recover_attempts(
    draft: &mut DecisionDraft<'_>,
    settle: &[DurationMs],
) -> Result<(), JobRejection> {
    for index in draft.component_indexes() {
        let component = &draft.job.components[index.0 as usize];
        if component.run.is_confirmed_ready() {
            draft.emit(JobEventKind::ReadinessDoubted { component: index });
        }
        let component = &draft.job.components[index.0 as usize];
        if matches!(component.run, AttemptState::Intended { .. }) {
            let settle = settle.get(index.0 as usize).copied();
            let settled_at = draft.now + settle.unwrap_or(draft.parameters.settle);
            draft.emit(JobEventKind::SubmissionUncertain {
                component: index,
                settled_at,
            });
        }
    }
    Ok(())
}

pub(super) fn apply_submit_answer(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    answer: SubmissionAnswer,
) -> Result<(), JobRejection> {
    let run = &draft.current_component(index, attempt)?.run;
    if !matches!(
        run,
        AttemptState::Intended { .. } | AttemptState::Uncertain { .. }
    ) {
        return Err(JobRejection::Stale);
    }
    match answer {
        SubmissionAnswer::Accepted(lrm_id) => {
            draft.emit(JobEventKind::AttemptSubmitted {
                component: index,
                lrm_id,
            });
        }
        SubmissionAnswer::Unknown(settle) => {
            let settled_at = draft.now + settle;
            draft.emit(JobEventKind::SubmissionUncertain {
                component: index,
                settled_at,
            });
        }
        SubmissionAnswer::Unfit {
            detail,
            fits_elsewhere,
        } => end_unfit(draft, index, attempt, detail, fits_elsewhere),
        SubmissionAnswer::Full(detail) => end_unsubmitted(draft, index, attempt, detail, false),
        SubmissionAnswer::Barred(detail) => end_barred(draft, index, attempt, detail),
        SubmissionAnswer::Refused(detail) | SubmissionAnswer::NotSent(detail) => {
            end_unsubmitted(draft, index, attempt, detail, true);
        }
    }
    Ok(())
}

/// Ends an attempt whose submission certainly had no effect.
fn end_unsubmitted(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    detail: Arc<str>,
    sites_fault: bool,
) {
    let how = AttemptEnding::NeverRan(detail.clone());
    if !sites_fault && !draft.is_ending(index) {
        decide_claims::lose_claim(draft, index, detail, Some(how));
        return;
    }
    let ending = draft.is_ending(index);
    draft.emit(JobEventKind::AttemptEnded {
        component: index,
        attempt,
        how,
    });
    if !ending {
        abort::charge_component_site(draft, index, detail.clone());
        abort::abort_round(
            draft,
            AbortCause::SiteError {
                component: index,
                detail,
            },
        );
    }
}

/// Ends an attempt that its site would never take: the component goes elsewhere if another site
/// can take it, and the site is not charged for what one job asks for.
fn end_unfit(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    detail: Arc<str>,
    fits_elsewhere: bool,
) {
    let ending = draft.is_ending(index);
    if !ending {
        draft.emit(JobEventKind::FoundUnfit {
            component: index,
            detail: shorten_text(&detail, KEPT_WORDS),
        });
    }
    let how = AttemptEnding::NeverRan(detail.clone());
    draft.emit(JobEventKind::AttemptEnded {
        component: index,
        attempt,
        how,
    });
    if !ending {
        abort::abort_round(
            draft,
            AbortCause::Unfit {
                component: index,
                detail,
                fits_elsewhere,
            },
        );
    }
}

/// Ends an attempt that was not sent, as its owner is barred from the site. The next placement
/// knows that, so this does not count as a try.
fn end_barred(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    detail: Arc<str>,
) {
    let ending = draft.is_ending(index);
    let how = AttemptEnding::NeverRan(detail.clone());
    draft.emit(JobEventKind::AttemptEnded {
        component: index,
        attempt,
        how,
    });
    if !ending {
        abort::abort_round(
            draft,
            AbortCause::Barred {
                component: index,
                detail,
            },
        );
    }
}

pub(super) fn apply_lookup_answer(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    asked_at: Timestamp,
    found: Option<LrmId>,
) -> Result<(), JobRejection> {
    let AttemptState::Uncertain {
        settled_at,
        absences,
        ..
    } = draft.current_component(index, attempt)?.run
    else {
        return Err(JobRejection::Stale);
    };
    if let Some(lrm_id) = found {
        draft.emit(JobEventKind::AttemptSubmitted {
            component: index,
            lrm_id,
        });
        return Ok(());
    }
    let counts = asked_at >= settled_at;
    if !(counts && absences + 1 >= ABSENCES) {
        let soon = draft.now + draft.parameters.look_up_interval;
        let look_at = if counts {
            soon
        } else {
            soon.min(settled_at.max(draft.now))
        };
        draft.emit(JobEventKind::AttemptAbsent {
            component: index,
            counts,
            look_at,
        });
    } else if draft.is_ending(index) {
        let how = AttemptEnding::NeverRan("never arrived at the site".into());
        draft.emit(JobEventKind::AttemptEnded {
            component: index,
            attempt,
            how,
        });
    } else {
        draft.emit(JobEventKind::AttemptRenewed { component: index });
    }
    Ok(())
}

/// Handles a site that does not know an attempt that it had acknowledged. It may have answered with
/// old data, so the attempt is not over before its gate is closed.
pub(super) fn count_absence(
    draft: &mut DecisionDraft<'_>,
    index: ComponentIndex,
    attempt: Attempt,
    asked_at: Timestamp,
) -> Result<(), JobRejection> {
    let settle = draft.parameters.settle;
    let (since, absences) = match &draft.current_component(index, attempt)?.run {
        AttemptState::Submitted { at, absences, .. } => (*at, *absences),
        AttemptState::AtGate { since, .. } | AttemptState::Running { since, .. } => {
            (*since, ABSENCES)
        }
        AttemptState::Opened { at, .. } => (*at, ABSENCES),
        AttemptState::Idle
        | AttemptState::Intended { .. }
        | AttemptState::Uncertain { .. }
        | AttemptState::Ended { .. } => {
            return Err(JobRejection::Stale);
        }
    };
    if asked_at < since + settle || draft.is_ending(index) {
        return Ok(());
    }
    if absences + 1 < ABSENCES {
        let look_at = draft.now;
        draft.emit(JobEventKind::AttemptAbsent {
            component: index,
            counts: true,
            look_at,
        });
    } else {
        let detail: Arc<str> = "the site no longer knows it".into();
        abort::charge_component_site(draft, index, detail.clone());
        abort::abort_round(
            draft,
            AbortCause::SiteError {
                component: index,
                detail,
            },
        );
    }
    Ok(())
}
