//! Plays faults of sites, one scenario each, through the real server.

mod injected;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::Api;
use crate::evidence::{self, ForeignAttempt};
use crate::load::ClientPromises;
use crate::points;
use crate::server::{Chaos, ServerProcess};
use crate::settle;
use crate::stimulus::signal;
use crate::test_environment::{Layout, TestEnvironment};
use crate::webhook::Receiver;

pub type FaultScenario = fn(&mut FaultScene) -> Result<()>;

/// All scenarios by name.
pub const ALL: [(&str, FaultScenario); 6] = [
    ("a-site-vanishes-and-returns", vanishes_and_returns),
    ("a-wrapper-is-killed", wrapper_is_killed),
    ("a-payload-is-killed", payload_is_killed),
    ("a-site-is-frozen", is_frozen),
    ("all-sites-vanish-at-once", all_vanish),
    ("a-site-fails-again-and-again", fails_again_and_again),
];

/// Scenarios for a build with planted faults, in which answers of sites go wrong.
pub const INJECTED: [(&str, FaultScenario); 6] = injected::ALL;

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server with its sites, and the jobs submitted to it.
#[derive(Debug)]
pub struct FaultScene {
    environment: TestEnvironment,
    server: ServerProcess,
    api: Api,
    promises: ClientPromises,
    receiver: Receiver,
}

/// Plays a scenario, then lets the oracle judge.
///
/// # Errors
/// It went otherwise than it should.
pub fn play_scenario(binary: &Path, base: &Path, name: &str) -> Result<()> {
    let found = ALL
        .into_iter()
        .chain(INJECTED)
        .find(|(other, _)| *other == name);
    let (_, scenario) = found.with_context(|| format!("there is no scenario {name}"))?;
    let planted = points::check_build(binary);
    if INJECTED.iter().any(|(other, _)| *other == name) {
        planted
            .as_ref()
            .map_err(|problem| anyhow!("{name}: {problem}"))?;
    }
    let mut scene = FaultScene::open_scene(binary, base, planted.is_ok())?;
    let mut foreign = vec![ForeignAttempt::plant(&scene.environment.sites[0])?];
    let result = scenario(&mut scene).and_then(|()| scene.judge_scene(&mut foreign));
    scene.server.kill()?;
    if result.is_err() {
        scene.environment.keep();
    }
    result.with_context(|| format!("{name}: see {}", scene.environment.path().display()))
}

impl FaultScene {
    fn open_scene(binary: &Path, base: &Path, planted: bool) -> Result<Self> {
        let receiver = Receiver::start()?;
        let layout = Layout {
            sites: 3,
            processors: 4,
            notify: format!("webhooks = [{:?}]\n", receiver.address()),
            watching: format!(
                "{}unreachable_after = \"1s\"\nisolation_window = \"10s\"\n",
                Layout::default().watching
            ),
            ..Layout::default()
        };
        let environment = TestEnvironment::new(base, &layout)?;
        let mut server = ServerProcess::new(binary, &environment);
        server.chaos = planted.then(|| Chaos {
            plan: String::new(),
            coverage: environment.coverage(),
        });
        server.start()?;
        let api = server.api()?;
        let scene = Self {
            environment,
            server,
            api,
            promises: ClientPromises::default(),
            receiver,
        };
        scene.wait("all sites usable", |scene| {
            let sites = scene.api.get_expected("/v1/sites")?;
            let list = sites["sites"].as_array().context("no sites")?;
            Ok(list.iter().all(|site| site["state"] == "usable"))
        })?;
        Ok(scene)
    }

