//! What a control plane left in its store about each job, and how much of it is the
//! same in any world.
//!
//! Not compared, because two worlds cannot agree on it: when something was decided
//! (lengths that follow from the settings are), names of hosts, numbers of batch jobs,
//! digests of what payloads wrote, and a site's own words about an attempt that it lost.
//! See [`views`] for the order of events.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentIndex, Digest, InstanceId};
use cospan_domain::job::event::{Happened, JobEvent};
use cospan_domain::job::state::{AbortCause, AfterAbort, Ending, Job, Phase};
use cospan_domain::units::Timestamp;
use cospan_storage::memory::{self, MemoryDisk};
use cospan_storage::port::{Opened, Sink, Stored};
use cospan_storage::record::{Loader, events};
use cospan_storage::{EngineKind, Options};

/// One job as its store tells it.
#[derive(Debug, Clone)]
pub(super) struct Story {
    /// The job as it ended.
    pub job: Job,
    /// What happened to it, in order.
    pub events: Vec<JobEvent>,
    /// Units in which that was journalled, without the submission.
    pub units: usize,
}

/// Reads the store of a server that has stopped.
///
/// # Errors
/// It cannot be opened, or is damaged.
pub(super) fn on_disk(path: &Path) -> Result<Vec<Story>> {
    read(|sink, load| {
        Ok(cospan_storage::open_and_load(
            path,
            &Options::new(EngineKind::Sled),
            sink,
            load,
        )?)
    })
}

/// Reads the store of a simulated control plane.
///
/// # Errors
/// It is damaged.
pub(super) fn in_memory(disk: &MemoryDisk) -> Result<Vec<Story>> {
    read(|sink, load| {
        Ok(memory::open_and_load(
            disk,
            InstanceId::from_random(0),
            sink,
            load,
        )?)
    })
}

fn read(open: impl FnOnce(Sink, &mut dyn FnMut(Stored)) -> Result<Opened>) -> Result<Vec<Story>> {
    let (mut loader, mut damage) = (Loader::default(), ControlFlow::Continue(()));
    let opened = open(Arc::new(|_| {}), &mut |stored| {
        if damage.is_continue() {
            damage = loader
                .take(stored)
                .map_or_else(ControlFlow::Break, ControlFlow::Continue);
        }
    })?;
    if let ControlFlow::Break(damage) = damage {
        return Err(damage.into());
    }
    let story = |job: Job| -> Result<Story> {
        let units = events::history(&*opened.journal, job.id)?;
        let count = units.len();
        let events = units.into_iter().flat_map(|(_, events)| events).collect();
        Ok(Story {
            job,
            events,
            units: count,
        })
    };
    let stories = loader.finish()?.jobs.into_iter().map(story).collect();
    opened.journal.close();
    stories
}

/// The events of a job as lines, by who sees them in which order.
///
/// Components run at the same time, and so do transfers; nothing determines in which
/// order their events are decided. So each component sees its own events among those of
/// the job as a whole, and the job sees only the latter. The arrival of input is seen
/// by the job alone: attempts get to their gates meanwhile. Two histories with the same
/// views differ by nothing but the order of what ran at the same time.
pub(super) fn views(story: &Story) -> BTreeMap<String, Vec<String>> {
    let mut views: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let names: Vec<String> = story
        .job
        .spec
        .components
        .iter()
        .map(|component| component.name.to_string())
        .collect();
    for event in &story.events {
        let line = line(event);
        match (component_of(&event.what), &event.what) {
            (Some(ComponentIndex(index)), _) => {
                let name = names.get(index as usize).cloned().unwrap_or_default();
                views.entry(name).or_default().push(line);
            }
            (None, Happened::InputsArrived) => views.entry("job".into()).or_default().push(line),
            (None, _) => {
                for name in names.iter().map(String::as_str).chain(["job"]) {
                    views.entry(name.into()).or_default().push(line.clone());
                }
            }
        }
    }
    views
}

