//! What follows from what people, the co-allocator and the data side tell a job in any state:
//! the first thing that happens, or why nothing does.

use cospan_domain::ids::{Attempt, ComponentIndex, KeyName, Round, TargetName};
use cospan_domain::job::command::{JobCommand, Rejection};
use cospan_domain::job::decide::decide;
use cospan_domain::job::event::Happened;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::spec::{Content, Priority, Request};
use cospan_domain::job::state::{AbortCause, Collected, Job, Phase, Placement, Run, Source};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::records::{NOW, content, drawn, site};

type Follows = Result<Happened, Rejection>;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let Ok(job) = drawn(chance, 1) else { return vec!["no job can be drawn".to_owned()] };
    let orders = [by_people(chance), by_others(chance, &job)].into_iter().flatten().flatten();
    let mut found = Vec::new();
    for order in orders {
        let ought = match job.held.is_some() && !works_on_held(&order) {
            true => Err(Rejection::Stale),
            false => follows(&job, &order),
        };
        let events = decide(&job, &JobParameters::default(), order.clone(), NOW);
        let is = events.as_ref().map(|events| events.first().map(|event| &event.what));
        let right = match (&is, &ought) {
            (Ok(Some(Happened::JobPlaced { by: None, .. })), _) => placed(&job, &order, &events),
            (Ok(Some(is)), Ok(ought)) => alike(is, ought),
            (Err(is), Err(ought)) => *is == ought,
            _ => false,
        };
        if !right {
            found.push(format!("{order:?} comes to {is:?}, not {ought:?}: {job:?}"));
        }
    }
    found.extend(recovered(&job));
    found
}

/// Reasons are for people.
fn alike(is: &Happened, ought: &Happened) -> bool {
    match (is, ought) {
        (Happened::JobFailed { reason }, Happened::JobFailed { reason: ought }) => {
            reason.contains(&**ought)
        }
        (Happened::RoundAborted { why, .. }, Happened::RoundAborted { why: ought, .. }) => {
            why.component() == ought.component()
        }
        _ => is == ought,
    }
}

fn works_on_held(order: &JobCommand) -> bool {
    use JobCommand::*;
    matches!(order, Recover { .. } | Release(_) | Cancel(_) | Abandon { .. } | Freeze(_) | Thaw(_))
}

fn by_people(chance: &mut StdRng) -> Option<Vec<JobCommand>> {
    let by = KeyName::new("carol").ok()?;
    let class = Priority::ALL[chance.random_range(0..4)];
    Some(vec![
        JobCommand::SetPriority(class, by.clone()),
        JobCommand::Freeze(by.clone()),
        JobCommand::Thaw(by.clone()),
        JobCommand::Hold("it panicked".into()),
        JobCommand::Release(by),
    ])
}

fn by_others(chance: &mut StdRng, job: &Job) -> Option<Vec<JobCommand>> {
    let count = u32::try_from(job.components.len()).ok()?;
    let component = ComponentIndex(chance.random_range(0..=count));
    let attempt = Attempt(chance.random_range(0..3));
    let output = chance.random_range(0..3);
    let there = chance.random_bool(0.6).then(|| content(7));
    let target = TargetName::new(["mail", "pager"][chance.random_range(0..2)]).ok()?;
    let parts = if chance.random_bool(0.8) { job.components.len() } else { 1 };
    let total = job.spec.components.iter().map(|c| c.resources.processors).sum::<u32>();
    let share = chance.random_range(1..=total);
    let placements = (0..parts).filter_map(|_| {
        let seconds = if chance.random_bool(0.5) { 0 } else { chance.random_range(1..9) };
        let source = Source { content: content(7), from: site(chance).ok()?, chunk: None };
        Some(Placement {
            site: site(chance).ok()?,
            sources: if chance.random_bool(0.4) { vec![source] } else { Vec::new() },
            transfer_time: DurationMs(1_000 * seconds),
            share: matches!(job.spec.request, Request::Flexible(_)).then_some(share),
        })
    });
    let placements = placements.collect();
    Some(vec![
        JobCommand::Promote { to: Priority::ALL[chance.random_range(0..4)] },
        JobCommand::GiveUpPlacement { tries: chance.random_range(1..9) },
        JobCommand::ChargeRecorded { component, attempt },
        JobCommand::OutputRead { component, output, content: there },
        JobCommand::OutputRegistered { component, output },
        JobCommand::EndTold { target, problem: None },
        JobCommand::Place { placements, by: None },
    ])
}

