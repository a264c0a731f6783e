//! What happened to a site; journalled.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{Attempt, KeyName};
use crate::reserve::{ReservationOutcome, Serial};
use crate::site::command::ProbeOutcome;
use crate::site::failure::FailureClass;
use crate::site::shared::{SharedEnd, SharedTerms};
use crate::site::state::{AttemptId, Notification, NotificationId};
use crate::site::together::{JointPart, JointState};
use crate::units::{DurationMs, Timestamp};

/// One event with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteEvent {
    /// When it was decided.
    pub at: Timestamp,
    /// What happened.
    pub what: SiteHappening,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteHappening {
    /// An error was charged to the site.
    ErrorCharged {
        /// The attempt that failed.
        attempt: AttemptId,
        /// Of which class.
        class: FailureClass,
        /// What happened.
        detail: Arc<str>,
        /// Whose job it was, if that is known.
        owner: Option<KeyName>,
    },
    /// An error was not charged: the fault was ours, or another error of its job is charged.
    ErrorExcused {
        /// The attempt that failed.
        attempt: AttemptId,
    },
    /// A component ended without an error of the site: the count is zero again.
    SuccessCounted {
        /// Its attempt.
        attempt: AttemptId,
    },
    /// The breaker opened: no new work but probes, and those not before a time.
    BreakerOpened {
        /// The first probe may be placed from then on.
        probe_at: Timestamp,
        /// Openings since it was last closed, this one too.
        trips: u32,
    },
    /// A probe is let in.
    ProbeStarted {
        /// Its attempt.
        probe: AttemptId,
    },
    /// A probe is over without breaking anything; room for another.
    ProbeEnded {
        /// Its attempt.
        probe: AttemptId,
        /// It succeeded; else it ended without telling anything.
        succeeded: bool,
        /// How many there may be from now on.
        allowed: u32,
    },
    /// Enough probes succeeded.
    BreakerClosed,
    /// So many errors in a row would open the breaker, but are all of one owner's jobs: a probe of
    /// our own decides.
    OwnProbeWanted {
        /// Its number.
        number: Attempt,
        /// Whose jobs they are.
        owner: KeyName,
    },
    /// That probe is over, or nobody needs it any more.
    OwnProbeEnded {
        /// Its number.
        number: Attempt,
        /// What it told.
        outcome: ProbeOutcome,
    },
    /// Jobs of one owner stay away for a while.
    OwnerKeptOff {
        /// Whose.
        owner: KeyName,
        /// They may go there again from then on.
        until: Timestamp,
        /// How often in a row that was so.
        times: u32,
    },
    /// An operator empties the site.
    DrainOrdered {
        /// By which key.
        by: KeyName,
    },
    /// It may be filled again.
    DrainLifted {
        /// By which key.
        by: KeyName,
    },
    /// Nothing new is placed there.
    FreezeOrdered {
        /// By which key.
        by: KeyName,
    },
    /// It may be placed on again.
    FreezeLifted {
        /// By which key.
        by: KeyName,
    },
    /// A maintenance window was set; one with the same start is replaced.
    WindowSet {
        /// Its start.
        from: Timestamp,
        /// Its end.
        until: Timestamp,
        /// Why.
        reason: Arc<str>,
        /// By which key.
        by: KeyName,
    },
    /// The window with this start was taken back.
    WindowRemoved {
        /// Its start.
        from: Timestamp,
        /// By which key.
        by: KeyName,
    },
    /// An operator's verdict holds instead of the breaker's.
    VerdictForced {
        /// Usable; else unusable.
        usable: bool,
        /// It holds before this time.
        until: Timestamp,
        /// By which key.
        by: KeyName,
    },
    /// The breaker's own verdict holds again.
    VerdictReleased {
        /// By which key.
        by: KeyName,
    },
    /// An operator set count and breaker back.
    ErrorsReset {
        /// By which key.
        by: KeyName,
    },
    /// The site is to be asked for a reservation that jobs share.
    SharedWanted {
        /// Its number.
        serial: Serial,
        /// What is wanted.
        wish: Arc<SharedTerms>,
        /// By which key.
        by: KeyName,
        /// What it is a part of, if several sites are asked.
        together: Option<JointPart>,
    },
    /// The site is to be asked to let one last longer.
    SharedExtensionWanted {
        /// Which.
        serial: Serial,
        /// From its start to its new end.
        length: DurationMs,
        /// Which of its extensions this is.
        number: u32,
        /// By which key.
        by: KeyName,
    },
    /// Others may use one from now on.
    SharedAllowed {
        /// Which.
        serial: Serial,
        /// Keys whose jobs may use it; none: every key's.
        allowed: BTreeSet<KeyName>,
        /// By which key.
        by: KeyName,
    },
    /// The sites of one have come further with each other.
    SharedSettled {
        /// Which.
        serial: Serial,
        /// How far.
        accord: JointState,
    },
    /// One is to be given back as its other parts are, or because of them.
    SharedLeft {
        /// Which.
        serial: Serial,
        /// Why.
        why: SharedEnd,
    },
    /// One is to be given back.
    SharedCancelled {
        /// Which.
        serial: Serial,
        /// By which key.
        by: KeyName,
    },
    /// The site answered what it was asked about one.
    SharedAnswered {
        /// Which.
        serial: Serial,
        /// What came of it.
        outcome: ReservationOutcome,
    },
    /// A job makes use of one, or waits to.
    SharedUsed {
        /// Which.
        serial: Serial,
    },
    /// No job made use of one for too long: it is given back.
    SharedUnused {
        /// Which.
        serial: Serial,
    },
    /// The site has one no more that it should keep.
    SharedLost {
        /// Which.
        serial: Serial,
    },
    /// The site has one for another time than it should: an order that was given up came late.
    SharedChanged {
        /// Which.
        serial: Serial,
    },
    /// A message is owed to the site's administrator.
    NotificationOwed(Notification),
    /// A message was sent.
    NotificationSent {
        /// Which.
        id: NotificationId,
    },
}

