//! The events that follow from a command to a copy.

use std::sync::Arc;

use crate::text;
use crate::transfer::copy_command::{CopyCommand, CopyRejection, CopySighting, CopyStartAnswer};
use crate::transfer::copy_event::{CopyEvent, CopyEventKind, TryFaultSide};
use crate::transfer::copy_parameters::CopyParameters;
use crate::transfer::copy_state::{
    CopyPhase, CopyRecord, CopyTry, CopyTrySource, CopyUsage, MAX_LEFTOVERS, TryNonce,
};
use crate::units::{DurationMs, Timestamp};

type CopyDecision = Result<Option<CopyEventKind>, CopyRejection>;

/// Decides a command.
///
/// # Errors
/// The command does not fit the record; nothing happened.
pub fn decide(
    record: &CopyRecord,
    parameters: &CopyParameters,
    command: CopyCommand,
    now: Timestamp,
) -> Result<Vec<CopyEvent>, CopyRejection> {
    let desk = CopyDecider {
        record,
        parameters,
        now,
    };
    let happened = match command {
        CopyCommand::Need => Ok((!record.is_needed()).then_some(CopyEventKind::CopyNeeded)),
        CopyCommand::NoLongerNeeded => {
            Ok(record.is_needed().then_some(CopyEventKind::CopyReleased))
        }
        CopyCommand::Look => Ok(desk.expire_unneeded()),
        CopyCommand::Begin { source, nonce } => desk.begin_try_from(source, nonce),
        CopyCommand::NoSource { hopeless, detail } => desk.note_missing_source(hopeless, &detail),
        CopyCommand::StartAnswered { nonce, answer } => desk.apply_start_answer(nonce, answer),
        CopyCommand::Observed { nonce, seen } => desk.apply_observation(nonce, seen),
        CopyCommand::StopConfirmed { nonce } => desk.apply_stop(nonce),
        CopyCommand::DiscardConfirmed { nonce } => Ok(record
            .leftovers
            .contains_key(&nonce)
            .then_some(CopyEventKind::PartialDiscarded { nonce })),
        CopyCommand::DeleteConfirmed { nonce } => match record.phase {
            CopyPhase::Deleting { nonce: ours, .. } if ours == nonce => {
                Ok(desk.is_hopeless().then_some(CopyEventKind::CopyDeleted))
            }
            _ => Err(CopyRejection::Stale),
        },
        CopyCommand::FoundThere { nonce } => match record.phase {
            CopyPhase::Deleting { nonce: ours, .. } if ours == nonce && record.is_needed() => {
                Ok(Some(CopyEventKind::DeletionRevoked))
            }
            _ => Err(CopyRejection::Stale),
        },
        CopyCommand::FoundMissing { nonce } => match record.phase {
            CopyPhase::Ready { nonce: ours, .. } if ours == nonce => {
                Ok(Some(CopyEventKind::CopyLost {
                    detail: "the site does not have it any more".into(),
                }))
            }
            CopyPhase::Deleting { nonce: ours, .. } if ours == nonce => {
                Ok(desk.is_hopeless().then_some(CopyEventKind::CopyDeleted))
            }
            _ => Err(CopyRejection::Stale),
        },
    }?;
    Ok(happened
        .into_iter()
        .map(|what| CopyEvent { at: now, what })
        .collect())
}

/// Returns the time when an unneeded copy is stopped, deleted or given up; `None` while it is
/// needed, or while something else has to happen first.
pub(super) fn unneeded_expiry(
    record: &CopyRecord,
    parameters: &CopyParameters,
) -> Option<Timestamp> {
    let since = match record.usage {
        CopyUsage::Unneeded { since } => since,
        _ => return None,
    };
    let keep = match &record.phase {
        CopyPhase::Waiting { resume: None, .. } => DurationMs::ZERO,
        CopyPhase::Waiting {
            resume: Some(_), ..
        } => parameters.partial_keep,
        CopyPhase::Copying { .. } => parameters.stop_grace,
        CopyPhase::Ready { .. } => parameters.ready_keep,
        CopyPhase::Absent | CopyPhase::Stopping { .. } | CopyPhase::Deleting { .. } => return None,
    };
    Some(since + keep)
}

