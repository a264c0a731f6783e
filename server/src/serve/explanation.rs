//! The reasons why a job is where it is, as the API shows them.

use std::sync::Arc;

use cospan_actors::coallocator::{JobExplanation, StartEstimate, WaitCause};
use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentIndex, Digest, SiteName};
use cospan_domain::job::job_state::{AbortCause, AbortConsequence, Component, Job, JobPhase};
use cospan_domain::job::spec::{JobSpec, OutputDestination};
use cospan_domain::placement::MissingLink;
use cospan_domain::queue::{QueueStanding, WaitingCondition};
use cospan_domain::units::{Bytes, DurationMs, Timestamp};

use crate::http::control_plane_port::ExplanationPage;
use crate::serve::verdict_report::VerdictPage;
use crate::serve::{reservation_text, site_queue_text, verdict_report};
use cospan_api::v1::Instant;
use cospan_api::v1::event_report::{ComponentNames, describe_abort};
use cospan_api::v1::explain::{
    BidReport, ClassReport, CostReport, EstimateReport, ExpectedTransferReport, ExplainReport,
    RefusedReport, TransferReport, WithheldReport,
};
use cospan_api::v1::ranking::RankingReport;

/// The progress of a copy of some content on its way to a site.
#[derive(Debug, Clone, Default)]
pub(super) struct CopyProgress {
    /// True if the copy is ready: whole and checked.
    pub(super) here: bool,
    /// Bytes that have arrived.
    pub(super) done: Bytes,
    /// Time at which it is expected to be whole.
    pub(super) expected: Option<Timestamp>,
    /// The error of the latest try.
    pub(super) problem: Option<Arc<str>>,
}

/// Facts for a report on a job, beside its explanation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExplainContext<'a> {
    /// Position in its queue.
    pub(super) standing: Option<&'a QueueStanding>,
    /// Longest time that a component waits for the others.
    pub(super) hold: DurationMs,
}

/// The report on some components of a job; `copies` gives the progress of a copy.
pub(super) fn job_report(
    job: &Job,
    explanation: &JobExplanation,
    ExplainContext { standing, hold }: ExplainContext<'_>,
    page: ExplanationPage,
    copies: impl Fn(Digest, &SiteName) -> CopyProgress,
) -> ExplainReport {
    let waits = explanation.wait == WaitCause::Placement;
    let verdicts = verdict_report::of_job(job, explanation, page);
    let is_first = page.after == 0;
    let placed_by = job.placed_by.as_ref().filter(|_| job.is_placed());
    ExplainReport {
        job: job.id.0,
        revision: Some(job.revision),
        summary: summarize(job, explanation, standing),
        priority: None,
        policy: Some(
            placed_by
                .map_or(&explanation.policy, |by| &by.policy)
                .to_string(),
        ),
        rule: placed_by.map(|by| by.rule.as_str().into()),
        refused: placed_by
            .and_then(|by| by.refused.as_ref())
            .map(RefusedReport::from),
        position: standing.map(|standing| standing.ahead as u64 + 1),
        estimate: estimate_report(explanation),
        estimate_unknown: describe_unknown(explanation),
        cost: if waits {
            cost_report(explanation, &job.spec, hold, &verdicts)
        } else {
            None
        },
        bids: if is_first {
            bid_reports(explanation)
        } else {
            Vec::new()
        },
        bids_by: basis_of_bids(explanation, job.is_placed()).filter(|_| is_first),
        ranking: RankingReport::of(job, |component| verdicts.covers_component(component)),
        withheld: withheld_report(explanation).filter(|_| waits),
        transfers: transfer_reports(
            job,
            |component| verdicts.covers_component(component),
            copies,
        ),
        last_words: Vec::new(),
        next: verdicts.next_page(),
        groups: verdicts.groups,
        verdicts: verdicts.shown,
    }
}

fn bid_reports(explanation: &JobExplanation) -> Vec<BidReport> {
    explanation.bids.iter().map(BidReport::from).collect()
}

/// The basis of the bids: those of a placed job are not those that decided.
fn basis_of_bids(explanation: &JobExplanation, is_placed: bool) -> Option<String> {
    if explanation.bids.is_empty() {
        return None;
    }
    let bandwidths = format!("bandwidths {}", explanation.bid_kind.as_str());
    Some(if is_placed {
        format!(
            "sites as they are now, without what the job itself holds; how they were when it was \
             placed is not kept; {bandwidths}"
        )
    } else {
        format!("sites as they are now; {bandwidths}")
    })
}

