//! What really happened, written by the world itself: payloads that began and
//! ended, gates, cancellations. Oracles read this, never the control plane's belief.

use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, Round, SiteName};
use cospan_domain::reserve::ReservationTag;
use cospan_domain::units::Timestamp;
use cospan_sites::port::Peer;

/// What happened to an attempt at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerEvent {
    /// The batch system took it.
    Submitted {
        /// With how many processors.
        processors: u32,
    },
    /// It was taken under this reservation.
    Reserved(ReservationTag),
    /// The batch system took another batch job under its tag.
    SubmittedAgain,
    /// One of several batch jobs under its tag is over; the attempt goes on without it.
    DoubleLeft,
    /// The batch system started it: it holds its processors.
    Started,
    /// Its wrapper waits at the gate.
    Ready,
    /// It is told of its rank and of all components of its round: its gate is about to be opened.
    Told(ComponentIndex, Vec<Peer>),
    /// Its gate was opened for this round, whose components have these attempts.
    Opened(Round, Vec<Attempt>),
    /// Its gate was closed for ever.
    Voided,
    /// Its wrapper closed its gate itself, past the longest hold.
    HeldTooLong,
    /// Its payload began.
    Began,
    /// Its gate was open, and there was no such program.
    NotStarted,
    /// Its payload ended with this code.
    Exited(i32),
    /// Its payload was ended on request.
    Terminated,
    /// Its payload was ended at its wall time.
    WallTime,
    /// It died with its node.
    KilledByNode,
    /// The batch system was asked to take it back before it ran.
    Withdrawn,
    /// The batch system lost it although it had acknowledged it.
    Forgotten,
    /// Its batch job is over: it holds nothing any more.
    Left,
    /// Its payload began although an input was not there.
    InputMissing,
    /// All that it left was removed.
    Removed,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// When.
    pub at: Timestamp,
    /// Where.
    pub site: SiteName,
    /// Which attempt.
    pub tag: AttemptTag,
    /// What.
    pub deed: LedgerEvent,
}

/// All that happened, in order.
#[derive(Debug, Default)]
pub struct WorldLedger {
    entries: Vec<LedgerEntry>,
}

impl WorldLedger {
    pub(super) fn note(
        &mut self,
        at: Timestamp,
        site: &SiteName,
        tag: AttemptTag,
        deed: LedgerEvent,
    ) {
        self.entries.push(LedgerEntry {
            at,
            site: site.clone(),
            tag,
            deed,
        });
    }

    /// Its lines.
    pub fn entries(&self) -> &[LedgerEntry] {
        &self.entries
    }
}
