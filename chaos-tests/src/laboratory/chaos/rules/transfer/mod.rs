//! Copies and links: whole lives of copies, paces, and what is measured of links, by plain models.

mod cut_off;
mod duties;
mod failures;
mod links;
mod lives;
mod measurements;
mod model;
mod paces;

use rand::rngs::StdRng;

/// What the domain makes of cases of each kind, and the rules do not.
pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let kinds = [
        cut_off::wrong,
        failures::wrong,
        links::wrong,
        lives::wrong,
        measurements::wrong,
        paces::wrong,
    ];
    kinds.into_iter().flat_map(|wrong| wrong(chance)).collect()
}
