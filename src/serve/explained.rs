//! Why a job is where it is, as the API shows it.

use cospan_actors::coallocator::{Estimate, Explanation, Wait};
use cospan_domain::ids::{ComponentIndex, Digest, SiteName};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::job::state::{Component, Job, Phase};
use cospan_domain::queue::{Condition, Standing};
use cospan_domain::units::{Bytes, DurationMs, Timestamp};

use crate::api::v1::Instant;
use crate::api::v1::explain::{
    CostReport, EstimateReport, ExpectedTransferReport, ExplainReport, RefusedReport,
    TransferReport, WithheldReport,
};
use crate::api::v1::from_domain::abort_cause;
use crate::serve::verdicts;

/// How far a copy of some content has come on its way to a site.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CopyProgress {
    /// It is there, whole and checked.
    pub(super) here: bool,
    /// Bytes that are there.
    pub(super) done: Bytes,
    /// When it is expected to be whole.
    pub(super) expected: Option<Timestamp>,
}

/// The report on one job; `copies` knows how far a copy is, `hold` is how long a component
/// waits for the others at most.
pub(super) fn report(
    job: &Job,
    explanation: &Explanation,
    standing: Option<&Standing>,
    hold: DurationMs,
    copies: impl Fn(Digest, &SiteName) -> CopyProgress,
) -> ExplainReport {
    let waits = explanation.wait == Wait::Placement;
    let placed_by = job.placed_by.as_ref().filter(|_| job.is_placed());
    ExplainReport {
        job: job.id.0,
        summary: summary(job, explanation, standing),
        policy: Some(placed_by.map_or(&explanation.policy, |by| &by.policy).to_string()),
        rule: placed_by.map(|by| by.rule.as_str().into()),
        refused: placed_by.and_then(|by| by.refused.as_ref()).map(RefusedReport::from),
        position: standing.map(|standing| standing.ahead as u64 + 1),
        estimate: estimate(explanation),
        estimate_unknown: unknown(explanation),
        cost: if waits { cost(explanation, &job.spec, hold) } else { None },
        verdicts: verdicts::of_job(job, explanation),
        withheld: withheld(explanation).filter(|_| waits),
        transfers: transfers(job, copies),
    }
}

fn withheld(explanation: &Explanation) -> Option<WithheldReport> {
    let hoard = explanation.hoard.as_ref()?;
    let processors = hoard.withheld.iter().map(|(site, count)| (site.to_string(), *count));
    Some(WithheldReport {
        job: hoard.job.0,
        until: Instant(hoard.until),
        processors: processors.collect(),
    })
}

/// The input of the present round, while not all of it is where it belongs.
fn transfers(job: &Job, copies: impl Fn(Digest, &SiteName) -> CopyProgress) -> Vec<TransferReport> {
    if job.inputs_here || !matches!(job.phase, Phase::Placed { .. } | Phase::Claiming { .. }) {
        return Vec::new();
    }
    let copies = &copies;
    let of_component = |(index, component): (ComponentIndex, &Component)| {
        let placement = component.placement.clone()?;
        let name = name(job, index)?;
        Some(placement.sources.into_iter().map(move |source| {
            let content = source.content;
            let copy = copies(content.digest, &placement.site);
            TransferReport {
                component: name.clone(),
                site: placement.site.to_string(),
                from: source.from.to_string(),
                digest: content.digest.to_string(),
                done_bytes: if copy.here { content.size.0 } else { copy.done.0 },
                size_bytes: content.size.0,
                expected_at: copy.expected.map(Instant),
                here: copy.here,
            }
        }))
    };
    job.indexed().filter_map(of_component).flatten().collect()
}

/// The report on a job that is not submitted.
pub(super) fn preview(
    explanation: &Explanation,
    spec: &JobSpec,
    hold: DurationMs,
) -> ExplainReport {
    ExplainReport {
        job: 0,
        summary: placement(explanation, None),
        policy: Some(explanation.policy.to_string()),
        rule: None,
        refused: None,
        position: None,
        estimate: estimate(explanation),
        estimate_unknown: unknown(explanation),
        cost: cost(explanation, spec, hold),
        verdicts: verdicts::of_preview(explanation),
        withheld: withheld(explanation),
        transfers: Vec::new(),
    }
}

fn estimate(explanation: &Explanation) -> Option<EstimateReport> {
    match &explanation.estimate {
        Estimate::Within { from, until, basis } => Some(EstimateReport {
            from: (*from).into(),
            until: (*until).into(),
            basis: basis.clone(),
        }),
        Estimate::Unknown(_) | Estimate::None => None,
    }
}

fn unknown(explanation: &Explanation) -> Option<String> {
    match &explanation.estimate {
        Estimate::Unknown(reason) => Some(reason.clone()),
        Estimate::Within { .. } | Estimate::None => None,
    }
}

