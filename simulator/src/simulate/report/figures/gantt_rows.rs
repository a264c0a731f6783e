//! Assigns processors to the bars of a Gantt chart.
//!
//! The record has the number of a bar's processors, not which they are. Bars get the lowest
//! contiguous block that is free, else the lowest free processors in pieces; a component that
//! begins to run keeps the processors it was held on, if it can.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cospan_domain::units::Timestamp;

use crate::simulate::report::record::GanttBar;

/// Processors by number, as disjoint blocks.
pub(super) type ProcessorBlocks = Vec<Range<u32>>;

/// Free processors: first of each block to its end.
struct FreeProcessors(BTreeMap<u32, u32>);

/// The processors of each bar. `bars` are in order of their begin. A bar that finds too few free
/// processors gets those there are, perhaps none.
pub(super) fn assign_processors(bars: &[&GanttBar], processors: u32) -> Vec<ProcessorBlocks> {
    let mut free = FreeProcessors(BTreeMap::from([(0, processors)]));
    let mut standing: BTreeSet<(Timestamp, usize)> = BTreeSet::new();
    let mut places: Vec<ProcessorBlocks> = Vec::with_capacity(bars.len());
    let mut last_of: BTreeMap<(u64, u32), usize> = BTreeMap::new();
    for (index, bar) in bars.iter().enumerate() {
        while let Some((to, ended)) = standing.first().copied().filter(|(to, _)| *to <= bar.from) {
            places[ended]
                .iter()
                .for_each(|block| free.return_block(block.clone()));
            standing.remove(&(to, ended));
        }
        let component = bar.job.zip(bar.component);
        let before = component
            .and_then(|key| last_of.get(&key))
            .map(|last| &places[*last]);
        let kept =
            before.filter(|blocks| total_size(blocks) == bar.processors && free.has_all(blocks));
        let blocks = match kept.cloned() {
            Some(blocks) => free.take_all(blocks),
            None => free.take_lowest(bar.processors),
        };
        places.push(blocks);
        standing.insert((bar.to, index));
        if let Some(key) = component {
            last_of.insert(key, index);
        }
    }
    places
}

/// The number of processors in these blocks.
pub(super) fn total_size(blocks: &[Range<u32>]) -> u32 {
    blocks.iter().map(|block| block.end - block.start).sum()
}

impl FreeProcessors {
    /// Takes this many: one block if any is long enough, else the lowest.
    fn take_lowest(&mut self, wanted: u32) -> ProcessorBlocks {
        if let Some(first) = self
            .0
            .iter()
            .find_map(|(first, end): (&u32, &u32)| (end - first >= wanted).then_some(*first))
        {
            let block = first..first.saturating_add(wanted);
            return self.take_all(vec![block]);
        }
        let mut missing = wanted;
        let mut blocks = Vec::new();
        for (first, end) in &self.0 {
            let taken = missing.min(end - first);
            if taken > 0 {
                blocks.push(*first..first + taken);
                missing -= taken;
            }
        }
        self.take_all(blocks)
    }

    /// Returns true if all of these are free.
    fn has_all(&self, blocks: &[Range<u32>]) -> bool {
        blocks.iter().all(|block| {
            self.0
                .range(..=block.start)
                .next_back()
                .is_some_and(|(_, end)| *end >= block.end)
        })
    }

    /// Takes these processors, which are free.
    fn take_all(&mut self, blocks: ProcessorBlocks) -> ProcessorBlocks {
        for block in blocks.iter().filter(|block| !block.is_empty()) {
            let around = self
                .0
                .range(..=block.start)
                .next_back()
                .map(|(f, e)| (*f, *e));
            let Some((first, end)) = around else { continue };
            self.0.remove(&first);
            self.put_block(first..block.start);
            self.put_block(block.end..end);
        }
        blocks
    }

    /// Returns a block and joins it with its neighbours.
    fn return_block(&mut self, block: Range<u32>) {
        let mut joined = block;
        if let Some(end) = self.0.remove(&joined.end) {
            joined.end = end;
        }
        let before = self
            .0
            .range(..joined.start)
            .next_back()
            .map(|(f, e)| (*f, *e));
        if let Some((first, end)) = before
            && end == joined.start
        {
            joined.start = first;
        }
        self.put_block(joined);
    }

    fn put_block(&mut self, block: Range<u32>) {
        if !block.is_empty() {
            self.0.insert(block.start, block.end);
        }
    }
}
