//! Small scenes with a handful of jobs, in which nothing goes wrong, or one thing only. What
//! runs full of trouble cannot show is worked out exactly here: how soon everything happens,
//! what it costs in calls and durable changes, and what everybody is told.

mod alarms;
mod answers;
mod catalogue;
mod chunks;
mod claims;
mod collected;
mod copies;
mod costs;
mod cut_off;
mod deaths;
mod endings;
mod estimates;
mod glance;
mod half;
mod holds;
mod keys;
mod latencies;
mod log;
mod messages;
mod orders;
mod outputs;
mod polls;
mod probes;
mod quiet;
mod readings;
mod reigns;
mod scene;
mod silence;
mod sources;
mod stage;
mod stores;
mod submissions;
mod tidy;
mod together;
mod turns;
mod uncertain;
mod verdicts;

use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Tells the stream apart.
const SCENES: u64 = 0x7363_656e_6573;

/// Of so many seeds in a row one plays a scene: all of them would take too long.
const EACH: u64 = 4;

/// Plays one scene, and tells what went otherwise.
type Play = fn(&mut StdRng) -> Result<Vec<String>>;

/// All scenes, each played by one seed of [`EACH`].
const ALL: [(&str, Play); 32] = [
    ("alarms", alarms::wrong),
    ("answers", answers::wrong),
    ("catalogue", catalogue::wrong),
    ("chunks", chunks::wrong),
    ("claims", claims::wrong),
    ("collected", collected::wrong),
    ("copies", copies::wrong),
    ("costs", costs::wrong),
    ("cut-off", cut_off::wrong),
    ("deaths", deaths::wrong),
    ("endings", endings::wrong),
    ("estimates", estimates::wrong),
    ("half", half::wrong),
    ("holds", holds::wrong),
    ("keys", keys::wrong),
    ("latencies", latencies::wrong),
    ("messages", messages::wrong),
    ("orders", orders::wrong),
    ("outputs", outputs::wrong),
    ("polls", polls::wrong),
    ("probes", probes::wrong),
    ("quiet", quiet::wrong),
    ("readings", readings::wrong),
    ("reigns", reigns::wrong),
    ("silence", silence::wrong),
    ("sources", sources::wrong),
    ("stores", stores::wrong),
    ("submissions", submissions::wrong),
    ("together", together::wrong),
    ("turns", turns::wrong),
    ("uncertain", uncertain::wrong),
    ("verdicts", verdicts::wrong),
];

/// What scenes with numbers drawn from `seed` show otherwise than was worked out.
pub fn broken(seed: u64) -> Vec<String> {
    let all = (0..).zip(ALL);
    all.filter(|(number, _)| (seed ^ number).is_multiple_of(EACH))
        .flat_map(|(number, (name, play))| {
            // Each has a stream of its own, so that a scene more leaves the others as they are.
            let mut chance = StdRng::seed_from_u64(seed ^ SCENES ^ (number << 48));
            let wrong = play(&mut chance).unwrap_or_else(|problem| vec![format!("{problem:#}")]);
            wrong.into_iter().map(move |text| format!("{name}: {text}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_go_as_they_were_worked_out() {
        for seed in 0..60 {
            assert_eq!(broken(seed), Vec::<String>::new(), "seed {seed}");
        }
    }
}
