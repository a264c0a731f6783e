//! Determines what an attempt is doing, from Slurm's report and the wrapper's files together.

use cospan_domain::units::DurationMs;

use super::queue::SlurmJob;
use crate::attempt_end::{AttemptEnd, BatchJobState, WrapperFileState, interpret_end};
use crate::port::{AttemptAtGate, AttemptObservation, BatchSystemSilence};
use crate::wrapper::attempt_files::{WrapperEvidence, to_observation};

/// The evidence about one attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlurmAttemptEvidence<'a> {
    /// Slurm's job: of several the one that has the directory, or may still get it.
    pub(super) job: Option<&'a SlurmJob>,
    /// The content of its directory, if it has one.
    pub(super) evidence: Option<&'a WrapperEvidence>,
    /// True while the files that its wrapper reads are still there.
    pub(super) spooled: bool,
    /// True if for a while it has been seen to be over, or never to be able to run.
    pub(super) settled: bool,
    /// True if it ended so long ago that Slurm's report is not awaited.
    pub(super) overdue: bool,
    /// True if Slurm was asked after its files were looked at.
    pub(super) asked_again: bool,
    /// True if its wrapper gives signs of life.
    pub(super) lives: bool,
}

impl SlurmAttemptEvidence<'_> {
    /// Returns Slurm's report. What it does not list runs all the same while its wrapper does.
    fn slurm_report(&self) -> BatchJobState {
        match self.job {
            Some(job) => job.word,
            None if self.lives => BatchJobState::Running,
            None => BatchJobState::Forgotten,
        }
    }

    fn left_file_state(&self) -> WrapperFileState {
        match (self.evidence, self.job) {
            // The directory is another's: this job waits behind it, and was not put back.
            (Some(evidence), Some(job))
                if job.word.is_in_queue() && !has_directory(evidence, job) =>
            {
                if evidence.file_state() == WrapperFileState::Void {
                    WrapperFileState::Void
                } else {
                    WrapperFileState::Nothing
                }
            }
            (Some(evidence), _) => evidence.file_state(),
            (None, _) => WrapperFileState::Nothing,
        }
    }

    /// Returns true if whatever is awaited has had its time.
    fn is_settled(&self) -> bool {
        match self.slurm_report() {
            // A controller that forgot that it started this has its node end what still runs.
            BatchJobState::Waiting | BatchJobState::Requeued => {
                self.asked_again
                    && (self.settled || self.left_file_state().may_be_ended_from_outside())
            }
            // A wrapper that was asked to end ends now, and Slurm will say by whom.
            BatchJobState::Running if self.left_file_state() == WrapperFileState::Terminated => {
                self.overdue
            }
            BatchJobState::Running => self.asked_again,
            BatchJobState::Completing => self.overdue,
            _ => self.settled,
        }
    }
}

/// Returns true if nothing of an attempt runs, or ever will, as far as Slurm knows and its wrapper
/// shows. A node that Slurm has lost may be well.
pub(super) fn is_over(
    job: Option<&SlurmJob>,
    evidence: Option<&WrapperEvidence>,
    lives: bool,
) -> bool {
    let Some(job) = job else {
        return !lives;
    };
    match job.word {
        BatchJobState::NodeFailed => !lives,
        BatchJobState::NeverRuns => true,
        _ => !job.is_active() || is_back_in_queue(job, evidence),
    }
}

/// Returns true if what a wrapper noted of its payload's end stands, once its job is over: Slurm
/// forgot the job, or that it started it, and had its node end it. In all other cases Slurm knows
/// what ended the wrapper.
pub(super) fn noted_end_stands(job: Option<&SlurmJob>) -> bool {
    job.is_none_or(|job| job.word.is_in_queue() || job.word == BatchJobState::Cancelled)
}

/// Returns true if Slurm says that a job waits although its wrapper has its directory.
pub(super) fn is_back_in_queue(job: &SlurmJob, evidence: Option<&WrapperEvidence>) -> bool {
    job.word.is_in_queue() && evidence.is_some_and(|evidence| has_directory(evidence, job))
}

fn has_directory(evidence: &WrapperEvidence, job: &SlurmJob) -> bool {
    let holder = evidence
        .ready
        .as_ref()
        .and_then(|(ready, _)| ready.job.as_ref());
    holder == Some(&job.number)
}

/// Returns true if Slurm must be asked once more: files show what happened after it was asked.
pub(super) fn needs_newer_report(known: SlurmAttemptEvidence<'_>) -> bool {
    let asks = matches!(
        known.slurm_report(),
        BatchJobState::Waiting | BatchJobState::Requeued | BatchJobState::Running
    );
    asks && interpret_end(known.slurm_report(), known.left_file_state(), false)
        == AttemptEnd::Untold
}

