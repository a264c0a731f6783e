//! The interface of the edge (HTTP, CLI, simulator, tests): its commands, and what it may see.

mod division_query;
pub mod handle;
mod quota_query;
mod shared_reservation_query;
pub mod slots_query;
mod submitted_options;

pub use crate::commands::{
    self as command, ApiAnswer, ApiCommand, ApiRefusal, JobSubmission, OperatorCommand,
    SubmittedJob,
};
pub use crate::committed::CommittedView;
pub use handle::{ControlPlane, SiteOverview};
pub use slots_query::{
    FreeProcessorsAnswer, PossibleStartOverview, SiteStartsAnswer, StartComputation,
};
