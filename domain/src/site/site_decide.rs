//! The events that follow from a command to a site's record.

use std::sync::Arc;

use crate::ids::{Attempt, KeyName};
use crate::reservation::ReservationSerial;
use crate::site::availability::any_job_may_probe;
use crate::site::failure::FailureClass;
use crate::site::shared_reservation::SharedReservation;
use crate::site::site_command::{OperatorCommand, ProbeOutcome, SiteCommand, SiteRejection};
use crate::site::site_event::{SiteEvent, SiteEventKind};
use crate::site::site_parameters::SiteParameters;
use crate::site::site_state::{
    AttemptId, Breaker, MAX_WINDOWS, RECENT_ERRORS, SiteNotification, SiteNotificationId,
    SiteNotificationKind, SiteRecord, count_probing_jobs,
};
use crate::site::{
    barred_owners_record, joint_reservation, shared_reservation, shared_reservation_access,
};
use crate::text;
use crate::units::{PerMillion, Timestamp};

type SiteDecision = Result<Vec<SiteEventKind>, SiteRejection>;

/// Decides a command.
///
/// # Errors
/// The command does not fit the record, or a component must not be submitted; nothing happened.
pub fn decide(
    record: &SiteRecord,
    parameters: &SiteParameters,
    command: SiteCommand,
    now: Timestamp,
) -> Result<Vec<SiteEvent>, SiteRejection> {
    let desk = SiteDecider {
        record,
        parameters,
        now,
    };
    let happened = match command {
        SiteCommand::RecordError {
            attempt,
            owner,
            class,
            detail,
            isolated,
            jitter,
        } => {
            let error = ErrorReport {
                attempt,
                owner,
                class,
                detail: &detail,
            };
            Ok(desk.record_error(error, isolated, jitter))
        }
        SiteCommand::RecordSuccess { attempt } => Ok(desk.record_success(attempt)),
        SiteCommand::StartProbe {
            probe,
            owner,
            may_probe,
        } => desk.start_probe(probe, owner.as_ref(), may_probe),
        SiteCommand::OwnProbeOver {
            number,
            outcome,
            detail,
            jitter,
        } => Ok(desk.decide_own_probe(number, outcome, &detail, jitter)),
        SiteCommand::EndProbe {
            probe,
            outcome,
            jitter,
        } => Ok(desk.end_probe(probe, outcome, jitter)),
        SiteCommand::ReconcileProbes { live } => Ok(desk
            .running_probes()
            .filter(|probe| !live.contains(probe))
            .flat_map(|probe| desk.drop_probe(probe))
            .collect()),
        SiteCommand::Notify {
            kind,
            text,
            details,
        } => Ok(vec![desk.notification_event(kind, &text, &details)]),
        SiteCommand::NotificationSent { id } => {
            let owed = record.owed.iter().any(|notification| notification.id == id);
            Ok(owed
                .then_some(SiteEventKind::NotificationSent { id })
                .into_iter()
                .collect())
        }
        SiteCommand::SharedAnswered {
            serial,
            asked,
            outcome,
        } => Ok(desk.with_loss_notices(shared_reservation::decide_answer(
            record, serial, asked, outcome,
        ))),
        SiteCommand::SharedStep(step) => Ok(joint_reservation::events_of_step(record, step)),
        SiteCommand::SharedLookedAt { serial, used } => Ok(desk.decide_use_check(serial, used)),
        SiteCommand::SharedMissing { gone, changed } => Ok(desk.with_loss_notices(
            shared_reservation::decide_missing(record, &gone, &changed, now),
        )),
        SiteCommand::Operate { by, what } => {
            desk.decide_operation(what, by).map(|event| vec![event])
        }
    }?;
    Ok(happened
        .into_iter()
        .map(|what| SiteEvent { at: now, what })
        .collect())
}

/// An error as it was reported.
struct ErrorReport<'a> {
    attempt: AttemptId,
    owner: Option<KeyName>,
    class: FailureClass,
    detail: &'a Arc<str>,
}