/// What the plan would cost, if there is one.
fn cost(explanation: &Explanation, spec: &JobSpec, hold: DurationMs) -> Option<CostReport> {
    let plan = explanation.decision.as_ref().ok()?;
    let transfers = explanation.transfers.iter().map(|transfer| {
        let measured = transfer.link.as_ref().and_then(|link| link.measured);
        let component = explanation.components.get(transfer.component.0 as usize);
        ExpectedTransferReport {
            component: component.cloned().unwrap_or_default(),
            site: transfer.to.to_string(),
            from: transfer.source.from.to_string(),
            digest: transfer.source.content.digest.to_string(),
            bytes: transfer.source.content.size.0,
            time_ms: transfer.time.0,
            bandwidth_bps: transfer.link.as_ref().map(|link| link.bandwidth.0),
            measured_at: measured.map(|measured| measured.at.into()),
        }
    });
    let moved = explanation.transfers.iter().filter(|transfer| transfer.source.from != transfer.to);
    let processors = u64::from(spec.total_resources().processors);
    let held = |length: DurationMs| processors.saturating_mul(length.0);
    Some(CostReport {
        transfers: transfers.collect(),
        moved_bytes: moved.map(|transfer| transfer.source.content.size.0).sum(),
        transfer_ms: plan.transfer_time.0,
        held_processor_ms: held(plan.transfer_time + hold + spec.wall_time),
        run_processor_ms: held(spec.wall_time),
    })
}

fn name(job: &Job, index: ComponentIndex) -> Option<String> {
    job.name_of(index)
}

fn summary(job: &Job, explanation: &Explanation, standing: Option<&Standing>) -> String {
    match &explanation.wait {
        Wait::Ended => format!("it is {}", job.phase.kind().as_str()),
        Wait::Held(reason) => format!("it is held: {reason}"),
        Wait::Frozen => "it is frozen; `cospan thaw` lets it be placed".into(),
        Wait::Turn(limit) => {
            format!("it waits for its turn: at most {limit} run(s) of its sweep at once")
        }
        Wait::Phase => {
            let mut summary = phase(job, explanation.next_claim);
            for site in verdicts::removed(job, explanation) {
                summary.push_str(&format!("; site {site} is no longer in the configuration"));
            }
            if let Some(silence) = explanation.silence.told(job) {
                summary.push_str(&format!("; {silence}"));
            }
            summary
        }
        Wait::NotSubmitted | Wait::Placement => placement(explanation, standing),
    }
}

fn placement(explanation: &Explanation, standing: Option<&Standing>) -> String {
    if let Some(Condition::BackedOff(until)) = standing.map(|standing| standing.condition) {
        let until = Instant(until);
        return format!("it backs off after a setback and is tried again at {until}");
    }
    match &explanation.decision {
        Ok(plan) => format!(
            "it can be placed now, on {} site(s), with input there in {}",
            plan.sites_combined(),
            plan.transfer_time
        ),
        Err(refusal) => format!("it cannot be placed now: {refusal}"),
    }
}

fn phase(job: &Job, next_claim: Option<Timestamp>) -> String {
    let next = next_claim.map(|at| format!("; processors are claimed next at {}", Instant(at)));
    let next = next.unwrap_or_default();
    let waiting = |run: &str| {
        let names: Vec<String> = job
            .indexed()
            .filter(|(_, component)| component.run.as_str() == run)
            .filter_map(|(index, _)| name(job, index))
            .collect();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    };
    match &job.phase {
        Phase::Placed { .. } if job.inputs_here => {
            format!("it is placed, its input is there{next}")
        }
        Phase::Placed { .. } => format!("it is placed; its input is on the way{next}"),
        Phase::Claiming { .. } if job.inputs_here => format!(
            "processors are being claimed; at the gate: {}; submitted: {}; not yet: {}{next}",
            waiting("at-gate"),
            waiting("submitted"),
            waiting("idle")
        ),
        Phase::Claiming { .. } => format!("processors are claimed; its input is on the way{next}"),
        Phase::Starting { .. } => "its start is decided; gates are being opened".into(),
        Phase::Running { .. } => {
            let restarted: Vec<_> = job.restarting().filter_map(|index| name(job, index)).collect();
            let running = waiting("running");
            match restarted.as_slice() {
                [] => format!("it runs: {running}"),
                names => format!("it runs: {running}; restarted alone: {}{next}", names.join(", ")),
            }
        }
        Phase::Collecting { .. } => "it succeeded; its outputs are brought to their sites".into(),
        Phase::Aborting { why, .. } => {
            format!("its round is being given up: {}", abort_cause(why))
        }
        Phase::Queued { .. }
        | Phase::Finished { .. }
        | Phase::Failed { .. }
        | Phase::Cancelled { .. } => format!("it is {}", job.phase.kind().as_str()),
    }
}
