//! Planted bugs, and the number of seeds until an oracle finds each.

use std::ops::Range;

use anyhow::Result;
use cospan_domain::planted_bugs::PlantedBug;

/// Progress is shown after this many seeds of one bug.
#[cfg(cospan_chaos)]
const SHOWN_EVERY: u64 = 25;

/// Hunts these bugs, each with these seeds; returns true if all were found.
///
/// # Errors
/// This program has no planted bugs.
#[cfg(not(cospan_chaos))]
pub fn hunt_all(
    _: &[PlantedBug],
    _: Range<u64>,
    _: bool,
    _: &dyn Fn(&str),
    _: &dyn Fn(&str),
) -> Result<bool> {
    anyhow::bail!("this build has no planted bugs; build it with RUSTFLAGS=\"--cfg cospan_chaos\"")
}

/// Hunts these bugs, each with these seeds; returns true if all were found. `show` gets the
/// progress, as a rare bug takes minutes.
///
/// # Errors
/// None in a chaos build.
#[cfg(cospan_chaos)]
pub fn hunt_all(
    bugs: &[PlantedBug],
    within: Range<u64>,
    markdown: bool,
    say: &dyn Fn(&str),
    show: &dyn Fn(&str),
) -> Result<bool> {
    use std::time::Instant;

    use cospan_domain::units::DurationMs;

    use crate::seeds::campaign::{CampaignSize, FoundBug, hunt};

    let size = CampaignSize {
        jobs: 60,
        sites: 3,
        length: DurationMs::from_secs(6 * 3_600),
    };
    let mut all_found = true;
    if markdown {
        say("| bug | seeds | found by |\n|---|---|---|");
    }
    for bug in bugs {
        let began = Instant::now();
        let found = hunt(
            *bug,
            within.clone(),
            size,
            &|seeds: u64, other: Option<String>| match other {
                Some(other) => show(&format!(
                    "BROKEN without a planted bug: seed {seeds}: {other}"
                )),
                None if seeds % SHOWN_EVERY == 1 => {
                    show(&format!(
                        "{bug:?}: seed {seeds}, {} s",
                        began.elapsed().as_secs()
                    ));
                }
                None => {}
            },
        );
        all_found &= found.is_some();
        let (seeds, said) = match found {
            Some(FoundBug { seeds, said }) => (seeds.to_string(), said),
            None => (
                format!("> {}", within.end - within.start),
                "not found".to_owned(),
            ),
        };
        let rule: String = said
            .split(": ")
            .next()
            .unwrap_or_default()
            .chars()
            .take(80)
            .collect();
        say(&if markdown {
            format!("| {bug:?} | {seeds} | {rule} |")
        } else {
            format!("{bug:?}: {seeds} seeds: {said}")
        });
    }
    Ok(all_found)
}
