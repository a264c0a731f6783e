//! Reservations that are made while the sites are ranked (the broker's paper, section 3.1), for a
//! job of one part: the best that is granted is kept, and the others are cancelled.

use super::reservation_call::{ReservationCall, ReservationOutcome};
use super::reservation_search::{
    PartReservation, ReservationSearch, ReservationSearchFailure, ReservationSearchStep,
};
use super::search_steps::ReservedStartOutcome;
use crate::reservation::agreement::StartWindow;
use crate::reservation::candidates::{CandidateState, ReservationCandidate, SiteRanking};

/// The call that is made while sites are ranked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankingCall {
    /// Makes a new reservation, at the site of this rank.
    Create(usize),
    /// Cancels the last one that was granted, because its start is wrong; the site of that rank is
    /// next.
    Cancel(usize),
    /// Confirms the first of those that were granted, which is the best.
    Confirm,
    /// Cancels the last of the others, after the best was confirmed.
    Release,
}

impl ReservationSearch {
    /// The ranking of its sites, if they are ranked by what they grant.
    pub fn probe_ranking(&self) -> Option<&SiteRanking> {
        match self.job.rankings.as_slice() {
            [ranking] if self.job.parts.len() == 1 => Some(ranking),
            _ => None,
        }
    }

    fn candidate_mut(&mut self, rank: usize) -> Option<&mut ReservationCandidate> {
        self.job.rankings.first_mut()?.candidates.get_mut(rank)
    }

    /// Returns the starts that the site of this rank is asked for.
    fn window_to_probe(&self, rank: usize) -> StartWindow {
        let accepted = self.job.window;
        let known = self
            .probe_ranking()
            .and_then(|it| Some((it.since, it.candidates.get(rank)?)));
        known.map_or(accepted, |(since, candidate)| {
            candidate.window_to_request(since, accepted)
        })
    }

    /// Calls the sites from this rank on, until enough have granted what is wanted.
    pub(super) fn probe_from_rank(&mut self, rank: usize, granted: Vec<PartReservation>) {
        let most = self
            .probe_ranking()
            .map_or(1, |ranking| ranking.most.max(1)) as usize;
        let all = self.job.parts.first().map_or(0, |part| part.sites.len());
        let mut rank = rank;
        while rank < all && granted.len() < most {
            let window = self.window_to_probe(rank);
            if !window.is_empty() {
                self.step = ReservationSearchStep::Rank {
                    granted,
                    at: RankingCall::Create(rank),
                };
                return;
            }
            // Notes the time at which the input could be there.
            self.note_next_start(Some(window.earliest));
            self.candidate_mut(rank)
                .into_iter()
                .for_each(|it| it.found = CandidateState::TooLate);
            rank += 1;
        }
        self.choose_best(granted);
    }

    /// Sorts the granted reservations, the best first.
    fn choose_best(&mut self, mut granted: Vec<PartReservation>) {
        let order = self
            .probe_ranking()
            .map(SiteRanking::candidates_best_first)
            .unwrap_or_default()
            .0;
        let sites = self
            .probe_ranking()
            .map(|ranking| ranking.candidates.as_slice())
            .unwrap_or_default();
        granted.sort_by_key(|reserved| {
            order
                .iter()
                .position(|index| sites[*index].site == reserved.site)
                .unwrap_or(usize::MAX)
        });
        match (granted.is_empty(), self.best) {
            (false, _) => {
                self.step = ReservationSearchStep::Rank {
                    granted,
                    at: RankingCall::Confirm,
                }
            }
            (true, Some(_)) => self.begin_cancelling(ReservationSearchFailure::NoCommonStart),
            (true, None) => self.begin_cancelling(ReservationSearchFailure::Never),
        }
    }

