//! Draws scenarios of two acts each, dealt from a shuffled deck, so that a run has all acts about
//! equally often.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::differ_scenario::{DifferScenario, ScriptStep};
use super::scenario_parts::{self, ScenarioDraft};

/// Acts of a scenario.
const ACTS: usize = 2;
/// Processors of the sites. They are so far apart that the same site has the most left, whatever
/// the jobs of an act use.
const PROCESSORS: [u32; 4] = [7, 16, 25, 34];

/// Draws the first `count` scenarios of a seed; they are the same whatever `count` is.
pub(super) fn scenarios(seed: u64, count: usize) -> Vec<DifferScenario> {
    let mut deck = StdRng::seed_from_u64(seed);
    let mut cards: Vec<usize> = Vec::new();
    (0..count)
        .map(|number| {
            if cards.len() < ACTS {
                cards = (0..scenario_parts::ALL.len()).collect();
                cards.shuffle(&mut deck);
            }
            let mut dealt = cards.split_off(cards.len() - ACTS);
            // Acts that leave copies under way come last, so that the links are free before.
            dealt.sort_unstable();
            draw(number, &dealt, seed)
        })
        .collect()
}

fn draw(number: usize, dealt: &[usize], seed: u64) -> DifferScenario {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(1 + number as u64));
    let least = dealt
        .iter()
        .map(|act| scenario_parts::ALL[*act].sites)
        .max()
        .unwrap_or(1);
    let mut processors = PROCESSORS;
    processors.shuffle(&mut random);
    let sites = random.random_range(least..=PROCESSORS.len());
    let mut scenario = DifferScenario {
        number,
        processors: processors[..sites].to_vec(),
        script: vec![ScriptStep::Rest],
        ..DifferScenario::default()
    };
    for act in dealt.iter().map(|act| &scenario_parts::ALL[*act]) {
        scenario.acts.push(act.name);
        (act.play)(&mut ScenarioDraft {
            scenario: &mut scenario,
            random: &mut random,
        });
        scenario.script.push(ScriptStep::Rest);
    }
    scenario
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_draws_the_same_scenarios_however_many_are_asked_for() {
        let few = scenarios(7, 5);
        let many = scenarios(7, 50);
        for (one, other) in few.iter().zip(&many) {
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
        assert_ne!(format!("{:?}", scenarios(8, 5)), format!("{few:?}"));
    }

    #[test]
    fn fifty_scenarios_have_every_act_and_at_most_six_jobs_each() {
        let all = scenarios(1, 50);
        let acts: BTreeSet<&str> = all.iter().flat_map(|s| s.acts.iter().copied()).collect();
        assert_eq!(acts.len(), scenario_parts::ALL.len());
        assert!(all.iter().all(|s| (1..=6).contains(&s.jobs.len())));
        assert!(
            all.iter()
                .all(|s| s.jobs.iter().all(|job| job.components.len() <= 3))
        );
    }
}
