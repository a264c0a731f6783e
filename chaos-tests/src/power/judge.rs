//! Judges what a power cut left.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::clients::{ToldClients, digest_of};
use super::machine::run_checked;
use crate::api::{Api, ApiReply};
use crate::evidence::RunEvidence;
use crate::load::ClientCrowd;
use crate::oracle::{self, OracleRule};
use crate::test_environment::TestEnvironment;

/// Longest wait until all sites are usable, and until each has run something.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rules about files that wrappers left long ago: a power cut takes those that nobody synced.
const TAKEN_BY_CUTS: [OracleRule; 1] = [OracleRule::AllReady];

/// The final state of each ended job that clients saw, and when.
pub(super) type SeenEndings = BTreeMap<u64, (String, u64)>;

/// Lists the sites that take no work, each with the reason. A site that lost many attempts to the
/// cut is tried out with few at a time: it does take work.
///
/// # Errors
/// The server does not answer.
pub(super) fn unusable_sites(
    environment: &TestEnvironment,
    api: &Api,
    crowd: Option<&ClientCrowd>,
    cut: u32,
) -> Result<Vec<String>> {
    let begun = Instant::now();
    let mut probes = BTreeMap::new();
    loop {
        let report = api.get_expected("/v1/sites")?;
        let mut wrong = Vec::new();
        for site in report["sites"].as_array().into_iter().flatten() {
            let name = site["name"].as_str().unwrap_or_default();
            if site["state"] != "usable" && site["state"] != "probing" {
                wrong.push(format!(
                    "site {name} is {}: {}",
                    site["state"], site["reason"]
                ));
                continue;
            }
            if !probes.contains_key(name) {
                probes.insert(name.to_owned(), send_probe(environment, api, name, cut)?);
            }
        }
        if probes.len() < environment.sites.len() && wrong.is_empty() {
            wrong.push(format!("there are {} sites", probes.len()));
        }
        for (name, id) in &probes {
            let job = api.get_expected(&format!("/v1/jobs/{id}"))?;
            if job["phase"]["state"] != "finished" {
                wrong.push(format!(
                    "job {id} at site {name} is {}",
                    job["phase"]["state"]
                ));
            }
        }
        if let Some(crowd) = crowd {
            crowd.record_final_jobs(&api.newest(200)?);
        }
        if wrong.is_empty() || begun.elapsed() > PATIENCE {
            return Ok(wrong);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn send_probe(environment: &TestEnvironment, api: &Api, site: &str, cut: u32) -> Result<u64> {
    let ledger = environment.ledger();
    let payload = environment.payload();
    let sent = api.post_expected(
        "/v1/jobs",
        &json!({
            "name": format!("probe-{cut}-{site}"),
            "priority": "super-high",
            "wall_time": "60s",
            "component": [{
                "name": "c0",
                "site": site,
                "processors": 1,
                "executable": "/bin/sh",
                "arguments": [payload, ledger, "0.01", "0", "polite", "-", "0"],
            }],
        }),
    )?;
    Ok(sent["jobs"][0]["id"].as_u64().unwrap_or_default())
}

/// Lists what was reported as done and is no longer there.
///
/// # Errors
/// The server does not answer.
pub(super) fn lost_results(
    environment: &TestEnvironment,
    program: &Path,
    api: &Api,
    (told, acknowledged, ended): (&ToldClients, &BTreeMap<String, Vec<u64>>, &SeenEndings),
) -> Result<Vec<String>> {
    let mut lost = Vec::new();
    let rows = api.jobs()?;
    let jobs: BTreeMap<u64, &Value> = rows
        .iter()
        .filter_map(|row| Some((row["id"].as_u64()?, row)))
        .collect();
    for (name, ids) in acknowledged {
        for id in ids {
            if jobs.get(id).is_none_or(|row| row["name"] != name.as_str()) {
                lost.push(format!("job {id} ({name}) is not there"));
            }
        }
    }
    for (id, (state, _)) in ended {
        let now = jobs.get(id).map(|row| &row["state"]);
        if now.is_none_or(|now| now != state.as_str()) {
            lost.push(format!("job {id} was {state}, and is {now:?}"));
        }
    }
    lost.extend(lost_keys(environment, program, api, told)?);
    lost.extend(lost_uploads(environment, api, told)?);
    for (file, digest) in &told.exports {
        match digest_of(file) {
            Ok(found) if found == *digest => {}
            Ok(_) => lost.push(format!("the export {} is not what it was", file.display())),
            Err(error) => lost.push(format!("an export is lost: {error:#}")),
        }
    }
    Ok(lost)
}

fn lost_keys(
    environment: &TestEnvironment,
    program: &Path,
    api: &Api,
    told: &ToldClients,
) -> Result<Vec<String>> {
    let mut list = Command::new(program);
    list.args(["key", "list", "-o", "json", "--config"])
        .arg(environment.config());
    let listed = run_checked(list.env_clear().env("HOME", environment.path()))?;
    let mut lost = Vec::new();
    for (name, secret) in &told.keys {
        let is_listed = listed.contains(&format!("{name:?}"));
        if is_listed != secret.is_some() {
            lost.push(format!(
                "key {name}: it is {} the list",
                if is_listed { "on" } else { "not on" }
            ));
        }
        let Some(secret) = secret else { continue };
        match api.with_token(secret).get("/v1/jobs?limit=1") {
            ApiReply::Answered(200, _) => {}
            other => lost.push(format!("key {name} does not let its owner in: {other:?}")),
        }
    }
    Ok(lost)
}

fn lost_uploads(
    environment: &TestEnvironment,
    api: &Api,
    told: &ToldClients,
) -> Result<Vec<String>> {
    let files = api.files()?;
    let mut lost = Vec::new();
    for (name, digest) in &told.uploads {
        let Some(file) = files.iter().find(|file| file["name"] == name.as_str()) else {
            lost.push(format!("upload {name} is not there"));
            continue;
        };
        if file["digest"] != digest.as_str() {
            lost.push(format!("upload {name} is {}, not {digest}", file["digest"]));
        }
        for replica in file["replicas"].as_array().into_iter().flatten() {
            let site = environment
                .sites
                .iter()
                .find(|site| replica["site"] == site.name.as_str());
            let place = site.zip(replica["path"].as_str());
            let place = place.map(|(site, path)| site.root.join("files").join(path));
            let found = place.map(|place| digest_of(&place));
            if !matches!(&found, Some(Ok(found)) if found == digest) {
                lost.push(format!("upload {name} at {}: {found:?}", replica["site"]));
            }
        }
    }
    Ok(lost)
}

/// Lists what the oracle says once everything has come to rest, and jobs that ran although they
/// were over.
pub(super) fn broken_rules(evidence: &RunEvidence, ended: &SeenEndings) -> Vec<String> {
    let verdict = oracle::judge_evidence(evidence);
    let mut broken: Vec<String> = verdict
        .violations
        .iter()
        .filter(|violation: &&oracle::Violation| !TAKEN_BY_CUTS.contains(&violation.rule))
        .map(ToString::to_string)
        .collect();
    for run in &evidence.ledger.runs {
        let job = run.tag.split('-').nth(1).and_then(|job| job.parse().ok());
        if let Some((state, told_ms)) = job.and_then(|job: u64| ended.get(&job))
            && run.start_ms > *told_ms
        {
            broken.push(format!("{} started when its job was {state}", run.tag));
        }
    }
    broken
}