    pub(super) fn probing_call(
        &self,
        granted: &[PartReservation],
        at: &RankingCall,
    ) -> Option<ReservationCall> {
        match at {
            RankingCall::Create(rank) => {
                let site = self.job.parts.first()?.sites.get(*rank)?;
                Some(self.creating_call_at(0, site, self.window_to_probe(*rank)))
            }
            RankingCall::Cancel(_) | RankingCall::Release => {
                granted
                    .last()
                    .map(|PartReservation { site, serial, .. }: &PartReservation| {
                        ReservationCall::Cancel {
                            site: site.clone(),
                            serial: *serial,
                        }
                    })
            }
            RankingCall::Confirm => {
                granted.first().map(|PartReservation { site, serial, .. }| {
                    ReservationCall::Confirm {
                        site: site.clone(),
                        serial: *serial,
                    }
                })
            }
        }
    }

    pub(super) fn apply_probing_outcome(
        &mut self,
        granted: Vec<PartReservation>,
        at: RankingCall,
        outcome: ReservationOutcome,
    ) {
        match at {
            RankingCall::Create(rank) => self.apply_probed_site(rank, granted, outcome),
            RankingCall::Cancel(rank) => self.probe_from_rank(rank, without_last(granted)),
            RankingCall::Confirm => self.apply_best_confirmed(granted, outcome),
            RankingCall::Release => self.cancel_others(without_last(granted)),
        }
    }

    fn apply_probed_site(
        &mut self,
        rank: usize,
        mut granted: Vec<PartReservation>,
        outcome: ReservationOutcome,
    ) {
        let start = ReservedStartOutcome::from_outcome(outcome, self.window_to_probe(rank));
        let site = self.job.parts[0].sites[rank].clone();
        let serial = self.take_serial();
        let (found, at) = match start {
            ReservedStartOutcome::Right(start) => {
                granted.push(PartReservation {
                    site,
                    serial,
                    start,
                });
                (CandidateState::Granted(start), None)
            }
            ReservedStartOutcome::Wrong(start) => {
                granted.push(PartReservation {
                    site,
                    serial,
                    start,
                });
                (
                    CandidateState::Refused(None),
                    Some(RankingCall::Cancel(rank + 1)),
                )
            }
            ReservedStartOutcome::None { next, .. } => {
                self.note_next_start(next);
                (CandidateState::Refused(next), None)
            }
        };
        self.candidate_mut(rank)
            .into_iter()
            .for_each(|candidate| candidate.found = found);
        match at {
            Some(at) => self.step = ReservationSearchStep::Rank { granted, at },
            None => self.probe_from_rank(rank + 1, granted),
        }
    }

    /// Falls back to the next best, if the best is gone when it is to be confirmed.
    fn apply_best_confirmed(
        &mut self,
        mut granted: Vec<PartReservation>,
        outcome: ReservationOutcome,
    ) {
        let best = granted.remove(0);
        match outcome {
            ReservationOutcome::Done | ReservationOutcome::Granted { .. } => {
                self.held[0] = Some(best);
                self.cancel_others(granted);
            }
            ReservationOutcome::Lost { .. } => {
                let sites = self
                    .job
                    .rankings
                    .iter_mut()
                    .flat_map(|it| &mut it.candidates);
                let lost = sites.filter(|candidate| candidate.site == best.site);
                lost.for_each(|candidate| candidate.found = CandidateState::Lost);
                if granted.is_empty() {
                    self.begin_cancelling(ReservationSearchFailure::LostAtTheEnd)
                } else {
                    self.step = ReservationSearchStep::Rank {
                        granted,
                        at: RankingCall::Confirm,
                    }
                }
            }
            ReservationOutcome::Refused { .. } => {
                granted.push(best);
                self.step = ReservationSearchStep::Rank {
                    granted,
                    at: RankingCall::Confirm,
                };
                self.begin_cancelling(ReservationSearchFailure::LostAtTheEnd);
            }
        }
    }

    /// Cancels the others, after the best was confirmed.
    fn cancel_others(&mut self, granted: Vec<PartReservation>) {
        self.step = if granted.is_empty() {
            ReservationSearchStep::Confirmed
        } else {
            ReservationSearchStep::Rank {
                granted,
                at: RankingCall::Release,
            }
        };
    }
}

fn without_last(mut granted: Vec<PartReservation>) -> Vec<PartReservation> {
    granted.pop();
    granted
}
