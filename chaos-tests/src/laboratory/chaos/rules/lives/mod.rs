//! The life of a job: for a record in any phase and any command all events that follow, and
//! the whole record after each of them; then on from there, command after command.

mod claimed;
mod clock;
mod commands;
mod draws;
mod others;
mod parts;
mod people;
mod reads;
mod record;
mod sites;
mod story;
mod texts;

use cospan_domain::invariants::broken;
use cospan_domain::job::command::{JobCommand, Rejection};
use cospan_domain::job::decide::decide;
use cospan_domain::job::event::{Happened, JobEvent};
use cospan_domain::job::evolve::evolve;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::state::{Job, Phase};
use cospan_domain::units::Timestamp;
use rand::rngs::StdRng;

use super::records::NOW;
use commands::Caller;
use draws::seconds;

/// Jobs that are drawn for each case.
const JOBS: usize = 4;
/// Commands of which each is given to a job as it was drawn.
const APART: usize = 9;
/// Commands that are given one after the other.
const IN_A_ROW: usize = 5;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..JOBS {
        let parameters = draws::parameters(chance);
        match draws::life(chance) {
            Some(job) => found.extend(differs(chance, job, &parameters)),
            None => found.push("no job can be drawn".to_owned()),
        }
    }
    found.extend(reads::wrong(chance));
    found
}

fn differs(chance: &mut StdRng, job: Job, parameters: &JobParameters) -> Option<String> {
    for _ in 0..APART {
        let command = Caller { job: &job, now: NOW }.any(chance)?;
        if let Err(difference) = follow(&job, parameters, &command, NOW) {
            return Some(difference);
        }
    }
    let (mut life, mut now) = (job, NOW);
    for _ in 0..IN_A_ROW {
        let command = Caller { job: &life, now }.any(chance)?;
        match follow(&life, parameters, &command, now) {
            Ok(next) => life = next,
            Err(difference) => return Some(difference),
        }
        now = now + seconds(chance, 2);
    }
    None
}

/// A record that keeps the rules of records keeps them whatever it is told. Errors are owed
/// while a round is given up or a component restarted, and at no other time.
fn is_orderly(job: &Job) -> bool {
    let may_owe = matches!(job.phase, Phase::Running { .. } | Phase::Aborting { .. });
    broken(job).is_empty() && (may_owe || job.components.iter().all(|c| c.charge.is_none()))
}

/// What is no news decides nothing beyond what follows without it.
fn told_anew(
    job: &Job,
    parameters: &JobParameters,
    command: &JobCommand,
    is: &Result<Vec<JobEvent>, Rejection>,
    now: Timestamp,
) -> Option<String> {
    let JobCommand::Sighted { component, asked_at, sighting, .. } = command else { return None };
    let (is_news, ought) = reads::is_news_or_not(job, parameters, *component, *asked_at, sighting);
    let decided = is.as_ref().map_or(0, Vec::len);
    let follows = people::follows_anyway(job, parameters, now);
    let right = is_news == ought && (is_news || decided == 0 || decided == follows);
    (!right).then(|| format!("{command:?} is news {is_news}, decides {is:?}: {job:?}"))
}

/// The record after a command, or in what domain and rules differ.
fn follow(
    job: &Job,
    parameters: &JobParameters,
    command: &JobCommand,
    now: Timestamp,
) -> Result<Job, String> {
    let is = decide(job, parameters, command.clone(), now);
    let ought = people::follows(job, parameters, command.clone(), now);
    if !same(&is, &ought, now) {
        let what = |is: Vec<JobEvent>| is.into_iter().map(|event| event.what).collect::<Vec<_>>();
        let is = is.map(what);
        return Err(format!("{command:?} comes to {is:?}, not {ought:?}: {job:?} {parameters:?}"));
    }
    if let Some(wrong) = told_anew(job, parameters, command, &is, now) {
        return Err(wrong);
    }
    let mut next = job.clone();
    for event in is.unwrap_or_default() {
        let ought = record::after(&next, event.at, &event.what);
        evolve(&mut next, &event);
        if next != ought {
            return Err(format!("{event:?} leads to {next:?}, not {ought:?} from {job:?}"));
        }
    }
    match broken(&next).first().filter(|_| is_orderly(job)) {
        Some(rule) => Err(format!("after {command:?} {rule} is broken: {next:?} from {job:?}")),
        None => Ok(next),
    }
}

fn same(
    is: &Result<Vec<JobEvent>, Rejection>,
    ought: &Result<Vec<Happened>, Rejection>,
    now: Timestamp,
) -> bool {
    match (is, ought) {
        (Err(is), Err(ought)) => is == ought,
        (Ok(is), Ok(ought)) => {
            let alike =
                |(is, ought): (&JobEvent, &Happened)| is.at == now && texts::alike(&is.what, ought);
            is.len() == ought.len() && is.iter().zip(ought).all(alike)
        }
        _ => false,
    }
}
