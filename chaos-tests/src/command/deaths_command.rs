//! `cospan-chaos deaths`: one death at each step of quiet runs, and what it breaks.

use anyhow::Result;
use clap::Args;
use cospan_simulator::kill_switch::KillPoint;

use crate::parallel::at_once;
use crate::seeds::quiet_runs::QuietRun;
use crate::seeds::run::SeedVerdict;

/// Progress is printed after this many runs.
const TOLD_EVERY: usize = 100;

#[derive(Debug, Args)]
pub struct DeathsArgs {
    /// Only every nth moment
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,
    /// Runs at the same time [default: as many as there are processors]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub at_once: Option<u64>,
}

/// Prints a line for the user.
type Say<'a> = &'a (dyn Fn(&str) + Sync);

/// Runs them, prints what broke and how many runs there were, and shows progress; returns true if
/// no run broke a rule.
///
/// # Errors
/// A rule is broken without any death.
pub fn run(args: &DeathsArgs, say: Say<'_>, note: Say<'_>) -> Result<bool> {
    let mut good = true;
    for quiet in [QuietRun::of_jobs()?, QuietRun::of_promises()?] {
        good &= run_all_deaths(&quiet, args, say, note);
    }
    Ok(good)
}

fn run_all_deaths(quiet: &QuietRun, args: &DeathsArgs, say: Say<'_>, note: Say<'_>) -> bool {
    let workers = args.at_once.map_or_else(
        || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        |count| count as usize,
    );
    let moments: Vec<KillPoint> = quiet
        .moments()
        .into_iter()
        .step_by(args.every as usize)
        .collect();
    let mut ended = 0;
    let mut deaths = 0;
    let mut broken = 0;
    at_once(
        &moments,
        workers,
        |moment| quiet.with_death_at(*moment),
        |moment: &KillPoint, verdict: Result<SeedVerdict>| {
            ended += 1;
            deaths += usize::from(
                verdict
                    .as_ref()
                    .is_ok_and(|verdict| quiet.has_died(verdict)),
            );
            if let Some(problem) = first_problem(verdict) {
                broken += 1;
                say(&format!("BROKEN {}: {moment:?}\n  {problem}", quiet.name));
            }
            if ended % TOLD_EVERY == 0 {
                note(&format!(
                    "{}: {ended} of {} moments",
                    quiet.name,
                    moments.len()
                ));
            }
        },
    );
    say(&format!(
        "{}: {deaths} deaths, {broken} broke a rule",
        quiet.name
    ));
    broken == 0
}

/// Returns the first rule that a death broke.
fn first_problem(verdict: Result<SeedVerdict>) -> Option<String> {
    match verdict {
        Ok(verdict) if verdict.holds() => None,
        Ok(SeedVerdict {
            unsafe_, not_live, ..
        }) => Some(
            unsafe_
                .into_iter()
                .chain(not_live)
                .collect::<Vec<_>>()
                .join("\n  "),
        ),
        Err(problem) => Some(format!("{problem:#}")),
    }
}
