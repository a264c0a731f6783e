//! The bandwidths of links between sites and their latencies: as measured, else as configured.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::SiteName;
use cospan_domain::placement::{SiteLink, SiteNetwork};
use cospan_domain::transfer::measured_bandwidth::{MeasuredBandwidth, TransferRates};
use cospan_domain::transfer::measured_latency::{MeasuredLatency, SiteLatencies};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, DurationUs, Timestamp};

use crate::actor_settings::ActorSettings;
use crate::clock::Clock;
use crate::metrics::ControlPlaneMetrics;

type SitePair = (SiteName, SiteName);

/// A link in one direction, as it is known now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFigures {
    /// The site where the link begins.
    pub from: SiteName,
    /// The site where the link ends.
    pub to: SiteName,
    /// The bandwidth by which placement and transfers count.
    pub bandwidth: BitsPerSecond,
    /// The configured bandwidth.
    pub configured: BitsPerSecond,
    /// The bandwidth of past transfers, if there were any lately.
    pub measured: Option<MeasuredBandwidth>,
    /// The latency by which placement counts, if it is known.
    pub latency: Option<DurationUs>,
    /// The configured latency, if any.
    pub configured_latency: Option<DurationMs>,
    /// The latency that the site at the link's begin measured, if it did so lately.
    pub measured_latency: Option<MeasuredLatency>,
}

/// Every link, and the network that policies look at. The network follows each measurement when
/// that is made, since there are as many links as sites squared.
struct LinkTable {
    settings: Arc<ActorSettings>,
    rates: TransferRates,
    latencies: SiteLatencies,
    network: Arc<SiteNetwork>,
    /// Links whose figures differ from the configured ones.
    measured: BTreeSet<SitePair>,
    /// The time at which the first of these measurements is too old.
    fresh_until: Option<Timestamp>,
}

impl LinkTable {
    /// Makes the table as configured.
    fn new(settings: Arc<ActorSettings>) -> Self {
        let network = &settings.network;
        let links = settings
            .links
            .iter()
            .map(|(pair, bandwidth): (&SitePair, &BitsPerSecond)| SiteLink {
                from: pair.0.clone(),
                to: pair.1.clone(),
                bandwidth: *bandwidth,
                upload: network.uploads.get(pair).copied().unwrap_or(*bandwidth),
                latency: network
                    .latencies
                    .get(pair)
                    .copied()
                    .unwrap_or_default()
                    .into(),
            });
        Self {
            rates: TransferRates::new(network.rates.clone()),
            latencies: SiteLatencies::new(network.latency_interval),
            network: Arc::new(
                SiteNetwork::new(links, network.message).with_bid_bandwidths(network.bids),
            ),
            measured: BTreeSet::new(),
            fresh_until: None,
            settings,
        }
    }

    fn link_figures(&self, pair: SitePair, now: Timestamp) -> Option<LinkFigures> {
        let configured = *self.settings.links.get(&pair)?;
        let configured_latency = self.settings.network.latencies.get(&pair).copied();
        let (from, to) = pair;
        let measured = self.rates.rate_of(&from, &to, now);
        let measured_latency = self.latencies.latency_of(&from, &to, now);
        let latency = measured_latency.map(|measured| measured.latency);
        Some(LinkFigures {
            bandwidth: effective_bandwidth(configured, measured.as_ref()),
            configured,
            measured,
            latency: latency.or(configured_latency.map(DurationUs::from)),
            configured_latency,
            measured_latency,
            from,
            to,
        })
    }

    /// Enters what is known of a link into the network.
    fn update_link(&mut self, pair: SitePair, now: Timestamp) {
        let Some(standing) = self.link_figures(pair, now) else {
            return;
        };
        let rate = standing
            .measured
            .map(|measured| self.rates.rate_expires_at(&measured));
        let latency = standing
            .measured_latency
            .map(|measured| self.latencies.latency_expires_at(&measured));
        let upload = self.upload_bandwidth(&standing);
        let LinkFigures {
            from,
            to,
            bandwidth,
            latency: known,
            ..
        } = standing;
        let link = SiteLink {
            from,
            to,
            bandwidth,
            upload,
            latency: known.unwrap_or_default(),
        };
        Arc::make_mut(&mut self.network).set_link(&link, rate.is_some());
        if let Some(until) = rate.into_iter().chain(latency).min() {
            self.fresh_until = Some(self.fresh_until.map_or(until, |first| first.min(until)));
            self.measured.insert((link.from, link.to));
        }
    }

