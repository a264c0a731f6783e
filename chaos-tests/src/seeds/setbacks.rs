//! Judges what is counted of a job that comes back or is given up, and what people are told
//! of it: every cause counts once, and only who had more setbacks than it allows fails.

use cospan_domain::job::event::{Happened, JobEvent};
use cospan_domain::job::state::{AbortCause, AfterAbort, Job, PhaseKind, Setbacks};

/// A job gives up when its input was lost more often than this.
const INPUT_LOSSES_MAX: u32 = 5;
/// How long a claim, and input for which processors are held, are waited for, in words.
const WAITS: [(&str, &str); 2] = [
    ("not running within ", "not running within 2m00s"),
    ("input did not arrive within ", "input did not arrive within 10m00s of waiting"),
];

/// What must not be about these events, which led from one record to the other.
pub(super) fn misjudged(old: &Job, new: &Job, events: &[JobEvent]) -> Vec<String> {
    let mut expected = old.setbacks;
    let mut found = Vec::new();
    for event in events {
        match &event.what {
            Happened::SiteCharged { .. } => expected.site_errors += 1,
            // The tries of a component that is restarted alone are its own.
            Happened::ClaimMissed { .. } if old.phase.kind() == PhaseKind::Running => {}
            Happened::ClaimMissed { .. } => expected.claims += 1,
            Happened::ComponentFailed { why, next_claim, .. } => {
                if !matches!(why, AbortCause::ClaimLost { .. }) {
                    count(&mut expected, why);
                }
                let then = AfterAbort::Requeue { not_before: *next_claim };
                found.extend(too_soon(new, &expected, why, &then));
            }
            Happened::RoundAborted { why, then } => {
                count(&mut expected, why);
                found.extend(too_soon(new, &expected, why, then));
                found.extend(misnamed(why));
            }
            _ => {}
        }
    }
    // Rounds count only if anything was submitted.
    expected.rounds = new.setbacks.rounds;
    if expected != new.setbacks {
        found.push(format!("its setbacks are {:?}, not {expected:?}", new.setbacks));
    }
    found
}

fn count(setbacks: &mut Setbacks, why: &AbortCause) {
    match why {
        AbortCause::ClaimLost { .. } => {
            setbacks.claims += 1;
            setbacks.missed_starts += 1;
        }
        AbortCause::Preempted { .. } => setbacks.preemptions += 1,
        AbortCause::InputLost { .. } => setbacks.inputs += 1,
        AbortCause::Application { .. } => setbacks.own_errors += 1,
        _ => {}
    }
}

/// A job fails although it may have more such setbacks, or goes on although it may not.
fn too_soon(job: &Job, had: &Setbacks, why: &AbortCause, then: &AfterAbort) -> Option<String> {
    let spec = &job.spec;
    let fails = match then {
        AfterAbort::Fail { .. } => true,
        AfterAbort::Requeue { .. } => false,
        AfterAbort::Cancel { .. } => return None,
    };
    let may_fail = match why {
        AbortCause::Cancelled => return None,
        // A payload may have begun.
        _ if job.start_at.is_some() && !spec.rerunnable => true,
        AbortCause::ClaimLost { .. } => spec.max_claim_tries.is_some_and(|max| had.claims > max),
        AbortCause::InputLost { .. } => had.inputs > INPUT_LOSSES_MAX,
        AbortCause::Application { .. } => had.own_errors > spec.max_retries || !spec.rerunnable,
        AbortCause::SiteError { .. }
        | AbortCause::StartMissed { .. }
        | AbortCause::Unreachable { .. }
        | AbortCause::Preempted { .. }
        | AbortCause::Drained { .. } => false,
    };
    (fails != may_fail).then(|| format!("after {why:?} and {had:?} it came to {then:?}"))
}

/// People are told of another time than there was.
fn misnamed(why: &AbortCause) -> Option<String> {
    let AbortCause::ClaimLost { detail, .. } = why else { return None };
    let wait = WAITS.iter().find(|(begins, _)| detail.starts_with(begins));
    wait.filter(|(_, whole)| **detail != **whole).map(|_| format!("it was told {detail:?}"))
}
