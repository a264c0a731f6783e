//! Derives the effects that are due for a job from its state alone.

use crate::ids::{Attempt, ComponentIndex};
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{AttemptState, Component, Job, JobPhase, JobReservations, SiteCharge};
use crate::job::spec::OutputDestination;
use crate::units::{DurationMs, Timestamp};

/// An effect: a thing to be done. It stays due until an event records its outcome.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobEffect {
    pub component: ComponentIndex,
    pub attempt: Attempt,
    pub kind: JobEffectKind,
}

/// The kind of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobEffectKind {
    /// Submit the attempt.
    Submit,
    /// Record that the attempt was not submitted and shall not be.
    Withdraw,
    /// Look the attempt up by its tag.
    LookUp,
    /// Open its gate.
    OpenGate,
    /// Close its gate, and end whatever lives of it.
    End,
    /// Have its site record an error.
    RecordCharge,
    /// Find out the content of this output; if it stays, whether it and all others of its component
    /// that stay are there.
    ReadOutput(u32),
    /// Once this output is at its site, enter it in the catalogue.
    RegisterOutput(u32),
    /// Make the call about a reservation that is due; the attempt is the number of the call.
    Reserve,
}

impl JobEffectKind {
    /// Names of all kinds; crash points are generated from them.
    pub const NAMES: [&'static str; 9] = [
        "Submit",
        "Withdraw",
        "LookUp",
        "OpenGate",
        "End",
        "RecordCharge",
        "ReadOutput",
        "RegisterOutput",
        "Reserve",
    ];

    /// Returns true if it may be dropped at any moment, and made anew if it is due again. It reads
    /// whole files, which may take hours.
    pub fn may_be_dropped(self) -> bool {
        matches!(
            self,
            JobEffectKind::ReadOutput(_) | JobEffectKind::RegisterOutput(_)
        )
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            JobEffectKind::Submit => Self::NAMES[0],
            JobEffectKind::Withdraw => Self::NAMES[1],
            JobEffectKind::LookUp => Self::NAMES[2],
            JobEffectKind::OpenGate => Self::NAMES[3],
            JobEffectKind::End => Self::NAMES[4],
            JobEffectKind::RecordCharge => Self::NAMES[5],
            JobEffectKind::ReadOutput(_) => Self::NAMES[6],
            JobEffectKind::RegisterOutput(_) => Self::NAMES[7],
            JobEffectKind::Reserve => Self::NAMES[8],
        }
    }
}

/// Stands for the component of an effect that belongs to none: such an effect waits for no other.
const NO_COMPONENT: ComponentIndex = ComponentIndex(u32::MAX);

/// Lists the effects that are due.
pub fn due(job: &Job, now: Timestamp) -> Vec<JobEffect> {
    let mut effects = Vec::new();
    if job.held.is_some() {
        return effects;
    }
    if let Some((question, _)) = job
        .reservation
        .as_deref()
        .and_then(JobReservations::due_call)
    {
        let component = NO_COMPONENT;
        let attempt = Attempt(question);
        effects.push(JobEffect {
            component,
            attempt,
            kind: JobEffectKind::Reserve,
        });
    }
    for (index, component) in job.indexed_components() {
        let mut push = |kind| {
            effects.push(JobEffect {
                component: index,
                attempt: component.attempt,
                kind,
            });
        };
        if component.charge.is_some() {
            push(JobEffectKind::RecordCharge);
        }
        match job.phase {
            JobPhase::Claiming { .. } if component.given_back => {
                push_end_effects(component, now, &mut push)
            }
            JobPhase::Claiming { .. } => push_claim_effects(component, now, &mut push),
            JobPhase::Starting { .. } => push_gate_effect(job, index, now, &mut push),
            JobPhase::Aborting { .. } => push_end_effects(component, now, &mut push),
            JobPhase::Collecting { .. } => push_output_effects(job, index, component, &mut push),
            JobPhase::Running { .. } if component.given_back => {
                push_end_effects(component, now, &mut push)
            }
            JobPhase::Running { .. } => {
                push_claim_effects(component, now, &mut push);
                push_gate_effect(job, index, now, &mut push);
            }
            JobPhase::Queued { .. }
            | JobPhase::Placed { .. }
            | JobPhase::Finished { .. }
            | JobPhase::Failed { .. }
            | JobPhase::Cancelled { .. } => {}
        }
    }
    effects
}

fn push_claim_effects(component: &Component, now: Timestamp, push: &mut impl FnMut(JobEffectKind)) {
    match component.run {
        AttemptState::Intended { .. } => push(JobEffectKind::Submit),
        AttemptState::Uncertain { look_at, .. } if look_at <= now => push(JobEffectKind::LookUp),
        _ => {}
    }
}

/// Opens the gate of a component that waits there, as its site has said in this epoch, and can
/// still begin with the others; of one that begins later once its time has come.
fn push_gate_effect(
    job: &Job,
    index: ComponentIndex,
    now: Timestamp,
    push: &mut impl FnMut(JobEffectKind),
) {
    let Some(component) = job.components.get(index.0 as usize) else {
        return;
    };
    let is_late = component.time_waited_past_start(now) > DurationMs::ZERO;
    if component.run.is_confirmed_ready() && !is_late && !job.is_too_early(index, now) {
        push(JobEffectKind::OpenGate);
    }
}

