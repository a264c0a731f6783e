//! The state machine of a job as the book prints it, what events and effects are called, and
//! that the machine of jobs is what its parts are.

use anyhow::{Result, ensure};
use cospan_domain::ids::ComponentIndex;
use cospan_domain::job::JobMachine;
use cospan_domain::job::command::JobCommand;
use cospan_domain::job::decide::decide;
use cospan_domain::job::due::{EffectKind, due, next_wake};
use cospan_domain::job::event::Happened;
use cospan_domain::job::evolve::evolve;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::state::{AbortCause, PhaseKind};
use cospan_domain::job::table::{TRANSITIONS, allowed, to_markdown};
use cospan_domain::machine::Machine;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::records::{NOW, drawn, site};

/// From a phase, which event leads to which.
const CHANGES: &str = "
    queued JobPlaced placed
    queued JobFailed failed
    queued JobCancelled cancelled
    placed ClaimBegun claiming
    placed ComponentsClaimed claiming
    placed RoundAborted aborting
    placed JobCancelled cancelled
    claiming GoDecided starting
    claiming ClaimReturned placed
    claiming RoundAborted aborting
    starting JobStarted running
    starting RoundAborted aborting
    running PayloadsSucceeded collecting
    running RoundAborted aborting
    collecting JobFinished finished
    collecting JobFailed failed
    collecting RoundAborted aborting
    aborting JobRequeued queued
    aborting JobFailed failed
    aborting JobCancelled cancelled";

/// Events that change no phase, beside those of the table.
const OTHERS: [&str; 4] = ["EndTold", "GateOpened", "JobFrozen", "InputsArrived"];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    // The whole table is much to read at every draw.
    let table = if chance.random_bool(0.2) { transitions(chance) } else { Ok(()) };
    let checks = [table, effects(chance), machine(chance), causes(chance)];
    checks.into_iter().filter_map(Result::err).map(|problem| format!("{problem:#}")).collect()
}

fn changes() -> impl Iterator<Item = [&'static str; 3]> {
    CHANGES.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some([words.next()?, words.next()?, words.next()?])
    })
}

/// What is listed may happen, and nothing else changes a phase. Of a job that has ended it is
/// only noted who was told of it, and that of no other.
fn transitions(chance: &mut StdRng) -> Result<()> {
    let listed: Vec<_> = changes().collect();
    let table = TRANSITIONS.iter().map(|t| [t.from.as_str(), t.event, t.to.as_str()]);
    ensure!(table.eq(listed.iter().copied()), "the table is another: {TRANSITIONS:?}");
    let text = to_markdown();
    let mut rows = text.lines();
    let head = rows.next().is_some_and(|row| row == "| from | event | to | when |");
    ensure!(head && rows.next().is_some_and(|row| row == "|---|---|---|---|"), "{text}");
    ensure!(rows.clone().count() == listed.len(), "other rows: {text}");
    for (row, ([from, event, to], transition)) in rows.zip(listed.iter().zip(TRANSITIONS)) {
        let right = row.starts_with(&format!("| {from} | `{event}` | {to} | "));
        ensure!(right && row.contains(transition.when), "{row}");
    }
    let events: Vec<_> = listed.iter().map(|[_, event, _]| *event).chain(OTHERS).collect();
    for from in PhaseKind::ALL {
        let final_ = ["finished", "failed", "cancelled"].contains(&from.as_str());
        ensure!(from.is_final() == final_, "{from:?} is final: {}", !final_);
        for to in PhaseKind::ALL {
            let event = events.choose(chance).copied().unwrap_or("");
            let event = match listed.iter().find(|[one, _, other]| {
                [*one, *other] == [from.as_str(), to.as_str()] && chance.random_bool(0.5)
            }) {
                Some([_, listed, _]) => listed,
                None => event,
            };
            let ought = match from == to {
                true => final_ == (event == "EndTold"),
                false => listed.contains(&[from.as_str(), event, to.as_str()]),
            };
            let is = allowed(from, event, to);
            ensure!(is == ought, "{event} leads from {from:?} to {to:?}: {is}, not {ought}");
        }
    }
    Ok(())
}

