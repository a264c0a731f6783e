//! The tree: leaves of steps, and branches that know what is below them.
//!
//! All leaves are equally deep. What a branch adds to everything below is kept beside it, so that a
//! change costs two ways down, however long its span is. Small neighbours are merged: a history of
//! changes that come and go would leave leaves of single steps otherwise.

use std::sync::Arc;

use super::amounts::ResourceAmounts;

/// Steps in a leaf before it is cut in two.
const STEPS_MAX: usize = 64;
/// Branches below one before it is cut in two.
const BRANCHES_MAX: usize = 16;

/// A subtree, and what is known of it as a whole.
#[derive(Debug, Clone)]
pub(super) struct TimelineBranch {
    /// The beginning of its first step.
    pub(super) first: u64,
    /// The amounts added to all below.
    pub(super) shift: ResourceAmounts,
    /// The least and the most below, with the shift.
    pub(super) least: ResourceAmounts,
    pub(super) most: ResourceAmounts,
    pub(super) node: Arc<TimelineNode>,
}

#[derive(Debug, Clone)]
pub(super) enum TimelineNode {
    Leaf(TimelineLeaf),
    /// Never empty.
    Inner(Vec<TimelineBranch>),
}

/// Steps in order of time; never empty. From the time of a step on, up to the next one's, this much
/// is free.
#[derive(Debug, Clone)]
pub(super) struct TimelineLeaf {
    kinds: usize,
    pub(super) times: Vec<u64>,
    /// `kinds` numbers for each step.
    free: Vec<i64>,
}

impl TimelineLeaf {
    pub(super) fn free_at_step(&self, step: usize) -> ResourceAmounts {
        let mut amounts = ResourceAmounts::default();
        amounts.0[..self.kinds].copy_from_slice(self.row(step));
        amounts
    }

    /// The free amounts of a step, of the kinds that there are.
    pub(super) fn row(&self, step: usize) -> &[i64] {
        &self.free[step * self.kinds..(step + 1) * self.kinds]
    }

    /// Returns the step in which `at` lies; the first if `at` is before all.
    pub(super) fn step_of(&self, at: u64) -> usize {
        self.times
            .partition_point(|time| *time <= at)
            .saturating_sub(1)
    }

    fn add_to_steps(&mut self, steps: std::ops::Range<usize>, change: &ResourceAmounts) {
        for row in
            self.free[steps.start * self.kinds..steps.end * self.kinds].chunks_exact_mut(self.kinds)
        {
            row.iter_mut()
                .zip(&change.0)
                .for_each(|(free, change)| *free += change);
        }
    }

    fn cut_step(&mut self, at: u64) {
        let step = self.step_of(at);
        if self.times[step] != at {
            let from = step * self.kinds;
            let to = (step + 1) * self.kinds;
            self.times.insert(step + 1, at);
            self.free.splice(to..to, self.free[from..to].to_vec());
        }
    }

    fn remove_steps(&mut self, steps: std::ops::Range<usize>) {
        self.free
            .drain(steps.start * self.kinds..steps.end * self.kinds);
        self.times.drain(steps);
    }

    fn split_off_half(&mut self) -> Option<Self> {
        let middle = self.times.len() / 2;
        (self.times.len() > STEPS_MAX).then(|| Self {
            kinds: self.kinds,
            times: self.times.split_off(middle),
            free: self.free.split_off(middle * self.kinds),
        })
    }
}

impl TimelineNode {
    fn len(&self) -> usize {
        match self {
            TimelineNode::Leaf(leaf) => leaf.times.len(),
            TimelineNode::Inner(branches) => branches.len(),
        }
    }

    fn is_small_with(&self, other: &Self) -> bool {
        let max = if matches!(self, TimelineNode::Leaf(_)) {
            STEPS_MAX
        } else {
            BRANCHES_MAX
        };
        self.len() + other.len() <= max * 3 / 4
    }

    /// Splits off its later half, if it is too large.
    fn split_if_large(&mut self) -> Option<Self> {
        match self {
            TimelineNode::Leaf(leaf) => leaf.split_off_half().map(TimelineNode::Leaf),
            TimelineNode::Inner(branches) => (branches.len() > BRANCHES_MAX)
                .then(|| TimelineNode::Inner(branches.split_off(BRANCHES_MAX / 2))),
        }
    }

    /// Adds a change to all.
    fn shift_all(&mut self, change: &ResourceAmounts) {
        match self {
            TimelineNode::Leaf(leaf) => leaf.add_to_steps(0..leaf.times.len(), change),
            TimelineNode::Inner(branches) => branches
                .iter_mut()
                .for_each(|branch| branch.shift_all_amounts(change)),
        }
    }

