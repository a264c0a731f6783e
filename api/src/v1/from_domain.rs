//! Conversions of the domain's state into reports.

use std::collections::BTreeMap;

use cospan_domain::ids::ComponentIndex;
use cospan_domain::job::job_state::{
    AttemptEnding, AttemptState, Component, Job, JobInstants, JobPhase, RestartStep, SetbackCounts,
};
use cospan_domain::job::spec::{ComponentSpec, OutputDestination};
use cospan_domain::placed::PlacementOrigin;
use cospan_domain::units::Timestamp;

use super::event_report::{ComponentNames, describe_abort, state_after_abort};
use super::explain::RefusedReport;
use super::job::{
    ComponentReport, InstantsReport, JobReport, JobRow, OutputReport, PhaseReport, PlacedReport,
    SetbacksReport, SourceReport,
};
use super::quantity::Instant;
use super::reservation::ReservationReport;
use super::runner::TaskReport;

impl From<&Job> for JobReport {
    fn from(job: &Job) -> Self {
        let components = (0..job.component_count() as u32).map(ComponentIndex);
        Self {
            id: job.id.0,
            owner: job.owner.to_string(),
            idempotency_key: job.idempotency.as_ref().map(|given| given.key.to_string()),
            submitted_at: job.submitted_at.into(),
            priority: job.priority.into(),
            phase: PhaseReport::of(job),
            frozen_by: job.frozen_by.as_ref().map(ToString::to_string),
            held: job.held.as_deref().map(str::to_owned),
            round: job.round.0,
            placed: job
                .placed_by
                .as_ref()
                .filter(|_| job.is_placed())
                .map(PlacedReport::from),
            sweep: job.spec.run.task.as_ref().map(TaskReport::from),
            inputs_here: job.inputs_here,
            start_at: job.start_at.map(Instant),
            reservation: ReservationReport::of(job),
            components: components
                .filter_map(|index| component_report(job, index))
                .collect(),
            setbacks: (&job.setbacks).into(),
            instants: (&*job.instants).into(),
            accounting: job.into(),
            revision: job.revision,
            outputs_kept_ms: None,
            document: (&*job.spec).into(),
        }
    }
}

impl From<&PlacementOrigin> for PlacedReport {
    fn from(by: &PlacementOrigin) -> Self {
        Self {
            policy: by.policy.to_string(),
            rule: by.rule.as_str().into(),
            refused: by.refused.as_ref().map(RefusedReport::from),
        }
    }
}

impl PhaseReport {
    /// Describes where this job stands.
    fn of(job: &Job) -> Self {
        let phase = &job.phase;
        let mut report = Self {
            state: phase.kind().as_str().into(),
            since: Instant(phase_began_at(phase)),
            not_before: None,
            start_estimate: None,
            reason: None,
            next: None,
            by: None,
        };
        match phase {
            JobPhase::Queued { since, not_before } => {
                report.not_before = Some(*not_before).filter(|at| at > since).map(Instant);
                report.reason = describe_refusals(job);
            }
            JobPhase::Placed { start_estimate, .. } => {
                report.start_estimate = Some(Instant(*start_estimate));
                report.reason = describe_refusals(job);
            }
            // Who looks now and then may see no earlier state.
            JobPhase::Claiming { .. } | JobPhase::Starting { .. } | JobPhase::Running { .. } => {
                report.reason = describe_refusals(job);
            }
            JobPhase::Aborting { why, then, .. } => {
                report.reason = Some(describe_abort(why, &ComponentNames::of_job(job)));
                report.next = Some(state_after_abort(then).into());
            }
            JobPhase::Failed { reason, .. } => report.reason = Some(reason.to_string()),
            JobPhase::Cancelled { by, .. } => report.by = Some(by.to_string()),
            JobPhase::Collecting { .. } | JobPhase::Finished { .. } => {}
        }
        report
    }
}

/// Describes the first thing that batch systems refused of a job, and counts the rest.
fn describe_refusals(job: &Job) -> Option<String> {
    let mut refusals = job.indexed_components().flat_map(|(index, component)| {
        let refused = component.unfit_for.iter();
        refused.map(move |(site, words)| (index, site, words))
    });
    let (index, site, words) = refusals.next()?;
    let name = job.component_name(index).unwrap_or_default();
    let first = format!("the batch system of {site} refuses component {name}: {words}");
    Some(match refusals.count() {
        0 => first,
        more => format!("{first}; {more} more refusals"),
    })
}