    fn wait(&self, what: &str, holds: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !holds(self)? {
            if begun.elapsed() > PATIENCE {
                bail!("not within {PATIENCE:?}: {what}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Submits a job with one component at each of these sites (empty: anywhere).
    fn submit(&mut self, name: &str, sites: &[&str], seconds: &str, retries: u32) -> Result<u64> {
        self.submit_with(name, sites, (seconds, "-"), retries)
    }

    /// Submits a job whose payloads leave a file of this name; `-`: none.
    fn submit_with(
        &mut self,
        name: &str,
        sites: &[&str],
        (seconds, output): (&str, &str),
        retries: u32,
    ) -> Result<u64> {
        let components: Vec<Value> = sites.iter().enumerate().map(|(index, site): (usize, &&str)| {
            let mut component = json!({
                "name": format!("c{index}"),
                "processors": 1,
                "executable": "/bin/sh",
                "arguments": [
                    self.environment.payload(), self.environment.ledger(), seconds, "0", "polite", output,
                    "0",
                ],
            });
            if output != "-" {
                component["output"] = json!([{ "path": output }]);
            }
            if !site.is_empty() {
                component["site"] = json!(site);
            }
            component
        }).collect();
        let document = json!({
            "name": name, "wall_time": "60s", "max_retries": retries, "component": components,
        });
        let answer = self.api.post_expected("/v1/jobs", &document)?;
        let id = answer["jobs"][0]["id"].as_u64().context("no number")?;
        self.promises.acknowledged.insert(name.into(), vec![id]);
        Ok(id)
    }

    fn read_job(&self, id: u64) -> Result<Value> {
        self.api.get_expected(&format!("/v1/jobs/{id}"))
    }

    fn await_state(&self, id: u64, state: &str) -> Result<()> {
        self.wait(&format!("job {id} {state}"), |scene| {
            let job = scene.read_job(id)?;
            let now = job["phase"]["state"].as_str().unwrap_or_default();
            let ended = matches!(now, "finished" | "failed" | "cancelled");
            ensure!(
                !ended || now == state,
                "job {id} is {now}, not {state}: {job}"
            );
            Ok(now == state)
        })
    }

    fn site(&self, index: usize) -> Result<Value> {
        self.api
            .get_expected(&format!("/v1/sites/{}", self.environment.sites[index].name))
    }

    fn await_site(&self, index: usize, state: &str) -> Result<()> {
        self.wait(&format!("site {index} {state}"), |scene| {
            Ok(scene.site(index)?["state"] == state)
        })
    }

    fn root(&self, index: usize) -> &Path {
        &self.environment.sites[index].root
    }

    fn away_path(&self, index: usize) -> PathBuf {
        self.root(index).with_extension("away")
    }

    fn take_away(&self, index: usize) -> Result<()> {
        Ok(std::fs::rename(self.root(index), self.away_path(index))?)
    }

    fn bring_back(&self, index: usize) -> Result<()> {
        Ok(std::fs::rename(self.away_path(index), self.root(index))?)
    }

    /// Lists the processes at a site: the payload's, and the wrapper with what it started for
    /// itself.
    fn site_processes(&self, index: usize) -> (Vec<u32>, Vec<u32>) {
        let carriers = evidence::tagged_processes(&self.root(index).join("attempts"));
        let ours = carriers
            .into_iter()
            .filter(|(_, tag)| !tag.starts_with("cabcdefgh-"));
        ours.map(|(pid, _)| pid).partition(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry.starts_with(b"COSPAN_TAG="))
        })
    }

    fn judge_scene(&self, foreign: &mut [ForeignAttempt]) -> Result<()> {
        let judged = settle::settle_and_judge(
            &self.environment,
            &self.api,
            &self.promises,
            foreign,
            PATIENCE,
        )?;
        let broken: Vec<String> = judged
            .0
            .violations
            .iter()
            .map(ToString::to_string)
            .collect();
        ensure!(broken.is_empty(), "the oracle found: {}", broken.join("; "));
        ensure!(judged.0.payloads > 0, "no payload ran");
        Ok(())
    }
}

fn vanishes_and_returns(scene: &mut FaultScene) -> Result<()> {
    let id = scene.submit("stays", &["s2", "s3"], "4", 0)?;
    scene.await_state(id, "running")?;
    scene.take_away(1)?;
    scene.await_site(1, "unreachable")?;
    let elsewhere = scene.submit("elsewhere", &["", ""], "0.2", 0)?;
    scene.await_state(elsewhere, "finished")?;
    let job = scene.read_job(elsewhere)?;
    let used = job["components"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["site"] == "s2");
    ensure!(!used, "a job was placed at a site that is gone");
    let job = scene.read_job(id)?;
    ensure!(
        job["phase"]["state"] == "running",
        "unknown was taken for failed: {job}"
    );
    scene.bring_back(1)?;
    scene.await_state(id, "finished")?;
    ensure!(
        scene.read_job(id)?["round"] == 1,
        "it was moved although its site came back"
    );
    Ok(())
}

fn wrapper_is_killed(scene: &mut FaultScene) -> Result<()> {
    let id = scene.submit("killed", &["", ""], "3", 1)?;
    scene.await_state(id, "running")?;
    let index = (0..3).find(|index| !scene.site_processes(*index).1.is_empty());
    let index = index.context("no wrapper found")?;
    scene
        .site_processes(index)
        .1
        .into_iter()
        .for_each(|pid| signal(pid, Signal::KILL));
    scene.await_state(id, "finished")?;
    let job = scene.read_job(id)?;
    ensure!(
        job["round"] == 2 && job["setbacks"]["own_errors"] == 1,
        "not its own: {job}"
    );
    ensure!(
        job["setbacks"]["site_errors"] == 0,
        "the site was charged: {job}"
    );
    Ok(())
}

fn payload_is_killed(scene: &mut FaultScene) -> Result<()> {
    for (name, retries, end) in [("gives-up", 0, "failed"), ("tries-again", 1, "finished")] {
        let id = scene.submit(name, &["s1", "s2"], "3", retries)?;
        scene.await_state(id, "running")?;
        scene
            .site_processes(0)
            .0
            .into_iter()
            .for_each(|pid| signal(pid, Signal::KILL));
        scene.await_state(id, end)?;
        let job = scene.read_job(id)?;
        ensure!(
            job["setbacks"]["site_errors"] == 0,
            "the site was charged: {job}"
        );
    }
    Ok(())
}

fn is_frozen(scene: &mut FaultScene) -> Result<()> {
    let id = scene.submit("frozen", &["s2", "s3"], "1", 0)?;
    scene.await_state(id, "running")?;
    let (payload, wrapper) = scene.site_processes(1);
    let all: Vec<u32> = payload.into_iter().chain(wrapper).collect();
    ensure!(!all.is_empty(), "nothing to freeze");
    all.iter().for_each(|pid| signal(*pid, Signal::STOP));
    // The other component ends meanwhile; haste would show at that moment.
    scene.wait("the other component over", |scene| {
        Ok(scene.read_job(id)?["components"][1]["state"] == "succeeded")
    })?;
    let job = scene.read_job(id)?;
    all.iter().for_each(|pid| signal(*pid, Signal::CONT));
    ensure!(
        job["phase"]["state"] == "running",
        "a frozen component was given up: {job}"
    );
    scene.await_state(id, "finished")?;
    ensure!(scene.read_job(id)?["round"] == 1, "it was run twice");
    Ok(())
}

fn all_vanish(scene: &mut FaultScene) -> Result<()> {
    let id = scene.submit("isolated", &["s1", "s2", "s3"], "3", 0)?;
    scene.await_state(id, "running")?;
    (0..3).try_for_each(|index| scene.take_away(index))?;
    scene.wait("isolated", |scene| {
        Ok(scene.api.get_expected("/v1/sites")?["isolated"] == true)
    })?;
    let waiting = scene.submit("waits", &["", ""], "0.2", 0)?;
    // Longer than it takes to call a single site unreachable and to charge it.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        for index in 0..3 {
            let site = scene.site(index)?;
            ensure!(
                site["consecutive_errors"] == 0,
                "charged while isolated: {site}"
            );
        }
        let job = scene.read_job(id)?;
        ensure!(
            job["phase"]["state"] == "running" && job["round"] == 1,
            "moved: {job}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    // The first silent site was reported before the silence of the others showed the fault to be
    // ours.
    let told = scene.receiver.received();
    ensure!(
        told.iter().all(|n| n["kind"] == "unreachable"),
        "a site was blamed: {told:?}"
    );
    (0..3).try_for_each(|index| scene.bring_back(index))?;
    scene.await_state(id, "finished")?;
    scene.await_state(waiting, "finished")?;
    let isolated = &scene.api.get_expected("/v1/sites")?["isolated"];
    ensure!(*isolated != true, "still isolated");
    Ok(())
}

/// Returns the script by which a local site starts payloads.
fn wrapper_at(root: &Path) -> Result<PathBuf> {
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("wrapper-") {
            return Ok(entry.path());
        }
    }
    bail!("no wrapper in {}", root.display())
}

fn fails_again_and_again(scene: &mut FaultScene) -> Result<()> {
    // The script that starts payloads there runs nothing, neither ours nor others'.
    let wrapper = wrapper_at(scene.root(0))?;
    let whole = std::fs::read(&wrapper)?;
    std::fs::write(&wrapper, "echo 'nothing can run here' >&2; exit 1\n")?;
    let begun = Instant::now();
    // Two of six come there: the others find room at the other two sites.
    // On a loaded machine that may take several rounds, whose jobs have names of their own.
    for round in 0.. {
        if scene.site(0)?["state"] == "unusable" {
            break;
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "it stays as it is: {}",
            scene.site(0)?
        );
        let ids = (0..6).map(|n| scene.submit(&format!("moved-{round}-{n}"), &[""], "0.2", 0));
        let ids = ids.collect::<Result<Vec<u64>>>()?;
        ids.iter()
            .try_for_each(|id| scene.await_state(*id, "finished"))?;
    }
    scene.wait("the administrator told", |scene| Ok(is_told(scene, "s1")))?;
    let before = scene.receiver.received().len();
    std::fs::write(&wrapper, whole)?;
    // Half open it takes probes: jobs that may run again; three at once reach every site.
    let begun = Instant::now();
    for number in 0.. {
        if scene.site(0)?["state"] == "usable" {
            break;
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "it never came back: {}",
            scene.site(0)?
        );
        let id = scene.submit(&format!("probe-{number}"), &["", "", ""], "0.1", 0)?;
        scene.await_state(id, "finished")?;
        std::thread::sleep(Duration::from_millis(200));
    }
    scene.wait("told that it is back", |scene| {
        Ok(scene.receiver.received().len() > before)
    })?;
    ensure!(
        !is_told(scene, "s2") && !is_told(scene, "s3"),
        "a healthy site was blamed"
    );
    Ok(())
}

fn is_told(scene: &FaultScene, site: &str) -> bool {
    scene.receiver.received().iter().any(|n| n["site"] == site)
}