/// Determines what the attempt is doing.
pub(super) fn observe_attempt(known: SlurmAttemptEvidence<'_>) -> AttemptObservation {
    let over = known.job.is_some_and(|job| !job.is_active());
    // Slurm remembers a while longer what was removed.
    if over && known.evidence.is_none() && !known.spooled {
        return AttemptObservation::Absent;
    }
    match interpret_end(
        known.slurm_report(),
        known.left_file_state(),
        known.is_settled(),
    ) {
        AttemptEnd::Queued => AttemptObservation::Queued(
            known
                .job
                .map(SlurmJob::to_queued_attempt)
                .unwrap_or_default(),
        ),
        verdict => correct_held_since(
            known,
            to_observation(verdict, known.evidence, || explain_report(known)),
        ),
    }
}

/// Determines what the attempt is doing from its files alone, while Slurm is silent. An
/// attempt that is over stays what Slurm said of it; one that was ended from outside waits
/// until Slurm says by whom; and one that left nothing is not known to be absent. `settled`:
/// its end was seen a while ago.
pub(super) fn observe_in_silence(
    job: Option<&SlurmJob>,
    evidence: Option<&WrapperEvidence>,
    settled: bool,
    silence: &BatchSystemSilence,
) -> AttemptObservation {
    // The text stays the same each time: a change would be news.
    let said = format!("Slurm does not answer: {}", silence.why);
    let Some(evidence) = evidence else {
        return AttemptObservation::Unknown(said);
    };
    let left = evidence.file_state();
    let by_itself = matches!(left, WrapperFileState::Success | WrapperFileState::Failure);
    let word = job.map(|job| job.word).filter(|word| !word.is_active());
    match interpret_end(
        word.unwrap_or(BatchJobState::Running),
        left,
        by_itself && settled,
    ) {
        AttemptEnd::Untold | AttemptEnd::Absent | AttemptEnd::Queued => {
            AttemptObservation::Unknown(said)
        }
        told => to_observation(told, Some(evidence), || said.clone()),
    }
}

/// Corrects since when the processors are its own: since Slurm started it, before its wrapper is at
/// its gate (prologs and busy nodes take time). Slurm reports the second; at its end they are held.
fn correct_held_since(
    known: SlurmAttemptEvidence<'_>,
    observed: AttemptObservation,
) -> AttemptObservation {
    let running = known.job.filter(|job| job.word == BatchJobState::Running);
    match (observed, running.and_then(|job| job.start_at)) {
        (AttemptObservation::Ready(at_gate), Some(start_at)) => {
            let held_at = at_gate.held_at.min(start_at + SECOND);
            AttemptObservation::Ready(AttemptAtGate { held_at, ..at_gate })
        }
        (observed, _) => observed,
    }
}

const SECOND: DurationMs = DurationMs::from_secs(1);

