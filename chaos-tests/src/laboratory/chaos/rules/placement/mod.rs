//! Placement: every policy, what keeps a job from sites, and what is told of it, by plain models.

mod asked;
mod boards;
mod forecasts;
mod ground;
mod ground_draws;
mod groups;
mod judge;
mod names;
mod placements;
mod placing;
mod refusals;
mod requests;
mod settings;
mod splitting;
mod submissions;
mod supposing;

pub(super) use judge::never_fits;
use rand::rngs::StdRng;

/// What the domain makes of cases of each kind, and the rules do not.
pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let kinds = [
        boards::wrong,
        forecasts::wrong,
        names::wrong,
        placements::wrong,
        refusals::wrong,
        requests::wrong,
    ];
    kinds.into_iter().flat_map(|wrong| wrong(chance)).collect()
}
