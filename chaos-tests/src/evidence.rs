//! Everything that the oracle looks at, gathered once all has settled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::api::{Api, ApiReply};
use crate::load::ClientPromises;
use crate::payload::PayloadLedger;
use crate::round_history::{self, HistoryEvent};
use crate::test_environment::{EnvironmentSite, TestEnvironment};

/// A job as it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobTruth {
    pub id: u64,
    /// The name that it was submitted with.
    pub name: String,
    pub state: String,
    /// Number of its components.
    pub components: u32,
    /// The demands of the job beside its components.
    pub asked: RequestedJob,
    pub events: Vec<HistoryEvent>,
    /// True if older events are gone.
    pub shortened: bool,
    /// First line of each output that was collected or can be fetched, by component.
    pub outputs: BTreeMap<u32, String>,
}

/// The demands of a job, as far as they are judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedJob {
    /// The policy splits it.
    pub flexible: bool,
    /// No payload of it may begin twice.
    pub once: bool,
    /// The sweep, and how many of its runs may be active at once.
    pub sweep: Option<(u64, u64)>,
    /// Processors of its components as they last were, if they share a file out among them.
    pub shares: Vec<u64>,
}

impl RequestedJob {
    fn read_asked(job: &Value) -> Self {
        let document = &job["document"];
        let sweep = &job["sweep"];
        let inputs = document["component"][0]["input"]
            .as_array()
            .into_iter()
            .flatten();
        let shares_out = inputs.into_iter().any(|input| input["read"] == "chunk");
        let components = job["components"].as_array().filter(|_| shares_out);
        Self {
            flexible: !document["flexible"].is_null() || document["request"] == "flexible",
            once: document["rerunnable"] == false,
            sweep: sweep["group"].as_u64().zip(sweep["at_once"].as_u64()),
            shares: components
                .into_iter()
                .flatten()
                .filter_map(|component: &Value| component["processors"].as_u64())
                .collect(),
        }
    }
}

/// A site as it was left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteTruth {
    pub name: String,
    /// Idle and total processors, as published.
    pub processors: (u64, u64),
    /// Attempts that still use resources.
    pub live: Vec<String>,
    /// Digests in the content store.
    pub store: BTreeSet<String>,
    /// Digests that the catalogue keeps there.
    pub pinned: BTreeSet<String>,
    /// Copies under way, or what is left of them.
    pub incoming: Vec<String>,
    /// Time at which each attempt was ready, by the site's files.
    pub ready_ms: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunEvidence {
    /// The instance of the control plane.
    pub instance: String,
    /// The answers that clients received.
    pub promises: ClientPromises,
    /// All jobs that the server has.
    pub jobs: Vec<JobTruth>,
    /// The ledger that the payloads wrote.
    pub ledger: PayloadLedger,
    pub sites: Vec<SiteTruth>,
    /// Processes that carry a tag below these sites.
    pub processes: Vec<String>,
    /// Damage to attempts of others.
    pub foreign: Vec<String>,
}

/// An attempt of another control plane: directory and a process.
#[derive(Debug)]
pub struct ForeignAttempt {
    place: PathBuf,
    before: BTreeMap<String, Vec<u8>>,
    child: Child,
}

/// The lock of the directory of copies; it stays.
const GATE: &str = "gate";
/// The instance of another user of the sites, as tags have it.
pub(crate) const FOREIGN: &str = "cabcdefgh";
const FOREIGN_TAG: &str = "cabcdefgh-1-0-1";

impl ForeignAttempt {
    /// Plants one at a site.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn plant(site: &EnvironmentSite) -> Result<Self> {
        let place = site.root.join("attempts").join(FOREIGN_TAG);
        fs::create_dir_all(place.join("work"))?;
        let mut child = Command::new("sleep")
            .arg("3600")
            .env("COSPAN_TAG", FOREIGN_TAG)
            .env("COSPAN_ATTEMPT_DIR", &place)
            .spawn()?;
        let pid = child.id();
        let ready = format!("host other\npid {pid}\nstart 1\nboot other\nend {FOREIGN_TAG}\n");
        let written = fs::write(place.join("ready"), ready)
            .and_then(|()| fs::write(place.join("work/data"), "theirs"));
        if written.is_err() {
            let _ = child.kill();
        }
        written?;
        let before = contents(&place)?;
        Ok(Self {
            place,
            before,
            child,
        })
    }

    /// Lists what was done to it.
    pub fn list_damage(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        match contents(&self.place) {
            Ok(after) if after == self.before => {}
            Ok(_) => done.push(format!("{} was changed", self.place.display())),
            Err(error) => done.push(format!("{} is gone: {error}", self.place.display())),
        }
        match self.child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => done.push(format!("its process was ended: {status}")),
            Err(error) => done.push(format!("its process is gone: {error}")),
        }
        done
    }
}

impl Drop for ForeignAttempt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn contents(place: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            for (inner, bytes) in contents(&entry.path())? {
                found.insert(format!("{name}/{inner}"), bytes);
            }
        } else {
            found.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(found)
}

/// Lists the names in a directory; none if it does not exist.
pub fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Lists processes that carry an attempt's directory below `root` (and are no zombies).
pub fn tagged_processes(root: &Path) -> Vec<(u32, String)> {
    let prefix = format!("COSPAN_ATTEMPT_DIR={}/", root.display()).into_bytes();
    let mut found = Vec::new();
    for name in names(Path::new("/proc")) {
        let Ok(pid) = name.parse::<u32>() else {
            continue;
        };
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
            continue;
        };
        if let Some(entry) = environment
            .split(|b| *b == 0)
            .find(|e| e.starts_with(&prefix))
        {
            let tag = String::from_utf8_lossy(&entry[prefix.len()..]).into_owned();
            found.push((pid, tag));
        }
    }
    found
}

