//! Runs seeds of chaos over the simulator, or kills, crash points and site faults against a binary,
//! or plants bugs for the seeds to find, and prints what was hit and what broke. Exit 0: all held;
//! 1: something broke, or a bug was not found.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use cospan_chaos_tests::bugs::source_edits::PlantedBug;
use cospan_chaos_tests::bugs::{self, BugHunt};
use cospan_chaos_tests::command::bench::run_bench;
use cospan_chaos_tests::command::deaths_command::{self, DeathsArgs};
use cospan_chaos_tests::command::run_command::{self, SeedsArgs};
use cospan_chaos_tests::{differ, faults, kills, parallel, points, power, shared_points};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Kills, crash points and site faults against a real server.
#[derive(Debug, Parser)]
struct ChaosCli {
    /// The program under test
    #[arg(long, default_value = "target/release/cospan")]
    binary: PathBuf,
    /// Where directories are made; on a disk
    #[arg(long, default_value = "target/chaos")]
    base: PathBuf,
    /// Seed of everything that is drawn
    #[arg(long, env = "COSPAN_CHAOS_SEED")]
    seed: Option<u64>,
    /// Leave the directories behind
    #[arg(long)]
    keep: bool,
    #[command(subcommand)]
    what: ChaosSubcommand,
}

#[derive(Debug, Subcommand)]
enum ChaosSubcommand {
    /// Run the control plane through drawn faults, on simulated sites, and judge it
    #[command(after_help = "\
Nothing real is touched: sites, links, users, time and chance are simulated, the control plane is
the one that serves. Each seed draws a grid, its users, and what goes wrong: lost, late and doubled
requests and replies, refusals, false, stale and unreadable answers, panics, dead nodes, sites and
schedulers, frozen sites, lost access, wrong clocks, slow, cut, flapping and corrupting links, a slow
and failing disk, and kills of the control plane. Then the trouble stops, and everything must come to
rest. What was really run is judged by the simulated sites' own ledger.

A seed is the same run every time. Exit code 1 if a seed broke a rule.

Examples:
  cospan-chaos run --seeds 100
  cospan-chaos run --first 4711 --seeds 1 --timeline")]
    Run(SeedsArgs),
    /// Measure seeds a minute, the faults that had an effect, and whether a seed is the same run
    /// every time
    Bench {
        /// Number of seeds
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
    },
    /// Kill at random moments under load
    Kills {
        /// Number of kills
        #[arg(long, default_value_t = 200)]
        kills: u32,
        /// Jobs in flight
        #[arg(long, default_value_t = 40)]
        depth: usize,
        /// Least number of kills in each state
        #[arg(long, default_value_t = 5)]
        least_strikes: u32,
    },
    /// Cut the power of a server's disk at random moments
    #[command(after_help = "\
Takes root and a loop device. A server works with its data directory and its sites on a file system
that is an image, mounted by loop. What is on the image when the power is cut is all that is left:
it is mounted anew, and the server must start, with every site usable, and with every job, key, upload
and export that was said to be done. Each disk meets a cut during its first start, and then during
submissions, key changes, uploads and exports.

Exit code 1 if something was lost, or where nothing could be tried. Ctrl-C ends it, and leaves no
mount and no loop device behind.

Examples:
  cospan-chaos power --cuts 50
  cospan-chaos --seed 7 power --cuts 5 --at-once 1")]
    Power {
        /// Number of cuts
        #[arg(long, default_value_t = 50)]
        cuts: u32,
        /// Disks at the same time
        #[arg(long, default_value_t = 3)]
        at_once: usize,
    },
    /// Let the control plane die once, at each step of two quiet simulated runs
    #[command(after_help = "\
Nothing else goes wrong, so whatever breaks is the death's doing. A moment is the same every time.

Exit code 1 if a death broke a rule.

Examples:
  cospan-chaos deaths
  cospan-chaos deaths --every 8")]
    Deaths(DeathsArgs),
    /// Play faults of sites
    Faults {
        /// Only those whose name contains this
        #[arg(long, default_value = "")]
        only: String,
        /// Scenarios at the same time
        #[arg(long, default_value_t = 4)]
        at_once: usize,
    },
    /// Crash and panic at every step of the protocol (needs a chaos build)
    Points {
        /// Only those whose name contains this
        #[arg(long, default_value = "")]
        only: String,
        /// Servers at the same time
        #[arg(long, default_value_t = 8)]
        at_once: usize,
    },
    /// Play the same scenarios through the server and through the simulator
    Differ {
        /// Number of scenarios
        #[arg(long, default_value_t = 50)]
        scenarios: usize,
        /// Only the one with this number
        #[arg(long)]
        only: Option<usize>,
        /// Scenarios at the same time
        #[arg(long, default_value_t = 8)]
        at_once: usize,
    },
    /// Plant bugs, and count the seeds until an oracle finds each
    #[command(after_help = "\
All bugs of chaos-tests/planted-bugs.txt are put into a copy of the sources that this program was built
from, which is then built as this program was, beside it. A bug is found by the first seed that breaks a
rule with it and none without.

Exit code 1 if a bug was not found.

Examples:
  cospan-chaos bugs
  cospan-chaos bugs --only Preempt --most 50")]
    Bugs {
        /// Only those whose name contains this [default: all but the rare ones]
        #[arg(long, default_value = "", hide_default_value = true)]
        only: String,
        /// The first seed
        #[arg(long, default_value_t = 1)]
        first: u64,
        /// Seeds for each bug at most
        #[arg(long, default_value_t = 1_000)]
        most: u64,
        /// Print a table of all of them for the book
        #[arg(long)]
        markdown: bool,
    },
}

