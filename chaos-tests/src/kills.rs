//! Kills the server at random moments under load.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::api::Api;
use crate::evidence::ForeignAttempt;
use crate::load::ClientCrowd;
use crate::local_users::Locals;
use crate::oracle::OracleVerdict;
use crate::payload::chunked_file;
use crate::server::ServerProcess;
use crate::settle;
use crate::state_counts::KillTable;
use crate::test_environment::{Layout, TestEnvironment};
use crate::workload::{DrawnWorkload, GRAIN, SHARED};

/// Number of kills from which on a run must have met all of [`CLAIMS_MEET`].
const MANY_KILLS: u32 = 200;
/// Events that show missing processors and moved components.
const CLAIMS_MEET: [&str; 2] = ["ClaimMissed", "ComponentMoved"];

/// The options of a run.
#[derive(Debug, Clone)]
pub struct KillOptions {
    pub binary: PathBuf,
    /// Where directories are made; on a disk.
    pub base: PathBuf,
    /// Number of kills with enough jobs in flight.
    pub kills: u32,
    /// Number of jobs to keep in flight.
    pub depth: usize,
    /// With fewer jobs in flight, a kill does not count.
    pub least_in_flight: usize,
    /// Least number of kills in each state that a job leaves again.
    pub least_strikes: u32,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Keep the directory even if all went well.
    pub keep: bool,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct KillOutcome {
    /// Kills by state.
    pub table: KillTable,
    /// Time until ready again, one entry a kill, sorted.
    pub restarts: Vec<Duration>,
    /// The oracle's verdict.
    pub verdict: OracleVerdict,
    /// Number of times that local users took processors.
    pub taken: u32,
    /// States that were hit too rarely.
    pub rare: Vec<&'static str>,
    /// Things that must happen to claims in a long run, and never did.
    pub missed: Vec<&'static str>,
    pub took: Duration,
    /// The directory with everything, if it was kept.
    pub directory: PathBuf,
    pub file_system: String,
}

impl KillOutcome {
    /// Returns true if the run shows what it was to show.
    pub fn is_good(&self) -> bool {
        self.verdict.violations.is_empty() && self.rare.is_empty() && self.missed.is_empty()
    }

