//! The record of what really happened, written by the world itself: payloads that began and ended,
//! gates, cancellations. Oracles read this, never the control plane's belief.

use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, Round, SiteName};
use cospan_domain::reservation::ReservationTag;
use cospan_domain::units::Timestamp;
use cospan_sites::port::RoundPeer;

/// An event of an attempt at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorldLedgerEvent {
    /// The site did not accept it.
    Refused,
    /// The batch system accepted it.
    Submitted {
        /// Number of its processors.
        processors: u32,
    },
    /// It was accepted under this reservation.
    Reserved(ReservationTag),
    /// The batch system accepted another batch job under its tag.
    SubmittedAgain,
    /// Another batch job under its tag is over; the attempt goes on without it.
    DoubleLeft,
    /// The batch system started it: it holds its processors.
    Started,
    /// The wrapper waits at the gate.
    Ready,
    /// It was given its rank and all components of its round: its gate is about to be opened.
    Told(ComponentIndex, Vec<RoundPeer>),
    /// The gate was opened for this round, whose components have these attempts.
    Opened(Round, Vec<Attempt>),
    /// The gate was closed for ever.
    Voided,
    /// The wrapper closed the gate itself, past the longest hold.
    HeldTooLong,
    /// The payload began.
    Began,
    /// The gate was open, but there was no such program.
    NotStarted,
    /// The payload ended with this code.
    Exited(i32),
    /// The payload was ended on request.
    Terminated,
    /// The payload was ended at its wall time.
    WallTime,
    /// It died with its node.
    KilledByNode,
    /// It was withdrawn from the batch system before it ran.
    Withdrawn,
    /// The batch system lost it after acknowledging it.
    Forgotten,
    /// The batch job is over: it holds nothing any more.
    Left,
    /// The payload began although an input was missing.
    InputMissing,
    /// Everything that it left was removed.
    Removed,
}

/// An entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldLedgerEntry {
    pub at: Timestamp,
    pub site: SiteName,
    pub tag: AttemptTag,
    pub deed: WorldLedgerEvent,
}

/// All entries, in order.
#[derive(Debug, Default)]
pub struct WorldLedger {
    entries: Vec<WorldLedgerEntry>,
}

impl WorldLedger {
    pub(super) fn record_event(
        &mut self,
        at: Timestamp,
        site: &SiteName,
        tag: AttemptTag,
        deed: WorldLedgerEvent,
    ) {
        self.entries.push(WorldLedgerEntry {
            at,
            site: site.clone(),
            tag,
            deed,
        });
    }

    /// Returns its entries.
    pub fn entries(&self) -> &[WorldLedgerEntry] {
        &self.entries
    }
}
