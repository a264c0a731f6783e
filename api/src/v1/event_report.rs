//! Conversions of a job's events into reports.

use std::collections::BTreeSet;

use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::content::Content;
use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName, SiteName};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{
    AbortCause, AbortConsequence, AttemptEnding, AttemptState, Job,
};
use cospan_domain::reservation::{
    Coallocation, CoallocationPart, ReservationOutcome, ReservationSearchFailure, StartWindow,
};
use cospan_domain::units::Timestamp;

use super::event::EventReport;
use super::explain::RefusedReport;
use super::from_domain::describe_ending;
use super::quantity::Instant;

/// The names of a job's components; without the job they are numbered.
#[derive(Clone, Copy)]
pub struct ComponentNames<'j>(Option<&'j Job>);

impl<'j> ComponentNames<'j> {
    /// Takes the names from this job.
    pub fn of_job(job: &'j Job) -> Self {
        Self(Some(job))
    }

    /// Knows no names.
    pub fn without_job() -> Self {
        Self(None)
    }

    fn known_name(&self, component: ComponentIndex) -> Option<String> {
        self.0.and_then(|job| job.component_name(component))
    }

    fn name_or_number(&self, component: ComponentIndex) -> String {
        self.known_name(component)
            .unwrap_or_else(|| component.to_string())
    }
}

/// Explains in words why a round was aborted.
pub fn describe_abort(cause: &AbortCause, names: &ComponentNames<'_>) -> String {
    match cause {
        AbortCause::ClaimLost { component, detail } => {
            format!(
                "the claim of component {} was lost: {detail}",
                names.name_or_number(*component)
            )
        }
        AbortCause::InputLost { detail } => format!("input did not arrive: {detail}"),
        AbortCause::SiteError { component, detail } => {
            format!(
                "the site failed component {}: {detail}",
                names.name_or_number(*component)
            )
        }
        AbortCause::StartMissed { component } => {
            format!(
                "component {} did not begin in time",
                names.name_or_number(*component)
            )
        }
        AbortCause::Unreachable { component } => {
            format!(
                "the site of component {} stopped answering",
                names.name_or_number(*component)
            )
        }
        AbortCause::Application { component, detail } => {
            format!(
                "component {} failed: {detail}",
                names.name_or_number(*component)
            )
        }
        AbortCause::Cancelled => "a user asked for it".into(),
        AbortCause::Preempted { by } => format!("preempted by job {by}, of a higher class"),
        AbortCause::Barred { component, detail } => {
            format!(
                "the site cannot take component {} now: {detail}",
                names.name_or_number(*component)
            )
        }
        AbortCause::Unfit {
            component, detail, ..
        } => {
            format!(
                "the batch system refuses component {}: {detail}",
                names.name_or_number(*component)
            )
        }
        AbortCause::Drained { site } => format!("site {site} is drained"),
        AbortCause::ReservationChanged { by } => format!("{by} wants another start"),
    }
}

pub(super) fn state_after_abort(then: &AbortConsequence) -> &'static str {
    match then {
        AbortConsequence::Requeue { .. } => "queued",
        AbortConsequence::Fail { .. } => "failed",
        AbortConsequence::Cancel { .. } => "cancelled",
    }
}

impl EventReport {
    /// Creates the event of the submission, with which every history begins.
    pub fn of_submission(job: &Job) -> Self {
        Self {
            at: Some(job.submitted_at.into()),
            event: "JobSubmitted".into(),
            by: Some(job.owner.to_string()),
            ..Self::default()
        }
    }

    fn with_component(mut self, component: ComponentIndex) -> Self {
        self.component = Some(component.0);
        self
    }

    fn with_content(mut self, content: &Content) -> Self {
        self.digest = Some(content.digest.to_string());
        self.size_bytes = Some(content.size.0);
        self
    }

    fn with_until(mut self, at: Timestamp) -> Self {
        self.until = Some(Instant(at));
        self
    }

    fn with_requester(mut self, by: &KeyName) -> Self {
        self.by = Some(by.to_string());
        self
    }

    fn with_detail(mut self, detail: impl ToString) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    fn with_next_state(mut self, then: &AbortConsequence) -> Self {
        self.state = Some(state_after_abort(then).into());
        match then {
            AbortConsequence::Requeue { not_before } => self.with_until(*not_before),
            AbortConsequence::Fail { .. } => self,
            AbortConsequence::Cancel { by } => {
                self.by = Some(by.to_string());
                self
            }
        }
    }
}

