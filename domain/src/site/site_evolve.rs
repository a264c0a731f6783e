//! The effect of an event on a site's record.

use std::collections::VecDeque;

use crate::ids::KeyName;
use crate::site::barred_owners_record;
use crate::site::shared_reservation;
use crate::site::site_event::{SiteEvent, SiteEventKind};
use crate::site::site_state::{
    AttemptId, Breaker, CommandOrigin, ForcedState, MAX_OWED, MaintenanceWindow, OperatorSettings,
    RECENT_ERRORS, REMEMBERED, SiteErrorRecord, SiteNotification, SiteRecord,
};
use crate::units::Timestamp;

/// Applies an event. Total: an event in the journal is never refused.
pub fn evolve(record: &mut SiteRecord, event: &SiteEvent) {
    let at = event.at;
    match &event.what {
        SiteEventKind::ErrorCharged {
            attempt,
            class,
            detail,
            owner,
        } => {
            record.accused = record.sole_erring_owner(owner.as_ref());
            let attempt = *attempt;
            let class = *class;
            let detail = detail.clone();
            count_error(
                record,
                SiteErrorRecord {
                    attempt,
                    class,
                    at,
                    detail,
                },
            );
        }
        SiteEventKind::ErrorExcused { attempt } => remember_attempt(record, *attempt),
        SiteEventKind::SuccessCounted { attempt } => {
            forget_errors(record);
            remember_attempt(record, *attempt);
        }
        SiteEventKind::BreakerOpened { probe_at, trips } => {
            // From here on each job may move the count once more.
            if record.breaker == Breaker::Closed {
                record.erring_jobs.clear();
            }
            record.breaker = Breaker::Open {
                since: at,
                probe_at: *probe_at,
                trips: *trips,
            };
            // The breaker was decided without it.
            record.own_probe = None;
        }
        SiteEventKind::ProbeStarted { probe } => add_probe(&mut record.breaker, *probe, at),
        SiteEventKind::ProbeEnded { probe, allowed, .. } => {
            remove_probe(&mut record.breaker, *probe, *allowed);
        }
        SiteEventKind::BreakerClosed => {
            record.breaker = Breaker::Closed;
            forget_errors(record);
        }
        SiteEventKind::ErrorsReset { by } => {
            record.breaker = Breaker::Closed;
            forget_errors(record);
            record.own_probe = None;
            record.kept_off.clear();
            record.operator.reset = Some(command_origin(by, at));
        }
        what @ (SiteEventKind::OwnProbeWanted { .. }
        | SiteEventKind::OwnProbeEnded { .. }
        | SiteEventKind::OwnerKeptOff { .. }) => {
            barred_owners_record::evolve_owners(record, what, at)
        }
        SiteEventKind::NotificationOwed(notification) => push_notification(record, notification),
        SiteEventKind::NotificationSent { id } => record.owed.retain(|owed| owed.id != *id),
        what @ (SiteEventKind::DrainOrdered { .. }
        | SiteEventKind::DrainLifted { .. }
        | SiteEventKind::FreezeOrdered { .. }
        | SiteEventKind::FreezeLifted { .. }
        | SiteEventKind::WindowSet { .. }
        | SiteEventKind::WindowRemoved { .. }
        | SiteEventKind::VerdictForced { .. }
        | SiteEventKind::VerdictReleased { .. }) => apply_operation(&mut record.operator, what, at),
        what @ (SiteEventKind::SharedWanted { .. }
        | SiteEventKind::SharedExtensionWanted { .. }
        | SiteEventKind::SharedCancelled { .. }
        | SiteEventKind::SharedAnswered { .. }
        | SiteEventKind::SharedUsed { .. }
        | SiteEventKind::SharedUnused { .. }
        | SiteEventKind::SharedLost { .. }
        | SiteEventKind::SharedAllowed { .. }
        | SiteEventKind::SharedSettled { .. }
        | SiteEventKind::SharedLeft { .. }
        | SiteEventKind::SharedChanged { .. }) => {
            shared_reservation::evolve_shared(record, what, at)
        }
    }
}

