//! Bugs planted on purpose, to check that the oracles find them.
//!
//! Only a build with `--cfg cospan_chaos` has any, and then at most one at a time;
//! in every other build [`is_planted`] is false and nothing of them is left.

use crate::ids::JobId;

/// A mistake that somebody might make, by what it gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlantedBug {
    /// A submission without an answer counts as not sent, and another follows at once.
    RetryBlind,
    /// An absence counts although the submission may still be on its way.
    TrustEarlyAbsence,
    /// An attempt that a site does not report is taken for gone.
    UnknownIsGone,
    /// The start is decided before every component waits at its gate.
    GoEarly,
    /// The start is decided before the input is there.
    GoWithoutInput,
    /// A job is finished when one of its payloads has succeeded.
    FinishEarly,
    /// A job runs once one of its payloads has begun.
    RunEarly,
    /// A gate that was not opened before a restart is opened after it, however late, and the
    /// start counts as a common one.
    OpenStale,
    /// An error of the job is charged to its site.
    ChargeForTheJob,
    /// An error of a site is never recorded there.
    ForgetCharge,
    /// An attempt that is given up is not ended at its site.
    ForgetEnd,
    /// A gate that does not answer counts as closed.
    SilentGateIsClosed,
    /// A site that does not answer is given up at once, and the payload begun elsewhere.
    AbandonEarly,
    /// Job ids are given out before their reservation is durable.
    IdsUnreserved,
    /// Idempotency keys are forgotten at a restart.
    ForgetKeys,
    /// A submission is acknowledged before it is durable.
    AnswerEarly,
    /// A copy that nobody needs is kept for ever.
    KeepCopies,
    /// A copy is deleted while a job needs it.
    DeleteNeeded,
    /// A copy counts as whole while it is on its way.
    ReadyEarly,
    /// Partial data counts as discarded and is not.
    ForgetDiscard,
    /// A content counts as deleted and is not.
    ForgetDelete,
    /// Attempts of other control planes are taken for strays.
    TouchOthers,
    /// Files that ended attempts left are never removed.
    KeepAttempts,
    /// Every attempt of a component has the same tag.
    DropAttempt,
    /// Processors that are held at sites are not given back.
    KeepHoldings,
    /// A hint that comes while a change is being written is forgotten.
    ForgetLook,
    /// A cancellation is acknowledged and has no effect while a round is given up.
    ForgetCancel,
    /// The components of a round get the peers of an earlier one.
    StalePeers,
    /// At a restart nobody takes up the jobs that were under way.
    ForgetJobs,
    /// An effect is performed again while its outcome waits to be decided.
    PerformTwice,
    /// A submission that is nowhere is renewed while its gate is open.
    RenewUnclosed,
    /// A deletion is carried out although somebody came to need the copy meanwhile.
    DeleteOvertaken,
    /// Sites are swept only as long as there are jobs.
    SweepForJobsOnly,
    /// Sites are charged while the control plane is isolated.
    ChargeWhenCutOff,
    /// The components of another split begin to count their attempts anew.
    SplitCountsAnew,
    /// Each component of a split asks for the processors of the whole job.
    SplitAsWhole,
    /// Processor time that attempts held in vain and never used is not counted.
    ForgetWaste,
    /// An attempt that a claim gives back is never ended at its site.
    KeepGivenBack,
    /// Processors that a claim gives back count as free before its site has ended the attempt.
    FreeUnended,
    /// A component that its site did not start in time is over for us, and free to move,
    /// although the site may yet start it.
    MoveUnended,
    /// The start is decided although some components are not claimed yet.
    GoPartial,
    /// A round that preempts and still lacks processors preempts again.
    PreemptInWaves,
    /// Jobs of the same priority give way.
    PreemptEquals,
    /// Jobs that run and must not run twice give way.
    PreemptOnce,
    /// Jobs that rose by waiting preempt like those that were submitted so high.
    PromotedPreempt,
    /// A job pays for being preempted as for an error of its own.
    ChargePreempted,
    /// Processors are withheld for a job as long as it waits.
    HoardForEver,
    /// All processors that a job lacks are withheld, however large a part of the site that is.
    HoardWhole,
    /// Only runs of a sweep that hold something count towards its limit.
    IgnorePlaced,
    /// Runs of a sweep that have a proposal do not count towards its limit.
    IgnoreOffered,
    /// Receivers get the message that a job has ended again while its delivery is being written.
    TellTwice,
    /// A failed message that a job has ended counts as delivered.
    TellNobody,
    /// A batch job is ended by its number, whichever job has that number by now.
    TrustNumber,
    /// Submissions do not bear their tag in the queue of their site.
    DropTag,
    /// An attempt that its site starts a second time is let in a second time.
    LetInAgain,
    /// A write is acknowledged before it is on the disk.
    SkipSync,
    /// A component that is restarted alone does not wait for its input.
    RestartUnfed,
    /// A component that was given up while it ran counts as not begun where its site is silent.
    LeaveRestarted,
    /// A site that is probed takes any number of jobs.
    ProbeMore,
    /// Each component of a job counts as a probe of its own.
    ProbeEach,
    /// A look is decided before the reports that came during a write.
    LookFirst,
    /// Jobs that are placed at the same time are staged at a site whatever room there is.
    StageTogether,
    /// Of jobs that ask for the same, the one that came last is tried first.
    Overtake,
    /// Each death of an actor counts as its first.
    ForgetDeaths,
    /// Deaths of an actor count for ever.
    CountOldDeaths,
    /// An actor that dies too often is built anew once more.
    EscalateLate,
    /// A look that finds a full mailbox is dropped.
    DropLook,
    /// A message that a full mailbox refused is not sent again.
    SayOnce,
    /// A site is never asked to cancel a shared reservation.
    KeepShared,
    /// A shared reservation is confirmed before the site's offer is durable.
    ConfirmShared,
    /// A shared reservation serves every key's jobs.
    LetAllIn,
    /// An answer about a shared reservation counts although the site has since been asked something
    /// else.
    AnswerOfBefore,
    /// No message is sent when a site has lost its part of a shared reservation.
    LoseInSilence,
    /// Processors that a user has reserved at a site do not count towards the most that one may.
    HoldBeyondShare,
}

