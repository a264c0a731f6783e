//! The events of a site, which are journalled.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{Attempt, KeyName};
use crate::reservation::{ReservationOutcome, ReservationSerial};
use crate::site::failure::FailureClass;
use crate::site::joint_reservation::{JointPartState, JointReservationState};
use crate::site::shared_reservation::{SharedReservationEnd, SharedReservationTerms};
use crate::site::site_command::ProbeOutcome;
use crate::site::site_state::{AttemptId, SiteNotification, SiteNotificationId};
use crate::units::{DurationMs, Timestamp};

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteEvent {
    /// The time of the decision.
    pub at: Timestamp,
    /// The event.
    pub what: SiteEventKind,
}

/// The event of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteEventKind {
    /// An error was charged to the site.
    ErrorCharged {
        /// The attempt that failed.
        attempt: AttemptId,
        class: FailureClass,
        /// The error, for people.
        detail: Arc<str>,
        /// The owner of its job, if that is known.
        owner: Option<KeyName>,
    },
    /// An error was not charged: the fault was ours, or another error of its job is charged.
    ErrorExcused {
        /// The attempt that failed.
        attempt: AttemptId,
    },
    /// A component ended without an error of the site: the count is zero again.
    SuccessCounted { attempt: AttemptId },
    /// The breaker opened: no new work but probes, and those not before a time.
    BreakerOpened {
        /// The time from which the first probe may be placed.
        probe_at: Timestamp,
        /// Openings since it was last closed, this one too.
        trips: u32,
    },
    /// A probe is let in.
    ProbeStarted {
        /// The attempt of the probe.
        probe: AttemptId,
    },
    /// A probe ended without an error; there is room for another.
    ProbeEnded {
        /// The attempt of the probe.
        probe: AttemptId,
        /// True if it succeeded; else it ended without a result.
        succeeded: bool,
        /// The number of probes that there may be from now on.
        allowed: u32,
    },
    /// Enough probes succeeded.
    BreakerClosed,
    /// This many errors in a row would open the breaker, but all are of one owner's jobs: a probe
    /// of our own decides.
    OwnProbeWanted {
        /// The number of the probe.
        number: Attempt,
        /// The owner of these jobs.
        owner: KeyName,
    },
    /// That probe is over, or not needed any more.
    OwnProbeEnded {
        /// The number of the probe.
        number: Attempt,
        outcome: ProbeOutcome,
    },
    /// Jobs of one owner are barred for a while.
    OwnerKeptOff {
        owner: KeyName,
        /// The time from which they may go there again.
        until: Timestamp,
        /// The number of times in a row that they were barred.
        times: u32,
    },
    /// An operator drains the site.
    DrainOrdered {
        /// The key that asked.
        by: KeyName,
    },
    /// The draining was ended.
    DrainLifted {
        /// The key that asked.
        by: KeyName,
    },
    /// An operator freezes the site: nothing new is placed there.
    FreezeOrdered {
        /// The key that asked.
        by: KeyName,
    },
    /// The site was thawed.
    FreezeLifted {
        /// The key that asked.
        by: KeyName,
    },
    /// A maintenance window was set; one with the same start is replaced.
    WindowSet {
        from: Timestamp,
        until: Timestamp,
        /// The reason, for people.
        reason: Arc<str>,
        /// The key that asked.
        by: KeyName,
    },
    /// The window with this start was removed.
    WindowRemoved {
        from: Timestamp,
        /// The key that asked.
        by: KeyName,
    },
    /// A state forced by an operator holds instead of the breaker's.
    VerdictForced {
        /// True for usable, false for unusable.
        usable: bool,
        /// It holds before this time.
        until: Timestamp,
        /// The key that asked.
        by: KeyName,
    },
    /// The breaker decides again.
    VerdictReleased {
        /// The key that asked.
        by: KeyName,
    },
    /// An operator reset count and breaker.
    ErrorsReset {
        /// The key that asked.
        by: KeyName,
    },
    /// A shared reservation is to be requested from the site.
    SharedWanted {
        /// The number at the site.
        serial: ReservationSerial,
        /// The terms.
        wish: Arc<SharedReservationTerms>,
        /// The key that asked.
        by: KeyName,
        /// The joint reservation that it is a part of, if several sites are asked.
        together: Option<JointPartState>,
    },
    /// An extension of one is to be requested from the site.
    SharedExtensionWanted {
        serial: ReservationSerial,
        /// From its start to its new end.
        length: DurationMs,
        /// The number of the extension.
        number: u32,
        /// The key that asked.
        by: KeyName,
    },
    /// Other keys may use one from now on.
    SharedAllowed {
        serial: ReservationSerial,
        /// Keys whose jobs may use it; none: every key's.
        allowed: BTreeSet<KeyName>,
        /// The key that asked.
        by: KeyName,
    },
    /// The sites of a joint reservation have reached a new state.
    SharedSettled {
        serial: ReservationSerial,
        /// The new state.
        accord: JointReservationState,
    },
    /// A reservation is to be cancelled as its other parts are, or because of them.
    SharedLeft {
        serial: ReservationSerial,
        /// The reason.
        why: SharedReservationEnd,
    },
    /// A reservation is to be cancelled.
    SharedCancelled {
        serial: ReservationSerial,
        /// The key that asked.
        by: KeyName,
    },
    /// The site answered a call about one.
    SharedAnswered {
        serial: ReservationSerial,
        outcome: ReservationOutcome,
    },
    /// A job uses one, or waits to.
    SharedUsed { serial: ReservationSerial },
    /// No job used one for too long: it is cancelled.
    SharedUnused { serial: ReservationSerial },
    /// The site has lost one that it should keep.
    SharedLost { serial: ReservationSerial },
    /// The site has one for another time than it should: a request that was given up came late.
    SharedChanged { serial: ReservationSerial },
    /// A message is owed to the site's administrator.
    NotificationOwed(SiteNotification),
    /// A message was sent.
    NotificationSent {
        /// The number of the message.
        id: SiteNotificationId,
    },
}

