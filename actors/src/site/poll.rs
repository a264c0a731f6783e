//! The one loop that asks the site: for its load, and for our attempts, in one query.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use cospan_domain::ids::{AttemptTag, JobId};
use cospan_domain::site::contact::{SiteContact, SiteQueryOutcome};
use cospan_domain::units::{ClockSkew, DurationMs, Timestamp};
use cospan_sites::port::{
    AttemptObservation, SiteCallKind, SiteDescription, SiteError, SiteStatus,
};
use tracing::{debug, info, warn};

use super::ClusterActor;
use super::calls::count_call;
use crate::grid_snapshot::is_report_current;
use crate::live_state::AttemptObservations;
use crate::supervision::ActorId;

/// The pauses between two tries to reach a silent site, at first and at most.
const RETRY: DurationMs = DurationMs(1_000);
const RETRY_MAX: DurationMs = DurationMs(15_000);
/// The pause between two polls for hints: changes at about the same time cost one poll.
const HINT_GAP: DurationMs = DurationMs(10);
/// A description older than this is asked for again along with a poll.
const DESCRIPTION_EXPIRY: DurationMs = DurationMs(300_000);

struct PollOutcome {
    /// By our clock, as everything that is compared with it.
    asked_at: Timestamp,
    /// When the answer came.
    answered_at: Timestamp,
    status: Result<SiteStatus, SiteError>,
    description: Option<SiteDescription>,
}

impl PollOutcome {
    /// The site took the query and let it hang.
    fn unanswered(asked_at: Timestamp, longest: DurationMs) -> Self {
        let error = SiteError::OutcomeUnknown(format!("it did not answer within {longest}"));
        Self {
            asked_at,
            answered_at: asked_at,
            status: Err(error),
            description: None,
        }
    }
}

impl ClusterActor {
    /// Lists our attempts that may live here.
    fn live_tags(&self) -> Vec<AttemptTag> {
        let view = self.shared.view.load();
        let Some(holdings) = view.holdings.get(&self.name) else {
            return Vec::new();
        };
        let live = holdings.iter().filter(|(_, holding)| holding.live);
        live.map(|((job, _), holding)| holding.attempt_tag(self.shared.instance, *job))
            .collect()
    }

    /// Returns when the site is to be asked for the attempts that live here. Where polls are rare,
    /// a payload that began in time must still be seen before its job gives it up.
    fn next_attempts_query(&self, polled_at: Timestamp) -> Option<Timestamp> {
        let settings = &self.shared.settings;
        let soon = DurationMs((settings.job.go_grace.0 / 4).max(1)).min(settings.poll_interval);
        self.seen
            .next_attempts_poll(polled_at, settings.poll_interval, soon)
    }

    /// Returns when the site is to be asked again; `None` while nobody needs to know.
    pub(super) fn next_poll_time(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.polling {
            return None;
        }
        // Shown on every change: a site where jobs have nothing any more is not polled.
        if self
            .seen
            .update_holdings(self.shared.view.load().holdings.get(&self.name), now)
        {
            self.gauges.held.set(i64::from(self.seen.held_processors()));
            self.calm.note_activity();
            if self.seen.holdings.is_empty() {
                self.publish_state();
            }
        }
        let Some(polled_at) = self.polled_at else {
            return Some(now);
        };
        // One failure proves nothing. The site is asked again until it counts as silent, also where
        // no job of ours is: else nobody would learn that it is we who are cut off.
        if !self.contact.contact().is_answering() || self.contact.failures_in_a_row() > 0 {
            let again = Some(polled_at + self.retry_pause());
            // The attempts are observed all the same.
            let says = self.half_silent || self.report.out_of_order;
            let files = says.then(|| self.next_attempts_query(polled_at)).flatten();
            return again.into_iter().chain(files).min();
        }
        if self
            .shared
            .live
            .all_answers_wanted_since()
            .is_some_and(|doubted| polled_at < doubted)
        {
            return Some(now);
        }
        if self
            .shared
            .live
            .fresh_report_wanted_since(&self.name)
            .is_some()
        {
            return Some(now);
        }
        let settings = &self.shared.settings;
        let hinted = self.hinted.then(|| polled_at + HINT_GAP);
        let live = self.next_attempts_query(polled_at);
        // While a job waits, processors freed since the last answer are worth knowing soon.
        let pause = settings.poll_interval.min(settings.information_expiry);
        let pause = self
            .calm
            .pause_between_looks(pause)
            .min(self.refresh_pause());
        let wanted = self
            .shared
            .live
            .is_placement_awaited()
            .then(|| polled_at + pause);
        // Jobs are placed here, whether they have claimed anything yet or not.
        let is_busy = !self.seen.holdings.is_empty();
        let busy = is_busy.then(|| polled_at + self.refresh_pause());
        hinted
            .into_iter()
            .chain(live)
            .chain(wanted)
            .chain(busy)
            .min()
    }