fn withheld_report(explanation: &JobExplanation) -> Option<WithheldReport> {
    let guard = explanation.starvation_guard.as_ref()?;
    let processors = guard
        .withheld
        .iter()
        .map(|(site, count)| (site.to_string(), *count));
    Some(WithheldReport {
        job: guard.job.0,
        until: Instant(guard.until),
        processors: processors.collect(),
    })
}

/// Content on its way to or from a component of a job.
struct PendingTransfer {
    component: ComponentIndex,
    content: Content,
    from: SiteName,
    to: SiteName,
}

/// Input of the present round that has not arrived yet; and then the outputs that have not arrived
/// yet.
fn content_on_its_way(job: &Job) -> Vec<PendingTransfer> {
    match job.phase {
        JobPhase::Placed { .. } | JobPhase::Claiming { .. } if !job.inputs_here => {
            missing_inputs(job)
        }
        JobPhase::Collecting { .. } => missing_outputs(job),
        _ => Vec::new(),
    }
}

fn missing_inputs(job: &Job) -> Vec<PendingTransfer> {
    let mut inputs = Vec::new();
    for (component, state) in job.indexed_components() {
        let Some(placement) = &state.placement else {
            continue;
        };
        inputs.extend(placement.sources.iter().map(|source| PendingTransfer {
            component,
            content: source.content,
            from: source.from.clone(),
            to: placement.site.clone(),
        }));
    }
    inputs
}

fn missing_outputs(job: &Job) -> Vec<PendingTransfer> {
    let mut outputs = Vec::new();
    for (component, state, spec) in job.components_with_specs() {
        let Some(placement) = &state.placement else {
            continue;
        };
        for (collected, output) in state.collected.iter().zip(&spec.outputs) {
            if let (OutputDestination::ToSite { site, .. }, Some(content), false) =
                (&output.collect, collected.content, collected.done)
            {
                let from = placement.site.clone();
                let to = site.clone();
                outputs.push(PendingTransfer {
                    component,
                    content,
                    from,
                    to,
                });
            }
        }
    }
    outputs
}

fn transfer_reports(
    job: &Job,
    is_told_of: impl Fn(ComponentIndex) -> bool,
    copies: impl Fn(Digest, &SiteName) -> CopyProgress,
) -> Vec<TransferReport> {
    let ways = content_on_its_way(job)
        .into_iter()
        .filter(|way| is_told_of(way.component));
    ways.filter_map(|way: PendingTransfer| {
        let copy = copies(way.content.digest, &way.to);
        Some(TransferReport {
            component: component_name(job, way.component)?,
            site: way.to.to_string(),
            from: way.from.to_string(),
            digest: way.content.digest.to_string(),
            done_bytes: if copy.here {
                way.content.size.0
            } else {
                copy.done.0
            },
            size_bytes: way.content.size.0,
            expected_at: copy.expected.map(Instant),
            here: copy.here,
            problem: copy
                .problem
                .filter(|_| !copy.here)
                .map(|problem| problem.to_string()),
        })
    })
    .collect()
}

/// The report on a job that is not submitted.
pub(super) fn preview_report(
    explanation: &JobExplanation,
    spec: &JobSpec,
    hold: DurationMs,
    page: ExplanationPage,
) -> ExplainReport {
    let verdicts = verdict_report::of_preview(explanation, page);
    ExplainReport {
        job: 0,
        revision: None,
        summary: describe_placement(explanation, None),
        priority: explanation.class.map(ClassReport::from),
        policy: Some(explanation.policy.to_string()),
        rule: explanation
            .decision
            .as_ref()
            .ok()
            .map(|plan| plan.rule.as_str().into()),
        refused: None,
        position: None,
        estimate: estimate_report(explanation),
        estimate_unknown: describe_unknown(explanation),
        cost: cost_report(explanation, spec, hold, &verdicts),
        bids: if page.limit > 0 {
            bid_reports(explanation)
        } else {
            Vec::new()
        },
        bids_by: basis_of_bids(explanation, false),
        ranking: Vec::new(),
        withheld: withheld_report(explanation),
        transfers: Vec::new(),
        last_words: Vec::new(),
        next: verdicts.next_page(),
        groups: verdicts.groups,
        verdicts: verdicts.shown,
    }
}

fn estimate_report(explanation: &JobExplanation) -> Option<EstimateReport> {
    match &explanation.estimate {
        StartEstimate::Within {
            from,
            expected,
            until,
            basis,
        } => Some(EstimateReport {
            from: (*from).into(),
            expected: Some((*expected).into()),
            until: (*until).into(),
            basis: basis.clone(),
        }),
        StartEstimate::Unknown(_) | StartEstimate::None => None,
    }
}

