//! Jobs: what may be asked for, what is due, what they need of sites, and who gives way, by plain models.

mod asked;
mod claims;
mod descriptions;
mod dues;
mod entangled;
mod needs;
mod placeholders;
mod plans;
mod programs;
mod sweeps;
mod waits;

use rand::rngs::StdRng;

/// What the domain makes of cases of each kind, and the rules do not.
pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let kinds = [
        asked::wrong,
        claims::wrong,
        dues::wrong,
        entangled::wrong,
        needs::wrong,
        plans::wrong,
        programs::wrong,
        sweeps::wrong,
        waits::wrong,
    ];
    kinds.into_iter().flat_map(|wrong| wrong(chance)).collect()
}
