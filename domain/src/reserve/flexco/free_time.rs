//! What a site says of its free time, and no more.

use std::ops::ControlFlow::{Break, Continue};

use crate::reserve::timeline::{Amounts, FOREVER, Kinds, Slot, Span, Timeline};
use crate::resources::Resources;
use crate::units::Timestamp;

/// What a site says of its free time.
pub trait FreeTime {
    /// The most processors, up to all of them, whose portion of `of` is free all through the
    /// span.
    fn offered(&self, span: Span, of: &Resources) -> u32;

    /// The first instant after `after` at which something becomes free; `None`: never again.
    fn next_gain(&self, after: Timestamp) -> Option<Timestamp>;
}

impl FreeTime for Timeline {
    fn offered(&self, span: Span, of: &Resources) -> u32 {
        most(self.kinds(), &self.least_free(span), of)
    }

    fn next_gain(&self, after: Timestamp) -> Option<Timestamp> {
        let mut before: Option<Amounts> = None;
        let found = self.steps(Span::new(after, FOREVER), |at, free| {
            let gains = before.is_some_and(|before| !before.reach(&free));
            before = Some(free);
            if gains { Break(at) } else { Continue(()) }
        });
        found.break_value()
    }
}

/// A site that publishes slots, perhaps not of all its time: see [`Timeline::slots`].
impl FreeTime for (&Kinds, &[Slot]) {
    fn offered(&self, span: Span, of: &Resources) -> u32 {
        let holds = |slot: &&Slot| slot.span.from <= span.from && span.to <= slot.span.to;
        let offers = self.1.iter().filter(holds).map(|slot| most(self.0, &slot.free, of));
        offers.max().unwrap_or(0)
    }

    fn next_gain(&self, after: Timestamp) -> Option<Timestamp> {
        self.1.iter().map(|slot| slot.span.from).filter(|from| *from > after).min()
    }
}

/// The most processors whose portion of `of` is in `free`.
fn most(kinds: &Kinds, free: &Amounts, of: &Resources) -> u32 {
    let processors = free.whole_processors().min(of.processors);
    if of.others.is_empty() {
        return processors;
    }
    let free = kinds.resources(free);
    of.most_of(processors, |kind| free.other(kind))
}
