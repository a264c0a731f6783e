//! Lets seeds find mutants. Each mutant runs in a process of its own, which may hang, crash or use
//! up its memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// The size of each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub(crate) jobs: u32,
    pub(crate) sites: u32,
    /// Simulated hours with faults.
    pub(crate) hours: u32,
    /// Number of seeds, starting with 1.
    pub(crate) seeds: u64,
}

impl std::str::FromStr for Setting {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(',').collect();
        let [jobs, sites, hours, seeds] = parts[..] else {
            bail!("a setting is JOBS,SITES,HOURS,SEEDS, such as 60,3,6,1000; not {text:?}");
        };
        Ok(Self {
            jobs: jobs.parse()?,
            sites: sites.parse()?,
            hours: hours.parse()?,
            seeds: seeds.parse()?,
        })
    }
}

/// The fate of a mutant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MutantFate {
    /// A unit test failed, or did not end.
    UnitTest(String),
    /// An oracle found a broken rule in the run of this seed.
    Rule(u64, String),
    /// A part of the control plane panicked, but no rule was broken.
    Panic(u64, String),
    /// A run did not end in time.
    Timeout(u64),
    /// The process died.
    Died(u64, String),
    /// All seeds passed.
    Survived,
    /// No seed reached it.
    NotReached,
}

/// A line of the results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HuntResult {
    /// Number of the mutant in the list.
    pub(crate) mutant: u32,
    pub(crate) setting: Setting,
    pub(crate) fate: MutantFate,
}

/// The seeds that reach each mutant.
pub(crate) type Reach = BTreeMap<u32, Vec<u64>>;

/// The program that runs seeds.
pub(crate) struct SeedRunner {
    pub(crate) program: PathBuf,
    /// Limit of one run; a slower one counts as not ending.
    pub(crate) limit_seconds: u64,
    /// Memory limit of a process, in MiB.
    pub(crate) memory_mib: u64,
}

