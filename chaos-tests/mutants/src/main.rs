//! Plants the mutants that cargo-mutants lists into a copy of the sources, all in one
//! build, and lets seeds of chaos find a random sample of them.
//!
//! ```console
//! $ cargo mutants --list --json -p cospan-domain -p cospan-actors > target/mutants/list.json
//! $ cargo run --release --manifest-path chaos-tests/mutants/Cargo.toml -- plant
//! $ cargo run --release --manifest-path chaos-tests/mutants/Cargo.toml -- hunt
//! $ cargo run --release --manifest-path chaos-tests/mutants/Cargo.toml -- table
//! ```

mod copy;
mod hunt;
mod listed;
mod places;
mod rewrite;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use copy::TreeCopy;
use hunt::{HuntResult, MutantFate, Reach, SeedRunner, Setting, read_outcomes, try_each};
use listed::Mutant;
use rewrite::Impossible;

/// File that lists the programs of the unit tests.
const TESTS: &str = "tests.json";

/// Limit of a unit test program; a slower one counts as not ending.
const TEST_SECONDS: u64 = 120;

/// Rounds of asking the compiler which mutants it accepts; each kind of error hides the next.
const BUILDS_MAX: usize = 40;

/// Plants mutants into a copy of the sources and lets seeds of chaos find them.
#[derive(Debug, Parser)]
struct MutantsCli {
    /// The work tree; its committed state is copied
    #[arg(long, default_value = ".")]
    tree: PathBuf,
    /// Directory of the list, the copy and the results
    #[arg(long, default_value = "target/mutants")]
    work: PathBuf,
    /// Seed of the sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of mutants in the sample
    #[arg(long, default_value_t = 150)]
    sample: usize,
    #[command(subcommand)]
    what: MutantsCommand,
}

#[derive(Debug, Subcommand)]
enum MutantsCommand {
    /// Copy the sources, put all mutants behind switches, drop those that do not
    /// compile, and build the program that runs seeds
    Plant,
    /// Run seeds with each mutant of the sample until one finds it
    Hunt {
        /// JOBS,SITES,HOURS,SEEDS; a later one is tried on what survived the one before
        #[arg(long, default_values = ["60,3,6,80", "200,5,24,8"])]
        setting: Vec<Setting>,
        /// Processes at once
        #[arg(long, default_value_t = 2)]
        at_once: usize,
        /// Limit of a run in seconds, after which it counts as not ending
        #[arg(long, default_value_t = 30)]
        limit_seconds: u64,
        /// Memory limit of a process
        #[arg(long, default_value_t = 3_000)]
        memory_mib: u64,
    },
    /// Print the sample, a line each: number and mutant
    Sample,
    /// Print the results as a page of the book
    Table {
        /// Remarks about survivors: key, kind and remark between tabs
        #[arg(long, default_value = "chaos-tests/mutants/survivors.tsv")]
        survivors: PathBuf,
    },
}

/// The list of mutants with all results.
struct KnownMutants {
    work: PathBuf,
    mutants: BTreeMap<u32, Mutant>,
    impossible: BTreeMap<u32, Impossible>,
    unviable: BTreeSet<u32>,
}

impl KnownMutants {
    fn read(cli: &MutantsCli) -> Result<Self> {
        let listed = listed::read(&cli.work.join("list.json"))?;
        let mutants: BTreeMap<u32, Mutant> = (0..).zip(listed).collect();
        let unviable = match std::fs::read(cli.work.join("unviable.json")) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(_) => BTreeSet::new(),
        };
        let impossible = TreeCopy::impossible(&cli.tree, &mutants)?;
        Ok(Self {
            work: cli.work.clone(),
            mutants,
            impossible,
            unviable,
        })
    }

    /// Returns the mutants that are in the build.
    fn planted_mutants(&self) -> BTreeSet<u32> {
        let left_out =
            |number: &u32| self.impossible.contains_key(number) || self.unviable.contains(number);
        self.mutants
            .keys()
            .copied()
            .filter(|number| !left_out(number))
            .collect()
    }

    fn sample(&self, seed: u64, size: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.mutants.keys().copied().collect();
        numbers.shuffle(&mut StdRng::seed_from_u64(seed));
        let planted = self.planted_mutants();
        numbers
            .into_iter()
            .filter(|number| planted.contains(number))
            .take(size)
            .collect()
    }
}

fn main() -> Result<()> {
    let cli = MutantsCli::parse();
    let known = KnownMutants::read(&cli)?;
    match &cli.what {
        MutantsCommand::Plant => plant(&cli, known),
        MutantsCommand::Hunt {
            setting,
            at_once,
            limit_seconds,
            memory_mib,
        } => {
            let runner = SeedRunner {
                program: std::path::absolute(cli.work.join("target/release/mutant_seeds"))?,
                limit_seconds: *limit_seconds,
                memory_mib: *memory_mib,
            };
            hunt(&cli, &known, &runner, setting, *at_once)
        }
        MutantsCommand::Sample => {
            for number in known.sample(cli.seed, cli.sample) {
                println!("{number}\t{}", known.mutants[&number].name);
            }
            Ok(())
        }
        MutantsCommand::Table { survivors } => {
            let outcomes = read_outcomes(&cli.work.join("outcomes.jsonl"))?;
            let sample = known.sample(cli.seed, cli.sample);
            let remarks = table::read_remarks(&cli.tree.join(survivors))?;
            print!(
                "{}",
                table::page(&known, &sample, cli.seed, &outcomes, &remarks)?
            );
            Ok(())
        }
    }
}

