//! Placement queues: classes, turns, scans, sweeps and what is withheld, by plain models.

mod cycles;
mod hoards;
mod queues;
mod ranks;
mod scans;
mod sweeps;
mod turns;

use rand::rngs::StdRng;

/// What the domain makes of cases of each kind, and the rules do not.
pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let kinds = [cycles::wrong, ranks::wrong, scans::wrong, sweeps::wrong, turns::wrong];
    kinds.into_iter().flat_map(|wrong| wrong(chance)).collect()
}
