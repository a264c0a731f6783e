//! Jobs of a simulation that are to be promised a start.

use cospan_domain::acquire::ReservationWish;
use cospan_domain::reserve::StartWindow;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::streams::stream;

/// How far apart the reservations of a job may begin, as far as its window allows it.
const TOLERANCE: DurationMs = DurationMs::from_secs(60);

/// Which jobs want a reservation, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reservations {
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
}

/// Draws who wants one, job by job.
pub(super) struct Wishes {
    reservations: Option<Reservations>,
    chance: StdRng,
}

impl Wishes {
    pub(super) fn new(reservations: Option<Reservations>, seed: u64) -> Self {
        Self { reservations, chance: stream(seed, "reservations", "") }
    }

    /// What a job wants that is submitted then.
    pub(super) fn draw(&mut self, submitted: Timestamp) -> Option<ReservationWish> {
        let Reservations { share, ahead, within, flexible, reserve_after } = self.reservations?;
        let wants = self.chance.random::<f64>() < share;
        let earliest = submitted + ahead;
        let window = StartWindow::new(earliest, earliest + within);
        let tolerance = TOLERANCE.min(within);
        wants.then_some(ReservationWish {
            window,
            tolerance,
            flexible,
            reserve_after,
            ..ReservationWish::default()
        })
    }
}
