//! Local users of the sites under test. They take processors at any time, and most often where jobs
//! have just been placed; the server has to find out.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::api::Api;
use crate::evidence::FOREIGN;
use crate::test_environment::{EnvironmentSite, TestEnvironment};

/// The longest pause between two of their jobs.
const PAUSE_MAX_MS: u64 = 400;
/// The longest run of one of their jobs.
const RUN_MAX_MS: u64 = 1_200;

/// Users at work until they are stopped.
#[derive(Debug)]
pub struct Locals {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u32>>>,
}

impl Locals {
    /// Starts the users.
    pub fn start(environment: &TestEnvironment, api: Api, seed: u64) -> Self {
        let sites = environment.sites.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || run_users(&sites, &api, seed, &told));
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Stops submitting; what runs is over soon. Returns how often they took processors.
    ///
    /// # Errors
    /// They could not work.
    pub fn finish(mut self) -> Result<u32> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self
            .thread
            .take()
            .context("local users that were finished before")?;
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("the local users panicked"))?
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn run_users(sites: &[EnvironmentSite], api: &Api, seed: u64, stop: &AtomicBool) -> Result<u32> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut running: Vec<Child> = Vec::new();
    let mut taken: u32 = 0;
    while !stop.load(Ordering::Relaxed) {
        let contested = contested_sites(sites, api);
        let all: Vec<&EnvironmentSite> = sites.iter().collect();
        let from = if random.random_bool(0.2) {
            &all
        } else {
            &contested
        };
        if let Some(site) = from.choose(&mut random) {
            taken += 1;
            let processors = random.random_range(1..=site.processors);
            let run_ms = random.random_range(100..=RUN_MAX_MS);
            running.push(take_processors(site, taken, processors, run_ms)?);
        }
        std::thread::sleep(Duration::from_millis(random.random_range(0..=PAUSE_MAX_MS)));
        running.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }
    for mut child in running {
        child.wait()?;
    }
    Ok(taken)
}

/// Lists sites where jobs are placed and use nothing yet; none while the server is down.
fn contested_sites<'a>(sites: &'a [EnvironmentSite], api: &Api) -> Vec<&'a EnvironmentSite> {
    let rows = api
        .get_expected("/v1/jobs?state=placed&limit=20")
        .unwrap_or_default();
    let placed = rows["jobs"].as_array().into_iter().flatten();
    let names = placed.flat_map(|row| row["sites"].as_array().into_iter().flatten());
    let names: Vec<&str> = names.filter_map(|name| name.as_str()).collect();
    sites
        .iter()
        .filter(|site| names.contains(&site.name.as_str()))
        .collect()
}

/// Takes processors like an attempt of another control plane: its directory and its process are
/// there before the entry that holds them.
fn take_processors(
    site: &EnvironmentSite,
    number: u32,
    processors: u32,
    run_ms: u64,
) -> Result<Child> {
    let tag = format!("{FOREIGN}-{}-0-1", number + 1);
    let place = site.root.join("attempts").join(&tag);
    fs::create_dir_all(&place)?;
    let seconds = format!("{}.{:03}", run_ms / 1_000, run_ms % 1_000);
    let child = Command::new("sleep")
        .arg(seconds)
        .env("COSPAN_TAG", &tag)
        .env("COSPAN_ATTEMPT_DIR", &place)
        .spawn()?;
    write_live_entry(site, &tag, processors)?;
    Ok(child)
}

fn write_live_entry(site: &EnvironmentSite, tag: &str, processors: u32) -> Result<()> {
    let entry = format!("processors {processors}\nlongest_ms 60000\nend {tag}\n");
    let written = site.root.join(format!("{tag}.held"));
    fs::write(&written, entry)?;
    move_file(&written, &site.root.join("live").join(tag))
}

fn move_file(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).with_context(|| format!("cannot make {}", to.display()))
}
