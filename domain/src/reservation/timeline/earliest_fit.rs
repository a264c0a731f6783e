//! The earliest start: a pass from left to right that looks into as little as it can.

use std::ops::ControlFlow::{self, Break, Continue};

use super::amounts::ResourceAmounts;
use super::tree_node::{TimelineBranch, TimelineLeaf, TimelineNode, branch_of};
use crate::units::{DurationMs, Timestamp};

/// A search for an opening: `need` free from some instant on that is not before `from` and before
/// `before`; for `length`, or up to `until`, whichever is sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpeningRequest {
    pub need: ResourceAmounts,
    pub length: DurationMs,
    /// The earliest start.
    pub from: Timestamp,
    /// It starts before this time.
    pub before: Timestamp,
    /// From this time on, what it occupies already is there for it.
    pub until: Timestamp,
}

impl OpeningRequest {
    /// Searches for `need` free for `length`, at `from` or any time later.
    pub fn after(from: Timestamp, need: ResourceAmounts, length: DurationMs) -> Self {
        Self {
            need,
            length,
            from,
            before: super::FOREVER,
            until: super::FOREVER,
        }
    }
}

impl TimelineBranch {
    pub(super) fn earliest_opening(&self, wanted: &OpeningRequest) -> Option<Timestamp> {
        if wanted.from >= wanted.before {
            return None;
        }
        let mut fit = OpeningSearch {
            wanted,
            found: None,
        };
        let found = match fit.pass_branch(self, &wanted.need.as_bar()) {
            Break(found) => found,
            Continue(()) => fit.found,
        };
        found.map(Timestamp)
    }
}

/// A search under way: what was passed so far is free from `found` on.
struct OpeningSearch<'a> {
    wanted: &'a OpeningRequest,
    found: Option<u64>,
}

impl OpeningSearch<'_> {
    /// Passes over a branch; `bar`: the need, less what is added from above.
    fn pass_branch(
        &mut self,
        branch: &TimelineBranch,
        bar: &ResourceAmounts,
    ) -> ControlFlow<Option<u64>> {
        self.advance_to(branch.first)?;
        if branch.least.reaches_all(bar) {
            self.note_free_from(branch.first);
            return Continue(());
        }
        if !branch.most.reaches_all(bar) {
            self.found = None;
            return Continue(());
        }
        let bar = bar.minus(&branch.shift);
        match &*branch.node {
            TimelineNode::Leaf(leaf) => self.pass_steps(leaf, &bar),
            TimelineNode::Inner(branches) => {
                let first = branch_of(branches, self.wanted.from.0);
                branches[first..]
                    .iter()
                    .try_for_each(|below| self.pass_branch(below, &bar))
            }
        }
    }

    fn pass_steps(
        &mut self,
        leaf: &TimelineLeaf,
        bar: &ResourceAmounts,
    ) -> ControlFlow<Option<u64>> {
        for step in leaf.step_of(self.wanted.from.0)..leaf.times.len() {
            self.advance_to(leaf.times[step])?;
            if leaf
                .row(step)
                .iter()
                .zip(&bar.0)
                .all(|(free, bar)| free >= bar)
            {
                self.note_free_from(leaf.times[step]);
            } else {
                self.found = None;
            }
        }
        Continue(())
    }

    /// Moves on to `at`. Breaks if what was found is long enough, or if it is too late for more.
    fn advance_to(&self, at: u64) -> ControlFlow<Option<u64>> {
        let OpeningRequest {
            length,
            from,
            before,
            until,
            ..
        } = self.wanted;
        match self.found {
            Some(found) if at >= found.saturating_add(length.0).min(until.0) => Break(Some(found)),
            None if at.max(from.0) >= before.0 => Break(None),
            Some(_) | None => Continue(()),
        }
    }

    fn note_free_from(&mut self, at: u64) {
        self.found.get_or_insert(at.max(self.wanted.from.0));
    }
}