/// The name of something in the code is the one by which it is told.
pub(super) fn word(of: impl std::fmt::Debug) -> String {
    let text = format!("{of:?}");
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

fn effects(chance: &mut StdRng) -> Result<()> {
    let output = chance.random_range(0..9);
    let all = [
        EffectKind::Submit,
        EffectKind::Withdraw,
        EffectKind::LookUp,
        EffectKind::OpenGate,
        EffectKind::End,
        EffectKind::RecordCharge,
        EffectKind::ReadOutput(output),
        EffectKind::RegisterOutput(output),
    ];
    let names = all.map(EffectKind::name);
    ensure!(names == EffectKind::NAMES, "effects are called {names:?}");
    ensure!(all.iter().all(|kind| kind.name() == word(kind)), "effects are called {names:?}");
    Ok(())
}

/// A job is decided, evolved, looked after and woken by nothing but its record.
fn machine(chance: &mut StdRng) -> Result<()> {
    let (mut job, parameters) = (drawn(chance, 1)?, JobParameters::default());
    let by = job.owner.clone();
    let orders = [
        JobCommand::Freeze(by.clone()),
        JobCommand::Thaw(by.clone()),
        JobCommand::Cancel(by),
        JobCommand::Hold("it panicked".into()),
    ];
    let order = orders[chance.random_range(0..4)].clone();
    let is = JobMachine::decide(&job, &parameters, order.clone(), NOW);
    let ought = decide(&job, &parameters, order.clone(), NOW);
    ensure!(is == ought, "{order:?} comes to {is:?} and to {ought:?}: {job:?}");
    for event in ought.into_iter().flatten() {
        let (name, called) = (event.what.name(), word(&event.what));
        ensure!(name == called && event.at == NOW, "{event:?} is called {name}");
        let mut other = job.clone();
        JobMachine::evolve(&mut other, &event);
        evolve(&mut job, &event);
        ensure!(job == other, "{event:?} leads to {job:?} and to {other:?}");
    }
    let said = (Happened::JobStarted.name(), Happened::JobFinished.name(), Happened::END_TOLD);
    ensure!(said == ("JobStarted", "JobFinished", "EndTold"), "events are called {said:?}");
    let effects = (JobMachine::due(&job, &parameters, NOW), due(&job, NOW));
    ensure!(effects.0 == effects.1, "due are {effects:?}: {job:?}");
    let wakes = [JobMachine::next_wake, next_wake].map(|of| of(&job, &parameters, NOW));
    ensure!(wakes[0] == wakes[1], "it wakes at {wakes:?}: {job:?}");
    Ok(())
}

/// Which component a round was given up for, if it was for one.
fn causes(chance: &mut StdRng) -> Result<()> {
    let component = ComponentIndex(chance.random_range(1..9));
    let detail = || "a word".into();
    let of_one = [
        AbortCause::ClaimLost { component, detail: detail() },
        AbortCause::SiteError { component, detail: detail() },
        AbortCause::StartMissed { component },
        AbortCause::Unreachable { component },
        AbortCause::Application { component, detail: detail() },
    ];
    let of_all = [
        AbortCause::InputLost { detail: detail() },
        AbortCause::Cancelled,
        AbortCause::Preempted { by: cospan_domain::ids::JobId(component.0.into()) },
        AbortCause::Drained { site: site(chance)? },
    ];
    for cause in of_one {
        ensure!(cause.component() == Some(component), "{cause:?} is of {:?}", cause.component());
    }
    for cause in of_all {
        ensure!(cause.component().is_none(), "{cause:?} is of {:?}", cause.component());
    }
    Ok(())
}