fn explain_report(known: SlurmAttemptEvidence<'_>) -> String {
    match known.job {
        Some(job) => format!(
            "Slurm says {} ({}) of its job {}",
            job.state, job.reason, job.number
        ),
        None => "Slurm does not know its job any more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::units::Timestamp;

    use super::*;
    use crate::port::{ExitCause, GateState, QueuedAttempt, SiteEndReason};
    use crate::slurm_site::queue::interpret_state;
    use crate::wrapper::state_files::{ProcessIdentity, ReadyFile};

    fn job(state: &str, reason: &str) -> SlurmJob {
        SlurmJob {
            number: "5".to_owned(),
            tag: "cabcdefgh-1-0-1".parse().unwrap(),
            state: state.to_owned(),
            word: interpret_state(state, reason),
            reason: reason.to_owned(),
            processors: 1,
            submitted_at: Timestamp(1),
            start_at: None,
            end_at: None,
        }
    }

    fn evidence_of_job(number: &str) -> WrapperEvidence {
        let wrapper = ProcessIdentity { pid: 12, start: 34 };
        let host = "n1".to_owned();
        let boot = "b".to_owned();
        let ready = ReadyFile {
            host,
            wrapper,
            boot,
            job: Some(number.to_owned()),
            run: None,
            nodes: None,
        };
        WrapperEvidence {
            ready: Some((ready, Timestamp(1))),
            ..WrapperEvidence::default()
        }
    }

    fn evidence_of_exit(cause: ExitCause) -> WrapperEvidence {
        let decision = Some((GateState::Opened, Timestamp(2)));
        WrapperEvidence {
            decision,
            exit: Some((cause, Timestamp(9))),
            ..evidence_of_job("5")
        }
    }

    fn attempt_evidence<'a>(
        job: Option<&'a SlurmJob>,
        evidence: Option<&'a WrapperEvidence>,
    ) -> SlurmAttemptEvidence<'a> {
        SlurmAttemptEvidence {
            job,
            evidence,
            spooled: true,
            settled: true,
            overdue: false,
            asked_again: true,
            lives: false,
        }
    }

    fn end_reason(seen: &AttemptObservation) -> Option<(bool, SiteEndReason)> {
        match seen {
            AttemptObservation::Ended { began, why, .. } => Some((*began, *why)),
            _ => None,
        }
    }

    #[test]
    fn processors_are_held_from_when_slurm_started_their_job() {
        let at_gate = |at| WrapperEvidence {
            ready: evidence_of_job("5")
                .ready
                .map(|(ready, _)| (ready, Timestamp(at))),
            ..WrapperEvidence::default()
        };
        let held = |job: &SlurmJob, gate_at| match observe_attempt(attempt_evidence(
            Some(job),
            Some(&at_gate(gate_at)),
        )) {
            AttemptObservation::Ready(AttemptAtGate { since, held_at, .. }) => (since.0, held_at.0),
            seen => panic!("{seen:?}"),
        };
        let running = SlurmJob {
            start_at: Some(Timestamp(5_000)),
            ..job("RUNNING", "None")
        };
        assert_eq!(
            held(&running, 25_300),
            (25_300, 6_000),
            "a prolog took its time"
        );
        assert_eq!(
            held(&running, 5_400),
            (5_400, 5_400),
            "it was there within the second"
        );
        assert_eq!(held(&job("RUNNING", "None"), 25_300), (25_300, 25_300));
    }

    #[test]
    fn what_can_never_run_is_told_after_its_reason_has_lasted() {
        let job = job("PENDING", "PartitionTimeLimit");
        let late = attempt_evidence(Some(&job), None);
        assert_eq!(
            end_reason(&observe_attempt(late)),
            Some((false, SiteEndReason::NeverRuns))
        );
        let early = SlurmAttemptEvidence {
            settled: false,
            ..late
        };
        assert!(matches!(
            observe_attempt(early),
            AttemptObservation::Unknown(_)
        ));
    }

    #[test]
    fn a_payload_that_ended_is_judged_when_slurm_was_asked_after_it() {
        let running = job("RUNNING", "None");
        let evidence = evidence_of_exit(ExitCause::Code(0));
        let late = attempt_evidence(Some(&running), Some(&evidence));
        assert!(matches!(
            observe_attempt(late),
            AttemptObservation::Exited(_)
        ));
        let early = SlurmAttemptEvidence {
            asked_again: false,
            ..late
        };
        assert!(needs_newer_report(early));
        assert!(matches!(
            observe_attempt(early),
            AttemptObservation::Unknown(_)
        ));
    }

    #[test]
    fn nothing_that_ended_is_judged_while_its_job_is_tidied_up() {
        let job = job("COMPLETING", "None");
        for cause in [
            ExitCause::Code(0),
            ExitCause::Signal(9),
            ExitCause::Terminated,
        ] {
            let evidence = evidence_of_exit(cause);
            let early = attempt_evidence(Some(&job), Some(&evidence));
            assert!(
                matches!(observe_attempt(early), AttemptObservation::Unknown(_))
                    && !needs_newer_report(early)
            );
            assert!(matches!(
                observe_attempt(SlurmAttemptEvidence {
                    overdue: true,
                    ..early
                }),
                AttemptObservation::Exited(_)
            ));
        }
    }

    #[test]
    fn what_was_put_back_into_the_queue_is_told_from_a_second_submission() {
        let waiting = job("PENDING", "BeginTime");
        let evidence = WrapperEvidence {
            perhaps_begun: true,
            ..evidence_of_job("5")
        };
        let put_back = attempt_evidence(Some(&waiting), Some(&evidence));
        assert_eq!(
            end_reason(&observe_attempt(put_back)),
            Some((true, SiteEndReason::Requeued))
        );
        let early = SlurmAttemptEvidence {
            asked_again: false,
            ..put_back
        };
        assert!(
            needs_newer_report(early)
                && matches!(observe_attempt(early), AttemptObservation::Unknown(_))
        );
        let may_run = SlurmAttemptEvidence {
            settled: false,
            ..put_back
        };
        assert!(
            matches!(observe_attempt(may_run), AttemptObservation::Unknown(_)),
            "its node may not know yet"
        );
        let evidence = WrapperEvidence {
            perhaps_begun: true,
            ..evidence_of_job("4")
        };
        assert_eq!(
            observe_attempt(attempt_evidence(Some(&waiting), Some(&evidence))),
            AttemptObservation::Queued(QueuedAttempt::default())
        );
    }

    #[test]
    fn what_ended_by_itself_stands_though_slurm_forgot_that_it_started() {
        let waiting = job("PENDING", "Priority");
        for cause in [ExitCause::Code(0), ExitCause::Code(3)] {
            let evidence = evidence_of_exit(cause.clone());
            let now = SlurmAttemptEvidence {
                settled: false,
                ..attempt_evidence(Some(&waiting), Some(&evidence))
            };
            let AttemptObservation::Exited(exit) = observe_attempt(now) else {
                panic!("{cause:?}")
            };
            assert_eq!(exit.cause, cause);
            let early = SlurmAttemptEvidence {
                asked_again: false,
                ..now
            };
            assert!(
                matches!(observe_attempt(early), AttemptObservation::Unknown(_)),
                "{cause:?}"
            );
        }
        for cause in [ExitCause::Signal(9), ExitCause::Terminated] {
            let evidence = evidence_of_exit(cause);
            let ended = observe_attempt(attempt_evidence(Some(&waiting), Some(&evidence)));
            assert_eq!(end_reason(&ended), Some((true, SiteEndReason::Requeued)));
        }
    }

    #[test]
    fn what_a_signal_ended_has_the_same_end_once_slurm_forgot_it() {
        let asked = evidence_of_exit(ExitCause::Terminated);
        let forgotten = observe_attempt(attempt_evidence(None, Some(&asked)));
        assert!(matches!(
            end_reason(&forgotten),
            Some((_, SiteEndReason::Cancelled))
        ));
        for signal in [9, 15] {
            let evidence = evidence_of_exit(ExitCause::Signal(signal));
            let forgotten = attempt_evidence(None, Some(&evidence));
            assert!(
                matches!(observe_attempt(forgotten), AttemptObservation::Exited(_)),
                "{signal}"
            );
            let early = SlurmAttemptEvidence {
                settled: false,
                ..forgotten
            };
            assert!(
                matches!(observe_attempt(early), AttemptObservation::Unknown(_)),
                "{signal}: accounts are asked first"
            );
            let failed = job("FAILED", "NonZeroExitCode");
            let itself = observe_attempt(attempt_evidence(Some(&failed), Some(&evidence)));
            assert!(matches!(itself, AttemptObservation::Exited(_)), "{signal}");
        }
        let segfault = evidence_of_exit(ExitCause::Signal(11));
        assert!(matches!(
            observe_attempt(attempt_evidence(None, Some(&segfault))),
            AttemptObservation::Exited(_)
        ));
    }

    #[test]
    fn what_was_removed_is_absent_though_slurm_remembers_it() {
        let job = job("COMPLETED", "None");
        let removed = SlurmAttemptEvidence {
            spooled: false,
            ..attempt_evidence(Some(&job), None)
        };
        assert_eq!(observe_attempt(removed), AttemptObservation::Absent);
        assert_eq!(
            observe_attempt(attempt_evidence(None, None)),
            AttemptObservation::Absent
        );
    }

    #[test]
    fn an_end_that_a_payload_made_look_unwritten_is_no_error_of_its_site() {
        let evidence = WrapperEvidence {
            perhaps_begun: true,
            is_cut: true,
            ..evidence_of_job("5")
        };
        let failed = job("FAILED", "NonZeroExitCode");
        let ended = observe_attempt(attempt_evidence(Some(&failed), Some(&evidence)));
        assert_eq!(
            end_reason(&ended),
            Some((true, SiteEndReason::WrapperKilled))
        );
        let forgotten = observe_attempt(attempt_evidence(None, Some(&evidence)));
        assert!(
            matches!(forgotten, AttemptObservation::Vanished { began: true, .. }),
            "{forgotten:?}"
        );
    }

    #[test]
    fn a_detail_has_the_words_of_both() {
        let job = job("FAILED", "NonZeroExitCode");
        let evidence = WrapperEvidence {
            trouble: Some("no disk".to_owned()),
            ..evidence_of_job("5")
        };
        let AttemptObservation::Vanished {
            began: false,
            detail,
        } = observe_attempt(attempt_evidence(Some(&job), Some(&evidence)))
        else {
            panic!("a wrapper in trouble is the site's error")
        };
        assert_eq!(
            detail,
            "no disk; Slurm says FAILED (NonZeroExitCode) of its job 5"
        );
    }
}
