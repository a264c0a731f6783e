//! The story of each job in a control plane's store, and the parts of it that are the same in any
//! world.
//!
//! Some things are not compared, because two worlds cannot agree on them: when something was
//! decided (lengths that follow from the settings are compared), names of hosts, numbers of batch
//! jobs, digests of what payloads wrote, and a site's own words about an attempt that it lost. See
//! [`observer_views`] for the order of events.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentIndex, Digest, InstanceId};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{AbortCause, AbortConsequence, AttemptEnding, Job, JobPhase};
use cospan_domain::units::Timestamp;
use cospan_storage::memory::{self, MemoryDisk};
use cospan_storage::port::{CommitReportSink, OpenedStore, StoredValue};
use cospan_storage::record::{RecordLoader, events};
use cospan_storage::{EngineKind, StoreOptions};

/// The story of one job in its store.
#[derive(Debug, Clone)]
pub(super) struct JobStory {
    /// The job as it ended.
    pub job: Job,
    /// The events of the job, in order.
    pub events: Vec<JobEvent>,
    /// Number of units in which they were journalled, without the submission.
    pub units: usize,
}

/// Reads the store of a server that has stopped.
///
/// # Errors
/// It cannot be opened, or is damaged.
pub(super) fn read_disk_store(path: &Path) -> Result<Vec<JobStory>> {
    read(|sink, load| {
        Ok(cospan_storage::open_and_load(
            path,
            &StoreOptions::new(EngineKind::Sled),
            sink,
            load,
        )?)
    })
}

/// Reads the store of a simulated control plane.
///
/// # Errors
/// It is damaged.
pub(super) fn read_memory_store(disk: &MemoryDisk) -> Result<Vec<JobStory>> {
    read(|sink, load| {
        Ok(memory::open_and_load(
            disk,
            InstanceId::from_random(0),
            sink,
            load,
        )?)
    })
}

fn read(
    open: impl FnOnce(CommitReportSink, &mut dyn FnMut(StoredValue)) -> Result<OpenedStore>,
) -> Result<Vec<JobStory>> {
    let mut loader = RecordLoader::default();
    let mut damage = ControlFlow::Continue(());
    let opened = open(Arc::new(|_| {}), &mut |stored| {
        if damage.is_continue() {
            damage = loader
                .take_stored_value(stored)
                .map_or_else(ControlFlow::Break, ControlFlow::Continue);
        }
    })?;
    if let ControlFlow::Break(damage) = damage {
        return Err(damage.into());
    }
    let stories = loader
        .finish()?
        .jobs
        .into_iter()
        .map(|job: Job| -> Result<JobStory> {
            let units = events::read_history(&*opened.journal, job.id)?;
            let count = units.len();
            let events = units.into_iter().flat_map(|(_, events)| events).collect();
            Ok(JobStory {
                job,
                events,
                units: count,
            })
        })
        .collect();
    opened.journal.close();
    stories
}

/// Returns the events of a job as lines, by observer.
///
/// Components run at the same time, and so do transfers; nothing determines in which order their
/// events are decided. So each component sees its own events among those of the job as a whole, and
/// the job sees only the latter. The arrival of input is seen by the job alone: attempts get to
/// their gates meanwhile. Two histories with the same views differ only in the order of what ran at
/// the same time.
pub(super) fn observer_views(story: &JobStory) -> BTreeMap<String, Vec<String>> {
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
            (None, JobEventKind::InputsArrived) => {
                views.entry("job".into()).or_default().push(line)
            }
            (None, _) => {
                for name in names.iter().map(String::as_str).chain(["job"]) {
                    views.entry(name.into()).or_default().push(line.clone());
                }
            }
        }
    }
    views
}

