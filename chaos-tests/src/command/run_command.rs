//! `cospan-chaos run`: seeds of chaos under virtual time, and their outcomes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use cospan_domain::units::DurationMs;
use cospan_simulator::world::site_faults::FaultEffectCounts;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::seeds::campaign::{CampaignSize, run_seeds, shortest};
use crate::seeds::coverage::{Fared, coverage_of, covered_share};
use crate::seeds::run::SeedVerdict;
use crate::seeds::seed_scenario::BEGINS;

#[derive(Debug, Args)]
pub struct SeedsArgs {
    /// Number of seeds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// The first seed; the others follow [default: drawn, and printed]
    #[arg(long)]
    pub first: Option<u64>,
    /// Jobs of each run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub jobs: u64,
    /// Sites of each run: with a single one, its silence could not be told from our own
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=5))]
    pub sites: u64,
    /// Simulated hours with faults
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8_760))]
    pub hours: u64,
    /// Seeds at the same time [default: one for each processor]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pub at_once: Option<u64>,
    /// Begin no more seeds once one has broken a rule, and look for no shorter run that breaks it
    #[arg(long)]
    pub until_broken: bool,
    /// Print what happened to each job of a seed that broke a rule, or of the only seed
    #[arg(long)]
    pub timeline: bool,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Broken rules that are printed of one seed; one cause may break the same rule often.
const RULES_TOLD: usize = 8;

/// The result of a campaign.
#[derive(Debug, Default, Serialize)]
struct Campaign {
    first: u64,
    seeds: u64,
    held: u64,
    seconds: f64,
    seeds_per_minute: f64,
    durable_changes: u64,
    control_plane_runs: u64,
    /// Faults that had an effect, by kind and step of the protocol.
    #[serde(serialize_with = "joined")]
    struck: FaultEffectCounts,
    /// Hash of everything that happened in the seeds that were run, in their order.
    hash: String,
    /// The share of the pairs of kind and step that were hit at least once.
    coverage: f64,
    /// True if in no seed anything forbidden happened under faults.
    safety: SeedsVerdict,
    /// True if every seed converged once the faults had stopped.
    liveness: SeedsVerdict,
    broken: Vec<BrokenSeed>,
    #[serde(skip)]
    hashes: BTreeMap<u64, String>,
}

/// A verdict on all seeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum SeedsVerdict {
    #[default]
    Holds,
    Broken,
}

impl SeedsVerdict {
    fn and_holds(&mut self, holds: bool) {
        if !holds {
            *self = SeedsVerdict::Broken;
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            SeedsVerdict::Holds => "holds",
            SeedsVerdict::Broken => "BROKEN",
        }
    }
}

#[derive(Debug, Serialize)]
struct BrokenSeed {
    seed: u64,
    drawn: String,
    /// Forbidden things that happened under faults.
    safety: Vec<String>,
    /// A description of what did not come about after the faults had stopped.
    liveness: Option<String>,
    /// The simulation failed, or a store could no longer be opened.
    failed: Option<String>,
    /// The number of actions of users that are enough to reproduce it, if that was searched for.
    actions: Option<usize>,
    replay: String,
}