/// Which component an event is about; `None` for the job as a whole.
fn component_of(what: &Happened) -> Option<ComponentIndex> {
    match what {
        Happened::AttemptRenewed { component }
        | Happened::ComponentAvoidanceLapsed { component }
        | Happened::SiteAvoided { component }
        | Happened::ComponentFailed { component, .. }
        | Happened::ComponentMoved { component, .. }
        | Happened::ClaimGivenBack { component }
        | Happened::StartDeferred { component, .. }
        | Happened::WaitingAtSite { component, .. }
        | Happened::AttemptSubmitted { component, .. }
        | Happened::SubmissionUncertain { component, .. }
        | Happened::AttemptAbsent { component, .. }
        | Happened::AttemptSeen { component }
        | Happened::ComponentReady { component, .. }
        | Happened::ReadinessDoubted { component }
        | Happened::GateOpened { component }
        | Happened::ComponentBegan { component, .. }
        | Happened::AttemptEnded { component, .. }
        | Happened::SiteCharged { component, .. }
        | Happened::ChargeRecorded { component }
        | Happened::OutputFound { component, .. }
        | Happened::OutputCollected { component, .. } => Some(*component),
        Happened::JobPlaced { .. }
        | Happened::ReservationSought { .. }
        | Happened::ReservationAnswered { .. }
        | Happened::ReservationChanged { .. }
        | Happened::ReservationMoveSought { .. }
        | Happened::ReservationForwardSought { .. }
        | Happened::ReservationMoved
        | Happened::ReservationStayed { .. }
        | Happened::ReservationForgone { .. }
        | Happened::UnreservedChosen { .. }
        | Happened::ReservationWithheld { .. }
        | Happened::StartAnnounced
        | Happened::NoticeTold { .. }
        | Happened::StartPostponed { .. }
        | Happened::InputsArrived
        | Happened::AvoidanceLapsed
        | Happened::ClaimBegun
        | Happened::ComponentsClaimed { .. }
        | Happened::ClaimMissed { .. }
        | Happened::ClaimReturned
        | Happened::GoDecided { .. }
        | Happened::JobStarted
        | Happened::PayloadsSucceeded
        | Happened::RoundAborted { .. }
        | Happened::AbortRedirected { .. }
        | Happened::JobRequeued { .. }
        | Happened::PriorityChanged { .. }
        | Happened::JobFrozen { .. }
        | Happened::JobThawed { .. }
        | Happened::JobHeld { .. }
        | Happened::JobReleased { .. }
        | Happened::JobFinished
        | Happened::JobFailed { .. }
        | Happened::JobCancelled { .. }
        | Happened::EndTold { .. } => None,
    }
}

/// An event without what only one world can know. Instants become lengths from the
/// event on where the settings determine them, and vanish where they do not.
fn line(event: &JobEvent) -> String {
    let mut what = event.what.clone();
    let length = |until: &mut Timestamp| *until = Timestamp(until.since(event.at).0);
    match &mut what {
        Happened::JobPlaced { start_estimate, .. } => length(start_estimate),
        Happened::SubmissionUncertain { settled_at, .. } => length(settled_at),
        Happened::AttemptAbsent { look_at, .. } => length(look_at),
        Happened::GoDecided { start_at, start_by } => {
            length(start_at);
            start_by.iter_mut().for_each(length);
        }
        Happened::ComponentBegan { began_at, .. } => *began_at = None,
        Happened::StartPostponed {
            start_estimate,
            next_claim,
        } => {
            (*start_estimate, *next_claim) = (Timestamp(0), Timestamp(0));
        }
        Happened::ClaimMissed { next_claim, .. } => *next_claim = Timestamp(0),
        Happened::JobRequeued { not_before } => *not_before = Timestamp(0),
        Happened::AttemptSubmitted { component, .. } => {
            return format!("AttemptSubmitted {{ component: {component:?} }}");
        }
        Happened::ComponentReady {
            host,
            clock,
            held_for,
            ..
        } => {
            (*host, *clock, *held_for) = ("".into(), None, None);
        }
        Happened::AttemptEnded {
            how: Ending::Lost(words),
            ..
        } => *words = "".into(),
        Happened::SiteCharged { charge, .. } => charge.detail = "".into(),
        Happened::OutputFound { content, .. } => *content = size_only(*content),
        Happened::RoundAborted { why, then } => {
            if let AbortCause::SiteError { detail, .. } = why {
                *detail = "".into();
            }
            if let AfterAbort::Requeue { not_before } = then {
                length(not_before);
            }
        }
        _ => {}
    }
    format!("{what:?}")
}

fn size_only(content: Content) -> Content {
    Content {
        digest: Digest([0; 32]),
        ..content
    }
}

/// What a job's record says in the end, in lines.
pub(super) fn record(job: &Job) -> Vec<String> {
    let end = match &job.phase {
        Phase::Failed { reason, .. } => format!("failed: {reason}"),
        Phase::Cancelled { by, .. } => format!("cancelled by {by}"),
        phase => phase.kind().as_str().to_owned(),
    };
    let instants = &job.instants;
    let seen = [
        instants.first_placed,
        instants.placed,
        instants.claimed,
        instants.started,
    ];
    let mut lines = vec![
        format!("{} of {}, {:?}: {end}", job.id, job.owner, job.priority),
        format!(
            "round {:?}, inputs here: {}, {:?}",
            job.round, job.inputs_here, job.setbacks
        ),
        format!("frozen by {:?}, held {:?}", job.frozen_by, job.held),
        format!("instants known {:?}", seen.map(|instant| instant.is_some())),
        format!("to be moved {:?}", instants.transfer_volume),
        format!("{:?}", job.spec),
    ];
    lines.extend(job.components.iter().map(|component| {
        let collected: Vec<_> = component
            .collected
            .iter()
            .map(|output| output.done)
            .collect();
        format!(
            "attempt {:?} {}, {:?}, avoids {:?}, owes {:?}, collected {collected:?}",
            component.attempt,
            component.run.as_str(),
            component.placement,
            component.avoid,
            component.charge,
        )
    }));
    lines
}
