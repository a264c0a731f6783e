//! What an attempt is doing, from Slurm's word and the wrapper's files together.

use super::queue::{Job, Over, State};
use crate::port::{EndedBySite, Exit, ExitCause, Observation};
use crate::wrapper::evidence::Evidence;

/// Why a job that is over left nothing is told only after its files had their time to appear.
const LATE: &str = "its files may still appear";

/// While a job is tidied up Slurm does not say who ended it.
const UNTOLD: &str = "Slurm has not said yet why it was ended";

/// What is known of one attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// Slurm's job: of several the one that has the directory, or may still get it.
    pub(super) job: Option<&'a Job>,
    /// What its directory says, if it has one.
    pub(super) evidence: Option<&'a Evidence>,
    /// What its wrapper reads is still there.
    pub(super) spooled: bool,
    /// Slurm has said for a while that nothing runs any more.
    pub(super) settled: bool,
    /// It ended so long ago that Slurm's word is not waited for.
    pub(super) overdue: bool,
}

/// Whether Slurm is to be asked once more: the payload ended after it was asked, and whether
/// it was ended from outside is not known.
pub(super) fn ended_since(known: Known<'_>) -> bool {
    let exited = known.evidence.is_some_and(|evidence| evidence.exit.is_some());
    exited && known.job.is_some_and(|job| job.state == State::Running)
}

/// What the attempt is doing.
pub(super) fn judge(known: Known<'_>) -> Observation {
    let last = known.evidence.and_then(Evidence::last_word);
    let state = known.job.map(|job| job.state);
    match (last, state) {
        (Some(Observation::Exited(exit)), Some(State::Over(over))) => exited(known, exit, over),
        (Some(Observation::Exited(exit)), Some(State::Running | State::Completing))
            if exit.cause == ExitCause::Terminated && !known.overdue =>
        {
            Observation::Unknown(UNTOLD.to_owned())
        }
        // It cannot begin any more, and must be taken out of the queue all the same.
        (Some(Observation::Void) | None, Some(State::Waiting)) => {
            Observation::Queued(known.job.and_then(|job| job.start_at))
        }
        (Some(last), _) => last,
        (None, Some(State::Running | State::Completing)) => {
            known.evidence.map_or(Observation::Starting, Evidence::standing)
        }
        (None, None) if known.evidence.is_none() => Observation::Absent,
        // Slurm remembers a while longer what was removed.
        (None, Some(State::Over(_))) if known.evidence.is_none() && !known.spooled => {
            Observation::Absent
        }
        (None, Some(State::Over(_)) | None) if !known.settled => {
            Observation::Unknown(LATE.to_owned())
        }
        (None, Some(State::Over(over))) => match reason(known, over) {
            Some(why) => ended(known, why),
            None => vanished(known),
        },
        (None, None) => vanished(known),
    }
}

/// What ended the payload itself is the last word, and its own wall time; all else may be how
/// it looks to be ended from outside. Never success of that.
fn exited(known: Known<'_>, exit: Exit, over: Over) -> Observation {
    let by_wrapper = matches!(
        exit.cause,
        ExitCause::WallTime | ExitCause::TooLate | ExitCause::CouldNotStart(_)
    );
    match reason(known, over).filter(|_| !by_wrapper) {
        Some(why) => ended(known, why),
        None => Observation::Exited(exit),
    }
}

/// Why Slurm ended a job; `None` if it ended by itself.
fn reason(known: Known<'_>, over: Over) -> Option<EndedBySite> {
    match over {
        Over::Cancelled => Some(EndedBySite::Cancelled),
        Over::Preempted => Some(EndedBySite::Preempted),
        Over::TimeLimit => Some(EndedBySite::TimeLimit),
        Over::NodeFailed => Some(EndedBySite::NodeFailed),
        Over::OutOfMemory => Some(EndedBySite::OutOfMemory),
        Over::Ended => known
            .job
            .is_some_and(|job| job.reason.contains("LaunchFail"))
            .then_some(EndedBySite::LaunchFailed),
    }
}

fn ended(known: Known<'_>, why: EndedBySite) -> Observation {
    Observation::Ended { began: began(known), why, detail: said(known) }
}

fn began(known: Known<'_>) -> bool {
    known.evidence.is_some_and(|evidence| evidence.perhaps_begun || evidence.exit.is_some())
}

fn vanished(known: Known<'_>) -> Observation {
    Observation::Vanished { began: began(known), detail: said(known) }
}

