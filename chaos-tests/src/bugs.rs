//! Planted bugs, and the number of seeds until an oracle finds each.
//!
//! All of them are in one copy of the sources, which is built once. The environment names the one
//! that is to show.

mod planted_build;
pub mod source_edits;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;
use source_edits::{BugList, PlantedBug};

use crate::parallel;

/// Names the bug that the program in the copy is to have.
const VARIABLE: &str = "COSPAN_PLANTED_BUG";

/// Jobs, sites and hours of trouble of each seed.
const SIZE: [&str; 6] = ["--jobs", "60", "--sites", "3", "--hours", "6"];

/// The way in which a planted bug was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FoundBug {
    /// Number of seeds that it took.
    seeds: u64,
    /// The first line of the oracle.
    problem: String,
}

/// Seeds to hunt bugs with.
#[derive(Debug, Clone)]
pub struct BugHunt {
    /// The program in the copy.
    program: PathBuf,
    pub seeds: Range<u64>,
    pub markdown: bool,
}

/// Returns the tree that this program was built from.
fn tree() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Reads the list of all bugs.
///
/// # Errors
/// The tree that this program was built from is gone, or its list is none.
pub fn list_bugs() -> Result<BugList> {
    BugList::read(tree())
}

impl BugHunt {
    /// Builds the laboratory with the bugs of the list planted.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn build(list: &BugList, seeds: Range<u64>, markdown: bool) -> Result<Self> {
        Ok(Self {
            program: planted_build::build_planted(tree(), list)?,
            seeds,
            markdown,
        })
    }

    /// Hunts these bugs; returns true if all were found. `show` gets the progress, as a rare bug
    /// takes minutes.
    ///
    /// # Errors
    /// The program in the copy ends without a verdict.
    pub fn hunt_all(
        &self,
        bugs: &[PlantedBug],
        say: &dyn Fn(&str),
        show: &(dyn Fn(&str) + Sync),
    ) -> Result<bool> {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut outcomes = BTreeMap::new();
        parallel::at_once(
            bugs,
            processors,
            |bug| self.hunt(&bug.name, show),
            |bug, outcome| {
                show(&format!("{} is done", bug.name));
                outcomes.insert(bug.name.clone(), outcome);
            },
        );
        if self.markdown {
            say("| bug | seeds | found by |\n|---|---|---|");
        }
        let mut all_found = true;
        for PlantedBug { name, .. } in bugs {
            let found = outcomes.remove(name).context(name.clone())??;
            all_found &= found.is_some();
            say(&self.format_outcome(name, found));
        }
        Ok(all_found)
    }

    /// Runs the seeds with a bug until an oracle finds it; `None` if they did not. A seed that
    /// breaks a rule without the bug as well found another one.
    fn hunt(&self, bug: &str, show: &(dyn Fn(&str) + Sync)) -> Result<Option<FoundBug>> {
        let mut seeds = self.seeds.clone();
        while let Some((seed, problem)) = self.find_broken(Some(bug), seeds.clone())? {
            match self.find_broken(None, seed..seed + 1)? {
                None => {
                    let seeds = seed - self.seeds.start + 1;
                    return Ok(Some(FoundBug { seeds, problem }));
                }
                Some((_, other)) => {
                    show(&format!(
                        "BROKEN without a planted bug: seed {seed}: {other}"
                    ));
                }
            }
            seeds.start = seed + 1;
        }
        Ok(None)
    }

    /// Returns the first of these seeds that broke a rule, and its first problem.
    fn find_broken(&self, bug: Option<&str>, seeds: Range<u64>) -> Result<Option<(u64, String)>> {
        if seeds.is_empty() {
            return Ok(None);
        }
        let count = seeds.end - seeds.start;
        let output = Command::new(&self.program)
            .args(["run", "--json", "--until-broken", "--at-once", "1"])
            .args(SIZE)
            .args(["--first", &seeds.start.to_string()])
            .args(["--seeds", &count.to_string()])
            .env(VARIABLE, bug.unwrap_or_default())
            .stderr(Stdio::null())
            .output()
            .context("cannot start the program in the copy")?;
        let campaign: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("no verdict on {}", bug.unwrap_or("seeds without a bug")))?;
        let Some(broken) = campaign["broken"].get(0) else {
            return Ok(None);
        };
        let problem = [&broken["safety"][0], &broken["liveness"], &broken["failed"]]
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default();
        let seed = broken["seed"].as_u64().context("a seed has no number")?;
        Ok(Some((seed, problem.to_owned())))
    }

    fn format_outcome(&self, name: &str, found: Option<FoundBug>) -> String {
        let (seeds, problem) = match found {
            Some(FoundBug { seeds, problem }) => (seeds.to_string(), problem),
            None => (
                format!("> {}", self.seeds.end - self.seeds.start),
                "not found".to_owned(),
            ),
        };
        if !self.markdown {
            return format!("{name}: {seeds} seeds: {problem}");
        }
        let rule = problem.split(": ").next().unwrap_or_default();
        let rule: String = rule.chars().take(80).collect();
        format!("| {name} | {seeds} | {rule} |")
    }
}
