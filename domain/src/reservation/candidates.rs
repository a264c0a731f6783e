//! The sites that may reserve for a part of a job, with the predictions for it there.

use super::ranking::{
    SitePrediction, StartWait, earliest_start_with_input, predict_times, rank_sites,
};
use crate::acquisition::RankingObjective;
use crate::ids::SiteName;
use crate::reservation::agreement::StartWindow;
use crate::units::{DurationMs, Timestamp};

/// The ranking of the sites of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRanking {
    /// The objective to rank by.
    pub objective: RankingObjective,
    /// The time that predictions count from.
    pub since: Timestamp,
    /// Time until the output is where it is wanted.
    pub stage_out: DurationMs,
    /// The number of sites that are to grant a reservation, so that the best of them is chosen.
    pub most: u32,
    pub candidates: Vec<ReservationCandidate>,
}

/// A site that may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationCandidate {
    pub site: SiteName,
    /// Time until the input is there. `None`: unknown, and counted as zero.
    pub stage_in: Option<DurationMs>,
    /// Run time of the part there. `None`: unknown.
    pub execution: Option<DurationMs>,
    /// The earliest start of a reservation by what the site had published; `None`: it published
    /// nothing that is long enough.
    pub expected: Option<Timestamp>,
    /// The answer of the site.
    pub found: CandidateState,
}

/// The outcome for a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CandidateState {
    /// It was not asked.
    #[default]
    NotAsked,
    /// It was not asked, because the input would be there after the latest start.
    TooLate,
    /// It granted a reservation with this start.
    Granted(Timestamp),
    /// It refused; it may grant one from this time on, if it said so.
    Refused(Option<Timestamp>),
    /// It granted one, which was gone when it was to be confirmed.
    Lost,
}

impl ReservationCandidate {
    /// Returns the start of a reservation there: the granted one, else the expected one.
    pub fn start_at_site(&self) -> Option<Timestamp> {
        match self.found {
            CandidateState::Granted(start) => Some(start),
            CandidateState::NotAsked => self.expected,
            CandidateState::TooLate | CandidateState::Refused(_) | CandidateState::Lost => None,
        }
    }

    /// Narrows the accepted starts to those that the site is asked for: none before the input is
    /// there.
    pub fn window_to_request(&self, since: Timestamp, accepted: StartWindow) -> StartWindow {
        let ready = earliest_start_with_input(since, self.stage_in.unwrap_or_default());
        StartWindow::new(accepted.earliest.max(ready), accepted.latest)
    }
}

impl SiteRanking {
    /// Returns the same ranking, predicted from now on, as it was before any site was asked.
    pub fn predicted_from(&self, now: Timestamp) -> Self {
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

    /// Predicts the times for a candidate; `None`: nobody knows when it could start there.
    pub fn predict_candidate(&self, candidate: &ReservationCandidate) -> Option<SitePrediction> {
        let staging = (candidate.stage_in.unwrap_or_default(), self.stage_out);
        let wait = StartWait::Reserved(candidate.start_at_site()?);
        Some(predict_times(
            candidate.site.clone(),
            self.since,
            wait,
            staging,
            candidate.execution,
        ))
    }

    /// Returns the indexes of the candidates that could start, the best first, and what they were
    /// compared by.
    pub fn candidates_best_first(&self) -> (Vec<usize>, RankingObjective) {
        let mut predictions: Vec<SitePrediction> = self
            .candidates
            .iter()
            .filter_map(|candidate| self.predict_candidate(candidate))
            .collect();
        let by = rank_sites(&mut predictions, self.objective);
        (
            predictions
                .iter()
                .filter_map(|prediction: &SitePrediction| {
                    self.candidates
                        .iter()
                        .position(|candidate| candidate.site == prediction.site)
                })
                .collect(),
            by,
        )
    }

    /// Returns what its candidates were compared by.
    pub fn effective_objective(&self) -> RankingObjective {
        self.candidates_best_first().1
    }

    /// Sorts its candidates: the best expected one first, and those last of which nobody knows when
    /// they could start. Returns the old index of each.
    pub fn sort_candidates(&mut self) -> Vec<usize> {
        let (mut order, _) = self.candidates_best_first();
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