/// Runs seeds on simulated sites; returns true if all of them held. `say` prints the results,
/// `note` the progress.
///
/// # Errors
/// There are no such seeds.
pub fn run(args: &SeedsArgs, say: &dyn Fn(&str), note: &(dyn Fn(&str) + Sync)) -> Result<bool> {
    let first = args.first.unwrap_or_else(drawn_seed);
    let last = last_seed(first, args.seeds)?;
    note(&format!("seeds {first} to {last}"));
    let campaign = Mutex::new(Campaign {
        first,
        seeds: args.seeds,
        ..Campaign::default()
    });
    let begun = Instant::now();
    run_seeds(
        first,
        args.seeds,
        processes_at_once(args),
        size(args),
        &|seed, verdict| {
            let mut campaign = campaign.lock().unwrap_or_else(PoisonError::into_inner);
            let text = campaign.add(seed, verdict, args);
            if !args.json {
                note(&text);
            }
            if args.until_broken && !campaign.broken.is_empty() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    );
    let mut campaign = campaign
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    // In order of seeds, so that the report does not depend on how many run at once.
    campaign.broken.sort_by_key(|broken| broken.seed);
    campaign.seconds = begun.elapsed().as_secs_f64();
    campaign.coverage = covered_share(&coverage_of(&campaign.struck));
    campaign.hash = joint_hash(&campaign.hashes);
    campaign.seeds_per_minute = args.seeds as f64 * 60.0 / campaign.seconds.max(0.001);
    say(&if args.json {
        serde_json::to_string_pretty(&campaign)?
    } else {
        table(&campaign)
    });
    // A seed that was never run did not hold either.
    Ok(campaign.held == args.seeds)
}

/// Returns the last of at least one seed, counting from `first`.
fn last_seed(first: u64, seeds: u64) -> Result<u64> {
    let further = seeds.saturating_sub(1);
    first.checked_add(further).with_context(|| {
        format!(
            "{seeds} seeds from {first} on end behind the largest number, {}; begin at {} at most \
             (--first), or run fewer (--seeds)",
            u64::MAX,
            u64::MAX - further
        )
    })
}

/// Hashes the hashes of all seeds.
fn joint_hash(hashes: &BTreeMap<u64, String>) -> String {
    let mut hasher = blake3::Hasher::new();
    for (seed, hash) in hashes {
        hasher.update(&seed.to_le_bytes()).update(hash.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

fn drawn_seed() -> u64 {
    u64::from(StdRng::from_os_rng().random::<u32>())
}

fn processes_at_once(args: &SeedsArgs) -> usize {
    args.at_once.map_or_else(
        || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        |count| count as usize,
    )
}

fn size(args: &SeedsArgs) -> CampaignSize {
    let length = DurationMs::from_secs(args.hours * 3_600);
    CampaignSize {
        jobs: args.jobs as usize,
        sites: args.sites as usize,
        length,
    }
}

impl Campaign {
    /// Adds a verdict and returns the text to print.
    fn add(&mut self, seed: u64, verdict: anyhow::Result<SeedVerdict>, args: &SeedsArgs) -> String {
        let SeedsArgs {
            jobs, sites, hours, ..
        } = args;
        let size_words = format!("--jobs {jobs} --sites {sites} --hours {hours}");
        let replay = format!("cospan-chaos run --first {seed} --seeds 1 {size_words} --timeline");
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(problem) => {
                let text = format!("BROKEN seed {seed}: {problem:#}\n  {replay}");
                self.safety.and_holds(false);
                let drawn = String::new();
                let failed = Some(format!("{problem:#}"));
                let (safety, liveness, actions) = Default::default();
                self.broken.push(BrokenSeed {
                    seed,
                    drawn,
                    safety,
                    liveness,
                    failed,
                    actions,
                    replay,
                });
                return text;
            }
        };
        self.hashes.insert(seed, verdict.hash.clone());
        self.safety.and_holds(verdict.unsafe_.is_empty());
        self.liveness.and_holds(verdict.not_live.is_none());
        self.durable_changes += verdict.changes;
        self.control_plane_runs += verdict.control_plane_runs as u64;
        verdict
            .struck
            .iter()
            .for_each(|(pair, count)| *self.struck.entry(*pair).or_default() += count);
        let struck: u64 = verdict.struck.values().sum();
        let (acknowledged, finished) = verdict.jobs;
        let mut text = format!(
            "{}: {acknowledged} jobs, {finished} finished, {} lives, {struck} faults, hash {}",
            verdict.drawn, verdict.control_plane_runs, verdict.hash
        );
        let shows = args.timeline && (args.seeds == 1 || !verdict.holds());
        if shows {
            text += &timeline(&verdict);
        }
        if verdict.holds() {
            self.held += 1;
            return format!("ok     {text}");
        }
        self.add_broken(seed, verdict, args, replay, &text)
    }

    fn add_broken(
        &mut self,
        seed: u64,
        verdict: SeedVerdict,
        args: &SeedsArgs,
        replay: String,
        text: &str,
    ) -> String {
        let SeedVerdict {
            drawn,
            unsafe_: safety,
            not_live: liveness,
            ..
        } = verdict;
        let late = liveness.iter().map(|text| format!("liveness: {text}"));
        let wrong = safety.iter().map(|text| format!("safety: {text}"));
        let rules: Vec<String> = late.chain(wrong).collect();
        // A second run of a failing seed costs little; that it no longer fails is worth knowing
        // too.
        let shorter = (!args.until_broken).then(|| shortest(seed, size(args)).ok().flatten());
        let actions = shorter.flatten().map(|(actions, _)| actions);
        let mut told = format!("BROKEN {text}");
        rules
            .iter()
            .take(RULES_TOLD)
            .for_each(|rule| told += &format!("\n  {rule}"));
        if rules.len() > RULES_TOLD {
            told += &format!("\n  and {} more", rules.len() - RULES_TOLD);
        }
        if let Some(actions) = actions {
            told += &format!("\n  the first {actions} actions of its users are enough");
        }
        told += &format!("\n  replay: {replay}");
        let failed = None;
        self.broken.push(BrokenSeed {
            seed,
            drawn,
            safety,
            liveness,
            failed,
            actions,
            replay,
        });
        told
    }
}

fn timeline(verdict: &SeedVerdict) -> String {
    let mut text = String::new();
    for (at, job, what) in &verdict.timeline {
        let seconds = at.since(BEGINS).as_secs_f64();
        // Writing to a String cannot fail.
        let job = job.map(|job| format!("job {job}  ")).unwrap_or_default();
        let _ = write!(text, "\n  {seconds:>12.3} s  {job}{what}");
    }
    text
}

fn table(campaign: &Campaign) -> String {
    let Campaign {
        seeds,
        held,
        seconds,
        seeds_per_minute,
        ..
    } = campaign;
    let text = format!(
        "{held} of {seeds} seeds held, {} lives of the control plane, {} durable changes, in {seconds:.1} s ({seeds_per_minute:.0} a minute)\n",
        campaign.control_plane_runs, campaign.durable_changes
    );
    let kinds = coverage_of(&campaign.struck);
    let heading = format!(
        "{:<24} {:>9} {:>9}  {}\n",
        "trouble", "struck", "steps", "never at"
    );
    let rows: String = kinds
        .iter()
        .map(|fared: &Fared| {
            let Fared {
                kind,
                strikes,
                steps,
                missed,
            } = fared;
            let name = kind.as_str();
            let reached = format!("{} of {steps}", steps - missed.len());
            format!(
                "{name:<24} {strikes:>9} {reached:>9}  {}\n",
                missed.join(" ")
            )
        })
        .collect();
    let verdicts = format!(
        "safety {}, liveness {}, hash {}\n",
        campaign.safety.as_str(),
        campaign.liveness.as_str(),
        campaign.hash
    );
    let pairs = format!(
        "{:.1} % of the pairs of trouble and step struck at least once\n",
        campaign.coverage * 100.0
    );
    text + &verdicts + &pairs + &heading + rows.trim_end()
}

/// Serializes each pair as one word.
fn joined<S: serde::Serializer>(
    struck: &FaultEffectCounts,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let joined = struck
        .iter()
        .map(|((kind, step), count)| (format!("{} {step}", kind.as_str()), count));
    serializer.collect_map(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_behind_the_largest_are_refused_with_the_last_possible_first_one() {
        assert_eq!(last_seed(7, 1).ok(), Some(7));
        assert_eq!(last_seed(u64::MAX - 1, 2).ok(), Some(u64::MAX));
        let refused = last_seed(u64::MAX, 2).unwrap_err();
        assert!(refused.to_string().contains("18446744073709551614"));
    }
}