struct CopyDecider<'a> {
    record: &'a CopyRecord,
    parameters: &'a CopyParameters,
    now: Timestamp,
}

impl CopyDecider<'_> {
    /// Returns true if missing content stays missing: no try is left that could still bring it.
    fn is_hopeless(&self) -> bool {
        self.record.leftovers.is_empty()
    }

    fn expire_unneeded(&self) -> Option<CopyEventKind> {
        let expires = unneeded_expiry(self.record, self.parameters)?;
        if self.now < expires {
            return None;
        }
        match &self.record.phase {
            CopyPhase::Waiting { .. } => Some(CopyEventKind::CopyAbandoned),
            CopyPhase::Copying { .. } => Some(CopyEventKind::StopDecided),
            CopyPhase::Ready { .. } => Some(CopyEventKind::DeletionDecided),
            CopyPhase::Absent | CopyPhase::Stopping { .. } | CopyPhase::Deleting { .. } => None,
        }
    }

    /// Checks that the next try may begin: the copy waits for one, is needed, and its time has
    /// come.
    fn check_try_due(&self) -> Result<Option<&CopyTry>, CopyRejection> {
        let CopyPhase::Waiting {
            not_before, resume, ..
        } = &self.record.phase
        else {
            return Err(CopyRejection::Stale);
        };
        if !self.record.is_needed() {
            return Err(CopyRejection::NotNeeded);
        }
        if self.now < *not_before {
            return Err(CopyRejection::TooEarly);
        }
        if self.record.leftovers.len() >= MAX_LEFTOVERS {
            return Err(CopyRejection::TooManyLeftovers);
        }
        Ok(resume.as_ref())
    }

    /// Begins a try. A try that ended without blame is resumed if the source is the same again.
    fn begin_try_from(&self, source: CopyTrySource, nonce: TryNonce) -> CopyDecision {
        let resume = self.check_try_due()?;
        if self.record.trouble.excluded.contains(&source.site) {
            return Err(CopyRejection::ExcludedSource);
        }
        if let Some(earlier) = resume.filter(|earlier| earlier.source == source) {
            return Ok(Some(CopyEventKind::CopyOrdered(earlier.clone())));
        }
        let in_use = self.record.leftovers.contains_key(&nonce)
            || resume.is_some_and(|earlier| earlier.nonce == nonce);
        if in_use {
            return Err(CopyRejection::NonceInUse);
        }
        Ok(Some(CopyEventKind::CopyOrdered(CopyTry { source, nonce })))
    }

    fn note_missing_source(&self, hopeless: bool, detail: &Arc<str>) -> CopyDecision {
        self.check_try_due()?;
        let retry_at = self.now
            + self
                .parameters
                .backoff_after(self.record.trouble.tries.saturating_add(1), 0);
        Ok(Some(CopyEventKind::SourceMissing {
            hopeless,
            detail: text::clean_text(detail),
            retry_at,
        }))
    }

    fn apply_start_answer(&self, nonce: TryNonce, answer: CopyStartAnswer) -> CopyDecision {
        match (&self.record.phase, answer) {
            (CopyPhase::Copying { order, .. }, _) if order.nonce != nonce => {
                Err(CopyRejection::Stale)
            }
            (CopyPhase::Copying { started: true, .. }, _) => Ok(None),
            (CopyPhase::Copying { .. }, CopyStartAnswer::Taken | CopyStartAnswer::Unknown) => {
                Ok(Some(CopyEventKind::CopyStarted))
            }
            (CopyPhase::Copying { .. }, CopyStartAnswer::Refused(detail)) => Ok(Some(
                self.decide_failed_try(nonce, TryFaultSide::Destination, &detail),
            )),
            _ => Err(CopyRejection::Stale),
        }
    }

    /// Applies what was seen of a copy. A whole copy is whole, also if it was to be stopped.
    /// Anything else that is seen while a request to start or to stop is unanswered may be from
    /// before it.
    fn apply_observation(&self, nonce: TryNonce, seen: CopySighting) -> CopyDecision {
        let (order, watched) = match &self.record.phase {
            CopyPhase::Copying { order, started, .. } => (order, *started),
            CopyPhase::Stopping { order, .. } => (order, false),
            CopyPhase::Ready { nonce: ours, .. } if *ours == nonce => return Ok(None),
            _ => return Err(CopyRejection::Stale),
        };
        if order.nonce != nonce {
            return Err(CopyRejection::Stale);
        }
        match seen {
            CopySighting::Complete => Ok(Some(CopyEventKind::CopyCompleted)),
            _ if !watched => Ok(None),
            CopySighting::Running { unchanged_for }
                if unchanged_for < self.parameters.stall_timeout =>
            {
                Ok(None)
            }
            CopySighting::Running { unchanged_for } => {
                let detail = format!("nothing arrived for {unchanged_for}").into();
                Ok(Some(match self.blame_after_tries(TryFaultSide::Process) {
                    TryFaultSide::Process => CopyEventKind::CopyStalled { detail },
                    _ => self.decide_failed_try(nonce, TryFaultSide::Process, &detail),
                }))
            }
            CopySighting::Absent => Ok(Some(self.decide_failed_try(
                nonce,
                TryFaultSide::Process,
                &"the copying process is gone".into(),
            ))),
            CopySighting::Failed { blame, detail } => {
                Ok(Some(self.decide_failed_try(nonce, blame, &detail)))
            }
        }
    }

    /// Decides on a failed try. A fault of the source: another replica, at once. Of the process:
    /// again, after a while. Of the destination: the same, and after some tries the jobs get a
    /// report.
    fn decide_failed_try(
        &self,
        nonce: TryNonce,
        blame: TryFaultSide,
        detail: &Arc<str>,
    ) -> CopyEventKind {
        let trouble = &self.record.trouble;
        let blame = self.blame_after_tries(blame);
        let wait = match blame {
            TryFaultSide::Source => DurationMs::ZERO,
            TryFaultSide::Destination | TryFaultSide::Process => self
                .parameters
                .backoff_after(trouble.tries.saturating_add(1), nonce.0),
        };
        let limit = self.parameters.max_destination_tries;
        CopyEventKind::TryFailed {
            blame,
            detail: text::clean_text(detail),
            retry_at: self.now + wait,
            give_up: blame == TryFaultSide::Destination
                && trouble.destination.saturating_add(1) >= limit,
        }
    }

    /// Blames the source for a failure that nobody can explain, after some tries. Then another
    /// replica is tried, and the jobs get a report when there is none.
    fn blame_after_tries(&self, blame: TryFaultSide) -> TryFaultSide {
        let suspicious =
            self.record.trouble.tries.saturating_add(1) >= self.parameters.max_process_tries;
        if blame == TryFaultSide::Process && suspicious {
            TryFaultSide::Source
        } else {
            blame
        }
    }

    fn apply_stop(&self, nonce: TryNonce) -> CopyDecision {
        match &self.record.phase {
            CopyPhase::Stopping { order, .. } if order.nonce == nonce => {
                let wait = match self.record.trouble.tries {
                    0 => DurationMs::ZERO,
                    tries => self.parameters.backoff_after(tries, nonce.0),
                };
                Ok(Some(CopyEventKind::CopyStopped {
                    retry_at: self.now + wait,
                }))
            }
            _ => Err(CopyRejection::Stale),
        }
    }
}
