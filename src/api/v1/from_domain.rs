//! How the domain's state is shown.

use cospan_domain::ids::{ComponentIndex, JobId};
use cospan_domain::job::event::{Happened, JobEvent};
use cospan_domain::job::spec::{ComponentSpec, Content};
use cospan_domain::job::state::{
    AbortCause, AfterAbort, Component, Ending, Instants, Job, Phase, RestartStep, Run, Setbacks,
};
use cospan_domain::placement::PlacedBy;
use cospan_domain::units::Timestamp;

use super::event::EventReport;
use super::explain::RefusedReport;
use super::job::{
    ComponentReport, InstantsReport, JobReport, JobRow, OutputReport, PhaseReport, PlacedReport,
    SetbacksReport, SourceReport,
};
use super::quantity::Instant;
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
            phase: (&job.phase).into(),
            frozen_by: job.frozen_by.as_ref().map(ToString::to_string),
            held: job.held.as_deref().map(str::to_owned),
            round: job.round.0,
            placed: job.placed_by.as_ref().filter(|_| job.is_placed()).map(PlacedReport::from),
            sweep: job.spec.run.task.as_ref().map(TaskReport::from),
            inputs_here: job.inputs_here,
            start_at: job.start_at.map(Instant),
            components: components.filter_map(|index| component(job, index)).collect(),
            setbacks: (&job.setbacks).into(),
            instants: (&job.instants).into(),
            accounting: job.into(),
            revision: job.revision,
            document: (&*job.spec).into(),
        }
    }
}

impl From<&PlacedBy> for PlacedReport {
    fn from(by: &PlacedBy) -> Self {
        Self {
            policy: by.policy.to_string(),
            rule: by.rule.as_str().into(),
            refused: by.refused.as_ref().map(RefusedReport::from),
        }
    }
}

impl From<&Phase> for PhaseReport {
    fn from(phase: &Phase) -> Self {
        let mut report = Self {
            state: phase.kind().as_str().into(),
            since: Instant(since(phase)),
            not_before: None,
            start_estimate: None,
            reason: None,
            next: None,
            by: None,
        };
        match phase {
            Phase::Queued { not_before, .. } => report.not_before = Some(Instant(*not_before)),
            Phase::Placed { start_estimate, .. } => {
                report.start_estimate = Some(Instant(*start_estimate));
            }
            Phase::Aborting { why, then, .. } => {
                report.reason = Some(abort_cause(why));
                report.next = Some(state_after(then).into());
            }
            Phase::Failed { reason, .. } => report.reason = Some(reason.to_string()),
            Phase::Cancelled { by, .. } => report.by = Some(by.to_string()),
            Phase::Claiming { .. }
            | Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Collecting { .. }
            | Phase::Finished { .. } => {}
        }
        report
    }
}

fn since(phase: &Phase) -> Timestamp {
    match phase {
        Phase::Queued { since, .. }
        | Phase::Claiming { since }
        | Phase::Starting { since, .. }
        | Phase::Running { since }
        | Phase::Collecting { since }
        | Phase::Aborting { since, .. } => *since,
        Phase::Placed { at, .. }
        | Phase::Finished { at }
        | Phase::Failed { at, .. }
        | Phase::Cancelled { at, .. } => *at,
    }
}

pub(crate) fn abort_cause(cause: &AbortCause) -> String {
    match cause {
        AbortCause::ClaimLost { component, detail } => {
            format!("the claim of component {component} was lost: {detail}")
        }
        AbortCause::InputLost { detail } => format!("input did not arrive: {detail}"),
        AbortCause::SiteError { component, detail } => {
            format!("the site failed component {component}: {detail}")
        }
        AbortCause::StartMissed { component } => {
            format!("component {component} did not begin in time")
        }
        AbortCause::Unreachable { component } => {
            format!("the site of component {component} stopped answering")
        }
        AbortCause::Application { component, detail } => {
            format!("component {component} failed: {detail}")
        }
        AbortCause::Cancelled => "a user asked for it".into(),
        AbortCause::Preempted { by } => format!("preempted by job {by}, of a higher class"),
        AbortCause::Drained { site } => format!("site {site} is drained"),
    }
}

fn state_after(then: &AfterAbort) -> &'static str {
    match then {
        AfterAbort::Requeue { .. } => "queued",
        AfterAbort::Fail { .. } => "failed",
        AfterAbort::Cancel { .. } => "cancelled",
    }
}