fn describe_unknown(explanation: &JobExplanation) -> Option<String> {
    match &explanation.estimate {
        StartEstimate::Unknown(reason) => Some(reason.clone()),
        StartEstimate::Within { .. } | StartEstimate::None => None,
    }
}

/// The cost of the plan, if there is one; in total, with the transfers of the components in the
/// report.
fn cost_report(
    explanation: &JobExplanation,
    spec: &JobSpec,
    hold: DurationMs,
    told: &VerdictPage,
) -> Option<CostReport> {
    let plan = explanation.decision.as_ref().ok()?;
    let transfers = explanation.transfers.iter();
    let transfers = transfers
        .filter(|transfer| told.covers_component(transfer.component))
        .map(|transfer| {
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
    let moved = explanation
        .transfers
        .iter()
        .filter(|transfer| transfer.source.from != transfer.to);
    let processors = u64::from(spec.total_resources().processors);
    let held = plan.transfer_time + hold + spec.wall_time;
    Some(CostReport {
        transfers: transfers.collect(),
        moved_bytes: moved.map(|transfer| transfer.source.content.size.0).sum(),
        transfer_ms: plan.transfer_time.0,
        held_processor_ms: processors.saturating_mul(held.0),
        run_processor_ms: processors.saturating_mul(spec.wall_time.0),
    })
}

fn component_name(job: &Job, index: ComponentIndex) -> Option<String> {
    job.component_name(index)
}

fn summarize(job: &Job, explanation: &JobExplanation, standing: Option<&QueueStanding>) -> String {
    match &explanation.wait {
        WaitCause::Ended => describe_end(&job.phase),
        WaitCause::Held(reason) => format!("it is held: {reason}"),
        WaitCause::Frozen => "it is frozen; `cospan thaw` lets it be placed".into(),
        WaitCause::Turn(limit) => {
            format!("it waits for its turn: at most {limit} run(s) of its sweep at once")
        }
        WaitCause::Phase => {
            let promised = reservation_text::describe_reservation_wait(job);
            let mut summary =
                promised.unwrap_or_else(|| describe_phase(job, explanation.next_claim));
            for site in verdict_report::unknown_sites(job, explanation) {
                summary.push_str(&format!("; site {site} is no longer in the configuration"));
            }
            if let Some(silence) = explanation.silence.warning(job) {
                summary.push_str(&format!("; {silence}"));
            }
            summary
        }
        WaitCause::Placement => {
            reservation_text::describe_reservation_wait(job).unwrap_or_else(|| {
                let summary = describe_placement(explanation, standing);
                reservation_text::describe_next_step(job)
                    .map_or(summary.clone(), |needed| format!("{summary}; {needed}"))
            })
        }
        WaitCause::NotSubmitted => describe_placement(explanation, standing),
    }
}

fn describe_placement(explanation: &JobExplanation, standing: Option<&QueueStanding>) -> String {
    if let Some(WaitingCondition::BackedOff(until)) = standing.map(|standing| standing.condition) {
        let until = Instant(until);
        return format!("it waits after a setback; the next try is at {until}");
    }
    match &explanation.decision {
        Ok(plan) => {
            let queued = plan
                .placements
                .iter()
                .any(|placement| placement.acquisition.waits_in_site_queue());
            format!(
                "it can be placed now, on {} site(s){}, with input there in {}",
                plan.count_sites(),
                if queued {
                    " to wait in their queues"
                } else {
                    ""
                },
                plan.transfer_time
            )
        }
        Err(refusal) => match &explanation.missing_link {
            Some(missing) => {
                format!(
                    "it cannot be placed: {}",
                    describe_missing_link(missing, &explanation.components)
                )
            }
            None => {
                format!(
                    "it cannot be placed now: {}",
                    refusal.describe_with_names(&explanation.components)
                )
            }
        },
    }
}

/// Names the missing link, and the remedy.
pub(super) fn describe_missing_link(missing: &MissingLink, names: &[String]) -> String {
    let MissingLink {
        component,
        from,
        to,
    } = missing;
    let name = names.get(component.0 as usize).cloned();
    let name = name.unwrap_or_else(|| component.to_string());
    format!(
        "the input of component {name} is at {from}, and no link brings it to {to}; configure a \
         [[link]] from {from} to {to}, or register the file at {to} too"
    )
}

/// Start of a component that did not start with the others.
fn describe_later_start(job: &Job, index: ComponentIndex) -> Option<String> {
    let name = component_name(job, index)?;
    let at = Instant(job.component_start(index)?);
    Some(format!("; {name} begins at {at}, as reserved"))
}

/// Of very many names only this many are listed.
const MOST_NAMES: usize = 50;

/// Lists names, with the number of those left out.
fn list_some_names(names: &[String]) -> String {
    match names.len() {
        0 => "none".into(),
        count if count > MOST_NAMES => {
            format!(
                "{} and {} more",
                names[..MOST_NAMES].join(", "),
                count - MOST_NAMES
            )
        }
        _ => names.join(", "),
    }
}

fn describe_phase(job: &Job, next_claim: Option<Timestamp>) -> String {
    let next = next_claim.map(|at| format!("; processors are claimed next at {}", Instant(at)));
    let next = next.unwrap_or_default();
    match &job.phase {
        JobPhase::Placed { .. } if job.inputs_here => {
            format!("it is placed, its input is there{next}")
        }
        JobPhase::Placed { .. } => format!("it is placed; its input is on the way{next}"),
        JobPhase::Claiming { .. } if site_queue_text::describe_site_queues(job).is_some() => {
            site_queue_text::describe_site_queues(job).unwrap_or_default()
        }
        JobPhase::Claiming { .. } if job.inputs_here => format!(
            "processors are being claimed; at the gate: {}; submitted: {}; not yet: {}{next}",
            list_components(job, "at-gate"),
            list_components(job, "submitted"),
            list_components(job, "idle")
        ),
        JobPhase::Claiming { .. } => {
            format!("processors are claimed; its input is on the way{next}")
        }
        JobPhase::Starting { .. } => "its start is decided; gates are being opened".into(),
        JobPhase::Running { .. } => {
            let (later, restarted): (Vec<_>, Vec<_>) =
                job.restarting_components()
                    .partition(|index: &ComponentIndex| {
                        job.components
                            .get(index.0 as usize)
                            .is_some_and(Component::is_to_begin_later)
                    });
            let restarted: Vec<_> = restarted
                .into_iter()
                .filter_map(|i| component_name(job, i))
                .collect();
            let later = later.into_iter().take(MOST_NAMES);
            let later: String = later.filter_map(|i| describe_later_start(job, i)).collect();
            let running = list_components(job, "running");
            match restarted.as_slice() {
                [] if later.is_empty() => format!("it runs: {running}"),
                [] => format!("it runs: {running}{later}{next}"),
                names => {
                    format!(
                        "it runs: {running}{later}; restarted alone: {}{next}",
                        list_some_names(names)
                    )
                }
            }
        }
        JobPhase::Collecting { .. } => {
            "it succeeded; its outputs are brought to their sites".into()
        }
        JobPhase::Aborting {
            why: AbortCause::Cancelled,
            ..
        } => "it is being cancelled; what still runs is being ended".into(),
        JobPhase::Aborting { why, then, .. } => {
            let why = describe_abort(why, &ComponentNames::of_job(job));
            format!(
                "its round is being aborted: {why}; {}",
                describe_aftermath(then)
            )
        }
        JobPhase::Queued { .. }
        | JobPhase::Finished { .. }
        | JobPhase::Failed { .. }
        | JobPhase::Cancelled { .. } => describe_end(&job.phase),
    }
}

fn list_components(job: &Job, run: &str) -> String {
    let names: Vec<String> = job
        .indexed_components()
        .filter(|(_, component)| component.run.as_str() == run)
        .filter_map(|(index, _)| component_name(job, index))
        .collect();
    list_some_names(&names)
}

/// The state, with the reason or the user if it ended badly.
fn describe_end(phase: &JobPhase) -> String {
    let state = phase.kind().as_str();
    match phase {
        JobPhase::Failed { reason, .. } => format!("it is {state}: {reason}"),
        JobPhase::Cancelled { by, .. } => format!("it is {state}, by {by}"),
        _ => format!("it is {state}"),
    }
}

fn describe_aftermath(then: &AbortConsequence) -> String {
    match then {
        AbortConsequence::Requeue { not_before } => {
            format!(
                "then it is placed anew, not before {}",
                Instant(*not_before)
            )
        }
        AbortConsequence::Fail { reason } => format!("then it fails: {reason}"),
        AbortConsequence::Cancel { by } => format!("then it is cancelled, as {by} asked"),
    }
}

#[cfg(test)]
#[path = "explanation_tests.rs"]
mod tests;
