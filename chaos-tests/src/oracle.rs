//! Judges what is left after faults, by the rules of the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cospan_domain::ids::AttemptTag;

use crate::evidence::{JobTruth, RunEvidence, SiteTruth};
use crate::payload::PayloadRun;
use crate::round_history::{self, JobRound};

mod job_demands;
#[cfg(test)]
mod tests;

/// A rule that must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OracleRule {
    /// Every acknowledged job is there and has reached a final state.
    NothingLost,
    /// A request is one job, however often it was sent.
    NothingDoubled,
    /// No request that could be served was refused.
    NothingRefused,
    /// (a) The payload of one attempt starts at most once.
    StartsOnce,
    /// (b) No payload starts before the start of its round was decided.
    GoFirst,
    /// (b) The start is decided once every component is ready.
    AllReady,
    /// (c) A finished job has a last round that was not aborted, and whose payloads began together
    /// and all succeeded.
    FinishedIsDone,
    /// (d) Two attempts of one component never run at the same time.
    NoOverlap,
    /// (e) Outputs come from one round.
    OneRoundsOutput,
    /// Payloads find their whole input.
    WholeInput,
    /// Nothing of a cancelled job starts afterwards.
    CancelHolds,
    /// No processor stays held.
    NothingHeld,
    /// No process stays.
    NothingRuns,
    /// No staged file stays that the catalogue does not keep.
    NothingStaged,
    /// Attempts of others are not touched.
    OthersLeftAlone,
    /// No payload of a job that must not run twice starts a second time.
    RunsOnce,
    /// No more runs of a sweep are active than it allows.
    LimitHolds,
    /// Payloads that know each other know all of them.
    PeersKnown,
    /// Payloads that share a file out have their own chunk of it each.
    OwnChunk,
    /// A reservation is confirmed at each site only once, and at none before all have granted it.
    ReservationKept,
    /// Payloads run within the reservation that their job named.
    RunsWithin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: OracleRule,
    /// A description of what happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// Counts of what the oracle saw, so that a run over nothing does not pass for a proof.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OracleVerdict {
    pub violations: Vec<Violation>,
    /// Jobs by final state.
    pub states: BTreeMap<String, usize>,
    /// Payloads that started.
    pub payloads: usize,
    /// Jobs with so long a history that its beginning is gone: judged in part.
    pub shortened: usize,
    /// Events of claims, with their counts.
    pub claims: BTreeMap<&'static str, usize>,
}

impl OracleVerdict {
    pub(crate) fn blame(&mut self, rule: OracleRule, what: impl Into<String>) {
        self.violations.push(Violation {
            rule,
            what: what.into(),
        });
    }
}

/// Judges the evidence by all rules.
pub fn judge_evidence(evidence: &RunEvidence) -> OracleVerdict {
    let mut verdict = OracleVerdict {
        payloads: evidence.ledger.runs.len(),
        ..OracleVerdict::default()
    };
    check_acknowledged(evidence, &mut verdict);
    let by_job = runs_by_job(evidence, &mut verdict);
    for job in &evidence.jobs {
        *verdict.states.entry(job.state.clone()).or_default() += 1;
        verdict.shortened += usize::from(job.shortened);
        let none = Vec::new();
        let runs = by_job.get(&job.id).unwrap_or(&none);
        check_starts(job, runs, evidence, &mut verdict);
        check_ends(job, runs, &mut verdict);
    }
    check_overlaps(evidence, &mut verdict);
    job_demands::judge_demands(evidence, &by_job, &mut verdict);
    check_leftovers(evidence, &mut verdict);
    verdict
}

fn is_final(state: &str) -> bool {
    matches!(state, "finished" | "failed" | "cancelled")
}

fn check_acknowledged(evidence: &RunEvidence, verdict: &mut OracleVerdict) {
    let jobs: BTreeMap<u64, &JobTruth> = evidence.jobs.iter().map(|job| (job.id, job)).collect();
    for (name, ids) in &evidence.promises.acknowledged {
        let distinct: BTreeSet<u64> = ids.iter().copied().collect();
        if distinct.len() > 1 {
            verdict.blame(
                OracleRule::NothingDoubled,
                format!("{name} was acknowledged as {distinct:?}"),
            );
        }
        for id in distinct {
            match jobs.get(&id) {
                None => verdict.blame(
                    OracleRule::NothingLost,
                    format!("job {id} ({name}) is not there"),
                ),
                Some(job) if job.name != *name => verdict.blame(
                    OracleRule::NothingLost,
                    format!("job {id} is {}, not {name}", job.name),
                ),
                Some(job) if !is_final(&job.state) => {
                    verdict.blame(
                        OracleRule::NothingLost,
                        format!("job {id} is still {}", job.state),
                    );
                }
                Some(_) => {}
            }
        }
    }
    let mut names = BTreeMap::new();
    for job in &evidence.jobs {
        if let Some(other) = names.insert(&job.name, job.id) {
            let what = format!("{} is job {other} and job {}", job.name, job.id);
            verdict.blame(OracleRule::NothingDoubled, what);
        }
    }
    for answer in &evidence.promises.refused {
        verdict.blame(OracleRule::NothingRefused, answer.clone());
    }
    for id in &evidence.promises.cancelled {
        // A job that was cancelled while it was failing has failed; it never finishes.
        if jobs.get(id).is_some_and(|job| job.state == "finished") {
            verdict.blame(
                OracleRule::CancelHolds,
                format!("job {id} was cancelled and finished"),
            );
        }
    }
}

