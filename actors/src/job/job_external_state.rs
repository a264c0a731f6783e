//! The state outside that a job depends on, as commands to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::{ComponentIndex, JobId, SiteName};
use cospan_domain::job::deadlock::{self, holds_and_waits, sites_waited_at};
use cospan_domain::job::decide::is_new_sighting;
use cospan_domain::job::demands;
use cospan_domain::job::job_command::{
    AttemptSighting, InputState, JobCommand, JobSurroundings, RejectedOutput, SiteClockTimes,
};
use cospan_domain::job::job_due::has_avoided_sites;
use cospan_domain::job::job_state::{Component, Job, JobPhase};
use cospan_domain::job::spec::UnreachableAction;
use cospan_domain::runner::AttemptLaunch;
use cospan_domain::transfer::copy_state::CopyLoss;
use cospan_domain::units::{ClockSkew, Timestamp};
use cospan_sites::port::{AttemptObservation, ErrorBlame, ExitCause, PayloadExit, SiteEndReason};

use crate::context::SharedState;

/// Lists the commands with everything that may be new to a job.
pub(super) fn pending_commands(shared: &SharedState, job: &Job) -> Vec<JobCommand> {
    let waits = matches!(job.phase, JobPhase::Queued { .. }) && !has_avoided_sites(job);
    if waits || job.is_final() {
        return Vec::new();
    }
    let mut commands: Vec<JobCommand> = job
        .indexed_components()
        .filter_map(|(index, component)| command_from_observation(shared, job, index, component))
        .collect();
    let external = external_state(shared, job);
    if external != JobSurroundings::default() {
        commands.push(JobCommand::Look(external));
    }
    commands
}

/// Collects the state outside that the job depends on.
pub(crate) fn external_state(shared: &SharedState, job: &Job) -> JobSurroundings {
    JobSurroundings {
        inputs: inputs_state(shared, job),
        unreachable: components_at_silent_sites(shared, job),
        removed: components_without_site(shared, job),
        yields: find_deadlock(shared, job),
        stranded: stranded_outputs(shared, job),
    }
}

/// Lists outputs whose sites have refused them for long, and those whose name another key took.
fn stranded_outputs(shared: &SharedState, job: &Job) -> Vec<RejectedOutput> {
    let tries = shared.settings.transfer.max_output_tries;
    let view = shared.view.load();
    let outputs = demands::outputs_to_bring(job);
    outputs
        .filter_map(|(index, at, content, (site, name))| {
            let entry = view.files.get(name).and_then(|file| file.entry.as_ref());
            let why: Arc<str> = if entry.is_some_and(|entry| entry.registered_by != job.owner) {
                format!("the name {:?} is that of another key's file", name.as_str()).into()
            } else {
                let copy = view.copies.get(&(content.digest, site.clone()))?;
                copy.stranding_reason(tries)?
            };
            Some((index, at, why))
        })
        .collect()
}

/// Looks for a deadlock: jobs that have what this one waits for, and wait for what it has, or for
/// each other.
fn find_deadlock(shared: &SharedState, job: &Job) -> Option<(ComponentIndex, JobId)> {
    if !holds_and_waits(job) {
        return None;
    }
    let view = shared.view.load();
    let mut others: BTreeMap<JobId, &Job> = BTreeMap::new();
    let mut sites: Vec<&SiteName> = sites_waited_at(job).map(|(_, site)| site).collect();
    while let Some(site) = sites.pop() {
        let there = view
            .holdings
            .get(site)
            .into_iter()
            .flat_map(|site| site.keys());
        for id in there
            .map(|(other, _)| other)
            .filter(|other| **other != job.id)
        {
            let other = view.jobs.get(id).filter(|other| holds_and_waits(other));
            if let Some(other) = other.filter(|_| !others.contains_key(id)) {
                others.insert(*id, other);
                sites.extend(sites_waited_at(other).map(|(_, site)| site));
            }
        }
    }
    deadlock::find_yielding_component(job, others.into_values())
}

