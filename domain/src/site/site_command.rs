//! Commands to a site's record, and reports from the shell.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use crate::ids::{Attempt, KeyName, ReservationName};
use crate::reservation::{ReservationOutcome, ReservationSerial};
use crate::site::barred_owners_record::OwnerBan;
use crate::site::failure::FailureClass;
use crate::site::joint_reservation::JointReservationStep;
use crate::site::shared_reservation::{
    MAX_ALLOWED, MAX_SHARED, SharedReservationCall, SharedReservationTerms,
};
use crate::site::shared_reservation_access::ReservationAccessChange;
use crate::site::site_state::{AttemptId, MAX_WINDOWS, SiteNotificationId, SiteNotificationKind};
use crate::units::{PerMillion, Timestamp};

/// A command to a site's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteCommand {
    /// A component ended badly. Sent until the record has it; counted once.
    RecordError {
        attempt: AttemptId,
        /// The owner of its job, if that is known.
        owner: Option<KeyName>,
        /// The class of the failure.
        class: FailureClass,
        /// The error, for people.
        detail: Arc<str>,
        /// True if we are cut off from many sites at once: then the fault is ours.
        isolated: bool,
        /// Drawn, from 0 to one: the place of the next probe within the spread.
        jitter: PerMillion,
    },
    /// A component ended well.
    RecordSuccess { attempt: AttemptId },
    /// A component is about to be submitted while the breaker is not closed, or jobs of its owner
    /// are barred. If this is refused, it must not be submitted.
    StartProbe {
        /// The attempt of the component.
        probe: AttemptId,
        /// The owner of its job, if that is known.
        owner: Option<KeyName>,
        /// True if its job may try out a site after errors.
        may_probe: bool,
    },
    /// A probe is over. Says nothing that [`SiteCommand::RecordError`] or
    /// [`SiteCommand::RecordSuccess`] of the same attempt would not say too.
    EndProbe {
        /// The attempt of the probe.
        probe: AttemptId,
        outcome: ProbeOutcome,
        /// Drawn, from 0 to one: the place of the next probe within the spread.
        jitter: PerMillion,
    },
    /// A probe of our own is over.
    OwnProbeOver {
        number: Attempt,
        outcome: ProbeOutcome,
        /// The state that was seen, for people.
        detail: Arc<str>,
        /// Drawn, from 0 to one: the place in the spread of the next probe, or of the owner's
        /// return.
        jitter: PerMillion,
    },
    /// Job records list the attempts that are alive at the site: probes not among them are over.
    ReconcileProbes {
        /// Attempts that are not over.
        live: BTreeSet<AttemptId>,
    },
    /// The site answered a call about a shared reservation.
    SharedAnswered {
        serial: ReservationSerial,
        /// The call that it answers.
        asked: SharedReservationCall,
        outcome: ReservationOutcome,
    },
    /// The site was checked, and does not have shared reservations as it should keep them.
    SharedMissing {
        /// Those that it has no more.
        gone: BTreeSet<ReservationSerial>,
        /// Those that it has for another time.
        changed: BTreeSet<ReservationSerial>,
    },
    /// It was time to check if jobs use a shared reservation.
    SharedLookedAt {
        serial: ReservationSerial,
        /// True if a job uses it, or waits to.
        used: bool,
    },
    /// The step of this site's part of a joint reservation that follows from the durable parts at
    /// the other sites.
    SharedStep(JointReservationStep),
    /// An operator gives a command.
    Operate {
        /// The key that asks.
        by: KeyName,
        what: OperatorCommand,
    },
    /// The site's administrator is owed a message about something that is not recorded here.
    Notify {
        kind: SiteNotificationKind,
        /// The message in one line.
        text: Arc<str>,
        /// The details that led to it.
        details: Vec<Arc<str>>,
    },
    /// A message was sent.
    NotificationSent {
        /// The number of the message.
        id: SiteNotificationId,
    },
}

/// A command of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorCommand {
    /// Drains the site.
    Drain,
    /// Ends the draining.
    Undrain,
    /// Freezes the site: nothing new is placed there.
    Freeze,
    /// Thaws the site: work is placed there again.
    Thaw,
    /// Sets a maintenance window, or changes the one with the same start.
    SetWindow {
        /// The start of the window.
        from: Timestamp,
        /// The end, not in the window.
        until: Timestamp,
        /// The reason, for people.
        reason: Arc<str>,
    },
    /// Removes the maintenance window with this start.
    RemoveWindow {
        /// The start of the window.
        from: Timestamp,
    },
    /// Forces a state instead of the breaker's, for a while.
    Force {
        /// True for usable, false for unusable.
        usable: bool,
        /// The forced state holds before this time.
        until: Timestamp,
    },
    /// Lifts a forced state: the breaker decides again.
    Unforce,
    /// Resets count and breaker, whatever they are.
    ResetErrors,
    /// Requests a shared reservation.
    Reserve(Box<SharedReservationTerms>),
    /// Extends a shared reservation.
    ExtendReservation {
        /// The name of the reservation.
        name: ReservationName,
        /// The new end.
        until: Timestamp,
    },
    /// Changes the keys that may use a shared reservation.
    AllowReservation {
        /// The name of the reservation.
        name: ReservationName,
        /// The change.
        access: ReservationAccessChange,
    },
    /// Cancels a shared reservation.
    CancelReservation {
        /// The name of the reservation.
        name: ReservationName,
    },
}

/// The outcome of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeOutcome {
    /// It ended without an error of the site.
    Succeeded,
    /// It ended with an error of the site.
    Failed,
    /// It says nothing about the site: cancelled, preempted, never submitted.
    Inconclusive,
}

/// The reason why a command changes nothing.
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
    Banned(OwnerBan),
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
    #[error("nothing was decided: something else happened at the same moment; try again")]
    Undecided,
    #[error("{key} is not among those who may use it")]
    NotAllowed { key: KeyName },
}