fn runs_by_job<'a>(
    evidence: &'a RunEvidence,
    verdict: &mut OracleVerdict,
) -> BTreeMap<u64, Vec<(AttemptTag, &'a PayloadRun)>> {
    let mut by_job: BTreeMap<u64, Vec<(AttemptTag, &PayloadRun)>> = BTreeMap::new();
    for run in &evidence.ledger.runs {
        match run.tag.parse::<AttemptTag>() {
            Ok(tag) if tag.instance.to_string() == evidence.instance => {
                by_job.entry(tag.job.0).or_default().push((tag, run));
            }
            Ok(_) | Err(_) => {
                verdict.blame(
                    OracleRule::GoFirst,
                    format!("{} is no tag of ours", run.tag),
                );
            }
        }
        for input in &run.bad_inputs {
            verdict.blame(
                OracleRule::WholeInput,
                format!("{} found a wrong {input}", run.tag),
            );
        }
    }
    for id in by_job.keys() {
        if !evidence.jobs.iter().any(|job| job.id == *id) {
            verdict.blame(
                OracleRule::GoFirst,
                format!("a payload of job {id} ran, which is not there"),
            );
        }
    }
    by_job
}

/// Checks (a), (b), and that nothing starts after a cancellation.
fn check_starts(
    job: &JobTruth,
    runs: &[(AttemptTag, &PayloadRun)],
    evidence: &RunEvidence,
    verdict: &mut OracleVerdict,
) {
    let rounds = round_history::rounds(job.asked.flexible, &job.events);
    let mut seen = BTreeSet::new();
    let cancelled = job.events.iter().find(|event| event.name == "JobCancelled");
    for (tag, run) in runs {
        if !seen.insert(tag) {
            verdict.blame(OracleRule::StartsOnce, format!("{tag} started twice"));
        }
        if let Some(cancelled) = cancelled
            && run.start_ms > cancelled.at_ms
        {
            let late = run.start_ms - cancelled.at_ms;
            verdict.blame(
                OracleRule::CancelHolds,
                format!("{tag} started {late} ms after the end"),
            );
        }
        if job.shortened {
            continue;
        }
        match rounds
            .iter()
            .find_map(|round: &JobRound| round.earliest_start(tag.component.0, tag.attempt.0))
        {
            None => verdict.blame(
                OracleRule::GoFirst,
                format!("{tag} started without a decision"),
            ),
            Some(go) if run.start_ms < go => {
                let early = go - run.start_ms;
                verdict.blame(
                    OracleRule::GoFirst,
                    format!("{tag} started {early} ms too early"),
                );
            }
            Some(_) => {}
        }
    }
    if !job.shortened {
        rounds
            .iter()
            .for_each(|round| check_all_ready(job, round, evidence, verdict));
    }
}

fn check_all_ready(
    job: &JobTruth,
    round: &JobRound,
    evidence: &RunEvidence,
    verdict: &mut OracleVerdict,
) {
    let Some(go) = round.go_ms else { return };
    for (component, attempt) in &round.attempts {
        let tag = format!("c{}-{}-{component}-{attempt}", evidence.instance, job.id);
        if !round.ready.contains(component) {
            verdict.blame(
                OracleRule::AllReady,
                format!("{tag} was not ready at the decision"),
            );
        }
        // The file's time comes from the same clock; the kernel's is a tick behind.
        let at = evidence
            .sites
            .iter()
            .find_map(|site| site.ready_ms.get(&tag));
        match at {
            None => verdict.blame(
                OracleRule::AllReady,
                format!("{tag} left no `ready` at any site"),
            ),
            Some(at) if *at > go => {
                verdict.blame(
                    OracleRule::AllReady,
                    format!("{tag} was ready {} ms late", at - go),
                );
            }
            Some(_) => {}
        }
    }
}

