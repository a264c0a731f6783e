//! Events to come, in order of time and then of being added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::Timestamp;

use super::batch::LrmJobId;

/// A site by its index in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteIndex(pub(super) usize);

impl SiteIndex {
    /// Returns its index in [`super::SimulatedWorld::sites`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// An event at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AgendaEvent {
    /// An attempt that was to begin later enters the queue under its number.
    Eligible(AttemptTag, LrmJobId),
    /// A wrapper arrives at its gate.
    WrapperReady(AttemptTag, LrmJobId),
    /// The longest hold of an attempt is over.
    HoldOver(AttemptTag),
    /// A wrapper looks at its gate.
    GateSeen(AttemptTag),
    /// A payload ends by itself or at its wall time.
    PayloadEnd(AttemptTag),
    /// The next local user submits.
    LocalUser,
    /// A local user's job ends.
    LocalEnd(LrmJobId),
    /// The site checks whether waiting local users may start.
    LocalQueue,
    /// A batch job fails on a node that fails everything.
    FailedByNode(LrmJobId),
    /// A node is repaired.
    NodeUp(u32),
    /// A node that failed everything is repaired.
    NodeMended(u32),
    /// The planned fault with this number takes effect.
    Trouble(usize),
}

/// Events in order of time, then of being added: the same in every run.
#[derive(Debug, Default)]
pub(super) struct EventAgenda {
    entries: BinaryHeap<Reverse<(Timestamp, u64, SiteIndex, AgendaEvent)>>,
    added: u64,
}

impl EventAgenda {
    pub(super) fn add_event(&mut self, at: Timestamp, site: SiteIndex, event: AgendaEvent) {
        self.added += 1;
        self.entries.push(Reverse((at, self.added, site, event)));
    }

    pub(super) fn next_time(&self) -> Option<Timestamp> {
        self.entries.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes and returns the next event, if it happens by `now`.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<(SiteIndex, AgendaEvent)> {
        let due = self.next_time().is_some_and(|at| at <= now);
        let Reverse((_, _, site, event)) = due.then(|| self.entries.pop()).flatten()?;
        Some((site, event))
    }
}