fn main() -> ExitCode {
    match run(&ChaosCli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_line(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "its output is its report")]
fn print_line(text: &str) {
    println!("{text}");
}

#[allow(
    clippy::print_stderr,
    reason = "how far it is is no part of its report"
)]
fn print_progress(text: &str) {
    eprintln!("{text}");
}

fn run(cli: &ChaosCli) -> Result<bool> {
    let binary = std::path::absolute(&cli.binary)?;
    let base = std::path::absolute(&cli.base)?;
    match cli.what {
        ChaosSubcommand::Run(ref args) => run_command::run(args, &print_line, &print_progress),
        ChaosSubcommand::Bench { seeds } => {
            print_line(&serde_json::to_string_pretty(&run_bench(
                seeds,
                &print_progress,
            )?)?);
            Ok(true)
        }
        ChaosSubcommand::Kills {
            kills,
            depth,
            least_strikes,
        } => {
            let outcome = kills::run(&kills::KillOptions {
                binary,
                base,
                kills,
                depth,
                least_in_flight: 20,
                least_strikes,
                seed: draw_seed(cli),
                keep: cli.keep,
            })?;
            print_line(&outcome.report());
            Ok(outcome.is_good())
        }
        ChaosSubcommand::Power { cuts, at_once } => {
            power::machine::unshare_mounts()?;
            let keep = cli.keep;
            let seed = draw_seed(cli);
            let options = power::PowerOptions {
                binary,
                base,
                cuts,
                at_once,
                seed,
                keep,
            };
            let outcome = power::run(&options, &print_progress)?;
            print_line(&outcome.report());
            Ok(outcome.is_good())
        }
        ChaosSubcommand::Deaths(ref args) => {
            deaths_command::run(args, &print_line, &print_progress)
        }
        ChaosSubcommand::Faults { ref only, at_once } => {
            Ok(play_faults(&binary, &base, only, at_once))
        }
        ChaosSubcommand::Points { ref only, at_once } => {
            points::check_build(&binary)?;
            Ok(fail_at_points(
                &binary,
                &base,
                only,
                at_once,
                draw_seed(cli),
            ))
        }
        ChaosSubcommand::Differ {
            scenarios,
            only,
            at_once,
        } => {
            let keep = cli.keep;
            let seed = draw_seed(cli);
            let options = differ::DifferOptions {
                binary,
                base,
                seed,
                scenarios,
                only,
                at_once,
                keep,
            };
            Ok(differ::run(&options, &print_line))
        }
        ChaosSubcommand::Bugs {
            ref only,
            first,
            most,
            markdown,
        } => {
            let list = bugs::list_bugs()?;
            let all = list.bugs.iter().filter(|bug| {
                let shows = markdown || !only.is_empty() || !bug.is_rare;
                shows && bug.name.contains(only.as_str())
            });
            let chosen: Vec<PlantedBug> = all.cloned().collect();
            BugHunt::build(&list, first..first + most, markdown)?.hunt_all(
                &chosen,
                &print_line,
                &print_progress,
            )
        }
    }
}

fn draw_seed(cli: &ChaosCli) -> u64 {
    let seed = cli.seed.unwrap_or_else(|| StdRng::from_os_rng().random());
    print_line(&format!("seed {seed}"));
    seed
}

/// Plays faults of sites and prints the result of each; returns true if all went as they should.
fn play_faults(binary: &Path, base: &Path, only: &str, at_once: usize) -> bool {
    // Scenarios that falsify answers need a build that can.
    let injected = points::check_build(binary)
        .is_ok()
        .then_some(faults::INJECTED);
    let all = faults::ALL
        .into_iter()
        .chain(injected.into_iter().flatten());
    let chosen: Vec<&str> = all
        .map(|(name, _)| name)
        .filter(|name| name.contains(only))
        .collect();
    let mut good = true;
    parallel::at_once(
        &chosen,
        at_once,
        |name| faults::play_scenario(binary, base, name),
        |name, played| {
            print_line(&match &played {
                Ok(()) => format!("ok   {name}"),
                Err(error) => format!("FAIL {error:#}"),
            });
            good &= played.is_ok();
        },
    );
    good
}

/// Fails the server at the points of the protocol and prints the result of each; returns true if
/// all was right.
fn fail_at_points(binary: &Path, base: &Path, only: &str, at_once: usize, seed: u64) -> bool {
    let crashes = points::list_crashes()
        .into_iter()
        .chain(shared_points::list_crashes());
    let strikes = crashes.chain(points::list_panics());
    let lives =
        points::group_into_lives(strikes.filter(|strike| strike.full_name().contains(only)));
    let mut good = true;
    parallel::at_once(
        &lives,
        at_once,
        |life| points::fail_server(binary, base, life, seed),
        |life, struck| match struck {
            Ok(struck) => {
                print_line(&struck.report());
                good &= struck.is_good();
            }
            Err(error) => {
                print_line(&format!("FAIL {}\n  {error:#}", points::life_name(life)));
                good = false;
            }
        },
    );
    good
}
