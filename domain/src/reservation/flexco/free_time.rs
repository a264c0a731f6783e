//! The part of a site's free time that rescheduling has to know.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::reservation::common_starts::FreeSlot;
use crate::reservation::timeline::{
    FOREVER, ResourceAmounts, ResourceKinds, ResourceKindsError, TimeSpan, Timeline, TimelineSlot,
};
use crate::resources::Resources;
use crate::units::Timestamp;

/// The processors that are idle from some instant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleStep {
    /// The time from which on.
    pub at: Timestamp,
    /// The idle processors.
    pub processors: u32,
    /// True if more of some kind is free than before.
    pub gains: bool,
}

/// The free time of a site, as it publishes it.
pub trait PublishedFreeTime {
    /// Returns the most processors, up to all of them, whose portion of `of` is free all through
    /// the span.
    fn processors_offered(&self, span: TimeSpan, of: &Resources) -> u32;

    /// Lists what is free at each instant of the span, from its beginning on.
    fn idle_steps(&self, span: TimeSpan) -> Vec<IdleStep>;
}

impl PublishedFreeTime for Timeline {
    fn processors_offered(&self, span: TimeSpan, of: &Resources) -> u32 {
        most_portions(self.kinds(), &self.least_free(span), of)
    }

    fn idle_steps(&self, span: TimeSpan) -> Vec<IdleStep> {
        let mut idle = Vec::new();
        let mut before = None::<ResourceAmounts>;
        let _: ControlFlow<()> = self.visit_steps(span, |at, free| {
            let gains = before.is_none_or(|before| !before.reaches_all(&free));
            idle.push(IdleStep {
                at,
                processors: free.whole_processors(),
                gains,
            });
            before = Some(free);
            ControlFlow::Continue(())
        });
        idle
    }
}

/// A site that gives a limited number of processors at a time, and none before some instant.
#[derive(Debug)]
pub struct LimitedFreeTime {
    /// The free time there.
    pub time: Timeline,
    /// The most processors that it gives.
    pub processors: u32,
    /// The time when the input is there.
    pub from: Timestamp,
}

impl PublishedFreeTime for LimitedFreeTime {
    fn processors_offered(&self, span: TimeSpan, of: &Resources) -> u32 {
        if span.from < self.from {
            0
        } else {
            self.time.processors_offered(span, of).min(self.processors)
        }
    }

    fn idle_steps(&self, span: TimeSpan) -> Vec<IdleStep> {
        let mut idle = vec![IdleStep {
            at: span.from,
            processors: 0,
            gains: true,
        }];
        if span.from < self.from {
            let rest = TimeSpan::new(self.from, span.to.max(self.from));
            idle.extend(self.time.idle_steps(rest));
        } else {
            idle = self.time.idle_steps(span);
        }
        idle.into_iter()
            .map(|idle: IdleStep| IdleStep {
                processors: idle.processors.min(self.processors),
                ..idle
            })
            .collect()
    }
}

/// A site that publishes slots, perhaps not of all its time: see [`Timeline::slots`].
impl PublishedFreeTime for (&ResourceKinds, &[TimelineSlot]) {
    fn processors_offered(&self, span: TimeSpan, of: &Resources) -> u32 {
        let offers = self
            .1
            .iter()
            .filter(|slot: &&TimelineSlot| slot.span.from <= span.from && span.to <= slot.span.to)
            .map(|slot| most_portions(self.0, &slot.free, of));
        offers.max().unwrap_or(0)
    }

    fn idle_steps(&self, span: TimeSpan) -> Vec<IdleStep> {
        let steps = largest_slots(
            self.1
                .iter()
                .map(|slot: &TimelineSlot| (slot.span, slot.free.whole_processors())),
            span,
        );
        let idle = steps.into_iter().map(|(at, most)| {
            let processors = most.map_or(0, |(processors, _)| processors);
            IdleStep {
                at,
                processors,
                gains: at == span.from || self.1.iter().any(|slot| slot.span.from == at),
            }
        });
        idle.collect()
    }
}

/// Lists, from each time on, the slot with most processors, and their number; of equal ones the
/// last.
fn largest_slots(
    slots: impl Iterator<Item = (TimeSpan, u32)>,
    span: TimeSpan,
) -> Vec<(Timestamp, Option<(u32, usize)>)> {
    let mut changes: Vec<(Timestamp, bool, (u32, usize))> = Vec::new();
    for (number, (slot, processors)) in slots.enumerate() {
        let from = slot.from.max(span.from);
        let to = slot.to.min(span.to);
        if from < to {
            changes.push((from, true, (processors, number)));
            changes.push((to, false, (processors, number)));
        }
    }
    changes.sort_unstable();
    let mut open = BTreeSet::new();
    let mut steps = vec![(span.from, None)];
    for at in changes.chunk_by(|a, b| a.0 == b.0) {
        for (_, begins, slot) in at {
            let _known = if *begins {
                open.insert(*slot)
            } else {
                open.remove(slot)
            };
        }
        if at[0].0 < span.to {
            steps.push((at[0].0, open.last().copied()));
        }
    }
    if steps.get(1).is_some_and(|(at, _)| *at == span.from) {
        steps.remove(0);
    }
    steps
}

/// Builds the timeline of a site that published these slots of all that it has, from an instant on.
/// What it did not publish is taken.
///
/// # Errors
/// The site has more kinds of resource, or more of one, than can be planned with.
pub fn timeline_of_slots(
    total: &Resources,
    from: Timestamp,
    slots: &[FreeSlot],
) -> Result<Timeline, ResourceKindsError> {
    let mut timeline = Timeline::new(from, total)?;
    let all = timeline.to_amounts(total)?;
    timeline.book(TimeSpan::new(from, FOREVER), &all);
    // The slot of most processors counts at each instant. It is the shortest one, which knows best
    // what is free of the other kinds.
    let spans = slots.iter().map(|slot| (slot.span, slot.free.processors));
    let steps = largest_slots(spans, TimeSpan::new(from, FOREVER));
    let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([FOREVER]);
    for ((begin, most), end) in steps.iter().zip(ends) {
        if let Some((_, number)) = most {
            let free = timeline.to_amounts(&slots[*number].free)?;
            timeline.release(TimeSpan::new(*begin, end), &free);
        }
    }
    Ok(timeline)
}

/// Returns the most processors whose portion of `of` is in `free`.
fn most_portions(kinds: &ResourceKinds, free: &ResourceAmounts, of: &Resources) -> u32 {
    let processors = free.whole_processors().min(of.processors);
    if of.others.is_empty() {
        return processors;
    }
    let free = kinds.to_resources(free);
    of.max_processors_for(processors, |kind| free.other(kind))
}
