//! The sites that a part of a job may be reserved at, with what is predicted for it there.

use super::ranking::{Prediction, StartWait, earliest_to_ask, predict, rank};
use crate::acquire::Objective;
use crate::ids::SiteName;
use crate::reserve::agreement::StartWindow;
use crate::units::{DurationMs, Timestamp};

/// How the sites of a part are ranked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    /// By what.
    pub objective: Objective,
    /// What is predicted counts from then on.
    pub since: Timestamp,
    /// How long it takes until the output is where it is wanted.
    pub stage_out: DurationMs,
    /// So many sites are to grant a reservation, so that the best of them is chosen.
    pub most: u32,
    /// The sites, as they come.
    pub candidates: Vec<ReservationCandidate>,
}

/// A site that may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationCandidate {
    /// Its name.
    pub site: SiteName,
    /// How long it takes until the input is there. `None`: nobody knows, and it counts as zero.
    pub stage_in: Option<DurationMs>,
    /// How long the part runs there. `None`: nobody knows.
    pub execution: Option<DurationMs>,
    /// When a reservation could begin there by what the site had published; `None`: it published
    /// nothing that is long enough.
    pub expected: Option<Timestamp>,
    /// What it said.
    pub found: CandidateState,
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CandidateState {
    /// It was not asked.
    #[default]
    NotAsked,
    /// The input would be there after the latest start: it was not asked.
    TooLate,
    /// It granted a reservation that begins then.
    Granted(Timestamp),
    /// It said no; it may grant one from then on, if it said so.
    Refused(Option<Timestamp>),
    /// It granted one, and had it no more when it was to keep it.
    Lost,
}

impl ReservationCandidate {
    /// When a reservation would begin there: as was granted, or else as is expected.
    pub fn start(&self) -> Option<Timestamp> {
        match self.found {
            CandidateState::Granted(start) => Some(start),
            CandidateState::NotAsked => self.expected,
            CandidateState::TooLate | CandidateState::Refused(_) | CandidateState::Lost => None,
        }
    }

    /// The starts that it is asked for, of those that are accepted: not before the input is there.
    pub fn window(&self, since: Timestamp, accepted: StartWindow) -> StartWindow {
        let ready = earliest_to_ask(since, self.stage_in.unwrap_or_default());
        StartWindow::new(accepted.earliest.max(ready), accepted.latest)
    }
}

impl Ranking {
    /// The same, counted from now on, before anybody was asked.
    pub fn anew(&self, now: Timestamp) -> Self {
        let candidates = self
            .candidates
            .iter()
            .map(|candidate: &ReservationCandidate| ReservationCandidate {
                expected: None,
                found: CandidateState::NotAsked,
                ..candidate.clone()
            })
            .collect();
        Self {
            since: now,
            candidates,
            ..self.clone()
        }
    }

    /// What is predicted for a candidate; `None`: nobody knows when it could start there.
    pub fn prediction(&self, candidate: &ReservationCandidate) -> Option<Prediction> {
        let staging = (candidate.stage_in.unwrap_or_default(), self.stage_out);
        let wait = StartWait::Reserved(candidate.start()?);
        Some(predict(
            candidate.site.clone(),
            self.since,
            wait,
            staging,
            candidate.execution,
        ))
    }

    /// Indexes of the candidates that could start, the best first; and by what they compare.
    pub fn best_first(&self) -> (Vec<usize>, Objective) {
        let mut predictions: Vec<Prediction> = self
            .candidates
            .iter()
            .filter_map(|candidate| self.prediction(candidate))
            .collect();
        let by = rank(&mut predictions, self.objective);
        (
            predictions
                .iter()
                .filter_map(|prediction: &Prediction| {
                    self.candidates
                        .iter()
                        .position(|candidate| candidate.site == prediction.site)
                })
                .collect(),
            by,
        )
    }

    /// By what its candidates compare.
    pub fn compares_by(&self) -> Objective {
        self.best_first().1
    }

    /// Puts its candidates in order: the best by what is expected first, then those of which
    /// nobody knows when they could start. Returns which came where.
    pub fn arrange(&mut self) -> Vec<usize> {
        let (mut order, _) = self.best_first();
        let rest: Vec<usize> = (0..self.candidates.len())
            .filter(|index| !order.contains(index))
            .collect();
        order.extend(rest);
        self.candidates = order
            .iter()
            .map(|index| self.candidates[*index].clone())
            .collect();
        order
    }
}
