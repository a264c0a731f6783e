//! Sweeps with a limit, from a list of all their runs: who has a turn, and who got it or lost
//! it; and what the placement queues are told of a job in any state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::ids::{JobId, PolicyName};
use cospan_domain::job::spec::Request;
use cospan_domain::job::state::{Job, Phase};
use cospan_domain::placement::PlacementRequest;
use cospan_domain::queue::{Groups, Waiting};
use cospan_domain::runner::{Row, Task};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{drawn, moment};

const STEPS: usize = 12;
/// Two sweeps with a limit, one without.
const SWEEPS: [(u64, Option<u32>); 3] = [(1, Some(2)), (101, Some(1)), (201, None)];

/// The runs of one sweep as they were last heard of.
#[derive(Debug, Clone, Default)]
struct Runs {
    waiting: BTreeSet<JobId>,
    busy: BTreeSet<JobId>,
    turn: BTreeSet<JobId>,
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let Some(jobs) = draw(chance) else { return vec!["no sweep can be drawn".to_owned()] };
    let found = jobs.iter().take(3).filter_map(|job| waits(chance, job)).collect::<Vec<_>>();
    let (mut groups, mut plain) = (Groups::default(), BTreeMap::<JobId, Runs>::new());
    let mut last = None;
    for _ in 0..STEPS {
        let at = chance.random_range(0..jobs.len());
        let mut job = jobs[at].clone();
        change(chance, &mut job);
        let told = groups.note(&job);
        let expected = note(&mut plain, &job);
        if told != expected {
            return vec![format!("{job:?} is of {told:?}, not {expected:?}")];
        }
        // Turns are not given after each word.
        let group = told.filter(|_| chance.random_bool(0.7)).or(last);
        let group = group.unwrap_or(JobId(7));
        last = told.or(last);
        let offered: Vec<JobId> =
            jobs.iter().map(|job| job.id).filter(|_| chance.random_bool(0.15)).collect();
        let told = groups.give_turns(group, offered.iter().copied());
        let expected = give_turns(&mut plain, group, &offered);
        let turns = jobs.iter().filter(|job| groups.has_turn(job)).map(|job| job.id);
        let turns: Vec<JobId> = turns.collect();
        let ought = jobs.iter().filter(|job| has_turn(&plain, job)).map(|job| job.id);
        let ought: Vec<JobId> = ought.collect();
        let all: Vec<JobId> = plain.keys().copied().collect();
        if (&told, &turns, groups.all()) != (&expected, &ought, all) {
            let text = format!("{turns:?} have turns, not {ought:?}; {told:?}, not {expected:?}");
            return vec![format!("{text}: {plain:?} of {group:?}, offered to {offered:?}")];
        }
    }
    found
}

/// Four runs of each sweep, and a job of none.
fn draw(chance: &mut StdRng) -> Option<Vec<Job>> {
    let any = drawn(chance, 99).ok()?;
    let mut jobs = vec![any.clone()];
    for (first, at_once) in SWEEPS {
        for index in 0..4 {
            let mut job = Job { id: JobId(first + u64::from(index)), ..any.clone() };
            let (group, values) = (JobId(first), Row::new());
            Arc::make_mut(&mut job.spec).run.task =
                Some(Task { group, index, count: 4, at_once, values });
            jobs.push(job);
        }
    }
    Some(jobs)
}

/// It goes on; most wait, run or have ended.
fn change(chance: &mut StdRng, job: &mut Job) {
    let at = moment(chance);
    job.phase = match chance.random_range(0..8) {
        0..=3 => Phase::Queued { since: at, not_before: at },
        4 => Phase::Placed { at, start_estimate: at },
        5 => Phase::Running { since: at },
        6 => Phase::Finished { at },
        _ => job.phase.clone(),
    };
    if chance.random_bool(0.8) {
        (job.frozen_by, job.held) = (None, None);
    }
}

fn note(plain: &mut BTreeMap<JobId, Runs>, job: &Job) -> Option<JobId> {
    let task = job.spec.run.task.as_ref()?;
    task.at_once?;
    let runs = plain.entry(task.group).or_default();
    let over = matches!(
        job.phase,
        Phase::Finished { .. } | Phase::Failed { .. } | Phase::Cancelled { .. }
    );
    let queued = matches!(job.phase, Phase::Queued { .. });
    let stopped = job.frozen_by.is_some() || job.held.is_some();
    for (set, belongs) in
        [(&mut runs.waiting, queued && !stopped), (&mut runs.busy, !queued && !over)]
    {
        set.remove(&job.id);
        set.extend(belongs.then_some(job.id));
    }
    Some(task.group)
}

/// Those to whom a plan was offered keep their turns; the first others get what is left.
fn give_turns(
    plain: &mut BTreeMap<JobId, Runs>,
    group: JobId,
    offered: &[JobId],
) -> BTreeSet<JobId> {
    let limit = SWEEPS.iter().find(|(first, _)| JobId(*first) == group).and_then(|(_, most)| *most);
    let (Some(runs), Some(limit)) = (plain.get_mut(&group), limit) else { return BTreeSet::new() };
    let before = std::mem::take(&mut runs.turn);
    runs.turn.extend(offered.iter().filter(|id| runs.waiting.contains(id)));
    for id in &runs.waiting {
        if runs.busy.len() + runs.turn.len() < limit as usize {
            runs.turn.insert(*id);
        }
    }
    let changed = before.symmetric_difference(&runs.turn).copied().collect();
    if runs.waiting.is_empty() && runs.busy.is_empty() {
        plain.remove(&group);
    }
    changed
}

fn has_turn(plain: &BTreeMap<JobId, Runs>, job: &Job) -> bool {
    let Some(task) = &job.spec.run.task else { return true };
    let given = plain.get(&task.group).is_some_and(|runs| runs.turn.contains(&job.id));
    task.at_once.is_none() || given
}

/// Only a job that is queued waits for placement, and with what it says itself.
fn waits(chance: &mut StdRng, job: &Job) -> Option<String> {
    let mut job = job.clone();
    change(chance, &mut job);
    let most = chance.random_bool(0.5).then(|| chance.random_range(0..5));
    Arc::make_mut(&mut job.spec).max_placement_tries = most;
    let policy = PolicyName::new("worst-fit").ok()?;
    let request = Arc::new(PlacementRequest::new(policy, Request::NonFixed, true, Vec::new()));
    let is = Waiting::of_job(&job, || request.clone());
    let ought = match job.phase {
        Phase::Queued { since, not_before } => Some(Waiting {
            job: job.id,
            priority: job.priority,
            entered: since,
            not_before,
            frozen: job.frozen_by.is_some() || job.held.is_some(),
            max_tries: most,
            request,
        }),
        _ => None,
    };
    (is != ought).then(|| format!("{job:?} waits as {is:?}, not {ought:?}"))
}