impl EventReport {
    /// Converts an event. Components get names as far as these are known.
    pub fn of_event(event: &JobEvent, names: &ComponentNames<'_>) -> Self {
        let mut report = Self {
            at: Some(event.at.into()),
            event: event.what.name().into(),
            ..Self::default()
        };
        match &event.what {
            JobEventKind::JobPlaced {
                round,
                placements,
                start_estimate,
                by,
            } => {
                report.policy = by.as_ref().map(|by| by.policy.to_string());
                report.rule = by.as_ref().map(|by| by.rule.as_str().into());
                let refused = by.as_ref().and_then(|by| by.refused.as_ref());
                report.refused = refused.map(RefusedReport::from);
                report.round = Some(round.0);
                report.sites = placements.iter().map(|p| p.site.to_string()).collect();
                report.with_until(*start_estimate)
            }
            what if what.is_about_reservations() => add_reservation_event(report, what),
            JobEventKind::StartPostponed { start_estimate, .. } => {
                report.with_until(*start_estimate)
            }
            JobEventKind::ClaimMissed { next_claim, detail } => {
                report.with_detail(detail).with_until(*next_claim)
            }
            JobEventKind::ComponentsClaimed {
                components,
                preempting,
            } => with_claim(report, components, preempting, names),
            JobEventKind::GoDecided { start_at, .. } => report.with_until(*start_at),
            JobEventKind::JobRequeued { not_before } => report.with_until(*not_before),
            JobEventKind::RoundAborted { why, then } => report
                .with_detail(describe_abort(why, names))
                .with_next_state(then),
            JobEventKind::AbortRedirected { then } => report.with_next_state(then),
            JobEventKind::PriorityChanged { to, by } => {
                report.priority = Some((*to).into());
                report.by = by.as_ref().map(ToString::to_string);
                report
            }
            JobEventKind::JobFrozen { by }
            | JobEventKind::JobThawed { by }
            | JobEventKind::JobReleased { by }
            | JobEventKind::JobCancelled { by } => {
                report.by = Some(by.to_string());
                report
            }
            JobEventKind::EndTold {
                target,
                problem: None,
            } => report.with_detail(format!("to {target}")),
            JobEventKind::EndTold {
                target,
                problem: Some(problem),
            } => report.with_detail(format!("to {target}: given up: {problem}")),
            JobEventKind::JobHeld { reason } | JobEventKind::JobFailed { reason } => {
                report.with_detail(reason)
            }
            JobEventKind::InputsArrived
            | JobEventKind::AvoidanceLapsed
            | JobEventKind::ClaimBegun
            | JobEventKind::ClaimReturned
            | JobEventKind::JobStarted
            | JobEventKind::PayloadsSucceeded
            | JobEventKind::JobFinished => report,
            of_component => {
                let mut report = add_component_event(report, of_component, names);
                report.name = report
                    .component
                    .and_then(|index| names.known_name(ComponentIndex(index)));
                report
            }
        }
    }
}

