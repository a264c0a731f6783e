//! A series of a few cuts, each on what the cut before left of a disk.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::clients::{Clients, ToldClients};
use super::judge::{self, SeenEndings};
use super::machine::{self, ImageDisk, run_checked, stop_all};
use super::{CutResult, PowerOptions, PowerStage, Show};
use crate::kills::register_shared;
use crate::load::{ClientCrowd, ClientPromises};
use crate::server::ServerProcess;
use crate::settle;
use crate::test_environment::{Layout, TestEnvironment};
use crate::workload::DrawnWorkload;

/// Jobs that are kept in flight.
const DEPTH: usize = 10;
/// A first start is cut off within this time.
const FIRST_START_MS: u64 = 2_500;
/// Least number of times that something was done before the power is cut while it is done again.
const DONE_BEFORE: u64 = 2;
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// A series of cuts.
pub(super) struct Series<'a> {
    options: &'a PowerOptions,
    stop: &'a AtomicBool,
    show: Show<'a>,
    random: StdRng,
    pub(super) cuts: Vec<CutResult>,
    /// Failures beside the cuts.
    pub(super) broken: Vec<String>,
    /// Numbers of things that clients saw reported as done.
    pub(super) told: [usize; 4],
}

impl<'a> Series<'a> {
    /// Runs so many cuts, of which the first has this number.
    pub(super) fn run(
        options: &'a PowerOptions,
        first: u32,
        cuts: u32,
        stop: &'a AtomicBool,
        show: Show<'a>,
    ) -> Self {
        let random = StdRng::seed_from_u64(options.seed.wrapping_add(u64::from(first)));
        let cuts_made = Vec::new();
        let broken = Vec::new();
        let told = [0; 4];
        let mut series = Self {
            options,
            stop,
            show,
            random,
            cuts: cuts_made,
            broken,
            told,
        };
        let stages = &PowerStage::ALL[..PowerStage::ALL.len().min(cuts as usize)];
        // A disk from which no server starts is left, and another one is begun.
        while series.cuts.len() < stages.len() && series.broken.is_empty() {
            let left = &stages[series.cuts.len()..];
            let first = first + series.cuts.len() as u32;
            if let Err(error) = series.work_on_disk(first, left) {
                series.broken.push(format!("{error:#}"));
            }
        }
        series
    }

    fn work_on_disk(&mut self, first: u32, stages: &[PowerStage]) -> Result<()> {
        // Copies are short: the cut is to be tested, not how files travel.
        let layout = Layout {
            bandwidth: "500Mbit/s".into(),
            ..Layout::default()
        };
        let mut environment = TestEnvironment::with_disk(&self.options.base, &layout, "disk")?;
        let disk = ImageDisk::make_disk(environment.disk())?;
        let program = machine::write_machine(environment.path(), &self.options.binary)?;
        let server = ServerProcess::new(&program, &environment);
        let before = self.cuts.len();
        let mut power = Power {
            environment: &environment,
            binary: &self.options.binary,
            server,
            disk,
            crowd: None,
            told: ToldClients::default(),
            ended: SeenEndings::new(),
        };
        let done = self.cut_all(&mut power, first, stages);
        drop(power);
        let is_good = done.is_ok()
            && self.broken.is_empty()
            && self.cuts[before..]
                .iter()
                .all(|cut| cut.problems().is_empty());
        if self.options.keep || !(is_good || self.stop.load(Ordering::Relaxed)) {
            environment.keep();
        }
        done.with_context(|| format!("see {}", environment.path().display()))
    }

    fn cut_all(&mut self, power: &mut Power<'_>, first: u32, stages: &[PowerStage]) -> Result<()> {
        if stages.first() != Some(&PowerStage::FirstStart) {
            power.server.start()?;
        }
        for (number, stage) in (first..).zip(stages) {
            ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
            let clients = self.work_until(power, number, *stage)?;
            power.cut(clients)?;
            let cut = power.restart_and_check(number, *stage)?;
            (self.show)(&format!(
                "cut {} of {}, during {cut}",
                number + 1,
                self.options.cuts
            ));
            let has_started = cut.restart.is_some();
            self.cuts.push(cut);
            if !has_started {
                return Ok(());
            }
        }
        self.settle_disk(power)
    }