    /// Returns what the site where a link begins sends: as measured, else as configured.
    fn upload_bandwidth(&self, link: &LinkFigures) -> BitsPerSecond {
        if link.measured.is_some() {
            return link.bandwidth;
        }
        let pair = (link.from.clone(), link.to.clone());
        let configured = self.settings.network.uploads.get(&pair).copied();
        configured.unwrap_or(link.bandwidth)
    }

    /// The network as it is known now.
    fn current_network(&mut self, now: Timestamp) -> Arc<SiteNetwork> {
        if self.fresh_until.is_some_and(|until| until <= now) {
            self.fresh_until = None;
            for pair in std::mem::take(&mut self.measured) {
                self.update_link(pair, now);
            }
        }
        self.network.clone()
    }
}

/// Knowledge of the links, for all who plan by it or add to it.
pub struct LinkMeasurements {
    table: Mutex<LinkTable>,
    settings: Arc<ActorSettings>,
    clock: Arc<dyn Clock>,
    metrics: Arc<ControlPlaneMetrics>,
}

impl LinkMeasurements {
    /// Begins with the links as configured.
    pub(crate) fn new(
        settings: Arc<ActorSettings>,
        clock: Arc<dyn Clock>,
        metrics: Arc<ControlPlaneMetrics>,
    ) -> Self {
        Self {
            table: Mutex::new(LinkTable::new(settings.clone())),
            settings,
            clock,
            metrics,
        }
    }

    fn lock_links(&self) -> MutexGuard<'_, LinkTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bandwidth of a link; `None` if there is none.
    pub(crate) fn link_bandwidth(&self, from: &SiteName, to: &SiteName) -> Option<BitsPerSecond> {
        self.known_link(from, to).map(|link| link.bandwidth)
    }

    /// Returns what is known of a link; `None` if there is none.
    pub(crate) fn known_link(&self, from: &SiteName, to: &SiteName) -> Option<LinkFigures> {
        self.lock_links()
            .link_figures((from.clone(), to.clone()), self.clock.now())
    }

    /// The links as policies look at them.
    pub(crate) fn network(&self) -> Arc<SiteNetwork> {
        self.lock_links().current_network(self.clock.now())
    }

    /// Records a transfer over a link, by the bytes that it moved in this time. Returns true if jobs
    /// may be placed by a new bandwidth.
    pub(crate) fn record_transfer(
        &self,
        pair: SitePair,
        moved: Bytes,
        time: DurationMs,
        now: Timestamp,
    ) -> bool {
        if !self.settings.links.contains_key(&pair) {
            return false;
        }
        let mut links = self.lock_links();
        if !links.rates.add_transfer(pair.clone(), moved, time, now) {
            return false;
        }
        links.update_link(pair.clone(), now);
        drop(links);
        let Some(bandwidth) = self.link_bandwidth(&pair.0, &pair.1) else {
            return false;
        };
        let gauge = &self.metrics.link_bandwidth;
        let bytes = i64::try_from(bandwidth.0 / 8).unwrap_or(i64::MAX);
        gauge
            .with_label_values(&[pair.0.as_str(), pair.1.as_str()])
            .set(bytes);
        true
    }

    /// Records the round trip of a message over a link. No actor is asked to look: no job can be
    /// placed because of it, only elsewhere.
    pub(crate) fn record_round_trip(&self, pair: SitePair, round_trip: DurationUs, now: Timestamp) {
        let mut links = self.lock_links();
        links
            .latencies
            .add_round_trip(pair.clone(), round_trip, now);
        links.update_link(pair, now);
    }
}

/// Returns the bandwidth in force. A copy keeps to what is configured: a measurement above it is
/// chance.
fn effective_bandwidth(
    configured: BitsPerSecond,
    measured: Option<&MeasuredBandwidth>,
) -> BitsPerSecond {
    measured.map_or(configured, |measured| measured.bandwidth.min(configured))
}
