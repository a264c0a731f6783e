//! The latency from this site to others: each one that can be reached is measured in turn.
//!
//! A failure is not charged to this site: the other end, or the way there, may be at fault. The
//! earlier measurement stays, and grows older.

use std::collections::BTreeSet;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use cospan_domain::ids::{HostName, SiteName};
use cospan_domain::units::{DurationMs, DurationUs, Timestamp};
use cospan_sites::port::{SiteCallKind, SiteError};
use tracing::{debug, info, warn};

use super::ClusterActor;
use super::calls::call_outcome_label;
use crate::context::SharedState;

/// A site that takes longer counts as one without an answer.
const LONGEST: DurationMs = DurationMs(30_000);
/// The shortest pause between two measurements, however many sites there are.
const STEP_MIN: DurationMs = DurationMs(1_000);

/// The sites to which this one measures its latency, one after another.
#[derive(Debug)]
pub(super) struct RoundTripSchedule {
    peers: Vec<(SiteName, HostName)>,
    /// The index of the next peer.
    next: usize,
    /// The time of the next measurement.
    due: Timestamp,
    /// The pause from one measurement to the next.
    step: DurationMs,
    /// A measurement is under way.
    under_way: bool,
    /// Peers whose latest measurement failed, and was logged.
    failing: BTreeSet<SiteName>,
}

impl RoundTripSchedule {
    /// Schedules every site that this one has a link to and that has a host. Sites begin one after
    /// another, so that not all of them measure at once.
    pub(super) fn new(shared: &SharedState, name: &SiteName) -> Self {
        let settings = &shared.settings;
        let interval = settings.network.latency_interval;
        let hosts = settings.network.hosts.iter();
        let reachable = hosts.filter(|(to, _)| {
            interval > DurationMs::ZERO
                && settings.links.contains_key(&(name.clone(), (*to).clone()))
        });
        let peers: Vec<_> = reachable
            .map(|(to, host)| (to.clone(), host.clone()))
            .collect();
        let step = DurationMs(interval.0 / (peers.len() as u64).max(1)).max(STEP_MIN);
        let number = shared.sites.keys().take_while(|site| *site != name).count() as u64 + 1;
        let wait = DurationMs(step.0 * number / (shared.sites.len() as u64).max(1));
        let due = shared.clock.now() + wait;
        Self {
            peers,
            next: 0,
            due,
            step,
            under_way: false,
            failing: BTreeSet::new(),
        }
    }

    fn next_measurement_due(&self) -> Option<Timestamp> {
        (!self.under_way && !self.peers.is_empty()).then_some(self.due)
    }

    /// Takes the next peer, and sets the turn of the one after it a step later.
    fn take_peer(&mut self, now: Timestamp) -> Option<(SiteName, HostName)> {
        let peer = self.peers.get(self.next).cloned()?;
        self.next = (self.next + 1) % self.peers.len();
        self.due = now + self.step;
        self.under_way = true;
        Some(peer)
    }
}

impl ClusterActor {
    /// Returns when this site is to measure its next latency; `None` while it does, or cannot.
    pub(super) fn next_measurement(&self) -> Option<Timestamp> {
        self.contact
            .contact()
            .is_answering()
            .then(|| self.schedule.next_measurement_due())?
    }

    /// Has the site measure the latency to the next peer. Nothing waits for that.
    pub(super) fn measure_if_due(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        if self.next_measurement().is_none_or(|due| due > now) {
            return;
        }
        let Some((peer, host)) = self.schedule.take_peer(now) else {
            return;
        };
        let site = self.site.clone();
        let asked = async move { site.monitor().round_trip(&host).await };
        let answered = tokio::time::timeout(Duration::from_millis(LONGEST.0), asked);
        ctx.spawn(answered.into_actor(self).map(move |answer, this, ctx| {
            let answer = answer.unwrap_or_else(|_| {
                let late = format!("no answer within {LONGEST}");
                Err(SiteError::OutcomeUnknown(late))
            });
            this.record_measurement(peer, answer);
            let now = this.now();
            this.set_wake_timer(ctx, now);
        }));
    }

    fn record_measurement(&mut self, peer: SiteName, answer: Result<DurationUs, SiteError>) {
        self.schedule.under_way = false;
        let labels = [
            SiteCallKind::RoundTrip.as_str(),
            call_outcome_label(&answer),
        ];
        self.shared
            .metrics
            .site_calls
            .with_label_values(&labels)
            .inc();
        let site = &self.name;
        match answer {
            Ok(round_trip) => {
                if self.schedule.failing.remove(&peer) {
                    info!(%site, %peer, %round_trip, "the latency to a site is measured again");
                }
                self.shared
                    .links
                    .record_round_trip((site.clone(), peer), round_trip, self.now());
            }
            Err(error) if !self.schedule.failing.contains(&peer) => {
                warn!(
                    %site, %peer, %error,
                    "cannot measure the latency to a site; the last measurement counts, else the \
                     configured latency"
                );
                self.schedule.failing.insert(peer);
            }
            Err(error) => debug!(%site, %peer, %error, "the latency is still not measured"),
        }
    }
}
