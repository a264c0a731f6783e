//! Metrics of rehearsals. Labels: the known sites, and the known faults.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// Metrics of injected faults.
#[derive(Debug, Clone)]
pub struct ChaosMetrics {
    /// Faults that are being injected now.
    pub active: IntGauge,
    /// Calls that got a fault, by site and kind of fault.
    pub strikes: IntCounterVec,
}

impl ChaosMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    ///
    /// A metric with one of these names is registered already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            active: IntGauge::new(
                "cospan_chaos_injections_active",
                "Faults that are being injected on purpose.",
            )?,
            strikes: IntCounterVec::new(
                Opts::new(
                    "cospan_chaos_strikes_total",
                    "Calls to sites that a fault injected on purpose has struck.",
                ),
                &["site", "kind"],
            )?,
        };
        registry.register(Box::new(metrics.active.clone()))?;
        registry.register(Box::new(metrics.strikes.clone()))?;
        Ok(metrics)
    }
}
