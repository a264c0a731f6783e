//! Plays a scenario through the real server: processes, files and the network of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::calls::CallCounts;
use super::differ_scenario::{
    DifferScenario, JobStanding, OUTPUT_BYTES, ScriptPoint, ScriptStep, document, file_name,
    site_name,
};
use super::{PlayedScenario, job_history};
use crate::api::{Api, ApiReply};
use crate::evidence;
use crate::server::ServerProcess;
use crate::stimulus::signal;
use crate::test_environment::TestEnvironment;

/// Time between two looks at a condition, and the longest wait for one.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest that an answer to a call takes on a machine that does not stand still.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500);

/// Writes the payload's program below the directory of a run.
pub(super) fn program(environment: &TestEnvironment) -> Result<PathBuf> {
    let path = environment.path().join("program");
    // It waits until somebody opens its pipe, and costs nothing meanwhile.
    let script = format!(
        "#!/bin/sh\n\
         # MILLISECONDS CODE [OUTPUT]; MILLISECONDS counts at simulated sites only\n\
         pipe=${{0%/*}}/pipe-$COSPAN_JOB-$COSPAN_COMPONENT-$COSPAN_ATTEMPT\n\
         mkfifo \"$pipe\"\n\
         read -r word < \"$pipe\"\n\
         if [ -n \"$3\" ]; then\n\
         \x20   {{ echo \"$COSPAN_TAG\"; head -c {size} /dev/zero; }} | head -c {size} > \"$3\"\n\
         fi\n\
         exit \"$2\"\n",
        size = OUTPUT_BYTES.0
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Plays a scenario.
///
/// # Errors
/// The script cannot be carried out.
pub(super) fn play_scenario(
    scenario: &DifferScenario,
    environment: &TestEnvironment,
    binary: &Path,
    program: &str,
) -> Result<PlayedScenario> {
    for (file, planned) in scenario.files.iter().enumerate() {
        let files = environment.sites[planned.site].root.join("files");
        fs::create_dir_all(&files)?;
        fs::write(files.join(file_name(file)), planned.bytes(file))?;
    }
    let mut server = ServerProcess::new(binary, environment);
    server.start()?;
    let api = server.api()?;
    let ids = BTreeMap::new();
    let calls = CallCounts::default();
    let drained = String::new();
    let mut user = RealUser {
        scenario,
        environment,
        program,
        server,
        api,
        ids,
        drained,
        calls,
    };
    user.act()?;
    user.await_answers()?;
    user.stop()?;
    let stories = job_history::read_disk_store(&environment.data().join("store"))?;
    Ok(PlayedScenario {
        stories,
        calls: user.calls,
    })
}

/// The user who carries out a script.
struct RealUser<'a> {
    scenario: &'a DifferScenario,
    environment: &'a TestEnvironment,
    program: &'a str,
    server: ServerProcess,
    api: Api,
    ids: BTreeMap<usize, u64>,
    /// The site that was drained last.
    drained: String,
    calls: CallCounts,
}

impl RealUser<'_> {
    fn act(&mut self) -> Result<()> {
        self.await_rest()?;
        for (file, planned) in self.scenario.files.iter().enumerate() {
            let name = file_name(file);
            let site = site_name(planned.site);
            self.api.post_expected(
                "/v1/files",
                &json!({ "name": name, "site": site, "path": name }),
            )?;
        }
        self.scenario
            .script
            .iter()
            .try_for_each(|step| self.step(*step).with_context(|| format!("{step:?}")))
    }

    fn step(&mut self, step: ScriptStep) -> Result<()> {
        match step {
            ScriptStep::Rest => self.await_rest(),
            ScriptStep::Submit(job) => self.submit(job),
            ScriptStep::Await(job, point) => self.await_point(job, point),
            ScriptStep::Pause(ms) => {
                std::thread::sleep(Duration::from_millis(ms));
                Ok(())
            }
            ScriptStep::Release(job, component) => self.release(job, component),
            ScriptStep::ReleaseAll(job) => {
                let components = 0..self.scenario.jobs[job].components.len();
                components
                    .into_iter()
                    .try_for_each(|component| self.release(job, component))
            }
            ScriptStep::Cancel(job) => self.command_job(job, "cancel"),
            ScriptStep::Freeze(job) => self.command_job(job, "freeze"),
            ScriptStep::Thaw(job) => self.command_job(job, "thaw"),
            ScriptStep::Lose(job) => self.lose_site(job),
            ScriptStep::Drain(job) => {
                self.drained = self.site(job)?;
                self.command_site("drain")
            }
            ScriptStep::Undrain => self.command_site("undrain"),
            ScriptStep::Restart => {
                self.stop()?;
                self.server.start().map(drop)
            }
        }
    }

    /// Kills the server with kill -9; saves its counters first.
    fn stop(&mut self) -> Result<()> {
        self.calls.add_calls(&self.read_counters()?);
        self.server.kill()
    }

    fn read_counters(&self) -> Result<CallCounts> {
        match self.api.get("/metrics") {
            ApiReply::Answered(200, Value::String(text)) => Ok(CallCounts::parse_metrics(&text)),
            other => bail!("no metrics: {other:?}"),
        }
    }

    /// Waits until all calls are counted. A call is counted once it is answered, and a job may end
    /// before: what its site shows is enough.
    fn await_answers(&self) -> Result<()> {
        let mut before = self.read_counters()?.comparable_calls();
        wait_until("no more calls are answered", || {
            std::thread::sleep(ANSWERED_WITHIN);
            let now = self.read_counters()?.comparable_calls();
            Ok(std::mem::replace(&mut before, now.clone()) == now)
        })
    }

    fn submit(&mut self, job: usize) -> Result<()> {
        let document = document(&self.scenario.spec(job, self.program)?);
        let answer = self.api.post_expected("/v1/jobs", &document)?;
        let id = answer["jobs"][0]["id"]
            .as_u64()
            .context("a job without a number")?;
        self.ids.insert(job, id);
        Ok(())
    }

    fn id(&self, job: usize) -> Result<u64> {
        self.ids
            .get(&job)
            .copied()
            .with_context(|| format!("job {job} has no number"))
    }

    fn read_job(&self, job: usize) -> Result<Value> {
        self.api
            .get_expected(&format!("/v1/jobs/{}", self.id(job)?))
    }

    fn command_job(&self, job: usize, order: &str) -> Result<()> {
        let answer = self.api.post_expected(
            &format!("/v1/jobs:{order}"),
            &json!({ "ids": [self.id(job)?] }),
        )?;
        if answer["jobs"][0]["outcome"] != "done" {
            bail!("it was not done: {answer}");
        }
        Ok(())
    }

    fn command_site(&self, order: &str) -> Result<()> {
        self.api
            .post_expected(&format!("/v1/sites/{}/{order}", self.drained), &json!({}))
            .map(drop)
    }

    /// Opens the pipe for which a payload waits.
    fn release(&self, job: usize, component: usize) -> Result<()> {
        let attempt = &self.read_job(job)?["components"][component]["attempt"];
        let name = format!("pipe-{}-{component}-{attempt}", self.id(job)?);
        let pipe = self.environment.path().join(name);
        wait_until("it waits to be released", || {
            // Refused without a reader: the payload is not there yet.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK;
            let opened = rustix::fs::open(&pipe, flags, Mode::empty());
            Ok(opened.is_ok_and(|pipe| rustix::io::write(&pipe, b"go\n").is_ok()))
        })
    }

    /// Returns the site of the first component.
    fn site(&self, job: usize) -> Result<String> {
        let job = self.read_job(job)?;
        let site = job["components"][0]["site"].as_str();
        Ok(site.context("the job is not placed")?.to_owned())
    }

    /// Kills the server and everything that runs at a site, wrappers first, so that none can
    /// report, as if their machine was restarted.
    fn lose_site(&mut self, job: usize) -> Result<()> {
        let site = self.site(job)?;
        let site = self
            .environment
            .sites
            .iter()
            .find(|other| other.name == site);
        let attempts = site.context("there is no such site")?.root.join("attempts");
        // A server that saw a wrapper alive knows that its machine goes on.
        self.stop()?;
        for attempt in fs::read_dir(&attempts)? {
            set_another_boot(&attempt?.path().join("ready"))?;
        }
        let mut running = evidence::tagged_processes(&attempts);
        running.sort_by_key(|(pid, _)| is_payload(*pid));
        running
            .into_iter()
            .for_each(|(pid, _)| signal(pid, Signal::KILL));
        self.server.start().map(drop)
    }

    fn await_point(&self, job: usize, point: ScriptPoint) -> Result<()> {
        wait_until("it gets there", || {
            let job = self.read_job(job)?;
            let runs = job["components"].as_array().into_iter().flatten();
            let standing = JobStanding {
                phase: job["phase"]["state"].as_str().unwrap_or_default().into(),
                round: job["round"]
                    .as_u64()
                    .and_then(|n| n.try_into().ok())
                    .unwrap_or(0),
                runs: runs
                    .map(|run| run["state"].as_str().unwrap_or_default().into())
                    .collect(),
            };
            point
                .has_reached(&standing)
                .with_context(|| format!("it has ended: {}", job["phase"]))
        })
    }

    fn await_rest(&self) -> Result<()> {
        wait_until("every site is usable and idle", || {
            let sites = self.api.get_expected("/v1/sites")?;
            Ok(sites["sites"]
                .as_array()
                .context("no sites")?
                .iter()
                .all(|site: &Value| {
                    site["state"] == "usable"
                        && site["total"]["processors"].is_u64()
                        && site["total"] == site["idle"]
                }))
        })
    }
}

/// Changes a wrapper's file so that it names another boot of the machine than this one.
fn set_another_boot(ready: &Path) -> Result<()> {
    let Ok(text) = fs::read_to_string(ready) else {
        return Ok(());
    };
    let lines = text.lines().map(|line| {
        if line.starts_with("boot ") {
            "boot another\n".to_owned()
        } else {
            format!("{line}\n")
        }
    });
    Ok(fs::write(ready, lines.collect::<String>())?)
}

/// Returns true if a wrapper started this process for the job.
fn is_payload(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry.starts_with(b"COSPAN_TAG="))
}

fn wait_until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > PATIENCE {
            bail!("not within {PATIENCE:?}: {what}");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
