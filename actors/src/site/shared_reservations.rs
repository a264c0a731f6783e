//! Shared reservations: makes the calls that are due at the site, and notes those that the site has
//! no more.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use cospan_domain::ids::{ReservationName, SiteName};
use cospan_domain::reservation::{ReservationOutcome, ReservationSerial, ReservationTag, TimeSpan};
use cospan_domain::site::joint_reservation;
use cospan_domain::site::shared_reservation::{
    SharedReservation, SharedReservationCall, SharedReservationStage,
};
use cospan_domain::site::site_command::SiteCommand;
use cospan_domain::site::site_event::{SiteEvent, SiteEventKind};
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{Site, SiteCallKind, SiteError, TaggedReservationRequest};

use super::ClusterActor;
use super::calls::call_outcome_label;
use crate::chaos::{self, CrashPoint};

/// The time for which the site keeps a reservation that is not confirmed.
const KEPT: DurationMs = DurationMs::from_secs(1_800);
/// The pause before a call that got no answer is made again.
const RETRY: Duration = Duration::from_secs(1);

/// A call with everything that the site has to know.
struct PreparedSharedCall {
    asked: SharedReservationCall,
    order: TaggedReservationRequest,
}

impl PreparedSharedCall {
    fn new_call(
        shared: &SharedReservation,
        asked: SharedReservationCall,
        tag: ReservationTag,
    ) -> Self {
        let length = match asked {
            SharedReservationCall::Extend(length) => length,
            _ => shared.wish.length,
        };
        // Calls are not numbered one after the other: the same call may be made again.
        let request = shared.build_request(length);
        let order = TaggedReservationRequest {
            tag,
            number: 1,
            request,
            keep_for: KEPT,
        };
        Self { asked, order }
    }

    /// Makes the call. A new reservation is looked up first: an earlier request may have arrived,
    /// and its answer may have been lost.
    async fn make_call(&self, site: &dyn Site) -> Result<ReservationOutcome, SiteError> {
        let granting = site
            .reservations()
            .ok_or_else(|| SiteError::Unfit("it grants no reservations".to_owned()))?;
        let order = &self.order;
        let lost = ReservationOutcome::Lost { next: None };
        match self.asked {
            SharedReservationCall::Request => match granting.find(order.tag).await? {
                Some(seen) => Ok(ReservationOutcome::Granted {
                    start: seen.granted_start(order.request.window),
                }),
                None => granting.request(order).await.map(ReservationOutcome::from),
            },
            SharedReservationCall::Confirm => {
                let kept = granting.confirm(order.tag).await?;
                Ok(if kept { ReservationOutcome::Done } else { lost })
            }
            SharedReservationCall::Extend(_) => Ok(granting
                .modify(order)
                .await?
                .map_or(lost, ReservationOutcome::from)),
            SharedReservationCall::Release => granting
                .release(order.tag)
                .await
                .map(|_| ReservationOutcome::Done),
        }
    }

    /// Returns the outcome that an error stands for, if it is certain that nothing was done and
    /// will be.
    fn outcome_of_error(&self, error: &SiteError) -> Option<ReservationOutcome> {
        match error {
            SiteError::Refused(_) | SiteError::Unfit(_) | SiteError::SiteFull(_) => {
                Some(match self.asked {
                    SharedReservationCall::Release => ReservationOutcome::Done,
                    SharedReservationCall::Confirm => ReservationOutcome::Lost { next: None },
                    SharedReservationCall::Request | SharedReservationCall::Extend(_) => {
                        ReservationOutcome::Refused { next: None }
                    }
                })
            }
            SiteError::NotSent(_)
            | SiteError::LockedOut(_)
            | SiteError::OutOfOrder(_)
            | SiteError::OutcomeUnknown(_) => None,
        }
    }
}