fn plant(cli: &MutantsCli, mut known: KnownMutants) -> Result<()> {
    let work = std::path::absolute(&cli.work)?;
    let copy = TreeCopy {
        root: work.join("copy"),
        target: work.join("target"),
    };
    extract(&cli.tree, &copy.root)?;
    for round in 1..=BUILDS_MAX {
        let planted = known.planted_mutants();
        copy.write(&cli.tree, &known.mutants, &planted)?;
        let refused = copy.build()?;
        println!(
            "build {round}: {} planted, {} refused",
            planted.len(),
            refused.mutants.len()
        );
        ensure!(
            !refused.mutants.is_empty() || refused.others.is_empty(),
            "the copy does not compile, whatever is planted:\n{}",
            refused.others.join("\n")
        );
        if refused.mutants.is_empty() {
            let tests = serde_json::to_vec(&copy.build_tests()?)?;
            return std::fs::write(known.work.join(TESTS), tests).context("cannot write tests");
        }
        known.unviable.extend(refused.mutants);
        let unviable = serde_json::to_vec(&known.unviable)?;
        std::fs::write(known.work.join("unviable.json"), unviable)?;
    }
    anyhow::bail!("still refused after {BUILDS_MAX} rounds")
}

/// Copies the committed state, not uncommitted changes. Files that are unchanged are not written
/// again, or all would be compiled again.
fn extract(tree: &Path, to: &Path) -> Result<()> {
    let mut git = Command::new("git");
    let head = git
        .arg("-C")
        .arg(tree)
        .args(["rev-parse", "HEAD"])
        .output()?
        .stdout;
    let mark = to.with_extension("commit");
    if std::fs::read(&mark).is_ok_and(|before| before == head) {
        return Ok(());
    }
    std::fs::create_dir_all(to)?;
    let archive = to.with_extension("tar");
    let mut git = Command::new("git");
    let made = git
        .arg("-C")
        .arg(tree)
        .args(["archive", "HEAD", "-o"])
        .arg(&archive)
        .status()?;
    ensure!(made.success(), "git archive failed");
    let unpacked = Command::new("tar")
        .arg("xf")
        .arg(&archive)
        .arg("-C")
        .arg(to)
        .status()?;
    ensure!(unpacked.success(), "tar failed");
    std::fs::write(mark, head).context("cannot write the mark of the copy")
}

fn hunt(
    cli: &MutantsCli,
    known: &KnownMutants,
    runner: &SeedRunner,
    settings: &[Setting],
    at_once: usize,
) -> Result<()> {
    let results = cli.work.join("outcomes.jsonl");
    let sample = known.sample(cli.seed, cli.sample);
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&results);
    let file = Mutex::new(file.context("cannot write results")?);
    let tried = read_outcomes(&results)?;
    let new: Vec<u32> = sample
        .iter()
        .copied()
        .filter(|mutant: &u32| tried.iter().all(|outcome| outcome.mutant != *mutant))
        .collect();
    let programs: Vec<PathBuf> = serde_json::from_slice(&std::fs::read(cli.work.join(TESTS))?)?;
    try_each(&new, at_once, &|mutant| {
        let fate = hunt::run_unit_tests(&programs, mutant, TEST_SECONDS)?;
        fate.map_or(Ok(()), |fate| {
            let setting = settings[0];
            let outcome = HuntResult {
                mutant,
                setting,
                fate,
            };
            note_outcome(known, &file, &outcome)
        })
    })?;
    for setting in settings {
        let reach = read_or_measure_reach(&cli.work, runner, *setting)?;
        let before = read_outcomes(&results)?;
        let open = sample.iter().copied().filter(|mutant| {
            !before
                .iter()
                .any(|o| o.mutant == *mutant && (o.setting == *setting || is_killed(&o.fate)))
        });
        let open: Vec<u32> = open.collect();
        println!("{setting:?}: {} of {} to hunt", open.len(), sample.len());
        try_each(&open, at_once, &|mutant| {
            let seeds = reach.get(&mutant).map_or(&[][..], Vec::as_slice);
            let fate = runner.hunt(mutant, *setting, seeds)?;
            let setting = *setting;
            let outcome = HuntResult {
                mutant,
                setting,
                fate,
            };
            note_outcome(known, &file, &outcome)
        })?;
    }
    Ok(())
}

fn note_outcome(
    known: &KnownMutants,
    file: &Mutex<std::fs::File>,
    outcome: &HuntResult,
) -> Result<()> {
    let name = known
        .mutants
        .get(&outcome.mutant)
        .map_or("", |mutant| &mutant.name);
    println!("{}: {:?}: {name}", outcome.mutant, outcome.fate);
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(file, "{}", serde_json::to_string(outcome)?).context("cannot write results")
}

/// Returns true if seeds found the mutant.
fn is_killed(fate: &MutantFate) -> bool {
    !matches!(fate, MutantFate::Survived | MutantFate::NotReached)
}

fn read_or_measure_reach(work: &Path, runner: &SeedRunner, setting: Setting) -> Result<Reach> {
    let Setting {
        jobs,
        sites,
        hours,
        seeds,
    } = setting;
    let path = work.join(format!("reach-{jobs}-{sites}-{hours}-{seeds}.json"));
    if let Ok(text) = std::fs::read(&path) {
        return Ok(serde_json::from_slice(&text)?);
    }
    println!("{seeds} seeds without a mutant");
    let reach = runner.measure_reach(setting)?;
    std::fs::write(&path, serde_json::to_vec(&reach)?)?;
    Ok(reach)
}