fn phase_began_at(phase: &JobPhase) -> Timestamp {
    match phase {
        JobPhase::Queued { since, .. }
        | JobPhase::Claiming { since }
        | JobPhase::Starting { since, .. }
        | JobPhase::Running { since }
        | JobPhase::Collecting { since }
        | JobPhase::Aborting { since, .. } => *since,
        JobPhase::Placed { at, .. }
        | JobPhase::Finished { at }
        | JobPhase::Failed { at, .. }
        | JobPhase::Cancelled { at, .. } => *at,
    }
}

fn component_report(job: &Job, index: ComponentIndex) -> Option<ComponentReport> {
    let spec = job.component_spec(index)?;
    let state = job.components.get(index.0 as usize);
    let mut report = ComponentReport {
        name: job.component_name(index)?,
        processors: job.processors_of(index),
        site: spec.site.as_ref().map(ToString::to_string),
        attempt: 0,
        state: AttemptState::Idle.as_str().into(),
        since: None,
        detail: None,
        host: None,
        lrm_id: None,
        transfer_time_ms: None,
        sources: Vec::new(),
        avoid: Vec::new(),
        refused_by: BTreeMap::new(),
        outputs: Vec::new(),
    };
    let Some(state) = state else {
        return Some(report);
    };
    if let Some(placement) = &state.placement {
        report.site = Some(placement.site.to_string());
        report.transfer_time_ms = Some(placement.transfer_time.0);
        report.sources = placement
            .sources
            .iter()
            .map(
                |source: &cospan_domain::placed::ContentSource| SourceReport {
                    digest: source.content.digest.to_string(),
                    size_bytes: source.content.size.0,
                    from: source.from.to_string(),
                    chunk_of: source.chunk.map(|chunk| chunk.of.digest.to_string()),
                    offset_bytes: source.chunk.map(|chunk| chunk.offset.0),
                },
            )
            .collect();
    }
    report.attempt = state.attempt.0;
    report.avoid = state.avoid.iter().map(ToString::to_string).collect();
    report.refused_by = state
        .unfit_for
        .iter()
        .map(|(site, words)| (site.to_string(), words.to_string()))
        .collect();
    report.outputs = output_reports(spec, state);
    fill_run(&mut report, &state.run);
    if let Some(restart) = state
        .restart
        .as_ref()
        .filter(|_| matches!(state.run, AttemptState::Idle))
    {
        report.since = Some(Instant(restart.since));
        report.detail = Some(restart_detail(restart.step).into());
    }
    if let Some(detail) = later_start_detail(job, index, state) {
        report.detail = Some(detail);
    }
    Some(report)
}

fn fill_run(report: &mut ComponentReport, run: &AttemptState) {
    report.state = run.as_str().into();
    report.lrm_id = run.lrm_id().map(ToString::to_string);
    match run {
        AttemptState::Idle => {}
        AttemptState::Submitted {
            waits: Some(waits), ..
        } => {
            report.since = Some(Instant(waits.since));
            report.detail = Some(match waits.expected_start {
                Some(at) => {
                    let told = waits
                        .told_at
                        .map(|told| format!("said at {} that it ", Instant(told)));
                    let told = told.unwrap_or_default();
                    format!(
                        "in the queue of its site, which {told}expects to start it at {}",
                        Instant(at)
                    )
                }
                None => "in the queue of its site, which gives no expected start".into(),
            });
        }
        AttemptState::Intended { at } | AttemptState::Submitted { at, .. } => {
            report.since = Some(Instant(*at))
        }
        AttemptState::Uncertain { settled_at, .. } => {
            report.detail = Some(format!(
                "perhaps submitted; known after {}",
                Instant(*settled_at)
            ));
        }
        AttemptState::AtGate { host, since, .. } | AttemptState::Running { host, since, .. } => {
            report.since = Some(Instant(*since));
            report.host = Some(host.to_string());
        }
        AttemptState::Opened { host, at, .. } => {
            report.since = Some(Instant(*at));
            report.host = Some(host.to_string());
        }
        AttemptState::Ended { how, at } => {
            report.since = Some(Instant(*at));
            report.detail = describe_ending(how);
        }
    }
}