impl SiteEventKind {
    /// The name in the journal and in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            SiteEventKind::ErrorCharged { .. } => "ErrorCharged",
            SiteEventKind::ErrorExcused { .. } => "ErrorExcused",
            SiteEventKind::SuccessCounted { .. } => "SuccessCounted",
            SiteEventKind::BreakerOpened { .. } => "BreakerOpened",
            SiteEventKind::ProbeStarted { .. } => "ProbeStarted",
            SiteEventKind::ProbeEnded { .. } => "ProbeEnded",
            SiteEventKind::BreakerClosed => "BreakerClosed",
            SiteEventKind::OwnProbeWanted { .. } => "OwnProbeWanted",
            SiteEventKind::OwnProbeEnded { .. } => "OwnProbeEnded",
            SiteEventKind::OwnerKeptOff { .. } => "OwnerKeptOff",
            SiteEventKind::DrainOrdered { .. } => "DrainOrdered",
            SiteEventKind::DrainLifted { .. } => "DrainLifted",
            SiteEventKind::FreezeOrdered { .. } => "FreezeOrdered",
            SiteEventKind::FreezeLifted { .. } => "FreezeLifted",
            SiteEventKind::WindowSet { .. } => "WindowSet",
            SiteEventKind::WindowRemoved { .. } => "WindowRemoved",
            SiteEventKind::VerdictForced { .. } => "VerdictForced",
            SiteEventKind::VerdictReleased { .. } => "VerdictReleased",
            SiteEventKind::ErrorsReset { .. } => "ErrorsReset",
            SiteEventKind::SharedWanted { .. } => "SharedWanted",
            SiteEventKind::SharedExtensionWanted { .. } => "SharedExtensionWanted",
            SiteEventKind::SharedAllowed { .. } => "SharedAllowed",
            SiteEventKind::SharedSettled { .. } => "SharedSettled",
            SiteEventKind::SharedLeft { .. } => "SharedLeft",
            SiteEventKind::SharedCancelled { .. } => "SharedCancelled",
            SiteEventKind::SharedAnswered { .. } => "SharedAnswered",
            SiteEventKind::SharedUsed { .. } => "SharedUsed",
            SiteEventKind::SharedUnused { .. } => "SharedUnused",
            SiteEventKind::SharedLost { .. } => "SharedLost",
            SiteEventKind::SharedChanged { .. } => "SharedChanged",
            SiteEventKind::NotificationOwed(_) => "NotificationOwed",
            SiteEventKind::NotificationSent { .. } => "NotificationSent",
        }
    }
}
