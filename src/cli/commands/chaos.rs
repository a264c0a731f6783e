//! `cospan chaos`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cospan_chaos_tests::laboratory::chaos::campaign::{Size, seeds, shortest};
use cospan_chaos_tests::laboratory::chaos::coverage::{Kind, kinds, share};
use cospan_chaos_tests::laboratory::chaos::run::Verdict;
use cospan_chaos_tests::laboratory::chaos::scenario::BEGINS;
use cospan_chaos_tests::world::trouble::Struck;
use cospan_domain::units::DurationMs;
use serde::Serialize;

use super::rehearse;
use crate::cli::args::Format;
use crate::cli::args_chaos::{ChaosCommand, ChaosRunArgs};
use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::out::{columns, note};

/// Broken rules that are told of one seed; one cause may break the same rule often.
const RULES_TOLD: usize = 8;

/// What a campaign came to.
#[derive(Debug, Default, Serialize)]
struct Campaign {
    first: u64,
    seeds: u64,
    held: u64,
    seconds: f64,
    seeds_per_minute: f64,
    durable_changes: u64,
    control_plane_runs: u64,
    /// Trouble that struck with effect, by kind and step of the protocol.
    #[serde(serialize_with = "joined")]
    struck: Struck,
    /// Hash of all that happened in the seeds that were run, in their order.
    hash: String,
    /// The share of the pairs of kind and step that struck at least once.
    coverage: f64,
    /// Whether nothing happened in any seed that must not, under faults.
    safety: Held,
    /// Whether all converged in every seed, once the faults had stopped.
    liveness: Held,
    broken: Vec<Broken>,
    #[serde(skip)]
    hashes: BTreeMap<u64, String>,
}

/// A verdict on all seeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Held {
    #[default]
    Holds,
    Broken,
}

impl Held {
    fn and(&mut self, holds: bool) {
        if !holds {
            *self = Held::Broken;
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Held::Holds => "holds",
            Held::Broken => "BROKEN",
        }
    }
}

#[derive(Debug, Serialize)]
struct Broken {
    seed: u64,
    drawn: String,
    /// What must not have happened under faults, and did.
    safety: Vec<String>,
    /// What did not come about after they had stopped.
    liveness: Option<String>,
    /// The laboratory failed, or a store could not be opened any more.
    failed: Option<String>,
    /// What users did until then is enough to see it, if it was looked for.
    deals: Option<usize>,
    replay: String,
}

/// Runs `chaos ...`.
pub(crate) fn run(context: &mut Context, command: &ChaosCommand) -> Result<Exit, CliError> {
    match command {
        ChaosCommand::Run(args) => campaign(context, args),
        ChaosCommand::Inject(args) => rehearse::inject(context, args),
        ChaosCommand::Status => rehearse::status(context),
        ChaosCommand::Stop => rehearse::stop(context),
        ChaosCommand::Report => rehearse::report(context),
    }
}

/// Runs seeds on simulated sites.
fn campaign(context: &mut Context, args: &ChaosRunArgs) -> Result<Exit, CliError> {
    let first = args.first.unwrap_or_else(drawn_seed);
    let last = last_seed(first, args.seeds)?;
    let lines = context.out.format() == Format::Table;
    note(&format!("seeds {first} to {last}"));
    let campaign = Mutex::new(Campaign { first, seeds: args.seeds, ..Campaign::default() });
    let begun = Instant::now();
    seeds(first, args.seeds, at_once(args), size(args), &|seed, verdict| {
        let mut campaign = campaign.lock().unwrap_or_else(PoisonError::into_inner);
        let text = campaign.add(seed, verdict, args);
        if lines {
            note(&text);
        }
    });
    let mut campaign = campaign.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Whichever came first, so that as many at once as you like tell the same.
    campaign.broken.sort_by_key(|broken| broken.seed);
    campaign.seconds = begun.elapsed().as_secs_f64();
    campaign.coverage = share(&kinds(&campaign.struck));
    campaign.hash = joint_hash(&campaign.hashes);
    campaign.seeds_per_minute = args.seeds as f64 * 60.0 / campaign.seconds.max(0.001);
    context.out.answer(&campaign, table)?;
    // One that was never run did not hold either.
    Ok(if campaign.held == args.seeds { Exit::Done } else { Exit::JobFailed })
}

/// The last of at least one seed, from `first` on.
fn last_seed(first: u64, seeds: u64) -> Result<u64, CliError> {
    let further = seeds.saturating_sub(1);
    first.checked_add(further).ok_or_else(|| {
        CliError::usage(
            format!("{seeds} seeds from {first} on end behind the largest number, {}", u64::MAX),
            format!("begin at {} at most (--first), or run fewer (--seeds)", u64::MAX - further),
        )
    })
}

