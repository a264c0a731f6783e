//! Judges every change of a site's record: the breaker takes only steps of its automaton,
//! which have a cause, and lets in no more probes than it may.

use std::collections::BTreeSet;

use cospan_domain::ids::JobId;
use cospan_domain::site::site_parameters::SiteParameters;
use cospan_domain::site::site_state::{Breaker, SiteErrorRecord, SiteRecord, count_probing_jobs};
use cospan_domain::units::{DurationMs, Timestamp};

/// By then everybody goes by what is on the disk.
pub(super) const KNOWN_WITHIN: DurationMs = DurationMs(60_000);

/// Returns what must not be about a change of a site's record; nothing, if all is well.
pub(super) fn broken_rule(
    old: &SiteRecord,
    new: &SiteRecord,
    parameters: &SiteParameters,
) -> Option<String> {
    // A command of an operator is no step of the automaton.
    if old.operator != new.operator || new.operator.forced.is_some() {
        return None;
    }
    let threshold = parameters.site_error_threshold;
    let charged = new.consecutive_errors > old.consecutive_errors;
    let holds = match (&old.breaker, &new.breaker) {
        (Breaker::Closed, Breaker::Closed) => {
            // Errors of one owner open nothing before a probe of our own has ended.
            let is_below = new.consecutive_errors < threshold;
            let waits = is_one_owners(new, parameters) && is_dealt_with(new);
            (is_below || waits) && are_of_different_jobs(new)
        }
        (Breaker::Closed, Breaker::Open { trips, .. }) => {
            let errors = new.consecutive_errors;
            let added = errors_added(old, new);
            // A success may have come between the changes that were written at once, or last.
            let until_success = old.consecutive_errors + added.saturating_sub(errors);
            let reached = (charged && errors >= threshold)
                || (errors < old.consecutive_errors + added && until_success >= threshold);
            let probed = old.own_probe.is_some() && old.consecutive_errors >= threshold;
            let failed = probed && new.own_probe.is_none() && is_failed_probe(old, new);
            let may = failed || (reached && !is_one_owners(new, parameters));
            may && *trips == 1 && (threshold == 1 || count_erring_jobs(new) >= 2)
        }
        (
            Breaker::Open { .. },
            Breaker::HalfOpen {
                running, allowed, ..
            },
        ) => *allowed == 1 && count_probing_jobs(running) == 1,
        (Breaker::Open { trips, .. }, Breaker::Open { trips: still, .. }) => trips == still,
        (Breaker::HalfOpen { trips, running, .. }, Breaker::Open { trips: now, .. }) => {
            // The last of the changes that were written at once was a success, or came after one.
            let ended_well = new.consecutive_errors < errors_added(old, new);
            let again = running
                .iter()
                .any(|probe| is_repeated_error(old, new, probe.job))
                || (old.reopened_by.is_some() && old.reopened_by == new.reopened_by);
            (charged || ended_well) && (*now == trips.saturating_add(1) || again && now == trips)
        }
        (Breaker::HalfOpen { .. }, Breaker::Closed) => {
            // After the last probe others may have failed.
            let since = new.consecutive_errors;
            since < threshold && since <= errors_added(old, new)
        }
        (
            Breaker::HalfOpen { .. },
            Breaker::HalfOpen {
                allowed, running, ..
            },
        ) => count_probing_jobs(running) <= *allowed && *allowed <= parameters.probe_limit,
        (Breaker::Closed, Breaker::HalfOpen { .. }) | (Breaker::Open { .. }, Breaker::Closed) => {
            false
        }
    };
    let holds = holds && is_notified(old, new);
    (!holds).then(|| {
        let before = old.consecutive_errors;
        let after = new.consecutive_errors;
        let from = &old.breaker;
        let to = &new.breaker;
        format!(
            "{}: {from:?} ({before} errors) led to {to:?} ({after} errors)",
            new.site
        )
    })
}

/// Returns true if all errors in the count are known to be one owner's, and are several.
fn is_one_owners(site: &SiteRecord, parameters: &SiteParameters) -> bool {
    let looks = parameters.site_error_threshold > 1 && parameters.tells_owners_apart;
    looks && site.accused.is_some()
}

