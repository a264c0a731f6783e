//! The clusters, which go on side by side.

use crate::testbed::Cluster;

/// Clusters that one server drives. What happens to those of one lane bothers no other.
#[derive(Debug)]
pub(super) struct Lane {
    /// Its name.
    pub(super) name: &'static str,
    /// Its clusters.
    pub(super) clusters: &'static [Cluster],
    /// The last of them is driven over SSH, by this port.
    pub(super) ssh: Option<u16>,
}

/// Driven by its own commands, on this machine.
pub(super) const ALPHA: Cluster = cluster("alpha", 27_710);
/// Driven over SSH.
pub(super) const BETA: Cluster = cluster("beta", 27_720);
/// Where jobs run over both.
pub(super) const BOTH: Lane = Lane {
    name: "both",
    clusters: &[ALPHA, BETA],
    ssh: Some(27_730),
};

const fn cluster(name: &'static str, port: u16) -> Cluster {
    Cluster {
        name,
        processors: 16,
        port,
    }
}

/// Clusters of a lane in which each is for itself.
pub(super) const JUDGED: [Cluster; 5] = [
    cluster("gamma", 27_740),
    cluster("delta", 27_750),
    cluster("epsilon", 27_760),
    cluster("zeta", 27_770),
    cluster("eta", 27_780),
];
/// Clusters whose controllers are killed.
pub(super) const KILLED: [Cluster; 2] = [cluster("theta", 27_790), cluster("iota", 27_800)];
