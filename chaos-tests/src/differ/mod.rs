//! The differential test of the simulator. The same drawn scenarios go through the real server,
//! over processes and files of this machine, and through the simulator, over simulated sites and
//! under virtual time. Both control planes must make the same durable about each job; so the
//! simulator cannot skip a part of the real control plane, nor can a simulated site behave like no
//! real one.

mod calls;
mod compare;
mod differ_scenario;
mod draw;
mod job_history;
mod real;
mod scenario_parts;
mod settings;
mod simulated;
mod steadiness;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use crate::test_environment::TestEnvironment;
use calls::CallCounts;
use compare::WorldComparison;
use differ_scenario::DifferScenario;
use job_history::JobStory;
use steadiness::Steadiness;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct DifferOptions {
    /// The server's program.
    pub binary: PathBuf,
    /// Where directories are made; on a disk.
    pub base: PathBuf,
    pub seed: u64,
    /// Number of scenarios.
    pub scenarios: usize,
    /// Play only the scenario with this number.
    pub only: Option<usize>,
    /// Number of scenarios at the same time.
    pub at_once: usize,
    /// Keep the directories.
    pub keep: bool,
}

/// The result of a scenario in one world.
#[derive(Debug)]
struct PlayedScenario {
    /// The stories of its jobs, by number.
    stories: Vec<JobStory>,
    /// Calls to sites.
    calls: CallCounts,
}

/// Plays all scenarios and shows the result of each; returns true if none differed.
pub fn run(options: &DifferOptions, show: &(dyn Fn(&str) + Sync)) -> bool {
    let mut scenarios = draw::scenarios(options.seed, options.scenarios);
    scenarios.retain(|scenario| options.only.is_none_or(|only| scenario.number == only));
    let next = AtomicUsize::new(0);
    let total = Mutex::new(compare::Total::default());
    let steadiness = Steadiness::new();
    std::thread::scope(|scope| {
        let players: Vec<_> = (0..options.at_once.max(1))
            .map(|_| {
                scope.spawn(|| {
                    while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let (compared, times) = play_steadily(scenario, options, &steadiness);
                        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                        show(&compare::report(scenario, &compared, times));
                        total.add(&compared);
                    }
                })
            })
            .collect();
        let watch = scope.spawn(|| steadiness.watch_stalls(&options.base));
        players.into_iter().for_each(|player| drop(player.join()));
        steadiness.stop();
        if let Ok(Err(problem)) = watch.join() {
            show(&format!(
                "whether the machine stood still is not known: {problem:#}"
            ));
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    show(&total.to_string());
    total.is_good(scenarios.len())
}

/// Plays a scenario; also returns how often. A difference proves nothing if the machine stood still
/// meanwhile: the scenario is played again, at half the pace each time, but not for ever.
fn play_steadily(
    scenario: &DifferScenario,
    options: &DifferOptions,
    steadiness: &Steadiness,
) -> (Result<WorldComparison>, u32) {
    const TIMES: u32 = 3;
    for times in 1.. {
        let begun = Instant::now();
        let slower = Arc::new(scenario.clone().slower(1 << (times - 1)));
        let compared = play_once(&slower, options);
        let good = compared
            .as_ref()
            .is_ok_and(|compared| compared.differences.is_empty());
        if good || times == TIMES || !steadiness.stalled_since(begun) {
            return (compared, times);
        }
    }
    (Err(anyhow!("it was never played")), 0)
}

fn play_once(scenario: &Arc<DifferScenario>, options: &DifferOptions) -> Result<WorldComparison> {
    let processors = &scenario.processors;
    let bandwidth = settings::bandwidth_section();
    let mut environment =
        TestEnvironment::with_sites(&options.base, processors, settings::SECTIONS, &bandwidth)?;
    let compared = play_in_both_worlds(scenario, &environment, &options.binary);
    let good = compared
        .as_ref()
        .is_ok_and(|compared| compared.differences.is_empty());
    if options.keep || !good {
        environment.keep();
    }
    compared.with_context(|| format!("see {}", environment.path().display()))
}

fn play_in_both_worlds(
    scenario: &Arc<DifferScenario>,
    environment: &TestEnvironment,
    binary: &Path,
) -> Result<WorldComparison> {
    let program = real::program(environment)?.display().to_string();
    let real =
        real::play_scenario(scenario, environment, binary, &program).context("in real time")?;
    let simulated = simulated::play_scenario(scenario, &program).context("simulated")?;
    let restarts = scenario
        .script
        .iter()
        .any(differ_scenario::ScriptStep::restarts);
    Ok(WorldComparison::compare_runs(&real, &simulated, restarts))
}
