//! Records of jobs in any state, also in such as no job ever comes to.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use cospan_domain::content::Content;
use cospan_domain::ids::{Attempt, ComponentIndex, Digest, JobId, KeyName, LrmId, RelPath, Round};
use cospan_domain::ids::{LogicalName, SiteName, TargetName};
use cospan_domain::job::spec::{Collect, Flexible, JobSpec, Output, Priority, Request};
use cospan_domain::job::state::{
    AbortCause, AfterAbort, Charge, Collected, Component, Ending, Instants, Job, Phase, Restart,
    RestartStep, Run, Setbacks,
};
use cospan_domain::placed::Placement;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use crate::laboratory::jobs::job;

/// All of these records are of about this time.
pub(super) const NOW: Timestamp = Timestamp(1_000_000);

/// A moment a while before or after, in whole seconds: some are equal.
pub(super) fn moment(chance: &mut StdRng) -> Timestamp {
    Timestamp(NOW.0 - 60_000 + 1_000 * chance.random_range(0..=80))
}

pub(super) fn site(chance: &mut StdRng) -> Result<SiteName> {
    Ok(SiteName::new(&format!("site-{}", chance.random_range(0..3)))?)
}

pub(super) fn content(number: u8) -> Content {
    Content { digest: Digest([number; 32]), size: Bytes(1_000) }
}

fn spec(chance: &mut StdRng) -> Result<JobSpec> {
    let sizes: Vec<u32> =
        (0..chance.random_range(1..=3)).map(|_| chance.random_range(1..=8)).collect();
    let mut spec = job(&sizes, DurationMs(1_000), DurationMs(10_000), 0)?;
    spec.rerunnable = chance.random_bool(0.7);
    if sizes.len() == 1 && chance.random_bool(0.4) {
        spec.request = Request::Flexible(Flexible::default());
    }
    for number in 0..2 {
        let output = || -> Result<Output> {
            let register = LogicalName::new(&format!("out-{number}"))?;
            let to_site = Collect::ToSite { site: SiteName::new("site-0")?, register };
            let collect = if number == 0 { Collect::Fetch } else { to_site };
            Ok(Output { path: RelPath::new(&format!("out-{number}"))?, collect })
        };
        spec.components[0].outputs.push(output()?);
    }
    for target in ["mail", "pager"] {
        if chance.random_bool(0.5) {
            spec.run.notify.insert(TargetName::new(target)?);
        }
    }
    Ok(spec)
}

fn phase(chance: &mut StdRng) -> Result<Phase> {
    let (at, since) = (moment(chance), moment(chance));
    let why = AbortCause::Cancelled;
    let then = AfterAbort::Requeue { not_before: moment(chance) };
    Ok(match chance.random_range(0..10) {
        0 => Phase::Queued { since, not_before: at },
        1 => Phase::Placed { at, start_estimate: at + DurationMs(5_000) },
        2 => Phase::Claiming { since },
        3 => Phase::Starting { since },
        4 => Phase::Running { since },
        5 => Phase::Collecting { since },
        6 => Phase::Aborting { since, why, then },
        7 => Phase::Finished { at },
        8 => Phase::Failed { at, reason: "it failed".into() },
        _ => Phase::Cancelled { at, by: KeyName::new("alice")? },
    })
}

fn run(chance: &mut StdRng) -> Result<Run> {
    let (at, since) = (moment(chance), moment(chance));
    let (lrm_id, host) = (LrmId::new("17")?, Arc::from("host"));
    let absences = chance.random_range(0..2);
    let word: Arc<str> = "a word".into();
    let endings = [
        Ending::Succeeded,
        Ending::Failed(word.clone()),
        Ending::NeverRan(word.clone()),
        Ending::Lost(word),
        Ending::Killed,
        Ending::Abandoned,
    ];
    let how = endings[chance.random_range(0..endings.len())].clone();
    Ok(match chance.random_range(0..8) {
        0 => Run::Idle,
        1 => Run::Intended { at },
        2 => Run::Uncertain { settled_at: at, absences, look_at: since },
        3 => Run::Submitted { lrm_id, at, absences },
        4 => Run::AtGate { lrm_id, host, since },
        5 => Run::Opened { lrm_id, host, at },
        6 => Run::Running { lrm_id, host, since },
        _ => Run::Ended { how, at },
    })
}

fn component(chance: &mut StdRng) -> Result<Component> {
    let placement = Placement {
        site: site(chance)?,
        sources: Vec::new(),
        transfer_time: DurationMs(1_000 * chance.random_range(0..3)),
        share: None,
    };
    let attempt = Attempt(chance.random_range(0..3));
    let charge = Charge { site: site(chance)?, attempt, detail: "an error".into() };
    let steps = [RestartStep::ToPlace, RestartStep::Staging, RestartStep::Staged];
    let restart = Restart {
        step: steps[chance.random_range(0..3)],
        since: moment(chance),
        tries: 0,
        not_before: moment(chance),
    };
    let avoided = site(chance)?;
    let collected = (0..2_u8).map(|number| Collected {
        content: chance.random_bool(0.5).then(|| content(number)),
        done: chance.random_bool(0.3),
    });
    Ok(Component {
        collected: collected.collect(),
        placement: chance.random_bool(0.85).then_some(placement),
        attempt,
        run: run(chance)?,
        given_back: chance.random_bool(0.2),
        charge: chance.random_bool(0.2).then_some(charge),
        avoid: chance.random_bool(0.3).then_some(avoided).into_iter().collect(),
        restart: chance.random_bool(0.25).then_some(restart),
        ..Component::default()
    })
}

/// A job with this number.
///
/// # Errors
/// Never: all names are valid.
pub(super) fn drawn(chance: &mut StdRng, id: u64) -> Result<Job> {
    let spec = spec(chance)?;
    let components = spec.components.iter().map(|_| component(chance)).collect::<Result<_>>()?;
    let told = chance.random_bool(0.5).then(|| TargetName::new("mail")).transpose()?;
    let placed = moment(chance);
    let estimate = placed + DurationMs(1_000 * chance.random_range(0..30));
    Ok(Job {
        id: JobId(id),
        owner: KeyName::new("alice")?,
        idempotency: None,
        submitted_at: moment(chance),
        priority: Priority::ALL[chance.random_range(0..4)],
        frozen_by: chance.random_bool(0.2).then(|| KeyName::new("bob")).transpose()?,
        held: chance.random_bool(0.1).then(|| "it panicked".into()),
        phase: phase(chance)?,
        round: Round(chance.random_range(0..3)),
        inputs_here: chance.random_bool(0.5),
        start_at: chance.random_bool(0.5).then(|| moment(chance)),
        next_claim: chance.random_bool(0.3).then(|| moment(chance)),
        preempting: Vec::new(),
        promoted: false,
        components,
        setbacks: Setbacks::default(),
        instants: Instants {
            placed: Some(placed),
            start_estimate: Some(estimate),
            ..Instants::default()
        },
        placed_by: None,
        told: told.into_iter().collect::<BTreeSet<_>>(),
        revision: 1,
        spec: Arc::new(spec),
    })
}

/// Its components, each with its index.
pub(super) fn indexed(job: &Job) -> impl Iterator<Item = (ComponentIndex, &Component)> {
    (0..).map(ComponentIndex).zip(&job.components)
}