    /// Formats the outcome for people.
    pub fn report(&self) -> String {
        let mut text = format!(
            "{}\nrestart to ready: p50 {} ms, p90 {} ms, max {} ms over {} kills\n\
             jobs: {:?}, payloads started: {}, histories shortened: {}\n\
             claims: {:?}, processors taken by others: {} times\n\
             took {:.1} s on {}\n",
            self.table,
            percentile_ms(&self.restarts, 50),
            percentile_ms(&self.restarts, 90),
            percentile_ms(&self.restarts, 100),
            self.restarts.len(),
            self.verdict.states,
            self.verdict.payloads,
            self.verdict.shortened,
            self.verdict.claims,
            self.taken,
            self.took.as_secs_f64(),
            self.file_system,
        );
        if !self.rare.is_empty() {
            text += &format!("struck too rarely: {}\n", self.rare.join(", "));
        }
        if !self.missed.is_empty() {
            text += &format!("never happened: {}\n", self.missed.join(", "));
        }
        for violation in &self.verdict.violations {
            text += &format!("BROKEN {violation}\n");
        }
        if !self.is_good() {
            text += &format!("see {}\n", self.directory.display());
        }
        text
    }
}

/// How long at most so many per cent of these took, which are in order.
pub(crate) fn percentile_ms(took: &[Duration], share: usize) -> u128 {
    let last = took.len().saturating_sub(1);
    took.get(last * share / 100)
        .copied()
        .unwrap_or_default()
        .as_millis()
}

/// Registers the files that jobs share, at the first two sites.
///
/// # Errors
/// The server refuses one.
pub fn register_shared(environment: &TestEnvironment, api: &Api) -> Result<()> {
    for (index, name) in SHARED.into_iter().enumerate() {
        let path = environment.plant_file(index % 2, name, 1_000_000 + index * 400_000)?;
        let place = &environment.sites[index % 2].name;
        register_file(api, name, place, &path)?;
    }
    let path = environment.plant(1, GRAIN, &chunked_file())?;
    register_file(api, GRAIN, &environment.sites[1].name, &path)
}

fn register_file(api: &Api, name: &str, place: &str, path: &str) -> Result<()> {
    let file = json!({ "name": name, "site": place, "path": path });
    api.post_expected("/v1/files", &file)?;
    Ok(())
}

/// A layout in which claims are made bit by bit, so that components move and jobs give way.
fn layout() -> Layout {
    let mut layout = Layout::default();
    layout.claim += "T = 0\n";
    // Slow enough for others to come in between.
    layout.bandwidth = "10Mbit/s".into();
    layout
}

/// Kills and restarts as often as asked, settles, judges.
///
/// # Errors
/// The server does not start, or the harness cannot work.
pub fn run(options: &KillOptions) -> Result<KillOutcome> {
    let begun = Instant::now();
    let mut environment = TestEnvironment::new(&options.base, &layout())?;
    let mut server = ServerProcess::new(&options.binary, &environment);
    let outcome = kill_repeatedly(options, &environment, &mut server, begun);
    server.kill()?;
    if options.keep || !outcome.as_ref().is_ok_and(KillOutcome::is_good) {
        environment.keep();
    }
    outcome.with_context(|| format!("see {}", environment.path().display()))
}

fn kill_repeatedly(
    options: &KillOptions,
    environment: &TestEnvironment,
    server: &mut ServerProcess,
    begun: Instant,
) -> Result<KillOutcome> {
    const SETTLE_MAX: Duration = Duration::from_secs(180);
    server.start()?;
    let api = server.api()?;
    register_shared(environment, &api)?;
    let mut foreign = vec![
        ForeignAttempt::plant(&environment.sites[0])?,
        ForeignAttempt::plant(&environment.sites[1])?,
    ];
    let mut random = StdRng::seed_from_u64(options.seed);
    let workload = DrawnWorkload::new(environment, "job");
    let locals = Locals::start(environment, api.clone(), random.random());
    let crowd = ClientCrowd::start(api.clone(), workload, options.depth, random.random());
    let mut table = KillTable::default();
    let mut restarts = Vec::new();
    let mut counted = 0;
    while counted < options.kills {
        ensure!(
            table.sparse < 50 + options.kills,
            "too few jobs were in flight at {} kills",
            table.sparse
        );
        await_load(&crowd, &api, options)?;
        std::thread::sleep(Duration::from_millis(random.random_range(0..400)));
        let rows = jobs_in_flight(&crowd, &api)?;
        crowd.record_final_jobs(&rows);
        let states: Vec<String> = rows
            .iter()
            .filter_map(|row| row["state"].as_str())
            .map(Into::into)
            .collect();
        server.kill()?;
        counted += u32::from(table.count(&states, options.least_in_flight));
        restarts.push(server.start()?);
    }
    let promises = crowd.finish();
    let taken = locals.finish()?;
    let (verdict, _) =
        settle::settle_and_judge(environment, &api, &promises, &mut foreign, SETTLE_MAX)?;
    restarts.sort();
    let missed = if options.kills < MANY_KILLS {
        Vec::new()
    } else {
        missed_events(&verdict.claims, taken)
    };
    Ok(KillOutcome {
        rare: table.rare(options.least_strikes),
        missed,
        table,
        restarts,
        verdict,
        taken,
        took: begun.elapsed(),
        directory: environment.path().into(),
        file_system: environment.file_system.clone(),
    })
}

/// Lists what the claims of a long run must meet and did not.
fn missed_events(claims: &BTreeMap<&'static str, usize>, taken: u32) -> Vec<&'static str> {
    let mut missed: Vec<&'static str> = CLAIMS_MEET
        .into_iter()
        .filter(|event| !claims.contains_key(event))
        .collect();
    missed.extend((taken == 0).then_some("processors taken by local users"));
    missed
}

/// Lists the rows of all jobs that may be in flight.
fn jobs_in_flight(crowd: &ClientCrowd, api: &Api) -> Result<Vec<serde_json::Value>> {
    match crowd.oldest_open_job() {
        Some(oldest) => {
            let after = oldest.saturating_sub(1);
            let page = api.get_expected(&format!("/v1/jobs?limit=1000&after={after}"))?;
            Ok(page["jobs"].as_array().cloned().unwrap_or_default())
        }
        None => api.newest(100),
    }
}

/// Waits until enough jobs are in flight.
fn await_load(crowd: &ClientCrowd, api: &Api, options: &KillOptions) -> Result<()> {
    let begun = Instant::now();
    loop {
        crowd.record_final_jobs(&jobs_in_flight(crowd, api)?);
        if crowd.open() >= options.least_in_flight + 4 {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(60),
            "no load came up within 60 s"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
