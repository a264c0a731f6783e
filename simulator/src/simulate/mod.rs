//! `cospan simulate`: the control plane of this very program under virtual time, over a simulated
//! grid, with jobs from a log or a model.
//!
//! Nothing of the control plane is modelled: its actors, its journal and its decisions
//! are those of `cospan serve`. Simulated are the sites with their batch systems, local
//! users and failing nodes, the links between them, and the clock.
//!
//! A [`SimulationStudy`] defines the runs: each [`StudyVariant`] under each seed. [`run_study`] returns a
//! record of each, [`report`] makes tables, figures and a page of them.

mod attempts;
mod build_experiment;
mod flexco_study;
pub mod grid;
mod random_streams;
pub mod report;
mod reserving_jobs;
mod rival_policies;
mod run_record;
mod runs;
mod single_run;
pub mod workload;

pub use flexco_study::FLEXCO;
pub use reserving_jobs::ReservationWorkload;
pub use rival_policies::{RIVALS, RivalPolicy, SubmissionCopies};
pub use runs::{RunName, RunWatcher, SimulationStudy, StudyVariant, run_study};
pub use single_run::{RunNotes, SimulateError};
