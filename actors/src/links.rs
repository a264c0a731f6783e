//! What the links between sites carry: as past transfers had it, else as configured.

use std::sync::{MutexGuard, PoisonError};

use cospan_domain::ids::SiteName;
use cospan_domain::transfer::rates::{Measured, Rates};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};

use crate::shared::Shared;

/// One link in one direction, as it is known now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkStanding {
    /// Where it begins.
    pub from: SiteName,
    /// Where it ends.
    pub to: SiteName,
    /// What placement and transfers reckon with.
    pub bandwidth: BitsPerSecond,
    /// What is configured.
    pub configured: BitsPerSecond,
    /// How long the first bit takes, if that is configured.
    pub latency: Option<DurationMs>,
    /// What past transfers had, if there were any lately.
    pub measured: Option<Measured>,
}

impl Shared {
    fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a link carries; `None` if there is none.
    pub(crate) fn bandwidth(&self, from: &SiteName, to: &SiteName) -> Option<BitsPerSecond> {
        self.link(from, to).map(|link| link.bandwidth)
    }

    /// What is known of a link; `None` if there is none.
    pub(crate) fn link(&self, from: &SiteName, to: &SiteName) -> Option<LinkStanding> {
        let pair = (from.clone(), to.clone());
        let configured = *self.settings.links.get(&pair)?;
        let measured = self.rates().get(from, to, self.clock.now());
        Some(LinkStanding {
            bandwidth: in_effect(configured, measured.as_ref()),
            configured,
            latency: self.settings.network.latencies.get(&pair).copied(),
            measured,
            from: pair.0,
            to: pair.1,
        })
    }

    /// All links that end at a site, by where they begin.
    pub(crate) fn links_to(&self, to: &SiteName) -> Vec<LinkStanding> {
        self.sites.keys().filter_map(|from| self.link(from, to)).collect()
    }

    /// Links that were measured lately, with what they carry.
    pub(crate) fn measured_links(&self) -> Vec<((SiteName, SiteName), BitsPerSecond)> {
        let rates = self.rates();
        let fresh = rates.fresh(self.clock.now()).filter_map(|(pair, measured)| {
            let configured = *self.settings.links.get(pair)?;
            Some((pair.clone(), in_effect(configured, Some(&measured))))
        });
        fresh.collect()
    }

    /// A transfer over a link moved so much in this time.
    pub(crate) fn transferred(
        &self,
        pair: (SiteName, SiteName),
        moved: Bytes,
        time: DurationMs,
        now: Timestamp,
    ) {
        if !self.settings.links.contains_key(&pair) {
            return;
        }
        let counts = self.rates().observe(pair.clone(), moved, time, now);
        let Some(bandwidth) = counts.then(|| self.bandwidth(&pair.0, &pair.1)).flatten() else {
            return;
        };
        let gauge = &self.metrics.link_bandwidth;
        let bytes = i64::try_from(bandwidth.0 / 8).unwrap_or(i64::MAX);
        gauge.with_label_values(&[pair.0.as_str(), pair.1.as_str()]).set(bytes);
        // Jobs may be placed by what is known now.
        self.switchboard.co_allocator.look(&());
    }
}

/// A copy keeps to what is configured: a measurement above it is chance.
fn in_effect(configured: BitsPerSecond, measured: Option<&Measured>) -> BitsPerSecond {
    measured.map_or(configured, |measured| measured.bandwidth.min(configured))
}
