//! The clusters, which run side by side.

use cospan_sites::slurm_testbed::TestbedCluster;

/// Clusters that one server drives. Faults in one lane do not disturb another.
#[derive(Debug)]
pub(super) struct BenchClusterGroup {
    pub(super) name: &'static str,
    pub(super) clusters: &'static [TestbedCluster],
    /// SSH port by which the last cluster is driven.
    pub(super) ssh: Option<u16>,
}

/// Driven by its own commands, on this machine.
pub(super) const ALPHA: TestbedCluster = testbed_cluster("alpha", 27_710);
/// Driven over SSH.
pub(super) const BETA: TestbedCluster = testbed_cluster("beta", 27_720);
/// A lane whose jobs run over both clusters.
pub(super) const BOTH: BenchClusterGroup = BenchClusterGroup {
    name: "both",
    clusters: &[ALPHA, BETA],
    ssh: Some(27_730),
};

const fn testbed_cluster(name: &'static str, port: u16) -> TestbedCluster {
    TestbedCluster {
        name,
        processors: 16,
        port,
    }
}

/// Clusters of a lane, each of which is used alone.
pub(super) const JUDGED: [TestbedCluster; 5] = [
    testbed_cluster("gamma", 27_740),
    testbed_cluster("delta", 27_750),
    testbed_cluster("epsilon", 27_760),
    testbed_cluster("zeta", 27_770),
    testbed_cluster("eta", 27_780),
];
/// Clusters whose controllers are killed.
pub(super) const KILLED: [TestbedCluster; 2] = [
    testbed_cluster("theta", 27_790),
    testbed_cluster("iota", 27_800),
];
