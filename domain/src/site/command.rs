//! What can be asked of a site's record, and what the shell tells it.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use crate::ids::{Attempt, KeyName, ReservationName};
use crate::reserve::{ReservationOutcome, Serial};
use crate::site::access::ReservationAccess;
use crate::site::failure::FailureClass;
use crate::site::owners::Ban;
use crate::site::shared::{MAX_ALLOWED, MAX_SHARED, SharedQuestion, SharedTerms};
use crate::site::state::{AttemptId, MAX_WINDOWS, NotificationId, NotificationKind};
use crate::site::together::JointStep;
use crate::units::{PerMillion, Timestamp};

/// A command to one site's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteCommand {
    /// A component ended badly. Told until the record has it; counted once.
    RecordError {
        /// Its attempt.
        attempt: AttemptId,
        /// Whose job it is, if that is known.
        owner: Option<KeyName>,
        /// Whose fault it is.
        class: FailureClass,
        /// What happened, for people.
        detail: Arc<str>,
        /// We are cut off from many sites at once: the fault is ours.
        isolated: bool,
        /// Drawn, from 0 to one: where in the spread the next probe falls.
        jitter: PerMillion,
    },
    /// A component ended well.
    RecordSuccess {
        /// Its attempt.
        attempt: AttemptId,
    },
    /// A component is about to be submitted while the breaker is not closed, or jobs of its owner
    /// stay away. Refused: it must not be submitted.
    StartProbe {
        /// Its attempt.
        probe: AttemptId,
        /// Whose job it is, if that is known.
        owner: Option<KeyName>,
        /// Its job may try out a site after errors.
        may_probe: bool,
    },
    /// A probe is over. Says nothing that [`SiteCommand::RecordError`] or
    /// [`SiteCommand::RecordSuccess`] of the same attempt would not say too.
    EndProbe {
        /// Its attempt.
        probe: AttemptId,
        /// How it ended.
        outcome: ProbeOutcome,
        /// Drawn, from 0 to one: where in the spread the next probe falls.
        jitter: PerMillion,
    },
    /// A probe of our own is over.
    OwnProbeOver {
        /// Its number.
        number: Attempt,
        /// What it told.
        outcome: ProbeOutcome,
        /// What was seen of it.
        detail: Arc<str>,
        /// Drawn, from 0 to one: where in the spread the next probe falls, or the owner's return.
        jitter: PerMillion,
    },
    /// What job records know to be alive at the site: probes not among them are over.
    ReconcileProbes {
        /// Attempts that are not over.
        live: BTreeSet<AttemptId>,
    },
    /// The site answered a question about a shared reservation.
    SharedAnswered {
        /// Which.
        serial: Serial,
        /// What it was asked.
        asked: SharedQuestion,
        /// What came of it.
        outcome: ReservationOutcome,
    },
    /// The site was looked at, and does not have shared reservations as it should keep them.
    SharedMissing {
        /// Those that it has no more.
        gone: BTreeSet<Serial>,
        /// Those that it has for another time.
        changed: BTreeSet<Serial>,
    },
    /// It was time to look whether jobs make use of a shared reservation.
    SharedLookedAt {
        /// Which.
        serial: Serial,
        /// Whether one does, or waits to.
        used: bool,
    },
    /// What follows for this site's part of a reservation from what is durable at the others.
    SharedStep(JointStep),
    /// An operator orders something.
    Operate {
        /// The key that asks.
        by: KeyName,
        /// What.
        what: Operation,
    },
    /// Owe the site's administrator a message about something that is not recorded here.
    Notify {
        /// What it is about.
        kind: NotificationKind,
        /// One line for people.
        text: Arc<str>,
        /// What led to it.
        details: Vec<Arc<str>>,
    },
    /// A message was sent.
    NotificationSent {
        /// Which.
        id: NotificationId,
    },
}

/// What an operator can order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Empty the site.
    Drain,
    /// Fill it again.
    Undrain,
    /// Place nothing new there.
    Freeze,
    /// Place there again.
    Thaw,
    /// Set a maintenance window, or change the one with the same start.
    SetWindow {
        /// Its start.
        from: Timestamp,
        /// Its end, not in it.
        until: Timestamp,
        /// Why.
        reason: Arc<str>,
    },
    /// Take back the maintenance window with this start.
    RemoveWindow {
        /// Its start.
        from: Timestamp,
    },
    /// Let this verdict hold instead of the breaker's for a while.
    Force {
        /// Usable; else unusable.
        usable: bool,
        /// It holds before this time.
        until: Timestamp,
    },
    /// Let the breaker's verdict hold again.
    Unforce,
    /// Set count and breaker back, whatever they are.
    ResetErrors,
    /// Have a reservation made that jobs share.
    Reserve(Box<SharedTerms>),
    /// Have one end later.
    ExtendReservation {
        /// Which.
        name: ReservationName,
        /// Its new end.
        until: Timestamp,
    },
    /// Change who may use one.
    AllowReservation {
        /// Which.
        name: ReservationName,
        /// Who.
        access: ReservationAccess,
    },
    /// Give one back.
    CancelReservation {
        /// Which.
        name: ReservationName,
    },
}

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeOutcome {
    /// Without an error of the site.
    Succeeded,
    /// With an error of the site.
    Failed,
    /// Without telling anything: cancelled, preempted, never submitted.
    Inconclusive,
}

/// Why a command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum SiteRejection {
    #[error("it is so already")]
    AlreadySo,
    #[error("the site is unusable after {errors} errors in a row; probed again later")]
    NotYetProbed { errors: u32, probe_at: Timestamp },
    #[error("the site is being probed with {allowed} at a time, and they are under way")]
    ProbesTaken { allowed: u32 },
    #[error("the site is being probed, with jobs only that may run twice or can go nowhere else")]
    OnlyRerunnable,
    #[error("{0}")]
    Banned(Ban),
    #[error("an operator said that the site is unusable")]
    ForcedUnusable { until: Timestamp },
    #[error("the window ends before it begins, or is over already")]
    EmptyWindow,
    #[error(
        "a site has at most {} maintenance windows; remove one first",
        MAX_WINDOWS
    )]
    TooManyWindows,
    #[error("the site has no maintenance window that starts then")]
    NoSuchWindow,
    #[error("the time until which it should hold is over already")]
    Past,
    #[error("there is a reservation of that name; cancel it first, or take another name")]
    ReservationExists,
    #[error("it has no reservation of that name, or not any more")]
    NoSuchReservation,
    #[error("it ends then, or later, as it is; it can only be made to end later")]
    EndsLater,
    #[error("the site is still being asked about that reservation; try again when it has answered")]
    ReservationBusy,
    #[error(
        "a site has at most {} shared reservations; cancel one first",
        MAX_SHARED
    )]
    TooManyReservations,
    #[error("a reservation names at most {} keys", MAX_ALLOWED)]
    TooManyKeys,
    #[error("it is for every key's jobs; say with `only` whose it is to be for instead")]
    OpenToEverybody,
    #[error("nobody would be left who may use it; cancel it, or say `everybody`")]
    NobodyLeft,
    #[error("{key} is not among those who may use it")]
    NotAllowed { key: KeyName },
}