/// Adds what happened to the reservation of a job.
fn add_reservation_event(mut report: EventReport, what: &JobEventKind) -> EventReport {
    match what {
        JobEventKind::ReservationSought { wanted, split, .. } => {
            let sites = wanted.parts.iter().flat_map(|part| &part.sites);
            let sites: BTreeSet<String> = sites.map(ToString::to_string).collect();
            report.sites = sites.into_iter().collect();
            match split {
                Some(_) => report.with_detail(format!("divided into {}", describe_parts(wanted))),
                None => report,
            }
        }
        JobEventKind::ReservationAnswered { site, outcome } => {
            report.sites = vec![site.to_string()];
            with_reservation_answer(report, *outcome)
        }
        JobEventKind::ReservationChanged { wish, by } => {
            let report = report.with_requester(by);
            match wish {
                Some(wish) => with_wanted_start(report, *wish),
                None => report.with_detail("the job wants no reservation any more"),
            }
        }
        JobEventKind::ReservationMoveSought { wish, by, .. } => {
            with_wanted_start(report.with_requester(by), *wish)
        }
        JobEventKind::ReservationForwardSought {
            wanted,
            freed,
            anew,
        } => with_rescheduling(report, wanted, freed, anew.is_some()),
        JobEventKind::ReservationMoved => report.with_detail("the old reservations are cancelled"),
        JobEventKind::ReservationStayed { failure, next } => {
            let report = report.with_detail(format!(
                "{}; the old reservations stay",
                describe_failure(*failure)
            ));
            next.iter()
                .fold(report, |report, next| report.with_until(*next))
        }
        JobEventKind::StartAnnounced => report.with_detail("it starts soon, as reserved"),
        JobEventKind::NoticeTold {
            target, problem, ..
        } => match problem {
            None => report.with_detail(format!("of its reserved start: to {target}")),
            Some(problem) => {
                report.with_detail(format!("of its reserved start: not to {target}: {problem}"))
            }
        },
        JobEventKind::ReservationWithheld { site, most, next } => {
            report.sites = vec![site.to_string()];
            let report = report.with_detail(format!(
                "not asked: its user may hold at most {most} processors there in reservations at a \
                 time (reservations.most_share)"
            ));
            next.iter()
                .fold(report, |report, next| report.with_until(*next))
        }
        JobEventKind::UnreservedChosen { claimed } => {
            report.components = claimed.iter().map(|one| one.component.0).collect();
            report.sites = claimed
                .iter()
                .map(|one| one.placement.site.to_string())
                .collect();
            report
                .with_detail("no site that grants reservations could hold it: claimed at the start")
        }
        JobEventKind::ReservationForgone { failure, next } => {
            let why = describe_failure(*failure);
            let report = report.with_detail(format!("{why}; its processors are claimed as before"));
            next.iter()
                .fold(report, |report, next| report.with_until(*next))
        }
        _ => report,
    }
}

/// Describes a rescheduling to an earlier start or fewer sites: what made it possible, and which
/// start is looked for.
fn with_rescheduling(
    mut report: EventReport,
    wanted: &Coallocation,
    freed: &[SiteName],
    anew: bool,
) -> EventReport {
    report.sites = freed.iter().map(ToString::to_string).collect();
    if anew {
        let divided = describe_parts(wanted);
        return report
            .with_detail(format!(
                "more is free: it would be complete earlier if divided into {divided}"
            ))
            .with_until(wanted.window.earliest);
    }
    let sites: BTreeSet<&SiteName> = wanted
        .parts
        .iter()
        .filter_map(|p| p.sites.first())
        .collect();
    let sites: Vec<&str> = sites.into_iter().map(SiteName::as_str).collect();
    let sites = sites.join(", ");
    report
        .with_detail(format!(
            "more is free: Cospan looks for earlier reservations, at {sites}"
        ))
        .with_until(wanted.window.earliest)
}

/// Lists the parts of a flexible job, in their order.
fn describe_parts(wanted: &Coallocation) -> String {
    let mut parts: Vec<_> = wanted.parts.iter().collect();
    parts.sort_by_key(|part| part.component);
    parts
        .iter()
        .map(|part: &&CoallocationPart| {
            let site = part.sites.first().map(SiteName::as_str).unwrap_or_default();
            format!("{} processors at {site}", part.resources.processors)
        })
        .collect::<Vec<_>>()
        .join(" and ")
}

fn with_wanted_start(report: EventReport, wish: ReservationTerms) -> EventReport {
    let StartWindow { earliest, latest } = wish.window;
    let latest = Instant(latest);
    report
        .with_detail(format!("the latest wanted start is {latest}"))
        .with_until(earliest)
}

/// Explains why there is no reservation.
fn describe_failure(failure: ReservationSearchFailure) -> &'static str {
    match failure {
        ReservationSearchFailure::Never => "no site will ever grant it",
        ReservationSearchFailure::NoCommonStart => "its sites grant no start then",
        ReservationSearchFailure::WindowsTried => {
            "no common start was found in as many windows as are tried"
        }
        ReservationSearchFailure::LostAtTheEnd => {
            "a granted reservation was gone before all were granted"
        }
        ReservationSearchFailure::GivenUp => "it was given up",
    }
}

fn with_reservation_answer(report: EventReport, outcome: ReservationOutcome) -> EventReport {
    match outcome {
        ReservationOutcome::Granted { start } => report.with_detail("granted").with_until(start),
        ReservationOutcome::Done => report.with_detail("done"),
        ReservationOutcome::Refused { next } => with_reservation_refusal(report, "refused", next),
        ReservationOutcome::Lost { next } => {
            with_reservation_refusal(report, "the reservation no longer exists", next)
        }
    }
}

