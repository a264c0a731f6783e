//! Small scenes with a handful of jobs, in which nothing goes wrong, or one thing only. They show
//! exactly what runs full of faults cannot: how soon everything happens, what it costs in calls and
//! durable changes, and which answers and messages everybody gets.
//!
//! They are texts in `chaos-tests/scenes`; one that needs more than a script can say is code.

mod scene;
mod script;
mod stage;
#[cfg(test)]
mod tests;
mod tidy;
mod together;

use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Number of the random stream.
const SCENES: u64 = 0x7363_656e_6573;

/// Number of seeds in a row of which one plays a file: all of them would take too long.
const EACH: u64 = 4;

/// Plays one scene, and lists what went otherwise.
type Play = fn(&mut StdRng) -> Result<Vec<String>>;

/// The texts of files with scenes, by name.
macro_rules! scene_texts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../scenes/", $name, ".txt")))),*]
    };
}

/// All files with scenes, each played by one seed of [`EACH`].
const TEXTS: &[(&str, &str)] = scene_texts![
    "adapters",
    "alarms",
    "answers",
    "catalogue",
    "chunks",
    "claims",
    "collected",
    "copies",
    "cut-off",
    "deaths",
    "endings",
    "gates",
    "half",
    "holds",
    "keys",
    "messages",
    "orders",
    "outputs",
    "probes",
    "promises",
    "quiet",
    "restarts",
    "silence",
    "sources",
    "stores",
    "submissions",
    "turns",
    "uncertain",
    "verdicts",
];

/// Lists what the scenes of one seed show otherwise than was worked out.
pub fn play_scenes(seed: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, (name, text)) in (0..).zip(TEXTS) {
        let plays = (seed ^ number).is_multiple_of(EACH);
        if plays && (cfg!(cospan_chaos) || !script::needs_panics(text)) {
            wrong.extend(other_line(text).map(|line| format!("{name}: {line}")));
        }
    }
    if seed.is_multiple_of(EACH) {
        let mut chance = StdRng::seed_from_u64(seed ^ SCENES);
        let found = together::play_together(&mut chance);
        wrong.extend(found.unwrap_or_else(|problem| vec![format!("together: {problem:#}")]));
    }
    wrong
}

/// Plays a file, and returns the first line that is not as it was.
fn other_line(text: &str) -> Option<String> {
    match script::play_file(text) {
        Ok(played) => {
            let mut lines = played.lines().zip(text.lines());
            let other = lines.find(|(now, before)| now != before);
            other.map(|(now, before)| format!("{now}, and not {before}"))
        }
        Err(problem) => Some(format!("{problem:#}")),
    }
}
