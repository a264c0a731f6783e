//! Judges what users and operators are told: what is done can be seen at once, and what
//! is left undone there was no need to do.

use cospan_actors::api::View;
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, JobOutcome};
use cospan_domain::job::state::{AfterAbort, Job, Phase, PhaseKind};
use cospan_domain::site::command::Operation;
use cospan_domain::site::state::SiteRecord;
use cospan_domain::units::DurationMs;

use super::scenario::{Scenario, UserAction};

/// What an answer says and is not so; `view` is what could be read right after it.
pub(super) fn untrue(
    action: &UserAction,
    answer: &Result<ApiAnswer, ApiRefusal>,
    scenario: &Scenario,
    view: &View,
) -> Vec<String> {
    match (action, answer) {
        (_, Ok(ApiAnswer::Jobs(outcomes))) => {
            let told = outcomes.iter().filter_map(|(id, outcome)| {
                let job = view.jobs.get(id).map(|job| &**job);
                let holds = match outcome {
                    JobOutcome::Done | JobOutcome::Waits(_) | JobOutcome::Unchanged(_) => {
                        job.is_none_or(|job| is_so(action, job) || job.is_final())
                    }
                    JobOutcome::NotFound => job.is_none(),
                    JobOutcome::Refused(_) => true,
                };
                let text = || {
                    format!(
                        "an answer is wrong: {action:?} came to {outcome:?}, {:?}",
                        job.map(|j| &j.phase)
                    )
                };
                (!holds).then(text)
            });
            told.collect()
        }
        (UserAction::Site(number, order), Ok(_)) => {
            let site = view.sites.get(&scenario.sites[*number].name);
            let untrue = site.filter(|site| !is_ordered(order, site));
            untrue
                .map(|site| format!("an order is done, and not so: {order:?}, {site:?}"))
                .into_iter()
                .collect()
        }
        (UserAction::Reserve(sites, wish), Ok(_)) => {
            let named = sites.iter().filter_map(|site| {
                view.sites.get(&scenario.sites[*site].name)?.shared_named(&wish.name)
            });
            let untrue = (named.count() == 0).then(|| format!("{} is reserved nowhere", wish.name));
            untrue.into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a job is as it was asked to be.
fn is_so(action: &UserAction, job: &Job) -> bool {
    match action {
        UserAction::Cancel(_) | UserAction::Abandon(_) => {
            let aborting =
                matches!(job.phase, Phase::Aborting { then: AfterAbort::Cancel { .. }, .. });
            aborting || job.phase.kind() == PhaseKind::Cancelled
        }
        UserAction::Freeze(_, frozen) => job.frozen_by.is_some() == *frozen,
        // It may have been promoted since.
        UserAction::Raise(_, to) => job.priority >= *to,
        // It may have been sought since, and not found.
        UserAction::Promise(_, wish) => {
            // Without a promise nobody begins later than others.
            let needs_it = job.spec.longest_offset() > DurationMs::ZERO;
            wish.is_some() || needs_it || job.reservation_wish().is_none()
        }
        UserAction::Submit(..)
        | UserAction::Site(..)
        | UserAction::Reserve(..)
        | UserAction::File(..) => true,
    }
}

/// Whether a site is as it was ordered to be.
fn is_ordered(order: &Operation, site: &SiteRecord) -> bool {
    let operator = &site.operator;
    match order {
        Operation::Drain => operator.draining.is_some(),
        Operation::Undrain => operator.draining.is_none(),
        Operation::Freeze => operator.frozen.is_some(),
        Operation::Thaw => operator.frozen.is_none(),
        Operation::SetWindow { from, .. } => operator.windows.iter().any(|w| w.from == *from),
        Operation::RemoveWindow { from } => operator.windows.iter().all(|w| w.from != *from),
        Operation::Force { usable, .. } => {
            operator.forced.as_ref().is_some_and(|forced| forced.usable == *usable)
        }
        Operation::Unforce => operator.forced.is_none(),
        Operation::ResetErrors => site.consecutive_errors == 0,
        Operation::Reserve(wish) => site.shared_named(&wish.name).is_some(),
        Operation::ExtendReservation { name, .. }
        | Operation::AllowReservation { name, .. }
        | Operation::CancelReservation { name } => site.shared_named(name).is_some(),
    }
}
