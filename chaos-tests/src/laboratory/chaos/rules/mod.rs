//! Rules of the guide and of the reference, worked out anew for what a seed draws: cases that
//! its sites and its users do not come to, or only seldom. Each is told to the domain and to
//! a plain model that knows only the rule; both must come to the same.

mod files;
mod job;
mod lives;
mod measures;
mod names;
mod placement;
mod quantities;
mod queue;
mod records;
mod site;
mod tables;
mod transfer;
mod words;

use rand::SeedableRng;
use rand::rngs::StdRng;

/// Tells the stream apart.
const RULES: u64 = 0x0072_756c_6573;
/// Cases of each kind that a seed tries.
const DRAWS: usize = 12;

/// What the domain makes of some cases, and the rules do not.
pub(super) fn broken(seed: u64) -> Vec<String> {
    let mut chance = StdRng::seed_from_u64(seed ^ RULES);
    let kinds = [
        files::wrong,
        job::wrong,
        lives::wrong,
        measures::wrong,
        names::wrong,
        placement::wrong,
        quantities::wrong,
        queue::wrong,
        site::wrong,
        tables::wrong,
        transfer::wrong,
        words::wrong,
    ];
    let mut found = Vec::new();
    for wrong in kinds {
        (0..DRAWS).for_each(|_| found.extend(wrong(&mut chance)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_comes_to_what_the_rules_come_to() {
        for seed in 0..200 {
            assert_eq!(broken(seed), Vec::<String>::new(), "seed {seed}");
        }
    }
}
