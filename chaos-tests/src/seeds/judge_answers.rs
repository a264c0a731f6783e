//! Judges the answers to users and operators: what is reported as done can be seen at once, and
//! what is left undone did not need to be done.

use cospan_actors::api::CommittedView;
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, JobCommandOutcome};
use cospan_domain::job::job_state::{AbortConsequence, Job, JobPhase, PhaseKind};
use cospan_domain::site::site_command::OperatorCommand;
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::units::{DurationMs, Timestamp};

use super::seed_scenario::{SeedScenario, UserAction};

/// Lists what an answer states falsely; `view` is what could be read right after it, `asked_at` the
/// time of the question, by the clock of the control plane.
pub(super) fn false_statements(
    action: &UserAction,
    answer: &Result<ApiAnswer, ApiRefusal>,
    scenario: &SeedScenario,
    view: &CommittedView,
    asked_at: Timestamp,
) -> Vec<String> {
    match (action, answer) {
        (_, Ok(ApiAnswer::Jobs(outcomes))) => {
            let told = outcomes.iter().filter_map(|(id, outcome)| {
                let job = view.jobs.get(id).map(|job| &**job);
                let holds = match outcome {
                    JobCommandOutcome::Done
                    | JobCommandOutcome::Waits(_)
                    | JobCommandOutcome::Unchanged(_) => {
                        job.is_none_or(|job| is_applied(action, job) || job.is_final())
                    }
                    JobCommandOutcome::NotFound => job.is_none(),
                    JobCommandOutcome::Refused(_) => true,
                };
                (!holds).then(|| {
                    format!(
                        "an answer is wrong: {action:?} came to {outcome:?}, {:?}",
                        job.map(|j| &j.phase)
                    )
                })
            });
            told.collect()
        }
        (UserAction::Site(number, order), Ok(_)) => {
            let site = view.sites.get(&scenario.sites[*number].name);
            let untrue = site.filter(|site| !is_site_as_commanded(order, site, asked_at));
            untrue
                .map(|site| format!("an order is done, and not so: {order:?}, {site:?}"))
                .into_iter()
                .collect()
        }
        (UserAction::Reserve(sites, wish), Ok(_)) => {
            let named = sites.iter().filter_map(|site| {
                view.sites
                    .get(&scenario.sites[*site].name)?
                    .shared_reservation_named(&wish.name)
            });
            let untrue = (named.count() == 0).then(|| format!("{} is reserved nowhere", wish.name));
            untrue.into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if a job is as the action wanted it.
fn is_applied(action: &UserAction, job: &Job) -> bool {
    match action {
        UserAction::Cancel(_) | UserAction::Abandon(_) => {
            let aborting = matches!(
                job.phase,
                JobPhase::Aborting {
                    then: AbortConsequence::Cancel { .. },
                    ..
                }
            );
            aborting || job.phase.kind() == PhaseKind::Cancelled
        }
        UserAction::Freeze(_, frozen) => job.frozen_by.is_some() == *frozen,
        // It may have been promoted since.
        UserAction::Raise(_, to) => job.priority >= *to,
        // It may have been searched for since, and not found.
        UserAction::Promise(_, wish) => {
            // Without a reservation nobody begins later than others.
            let needs_it = job.spec.longest_offset() > DurationMs::ZERO;
            wish.is_some() || needs_it || job.reservation_terms().is_none()
        }
        UserAction::Submit(..)
        | UserAction::Site(..)
        | UserAction::Reserve(..)
        | UserAction::File(..) => true,
    }
}

/// Returns true if a site is as the operator wanted it.
fn is_site_as_commanded(order: &OperatorCommand, site: &SiteRecord, asked_at: Timestamp) -> bool {
    let operator = &site.operator;
    match order {
        OperatorCommand::Drain => operator.draining.is_some(),
        OperatorCommand::Undrain => operator.draining.is_none(),
        OperatorCommand::Freeze => operator.frozen.is_some(),
        OperatorCommand::Thaw => operator.frozen.is_none(),
        OperatorCommand::SetWindow { from, .. } => operator.windows.iter().any(|w| w.from == *from),
        OperatorCommand::RemoveWindow { from } => operator.windows.iter().all(|w| w.from != *from),
        OperatorCommand::Force { usable, .. } => operator
            .forced
            .as_ref()
            .is_some_and(|forced| forced.usable == *usable),
        OperatorCommand::Unforce => operator.forced.is_none(),
        OperatorCommand::ResetErrors => is_reset(site, asked_at),
        OperatorCommand::Reserve(wish) => site.shared_reservation_named(&wish.name).is_some(),
        OperatorCommand::ExtendReservation { name, .. }
        | OperatorCommand::AllowReservation { name, .. }
        | OperatorCommand::CancelReservation { name } => {
            site.shared_reservation_named(name).is_some()
        }
    }
}

/// Returns true if errors were reset when that was asked for. Everything that comes in while a
/// change is written is decided together, and can be read at once: errors that came after the
/// command count again.
fn is_reset(site: &SiteRecord, asked_at: Timestamp) -> bool {
    let reset_at = site.operator.reset.as_ref().map(|order| order.at);
    let counted = site
        .recent_errors
        .iter()
        .rev()
        .take(site.consecutive_errors as usize);
    let oldest = counted.map(|error| error.at).min();
    reset_at.is_some_and(|at| at >= asked_at && oldest.is_none_or(|oldest| oldest >= at))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName, SiteName};
    use cospan_domain::machine::StateMachine;
    use cospan_domain::site::SiteMachine;
    use cospan_domain::site::failure::FailureClass;
    use cospan_domain::site::site_command::SiteCommand;
    use cospan_domain::site::site_parameters::SiteParameters;
    use cospan_domain::site::site_state::{AttemptId, Breaker};
    use cospan_domain::units::PerMillion;

    use super::*;

    fn decided(site: SiteRecord, command: SiteCommand, at: Timestamp) -> SiteRecord {
        let parameters = SiteParameters::default();
        let events = SiteMachine::decide(&site, &parameters, command, at).unwrap();
        let mut site = site;
        events
            .iter()
            .for_each(|event| SiteMachine::evolve(&mut site, event));
        site
    }

    fn error(job: u64) -> SiteCommand {
        let component = ComponentIndex(0);
        let attempt = Attempt(1);
        SiteCommand::RecordError {
            attempt: AttemptId {
                job: JobId(job),
                component,
                attempt,
            },
            owner: None,
            class: FailureClass::Site,
            detail: Arc::from("it is not served"),
            isolated: false,
            jitter: PerMillion(0),
        }
    }

    fn reset() -> SiteCommand {
        let by = KeyName::new("alice").unwrap();
        SiteCommand::Operate {
            by,
            what: OperatorCommand::ResetErrors,
        }
    }

    #[test]
    fn an_error_that_is_told_with_a_reset_and_after_it_counts_again() {
        let earlier = Timestamp(1_000);
        let asked_at = Timestamp(2_000);
        let site = SiteRecord::new(SiteName::new("leiden").unwrap());
        let counted = (1..=3).fold(site, |site, job| decided(site, error(job), earlier));
        assert!(matches!(counted.breaker, Breaker::Open { .. }));
        let site = decided(counted.clone(), reset(), asked_at);
        let site = decided(site, error(5), asked_at);
        assert_eq!(site.consecutive_errors, 1);
        assert!(is_site_as_commanded(
            &OperatorCommand::ResetErrors,
            &site,
            asked_at
        ));
        assert!(
            !is_site_as_commanded(&OperatorCommand::ResetErrors, &counted, asked_at),
            "nobody carried it out"
        );
        let kept = SiteRecord {
            operator: site.operator.clone(),
            ..counted
        };
        assert!(
            !is_site_as_commanded(&OperatorCommand::ResetErrors, &kept, asked_at),
            "what was before still counts"
        );
        let later = asked_at + DurationMs(1);
        assert!(
            !is_site_as_commanded(&OperatorCommand::ResetErrors, &site, later),
            "that was an earlier order"
        );
        let none = decided(site, reset(), later);
        assert!(is_site_as_commanded(
            &OperatorCommand::ResetErrors,
            &none,
            later
        ));
    }
}
