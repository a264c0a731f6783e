//! Conditions for which scripts wait.

use anyhow::{Result, bail};
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_state::{Job, JobReservations, PhaseKind};
use cospan_domain::reservation::ReservationSearchState;
use cospan_simulator::world::world_history::WorldLedgerEvent;

use super::super::super::counters::shown_states;
use super::super::stage::StagedScene;
use super::change_texts::event_words;
use super::script_jobs::read_priority;
use super::script_words::ScriptWords;

/// Something that holds on a stage or not.
pub(super) type SceneCondition = Box<dyn Fn(&StagedScene) -> bool>;

/// Something that holds for a job or not.
type JobCondition = Box<dyn Fn(&Job) -> bool>;

/// Reads a condition, such as `job 1 is running`.
///
/// # Errors
/// The line is not understood.
pub(super) fn read_condition(mut words: ScriptWords<'_>) -> Result<SceneCondition> {
    let condition: SceneCondition = match words.next().unwrap_or_default() {
        "job" | "jobs" => {
            let jobs = words.read_jobs();
            anyhow::ensure!(!jobs.is_empty(), "which jobs?");
            read_job_condition(&mut words, jobs)?
        }
        "all" if words.take("jobs are over") => Box::new(are_all_over),
        "all" if words.take("are told") => {
            Box::new(|scene| are_all_over(scene) && scene.plane_run.plane.view().untold.is_empty())
        }
        "isolated" => Box::new(|scene: &StagedScene| scene.plane_run.plane.is_isolated()),
        "a" if words.take("gate is open") => Box::new(is_gate_open),
        "site" => {
            let site: SiteName = words.read()?;
            read_site_condition(&mut words, site)?
        }
        other => bail!("nobody can wait for {other:?}"),
    };
    words.end()?;
    Ok(condition)
}

fn read_job_condition(words: &mut ScriptWords<'_>, jobs: Vec<JobId>) -> Result<SceneCondition> {
    if words.take("tells") {
        let event = words.clone().rest();
        while words.next().is_some() {}
        return Ok(Box::new(move |scene: &StagedScene| {
            jobs.iter().all(|id| has_told(scene, *id, &event))
        }));
    }
    let so = read_job_state(words)?;
    Ok(Box::new(move |scene: &StagedScene| {
        jobs.iter()
            .all(|id| scene.job_record(*id).is_ok_and(|job| so(&job)))
    }))
}

fn read_job_state(words: &mut ScriptWords<'_>) -> Result<JobCondition> {
    if words.take("has priority") {
        let priority = read_priority(words)?;
        return Ok(Box::new(move |job: &Job| job.priority == priority));
    }
    let verb = words.next();
    anyhow::ensure!(matches!(verb, Some("is" | "are")), "no job does {verb:?}");
    let name = words.next().unwrap_or_default();
    if name == "over" {
        return Ok(Box::new(Job::is_final));
    }
    if name == "confirmed" {
        return Ok(Box::new(is_confirmed));
    }
    let mut kinds = PhaseKind::ALL.into_iter();
    let Some(kind) = kinds.find(|kind| kind.as_str() == name) else {
        bail!("no job is {name:?}");
    };
    Ok(Box::new(move |job: &Job| job.phase.kind() == kind))
}

fn read_site_condition(words: &mut ScriptWords<'_>, site: SiteName) -> Result<SceneCondition> {
    if words.take("is shown as") {
        let state: String = words.read()?;
        return Ok(Box::new(move |scene: &StagedScene| {
            shown_states(scene.metrics(), site.as_str()).contains(&state)
        }));
    }
    let owes = words.take("owes a message");
    if !owes && !words.take("owes nothing") {
        bail!("no site does {:?}", words.clone().rest());
    }
    Ok(Box::new(move |scene: &StagedScene| {
        let record = scene.plane_run.plane.view().sites.get(&site).cloned();
        record.is_some_and(|record| record.owed.is_empty() != owes)
    }))
}

fn are_all_over(scene: &StagedScene) -> bool {
    let view = scene.plane_run.plane.view();
    view.jobs.values().all(|job| job.is_final())
}

fn has_told(scene: &StagedScene, id: JobId, event: &str) -> bool {
    let changes = scene.changes();
    changes.iter().any(|(_, change)| match &**change {
        JournalChange::Job { new, events, .. } => {
            new.id == id && events.iter().any(|told| event_words(&told.what) == event)
        }
        _ => false,
    })
}

fn is_gate_open(scene: &StagedScene) -> bool {
    scene.plane_run.world.read(|world| {
        let mut entries = world.ledger().entries().iter();
        entries.any(|entry| matches!(entry.deed, WorldLedgerEvent::Opened(..)))
    })
}

/// Returns true if all of its sites have confirmed its reservations, and it is not placed there
/// yet.
fn is_confirmed(job: &Job) -> bool {
    let reservation = job.reservation.as_deref();
    let reservation = reservation.filter(|reservation| !reservation.spent);
    reservation.is_some_and(|held: &JobReservations| {
        let beside = held.other.as_ref().map(|other| &other.search);
        beside.unwrap_or(&held.search).current_state() == ReservationSearchState::Confirmed
    })
}
