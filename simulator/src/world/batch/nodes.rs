//! The nodes of a site and which of their processors are free.

/// Processors that a job holds on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeShare {
    pub(super) node: u32,
    pub(super) processors: u32,
}

/// Nodes with equally many processors each; jobs take the lowest free nodes first.
#[derive(Debug, Clone)]
pub(super) struct NodePool {
    per_node: u32,
    /// Free processors by node; 0 for a node that is down.
    free: Vec<u32>,
    up: Vec<bool>,
    /// A bit per node: set if it has a free processor. Finds the lowest such node 64 at a time.
    open: Vec<u64>,
    idle: u32,
}

impl NodePool {
    pub(super) fn new(nodes: u32, per_node: u32) -> Self {
        let count = nodes as usize;
        let mut all = Self {
            per_node,
            free: vec![0; count],
            up: vec![false; count],
            open: vec![0; count.div_ceil(64)],
            idle: 0,
        };
        for node in 0..nodes {
            all.set_up(node);
        }
        all
    }

    pub(super) fn per_node(&self) -> u32 {
        self.per_node
    }

    /// Returns the free processors on nodes that are up.
    pub(super) fn idle(&self) -> u32 {
        self.idle
    }

    pub(super) fn is_up(&self, node: u32) -> Option<bool> {
        self.up.get(node as usize).copied()
    }

    /// Returns the processors of all nodes that are up.
    pub(super) fn processors_in_service(&self) -> u32 {
        self.up.iter().filter(|up| **up).count() as u32 * self.per_node
    }

    /// Takes processors on the lowest free nodes; `None` if too few are idle.
    pub(super) fn take_processors(&mut self, processors: u32) -> Option<Vec<NodeShare>> {
        if processors > self.idle {
            return None;
        }
        let mut shares = Vec::new();
        let mut missing = processors;
        let mut word = 0;
        while missing > 0 && word < self.open.len() {
            if self.open[word] == 0 {
                word += 1;
                continue;
            }
            let node = word as u32 * 64 + self.open[word].trailing_zeros();
            let taken = missing.min(self.free[node as usize]);
            shares.push(NodeShare {
                node,
                processors: taken,
            });
            missing -= taken;
            self.set_free(node, self.free[node as usize] - taken);
        }
        Some(shares)
    }

    /// Returns shares taken by [`NodePool::take_processors`].
    pub(super) fn return_shares(&mut self, shares: &[NodeShare]) {
        for share in shares {
            self.set_free(
                share.node,
                self.free[share.node as usize] + share.processors,
            );
        }
    }

    /// Takes a node whose processors are all free out of service.
    pub(super) fn set_down(&mut self, node: u32) {
        self.up[node as usize] = false;
        self.set_free(node, 0);
    }

    /// Brings back a node that was down, with all its processors free.
    pub(super) fn set_up(&mut self, node: u32) {
        self.up[node as usize] = true;
        self.set_free(node, self.per_node);
    }

    fn set_free(&mut self, node: u32, processors: u32) {
        let at = node as usize;
        self.idle = self.idle - self.free[at] + processors;
        self.free[at] = processors;
        let bit = 1 << (node % 64);
        if processors > 0 {
            self.open[at / 64] |= bit;
        } else {
            self.open[at / 64] &= !bit;
        }
    }
}