impl SiteHappening {
    /// Its name in the journal and in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            SiteHappening::ErrorCharged { .. } => "ErrorCharged",
            SiteHappening::ErrorExcused { .. } => "ErrorExcused",
            SiteHappening::SuccessCounted { .. } => "SuccessCounted",
            SiteHappening::BreakerOpened { .. } => "BreakerOpened",
            SiteHappening::ProbeStarted { .. } => "ProbeStarted",
            SiteHappening::ProbeEnded { .. } => "ProbeEnded",
            SiteHappening::BreakerClosed => "BreakerClosed",
            SiteHappening::OwnProbeWanted { .. } => "OwnProbeWanted",
            SiteHappening::OwnProbeEnded { .. } => "OwnProbeEnded",
            SiteHappening::OwnerKeptOff { .. } => "OwnerKeptOff",
            SiteHappening::DrainOrdered { .. } => "DrainOrdered",
            SiteHappening::DrainLifted { .. } => "DrainLifted",
            SiteHappening::FreezeOrdered { .. } => "FreezeOrdered",
            SiteHappening::FreezeLifted { .. } => "FreezeLifted",
            SiteHappening::WindowSet { .. } => "WindowSet",
            SiteHappening::WindowRemoved { .. } => "WindowRemoved",
            SiteHappening::VerdictForced { .. } => "VerdictForced",
            SiteHappening::VerdictReleased { .. } => "VerdictReleased",
            SiteHappening::ErrorsReset { .. } => "ErrorsReset",
            SiteHappening::SharedWanted { .. } => "SharedWanted",
            SiteHappening::SharedExtensionWanted { .. } => "SharedExtensionWanted",
            SiteHappening::SharedAllowed { .. } => "SharedAllowed",
            SiteHappening::SharedSettled { .. } => "SharedSettled",
            SiteHappening::SharedLeft { .. } => "SharedLeft",
            SiteHappening::SharedCancelled { .. } => "SharedCancelled",
            SiteHappening::SharedAnswered { .. } => "SharedAnswered",
            SiteHappening::SharedUsed { .. } => "SharedUsed",
            SiteHappening::SharedUnused { .. } => "SharedUnused",
            SiteHappening::SharedLost { .. } => "SharedLost",
            SiteHappening::SharedChanged { .. } => "SharedChanged",
            SiteHappening::NotificationOwed(_) => "NotificationOwed",
            SiteHappening::NotificationSent { .. } => "NotificationSent",
        }
    }
}