    /// The pause after which a busy site's report is refreshed, before it expires: it is about to
    /// be needed, and no job should have to wait for it then.
    fn refresh_pause(&self) -> DurationMs {
        let settings = &self.shared.settings;
        let expiry = settings.information_expiry;
        let ahead = settings.information.refresh_ahead;
        DurationMs(expiry.0.saturating_sub(ahead.0)).max(settings.poll_interval.min(expiry))
    }

    fn retry_pause(&self) -> DurationMs {
        if self.report.out_of_order {
            // A site out of order answers at no cost, and somebody is mending it.
            return self.shared.settings.poll_interval.min(RETRY_MAX);
        }
        let doublings = self.contact.failures_in_a_row().min(10);
        RETRY_MAX.min(DurationMs(RETRY.0 << doublings.saturating_sub(1)))
    }

    /// Polls the site if it is time and no poll is under way.
    pub(super) fn poll_if_due(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        if self.next_poll_time(now).is_some_and(|time| time <= now) {
            self.poll_site(ctx);
        }
    }

    fn poll_site(&mut self, ctx: &mut Context<Self>) {
        self.polling = true;
        self.hinted = false;
        let site = self.site.clone();
        let tags = self.live_tags();
        let now = self.now();
        let describe = self
            .described_at
            .is_none_or(|at: Timestamp| now.since(at) > DESCRIPTION_EXPIRY)
            || !self.contact.contact().is_answering();
        let metrics = self.shared.metrics.clone();
        let clock = self.shared.clock.clone();
        let files_first = self.half_silent;
        let asked = async move {
            // Describing a site that was silent would only keep the files from being read in time.
            let first = if files_first {
                Some(site.queue().status(&tags).await)
            } else {
                None
            };
            let answers = first.as_ref().is_none_or(|first| {
                first
                    .as_ref()
                    .is_ok_and(|status: &SiteStatus| status.silence.is_none())
            });
            let describe = describe && answers;
            let description = if describe {
                site.monitor().describe().await.map(Some)
            } else {
                Ok(None)
            };
            if describe {
                count_call(&metrics, SiteCallKind::Describe, &description);
            }
            match description {
                Err(error) => {
                    let answered_at = clock.now();
                    PollOutcome {
                        asked_at: now,
                        answered_at,
                        status: Err(error),
                        description: None,
                    }
                }
                Ok(description) => {
                    let status = match first {
                        Some(status) => status,
                        None => site.queue().status(&tags).await,
                    };
                    count_call(&metrics, SiteCallKind::Status, &status);
                    PollOutcome {
                        asked_at: now,
                        answered_at: clock.now(),
                        status,
                        description,
                    }
                }
            }
        };
        let longest = self
            .shared
            .settings
            .information
            .query_timeout_of(&self.name);
        let answered = tokio::time::timeout(Duration::from_millis(longest.0), asked);
        ctx.spawn(answered.into_actor(self).map(move |polled, this, ctx| {
            let polled = polled.unwrap_or_else(|_| PollOutcome::unanswered(now, longest));
            this.handle_poll_result(polled, ctx);
        }));
    }