fn component(job: &Job, index: ComponentIndex) -> Option<ComponentReport> {
    let (spec, state) = (job.spec_of(index)?, job.components.get(index.0 as usize));
    let mut report = ComponentReport {
        name: job.name_of(index)?,
        processors: job.processors_of(index),
        site: spec.site.as_ref().map(ToString::to_string),
        attempt: 0,
        state: Run::Idle.as_str().into(),
        since: None,
        detail: None,
        host: None,
        lrm_id: None,
        transfer_time_ms: None,
        sources: Vec::new(),
        avoid: Vec::new(),
        outputs: Vec::new(),
    };
    let Some(state) = state else { return Some(report) };
    if let Some(placement) = &state.placement {
        report.site = Some(placement.site.to_string());
        report.transfer_time_ms = Some(placement.transfer_time.0);
        let source = |source: &cospan_domain::job::state::Source| SourceReport {
            digest: source.content.digest.to_string(),
            size_bytes: source.content.size.0,
            from: source.from.to_string(),
            chunk_of: source.chunk.map(|chunk| chunk.of.digest.to_string()),
            offset_bytes: source.chunk.map(|chunk| chunk.offset.0),
        };
        report.sources = placement.sources.iter().map(source).collect();
    }
    report.attempt = state.attempt.0;
    report.avoid = state.avoid.iter().map(ToString::to_string).collect();
    report.outputs = outputs(spec, state);
    show_run(&mut report, &state.run);
    if let Some(restart) = state.restart.as_ref().filter(|_| matches!(state.run, Run::Idle)) {
        report.since = Some(Instant(restart.since));
        report.detail = Some(restart_detail(restart.step).into());
    }
    Some(report)
}

fn show_run(report: &mut ComponentReport, run: &Run) {
    report.state = run.as_str().into();
    report.lrm_id = run.lrm_id().map(ToString::to_string);
    match run {
        Run::Idle => {}
        Run::Intended { at } | Run::Submitted { at, .. } => report.since = Some(Instant(*at)),
        Run::Uncertain { settled_at, .. } => {
            report.detail =
                Some(format!("perhaps submitted; known after {}", Instant(*settled_at)));
        }
        Run::AtGate { host, since, .. } | Run::Running { host, since, .. } => {
            report.since = Some(Instant(*since));
            report.host = Some(host.to_string());
        }
        Run::Opened { host, at, .. } => {
            report.since = Some(Instant(*at));
            report.host = Some(host.to_string());
        }
        Run::Ended { how, at } => {
            report.since = Some(Instant(*at));
            report.detail = ending_detail(how);
        }
    }
}

fn restart_detail(step: RestartStep) -> &'static str {
    match step {
        RestartStep::ToPlace => "restarted alone: waits for a site",
        RestartStep::Staging => "restarted alone: its input is on the way",
        RestartStep::Staged => "restarted alone: waits for its processors",
    }
}

fn ending_detail(how: &Ending) -> Option<String> {
    match how {
        Ending::Failed(detail) | Ending::NeverRan(detail) | Ending::Lost(detail) => {
            Some(detail.to_string())
        }
        Ending::Succeeded | Ending::Killed | Ending::Abandoned => None,
    }
}

fn outputs(spec: &ComponentSpec, state: &Component) -> Vec<OutputReport> {
    let shown = |(index, output): (usize, &cospan_domain::job::spec::Output)| {
        let collected = state.collected.get(index);
        let content = collected.and_then(|collected| collected.content);
        OutputReport {
            path: output.path.to_string(),
            digest: content.map(|content| content.digest.to_string()),
            size_bytes: content.map(|content| content.size.0),
            collected: collected.is_some_and(|collected| collected.done),
        }
    };
    spec.outputs.iter().enumerate().map(shown).collect()
}