/// Says when a component begins that does not begin with the others.
fn later_start_detail(job: &Job, index: ComponentIndex, state: &Component) -> Option<String> {
    let waits = !job.is_final() && (state.is_to_begin_later() || state.restart.is_none());
    if !waits || !job.begins_later(index) || !matches!(state.run, AttemptState::Idle) {
        return None;
    }
    Some(match job.component_start(index) {
        Some(at) => format!("begins at {}, later than the others", Instant(at)),
        None => format!("begins {} after the others", job.spec.offset_of(index)),
    })
}

fn restart_detail(step: RestartStep) -> &'static str {
    match step {
        RestartStep::ToPlace => "restarted alone: waits for a site",
        RestartStep::Staging => "restarted alone: its input is on the way",
        RestartStep::Staged => "restarted alone: waits for its processors",
    }
}

pub(super) fn describe_ending(how: &AttemptEnding) -> Option<String> {
    match how {
        AttemptEnding::Failed(detail)
        | AttemptEnding::NeverRan(detail)
        | AttemptEnding::Lost(detail) => Some(detail.to_string()),
        AttemptEnding::Succeeded | AttemptEnding::Killed | AttemptEnding::Abandoned => None,
    }
}

fn output_reports(spec: &ComponentSpec, state: &Component) -> Vec<OutputReport> {
    spec.outputs
        .iter()
        .enumerate()
        .map(
            |(index, output): (usize, &cospan_domain::job::spec::OutputSpec)| {
                let collected = state.collected.get(index);
                let content = collected.and_then(|collected| collected.content);
                let stays = matches!(output.collect, OutputDestination::Fetch);
                OutputReport {
                    path: output.path.to_string(),
                    digest: content.map(|content| content.digest.to_string()),
                    size_bytes: content.map(|content| content.size.0),
                    collected: !stays && collected.is_some_and(|collected| collected.done),
                    stays,
                }
            },
        )
        .collect()
}

impl From<&SetbackCounts> for SetbacksReport {
    fn from(setbacks: &SetbackCounts) -> Self {
        Self {
            claims: setbacks.claims,
            missed_starts: setbacks.missed_starts,
            preemptions: setbacks.preemptions,
            rounds: setbacks.rounds,
            site_errors: setbacks.site_errors,
            own_errors: setbacks.own_errors,
            inputs: setbacks.inputs,
        }
    }
}

impl From<&JobInstants> for InstantsReport {
    fn from(instants: &JobInstants) -> Self {
        Self {
            first_placed: instants.first_placed.map(Instant),
            placed: instants.placed.map(Instant),
            first_start_estimate: instants.first_start_estimate.map(Instant),
            claimed: instants.claimed.map(Instant),
            started: instants.started.map(Instant),
            total_placement_time_ms: instants.total_placement_time.0,
            wasted_processor_ms: instants.wasted_processor_ms,
            transfer_volume_bytes: instants.transfer_volume.0,
        }
    }
}

impl From<&Job> for JobRow {
    fn from(job: &Job) -> Self {
        let placed = job
            .components
            .iter()
            .filter_map(|c| c.placement.as_ref())
            .map(|p| &p.site);
        let mut sites: Vec<String> = if job.components.is_empty() {
            job.spec
                .components
                .iter()
                .filter_map(|c| c.site.as_ref())
                .map(|s| s.to_string())
                .collect()
        } else {
            placed.map(|site| site.to_string()).collect()
        };
        sites.sort_unstable();
        sites.dedup();
        Self {
            id: job.id.0,
            name: job.spec.name.as_deref().map(str::to_owned),
            owner: job.owner.to_string(),
            state: job.phase.kind().as_str().into(),
            since: Instant(phase_began_at(&job.phase)),
            submitted_at: job.submitted_at.into(),
            priority: job.priority.into(),
            components: job.component_count() as u32,
            processors: job.spec.total_resources().processors.into(),
            sites,
            frozen: job.frozen_by.is_some(),
            held: job.held.is_some(),
            group: job.spec.run.task.as_ref().map(|task| task.group.0),
        }
    }
}
