//! Invariants of every record at every moment, numbered. Tests check them after each step; the
//! journal refuses a change that would break one.

use std::fmt;

use crate::job::job_state::{AttemptState, Job, JobPhase, PhaseKind};

/// A rule that a record breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BrokenInvariant {
    /// J1: a job that waits in its queue, or has ended, has nothing alive at any site.
    AliveAtRest,
    /// J2: a job past its queue has a place for each component.
    NoPlace,
    /// J3: no payload has begun, and no gate is open, before the start was decided.
    BegunBeforeGo,
    /// J4: the start is decided only once all input is there.
    GoWithoutInput,
    /// J5: an attempt that may live has a number.
    NoAttempt,
    /// J6: a job that runs, or collects, has begun with every component but those that are
    /// restarted alone, or begin later than the others.
    NotAllBegun,
    /// J7: an error is charged to the site where the component was placed.
    StrangeCharge,
    /// J8: components are restarted alone, or begin alone, only while their job runs.
    StrangeRestart,
}

/// The beginning of every reason to hold a job because of a broken rule.
const FAULT_OF_OURS: &str = "a fault of ours";

impl BrokenInvariant {
    /// Returns the reason for which a job is held whose next change would break the rule.
    pub fn hold_reason(self) -> String {
        format!(
            "{FAULT_OF_OURS}: its next change would break the rule {self}; please report it with \
             the job's history"
        )
    }
}

/// Returns true if a job is held for this reason because its next change would break a rule.
pub fn is_fault_of_ours(hold_reason: &str) -> bool {
    hold_reason.starts_with(FAULT_OF_OURS)
}

impl fmt::Display for BrokenInvariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = *self as u8 + 1;
        write!(f, "J{number} {self:?}")
    }
}

/// Returns a rule that the new record of a job breaks, and the old one did not. What an earlier
/// version wrote must not keep a job from its end.
pub fn newly_broken_invariant(old: &Job, new: &Job) -> Option<BrokenInvariant> {
    let broken = list_broken_invariants(new);
    if broken.is_empty() {
        return None;
    }
    let before = list_broken_invariants(old);
    broken.into_iter().find(|rule| !before.contains(rule))
}

/// Lists the rules that a job's record breaks; none, if all is well.
pub fn list_broken_invariants(job: &Job) -> Vec<BrokenInvariant> {
    let kind = job.phase.kind();
    let rests = kind == PhaseKind::Queued || kind.is_final();
    let placed = !rests;
    let decided = job.start_at.is_some();
    let components = &job.components;
    let all_begun = components
        .iter()
        .all(|component| component.run.has_begun() || component.restart.is_some());
    let checks = [
        (
            rests && job.may_live_anywhere(),
            BrokenInvariant::AliveAtRest,
        ),
        (
            placed && components.iter().any(|c| c.placement.is_none()),
            BrokenInvariant::NoPlace,
        ),
        (
            !decided
                && components.iter().any(|c| {
                    matches!(
                        c.run,
                        AttemptState::Opened { .. } | AttemptState::Running { .. }
                    )
                }),
            BrokenInvariant::BegunBeforeGo,
        ),
        (
            placed && decided && !job.inputs_here,
            BrokenInvariant::GoWithoutInput,
        ),
        (
            components
                .iter()
                .any(|c| c.run.may_live() && c.attempt.0 == 0),
            BrokenInvariant::NoAttempt,
        ),
        (
            has_begun_payloads(&job.phase) && !all_begun,
            BrokenInvariant::NotAllBegun,
        ),
        (
            components.iter().any(|c| match (&c.charge, &c.placement) {
                (Some(charge), Some(placement)) => charge.site != placement.site,
                (Some(_), None) => true,
                (None, _) => false,
            }),
            BrokenInvariant::StrangeCharge,
        ),
        (
            kind != PhaseKind::Running && components.iter().any(|c| c.restart.is_some()),
            BrokenInvariant::StrangeRestart,
        ),
    ];
    checks
        .into_iter()
        .filter(|(is_broken, _)| *is_broken)
        .map(|(_, rule)| rule)
        .collect()
}

fn has_begun_payloads(phase: &JobPhase) -> bool {
    matches!(
        phase,
        JobPhase::Running { .. } | JobPhase::Collecting { .. }
    )
}