/// Returns true if a probe of our own finds out whose fault it is, or has, and that owner stays
/// away.
fn is_dealt_with(site: &SiteRecord) -> bool {
    let accused = site.accused.as_ref();
    site.own_probe
        .iter()
        .any(|probe| accused == Some(&probe.owner))
        || site
            .kept_off
            .iter()
            .any(|kept_off| accused == Some(&kept_off.owner))
}

/// Returns true if a probe of our own failed: one that succeeds sets the count to zero, as does a
/// success in the same write.
fn is_failed_probe(old: &SiteRecord, new: &SiteRecord) -> bool {
    let mut counted = new
        .counted
        .iter()
        .filter(|attempt| !old.has_counted_attempt(**attempt));
    new.consecutive_errors >= old.consecutive_errors
        || counted.any(|attempt| {
            !new.recent_errors
                .iter()
                .any(|error| error.attempt == *attempt)
        })
}

/// Returns the number of errors that the later record has and the earlier one does not.
fn errors_added(old: &SiteRecord, new: &SiteRecord) -> u32 {
    let added = new
        .recent_errors
        .iter()
        .filter(|error| !old.recent_errors.contains(error));
    u32::try_from(added.count()).unwrap_or(u32::MAX)
}

/// Returns true if the errors in the count are each of another job, as far as they are known.
fn are_of_different_jobs(site: &SiteRecord) -> bool {
    let counted = site
        .recent_errors
        .iter()
        .rev()
        .take(site.consecutive_errors as usize);
    let mut jobs = BTreeSet::new();
    counted
        .map(|error| error.attempt.job)
        .all(|job| jobs.insert(job))
}

/// Counts the jobs of the latest errors.
fn count_erring_jobs(site: &SiteRecord) -> usize {
    site.recent_errors
        .iter()
        .map(|error| error.attempt.job)
        .collect::<BTreeSet<_>>()
        .len()
}

/// Returns true if a job that errs now had moved the breaker before, or twice in the same write.
fn is_repeated_error(old: &SiteRecord, new: &SiteRecord, job: JobId) -> bool {
    let added = new
        .recent_errors
        .iter()
        .filter(|error| !old.recent_errors.contains(error));
    old.has_counted_error_of(job)
        || added
            .filter(|error: &&SiteErrorRecord| error.attempt.job == job)
            .count()
            > 1
}

/// Returns true if administrators get a message when it becomes unusable, stays so, or is usable
/// again.
fn is_notified(old: &SiteRecord, new: &SiteRecord) -> bool {
    let turned = matches!(
        (&old.breaker, &new.breaker),
        (
            Breaker::Closed | Breaker::HalfOpen { .. },
            Breaker::Open { .. }
        ) | (Breaker::HalfOpen { .. }, Breaker::Closed)
    );
    !turned || new.last_notification > old.last_notification
}