impl From<&Setbacks> for SetbacksReport {
    fn from(setbacks: &Setbacks) -> Self {
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

impl From<&Instants> for InstantsReport {
    fn from(instants: &Instants) -> Self {
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
        let placed = job.components.iter().filter_map(|c| c.placement.as_ref()).map(|p| &p.site);
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
            since: Instant(since(&job.phase)),
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

impl EventReport {
    /// The submission itself, with which every history begins.
    pub fn submitted(job: &Job) -> Self {
        Self {
            at: Some(job.submitted_at.into()),
            event: "JobSubmitted".into(),
            by: Some(job.owner.to_string()),
            ..Self::default()
        }
    }

    fn about(mut self, component: ComponentIndex) -> Self {
        self.component = Some(component.0);
        self
    }

    fn with_content(mut self, content: &Content) -> Self {
        self.digest = Some(content.digest.to_string());
        self.size_bytes = Some(content.size.0);
        self
    }

    fn until(mut self, at: Timestamp) -> Self {
        self.until = Some(Instant(at));
        self
    }

    fn detail(mut self, detail: impl ToString) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    fn followed_by(mut self, then: &AfterAbort) -> Self {
        self.state = Some(state_after(then).into());
        match then {
            AfterAbort::Requeue { not_before } => self.until(*not_before),
            AfterAbort::Fail { .. } => self,
            AfterAbort::Cancel { by } => {
                self.by = Some(by.to_string());
                self
            }
        }
    }
}

impl From<&JobEvent> for EventReport {
    fn from(event: &JobEvent) -> Self {
        let mut report =
            Self { at: Some(event.at.into()), event: event.what.name().into(), ..Self::default() };
        match &event.what {
            Happened::JobPlaced { round, placements, start_estimate, by } => {
                report.policy = by.as_ref().map(|by| by.policy.to_string());
                report.rule = by.as_ref().map(|by| by.rule.as_str().into());
                let refused = by.as_ref().and_then(|by| by.refused.as_ref());
                report.refused = refused.map(RefusedReport::from);
                report.round = Some(round.0);
                report.sites = placements.iter().map(|p| p.site.to_string()).collect();
                report.until(*start_estimate)
            }
            Happened::StartPostponed { start_estimate, .. } => report.until(*start_estimate),
            Happened::ClaimMissed { next_claim, detail } => {
                report.detail(detail).until(*next_claim)
            }
            Happened::ComponentsClaimed { components, preempting } => {
                claimed(report, components, preempting)
            }
            Happened::GoDecided { start_at } => report.until(*start_at),
            Happened::JobRequeued { not_before } => report.until(*not_before),
            Happened::RoundAborted { why, then } => {
                report.detail(abort_cause(why)).followed_by(then)
            }
            Happened::AbortRedirected { then } => report.followed_by(then),
            Happened::PriorityChanged { to, by } => {
                report.priority = Some((*to).into());
                report.by = by.as_ref().map(ToString::to_string);
                report
            }
            Happened::JobFrozen { by }
            | Happened::JobThawed { by }
            | Happened::JobReleased { by }
            | Happened::JobCancelled { by } => {
                report.by = Some(by.to_string());
                report
            }
            Happened::EndTold { target, problem: None } => report.detail(format!("to {target}")),
            Happened::EndTold { target, problem: Some(problem) } => {
                report.detail(format!("to {target}: given up: {problem}"))
            }
            Happened::JobHeld { reason } | Happened::JobFailed { reason } => report.detail(reason),
            Happened::InputsArrived
            | Happened::AvoidanceLapsed
            | Happened::ClaimBegun
            | Happened::ClaimReturned
            | Happened::JobStarted
            | Happened::PayloadsSucceeded
            | Happened::JobFinished => report,
            of_component => of_a_component(report, of_component),
        }
    }
}

fn claimed(
    report: EventReport,
    components: &[ComponentIndex],
    preempting: &[JobId],
) -> EventReport {
    let list = |numbers: Vec<String>| numbers.join(", ");
    let claimed = list(components.iter().map(ToString::to_string).collect());
    match preempting {
        [] => report.detail(format!("components {claimed}")),
        jobs => {
            let jobs = list(jobs.iter().map(ToString::to_string).collect());
            report.detail(format!("components {claimed}; preempting jobs {jobs}"))
        }
    }
}

fn of_a_component(mut report: EventReport, what: &Happened) -> EventReport {
    match what {
        Happened::ComponentMoved { component, placement } => {
            report.sites = vec![placement.site.to_string()];
            report.about(*component)
        }
        Happened::ComponentFailed { component, why, next_claim } => {
            report.about(*component).detail(abort_cause(why)).until(*next_claim)
        }
        Happened::AttemptRenewed { component }
        | Happened::ClaimGivenBack { component }
        | Happened::AttemptSeen { component }
        | Happened::GateOpened { component }
        | Happened::ComponentBegan { component }
        | Happened::ComponentAvoidanceLapsed { component }
        | Happened::SiteAvoided { component }
        | Happened::ChargeRecorded { component } => report.about(*component),
        Happened::AttemptSubmitted { component, lrm_id } => {
            report.lrm_id = Some(lrm_id.to_string());
            report.about(*component)
        }
        Happened::SubmissionUncertain { component, settled_at } => {
            report.about(*component).until(*settled_at)
        }
        Happened::AttemptAbsent { component, look_at, .. } => {
            report.about(*component).until(*look_at)
        }
        Happened::ComponentReady { component, host } => {
            report.host = Some(host.to_string());
            report.about(*component)
        }
        Happened::AttemptEnded { component, attempt, how } => {
            report.attempt = Some(attempt.0);
            report.state = Some(Run::Ended { how: how.clone(), at: Timestamp(0) }.as_str().into());
            report.detail = ending_detail(how);
            report.about(*component)
        }
        Happened::SiteCharged { component, charge } => {
            report.attempt = Some(charge.attempt.0);
            report.sites = vec![charge.site.to_string()];
            report.about(*component).detail(&charge.detail)
        }
        Happened::OutputFound { component, output, content } => {
            report.output = Some(*output);
            report.about(*component).with_content(content)
        }
        Happened::OutputCollected { component, output } => {
            report.output = Some(*output);
            report.about(*component)
        }
        // The others concern the job as a whole and are shown by the caller.
        _ => report,
    }
}
