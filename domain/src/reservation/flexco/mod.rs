//! Flexible co-allocation: jobs over several sites whose parts start at exactly the same time, and
//! that move as the sites' plans change (FlexCo; M. Netto and R. Buyya, 2007).
//!
//! Three operations change a plan that has not begun: *Shift* moves all parts together, *Remap*
//! changes how many processors each site gives, *Mold* changes how many there are in total and how
//! long they take. A new plan replaces an old one only if the job completes earlier, or as early on
//! fewer sites. A site has to publish little: the least that is free over a span, and when it
//! gains.

#[cfg(test)]
mod bounds_tests;
mod fixed_parts;
mod flexco_metrics;
mod free_time;
mod initial_plan;
mod reschedule;
mod site_plans;
#[cfg(test)]
mod tests;

pub use fixed_parts::{PartsPlan, UnsplitPart, plan_parts, reschedule_parts};
pub use flexco_metrics::bounded_slowdown;
pub use free_time::{IdleStep, LimitedFreeTime, PublishedFreeTime, timeline_of_slots};
pub use initial_plan::{
    FlexPlan, JobShape, MetaJob, OfferingSite, SplitBounds, plan_best_shape, plan_in_shape,
};
pub use reschedule::{RescheduleOperations, reschedule_job};
pub use site_plans::{LocalJobPlan, MovedJob, SitePlans};