fn command_from_observation(
    shared: &SharedState,
    job: &Job,
    index: ComponentIndex,
    component: &Component,
) -> Option<JobCommand> {
    if !component.run.may_live() {
        return None;
    }
    let report = shared
        .live
        .site_report(&component.placement.as_ref()?.site)?;
    let tag = job.latest_tag(shared.instance, index);
    let observation = report.observed.attempts.get(&tag)?;
    let asked_at = report.observed.asked_at;
    let clock = report.observed.clock;
    let site = &component.placement.as_ref()?.site;
    let sighting = match observation {
        // The site lost the files by which the payload began.
        AttemptObservation::Vanished {
            began: false,
            detail,
        } if component.run.has_begun() => {
            AttemptSighting::Failed(format!("its files were removed while it ran; {detail}").into())
        }
        _ => to_sighting(observation, clock, || {
            let labels = report
                .shape
                .as_ref()
                .map(|shape| shape.labels.clone())
                .unwrap_or_default();
            match AttemptLaunch::for_component(job, index, site, &labels) {
                Some(launch) => format!("{:?}", launch.at_site.program.executable.as_str()),
                None => "it".to_owned(),
            }
        })?,
    };
    let times = SiteClockTimes {
        clock,
        began_at: payload_began_at(observation),
        held_at: gate_held_since(observation),
    };
    let parameters = &shared.settings.job;
    let attempt = component.attempt;
    is_new_sighting(job, parameters, index, asked_at, times, &sighting).then_some(
        JobCommand::AttemptObserved {
            component: index,
            attempt,
            asked_at,
            times,
            sighting,
        },
    )
}

/// Returns when a payload began, by its site's clock, if it has.
fn payload_began_at(observation: &AttemptObservation) -> Option<Timestamp> {
    match observation {
        AttemptObservation::Begun(begun) => Some(begun.at),
        AttemptObservation::Exited(exit) => Some(exit.began_at),
        _ => None,
    }
}

/// Returns from when on a component at its gate had its processors, by its site's clock.
fn gate_held_since(observation: &AttemptObservation) -> Option<Timestamp> {
    match observation {
        AttemptObservation::Ready(at_gate) => Some(at_gate.held_at),
        _ => None,
    }
}

/// Translates an observation for a job, where the site's clock is so far ahead of ours; `None` if
/// it means nothing. `program` names what was to be started.
fn to_sighting(
    observation: &AttemptObservation,
    clock: ClockSkew,
    program: impl FnOnce() -> String,
) -> Option<AttemptSighting> {
    Some(match observation {
        AttemptObservation::Unknown(_) => return None,
        AttemptObservation::Absent => AttemptSighting::Absent,
        AttemptObservation::Queued(queued) => {
            AttemptSighting::Queued(queued.expected.map(|at| at - clock))
        }
        AttemptObservation::Starting => AttemptSighting::Pending,
        AttemptObservation::Ready(at_gate) => AttemptSighting::Ready(at_gate.host.clone()),
        AttemptObservation::Begun(begun) => AttemptSighting::Begun(begun.host.clone()),
        AttemptObservation::Exited(exit) => sighting_of_exit(exit, program),
        AttemptObservation::Void => AttemptSighting::Void,
        AttemptObservation::Vanished { detail, .. } => {
            AttemptSighting::Vanished(detail.as_str().into())
        }
        AttemptObservation::Ended {
            why: SiteEndReason::NeverRuns,
            detail,
            ..
        } => AttemptSighting::NeverRuns(detail.as_str().into()),
        AttemptObservation::Ended { why, detail, .. } => match why.whose_error() {
            ErrorBlame::Job => AttemptSighting::Failed(detail.as_str().into()),
            ErrorBlame::Site => AttemptSighting::Vanished(detail.as_str().into()),
            ErrorBlame::Nobody => AttemptSighting::Taken(detail.as_str().into()),
        },
    })
}

