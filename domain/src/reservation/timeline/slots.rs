//! Slots of free time, as sites publish them (FlexCo, section 4: start, completion, number of
//! resources).

use super::TimeSpan;
use std::ops::ControlFlow;

use super::amounts::ResourceAmounts;
use super::tree_node::TimelineBranch;
use crate::units::Timestamp;

/// A span in which so many processors are free, and that cannot be made longer without having
/// fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineSlot {
    pub span: TimeSpan,
    /// The free amounts: the processors that make it a slot, and the least of every other kind.
    pub free: ResourceAmounts,
}

/// A slot that has begun.
struct OpenSlot {
    from: Timestamp,
    free: ResourceAmounts,
}

pub(super) fn list_slots(root: &TimelineBranch, span: TimeSpan, most: usize) -> Vec<TimelineSlot> {
    let mut open: Vec<OpenSlot> = Vec::new();
    let mut slots: Vec<TimelineSlot> = Vec::new();
    let _never_broken =
        root.visit_steps(span.from.0, span.to.0, &mut |at, free: ResourceAmounts| {
            let free = ResourceAmounts(free.0.map(|amount| amount.max(0)));
            let ended = end_slots(&mut open, Timestamp(at), free.0[0], &mut slots);
            let from = ended.as_ref().map_or(Timestamp(at), |last| last.from);
            let mut now = OpenSlot { from, free };
            ended
                .iter()
                .for_each(|last| lower_others(&mut now.free, &last.free));
            match open.last_mut() {
                Some(last) if last.free.0[0] == free.0[0] => {
                    lower_others(&mut last.free, &now.free)
                }
                Some(_) | None => open.push(now),
            }
            ControlFlow::<()>::Continue(())
        });
    end_slots(&mut open, span.to, 0, &mut slots);
    slots.sort_by_key(|slot| (slot.span.from, slot.span.to));
    slots.truncate(most);
    slots
}

/// Ends the slots of more than so many processors; returns the last to end, which began first.
fn end_slots(
    open: &mut Vec<OpenSlot>,
    at: Timestamp,
    processors: i64,
    slots: &mut Vec<TimelineSlot>,
) -> Option<OpenSlot> {
    let mut ended: Option<OpenSlot> = None;
    while let Some(mut last) = open.pop_if(|last| last.free.0[0] > processors) {
        // Of other kinds it has no more than the shorter slots within it.
        ended
            .iter()
            .for_each(|within| lower_others(&mut last.free, &within.free));
        slots.push(TimelineSlot {
            span: TimeSpan::new(last.from, at),
            free: last.free,
        });
        ended = Some(last);
    }
    ended
}

/// Lowers all but the processors.
fn lower_others(amounts: &mut ResourceAmounts, others: &ResourceAmounts) {
    let processors = amounts.0[0];
    *amounts = amounts.min(others);
    amounts.0[0] = processors;
}
