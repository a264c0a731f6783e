//! Rescheduling of one job by Shift, Remap and Mold (FlexCo, sections 3 and 4.2).

use super::initial_plan::{FlexPlan, MetaJob, OfferingSite, candidate_starts, plan_in_shape};
use crate::reservation::agreement::StartWindow;
use crate::reservation::timeline::TimeSpan;
use crate::units::{DurationMs, Timestamp};

/// The operations that a job allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RescheduleOperations {
    /// All parts may start earlier, together.
    pub shift: bool,
    /// Sites may give other numbers of processors.
    pub remap: bool,
    /// It may run in another shape, if it may be remapped, too.
    pub mold: bool,
}

/// Finds a better plan for a job that has not begun. The sites must count what the present plan has
/// there as free.
pub fn reschedule_job(
    job: &MetaJob,
    present: &FlexPlan,
    allowed: RescheduleOperations,
    sites: &[OfferingSite<'_>],
    turn: usize,
    now: Timestamp,
) -> Option<FlexPlan> {
    let shifted = allowed
        .shift
        .then(|| shift_parts(job, present, sites, now))
        .flatten();
    let shapes = match allowed {
        RescheduleOperations {
            remap: true,
            mold: true,
            ..
        } => 0..job.shapes.len(),
        RescheduleOperations { remap: true, .. } => present.shape..present.shape + 1,
        RescheduleOperations { .. } => 0..0,
    };
    let remapped = shapes.filter_map(|shape| {
        // A start from which it would complete later is not worth a look.
        let alone = job.run_time_on(job.shapes.get(shape)?, 1);
        let latest = job.latest.min(present.completion - alone);
        plan_in_shape(
            &MetaJob {
                latest,
                ..job.clone()
            },
            shape,
            sites,
            turn,
            now,
        )
    });
    // If parts may not move in time, they keep their start.
    let remapped = remapped.filter(|plan| allowed.shift || plan.start == present.start);
    let plans = shifted.into_iter().chain(remapped);
    let best = plans.reduce(|best, plan| {
        if plan.is_better_than(&best) {
            plan
        } else {
            best
        }
    });
    best.filter(|plan| plan.is_better_than(present))
}

/// Finds the earliest start of the same parts.
fn shift_parts(
    job: &MetaJob,
    present: &FlexPlan,
    sites: &[OfferingSite<'_>],
    now: Timestamp,
) -> Option<FlexPlan> {
    let shape = job.shapes.get(present.shape)?;
    let time = job.run_time_on(shape, present.parts.len());
    let before = present.start - DurationMs(1);
    let window = job.accepted_window(now);
    let window = StartWindow::new(window.earliest, window.latest.min(before));
    let mut earlier = candidate_starts(sites, window, shape.resources.processors);
    let start = earlier.find(|start: &Timestamp| {
        let span = TimeSpan::new(*start, *start + time);
        present.parts.iter().all(|(name, count)| {
            let site = sites.iter().find(|site| site.name == name);
            site.is_some_and(|site| site.time.processors_offered(span, &shape.resources) >= *count)
        })
    })?;
    Some(FlexPlan {
        start,
        completion: start + time,
        ..present.clone()
    })
}