fn push_end_effects(component: &Component, now: Timestamp, push: &mut impl FnMut(JobEffectKind)) {
    match component.run {
        AttemptState::Intended { .. } => push(JobEffectKind::Withdraw),
        AttemptState::Uncertain { look_at, .. } => {
            push(JobEffectKind::End);
            if look_at <= now {
                push(JobEffectKind::LookUp);
            }
        }
        AttemptState::Submitted { .. }
        | AttemptState::AtGate { .. }
        | AttemptState::Opened { .. }
        | AttemptState::Running { .. } => {
            push(JobEffectKind::End);
        }
        AttemptState::Idle | AttemptState::Ended { .. } => {}
    }
}

fn push_output_effects(
    job: &Job,
    index: ComponentIndex,
    component: &Component,
    push: &mut impl FnMut(JobEffectKind),
) {
    let Some(spec) = job.component_spec(index) else {
        return;
    };
    let last_staying = spec.last_staying_output();
    for (at, (state, output)) in (0..).zip(component.collected.iter().zip(&spec.outputs)) {
        let stays = matches!(output.collect, OutputDestination::Fetch);
        if state.done || (stays && last_staying != Some(at)) {
            continue;
        }
        let kind = match state.content {
            None => JobEffectKind::ReadOutput(at),
            Some(_) => JobEffectKind::RegisterOutput(at),
        };
        push(kind);
    }
}

/// Returns the charge of an effect on a component.
pub fn charge_of_component(job: &Job, index: ComponentIndex) -> Option<&SiteCharge> {
    job.components.get(index.0 as usize)?.charge.as_ref()
}

/// Returns the time to look again if nothing happens before.
pub fn next_wake(job: &Job, parameters: &JobParameters, now: Timestamp) -> Option<Timestamp> {
    if job.held.is_some() {
        return None;
    }
    // A look-up that is due is being made, or waits for a call under way, which wakes it.
    let look_ups = job
        .components
        .iter()
        .filter_map(|component| match component.run {
            AttemptState::Uncertain { look_at, .. } => Some(look_at).filter(|at| now < *at),
            _ => None,
        });
    let silence = job
        .reservation
        .as_deref()
        .and_then(|r| r.silence_deadline(parameters));
    let phase = match job.phase {
        JobPhase::Queued { since, .. } => {
            has_avoided_sites(job).then_some(since + parameters.avoid_for)
        }
        JobPhase::Placed { .. } => job
            .next_claim_time(parameters)
            .into_iter()
            .chain(job.announcement_time(parameters))
            .min(),
        JobPhase::Claiming { since } => {
            let promised = job.reserved_start().filter(|start| now < *start);
            claiming_deadline(job, parameters, since)
                .into_iter()
                .chain(promised)
                .min()
        }
        JobPhase::Starting { since } => Some(since + parameters.go_grace),
        // After that time its sites may report at any time that it is still there.
        JobPhase::Running { .. } => {
            let overdue = job
                .components
                .iter()
                .filter_map(|c| overdue_at(job, c, parameters));
            let looks = overdue.map(|time| {
                if now < time {
                    time
                } else {
                    now + parameters.look_up_interval
                }
            });
            let opens = job
                .indexed_components()
                .filter(|(_, c)| c.run.is_confirmed_ready());
            let opens = opens.filter(|(index, _)| job.is_too_early(*index, now));
            let opens = opens.filter_map(|(index, _)| job.component_start(index));
            let ends = job
                .components
                .iter()
                .filter_map(|c| restart_deadline(c, parameters));
            looks.chain(ends).chain(opens).min()
        }
        JobPhase::Aborting { .. }
        | JobPhase::Collecting { .. }
        | JobPhase::Finished { .. }
        | JobPhase::Failed { .. }
        | JobPhase::Cancelled { .. } => None,
    };
    look_ups.chain(phase).chain(silence).min()
}

/// Returns the time at which the payload of a component should be over, if it runs.
pub fn overdue_at(
    job: &Job,
    component: &Component,
    parameters: &JobParameters,
) -> Option<Timestamp> {
    match component.run {
        AttemptState::Running { since, .. } => {
            Some(since + job.wall_time() + parameters.wall_margin)
        }
        _ => None,
    }
}

/// Returns the time at which a restarted component has waited long enough: for sites other than
/// those that failed it, for its processors, or at its gate.
pub fn restart_deadline(component: &Component, parameters: &JobParameters) -> Option<Timestamp> {
    let restart = component
        .restart
        .as_ref()
        .filter(|_| !component.given_back)?;
    let site = component
        .placement
        .as_ref()
        .map(|placement| &placement.site);
    let claims = parameters.claim_limits_at(site);
    let acquisition = component.acquisition();
    match component.run {
        AttemptState::Idle if component.avoid.is_empty() => None,
        AttemptState::Idle => Some(restart.since + parameters.avoid_for),
        AttemptState::AtGate { since, .. } => Some(since + acquisition.max_hold(claims)),
        AttemptState::Opened { at, .. } => Some(at + parameters.go_grace),
        _ => Some(restart.since + acquisition.ready_within(claims)),
    }
}

/// Returns true if a component avoids a site.
pub fn has_avoided_sites(job: &Job) -> bool {
    job.components
        .iter()
        .any(|component| !component.avoid.is_empty())
}

/// Returns the time-out of the claim, or the end of the longest hold.
fn claiming_deadline(job: &Job, parameters: &JobParameters, since: Timestamp) -> Option<Timestamp> {
    let kept = job
        .components
        .iter()
        .filter(|c| !matches!(c.run, AttemptState::Idle) && !c.given_back);
    let claims = job.claim_limits(parameters);
    kept.map(|component| job.claim_deadline(component, since, claims))
        .min()
}
