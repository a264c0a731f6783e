//! Judges the demands of single jobs beside the rules that hold for all, and counts the events of
//! their claims.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::AttemptTag;

use super::{OracleRule, OracleVerdict};
use crate::evidence::{JobTruth, RunEvidence};
use crate::payload::{PayloadRun, chunked_file};
use crate::round_history::{self, JobRound};

/// Events that show what happens to claims.
const CLAIMS: [&str; 4] = [
    "ClaimGivenBack",
    "ClaimMissed",
    "ClaimReturned",
    "ComponentMoved",
];
/// Name of preempted rounds in the list of claims.
const PREEMPTED: &str = "Preempted";

/// A run of a payload: its job, its start and its end, in milliseconds since 1970.
type PayloadSpan = (u64, u64, u64);
/// Runs of payloads, by job.
type Runs<'a> = BTreeMap<u64, Vec<(AttemptTag, &'a PayloadRun)>>;

pub(super) fn judge_demands(evidence: &RunEvidence, runs: &Runs<'_>, verdict: &mut OracleVerdict) {
    for job in &evidence.jobs {
        count(job, verdict);
        check_runs_once(job, runs, verdict);
        check_own_chunks(job, runs, verdict);
    }
    for run in &evidence.ledger.runs {
        if let Some(told) = &run.wrong_peers {
            verdict.blame(
                OracleRule::PeersKnown,
                format!("{} was told of {told}", run.tag),
            );
        }
    }
    check_limits(evidence, runs, verdict);
}

fn count(job: &JobTruth, verdict: &mut OracleVerdict) {
    for event in &job.events {
        let preempted = event.name == "RoundAborted" && event.detail.contains("preempted");
        let listed = CLAIMS.into_iter().find(|name| *name == event.name);
        for name in listed.into_iter().chain(preempted.then_some(PREEMPTED)) {
            *verdict.claims.entry(name).or_default() += 1;
        }
    }
}

fn check_runs_once(job: &JobTruth, runs: &Runs<'_>, verdict: &mut OracleVerdict) {
    let runs = runs
        .get(&job.id)
        .filter(|_| job.asked.once)
        .into_iter()
        .flatten();
    let mut begun = BTreeSet::new();
    for (tag, _) in runs {
        if !begun.insert(tag.component) {
            verdict.blame(OracleRule::RunsOnce, format!("{tag} ran again"));
        }
    }
}

/// Checks that each payload was given the chunk that belongs to its processors among all of the
/// job. The components of another split had others: of flexible jobs the round that it finished
/// with counts.
fn check_own_chunks(job: &JobTruth, runs: &Runs<'_>, verdict: &mut OracleVerdict) {
    let rounds = round_history::rounds(job.asked.flexible, &job.events);
    let last = rounds
        .last()
        .map(JobRound::latest_attempts)
        .unwrap_or_default();
    let finished = job.state == "finished" && !job.shortened;
    for (tag, run) in runs.get(&job.id).into_iter().flatten() {
        let is_last = last.get(&tag.component.0) == Some(&tag.attempt.0);
        if job.asked.flexible && !(finished && is_last) {
            continue;
        }
        let own = expected_chunk(&job.asked.shares, tag.component.0 as usize);
        // A payload that was killed may not have come to it.
        let expected: Vec<_> = own.into_iter().collect();
        if run.chunks != expected && !(run.chunks.is_empty() && run.end.is_none()) {
            let what = format!("{tag} was told of {:?}, not of {expected:?}", run.chunks);
            verdict.blame(OracleRule::OwnChunk, what);
        }
    }
}

/// Returns the offset and length of a component's chunk; none if no file is shared out.
fn expected_chunk(shares: &[u64], component: usize) -> Option<(u64, u64)> {
    let size = chunked_file().len() as u64;
    let total = shares.iter().sum::<u64>();
    let own = shares.get(component)?;
    let before: u64 = shares[..component].iter().sum();
    let begin = size * before / total;
    Some((begin, size * (before + own) / total - begin))
}

/// Checks the limits of sweeps. Payloads that ended by themselves wrote their start and end.
fn check_limits(evidence: &RunEvidence, runs: &Runs<'_>, verdict: &mut OracleVerdict) {
    let mut sweeps: BTreeMap<(u64, u64), Vec<PayloadSpan>> = BTreeMap::new();
    for job in &evidence.jobs {
        let Some(sweep) = job.asked.sweep else {
            continue;
        };
        let spans = runs.get(&job.id).into_iter().flatten();
        let spans = spans.filter_map(|(_, run)| Some((job.id, run.start_ms, run.end?.0)));
        sweeps.entry(sweep).or_default().extend(spans);
    }
    for ((group, limit), spans) in sweeps {
        for (job, start, _) in &spans {
            let there = spans
                .iter()
                .filter(|(_, from, until)| from <= start && start < until);
            let there: BTreeSet<u64> = there.map(|(job, ..)| *job).collect();
            if there.len() as u64 > limit {
                let what = format!("{there:?} of sweep {group} ran when job {job} began");
                verdict.blame(OracleRule::LimitHolds, format!("{what}; {limit} may"));
            }
        }
    }
}
