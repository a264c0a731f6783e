//! The placement policies, one file each. Their list is [`super::policy::POLICIES`].

mod close_to_files;
mod cluster_minimization;
mod connected;
mod flexible;
mod worst_fit;

pub use close_to_files::CloseToFiles;
pub use cluster_minimization::ClusterMinimization;
pub use connected::{ConnectedClusterMinimization, ConnectedFlexibleClusterMinimization};
pub use flexible::FlexibleClusterMinimization;
pub use worst_fit::WorstFit;