    fn handle_poll_result(&mut self, polled: PollOutcome, ctx: &mut Context<Self>) {
        self.polling = false;
        let now = self.now();
        self.polled_at = Some(now);
        if let Some(description) = polled.description {
            self.described_at = Some(now);
            self.report.set_description(description);
        }
        self.half_silent = polled
            .status
            .as_ref()
            .is_ok_and(|status| status.silence.is_some());
        let told_before = self.report.tells;
        let whole = polled
            .status
            .as_ref()
            .is_ok_and(|status| status.silence.is_none());
        self.report.tells = whole && self.site.monitor().trouble().is_some();
        if self.report.tells {
            self.report.told_at = Some(polled.asked_at);
        }
        let mut concerned = match polled.status {
            Ok(SiteStatus {
                silence: Some(silence),
                attempts,
                site_clock,
                ..
            }) => {
                let read = site_clock.unwrap_or(polled.answered_at);
                let clock = ClockSkew::between(read, polled.answered_at);
                let mut concerned = self.apply_observations(attempts, polled.asked_at, clock);
                let error = SiteError::OutcomeUnknown(silence.to_string());
                concerned.extend(self.apply_failure(&error, now));
                concerned
            }
            Ok(status) if self.site.monitor().trouble().is_some() => {
                let error =
                    SiteError::OutOfOrder(self.site.monitor().trouble().unwrap_or_default());
                let read = status.site_clock.unwrap_or(polled.answered_at);
                let clock = ClockSkew::between(read, polled.answered_at);
                let mut concerned =
                    self.apply_observations(status.attempts, polled.asked_at, clock);
                concerned.extend(self.apply_failure(&error, now));
                concerned
            }
            Ok(status) => {
                // The site's clock is taken as read when the answer came: that errs towards a start
                // too early for its clock, never too late.
                let read = status.site_clock.unwrap_or(polled.answered_at);
                let clock = ClockSkew::between(read, polled.answered_at);
                self.apply_answer(status, polled.asked_at, clock, now)
            }
            Err(error) => self.apply_failure(&error, now),
        };
        // A site that fell silent only now is waited for from now on.
        if told_before && !self.report.tells && !self.contact.contact().is_answering() {
            concerned.extend(self.jobs_here());
        }
        self.shared
            .live
            .publish_report(self.name.clone(), Arc::new(self.report.clone()));
        if self
            .shared
            .live
            .end_fresh_report_request(&self.name, polled.asked_at)
        {
            self.shared.actors.request_look_of(&ActorId::Claimer);
        }
        self.show_metrics();
        concerned
            .iter()
            .for_each(|job| self.shared.actors.request_look_of(&ActorId::Job(*job)));
        self.do_due_work(ctx);
    }

    /// Takes in an answer. Returns the jobs that have something new to look at.
    fn apply_answer(
        &mut self,
        status: SiteStatus,
        asked_at: Timestamp,
        clock: ClockSkew,
        now: Timestamp,
    ) -> Vec<JobId> {
        self.report.trouble = None;
        self.report.out_of_order = false;
        if self.report.silent_since.take().is_some() {
            info!(site = %self.name, "the site answers again");
            self.publish_state();
        }
        let mut concerned = self.observe_contact(SiteQueryOutcome::Answered, now);
        if self.shared.live.is_isolated() {
            // A site that never fell silent answers as well: it is not we who are cut off.
            self.note_answers_again();
        }
        let idle = Some((asked_at, status.idle));
        let corrected = self.shared.live.forget_refused_claims(&self.name, asked_at);
        // The same number is news where nobody believed the old one any more.
        let before = self.report.idle.as_ref();
        let before = before.filter(|(at, _)| is_report_current(&self.shared, *at, now));
        let left_before = self.report.ebbs.iter().map(|ebb| &ebb.left);
        let changed = corrected
            || before.map(|(_, idle)| idle) != idle.as_ref().map(|(_, i)| i)
            || *self.report.idle_in != status.idle_in
            || left_before.ne(status.ebbs.iter().map(|ebb| &ebb.left));
        if changed {
            self.shared.live.note_placement_change();
        }
        if changed && self.shared.live.is_placement_awaited() {
            self.shared.request_planning();
        }
        let total = self.report.description.as_ref().map(|site| &site.total);
        let is_idle = total.is_some() && before.map(|(_, idle)| idle) == total;
        let is_calm = self.site.queue().is_ours_alone() && is_idle && !changed;
        self.calm.count_answer(is_calm);
        self.report.idle = idle;
        self.report.idle_in = Arc::new(status.idle_in);
        self.report.ebbs = status.ebbs.into();
        concerned.extend(self.apply_observations(status.attempts, asked_at, clock));
        self.learn_from_attempts();
        concerned
    }

