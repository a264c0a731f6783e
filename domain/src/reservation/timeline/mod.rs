//! The timeline of a site: the free amount of each kind of resource that it counts, over time.
//!
//! A step function in a balanced tree. Its leaves hold some tens of steps. Each branch knows the
//! least and the most that is free below it, and what was added to all of it at once. A search
//! passes from left to right and skips whatever is free enough as a whole or taken as a whole, so
//! that it never costs much more than a scan. A clone shares everything with its original until one
//! of them changes, so that a search can try things out.

mod amounts;
mod earliest_fit;
mod slots;
#[cfg(test)]
mod tests;
mod tree_fold;
mod tree_node;

pub use amounts::{AMOUNT_MAX, KINDS_MAX, ResourceAmounts, ResourceKinds, ResourceKindsError};
pub use earliest_fit::OpeningRequest;
pub use slots::TimelineSlot;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::resources::Resources;
use crate::units::Timestamp;
use tree_node::TimelineBranch;

/// The end of a span that has no end.
pub const FOREVER: Timestamp = Timestamp(u64::MAX);

/// From `from` to before `to`; empty unless `from` is earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan {
    /// The first instant of it.
    pub from: Timestamp,
    /// The first instant after it; [`FOREVER`]: it does not end.
    pub to: Timestamp,
}

impl TimeSpan {
    pub fn new(from: Timestamp, to: Timestamp) -> Self {
        Self { from, to }
    }

    /// Returns true if no instant is in it.
    pub fn is_empty(self) -> bool {
        self.from >= self.to
    }
}

/// The free amounts at one site from some instant on, for ever. Below zero where more is reserved
/// than there is, after a failure or an overrun.
///
/// It does not remember who occupies what: a caller must release the same span and amounts.
#[derive(Debug, Clone)]
pub struct Timeline {
    kinds: Arc<ResourceKinds>,
    root: TimelineBranch,
}

impl Timeline {
    /// Creates a timeline with all of `capacity` free from `start` on.
    ///
    /// # Errors
    /// More kinds than [`KINDS_MAX`], or more of one than [`AMOUNT_MAX`].
    pub fn new(start: Timestamp, capacity: &Resources) -> Result<Self, ResourceKindsError> {
        let kinds = ResourceKinds::from_resources(capacity)?;
        let amounts = kinds.to_amounts(capacity)?;
        let root = TimelineBranch::leaf(kinds.len(), start.0, &amounts);
        Ok(Self {
            kinds: Arc::new(kinds),
            root,
        })
    }

    /// The kinds that it counts.
    pub fn kinds(&self) -> &ResourceKinds {
        &self.kinds
    }

    /// Converts `resources` to amounts of this timeline.
    ///
    /// # Errors
    /// Some of a kind that it does not count, or more than [`AMOUNT_MAX`].
    pub fn to_amounts(&self, resources: &Resources) -> Result<ResourceAmounts, ResourceKindsError> {
        self.kinds.to_amounts(resources)
    }

    /// The beginning of the timeline: nothing is known of what was before.
    pub fn start(&self) -> Timestamp {
        Timestamp(self.root.first)
    }

    /// Takes `amounts` away within the span, even if they are not free.
    pub fn book(&mut self, span: TimeSpan, amounts: &ResourceAmounts) {
        self.add_amounts(span, &amounts.negated());
    }

    /// Releases what [`Timeline::book`] took, or a part of its span.
    pub fn release(&mut self, span: TimeSpan, amounts: &ResourceAmounts) {
        self.add_amounts(span, amounts);
    }

    /// Replaces one occupied span and its amounts by others.
    pub fn replace_booking(
        &mut self,
        old: (TimeSpan, &ResourceAmounts),
        new: (TimeSpan, &ResourceAmounts),
    ) {
        self.release(old.0, old.1);
        self.book(new.0, new.1);
    }

    /// Adds to the site's resources within the span, or takes away if below zero: for nodes that
    /// come and go, a drain, and what others were found to use.
    pub fn add_amounts(&mut self, span: TimeSpan, change: &ResourceAmounts) {
        let from = span.from.0.max(self.root.first);
        if from < span.to.0 && !change.is_zero() {
            self.root.add_change(from, span.to.0, change);
        }
    }

    /// Drops what was before `now`.
    pub fn forget_before(&mut self, now: Timestamp) {
        self.root.drop_before(now.0);
    }

    /// Returns the least and the most that is free within the span, kind by kind. Of an empty span:
    /// at its beginning.
    pub fn free_bounds(&self, span: TimeSpan) -> (ResourceAmounts, ResourceAmounts) {
        self.root.free_bounds(span.from.0, span.to.0)
    }

    /// Returns the least that is free within the span, kind by kind.
    pub fn least_free(&self, span: TimeSpan) -> ResourceAmounts {
        self.free_bounds(span).0
    }

    /// Returns true if `need` is free all through the span.
    pub fn is_free(&self, span: TimeSpan, need: &ResourceAmounts) -> bool {
        self.least_free(span).covers_need(need)
    }

    /// Finds the earliest start of what is asked for, if there is one.
    pub fn earliest_start(&self, wanted: &OpeningRequest) -> Option<Timestamp> {
        self.root.earliest_opening(wanted)
    }

    /// Lists the longest spans in which some number of processors is free, `most` at most, the
    /// earliest first: each lasts as long as that number is free. They overlap.
    pub fn slots(&self, span: TimeSpan, most: usize) -> Vec<TimelineSlot> {
        slots::list_slots(&self.root, span, most)
    }

    /// Calls `each` with each step that begins before the span's end and ends after its beginning,
    /// until it breaks: with the time of the step, and what is free then. The first is cut to the
    /// span.
    pub fn visit_steps<B>(
        &self,
        span: TimeSpan,
        mut each: impl FnMut(Timestamp, ResourceAmounts) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.root
            .visit_steps(span.from.0, span.to.0, &mut |at, free| {
                each(Timestamp(at), free)
            })
    }
}