impl PlantedBug {
    /// All of them.
    pub const ALL: [PlantedBug; 74] = [
        PlantedBug::RetryBlind,
        PlantedBug::TrustEarlyAbsence,
        PlantedBug::UnknownIsGone,
        PlantedBug::GoEarly,
        PlantedBug::GoWithoutInput,
        PlantedBug::FinishEarly,
        PlantedBug::RunEarly,
        PlantedBug::OpenStale,
        PlantedBug::ChargeForTheJob,
        PlantedBug::ForgetCharge,
        PlantedBug::ForgetEnd,
        PlantedBug::SilentGateIsClosed,
        PlantedBug::AbandonEarly,
        PlantedBug::IdsUnreserved,
        PlantedBug::ForgetKeys,
        PlantedBug::AnswerEarly,
        PlantedBug::KeepCopies,
        PlantedBug::DeleteNeeded,
        PlantedBug::ReadyEarly,
        PlantedBug::ForgetDiscard,
        PlantedBug::ForgetDelete,
        PlantedBug::TouchOthers,
        PlantedBug::KeepAttempts,
        PlantedBug::DropAttempt,
        PlantedBug::KeepHoldings,
        PlantedBug::ForgetLook,
        PlantedBug::ForgetCancel,
        PlantedBug::StalePeers,
        PlantedBug::ForgetJobs,
        PlantedBug::PerformTwice,
        PlantedBug::RenewUnclosed,
        PlantedBug::DeleteOvertaken,
        PlantedBug::SweepForJobsOnly,
        PlantedBug::ChargeWhenCutOff,
        PlantedBug::SplitCountsAnew,
        PlantedBug::SplitAsWhole,
        PlantedBug::ForgetWaste,
        PlantedBug::KeepGivenBack,
        PlantedBug::FreeUnended,
        PlantedBug::MoveUnended,
        PlantedBug::GoPartial,
        PlantedBug::PreemptInWaves,
        PlantedBug::PreemptEquals,
        PlantedBug::PreemptOnce,
        PlantedBug::PromotedPreempt,
        PlantedBug::ChargePreempted,
        PlantedBug::HoardForEver,
        PlantedBug::HoardWhole,
        PlantedBug::IgnorePlaced,
        PlantedBug::IgnoreOffered,
        PlantedBug::TellTwice,
        PlantedBug::TellNobody,
        PlantedBug::TrustNumber,
        PlantedBug::DropTag,
        PlantedBug::LetInAgain,
        PlantedBug::SkipSync,
        PlantedBug::RestartUnfed,
        PlantedBug::LeaveRestarted,
        PlantedBug::ProbeMore,
        PlantedBug::ProbeEach,
        PlantedBug::LookFirst,
        PlantedBug::StageTogether,
        PlantedBug::Overtake,
        PlantedBug::ForgetDeaths,
        PlantedBug::CountOldDeaths,
        PlantedBug::EscalateLate,
        PlantedBug::DropLook,
        PlantedBug::SayOnce,
        PlantedBug::KeepShared,
        PlantedBug::ConfirmShared,
        PlantedBug::LetAllIn,
        PlantedBug::AnswerOfBefore,
        PlantedBug::LoseInSilence,
        PlantedBug::HoldBeyondShare,
    ];
}

/// Bugs that few seeds show, because much must come together.
pub const RARE: [PlantedBug; 3] = [
    PlantedBug::ChargePreempted,
    PlantedBug::LookFirst,
    PlantedBug::SayOnce,
];

/// Returns true if this bug is planted.
#[cfg(not(cospan_chaos))]
#[inline(always)]
pub fn is_planted(_: PlantedBug) -> bool {
    false
}

#[cfg(cospan_chaos)]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(u8::MAX);

/// Returns true if this bug is planted.
#[cfg(cospan_chaos)]
pub fn is_planted(bug: PlantedBug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Plants one bug, or none.
#[cfg(cospan_chaos)]
pub fn plant_bug(bug: Option<PlantedBug>) {
    let number = bug.map_or(u8::MAX, |bug| bug as u8);
    PLANTED.store(number, std::sync::atomic::Ordering::Relaxed);
}

/// Marks that a policy is asked for a plan for this job; panics if the job is poisoned.
#[cfg(not(cospan_chaos))]
#[inline(always)]
pub fn panic_if_poisoned(_: JobId) {}

#[cfg(cospan_chaos)]
static POISONOUS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(u64::MAX);

/// Marks that a policy is asked for a plan for this job; panics if the job is poisoned.
#[cfg(cospan_chaos)]
pub fn panic_if_poisoned(job: JobId) {
    let poisonous = POISONOUS.load(std::sync::atomic::Ordering::Relaxed);
    assert!(poisonous != job.0, "planted panic of a policy");
}

/// Makes every policy panic at this job, or at none.
#[cfg(cospan_chaos)]
pub fn poison_job(job: Option<JobId>) {
    let number = job.map_or(u64::MAX, |job| job.0);
    POISONOUS.store(number, std::sync::atomic::Ordering::Relaxed);
}