impl SeedRunner {
    fn start(&self, mutant: &str, setting: Setting, seeds: &[u64]) -> Result<std::process::Child> {
        let limit = format!("ulimit -v {} && exec \"$@\"", self.memory_mib * 1_024);
        let numbers = [setting.jobs, setting.sites, setting.hours].map(|n| n.to_string());
        let mut child = Command::new("sh")
            .args(["-c", &limit, "sh"])
            .arg(&self.program)
            .arg(mutant)
            .args(numbers)
            .arg(self.limit_seconds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the runner")?;
        let mut input = child.stdin.take().context("its input")?;
        let seeds: String = seeds.iter().map(|seed| format!("{seed}\n")).collect();
        // The process may exit before it has read all of them.
        std::thread::spawn(move || input.write_all(seeds.as_bytes()));
        Ok(child)
    }

    /// Runs the seeds without a mutant and records which mutants each one reaches. A seed that
    /// fails reaches none.
    ///
    /// # Errors
    /// The runner ends early.
    pub(crate) fn measure_reach(&self, setting: Setting) -> Result<Reach> {
        let seeds: Vec<u64> = (1..=setting.seeds).collect();
        let half = seeds.len().div_ceil(2);
        let reaches = std::thread::scope(|scope| {
            let parts = seeds
                .chunks(half)
                .map(|part| scope.spawn(|| self.run_baseline(setting, part)));
            let parts: Vec<_> = parts.collect();
            parts
                .into_iter()
                .map(|part| part.join())
                .collect::<Vec<_>>()
        });
        let mut all = Reach::new();
        for part in reaches {
            for (mutant, seeds) in part.map_err(|_| anyhow::anyhow!("a thread broke"))?? {
                all.entry(mutant).or_default().extend(seeds);
            }
        }
        all.values_mut().for_each(|seeds| seeds.sort_unstable());
        Ok(all)
    }

    fn run_baseline(&self, setting: Setting, seeds: &[u64]) -> Result<Reach> {
        let mut child = self.start("none", setting, seeds)?;
        let output = BufReader::new(child.stdout.take().context("its output")?);
        let mut reach = Reach::new();
        let mut count = 0;
        for line in output.lines() {
            let line = line?;
            count += 1;
            let parts: Vec<&str> = line.split('\t').collect();
            let [seed, "holds", reached] = parts[..] else {
                // This seed would seem to find every mutant.
                println!("left out, it does not hold without a mutant: {line}");
                continue;
            };
            for mutant in reached.split(' ').filter(|text| !text.is_empty()) {
                reach
                    .entry(mutant.parse()?)
                    .or_default()
                    .push(seed.parse()?);
            }
        }
        let status = child.wait()?;
        if count != seeds.len() {
            bail!("the runner without a mutant ended early: {status}");
        }
        Ok(reach)
    }

    /// Runs seeds with this mutant until one finds it.
    ///
    /// # Errors
    /// The runner cannot be started.
    pub(crate) fn hunt(&self, mutant: u32, setting: Setting, seeds: &[u64]) -> Result<MutantFate> {
        if seeds.is_empty() {
            return Ok(MutantFate::NotReached);
        }
        let mut child = self.start(&mutant.to_string(), setting, seeds)?;
        let output = BufReader::new(child.stdout.take().context("its output")?);
        let mut held = 0;
        let mut fate = None;
        for line in output.lines() {
            let line = line?;
            let mut parts = line.splitn(3, '\t');
            let seed = parts.next().unwrap_or("").parse().unwrap_or(0);
            let how = parts.next().unwrap_or("");
            let said = parts.next().unwrap_or("").to_owned();
            fate = match how {
                "rule" => Some(MutantFate::Rule(seed, said)),
                "panic" => Some(MutantFate::Panic(seed, said)),
                "timeout" => Some(MutantFate::Timeout(seeds.get(held).copied().unwrap_or(0))),
                _ => None,
            };
            held += 1;
            if fate.is_some() {
                break;
            }
        }
        if fate.is_some() {
            // It may have exited already.
            drop(child.kill());
        }
        let status = child.wait()?;
        Ok(fate.unwrap_or_else(|| match seeds.get(held) {
            Some(seed) => MutantFate::Died(*seed, status.to_string()),
            None => MutantFate::Survived,
        }))
    }
}

/// Tries these mutants, several at once.
///
/// # Errors
/// One could not be tried.
pub(crate) fn try_each(
    mutants: &[u32],
    at_once: usize,
    attempt: &(dyn Fn(u32) -> Result<()> + Sync),
) -> Result<()> {
    let next = Mutex::new(mutants.iter());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once.max(1))
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    loop {
                        let mutant = next
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .next()
                            .copied();
                        let Some(mutant) = mutant else { return Ok(()) };
                        attempt(mutant)?;
                    }
                })
            })
            .collect();
        for worker in workers {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("a thread broke"))??;
        }
        Ok(())
    })
}

/// Returns a fate if a unit test finds the mutant. Each program has this time limit, and passes
/// without a mutant.
///
/// # Errors
/// A program cannot be started.
pub(crate) fn run_unit_tests(
    programs: &[PathBuf],
    mutant: u32,
    limit_seconds: u64,
) -> Result<Option<MutantFate>> {
    for program in programs {
        let output = Command::new("timeout")
            .arg(limit_seconds.to_string())
            .arg(program)
            .args(["--quiet", "--test-threads=1"])
            .env("COSPAN_MUTANT", mutant.to_string())
            // A case that fails with one mutant must not be tried on the next: it would count
            // there, and would stay in the work tree.
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
            .stderr(Stdio::null())
            .output()
            .context("cannot start the unit tests")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout);
            let failed = said.lines().find_map(|line| line.strip_prefix("---- "));
            let failed = failed.map_or("they did not end", |name| {
                name.trim_end_matches(" stdout ----")
            });
            return Ok(Some(MutantFate::UnitTest(failed.to_owned())));
        }
    }
    Ok(None)
}

/// Reads the results so far, by mutant and setting.
///
/// # Errors
/// The file is not what this program wrote.
pub(crate) fn read_outcomes(path: &Path) -> Result<Vec<HuntResult>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(Vec::new());
    };
    text.lines()
        .map(|line| Ok(serde_json::from_str(line)?))
        .collect()
}
