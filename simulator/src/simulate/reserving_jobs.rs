//! Jobs of a simulation that want reservations.

use std::sync::Arc;

use cospan_domain::acquisition::{
    BenchmarkScore, BenchmarkScores, JobBenchmark, RankingObjective, RankingPreferences,
    ReservationTerms,
};
use cospan_domain::reservation::StartWindow;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::grid::DescribedSite;
use super::random_streams::random_stream;

/// Tolerance of the starts of a job's reservations, as far as its window allows it.
const TOLERANCE: DurationMs = DurationMs::from_secs(60);

/// The jobs that want reservations, and their terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReservationWorkload {
    /// The share of the jobs, above 0, at most 1.
    pub share: f64,
    /// From submission to the earliest start that they accept.
    pub ahead: DurationMs,
    /// From the earliest to the latest start.
    pub within: DurationMs,
    /// True if reservations may be rescheduled to earlier starts.
    pub flexible: bool,
    /// Time for which their processors are claimed before sites are asked; `None`: sites are asked
    /// at once.
    pub reserve_after: Option<DurationMs>,
    /// The objective by which sites are ranked; `None`: that of the policy.
    pub objective: Option<RankingObjective>,
}

/// Draws the jobs that want reservations, one by one.
pub(super) struct ReservingJobDraws {
    reservations: Option<ReservationWorkload>,
    /// The best result of any site in each benchmark: there jobs run as long as estimated.
    best: BenchmarkScores,
    chance: StdRng,
}

impl ReservingJobDraws {
    pub(super) fn new(
        reservations: Option<ReservationWorkload>,
        sites: &[DescribedSite],
        seed: u64,
    ) -> Self {
        let mut best = BenchmarkScores::new();
        for (name, score) in sites.iter().flat_map(|site| &site.benchmarks) {
            let known = best.entry(name.clone()).or_default();
            *known = (*known).max(*score);
        }
        best.retain(|_, score| *score > BenchmarkScore(0));
        Self {
            reservations,
            best,
            chance: random_stream(seed, "reservations", ""),
        }
    }

    /// Draws the terms of a job that is submitted then.
    pub(super) fn draw_terms(&mut self, submitted: Timestamp) -> Option<ReservationTerms> {
        let ReservationWorkload {
            share,
            ahead,
            within,
            flexible,
            reserve_after,
            ..
        } = self.reservations?;
        let wants = self.chance.random::<f64>() < share;
        let earliest = submitted + ahead;
        let window = StartWindow::new(earliest, earliest + within);
        let tolerance = TOLERANCE.min(within);
        wants.then_some(ReservationTerms {
            window,
            tolerance,
            flexible,
            reserve_after,
            ..ReservationTerms::default()
        })
    }

    /// The preferences of a job with this estimate, by which its sites are ranked.
    pub(super) fn preferences_for(&self, estimate: DurationMs) -> Option<RankingPreferences> {
        let objective = self.reservations?.objective?;
        let benchmarks = self
            .best
            .iter()
            .map(|(name, best): (&Arc<str>, &BenchmarkScore)| JobBenchmark {
                name: name.clone(),
                reference: *best,
                run_time: estimate,
            })
            .collect();
        let run_time = Some(estimate);
        Some(RankingPreferences {
            objective,
            benchmarks,
            run_time,
            ..RankingPreferences::default()
        })
    }
}
