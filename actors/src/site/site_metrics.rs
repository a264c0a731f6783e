//! The gauges of one site. They are looked up once: that takes longer than setting them, and they
//! are set after every poll.

use cospan_domain::ids::SiteName;
use prometheus::IntGauge;

use crate::metrics::ControlPlaneMetrics;

/// Labels of `cospan_site_state`.
const STATES: [&str; 11] = [
    "unknown",
    "usable",
    "unusable",
    "probing",
    "draining",
    "drained",
    "maintenance",
    "credentials-expired",
    "unreachable",
    "silent",
    "frozen",
];

/// The gauges of one site.
pub(super) struct SiteGauges {
    /// All processors of the site.
    pub(super) total: IntGauge,
    /// Processors that were idle when the site was asked last.
    pub(super) idle: IntGauge,
    /// Processors that jobs have or will claim.
    pub(super) held: IntGauge,
    /// Calls to any site that wait or are under way.
    pub(super) calls: IntGauge,
    states: [IntGauge; STATES.len()],
}

impl SiteGauges {
    pub(super) fn new(metrics: &ControlPlaneMetrics, site: &SiteName) -> Self {
        let processors = &metrics.site_processors;
        let [total, idle, held] = ["total", "idle", "held"]
            .map(|usage| processors.with_label_values(&[site.as_str(), usage]));
        Self {
            total,
            idle,
            held,
            calls: metrics.mailbox_depth.with_label_values(&["cluster"]),
            states: STATES.map(|name| metrics.site_state.with_label_values(&[site.as_str(), name])),
        }
    }

    /// Shows that the site is in this state, and in no other.
    pub(super) fn set_state_gauges(&self, state: &str) {
        for (name, gauge) in STATES.iter().zip(&self.states) {
            gauge.set(i64::from(*name == state));
        }
    }
}
