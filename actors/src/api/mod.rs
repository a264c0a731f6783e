//! The interface of the edge (HTTP, CLI, simulator, tests): its commands, and what it may see.

pub mod command;
mod divided;
pub mod handle;
mod quota;
pub mod starts;
pub mod view;
mod within;

pub use command::{ApiAnswer, ApiCommand, ApiRefusal, SiteOrder, Submission, SubmittedJob};
pub use handle::{ControlPlane, SiteStanding};
pub use starts::{FreeLater, SiteStarts, StartOverview, StartsToCompute};
pub use view::View;