fn with_reservation_refusal(
    report: EventReport,
    detail: &str,
    next: Option<Timestamp>,
) -> EventReport {
    match next {
        Some(next) => report
            .with_detail(format!("{detail}; perhaps later"))
            .with_until(next),
        None => report.with_detail(detail),
    }
}

fn with_claim(
    mut report: EventReport,
    components: &[ComponentIndex],
    preempting: &[JobId],
    names: &ComponentNames<'_>,
) -> EventReport {
    let claimed: Vec<String> = components
        .iter()
        .map(|component| names.name_or_number(*component))
        .collect();
    let claimed = claimed.join(", ");
    report.components = components.iter().map(|component| component.0).collect();
    match preempting {
        [] => report.with_detail(format!("components {claimed}")),
        jobs => {
            let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
            let jobs = jobs.join(", ");
            report.with_detail(format!("components {claimed}; preempting jobs {jobs}"))
        }
    }
}

fn with_ending(mut report: EventReport, attempt: Attempt, how: &AttemptEnding) -> EventReport {
    report.attempt = Some(attempt.0);
    let ended = AttemptState::Ended {
        how: how.clone(),
        at: Timestamp(0),
    };
    report.state = Some(ended.as_str().into());
    report.detail = describe_ending(how);
    report
}

fn add_component_event(
    mut report: EventReport,
    what: &JobEventKind,
    names: &ComponentNames<'_>,
) -> EventReport {
    match what {
        JobEventKind::ComponentMoved {
            component,
            placement,
        } => {
            report.sites = vec![placement.site.to_string()];
            report.with_component(*component)
        }
        JobEventKind::ComponentFailed {
            component,
            why,
            next_claim,
        } => report
            .with_component(*component)
            .with_detail(describe_abort(why, names))
            .with_until(*next_claim),
        JobEventKind::AttemptRenewed { component }
        | JobEventKind::ClaimGivenBack { component }
        | JobEventKind::AttemptSeen { component }
        | JobEventKind::ReadinessDoubted { component }
        | JobEventKind::GateOpened { component }
        | JobEventKind::ComponentBegan { component, .. }
        | JobEventKind::ComponentAvoidanceLapsed { component }
        | JobEventKind::SiteAvoided { component }
        | JobEventKind::ChargeRecorded { component }
        | JobEventKind::OutputsSeen { component } => report.with_component(*component),
        JobEventKind::FoundUnfit { component, detail } => {
            report.with_detail(detail).with_component(*component)
        }
        JobEventKind::AttemptSubmitted { component, lrm_id } => {
            report.lrm_id = Some(lrm_id.to_string());
            report.with_component(*component)
        }
        JobEventKind::StartDeferred {
            component,
            not_before,
        } => report.with_component(*component).with_until(*not_before),
        JobEventKind::WaitingAtSite {
            component,
            expected_start,
        } => {
            report.until = expected_start.map(Instant);
            report.with_component(*component)
        }
        JobEventKind::SubmissionUncertain {
            component,
            settled_at,
        } => report.with_component(*component).with_until(*settled_at),
        JobEventKind::AttemptAbsent {
            component, look_at, ..
        } => report.with_component(*component).with_until(*look_at),
        JobEventKind::ComponentReady {
            component, host, ..
        } => {
            report.host = Some(host.to_string());
            report.with_component(*component)
        }
        JobEventKind::AttemptEnded {
            component,
            attempt,
            how,
        } => with_ending(report, *attempt, how).with_component(*component),
        JobEventKind::SiteCharged { component, charge } => {
            report.attempt = Some(charge.attempt.0);
            report.sites = vec![charge.site.to_string()];
            report
                .with_component(*component)
                .with_detail(&charge.detail)
        }
        JobEventKind::OutputFound {
            component,
            output,
            content,
        } => {
            report.output = Some(*output);
            report.with_component(*component).with_content(content)
        }
        JobEventKind::OutputCollected { component, output } => {
            report.output = Some(*output);
            report.with_component(*component)
        }
        // The other events concern the job as a whole; the caller shows them.
        _ => report,
    }
}