/// What the order's own rule says.
fn follows(job: &Job, order: &JobCommand) -> Follows {
    let waits = matches!(job.phase, Phase::Queued { .. });
    let over = job.phase.kind().is_final();
    let unless_over = |so_already: bool, what: Happened| match (over, so_already) {
        (true, _) => Err(Rejection::Ended),
        (false, true) => Err(Rejection::AlreadySo),
        (false, false) => Ok(what),
    };
    let if_so = |so: bool, what: Happened| if so { Ok(what) } else { Err(Rejection::Stale) };
    match order.clone() {
        JobCommand::SetPriority(to, by) => {
            let what = Happened::PriorityChanged { to, by: Some(by) };
            unless_over(job.priority == to, what)
        }
        JobCommand::Freeze(by) => unless_over(job.frozen_by.is_some(), Happened::JobFrozen { by }),
        JobCommand::Thaw(by) => unless_over(job.frozen_by.is_none(), Happened::JobThawed { by }),
        JobCommand::Hold(reason) => unless_over(false, Happened::JobHeld { reason }),
        JobCommand::Release(by) => unless_over(job.held.is_none(), Happened::JobReleased { by }),
        JobCommand::Promote { to } => match job.priority {
            Priority::SuperHigh | Priority::SuperLow => Err(Rejection::AlreadySo),
            Priority::High | Priority::Low => {
                let rises =
                    [(Priority::Low, Priority::High), (Priority::High, Priority::SuperHigh)];
                let so = waits && rises.contains(&(job.priority, to));
                if_so(so, Happened::PriorityChanged { to, by: None })
            }
        },
        JobCommand::GiveUpPlacement { tries } => {
            let reason = format!("not placed after {tries} tries").into();
            if_so(waits, Happened::JobFailed { reason })
        }
        JobCommand::ChargeRecorded { component, attempt } => {
            let charge = job.components.get(component.0 as usize).and_then(|c| c.charge.as_ref());
            let so = charge.is_some_and(|charge| charge.attempt == attempt);
            if_so(so, Happened::ChargeRecorded { component })
        }
        JobCommand::OutputRead { component, output, content } => {
            read(job, component, output, content)
        }
        JobCommand::OutputRegistered { component, output } => {
            let state = collected(job, component, output);
            let so = state.is_some_and(|state| state.content.is_some() && !state.done);
            if_so(so, Happened::OutputCollected { component, output })
        }
        JobCommand::EndTold { target, problem } => {
            let so = over && job.spec.run.notify.contains(&target) && !job.told.contains(&target);
            if_so(so, Happened::EndTold { target, problem })
        }
        // Where it may be placed, the whole answer is looked at.
        _ => Err(Rejection::Stale),
    }
}

fn collected(job: &Job, component: ComponentIndex, output: u32) -> Option<&Collected> {
    let here = matches!(job.phase, Phase::Collecting { .. });
    let component = job.components.get(component.0 as usize).filter(|_| here)?;
    component.collected.get(output as usize)
}

fn read(job: &Job, component: ComponentIndex, output: u32, content: Option<Content>) -> Follows {
    let state = collected(job, component, output).ok_or(Rejection::Stale)?;
    match (&state.content, content) {
        (Some(_), _) => Err(Rejection::Stale),
        (None, Some(content)) => Ok(Happened::OutputFound { component, output, content }),
        (None, None) => {
            let why = AbortCause::Application { component, detail: "".into() };
            let then = cospan_domain::job::state::AfterAbort::Fail { reason: "".into() };
            Ok(Happened::RoundAborted { why, then })
        }
    }
}

/// A job that waits is placed as a whole, is expected when the last of its input is, and is
/// claimed at once if nothing is on the way.
fn placed(
    job: &Job,
    order: &JobCommand,
    events: &Result<Vec<cospan_domain::job::event::JobEvent>, Rejection>,
) -> bool {
    let (JobCommand::Place { placements, .. }, Ok(events)) = (order, events) else { return false };
    let waits = matches!(job.phase, Phase::Queued { .. }) && job.frozen_by.is_none();
    let whole = is_whole(job, placements);
    let longest = placements.iter().map(|placement| placement.transfer_time.0).max().unwrap_or(0);
    let what = Happened::JobPlaced {
        round: Round(job.round.0 + 1),
        placements: placements.clone(),
        start_estimate: Timestamp(NOW.0 + longest),
        by: None,
    };
    let at_once = events.iter().any(|event| event.what == Happened::ClaimBegun);
    waits
        && whole
        && events.first().is_some_and(|event| event.what == what)
        && at_once == (placements.iter().all(|p| p.sources.is_empty()) || longest == 0)
}

fn is_whole(job: &Job, placements: &[Placement]) -> bool {
    let Request::Flexible(_) = job.spec.request else {
        return placements.len() == job.spec.components.len();
    };
    let given: u32 = placements.iter().filter_map(|placement| placement.share).sum();
    given == job.spec.components[0].resources.processors
        && job.components.iter().all(|c| c.charge.is_none())
}

/// What was about to be submitted when its actor died may be there or not, for as long as its
/// site takes.
fn recovered(job: &Job) -> Option<String> {
    let settle = DurationMs(7_000);
    let order = JobCommand::Recover { settle: vec![settle] };
    let parameters = JobParameters::default();
    let intended = job.components.iter().zip((0..).map(ComponentIndex));
    let intended = intended.filter(|(c, _)| matches!(c.run, Run::Intended { .. }));
    let ought = intended.map(|(_, component)| {
        let settle = if component.0 == 0 { settle } else { parameters.settle };
        Happened::SubmissionUncertain { component, settled_at: NOW + settle }
    });
    let ought: Vec<_> = ought.collect();
    let events = decide(job, &parameters, order, NOW).unwrap_or_default();
    let uncertain = |what: &Happened| matches!(what, Happened::SubmissionUncertain { .. });
    let is: Vec<_> =
        events.into_iter().map(|event| event.what).filter(|what| uncertain(what)).collect();
    (is != ought).then(|| format!("{job:?} is recovered with {is:?}, not {ought:?}"))
}