    /// Appends the node right after it, of the same depth.
    fn append_later(&mut self, later: Self) {
        match (self, later) {
            (TimelineNode::Leaf(leaf), TimelineNode::Leaf(later)) => {
                leaf.times.extend(later.times);
                leaf.free.extend(later.free);
            }
            (TimelineNode::Inner(branches), TimelineNode::Inner(later)) => branches.extend(later),
            (TimelineNode::Leaf(_), TimelineNode::Inner(_))
            | (TimelineNode::Inner(_), TimelineNode::Leaf(_)) => {
                debug_assert!(false, "all leaves are equally deep");
            }
        }
    }
}

impl TimelineBranch {
    /// Creates a leaf of one step.
    pub(super) fn leaf(kinds: usize, at: u64, free: &ResourceAmounts) -> Self {
        let free = free.0[..kinds].to_vec();
        Self::from_node(
            TimelineNode::Leaf(TimelineLeaf {
                kinds,
                times: vec![at],
                free,
            }),
            ResourceAmounts::default(),
        )
    }

    fn from_node(node: TimelineNode, shift: ResourceAmounts) -> Self {
        let first = 0;
        let least = ResourceAmounts::default();
        let most = ResourceAmounts::default();
        let mut branch = Self {
            first,
            shift,
            least,
            most,
            node: Arc::new(node),
        };
        branch.update_bounds();
        branch
    }

    /// Computes again what is known of it as a whole.
    fn update_bounds(&mut self) {
        let (first, least, most) = match &*self.node {
            TimelineNode::Leaf(leaf) => (
                leaf.times[0],
                leaf.fold_rows(i64::min),
                leaf.fold_rows(i64::max),
            ),
            TimelineNode::Inner(branches) => {
                let mut least = branches[0].least;
                let mut most = branches[0].most;
                for branch in &branches[1..] {
                    least = least.min(&branch.least);
                    most = most.max(&branch.most);
                }
                (branches[0].first, least, most)
            }
        };
        self.first = first;
        self.least = least.plus(&self.shift);
        self.most = most.plus(&self.shift);
    }

    fn shift_all_amounts(&mut self, change: &ResourceAmounts) {
        self.shift = self.shift.plus(change);
        self.least = self.least.plus(change);
        self.most = self.most.plus(change);
    }

    /// Adds `change` from `from`, not before the first step, to before `to`.
    pub(super) fn add_change(&mut self, from: u64, to: u64, change: &ResourceAmounts) {
        self.cut_root(from);
        if to < u64::MAX {
            self.cut_root(to);
        }
        self.add_within(from, to, u64::MAX, change);
        if to < u64::MAX {
            self.join_root(to);
        }
        self.join_root(from);
    }

    fn cut_root(&mut self, at: u64) {
        if let Some(later) = self.cut_branch(at) {
            let earlier = self.clone();
            *self = Self::from_node(
                TimelineNode::Inner(vec![earlier, later]),
                ResourceAmounts::default(),
            );
        }
    }

    /// Makes `at` the beginning of a step; returns the later part if it had to be cut in two.
    fn cut_branch(&mut self, at: u64) -> Option<Self> {
        let node = Arc::make_mut(&mut self.node);
        match node {
            TimelineNode::Leaf(leaf) => leaf.cut_step(at),
            TimelineNode::Inner(branches) => {
                let index = branch_of(branches, at);
                if let Some(later) = branches[index].cut_branch(at) {
                    branches.insert(index + 1, later);
                }
            }
        }
        let later = node
            .split_if_large()
            .map(|later| Self::from_node(later, self.shift));
        if later.is_some() {
            self.update_bounds();
        }
        later
    }

    /// Adds `change` to the steps from `from` to before `to`, where steps begin; `end`: the end of
    /// the last one here.
    fn add_within(&mut self, from: u64, to: u64, end: u64, change: &ResourceAmounts) {
        if from <= self.first && end <= to {
            self.shift_all_amounts(change);
            return;
        }
        match Arc::make_mut(&mut self.node) {
            TimelineNode::Leaf(leaf) => {
                let first = leaf.times.partition_point(|time| *time < from);
                leaf.add_to_steps(first..leaf.times.partition_point(|time| *time < to), change);
            }
            TimelineNode::Inner(branches) => {
                for index in branch_of(branches, from)..branches.len() {
                    let end = branches.get(index + 1).map_or(end, |next| next.first);
                    if branches[index].first >= to {
                        break;
                    }
                    branches[index].add_within(from, to, end, change);
                }
            }
        }
        self.update_bounds();
    }