struct SiteDecider<'a> {
    record: &'a SiteRecord,
    parameters: &'a SiteParameters,
    now: Timestamp,
}

impl SiteDecider<'_> {
    /// KOALA, fault tolerance: consecutive errors + 1; at `site_error_threshold` the site is
    /// unusable and its administrator is notified with the details. Ours: each error is counted
    /// once however often it is reported, once for a job, and not at all if the fault is ours.
    fn record_error(
        &self,
        error: ErrorReport<'_>,
        isolated: bool,
        jitter: PerMillion,
    ) -> Vec<SiteEventKind> {
        let ErrorReport {
            attempt,
            owner,
            class,
            detail,
        } = error;
        if self.record.has_counted_attempt(attempt) || !class.charges_site() {
            return self.drop_probe(attempt);
        }
        let probing = self.is_probing(attempt);
        let has_erred = self.record.has_counted_error_of(attempt.job);
        if isolated || (has_erred && !probing) {
            let mut events = vec![SiteEventKind::ErrorExcused { attempt }];
            events.extend(self.drop_probe(attempt));
            return events;
        }
        let accused = self.record.sole_erring_owner(owner.as_ref());
        let detail = text::clean_text(detail);
        let charged = SiteEventKind::ErrorCharged {
            attempt,
            class,
            detail: detail.clone(),
            owner: owner.clone(),
        };
        let errors = self.record.consecutive_errors.saturating_add(1);
        let threshold = self.parameters.site_error_threshold.max(1);
        let mut events = vec![charged];
        if probing {
            events.extend(self.decide_failed_probe(
                owner.as_ref(),
                has_erred,
                errors,
                &detail,
                jitter,
            ));
        } else if self.record.breaker == Breaker::Closed && errors >= threshold {
            // With a threshold of one, a single error opens the breaker.
            let looks = threshold > 1 && self.parameters.tells_owners_apart;
            match accused.filter(|_| looks) {
                Some(owner) => {
                    events.extend(barred_owners_record::request_own_probe(self.record, owner))
                }
                None => {
                    let kind = SiteNotificationKind::Unusable;
                    events.extend(self.open_breaker(kind, 1, errors, Some(&detail), jitter));
                }
            }
        }
        events
    }

    /// Decides on a failed probe. A single owner must not keep others away for longer and longer:
    /// its failed probe makes room for theirs, which may succeed.
    fn decide_failed_probe(
        &self,
        owner: Option<&KeyName>,
        has_erred: bool,
        errors: u32,
        detail: &Arc<str>,
        jitter: PerMillion,
    ) -> Vec<SiteEventKind> {
        let owner = owner.filter(|_| self.parameters.tells_owners_apart);
        let again = has_erred || (owner.is_some() && self.record.reopened_by.as_ref() == owner);
        let trips = self
            .record
            .breaker
            .trips()
            .saturating_add(u32::from(!again));
        let kind = SiteNotificationKind::ProbeFailed;
        let mut events = self.open_breaker(kind, trips, errors, Some(detail), jitter);
        events.extend(owner.map(|owner| {
            barred_owners_record::bar_owner(self.record, self.parameters, owner, jitter, self.now)
        }));
        events
    }

    /// Decides on a probe of our own. If it fails, the fault is the site's; else it is not, or
    /// remains unknown.
    fn decide_own_probe(
        &self,
        number: Attempt,
        outcome: ProbeOutcome,
        detail: &Arc<str>,
        jitter: PerMillion,
    ) -> Vec<SiteEventKind> {
        let Some(probe) = self
            .record
            .own_probe
            .as_ref()
            .filter(|own| own.number == number)
        else {
            return Vec::new();
        };
        if outcome != ProbeOutcome::Failed {
            return barred_owners_record::decide_after_site_worked(
                self.record,
                self.parameters,
                outcome,
                jitter,
                self.now,
            );
        }
        let errors = self.record.consecutive_errors;
        let why = barred_owners_record::describe_own_probe(probe, detail);
        let mut events = vec![SiteEventKind::OwnProbeEnded { number, outcome }];
        events.extend(self.open_breaker(
            SiteNotificationKind::Unusable,
            1,
            errors,
            Some(&why),
            jitter,
        ));
        events
    }

    /// A component that ends without an error of the site sets the count to zero. An attempt whose
    /// outcome is known already, or that changes nothing, is not written.
    fn record_success(&self, attempt: AttemptId) -> Vec<SiteEventKind> {
        if self.record.has_counted_attempt(attempt) {
            return self.drop_probe(attempt);
        }
        let probing = self.is_probing(attempt);
        let mut events = Vec::new();
        if probing || self.record.consecutive_errors > 0 {
            events.push(SiteEventKind::SuccessCounted { attempt });
        }
        if probing {
            events.extend(self.decide_probe_success(attempt));
        }
        // The site works, so our own probe is not needed any more.
        let outcome = ProbeOutcome::Succeeded;
        let jitter = PerMillion(0);
        events.extend(barred_owners_record::decide_after_site_worked(
            self.record,
            self.parameters,
            outcome,
            jitter,
            self.now,
        ));
        events
    }

    fn start_probe(
        &self,
        probe: AttemptId,
        owner: Option<&KeyName>,
        may_probe: bool,
    ) -> SiteDecision {
        if let Some(forced) = self.record.forced_at(self.now) {
            return if forced.usable {
                Ok(Vec::new())
            } else {
                Err(SiteRejection::ForcedUnusable {
                    until: forced.until,
                })
            };
        }
        if self.is_probing(probe) {
            return Ok(Vec::new());
        }
        if let Some(ban) = owner.and_then(|owner| self.record.bar_reason_for(owner, self.now)) {
            return Err(SiteRejection::Banned(ban));
        }
        match &self.record.breaker {
            Breaker::Closed => Ok(Vec::new()),
            // The components of one job are one probe.
            Breaker::HalfOpen { running, .. } if running.iter().any(|r| r.job == probe.job) => {
                Ok(vec![SiteEventKind::ProbeStarted { probe }])
            }
            Breaker::Open { probe_at, .. } if self.now < *probe_at => {
                let errors = self.record.consecutive_errors;
                Err(SiteRejection::NotYetProbed {
                    errors,
                    probe_at: *probe_at,
                })
            }
            Breaker::Open { .. } | Breaker::HalfOpen { .. }
                if !may_probe && !any_job_may_probe(self.record, self.now) =>
            {
                Err(SiteRejection::OnlyRerunnable)
            }
            Breaker::HalfOpen {
                allowed, running, ..
            } if count_probing_jobs(running) >= *allowed => {
                Err(SiteRejection::ProbesTaken { allowed: *allowed })
            }
            Breaker::Open { .. } | Breaker::HalfOpen { .. } => {
                Ok(vec![SiteEventKind::ProbeStarted { probe }])
            }
        }
    }

    fn end_probe(
        &self,
        probe: AttemptId,
        outcome: ProbeOutcome,
        jitter: PerMillion,
    ) -> Vec<SiteEventKind> {
        if !self.is_probing(probe) {
            return Vec::new();
        }
        let errors = self.record.consecutive_errors;
        match outcome {
            ProbeOutcome::Succeeded => self.record_success(probe),
            ProbeOutcome::Failed => {
                let trips = self.record.breaker.trips().saturating_add(1);
                self.open_breaker(
                    SiteNotificationKind::ProbeFailed,
                    trips,
                    errors,
                    None,
                    jitter,
                )
            }
            ProbeOutcome::Inconclusive => self.drop_probe(probe),
        }
    }

    fn running_probes(&self) -> impl Iterator<Item = AttemptId> {
        match &self.record.breaker {
            Breaker::HalfOpen { running, .. } => Some(running.iter().copied()),
            Breaker::Closed | Breaker::Open { .. } => None,
        }
        .into_iter()
        .flatten()
    }

    fn is_probing(&self, attempt: AttemptId) -> bool {
        matches!(&self.record.breaker, Breaker::HalfOpen { running, .. } if running.contains(&attempt))
    }

    /// Lets another probe take the place of one without a result.
    fn drop_probe(&self, probe: AttemptId) -> Vec<SiteEventKind> {
        match &self.record.breaker {
            Breaker::HalfOpen {
                allowed, running, ..
            } if running.contains(&probe) => {
                vec![SiteEventKind::ProbeEnded {
                    probe,
                    succeeded: false,
                    allowed: *allowed,
                }]
            }
            _ => Vec::new(),
        }
    }

    /// Allows 1 probe, then 2, 4, ...: each success doubles, the one at the limit closes.
    fn decide_probe_success(&self, probe: AttemptId) -> Vec<SiteEventKind> {
        let Breaker::HalfOpen {
            allowed, running, ..
        } = &self.record.breaker
        else {
            return Vec::new();
        };
        let limit = self.parameters.probe_limit.max(1);
        // Other components of the job are still trying.
        if running
            .iter()
            .any(|other| other.job == probe.job && *other != probe)
        {
            let allowed = *allowed;
            return vec![SiteEventKind::ProbeEnded {
                probe,
                succeeded: true,
                allowed,
            }];
        }
        if *allowed < limit {
            let allowed = allowed.saturating_mul(2).min(limit);
            return vec![SiteEventKind::ProbeEnded {
                probe,
                succeeded: true,
                allowed,
            }];
        }
        let text = format!(
            "site {} is usable again: its probes succeeded",
            self.record.site
        );
        vec![
            SiteEventKind::BreakerClosed,
            self.notification_event(SiteNotificationKind::Usable, &text.into(), &[]),
        ]
    }

    fn open_breaker(
        &self,
        kind: SiteNotificationKind,
        trips: u32,
        errors: u32,
        latest: Option<&Arc<str>>,
        jitter: PerMillion,
    ) -> Vec<SiteEventKind> {
        let interval = self.parameters.time_to_probe(trips, jitter);
        let site = &self.record.site;
        let text = match kind {
            SiteNotificationKind::ProbeFailed => {
                format!("site {site} stays unusable: a probe failed; the next one in {interval}")
            }
            _ => format!(
                "site {site} is unusable after {errors} errors in a row; it is probed in {interval}"
            ),
        };
        let earlier = self
            .record
            .recent_errors
            .iter()
            .map(|error| error.detail.clone());
        let mut details: Vec<_> = earlier.chain(latest.cloned()).collect();
        details.drain(..details.len().saturating_sub(RECENT_ERRORS));
        vec![
            SiteEventKind::BreakerOpened {
                probe_at: self.now + interval,
                trips,
            },
            self.notification_event(kind, &text.into(), &details),
        ]
    }

    /// Cancels a reservation that no job uses, and notifies the site's administrator.
    fn decide_use_check(&self, serial: ReservationSerial, used: bool) -> Vec<SiteEventKind> {
        let patience = self.parameters.no_show;
        let Some(what) =
            shared_reservation::decide_unused(self.record, serial, used, patience, self.now)
        else {
            return Vec::new();
        };
        let unused = self
            .record
            .shared_reservation_numbered(serial)
            .filter(|_| !used);
        let told = unused.map(|shared| {
            let name = &shared.wish.name;
            let by = &shared.by;
            let patience = patience.unwrap_or_default();
            let processors = shared.wish.resources.processors;
            let text = format!(
                "reservation {name} of {by}: no job used its {processors} processors in the first \
                 {patience} after its start; it is cancelled"
            );
            self.notification_event(SiteNotificationKind::NoShow, &text.into(), &[])
        });
        [what].into_iter().chain(told).collect()
    }

    /// Adds notifications to the site's administrator about reservations that the site has lost.
    fn with_loss_notices(&self, mut happened: Vec<SiteEventKind>) -> Vec<SiteEventKind> {
        let lost = happened.iter().filter_map(|what| {
            shared_reservation::reservation_lost_by(self.record, what, self.now)
        });
        let details: Vec<Arc<str>> = lost
            .map(|shared: &SharedReservation| {
                let name = &shared.wish.name;
                let by = &shared.by;
                let processors = shared.wish.resources.processors;
                format!("{name} of {by}, {processors} processors").into()
            })
            .collect();
        if let Some(first) = details.first() {
            let site = &self.record.site;
            let more = match details.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let text = format!("site {site} has lost reservations: {first}{more}");
            happened.push(self.notification_event(
                SiteNotificationKind::ReservationLost,
                &text.into(),
                &details,
            ));
        }
        happened
    }

    fn notification_event(
        &self,
        kind: SiteNotificationKind,
        text: &Arc<str>,
        details: &[Arc<str>],
    ) -> SiteEventKind {
        SiteEventKind::NotificationOwed(SiteNotification {
            id: SiteNotificationId(self.record.last_notification.0 + 1),
            kind,
            at: self.now,
            text: text::clean_text(text),
            details: details
                .iter()
                .take(RECENT_ERRORS)
                .map(text::clean_text)
                .collect(),
        })
    }

    fn decide_operation(
        &self,
        what: OperatorCommand,
        by: KeyName,
    ) -> Result<SiteEventKind, SiteRejection> {
        let operator = &self.record.operator;
        match what {
            OperatorCommand::Drain => event_unless_done(
                operator.draining.is_some(),
                SiteEventKind::DrainOrdered { by },
            ),
            OperatorCommand::Undrain => event_unless_done(
                operator.draining.is_none(),
                SiteEventKind::DrainLifted { by },
            ),
            OperatorCommand::Freeze => event_unless_done(
                operator.frozen.is_some(),
                SiteEventKind::FreezeOrdered { by },
            ),
            OperatorCommand::Thaw => event_unless_done(
                operator.frozen.is_none(),
                SiteEventKind::FreezeLifted { by },
            ),
            OperatorCommand::SetWindow {
                from,
                until,
                reason,
            } => {
                self.check_window(from, until)?;
                Ok(SiteEventKind::WindowSet {
                    from,
                    until,
                    reason: text::clean_text(&reason),
                    by,
                })
            }
            OperatorCommand::RemoveWindow { from } => {
                let known = operator.windows.iter().any(|window| window.from == from);
                known
                    .then_some(SiteEventKind::WindowRemoved { from, by })
                    .ok_or(SiteRejection::NoSuchWindow)
            }
            OperatorCommand::Force { usable, until } => (self.now < until)
                .then_some(SiteEventKind::VerdictForced { usable, until, by })
                .ok_or(SiteRejection::Past),
            OperatorCommand::Unforce => event_unless_done(
                operator.forced.is_none(),
                SiteEventKind::VerdictReleased { by },
            ),
            OperatorCommand::ResetErrors => Ok(SiteEventKind::ErrorsReset { by }),
            OperatorCommand::Reserve(wish) => {
                shared_reservation::decide_request(self.record, *wish, by, self.now)
            }
            OperatorCommand::ExtendReservation { name, until } => {
                shared_reservation::decide_extension(self.record, &name, until, self.now, by)
            }
            OperatorCommand::AllowReservation { name, access } => {
                shared_reservation_access::decide_access(self.record, &name, access, self.now, by)
            }
            OperatorCommand::CancelReservation { name } => {
                shared_reservation::decide_cancellation(self.record, &name, self.now, by)
            }
        }
    }

    fn check_window(&self, from: Timestamp, until: Timestamp) -> Result<(), SiteRejection> {
        if until <= from || until <= self.now {
            return Err(SiteRejection::EmptyWindow);
        }
        let others = self.record.operator.windows.iter();
        if others
            .filter(|w| w.from != from && self.now < w.until)
            .count()
            >= MAX_WINDOWS
        {
            return Err(SiteRejection::TooManyWindows);
        }
        Ok(())
    }
}

/// The event, or a rejection if its effect is there already.
fn event_unless_done(already: bool, event: SiteEventKind) -> Result<SiteEventKind, SiteRejection> {
    if already {
        Err(SiteRejection::AlreadySo)
    } else {
        Ok(event)
    }
}
