//! The clusters, which run side by side.

use crate::testbed::TestbedCluster;

/// Clusters that one server drives. Faults in one lane do not disturb another.
#[derive(Debug)]
pub(super) struct BenchClusterGroup {
    pub(super) name: &'static str,
    pub(super) clusters: &'static [TestbedCluster],
    /// SSH port by which the last cluster is driven.
    pub(super) ssh: Option<u16>,
}

/// Driven by its own commands, on this machine.
pub(super) const ALPHA: TestbedCluster = cluster("alpha", 27_710);
/// Driven over SSH.
pub(super) const BETA: TestbedCluster = cluster("beta", 27_720);
/// A lane whose jobs run over both clusters.
pub(super) const BOTH: BenchClusterGroup = BenchClusterGroup {
    name: "both",
    clusters: &[ALPHA, BETA],
    ssh: Some(27_730),
};

const fn cluster(name: &'static str, port: u16) -> TestbedCluster {
    TestbedCluster {
        name,
        processors: 16,
        port,
    }
}

/// Clusters of a lane, each of which is used alone.
pub(super) const JUDGED: [TestbedCluster; 5] = [
    cluster("gamma", 27_740),
    cluster("delta", 27_750),
    cluster("epsilon", 27_760),
    cluster("zeta", 27_770),
    cluster("eta", 27_780),
];
/// Clusters whose controllers are killed.
pub(super) const KILLED: [TestbedCluster; 2] = [cluster("theta", 27_790), cluster("iota", 27_800)];
