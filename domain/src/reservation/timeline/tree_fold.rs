//! Folds over a part of the tree: least and most, and step by step.

use std::ops::ControlFlow::{self, Continue};

use super::amounts::ResourceAmounts;
use super::tree_node::{TimelineBranch, TimelineNode, branch_of};

impl TimelineBranch {
    /// Returns the least and the most between `from` and `to`; if that is empty: at `from`.
    pub(super) fn free_bounds(&self, from: u64, to: u64) -> (ResourceAmounts, ResourceAmounts) {
        let mut range = None;
        self.widen_bounds(
            from,
            to.max(from.saturating_add(1)),
            u64::MAX,
            &ResourceAmounts::default(),
            &mut range,
        );
        range.unwrap_or_default()
    }

    /// Widens a range by what is here between `from` and `to`. `end`: the end of the last step
    /// here; `shift`: the amounts added from above.
    fn widen_bounds(
        &self,
        from: u64,
        to: u64,
        end: u64,
        shift: &ResourceAmounts,
        range: &mut Option<(ResourceAmounts, ResourceAmounts)>,
    ) {
        let mut add = |least: ResourceAmounts, most: ResourceAmounts| {
            let least = least.plus(shift);
            let most = most.plus(shift);
            *range = Some(range.map_or((least, most), |(l, m)| (l.min(&least), m.max(&most))));
        };
        if from <= self.first && end <= to {
            return add(self.least, self.most);
        }
        match &*self.node {
            TimelineNode::Leaf(leaf) => {
                let first = leaf.step_of(from);
                let before = leaf.times.partition_point(|time| *time < to);
                for step in first..before.max(first + 1) {
                    let free = leaf.free_at_step(step).plus(&self.shift);
                    add(free, free);
                }
            }
            TimelineNode::Inner(branches) => {
                let shift = shift.plus(&self.shift);
                let first = branch_of(branches, from);
                for (index, branch) in branches.iter().enumerate().skip(first) {
                    let end = branches.get(index + 1).map_or(end, |next| next.first);
                    if index > first && branch.first >= to {
                        break;
                    }
                    branch.widen_bounds(from, to, end, &shift, range);
                }
            }
        }
    }

    /// Calls `each` with each step between `from` and `to`, until it breaks.
    pub(super) fn visit_steps<B>(
        &self,
        from: u64,
        to: u64,
        each: &mut impl FnMut(u64, ResourceAmounts) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if from < to {
            self.visit_steps_below(from, to, &ResourceAmounts::default(), each)
        } else {
            Continue(())
        }
    }

    fn visit_steps_below<B>(
        &self,
        from: u64,
        to: u64,
        shift: &ResourceAmounts,
        each: &mut impl FnMut(u64, ResourceAmounts) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let shift = shift.plus(&self.shift);
        match &*self.node {
            TimelineNode::Leaf(leaf) => {
                let before = leaf.times.partition_point(|time| *time < to);
                (leaf.step_of(from)..before).try_for_each(|step| {
                    each(
                        leaf.times[step].max(from),
                        leaf.free_at_step(step).plus(&shift),
                    )
                })
            }
            TimelineNode::Inner(branches) => {
                let first = branch_of(branches, from);
                let mut within = branches[first..]
                    .iter()
                    .take_while(|branch| branch.first < to);
                within.try_for_each(|branch| branch.visit_steps_below(from, to, &shift, each))
            }
        }
    }
}
