//! Learns from attempts what could be got at the site.

use std::sync::Arc;

use cospan_domain::acquisition::{PartitionAccount, PartitionDemand};
use cospan_domain::ids::AttemptTag;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{AttemptObservation, QueuedAttempt};
use tracing::info;

use super::ClusterActor;
use crate::supervision::ActorId;

/// The limit between starts at once and waits: an attempt that starts within this time got its
/// processors at once.
const AT_ONCE: DurationMs = DurationMs::from_secs(60);

/// The longest delay between a wait at the site and the poll that sees it.
const SEEN_LATE: DurationMs = DurationMs::from_secs(15);

/// The request of an attempt: partition, resources, and when.
struct AttemptDemand {
    lane: PartitionAccount,
    ask: PartitionDemand,
    at: Timestamp,
}

impl ClusterActor {
    /// Half of the time that a claim has to start, if that is less: a claim that is given up must
    /// have shown by then that it waited.
    fn at_once_limit(&self) -> DurationMs {
        let claims = self.shared.settings.job.claim_limits_at([&self.name]);
        AT_ONCE.min(DurationMs(claims.ready_within.0 / 2))
    }

    /// Learns from what the attempts here were last seen to do.
    pub(super) fn learn_from_attempts(&mut self) {
        if self
            .report
            .shape
            .as_ref()
            .is_none_or(|shape| shape.lanes.is_none())
        {
            return;
        }
        let observed = self.report.observed.clone();
        let at_once = self.at_once_limit();
        let before = std::mem::take(&mut self.behind);
        for (tag, observation) in &observed.attempts {
            match observation {
                AttemptObservation::Queued(QueuedAttempt {
                    behind: Some(why), ..
                }) => {
                    let since = before.get(tag).copied().unwrap_or(observed.asked_at);
                    self.behind.insert(*tag, since);
                    // An attempt that was to begin later has not waited for others before that.
                    let lasts = observed.asked_at.since(since) + SEEN_LATE >= at_once;
                    if let Some(asked) = self.demand_of_attempt(*tag).filter(|_| lasts) {
                        self.learn_wait(asked, why, at_once);
                    }
                }
                AttemptObservation::Ready(at_gate) => {
                    let at = at_gate.held_at - observed.clock;
                    if let Some(asked) = self.demand_of_attempt(*tag) {
                        self.learn_start(asked, at, at_once);
                    }
                }
                _ => {}
            }
        }
    }

    fn learn_start(&mut self, asked: AttemptDemand, at: Timestamp, at_once: DurationMs) {
        let AttemptDemand {
            lane,
            ask,
            at: asked_at,
        } = asked;
        let obtainable = Arc::make_mut(&mut self.report.obtainable);
        if at.since(asked_at) < at_once {
            obtainable.record_start(lane, ask, asked_at, at);
        } else {
            obtainable.record_late_start(&lane, ask, asked_at, at);
        }
    }

    fn learn_wait(&mut self, asked: AttemptDemand, why: &Arc<str>, at_once: DurationMs) {
        let AttemptDemand { lane, ask, at } = asked;
        let seen_at = self.report.observed.asked_at;
        if seen_at.since(at) < at_once {
            return;
        }
        if self.report.obtainable.blocking_wait(&lane, &ask).is_none() {
            info!(site = %self.name, %lane, processors = ask.processors, %why, "waits there");
        }
        Arc::make_mut(&mut self.report.obtainable).record_wait(lane, ask, why, at, seen_at);
    }

    /// Returns the partition, resources and time that an attempt asked for; `None` once its job
    /// knows that it has them.
    fn demand_of_attempt(&self, tag: AttemptTag) -> Option<AttemptDemand> {
        let view = self.shared.view.load();
        let holding = view
            .holdings
            .get(&self.name)?
            .get(&(tag.job, tag.component))?;
        let at = holding.visible_from.filter(|at| *at > Timestamp(0))?;
        if holding.attempt != tag.attempt {
            return None;
        }
        let words = self.shared.settings.default_policies.lanes;
        let job = view.jobs.get(&tag.job)?;
        let (lane, ask) = self
            .report
            .partition_demand(words, &self.name, job, tag.component)?;
        Some(AttemptDemand { lane, ask, at })
    }

    /// Forgets old waits and starts: what had to be waited for long ago may be had now, and what
    /// was got long ago means nothing any more.
    pub(super) fn forget_waits(&mut self, now: Timestamp) {
        if self
            .report
            .obtainable
            .next_expiry()
            .is_none_or(|end| end > now)
        {
            return;
        }
        let ended = Arc::make_mut(&mut self.report.obtainable).forget_expired(now);
        self.shared
            .live
            .publish_report(self.name.clone(), Arc::new(self.report.clone()));
        if ended {
            self.shared.live.note_placement_change();
            self.shared.request_planning();
            self.shared.actors.request_look_of(&ActorId::Claimer);
        }
    }
}
