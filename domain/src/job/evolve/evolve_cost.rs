//! Counts the cost of a job so far, in processors x time.
//!
//! Between the placement of a round that starts and the begin of a payload, the processors of its
//! component are either held or left to others: time held is wasted, the rest is gained. Time held
//! by a round that does not start is wasted too, and such a round gains nothing.

use crate::ids::ComponentIndex;
use crate::job::job_state::Job;
use crate::units::Timestamp;

/// Adds PGT in processors x time (KOALA, section 3): from placement until a site's batch system
/// starts a component on its processors for the last time, others can use them, except while it
/// held some that it gave back.
pub(super) fn count_gain_of_job(job: &mut Job) {
    let Some(placed) = job.instants.placed else {
        return;
    };
    let until_held = job.indexed_components().map(|(index, component)| {
        let length = component.held_since.map_or(0, |held| held.since(placed).0);
        u64::from(job.processors_of(index)).saturating_mul(length)
    });
    let until_held = until_held.fold(0, u64::saturating_add);
    let instants = &mut job.instants;
    let gained = until_held.saturating_sub(instants.wasted_in_round_ms);
    instants.gained_processor_ms = instants.gained_processor_ms.saturating_add(gained);
}

/// Does the same for a component that begins later than the others, once it begins.
pub(super) fn count_gain_of_component(job: &mut Job, index: ComponentIndex) {
    let held = job
        .components
        .get(index.0 as usize)
        .and_then(|component| component.held_since);
    let Some((placed, held)) = job.instants.placed.zip(held) else {
        return;
    };
    let gained = u64::from(job.processors_of(index)).saturating_mul(held.since(placed).0);
    let instants = &mut job.instants;
    instants.gained_processor_ms = instants.gained_processor_ms.saturating_add(gained);
}

/// Adds the waste of all components that hold processors without a payload, until now.
pub(super) fn count_waste_of_job(job: &mut Job, at: Timestamp) {
    for index in (0..job.components.len()).map(|index| ComponentIndex(index as u32)) {
        count_waste_of_component(job, index, at);
    }
}

/// Adds PWT in processors x time (KOALA, section 3): a component holds processors in vain from
/// where gaining ends until its payload begins or the attempt is over. Counts until now, and lets
/// the next count begin now.
pub(super) fn count_waste_of_component(job: &mut Job, index: ComponentIndex, at: Timestamp) {
    let processors = u64::from(job.processors_of(index));
    let held = job
        .components
        .get_mut(index.0 as usize)
        .and_then(|c| c.held_since.as_mut());
    let Some(held) = held else { return };
    let wasted = processors.saturating_mul(at.since(*held).0);
    *held = at;
    let instants = &mut job.instants;
    instants.wasted_processor_ms = instants.wasted_processor_ms.saturating_add(wasted);
    instants.wasted_in_round_ms = instants.wasted_in_round_ms.saturating_add(wasted);
}