/// Returns true if a site takes no component of any job at this time.
pub(super) fn keeps_away(site: &SiteRecord, at: Timestamp) -> bool {
    let operator = &site.operator;
    if operator.draining.is_some() || operator.frozen.is_some() {
        return true;
    }
    if operator
        .windows
        .iter()
        .any(|window| (window.from..window.until).contains(&at))
    {
        return true;
    }
    match (&operator.forced, &site.breaker) {
        (Some(forced), _) if at < forced.until => !forced.usable,
        (_, Breaker::Open { probe_at, .. }) => at < *probe_at,
        (_, Breaker::Closed | Breaker::HalfOpen { .. }) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cospan_domain::ids::{Attempt, ComponentIndex, KeyName, SiteName};
    use cospan_domain::site::barred_owners_record::{BarredOwner, OwnProbe};
    use cospan_domain::site::failure::FailureClass;
    use cospan_domain::site::site_state::{AttemptId, SiteNotificationId};

    use super::*;

    fn attempt(job: u64) -> AttemptId {
        AttemptId {
            job: JobId(job),
            component: ComponentIndex(0),
            attempt: Attempt(1),
        }
    }

    fn error(job: u64) -> SiteErrorRecord {
        let detail = Arc::from("connection refused");
        SiteErrorRecord {
            attempt: attempt(job),
            class: FailureClass::Site,
            at: Timestamp(1),
            detail,
        }
    }

    /// From closed to open in one write, with so many errors before and after, of which so many
    /// are new.
    fn tripped(before: u32, after: u32, new_errors: u64) -> Option<String> {
        let parameters = SiteParameters::default();
        let mut old = SiteRecord::new(SiteName::new("delft").unwrap());
        let mut new = old.clone();
        let probe_at = Timestamp(parameters.probe_interval.0);
        new.breaker = Breaker::Open {
            since: Timestamp(0),
            probe_at,
            trips: 1,
        };
        old.consecutive_errors = before;
        new.consecutive_errors = after;
        new.last_notification = SiteNotificationId(1);
        old.recent_errors
            .extend((0..before.into()).map(|number| error(90 + number)));
        new.recent_errors.extend(old.recent_errors.iter().cloned());
        new.recent_errors.extend((0..new_errors).map(error));
        broken_rule(&old, &new, &parameters)
    }

    #[test]
    fn errors_before_a_success_in_the_same_write_open_it_too() {
        let threshold = SiteParameters::default().site_error_threshold;
        assert_eq!(threshold, 3);
        assert_eq!(tripped(2, 3, 1), None);
        assert_eq!(
            tripped(2, 2, 3),
            None,
            "one more, a success, and two after it"
        );
        assert_eq!(tripped(2, 0, 1), None, "the success came last");
        assert!(tripped(1, 2, 1).is_some(), "two are too few");
        assert!(tripped(2, 2, 0).is_some(), "nothing happened");
    }

    /// From half-open to closed in one write, with so many errors since, of which as many are new.
    fn closed(since: u32, new_errors: u64) -> Option<String> {
        let parameters = SiteParameters::default();
        let mut old = SiteRecord::new(SiteName::new("delft").unwrap());
        let mut new = old.clone();
        let allowed = parameters.probe_limit;
        let running = [attempt(1), attempt(2)].into();
        old.breaker = Breaker::HalfOpen {
            since: Timestamp(0),
            allowed,
            running,
            trips: 1,
        };
        new.last_notification = SiteNotificationId(1);
        new.consecutive_errors = since;
        new.recent_errors.extend((0..new_errors).map(error));
        broken_rule(&old, &new, &parameters)
    }

    /// From half-open to open in one write, with so many errors before and after, of which so
    /// many are new.
    fn opened(before: u32, after: u32, new_errors: u64) -> Option<String> {
        let parameters = SiteParameters::default();
        let mut old = SiteRecord::new(SiteName::new("delft").unwrap());
        let mut new = old.clone();
        let running = [attempt(1)].into();
        old.breaker = Breaker::HalfOpen {
            since: Timestamp(0),
            allowed: 1,
            running,
            trips: 1,
        };
        let probe_at = Timestamp(2 * parameters.probe_interval.0);
        new.breaker = Breaker::Open {
            since: Timestamp(0),
            probe_at,
            trips: 2,
        };
        old.consecutive_errors = before;
        new.consecutive_errors = after;
        new.last_notification = SiteNotificationId(1);
        new.recent_errors.extend((0..new_errors).map(error));
        broken_rule(&old, &new, &parameters)
    }

    /// A closed site with as many errors as open it, all of one user's jobs.
    fn accused() -> SiteRecord {
        let mut site = SiteRecord::new(SiteName::new("delft").unwrap());
        site.accused = Some(KeyName::new("mallory").unwrap());
        site.consecutive_errors = SiteParameters::default().site_error_threshold;
        site.recent_errors
            .extend((0..site.consecutive_errors.into()).map(error));
        site
    }

    fn own_probe() -> Option<OwnProbe> {
        let number = Attempt(1);
        let owner = KeyName::new("mallory").unwrap();
        Some(OwnProbe {
            number,
            owner,
            since: Timestamp(1),
        })
    }

    #[test]
    fn errors_of_one_user_have_a_probe_find_out_or_keep_that_user_off() {
        let parameters = SiteParameters::default();
        let site = accused();
        assert!(
            broken_rule(&site, &site, &parameters).is_some(),
            "nobody does anything"
        );
        let probed = SiteRecord {
            own_probe: own_probe(),
            ..site.clone()
        };
        assert_eq!(broken_rule(&site, &probed, &parameters), None);
        let since = Timestamp(1);
        let until = Timestamp(2);
        let owner = KeyName::new("mallory").unwrap();
        let kept_off = vec![BarredOwner {
            owner,
            since,
            until,
            times: 1,
        }];
        assert_eq!(
            broken_rule(&probed, &SiteRecord { kept_off, ..site }, &parameters),
            None
        );
    }

    #[test]
    fn a_probe_of_our_own_opens_a_breaker_only_if_it_failed() {
        let parameters = SiteParameters::default();
        let old = SiteRecord {
            own_probe: own_probe(),
            ..accused()
        };
        let probe_at = Timestamp(parameters.probe_interval.0);
        let breaker = Breaker::Open {
            since: Timestamp(0),
            probe_at,
            trips: 1,
        };
        let last_notification = SiteNotificationId(1);
        let opened = SiteRecord {
            breaker,
            last_notification,
            own_probe: None,
            ..old.clone()
        };
        assert_eq!(broken_rule(&old, &opened, &parameters), None);
        let mut well = SiteRecord {
            consecutive_errors: 0,
            ..opened
        };
        assert!(
            broken_rule(&old, &well, &parameters).is_some(),
            "it succeeded"
        );
        well.counted.push_back(attempt(9));
        assert_eq!(
            broken_rule(&old, &well, &parameters),
            None,
            "another one succeeded after it"
        );
    }

    #[test]
    fn errors_of_one_job_open_nothing_and_lengthen_nothing_twice() {
        let parameters = SiteParameters::default();
        let mut old = SiteRecord::new(SiteName::new("delft").unwrap());
        old.recent_errors.push_back(error(1));
        let mut new = old.clone();
        old.consecutive_errors = 1;
        new.consecutive_errors = 2;
        new.recent_errors.push_back(error(2));
        assert_eq!(broken_rule(&old, &new, &parameters), None);
        new.recent_errors.pop_back();
        let attempt = AttemptId {
            attempt: Attempt(2),
            ..attempt(1)
        };
        new.recent_errors.push_back(SiteErrorRecord {
            attempt,
            ..error(1)
        });
        assert!(
            broken_rule(&old, &new, &parameters).is_some(),
            "one job counted twice"
        );
        let running = [attempt].into();
        old.breaker = Breaker::HalfOpen {
            since: Timestamp(0),
            allowed: 1,
            running,
            trips: 1,
        };
        let probe_at = Timestamp(parameters.probe_interval.0);
        new.breaker = Breaker::Open {
            since: Timestamp(0),
            probe_at,
            trips: 1,
        };
        new.last_notification = SiteNotificationId(1);
        assert!(
            broken_rule(&old, &new, &parameters).is_some(),
            "its first failed probe"
        );
        old.erring_jobs.push_back(attempt.job);
        assert_eq!(broken_rule(&old, &new, &parameters), None, "its second");
    }

    #[test]
    fn a_breaker_opens_again_only_after_an_error_whatever_came_after_it() {
        assert_eq!(opened(3, 4, 1), None);
        assert_eq!(opened(0, 0, 1), None, "then another one succeeded");
        assert_eq!(opened(3, 1, 2), None, "and one more failed");
        assert!(opened(0, 0, 0).is_some(), "nobody failed");
        assert!(opened(3, 3, 1).is_some(), "the error was not counted");
    }

    #[test]
    fn a_breaker_that_closed_has_no_errors_but_those_after_the_last_probe() {
        assert_eq!(closed(0, 0), None);
        assert_eq!(
            closed(1, 1),
            None,
            "another one failed after the last probe"
        );
        assert!(closed(1, 0).is_some(), "an error that nobody made");
        let threshold = SiteParameters::default().site_error_threshold;
        assert!(
            closed(threshold, threshold.into()).is_some(),
            "so many open it"
        );
    }
}
