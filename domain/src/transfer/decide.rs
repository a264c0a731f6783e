//! What follows from a command to a copy.

use std::sync::Arc;

use crate::planted::{Bug, bug};
use crate::text;
use crate::transfer::command::{CopyCommand, Rejection, Seen, StartAnswer};
use crate::transfer::event::{Blame, CopyEvent, Happened};
use crate::transfer::parameters::CopyParameters;
use crate::transfer::state::{CopyPhase, CopyRecord, MAX_LEFTOVERS, Nonce, Source, Try, Usage};
use crate::units::{DurationMs, Timestamp};

type Decided = Result<Option<Happened>, Rejection>;

/// Decides a command.
///
/// # Errors
/// The command does not fit the record; nothing happened.
pub fn decide(
    record: &CopyRecord,
    parameters: &CopyParameters,
    command: CopyCommand,
    now: Timestamp,
) -> Result<Vec<CopyEvent>, Rejection> {
    let desk = Desk {
        record,
        parameters,
        now,
    };
    let happened = match command {
        CopyCommand::Need => Ok((!record.is_needed()).then_some(Happened::CopyNeeded)),
        CopyCommand::NoLongerNeeded => Ok(record.is_needed().then_some(Happened::CopyReleased)),
        CopyCommand::Look => Ok(desk.look()),
        CopyCommand::Begin { source, nonce } => desk.begin(source, nonce),
        CopyCommand::NoSource { hopeless, detail } => desk.no_source(hopeless, &detail),
        CopyCommand::StartAnswered { nonce, answer } => desk.start_answered(nonce, answer),
        CopyCommand::Observed { nonce, seen } => desk.observed(nonce, seen),
        CopyCommand::StopConfirmed { nonce } => desk.stop_confirmed(nonce),
        CopyCommand::DiscardConfirmed { nonce } => Ok(record
            .leftovers
            .contains_key(&nonce)
            .then_some(Happened::PartialDiscarded { nonce })),
        CopyCommand::DeleteConfirmed { nonce } => match record.phase {
            CopyPhase::Deleting { nonce: ours, .. } if ours == nonce => {
                Ok(desk.is_final().then_some(Happened::CopyDeleted))
            }
            _ => Err(Rejection::Stale),
        },
        CopyCommand::FoundThere { nonce } => match record.phase {
            CopyPhase::Deleting { nonce: ours, .. } if ours == nonce && record.is_needed() => {
                Ok(Some(Happened::DeletionRevoked))
            }
            _ => Err(Rejection::Stale),
        },
        CopyCommand::FoundMissing { nonce } => match record.phase {
            CopyPhase::Ready { nonce: ours, .. } if ours == nonce => Ok(Some(Happened::CopyLost {
                detail: "the site does not have it any more".into(),
            })),
            CopyPhase::Deleting { nonce: ours, .. } if ours == nonce => {
                Ok(desk.is_final().then_some(Happened::CopyDeleted))
            }
            _ => Err(Rejection::Stale),
        },
    }?;
    Ok(happened
        .into_iter()
        .map(|what| CopyEvent { at: now, what })
        .collect())
}

/// When nobody's copy is stopped, deleted or given up; `None` while it is needed,
/// or while something else has to happen first.
pub(super) fn expires_at(record: &CopyRecord, parameters: &CopyParameters) -> Option<Timestamp> {
    let needed = |phase: &CopyPhase| matches!(phase, CopyPhase::Ready { .. });
    let since = match record.usage {
        Usage::Unneeded { since } => since,
        _ if bug(Bug::DeleteNeeded) && needed(&record.phase) => Timestamp(0),
        _ => return None,
    };
    let keep = match &record.phase {
        CopyPhase::Waiting { resume: None, .. } => DurationMs::ZERO,
        CopyPhase::Waiting {
            resume: Some(_), ..
        } => parameters.partial_keep,
        CopyPhase::Copying { .. } => parameters.stop_grace,
        CopyPhase::Ready { .. } if bug(Bug::KeepCopies) => return None,
        CopyPhase::Ready { .. } => parameters.ready_keep,
        CopyPhase::Absent | CopyPhase::Stopping { .. } | CopyPhase::Deleting { .. } => return None,
    };
    Some(since + keep)
}

struct Desk<'a> {
    record: &'a CopyRecord,
    parameters: &'a CopyParameters,
    now: Timestamp,
}