/// Returns the component that an event is about; `None` for the job as a whole.
fn component_of(what: &JobEventKind) -> Option<ComponentIndex> {
    match what {
        JobEventKind::AttemptRenewed { component }
        | JobEventKind::ComponentAvoidanceLapsed { component }
        | JobEventKind::SiteAvoided { component }
        | JobEventKind::FoundUnfit { component, .. }
        | JobEventKind::ComponentFailed { component, .. }
        | JobEventKind::ComponentMoved { component, .. }
        | JobEventKind::ClaimGivenBack { component }
        | JobEventKind::StartDeferred { component, .. }
        | JobEventKind::WaitingAtSite { component, .. }
        | JobEventKind::AttemptSubmitted { component, .. }
        | JobEventKind::SubmissionUncertain { component, .. }
        | JobEventKind::AttemptAbsent { component, .. }
        | JobEventKind::AttemptSeen { component }
        | JobEventKind::ComponentReady { component, .. }
        | JobEventKind::ReadinessDoubted { component }
        | JobEventKind::GateOpened { component }
        | JobEventKind::ComponentBegan { component, .. }
        | JobEventKind::AttemptEnded { component, .. }
        | JobEventKind::SiteCharged { component, .. }
        | JobEventKind::ChargeRecorded { component }
        | JobEventKind::OutputsSeen { component }
        | JobEventKind::OutputFound { component, .. }
        | JobEventKind::OutputCollected { component, .. } => Some(*component),
        JobEventKind::JobPlaced { .. }
        | JobEventKind::ReservationSought { .. }
        | JobEventKind::ReservationAnswered { .. }
        | JobEventKind::ReservationChanged { .. }
        | JobEventKind::ReservationMoveSought { .. }
        | JobEventKind::ReservationForwardSought { .. }
        | JobEventKind::ReservationMoved
        | JobEventKind::ReservationStayed { .. }
        | JobEventKind::ReservationForgone { .. }
        | JobEventKind::UnreservedChosen { .. }
        | JobEventKind::ReservationWithheld { .. }
        | JobEventKind::StartAnnounced
        | JobEventKind::NoticeTold { .. }
        | JobEventKind::StartPostponed { .. }
        | JobEventKind::InputsArrived
        | JobEventKind::AvoidanceLapsed
        | JobEventKind::ClaimBegun
        | JobEventKind::ComponentsClaimed { .. }
        | JobEventKind::ClaimMissed { .. }
        | JobEventKind::ClaimReturned
        | JobEventKind::GoDecided { .. }
        | JobEventKind::JobStarted
        | JobEventKind::PayloadsSucceeded
        | JobEventKind::RoundAborted { .. }
        | JobEventKind::AbortRedirected { .. }
        | JobEventKind::JobRequeued { .. }
        | JobEventKind::PriorityChanged { .. }
        | JobEventKind::JobFrozen { .. }
        | JobEventKind::JobThawed { .. }
        | JobEventKind::JobHeld { .. }
        | JobEventKind::JobReleased { .. }
        | JobEventKind::JobFinished
        | JobEventKind::JobFailed { .. }
        | JobEventKind::JobCancelled { .. }
        | JobEventKind::EndTold { .. } => None,
    }
}

/// Formats an event without what only one world can know. Instants become lengths from the event on
/// where the settings determine them, and vanish where they do not.
fn line(event: &JobEvent) -> String {
    let mut what = event.what.clone();
    match &mut what {
        JobEventKind::JobPlaced { start_estimate, .. } => shorten(start_estimate, event.at),
        JobEventKind::SubmissionUncertain { settled_at, .. } => shorten(settled_at, event.at),
        JobEventKind::AttemptAbsent { look_at, .. } => shorten(look_at, event.at),
        JobEventKind::GoDecided { start_at, start_by } => {
            shorten(start_at, event.at);
            if let Some(start_by) = start_by {
                shorten(start_by, event.at);
            }
        }
        JobEventKind::ComponentBegan { began_at, .. } => *began_at = None,
        JobEventKind::StartPostponed {
            start_estimate,
            next_claim,
        } => {
            *start_estimate = Timestamp(0);
            *next_claim = Timestamp(0);
        }
        JobEventKind::ClaimMissed { next_claim, .. } => *next_claim = Timestamp(0),
        JobEventKind::JobRequeued { not_before } => *not_before = Timestamp(0),
        JobEventKind::AttemptSubmitted { component, .. } => {
            return format!("AttemptSubmitted {{ component: {component:?} }}");
        }
        JobEventKind::ComponentReady {
            host,
            clock,
            held_for,
            ..
        } => {
            *host = "".into();
            *clock = None;
            *held_for = None;
        }
        JobEventKind::AttemptEnded {
            how: AttemptEnding::Lost(words),
            ..
        } => *words = "".into(),
        JobEventKind::SiteCharged { charge, .. } => charge.detail = "".into(),
        JobEventKind::OutputFound { content, .. } => *content = keep_size_only(*content),
        JobEventKind::RoundAborted { why, then } => {
            if let AbortCause::SiteError { detail, .. } = why {
                *detail = "".into();
            }
            if let AbortConsequence::Requeue { not_before } = then {
                shorten(not_before, event.at);
            }
        }
        _ => {}
    }
    format!("{what:?}")
}

fn shorten(until: &mut Timestamp, from: Timestamp) {
    *until = Timestamp(until.since(from).0);
}

fn keep_size_only(content: Content) -> Content {
    Content {
        digest: Digest([0; 32]),
        ..content
    }
}

/// Lists what a job's record says in the end.
pub(super) fn record_lines(job: &Job) -> Vec<String> {
    let end = match &job.phase {
        JobPhase::Failed { reason, .. } => format!("failed: {reason}"),
        JobPhase::Cancelled { by, .. } => format!("cancelled by {by}"),
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
