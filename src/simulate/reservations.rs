//! Jobs of a simulation that are to be promised a start.

use std::sync::Arc;

use cospan_domain::acquire::{Benchmark, Objective, Preferences, ReservationTerms, Score, Scores};
use cospan_domain::reserve::StartWindow;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::grid::DescribedSite;
use super::streams::stream;

/// How far apart the reservations of a job may begin, as far as its window allows it.
const TOLERANCE: DurationMs = DurationMs::from_secs(60);

/// Which jobs want a reservation, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReservationWorkload {
    /// The share of the jobs, above 0, at most 1.
    pub share: f64,
    /// From submission to the earliest start that they accept.
    pub ahead: DurationMs,
    /// From that to the latest.
    pub within: DurationMs,
    /// Whether what is promised may be brought forward.
    pub flexible: bool,
    /// How long their processors are claimed before sites are asked; `None`: sites are asked at
    /// once.
    pub reserve_after: Option<DurationMs>,
    /// By what the sites are ranked that are asked; `None`: as the policy has them.
    pub objective: Option<Objective>,
}

/// Draws who wants one, job by job.
pub(super) struct Wishes {
    reservations: Option<ReservationWorkload>,
    /// The best result of any site in each benchmark: there jobs run as long as estimated.
    best: Scores,
    chance: StdRng,
}

impl Wishes {
    pub(super) fn new(
        reservations: Option<ReservationWorkload>,
        sites: &[DescribedSite],
        seed: u64,
    ) -> Self {
        let mut best = Scores::new();
        for (name, score) in sites.iter().flat_map(|site| &site.benchmarks) {
            let known = best.entry(name.clone()).or_default();
            *known = (*known).max(*score);
        }
        best.retain(|_, score| *score > Score(0));
        Self {
            reservations,
            best,
            chance: stream(seed, "reservations", ""),
        }
    }

    /// What a job wants that is submitted then.
    pub(super) fn draw(&mut self, submitted: Timestamp) -> Option<ReservationTerms> {
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

    /// How a job of this estimate has the sites ranked that it asks.
    pub(super) fn preferences(&self, estimate: DurationMs) -> Option<Preferences> {
        let objective = self.reservations?.objective?;
        let benchmarks = self
            .best
            .iter()
            .map(|(name, best): (&Arc<str>, &Score)| Benchmark {
                name: name.clone(),
                reference: *best,
                run_time: estimate,
            })
            .collect();
        let run_time = Some(estimate);
        Some(Preferences {
            objective,
            benchmarks,
            run_time,
            ..Preferences::default()
        })
    }
}