    /// Takes in observations. Returns the jobs of attempts that do something else than before.
    fn apply_observations(
        &mut self,
        attempts: BTreeMap<AttemptTag, AttemptObservation>,
        asked_at: Timestamp,
        clock: ClockSkew,
    ) -> Vec<JobId> {
        let mut concerned = Vec::new();
        for (tag, observation) in &attempts {
            // An absence counts by being seen again.
            if self.report.observed.attempts.get(tag) != Some(observation)
                || *observation == AttemptObservation::Absent
            {
                debug!(site = %self.name, %tag, ?observation, "observed");
                concerned.push(tag.job);
            }
        }
        self.report.observed = Arc::new(AttemptObservations {
            asked_at,
            clock,
            attempts,
        });
        concerned
    }

    /// Takes in a failed query. It is no information: what was known stays, and grows older.
    fn apply_failure(&mut self, error: &SiteError, now: Timestamp) -> Vec<JobId> {
        debug!(site = %self.name, %error, "status query failed");
        self.report.trouble = Some(error.to_string().into());
        let result = match error {
            SiteError::LockedOut(_) => SiteQueryOutcome::CredentialsExpired,
            SiteError::OutOfOrder(_) => SiteQueryOutcome::OutOfOrder,
            SiteError::Refused(_)
            | SiteError::Unfit(_)
            | SiteError::NotSent(_)
            | SiteError::OutcomeUnknown(_)
            | SiteError::SiteFull(_) => SiteQueryOutcome::Failed,
        };
        self.report.out_of_order = result == SiteQueryOutcome::OutOfOrder;
        let concerned = self.observe_contact(result, now);
        let was_silent = self.report.silent_since.is_some();
        self.report.silent_since = self.contact.silent_since();
        if !was_silent && self.report.silent_since.is_some() {
            warn!(
                site = %self.name,
                %error,
                "the site does not answer; it counts as unreachable if that goes on for {}",
                self.shared.settings.contact.unreachable_after
            );
        }
        self.publish_state();
        concerned
    }

    fn observe_contact(&mut self, result: SiteQueryOutcome, now: Timestamp) -> Vec<JobId> {
        let changed = self
            .contact
            .note_result(result, &self.shared.settings.contact, now);
        self.report.contact = self.contact.contact();
        let Some(contact) = changed else {
            return Vec::new();
        };
        self.shared
            .live
            .publish_report(self.name.clone(), Arc::new(self.report.clone()));
        self.shared.live.note_placement_change();
        self.handle_contact_change(contact, now);
        self.shared.request_planning();
        self.shared.actors.request_look_of(&ActorId::DataManager);
        if contact.is_answering() {
            self.reconciled_at = None;
        }
        self.jobs_here()
    }

    pub(super) fn jobs_here(&self) -> Vec<JobId> {
        let view = self.shared.view.load();
        let mut jobs: Vec<JobId> = view
            .holdings
            .get(&self.name)
            .map(|site| site.keys().map(|(job, _)| *job).collect())
            .unwrap_or_default();
        jobs.dedup();
        jobs
    }

    fn show_metrics(&self) {
        if let Some(description) = &self.report.description {
            self.gauges
                .total
                .set(i64::from(description.total.processors));
        }
        if let Some((_, idle)) = &self.report.idle {
            self.gauges.idle.set(i64::from(idle.processors));
        }
        self.gauges.held.set(i64::from(self.seen.held_processors()));
        self.publish_state();
    }

    /// The contact that a report shows to others.
    pub(super) fn current_contact(&self) -> SiteContact {
        self.contact.contact()
    }
}