fn sighting_of_exit(exit: &PayloadExit, program: impl FnOnce() -> String) -> AttemptSighting {
    let how: Arc<str> = match &exit.cause {
        ExitCause::Code(0) => return AttemptSighting::Succeeded,
        ExitCause::Code(code) => format!("exit code {code}").into(),
        ExitCause::Signal(signal) => format!("ended by signal {signal}").into(),
        ExitCause::WallTime => "ran longer than its wall time".into(),
        ExitCause::Terminated => "was told to end at its site".into(),
        ExitCause::Requeued => {
            "put itself back into the queue (max_retries says how often it may)".into()
        }
        ExitCause::TooLate => return AttemptSighting::TooLate,
        ExitCause::CouldNotStart(problem) => {
            format!("could not start {}: {problem}", program()).into()
        }
    };
    AttemptSighting::Failed(how)
}

fn inputs_state(shared: &SharedState, job: &Job) -> InputState {
    let needs = match job.phase {
        JobPhase::Placed { .. } | JobPhase::Claiming { .. } if !job.inputs_here => {
            demands::needed_digests(job)
        }
        JobPhase::Running { .. } if job.has_staging_restart() => demands::staging_content(job),
        _ => return InputState::Unknown,
    };
    let view = shared.view.load();
    let mut expected = Timestamp(0);
    let mut missing = false;
    for (digest, site) in needs {
        let copy = view.copies.get(&(digest, site.clone()));
        if let Some(CopyLoss {
            detail,
            at_destination,
        }) = copy.and_then(|copy| copy.loss_reason())
        {
            let components = demands::components_needing(job, digest, &site).collect();
            return InputState::Lost {
                detail,
                components,
                at_site: at_destination,
            };
        }
        if !copy.is_some_and(|copy| copy.is_ready()) {
            missing = true;
            let progress = shared.live.copy_progress(digest, &site);
            expected = expected.max(progress.map_or(Timestamp(0), |progress| progress.expected));
        }
    }
    if !missing {
        InputState::Here
    } else if expected == Timestamp(0) {
        InputState::Unknown
    } else {
        InputState::Expected(expected)
    }
}

/// Lists the components whose site is silent. None while the fault seems to be ours.
fn components_at_silent_sites(shared: &SharedState, job: &Job) -> Vec<(ComponentIndex, Timestamp)> {
    if shared.live.is_isolated() {
        return Vec::new();
    }
    job.indexed_components()
        .filter_map(|(index, component)| {
            let report = shared
                .live
                .site_report(&component.placement.as_ref()?.site)?;
            let since = report.contact.unreachable_since()?;
            // A site that takes nothing new but reports what runs there is not silent, nor was it
            // then.
            (!report.tells).then(|| (index, since.max(report.told_at.unwrap_or_default())))
        })
        .collect()
}

/// Lists the components whose site left the configuration. Nobody knows how long their payloads
/// have been out of sight, so that time counts from our start only.
fn components_without_site(shared: &SharedState, job: &Job) -> Vec<(ComponentIndex, Timestamp)> {
    let gone = job.indexed_components().filter(|(_, component)| {
        let placement = component.placement.as_ref();
        placement.is_some_and(|placement| !shared.sites.contains_key(&placement.site))
    });
    gone.map(|(index, _)| (index, shared.started_at)).collect()
}

/// Returns when a job is to look again because of silent sites.
pub(super) fn next_silent_site_look(shared: &SharedState, job: &Job) -> Option<Timestamp> {
    if !matches!(
        job.phase,
        JobPhase::Starting { .. }
            | JobPhase::Running { .. }
            | JobPhase::Collecting { .. }
            | JobPhase::Aborting { .. }
    ) {
        return None;
    }
    let UnreachableAction::RerunAfter(patience) = job.spec.on_unreachable else {
        return None;
    };
    let now = shared.clock.now();
    let silent = components_at_silent_sites(shared, job)
        .into_iter()
        .chain(components_without_site(shared, job));
    silent
        .map(|(_, since)| since + patience)
        .filter(|&end| end > now)
        .min()
}

#[cfg(test)]
#[path = "job_external_state_tests.rs"]
pub(super) mod tests;
