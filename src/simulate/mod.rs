//! `cospan simulate`: the control plane of this very program under virtual time, over a simulated
//! grid, with jobs from a log or a model.
//!
//! Nothing of the control plane is modelled: its actors, its journal and its decisions
//! are those of `cospan serve`. Simulated are the sites with their batch systems, local
//! users and failing nodes, the links between them, and the clock.
//!
//! A [`Study`] defines the runs: each [`Variant`] under each seed. [`run`] returns a record of
//! each, [`report`] makes tables, figures and a page of them.

mod attempts;
mod flexco;
pub mod grid;
mod observe;
mod once;
pub mod report;
mod reservations;
mod rivals;
mod settings;
mod streams;
mod study;
pub mod workload;
mod world;

pub use flexco::FLEXCO;
pub use once::{Notes, SimulateError};
pub use reservations::ReservationWorkload;
pub use rivals::{Copies, RIVALS, Rival};
pub use settings::settings;
pub use study::{RunName, Study, Variant, Watcher, run};
