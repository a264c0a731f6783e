//! Metrics of reservations.

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec};

use super::MetricMaker;

/// Counters and gauges of reservations.
#[derive(Debug, Clone)]
pub struct ReservationMetrics {
    /// Reservations at sites for jobs, by site and state.
    pub held: IntGaugeVec,
    /// Requests that a site refused, by site and whether it may grant the same later.
    pub refused: IntCounterVec,
    /// Reservations that were gone when a site was asked about them, by site.
    pub lost: IntCounterVec,
    /// Reservations that nobody needed any more, found at a site and cancelled, by site.
    pub orphans: IntCounterVec,
    /// Reservations that were to be rescheduled, by outcome.
    pub moves: IntCounterVec,
    /// Processor time that was reserved, from the beginning of a reservation to the end of its job.
    pub processor_seconds: IntCounter,
    /// The part of that time in which nothing ran.
    pub unused_processor_seconds: IntCounter,
}

impl ReservationMetrics {
    pub(super) fn new(make: &MetricMaker<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            held: make.make_gauge_vec(
                "cospan_reservations",
                "Reservations that sites hold for jobs, by site and state.",
                &["site", "state"],
            )?,
            refused: make.make_counter_vec_by(
                "cospan_reservation_refusals_total",
                "Requests for a reservation that a site refused, by whether it may grant it later.",
                &["site", "reason"],
            )?,
            lost: make.make_counter_vec(
                "cospan_reservations_lost_total",
                "Reservations that were gone when their site was asked about them.",
                "site",
            )?,
            orphans: make.make_counter_vec(
                "cospan_reservation_orphans_total",
                "Reservations found at a site that no job needed any more, and cancelled.",
                "site",
            )?,
            moves: make.make_counter_vec(
                "cospan_reservation_moves_total",
                "Reservations that were to be moved, by outcome.",
                "outcome",
            )?,
            processor_seconds: make.make_counter(
                "cospan_reserved_processor_seconds_total",
                "Processor time reserved, from a reservation's begin to its job's end.",
            )?,
            unused_processor_seconds: make.make_counter(
                "cospan_reserved_unused_processor_seconds_total",
                "Processor time reserved in which nothing ran.",
            )?,
        })
    }
}
