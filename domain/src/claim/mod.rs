//! Claiming: the times at which processors are claimed, and the choice of components that can have
//! them (KOALA, section 4.5: the Incremental Claiming Policy, ICP).
//!
//! With `threshold` T = 1 a try is all or nothing: a component that cannot start makes F < T, so
//! components are never placed again singly and nothing is preempted. The same holds for jobs of
//! one component, unless T = 0. Claiming is needed only where a site cannot reserve. Absent here:
//! calls to sites, and timers.

pub mod claim_parameters;
pub mod claim_try;
pub mod preemption;
pub mod queue;
pub mod schedule;
pub mod startable_components;

pub use claim_parameters::{ClaimParameters, MinClaimInterval};
pub use claim_try::{ClaimTry, ClaimableSites, plan_claim};
pub use preemption::{MAX_PREEMPTIONS, PreemptibleJob, choose_victims};
pub use queue::ClaimingQueue;
pub use schedule::ClaimSchedule;
pub use startable_components::{
    ClaimPlace, StartableComponents, UnclaimedComponent, find_startable,
};