/// Applies the command of an operator.
fn apply_operation(operator: &mut OperatorSettings, what: &SiteEventKind, at: Timestamp) {
    match what {
        SiteEventKind::DrainOrdered { by } => operator.draining = Some(command_origin(by, at)),
        SiteEventKind::DrainLifted { .. } => operator.draining = None,
        SiteEventKind::FreezeOrdered { by } => operator.frozen = Some(command_origin(by, at)),
        SiteEventKind::FreezeLifted { .. } => operator.frozen = None,
        SiteEventKind::WindowSet {
            from,
            until,
            reason,
            by,
        } => {
            let by = by.clone();
            let reason = reason.clone();
            let window = MaintenanceWindow {
                from: *from,
                until: *until,
                by,
                reason,
            };
            set_window(&mut operator.windows, window, at);
        }
        SiteEventKind::WindowRemoved { from, .. } => {
            operator.windows.retain(|window| window.from != *from);
        }
        SiteEventKind::VerdictForced { usable, until, by } => {
            operator.forced = Some(ForcedState {
                usable: *usable,
                until: *until,
                by: by.clone(),
            });
        }
        SiteEventKind::VerdictReleased { .. } => operator.forced = None,
        _ => {}
    }
}

/// Counts an error. The count ignores further errors of its job.
fn count_error(record: &mut SiteRecord, error: SiteErrorRecord) {
    record.consecutive_errors = record.consecutive_errors.saturating_add(1);
    remember_attempt(record, error.attempt);
    if !record.has_counted_error_of(error.attempt.job) {
        push_bounded(&mut record.erring_jobs, error.attempt.job, REMEMBERED);
    }
    push_bounded(&mut record.recent_errors, error, RECENT_ERRORS);
}

fn remove_probe(breaker: &mut Breaker, probe: AttemptId, next: u32) {
    if let Breaker::HalfOpen {
        allowed, running, ..
    } = breaker
    {
        running.remove(&probe);
        *allowed = next;
    }
}

pub(super) fn forget_errors(record: &mut SiteRecord) {
    record.consecutive_errors = 0;
    record.erring_jobs.clear();
    record.accused = None;
    record.reopened_by = None;
}

fn command_origin(by: &KeyName, at: Timestamp) -> CommandOrigin {
    CommandOrigin { by: by.clone(), at }
}

/// Sets a window, and drops those that are over.
fn set_window(windows: &mut Vec<MaintenanceWindow>, window: MaintenanceWindow, at: Timestamp) {
    windows.retain(|other| at < other.until && other.from != window.from);
    windows.push(window);
    windows.sort_by_key(|window| window.from);
}

fn add_probe(breaker: &mut Breaker, probe: AttemptId, at: Timestamp) {
    match breaker {
        Breaker::Closed => {}
        Breaker::HalfOpen { running, .. } => {
            running.insert(probe);
        }
        Breaker::Open { trips, .. } => {
            *breaker = Breaker::HalfOpen {
                since: at,
                allowed: 1,
                running: [probe].into(),
                trips: *trips,
            };
        }
    }
}

fn remember_attempt(record: &mut SiteRecord, attempt: AttemptId) {
    if !record.has_counted_attempt(attempt) {
        push_bounded(&mut record.counted, attempt, REMEMBERED);
    }
}

/// Adds a notification that is owed. The newest wins: one that was not sent in time is pushed out,
/// and counted.
fn push_notification(record: &mut SiteRecord, notification: &SiteNotification) {
    record.last_notification = record.last_notification.max(notification.id);
    let dropped = push_bounded(&mut record.owed, notification.clone(), MAX_OWED);
    record.notifications_dropped = record.notifications_dropped.saturating_add(dropped);
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, max: usize) -> u64 {
    queue.push_back(item);
    let surplus = queue.len().saturating_sub(max);
    queue.drain(..surplus);
    surplus as u64
}