impl ClusterActor {
    /// Makes the calls that are due at the site, one after the other.
    pub(super) fn call_shared_reservations(&mut self, ctx: &mut Context<Self>) {
        // Decisions made meanwhile are written first; then this is called again.
        if self.asking_shared || self.record.is_writing() || self.record.has_commands() {
            return;
        }
        let Some((shared, asked)) = self.record.state().next_shared_call() else {
            return;
        };
        let serial = shared.serial;
        let tag = ReservationTag::shared(self.shared.instance, serial);
        let question = PreparedSharedCall::new_call(shared, asked, tag);
        self.asking_shared = true;
        chaos::reach_for_effect(asked.name(), CrashPoint::BeforeEffect);
        let permits = self.calls.clone();
        let site = self.site.clone();
        let put = async move {
            let Ok(_permit) = permits.acquire_owned().await else {
                return Err(SiteError::NotSent("the site's calls are closed".into()));
            };
            let answer = question.make_call(&*site).await;
            Ok((question, answer))
        };
        ctx.spawn(put.into_actor(self).map(move |put, this, ctx| {
            chaos::reach_for_effect(asked.name(), CrashPoint::AfterEffect);
            this.asking_shared = false;
            let outcome = put.ok().and_then(|(question, answer)| {
                let labels = [SiteCallKind::Reserve.as_str(), call_outcome_label(&answer)];
                this.shared
                    .metrics
                    .site_calls
                    .with_label_values(&labels)
                    .inc();
                answer.map_or_else(|error| question.outcome_of_error(&error), Some)
            });
            match outcome {
                Some(outcome) => {
                    this.record.push_command(
                        SiteCommand::SharedAnswered {
                            serial,
                            asked,
                            outcome,
                        },
                        None,
                    );
                    // What the site has idle is not what it was.
                    this.hinted = true;
                    this.commit_record(ctx);
                    this.poll_if_due(this.now(), ctx);
                }
                None => drop(ctx.run_later(RETRY, Self::call_shared_reservations)),
            }
        }));
    }

    /// Takes the steps that follow for parts of joint reservations here from what is durable at
    /// other sites.
    pub(super) fn advance_joint_parts(&mut self, ctx: &mut Context<Self>) {
        if self.record.is_writing() || self.record.has_commands() {
            return;
        }
        let view = self.shared.view.load();
        let all = view.sites.values().map(|record| &**record);
        if let Some(step) = joint_reservation::next_step(
            self.record.state(),
            all,
            &|site: &SiteName| view.site_record(site),
            self.now(),
        ) {
            self.record
                .push_command(SiteCommand::SharedStep(step), None);
            self.commit_record(ctx);
        }
    }

    /// Checks that jobs make use of the reservations that are cancelled otherwise.
    pub(super) fn look_for_no_shows(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        if self.record.is_writing() || self.record.has_commands() {
            return;
        }
        let patience = self.shared.settings.site.no_show;
        let shared = self.record.state().shared.iter();
        let shared = shared.filter(|shared: &&SharedReservation| {
            shared.no_show_time(patience).is_some_and(|due| due <= now) && !shared.is_over(now)
        });
        let due: Vec<(ReservationSerial, ReservationName, Timestamp)> = shared
            .map(|one| (one.serial, one.wish.name.clone(), one.start()))
            .collect();
        if due.is_empty() {
            return;
        }
        let view = self.shared.view.load();
        for (serial, name, start) in due {
            let mut jobs = view
                .jobs
                .values()
                .filter(|job| job.shared_reservation() == Some(&name));
            let used = jobs.any(|job| {
                !job.is_final() || job.instants.started.is_some_and(|started| started >= start)
            });
            self.record
                .push_command(SiteCommand::SharedLookedAt { serial, used }, None);
        }
        self.commit_record(ctx);
    }

    /// Shows the number of reservations at the site, and counts refused and lost ones.
    pub(super) fn count_shared_reservations(&self, record: &SiteRecord, events: &[SiteEvent]) {
        let metrics = &self.shared.metrics.reservations;
        let site = self.name.as_str();
        let held = record
            .shared
            .iter()
            .filter(|shared: &&SharedReservation| {
                shared.may_exist_at_site() && shared.granted.is_some()
            })
            .count();
        if record.last_shared > ReservationSerial(0) {
            metrics
                .held
                .with_label_values(&[site, "shared"])
                .set(held as i64);
        }
        for event in events {
            match &event.what {
                SiteEventKind::SharedLost { .. }
                | SiteEventKind::SharedAnswered {
                    outcome: ReservationOutcome::Lost { .. },
                    ..
                } => {
                    metrics.lost.with_label_values(&[site]).inc();
                }
                SiteEventKind::SharedAnswered {
                    outcome: ReservationOutcome::Refused { next },
                    ..
                } => {
                    let reason = if next.is_some() { "later" } else { "never" };
                    metrics.refused.with_label_values(&[site, reason]).inc();
                }
                _ => {}
            }
        }
    }
}

/// Lists the reservations that the site should have, and their times.
pub(super) fn expected_reservations(
    record: &SiteRecord,
    now: Timestamp,
) -> BTreeMap<ReservationSerial, TimeSpan> {
    let kept = record
        .shared
        .iter()
        .filter(|shared| shared.stage == SharedReservationStage::Confirmed);
    let kept = kept.filter(|shared| !shared.is_over(now));
    kept.filter_map(|shared| Some((shared.serial, shared.reserved_span()?)))
        .collect()
}
