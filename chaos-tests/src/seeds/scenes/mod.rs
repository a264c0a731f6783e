//! Small scenes with a handful of jobs, in which nothing goes wrong, or one thing only. They work
//! out exactly what runs full of faults cannot show: how soon everything happens, what it costs in
//! calls and durable changes, and which answers and messages everybody gets.

mod alarms;
mod answers;
mod assertions;
mod catalogue;
mod chunks;
mod claims;
mod collected;
mod copies;
mod cut_off;
mod deaths;
mod endings;
mod gates;
mod half;
mod holds;
mod keys;
mod log;
mod messages;
mod orders;
mod outputs;
mod probes;
mod promises;
mod quiet;
mod restarts;
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

/// Number of the random stream.
const SCENES: u64 = 0x7363_656e_6573;

/// Number of seeds in a row of which one plays a scene: all of them would take too long.
const EACH: u64 = 4;

/// Plays one scene, and lists what went otherwise.
type Play = fn(&mut StdRng) -> Result<Vec<String>>;

/// All scenes, each played by one seed of [`EACH`]. Each has a number that stays, and draws from
/// a stream of its own, so that a scene more or less leaves the others as they are.
const ALL: [(u64, &str, Play); 30] = [
    (0, "alarms", alarms::play_alarms),
    (1, "answers", answers::play_answers),
    (2, "catalogue", catalogue::play_catalogue),
    (3, "chunks", chunks::play_chunks),
    (4, "claims", claims::play_claims),
    (5, "collected", collected::play_collected),
    (6, "copies", copies::play_copies),
    (8, "cut-off", cut_off::play_cut_off),
    (9, "deaths", deaths::play_deaths),
    (10, "endings", endings::play_endings),
    (12, "half", half::play_half),
    (13, "holds", holds::wrong),
    (14, "keys", keys::play_keys),
    (16, "messages", messages::play_messages),
    (17, "orders", orders::play_orders),
    (18, "outputs", outputs::play_outputs),
    (20, "probes", probes::play_probes),
    (21, "quiet", quiet::play_quiet),
    (23, "restarts", restarts::play_restarts),
    (24, "silence", silence::play_silence),
    (25, "sources", sources::play_sources),
    (26, "stores", stores::play_stores),
    (27, "submissions", submissions::play_submissions),
    (28, "together", together::play_together),
    (29, "turns", turns::play_turns),
    (30, "uncertain", uncertain::play_uncertain),
    (31, "verdicts", verdicts::play_verdicts),
    (32, "gates", gates::play_gates),
    (33, "promises", promises::play_reservations),
    (40, "accused", probes::play_accused_user),
];

/// Lists what scenes with numbers drawn from `seed` show otherwise than was worked out.
pub fn play_scenes(seed: u64) -> Vec<String> {
    let played = ALL
        .into_iter()
        .filter(|(number, ..)| (seed ^ number).is_multiple_of(EACH));
    played
        .flat_map(|(number, name, play)| {
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
        for seed in 0..12 {
            assert_eq!(play_scenes(seed), Vec::<String>::new(), "seed {seed}");
        }
    }
}