fn said(known: Known<'_>) -> String {
    let said = match known.job {
        Some(job) => format!("Slurm says {} ({}) of its job {}", job.word, job.reason, job.number),
        None => "Slurm does not know its job any more".to_owned(),
    };
    let trouble = known.evidence.and_then(|evidence| evidence.trouble.as_deref());
    trouble.map_or_else(|| said.clone(), |why| format!("{why}; {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cospan_domain::units::Timestamp;

    use crate::port::GateState;

    fn job(state: State) -> Job {
        Job {
            number: "5".to_owned(),
            tag: "cabcdefgh-1-0-1".parse().unwrap(),
            word: "WORD".to_owned(),
            state,
            reason: "None".to_owned(),
            processors: 1,
            submitted_at: Timestamp(1),
            start_at: None,
            end_at: None,
        }
    }

    fn exited(cause: ExitCause) -> Evidence {
        let decision = Some((GateState::Opened, Timestamp(2)));
        Evidence { decision, exit: Some((cause, Timestamp(9))), ..Evidence::default() }
    }

    fn known<'a>(job: Option<&'a Job>, evidence: Option<&'a Evidence>) -> Known<'a> {
        Known { job, evidence, spooled: true, settled: true, overdue: false }
    }

    fn seen(state: Option<State>, evidence: Option<&Evidence>, settled: bool) -> Observation {
        let job = state.map(job);
        judge(Known { job: job.as_ref(), evidence, spooled: true, settled, overdue: false })
    }

    /// The table of the book: Slurm's state by the wrapper's files.
    #[test]
    fn what_an_end_means_is_judged_by_state_and_files_together() {
        let begun = Evidence { perhaps_begun: true, ..Evidence::default() };
        let stands = |cause: ExitCause| format!("{cause:?}");
        let cause = |over: Over, cause: ExitCause| match seen(
            Some(State::Over(over)),
            Some(&exited(cause)),
            true,
        ) {
            Observation::Exited(exit) => format!("{:?}", exit.cause),
            Observation::Ended { began: true, why, .. } => format!("{why:?}"),
            other => format!("{other:?}"),
        };
        let by_itself = [ExitCause::Code(0), ExitCause::Code(7), ExitCause::Signal(9)];
        let ours = [ExitCause::WallTime, ExitCause::TooLate];
        for exit in by_itself.iter().chain(&ours).chain(&[ExitCause::Terminated]) {
            assert_eq!(cause(Over::Ended, exit.clone()), stands(exit.clone()));
        }
        let outside = [
            (Over::Cancelled, EndedBySite::Cancelled),
            (Over::Preempted, EndedBySite::Preempted),
            (Over::TimeLimit, EndedBySite::TimeLimit),
            (Over::NodeFailed, EndedBySite::NodeFailed),
            (Over::OutOfMemory, EndedBySite::OutOfMemory),
        ];
        for (over, why) in outside {
            for exit in by_itself.iter().chain(&[ExitCause::Terminated]) {
                assert_eq!(cause(over, exit.clone()), format!("{why:?}"), "{exit:?}");
            }
            for exit in &ours {
                assert_eq!(cause(over, exit.clone()), stands(exit.clone()), "{over:?}");
            }
            for (evidence, began) in [(Some(&begun), true), (None, false)] {
                let seen = seen(Some(State::Over(over)), evidence, true);
                let Observation::Ended { began: told, why: reason, .. } = &seen else {
                    panic!("{over:?}: {seen:?}")
                };
                assert_eq!((*told, *reason), (began, why));
            }
        }
    }

    #[test]
    fn a_job_that_could_not_be_launched_is_the_sites_error() {
        let mut job = job(State::Over(Over::Ended));
        job.reason = "JobLaunchFailure".to_owned();
        let seen = judge(known(Some(&job), None));
        let Observation::Ended { began: false, why, .. } = seen else { panic!("{seen:?}") };
        assert_eq!((why, why.blame()), (EndedBySite::LaunchFailed, crate::port::Blame::Site));
    }

    #[test]
    fn a_payload_that_ended_by_itself_stands_while_its_job_is_tidied_up() {
        for state in [None, Some(State::Completing)] {
            let evidence = exited(ExitCause::Code(0));
            let Observation::Exited(exit) = seen(state, Some(&evidence), true) else {
                panic!("{state:?}")
            };
            assert_eq!(exit.cause, ExitCause::Code(0), "{state:?}");
        }
    }

    #[test]
    fn who_told_a_payload_to_end_is_known_when_its_job_is_tidied_up() {
        let evidence = exited(ExitCause::Terminated);
        let job = job(State::Completing);
        let early = known(Some(&job), Some(&evidence));
        assert!(matches!(judge(early), Observation::Unknown(_)));
        assert!(matches!(judge(Known { overdue: true, ..early }), Observation::Exited(_)));
        assert!(matches!(seen(None, Some(&evidence), true), Observation::Exited(_)));
    }

    #[test]
    fn what_waits_in_the_queue_is_there_though_its_gate_is_shut() {
        let decision = Some((GateState::Voided, Timestamp(2)));
        let void = Evidence { decision, ..Evidence::default() };
        assert_eq!(seen(Some(State::Waiting), Some(&void), true), Observation::Queued(None));
        assert_eq!(seen(Some(State::Running), Some(&void), true), Observation::Void);
        assert_eq!(seen(None, Some(&void), true), Observation::Void);
    }

    #[test]
    fn what_left_no_word_is_lost_only_when_its_files_had_their_time() {
        let running = Evidence { perhaps_begun: true, ..Evidence::default() };
        for state in [None, Some(State::Over(Over::Ended))] {
            let early = seen(state, Some(&running), false);
            assert!(matches!(early, Observation::Unknown(_)), "{early:?}");
            let late = seen(state, Some(&running), true);
            assert!(matches!(late, Observation::Vanished { began: true, .. }), "{late:?}");
        }
        assert_eq!(seen(None, None, false), Observation::Absent);
        let job = Some(&job(State::Over(Over::Ended)));
        let removed = Known { spooled: false, ..known(job, None) };
        assert_eq!(judge(removed), Observation::Absent);
        assert_eq!(seen(Some(State::Running), None, false), Observation::Starting);
    }
}