/// The longest that payloads of a common start may begin apart: the grace of settings by default,
/// and a second for what lies between the wrapper's look at the clock and the payload's own.
const APART_MAX_MS: u64 = 31_000;

/// Checks (c) and (e).
fn check_ends(job: &JobTruth, runs: &[(AttemptTag, &PayloadRun)], verdict: &mut OracleVerdict) {
    if job.state != "finished" || job.shortened {
        return;
    }
    let id = job.id;
    let rounds = round_history::rounds(job.asked.flexible, &job.events);
    let Some(last) = rounds.last() else {
        return verdict.blame(
            OracleRule::FinishedIsDone,
            format!("job {id} finished without a round"),
        );
    };
    if last.aborted_ms.is_some() {
        verdict.blame(
            OracleRule::FinishedIsDone,
            format!("job {id} finished with an aborted round"),
        );
    }
    let began: Vec<u64> = runs
        .iter()
        .filter(|(tag, _)| last.attempts.get(&tag.component.0) == Some(&tag.attempt.0))
        .map(|(_, run)| run.start_ms)
        .collect();
    let apart = began
        .iter()
        .max()
        .zip(began.iter().min())
        .map_or(0, |(last, first)| last - first);
    if apart > APART_MAX_MS {
        let what = format!("components of finished job {id} began {apart} ms apart");
        verdict.blame(OracleRule::FinishedIsDone, what);
    }
    let latest = last.latest_attempts();
    for (component, attempt) in &latest {
        let end = runs
            .iter()
            .find(|(tag, _): &&(AttemptTag, &PayloadRun)| {
                (tag.component.0, tag.attempt.0) == (*component, *attempt)
            })
            .map(|(_, run)| run.end);
        if !matches!(end, Some(Some((_, 0)))) {
            let what = format!("component {component} of finished job {id} ended as {end:?}");
            verdict.blame(OracleRule::FinishedIsDone, what);
        }
    }
    for (component, line) in &job.outputs {
        let attempt = latest.get(component).copied().unwrap_or_default();
        let own = format!("-{id}-{component}-{attempt}");
        if !line.ends_with(&own) {
            let what = format!("output of component {component} of job {id} is of {line:?}");
            verdict.blame(OracleRule::OneRoundsOutput, what);
        }
    }
}

/// Checks (d), by what payloads saw and by their times.
fn check_overlaps(evidence: &RunEvidence, verdict: &mut OracleVerdict) {
    let mut by_component: BTreeMap<&str, Vec<&PayloadRun>> = BTreeMap::new();
    for run in &evidence.ledger.runs {
        for other in &run.beside {
            verdict.blame(
                OracleRule::NoOverlap,
                format!("{} saw {other} alive", run.tag),
            );
        }
        if let Some((component, _)) = run.tag.rsplit_once('-') {
            by_component.entry(component).or_default().push(run);
        }
    }
    for runs in by_component.values() {
        for run in runs {
            for other in runs.iter().filter(|other: &&&PayloadRun| {
                run.tag != other.tag
                    && other.start_ms > run.start_ms
                    && run.end.is_some_and(|(end, _)| end > other.start_ms)
            }) {
                verdict.blame(
                    OracleRule::NoOverlap,
                    format!("{} ran beside {}", other.tag, run.tag),
                );
            }
        }
    }
}

/// Checks that nothing is left that nobody needs.
fn check_leftovers(evidence: &RunEvidence, verdict: &mut OracleVerdict) {
    evidence
        .sites
        .iter()
        .for_each(|site| check_site_leftovers(site, verdict));
    for process in &evidence.processes {
        verdict.blame(
            OracleRule::NothingRuns,
            format!("a process of {process} lives"),
        );
    }
    for what in &evidence.foreign {
        verdict.blame(OracleRule::OthersLeftAlone, what.clone());
    }
}

fn check_site_leftovers(site: &SiteTruth, verdict: &mut OracleVerdict) {
    let name = &site.name;
    let (idle, total) = site.processors;
    if idle != total {
        verdict.blame(
            OracleRule::NothingHeld,
            format!("{idle} of {total} processors idle at {name}"),
        );
    }
    for tag in &site.live {
        verdict.blame(
            OracleRule::NothingHeld,
            format!("{tag} holds processors at {name}"),
        );
    }
    for digest in site.store.difference(&site.pinned) {
        verdict.blame(
            OracleRule::NothingStaged,
            format!("{digest} is left in the store of {name}"),
        );
    }
    for digest in site.pinned.difference(&site.store) {
        verdict.blame(
            OracleRule::NothingLost,
            format!("{digest} is registered at {name}, not there"),
        );
    }
    for partial in &site.incoming {
        verdict.blame(
            OracleRule::NothingStaged,
            format!("{partial} is left of a copy to {name}"),
        );
    }
}
