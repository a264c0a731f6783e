//! Sites: their breakers, orders of operators, contact, and whether they take work, by plain models.

mod breakers;
mod contacts;
mod hindrances;
mod orders;
mod verdicts;

use rand::rngs::StdRng;

/// What the domain makes of cases of each kind, and the rules do not.
pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let kinds = [breakers::wrong, contacts::wrong, hindrances::wrong, orders::wrong];
    kinds.into_iter().flat_map(|wrong| wrong(chance)).collect()
}