/// One hash of the hashes of all seeds.
fn joint_hash(hashes: &BTreeMap<u64, String>) -> String {
    let mut hasher = blake3::Hasher::new();
    for (seed, hash) in hashes {
        hasher.update(&seed.to_le_bytes()).update(hash.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

fn drawn_seed() -> u64 {
    let mut bytes = [0; 4];
    // Without chance from the system every run is the same one, which its line says.
    let _ = getrandom::fill(&mut bytes);
    u64::from(u32::from_le_bytes(bytes))
}

fn at_once(args: &ChaosRunArgs) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    args.at_once.map_or_else(processors, |count| count as usize)
}

fn size(args: &ChaosRunArgs) -> Size {
    let length = DurationMs::from_secs(args.hours * 3_600);
    Size { jobs: args.jobs as usize, sites: args.sites as usize, length }
}

impl Campaign {
    /// Takes in one verdict; what to say of it.
    fn add(&mut self, seed: u64, verdict: anyhow::Result<Verdict>, args: &ChaosRunArgs) -> String {
        let ChaosRunArgs { jobs, sites, hours, .. } = args;
        let size_words = format!("--jobs {jobs} --sites {sites} --hours {hours}");
        let replay = format!("cospan chaos run --first {seed} --seeds 1 {size_words} --timeline");
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(problem) => {
                let text = format!("BROKEN seed {seed}: {problem:#}\n  {replay}");
                self.safety.and(false);
                let (drawn, failed) = (String::new(), Some(format!("{problem:#}")));
                let (safety, liveness, deals) = Default::default();
                self.broken.push(Broken { seed, drawn, safety, liveness, failed, deals, replay });
                return text;
            }
        };
        self.hashes.insert(seed, verdict.hash.clone());
        self.safety.and(verdict.unsafe_.is_empty());
        self.liveness.and(verdict.not_live.is_none());
        self.durable_changes += verdict.changes;
        self.control_plane_runs += verdict.control_plane_runs as u64;
        verdict
            .struck
            .iter()
            .for_each(|(pair, count)| *self.struck.entry(*pair).or_default() += count);
        let struck: u64 = verdict.struck.values().sum();
        let (acknowledged, finished) = verdict.jobs;
        let mut text = format!(
            "{}: {acknowledged} jobs, {finished} finished, {} control_plane_runs, {struck} faults, hash {}",
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
        self.break_rules(seed, verdict, args, replay, &text)
    }

    fn break_rules(
        &mut self,
        seed: u64,
        verdict: Verdict,
        args: &ChaosRunArgs,
        replay: String,
        text: &str,
    ) -> String {
        let Verdict { drawn, unsafe_: safety, not_live: liveness, .. } = verdict;
        let late = liveness.iter().map(|text| format!("liveness: {text}"));
        let wrong = safety.iter().map(|text| format!("safety: {text}"));
        let rules: Vec<String> = late.chain(wrong).collect();
        // A second run of a failing seed costs little; one that fails no more is news too.
        let deals = shortest(seed, size(args)).ok().flatten().map(|(deals, _)| deals);
        let mut told = format!("BROKEN {text}");
        rules.iter().take(RULES_TOLD).for_each(|rule| told += &format!("\n  {rule}"));
        if rules.len() > RULES_TOLD {
            told += &format!("\n  and {} more", rules.len() - RULES_TOLD);
        }
        if let Some(deals) = deals {
            told += &format!("\n  the first {deals} deals of its users are enough");
        }
        told += &format!("\n  replay: {replay}");
        let failed = None;
        self.broken.push(Broken { seed, drawn, safety, liveness, failed, deals, replay });
        told
    }
}

fn timeline(verdict: &Verdict) -> String {
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
    let Campaign { seeds, held, seconds, seeds_per_minute, .. } = campaign;
    let text = format!(
        "{held} of {seeds} seeds held, {} control_plane_runs, {} durable changes, in {seconds:.1} s ({seeds_per_minute:.0} a minute)\n",
        campaign.control_plane_runs, campaign.durable_changes
    );
    let kinds = kinds(&campaign.struck);
    let row = |kind: &Kind| {
        let Kind { name, strikes, steps, missed } = kind;
        let reached = format!("{} of {steps}", steps - missed.len());
        vec![(*name).to_owned(), strikes.to_string(), reached, missed.join(" ")]
    };
    let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
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
    text + &verdicts + &pairs + &columns(&["TROUBLE", "STRUCK", "STEPS", "NEVER AT"], &rows)
}

/// Pairs as one word each.
fn joined<S: serde::Serializer>(struck: &Struck, serializer: S) -> Result<S::Ok, S::Error> {
    let joined = struck.iter().map(|((kind, step), count)| (format!("{kind} {step}"), count));
    serializer.collect_map(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_behind_the_largest_number_are_refused_with_the_last_first_one_that_goes() {
        assert_eq!(last_seed(7, 1).ok(), Some(7));
        assert_eq!(last_seed(u64::MAX - 1, 2).ok(), Some(u64::MAX));
        let refused = last_seed(u64::MAX, 2).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.remedy.unwrap().contains("18446744073709551614"));
    }
}