impl Desk<'_> {
    /// What is not there stays away: no try is left that could still bring it.
    fn is_final(&self) -> bool {
        self.record.leftovers.is_empty()
    }

    fn look(&self) -> Option<Happened> {
        let expires = expires_at(self.record, self.parameters)?;
        if self.now < expires {
            return None;
        }
        match &self.record.phase {
            CopyPhase::Waiting { .. } => Some(Happened::CopyAbandoned),
            CopyPhase::Copying { .. } => Some(Happened::StopDecided),
            CopyPhase::Ready { .. } => Some(Happened::DeletionDecided),
            CopyPhase::Absent | CopyPhase::Stopping { .. } | CopyPhase::Deleting { .. } => None,
        }
    }

    /// The next try may begin: the copy waits for one, is needed, and its time has come.
    fn check_turn(&self) -> Result<Option<&Try>, Rejection> {
        let CopyPhase::Waiting {
            not_before, resume, ..
        } = &self.record.phase
        else {
            return Err(Rejection::Stale);
        };
        if !self.record.is_needed() {
            return Err(Rejection::NotNeeded);
        }
        if self.now < *not_before {
            return Err(Rejection::TooEarly);
        }
        if self.record.leftovers.len() >= MAX_LEFTOVERS {
            return Err(Rejection::TooManyLeftovers);
        }
        Ok(resume.as_ref())
    }

    /// A try that ended without blame is resumed if it is to be the same source again.
    fn begin(&self, source: Source, nonce: Nonce) -> Decided {
        let resume = self.check_turn()?;
        if self.record.trouble.excluded.contains(&source.site) {
            return Err(Rejection::ExcludedSource);
        }
        if let Some(earlier) = resume.filter(|earlier| earlier.source == source) {
            return Ok(Some(Happened::CopyOrdered(earlier.clone())));
        }
        let in_use = self.record.leftovers.contains_key(&nonce)
            || resume.is_some_and(|earlier| earlier.nonce == nonce);
        if in_use {
            return Err(Rejection::NonceInUse);
        }
        Ok(Some(Happened::CopyOrdered(Try { source, nonce })))
    }

    fn no_source(&self, hopeless: bool, detail: &Arc<str>) -> Decided {
        self.check_turn()?;
        let retry_at = self.now
            + self
                .parameters
                .wait(self.record.trouble.tries.saturating_add(1), 0);
        Ok(Some(Happened::SourceMissing {
            hopeless,
            detail: text::kept(detail),
            retry_at,
        }))
    }

    fn start_answered(&self, nonce: Nonce, answer: StartAnswer) -> Decided {
        match (&self.record.phase, answer) {
            (CopyPhase::Copying { order, .. }, _) if order.nonce != nonce => Err(Rejection::Stale),
            (CopyPhase::Copying { started: true, .. }, _) => Ok(None),
            (CopyPhase::Copying { .. }, StartAnswer::Taken | StartAnswer::Unknown) => {
                Ok(Some(Happened::CopyStarted))
            }
            (CopyPhase::Copying { .. }, StartAnswer::Refused(detail)) => {
                Ok(Some(self.failed(nonce, Blame::Destination, &detail)))
            }
            _ => Err(Rejection::Stale),
        }
    }

    /// Whole is whole, also if it was to be stopped. Anything else that is seen while
    /// an order to start or to stop is unanswered may be from before it.
    fn observed(&self, nonce: Nonce, seen: Seen) -> Decided {
        let (order, watched) = match &self.record.phase {
            CopyPhase::Copying { order, started, .. } => (order, *started),
            CopyPhase::Stopping { order, .. } => (order, false),
            CopyPhase::Ready { nonce: ours, .. } if *ours == nonce => return Ok(None),
            _ => return Err(Rejection::Stale),
        };
        if order.nonce != nonce {
            return Err(Rejection::Stale);
        }
        match seen {
            Seen::Complete => Ok(Some(Happened::CopyCompleted)),
            Seen::Running { .. } if bug(Bug::ReadyEarly) => Ok(Some(Happened::CopyCompleted)),
            _ if !watched => Ok(None),
            Seen::Running { unchanged_for } if unchanged_for < self.parameters.stall_timeout => {
                Ok(None)
            }
            Seen::Running { unchanged_for } => {
                let detail = format!("nothing arrived for {unchanged_for}").into();
                Ok(Some(match self.suspect(Blame::Process) {
                    Blame::Process => Happened::CopyStalled { detail },
                    _ => self.failed(nonce, Blame::Process, &detail),
                }))
            }
            Seen::Absent => Ok(Some(self.failed(
                nonce,
                Blame::Process,
                &"the copying process is gone".into(),
            ))),
            Seen::Failed { blame, detail } => Ok(Some(self.failed(nonce, blame, &detail))),
        }
    }

    /// The source's fault: another replica, at once. The process's: again, after a
    /// while. The destination's: the same, and after some tries the jobs are told.
    fn failed(&self, nonce: Nonce, blame: Blame, detail: &Arc<str>) -> Happened {
        let trouble = &self.record.trouble;
        let blame = self.suspect(blame);
        let wait = match blame {
            Blame::Source => DurationMs::ZERO,
            Blame::Destination | Blame::Process => self
                .parameters
                .wait(trouble.tries.saturating_add(1), nonce.0),
        };
        let limit = self.parameters.max_destination_tries;
        Happened::TryFailed {
            blame,
            detail: text::kept(detail),
            retry_at: self.now + wait,
            give_up: blame == Blame::Destination && trouble.destination.saturating_add(1) >= limit,
        }
    }

    /// After some tries a failure that nobody can explain is laid on the source, so
    /// that another replica is tried, and the jobs are told when there is none.
    fn suspect(&self, blame: Blame) -> Blame {
        let suspicious =
            self.record.trouble.tries.saturating_add(1) >= self.parameters.max_process_tries;
        if blame == Blame::Process && suspicious {
            Blame::Source
        } else {
            blame
        }
    }

    fn stop_confirmed(&self, nonce: Nonce) -> Decided {
        match &self.record.phase {
            CopyPhase::Stopping { order, .. } if order.nonce == nonce => {
                let wait = match self.record.trouble.tries {
                    0 => DurationMs::ZERO,
                    tries => self.parameters.wait(tries, nonce.0),
                };
                Ok(Some(Happened::CopyStopped {
                    retry_at: self.now + wait,
                }))
            }
            _ => Err(Rejection::Stale),
        }
    }
}