/// Gathers everything.
///
/// # Errors
/// The server does not answer, or a directory cannot be read.
pub fn gather_evidence(
    environment: &TestEnvironment,
    api: &Api,
    promises: &ClientPromises,
    foreign: &mut [ForeignAttempt],
) -> Result<RunEvidence> {
    let store = api.get_expected("/v1/store")?;
    let rows = api.jobs()?;
    let jobs = rows
        .iter()
        .map(|row| job_truth(environment, api, row))
        .collect::<Result<_>>()?;
    Ok(RunEvidence {
        instance: store["instance"]
            .as_str()
            .context("a store without an instance")?
            .into(),
        promises: promises.clone(),
        jobs,
        ledger: PayloadLedger::read(&environment.ledger())?,
        foreign: foreign
            .iter_mut()
            .flat_map(ForeignAttempt::list_damage)
            .collect(),
        ..gather_places(environment, api)?
    })
}

/// Gathers what the sites' directories and processes show, and nothing of jobs.
///
/// # Errors
/// The server does not answer.
pub fn gather_places(environment: &TestEnvironment, api: &Api) -> Result<RunEvidence> {
    let files = api.files()?;
    let reported = api.get_expected("/v1/sites")?;
    let sites = environment
        .sites
        .iter()
        .map(|site| site_truth(site, &reported, &files));
    let carried = environment
        .sites
        .iter()
        .flat_map(|site| tagged_processes(&site.root.join("attempts")));
    Ok(RunEvidence {
        sites: sites.collect(),
        processes: carried
            .filter(|(_, tag)| !tag.starts_with(FOREIGN))
            .map(|(pid, tag)| format!("{tag} ({pid})"))
            .collect(),
        ..RunEvidence::default()
    })
}

fn job_truth(environment: &TestEnvironment, api: &Api, row: &Value) -> Result<JobTruth> {
    let id = row["id"].as_u64().context("a job without a number")?;
    let history = api.get_expected(&format!("/v1/jobs/{id}/events"))?;
    let state = row["state"].as_str().unwrap_or_default().to_owned();
    let components = row["components"].as_u64().unwrap_or(0) as u32;
    let mut outputs = BTreeMap::new();
    let job = api.get_expected(&format!("/v1/jobs/{id}"))?;
    if state == "finished" {
        for index in 0..components {
            let output = &job["components"][index as usize]["outputs"][0];
            let wanted = &job["document"]["component"][index as usize]["output"][0];
            if output.is_null() {
                continue;
            }
            let line = match wanted["site"].as_str() {
                Some(site) => collected_line(environment, site, output["digest"].as_str()),
                None => fetched_line(api, id, index),
            };
            outputs.insert(index, line);
        }
    }
    Ok(JobTruth {
        id,
        name: row["name"].as_str().unwrap_or_default().into(),
        state,
        components,
        asked: RequestedJob::read_asked(&job),
        events: round_history::events(&history)?,
        shortened: history["shortened"] == true,
        outputs,
    })
}

/// Returns the first line of a collected output, from the store of its target site.
fn collected_line(environment: &TestEnvironment, site: &str, digest: Option<&str>) -> String {
    let site = environment.sites.iter().find(|other| other.name == site);
    let (Some(site), Some(digest)) = (site, digest) else {
        return "no digest".into();
    };
    let path = site.root.join("store").join(digest);
    let mut first = vec![0; 64];
    let read = fs::File::open(&path).and_then(|mut file| file.read(&mut first));
    match read {
        Ok(length) => first_line(&String::from_utf8_lossy(&first[..length])),
        Err(error) => format!("{}: {error}", path.display()),
    }
}

fn fetched_line(api: &Api, id: u64, index: u32) -> String {
    match api.get(&format!("/v1/jobs/{id}/outputs/c{index}/out")) {
        ApiReply::Answered(200, Value::String(text)) => first_line(&text),
        other => format!("{other:?}"),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().into()
}

fn site_truth(site: &EnvironmentSite, reported: &Value, files: &[Value]) -> SiteTruth {
    let list = reported["sites"].as_array().into_iter().flatten();
    let report = list
        .into_iter()
        .find(|report| report["name"] == site.name.as_str());
    let pinned = files
        .iter()
        .filter(|file: &&Value| {
            let replicas = file["replicas"].as_array().into_iter().flatten();
            replicas
                .into_iter()
                .any(|r| r["site"] == site.name.as_str() && r["path"].is_null())
        })
        .filter_map(|file| file["digest"].as_str());
    let attempts = site.root.join("attempts");
    SiteTruth {
        name: site.name.clone(),
        processors: (
            processors_of(report, "idle"),
            processors_of(report, "total"),
        ),
        live: names(&site.root.join("live")),
        store: names(&site.root.join("store")).into_iter().collect(),
        pinned: pinned.map(str::to_owned).collect(),
        incoming: names(&site.root.join("incoming"))
            .into_iter()
            .filter(|n| n != GATE)
            .collect(),
        ready_ms: names(&attempts)
            .into_iter()
            .filter_map(|tag: String| {
                let at = fs::metadata(attempts.join(&tag).join("ready"))
                    .and_then(|m| m.modified())
                    .ok()?;
                let ms = at.duration_since(UNIX_EPOCH).ok()?.as_millis();
                Some((tag, u64::try_from(ms).ok()?))
            })
            .collect(),
    }
}

fn processors_of(report: Option<&Value>, what: &str) -> u64 {
    report
        .and_then(|report| report[what]["processors"].as_u64())
        .unwrap_or(u64::MAX)
}
