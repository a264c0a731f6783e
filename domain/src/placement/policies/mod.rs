//! The placement policies. To add one, add its file and one line in [`POLICIES`]' list.

use super::policy::Policy;

/// Names each policy once: its file, and what in it is a policy.
macro_rules! policies {
    ($($file:ident: $($policy:ident),+;)+) => {
        $(pub(super) mod $file;)+
        $(pub use $file::{$($policy),+};)+

        /// Every policy, in the order in which people are told of them.
        pub static POLICIES: &[&dyn Policy] = &[$($(&$policy),+),+];
    };
}

policies! {
    worst_fit: WorstFit;
    close_to_files: CloseToFiles;
    cluster_minimization: ClusterMinimization;
    flexible: FlexibleClusterMinimization;
    connected: ConnectedClusterMinimization, ConnectedFlexibleClusterMinimization;
    multiple_resources: MultipleResources;
}
