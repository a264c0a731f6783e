//! The placement policies. To add one, add its file and one line in [`POLICIES`]' list.

use super::policy::Policy;

/// Names each policy once: its file, and the policies in it.
macro_rules! policies {
    ($($file:ident: $($policy:ident),+;)+) => {
        $(pub(super) mod $file;)+
        $(pub use $file::{$($policy),+};)+

        /// All policies, in the order in which people see them.
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

/// The policy that is used if none is configured.
pub const DEFAULT_POLICY: &str = WorstFit::NAME;

/// The policy for flexible requests that is used if none is configured.
pub const DEFAULT_FLEXIBLE_POLICY: &str = FlexibleClusterMinimization::NAME;