    /// Drops the step at `at` if nothing changes there.
    fn join_root(&mut self, at: u64) {
        if at == self.first || self.free_at(at - 1) != self.free_at(at) {
            return;
        }
        self.remove_step(at);
        self.drop_single_levels();
    }

    /// Drops levels that have one branch.
    fn drop_single_levels(&mut self) {
        while let TimelineNode::Inner(branches) = &*self.node
            && let [only] = &branches[..]
        {
            let mut only = only.clone();
            only.shift_all_amounts(&self.shift);
            *self = only;
        }
    }

    fn free_at(&self, at: u64) -> ResourceAmounts {
        match &*self.node {
            TimelineNode::Leaf(leaf) => leaf.free_at_step(leaf.step_of(at)),
            TimelineNode::Inner(branches) => branches[branch_of(branches, at)].free_at(at),
        }
        .plus(&self.shift)
    }

    /// Drops the step at `at`. Returns true if nothing is left.
    fn remove_step(&mut self, at: u64) -> bool {
        match Arc::make_mut(&mut self.node) {
            TimelineNode::Leaf(leaf) => {
                let step = leaf.step_of(at);
                leaf.remove_steps(step..step + 1);
                if leaf.times.is_empty() {
                    return true;
                }
            }
            TimelineNode::Inner(branches) => {
                let index = branch_of(branches, at);
                if branches[index].remove_step(at) {
                    branches.remove(index);
                } else {
                    merge_small(branches, index);
                }
                if branches.is_empty() {
                    return true;
                }
            }
        }
        self.update_bounds();
        false
    }

    /// Drops the steps that end by `now`.
    pub(super) fn drop_before(&mut self, now: u64) {
        self.drop_steps_before(now);
        self.drop_single_levels();
    }

    fn drop_steps_before(&mut self, now: u64) {
        match Arc::make_mut(&mut self.node) {
            TimelineNode::Leaf(leaf) => leaf.remove_steps(0..leaf.step_of(now)),
            TimelineNode::Inner(branches) => {
                branches.drain(..branch_of(branches, now));
                branches[0].drop_steps_before(now);
                merge_small(branches, 0);
            }
        }
        self.update_bounds();
    }
}

impl TimelineLeaf {
    fn fold_rows(&self, better: fn(i64, i64) -> i64) -> ResourceAmounts {
        let mut bound = self.free_at_step(0);
        for row in self.free.chunks_exact(self.kinds) {
            bound
                .0
                .iter_mut()
                .zip(row)
                .for_each(|(bound, free)| *bound = better(*bound, *free));
        }
        bound
    }
}

/// Returns the index of the branch in which `at` lies; the first if `at` is before all.
pub(super) fn branch_of(branches: &[TimelineBranch], at: u64) -> usize {
    branches
        .partition_point(|branch| branch.first <= at)
        .saturating_sub(1)
}

/// Merges a branch with a neighbour, if together they are small.
fn merge_small(branches: &mut Vec<TimelineBranch>, index: usize) {
    let candidates = [Some(index), index.checked_sub(1)];
    let small = candidates.into_iter().flatten().find(|earlier| {
        let pair = branches.get(*earlier).zip(branches.get(earlier + 1));
        pair.is_some_and(|(a, b)| a.node.is_small_with(&b.node))
    });
    if let Some(earlier) = small {
        let later = branches.remove(earlier + 1);
        let mut later_node = Arc::unwrap_or_clone(later.node);
        let branch = &mut branches[earlier];
        later_node.shift_all(&later.shift.minus(&branch.shift));
        Arc::make_mut(&mut branch.node).append_later(later_node);
        branch.update_bounds();
    }
}

#[cfg(test)]
impl TimelineBranch {
    pub(super) fn depth(&self) -> usize {
        match &*self.node {
            TimelineNode::Leaf(_) => 1,
            TimelineNode::Inner(branches) => 1 + branches[0].depth(),
        }
    }

    /// Returns the memory that all of it takes, in bytes, with the counts of each node.
    pub(super) fn memory_bytes(&self) -> usize {
        let counts = 2 * size_of::<usize>() + size_of::<TimelineNode>();
        counts
            + match &*self.node {
                TimelineNode::Leaf(leaf) => 8 * (leaf.times.capacity() + leaf.free.capacity()),
                TimelineNode::Inner(branches) => {
                    let below: usize = branches.iter().map(TimelineBranch::memory_bytes).sum();
                    branches.capacity() * size_of::<TimelineBranch>() + below
                }
            }
    }
}