    /// Lets clients work until the moment of the cut.
    fn work_until(
        &mut self,
        power: &mut Power<'_>,
        number: u32,
        stage: PowerStage,
    ) -> Result<Option<Clients>> {
        let begun = Instant::now();
        let mut clients = None;
        if stage == PowerStage::FirstStart {
            let moment = Duration::from_millis(self.random.random_range(0..FIRST_START_MS));
            power.server.spawn()?;
            while begun.elapsed() < moment {
                if clients.is_none() && power.server.is_ready() {
                    clients = Some(power.start_clients(number, stage, self.random.random())?);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            return Ok(clients);
        }
        let started = power.start_clients(number, stage, self.random.random())?;
        while !power.is_under_way(&started, stage) {
            ensure!(
                begun.elapsed() < Duration::from_secs(60),
                "nothing is done during {stage}"
            );
            ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
            power.record_ended()?;
            std::thread::sleep(Duration::from_millis(10));
        }
        let moment = Duration::from_millis(self.random.random_range(0..1_000));
        let since = Instant::now();
        while since.elapsed() < moment {
            power.record_ended()?;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(started))
    }

    /// Lets everything come to rest, and judges the whole.
    fn settle_disk(&mut self, power: &mut Power<'_>) -> Result<()> {
        let promises = power
            .crowd
            .take()
            .map(ClientCrowd::finish)
            .unwrap_or_default();
        let ToldClients {
            keys,
            uploads,
            exports,
        } = &power.told;
        let told = [
            promises.acknowledged.len(),
            keys.len(),
            uploads.len(),
            exports.len(),
        ];
        (0..told.len()).for_each(|at| self.told[at] += told[at]);
        let api = power.server.api()?;
        let environment = power.environment;
        let settled = settle::settle_and_judge(environment, &api, &promises, &mut [], SETTLE_MAX)?;
        self.broken
            .extend(judge::broken_rules(&settled.1, &power.ended));
        Ok(())
    }
}

/// A machine at work, and the answers that its users received.
struct Power<'a> {
    environment: &'a TestEnvironment,
    binary: &'a Path,
    server: ServerProcess,
    disk: ImageDisk,
    crowd: Option<ClientCrowd>,
    told: ToldClients,
    ended: SeenEndings,
}

impl Power<'_> {
    fn is_under_way(&self, clients: &Clients, stage: PowerStage) -> bool {
        match stage {
            PowerStage::Submissions => self.crowd.as_ref().is_some_and(|c| c.open() * 2 > DEPTH),
            _ => clients.done_count(stage) >= DONE_BEFORE,
        }
    }

    fn start_clients(&mut self, number: u32, stage: PowerStage, seed: u64) -> Result<Clients> {
        let api = self.server.api()?;
        if self.crowd.is_none() {
            register_shared(self.environment, &api)?;
            sync_files(self.environment)?;
            let workload = DrawnWorkload::new(self.environment, "job");
            self.crowd = Some(ClientCrowd::start(api, workload, DEPTH, seed));
        }
        let told = std::mem::take(&mut self.told);
        Ok(Clients::start(
            self.binary,
            self.environment,
            told,
            (number, stage),
        ))
    }

    /// Records which jobs are over.
    fn record_ended(&mut self) -> Result<()> {
        let (Some(crowd), api) = (&self.crowd, self.server.api()?) else {
            return Ok(());
        };
        let rows = api.newest(200)?;
        crowd.record_final_jobs(&rows);
        let now_ms = now_ms();
        for row in &rows {
            let (Some(id), Some(state)) = (row["id"].as_u64(), row["state"].as_str()) else {
                continue;
            };
            if matches!(state, "finished" | "failed" | "cancelled") {
                self.ended
                    .entry(id)
                    .or_insert_with(|| (state.to_owned(), now_ms));
            }
        }
        Ok(())
    }

    /// Cuts the power: what is on the disk now is all that is left.
    fn cut(&mut self, clients: Option<Clients>) -> Result<()> {
        let held = clients
            .as_ref()
            .map(Clients::stop_new_commands)
            .unwrap_or_default();
        if let Some(status) = self.server.exit_status()? {
            bail!(
                "it ended by itself: {status}; {}",
                last_error(&self.environment.log())
            );
        }
        let server = self.server.pid().context("there is no server")?;
        stop_all(server, &held)?;
        let copy = self.disk.copy()?;
        self.server.kill()?;
        if let Some(clients) = clients {
            self.told = clients.finish(&held)?;
        }
        self.disk.continue_with(copy)
    }

    /// Starts the server again, and checks what is there.
    fn restart_and_check(&mut self, number: u32, stage: PowerStage) -> Result<CutResult> {
        let mut cut = CutResult {
            stage,
            restart: None,
            unusable: Vec::new(),
            lost: Vec::new(),
        };
        match self.server.start() {
            Ok(took) => cut.restart = Some(took),
            Err(error) => {
                cut.lost.push(format!(
                    "{error:#}; {}",
                    last_error(&self.environment.log())
                ));
                return Ok(cut);
            }
        }
        let api = self.server.api()?;
        let environment = self.environment;
        cut.unusable = judge::unusable_sites(environment, &api, self.crowd.as_ref(), number)?;
        let promises = self
            .crowd
            .as_ref()
            .map(ClientCrowd::answers_received)
            .unwrap_or_default();
        let ClientPromises { acknowledged, .. } = &promises;
        let told = (&self.told, acknowledged, &self.ended);
        cut.lost = judge::lost_results(environment, self.binary, &api, told)?;
        Ok(cut)
    }
}

/// Syncs the files of users, as they would themselves. Nothing else is synced for them.
fn sync_files(environment: &TestEnvironment) -> Result<()> {
    let mut sync = Command::new("sync");
    for site in &environment.sites {
        let files = site.root.join("files");
        // No name is planted where there is no such directory.
        for entry in std::fs::read_dir(&files).into_iter().flatten().flatten() {
            sync.arg(entry.path());
        }
        sync.arg(&files);
    }
    run_checked(&mut sync).map(drop)
}

fn last_error(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let told = text.lines().rfind(|line| line.starts_with("error"));
    told.or(text.lines().next_back())
        .unwrap_or_default()
        .to_owned()
}

fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
