//! Puts the sites that a job may ask in the order of its preferences.

use std::collections::BTreeMap;

use crate::acquisition::{BenchmarkScores, RankingPreferences};
use crate::ids::{ComponentIndex, SiteName};
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::Job;
use crate::job::spec::JobSpec;
use crate::placed::Placement;
use crate::reservation::{
    CandidateState, OpeningRequest, ReservationCandidate, ResourceAmounts, SiteRanking,
    StartWindow, Timeline, reservation_length,
};
use crate::units::{DurationMs, Timestamp};

/// Knowledge about the sites when they are ranked.
#[derive(Debug)]
pub struct RankingKnowledge<'a> {
    /// Their timelines as published; a site that is missing published none.
    pub free: &'a BTreeMap<SiteName, Timeline>,
    /// Their results in benchmarks, where the operator gave them.
    pub scores: &'a BTreeMap<SiteName, BenchmarkScores>,
    /// The time of the ranking.
    pub now: Timestamp,
}

/// The reservation that a job requests of each site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReservationDemand {
    /// The window in which it may begin.
    pub window: StartWindow,
    /// The most time between the begins for different components.
    pub tolerance: DurationMs,
    /// The length of the reservation.
    pub length: DurationMs,
}

/// Returns the window in which reservations for these starts may begin: by the lead earlier, so
/// that all components can come to their gates, as far as there is time for that. Empty if it is
/// too late.
pub(crate) fn reservation_begin_window(
    accepted: StartWindow,
    parameters: &JobParameters,
    now: Timestamp,
) -> StartWindow {
    let lead = parameters.reservation_lead;
    let latest = (accepted.latest - lead).max((now + lead).min(accepted.latest));
    StartWindow::new((accepted.earliest - lead).max(now), latest)
}

impl ReservationDemand {
    /// Builds the request for these starts of a job of that wall time.
    pub(crate) fn new(
        wall_time: DurationMs,
        window: StartWindow,
        tolerance: DurationMs,
        parameters: &JobParameters,
    ) -> Self {
        let tolerance = tolerance.min(window.latest.since(window.earliest));
        let lead = parameters.reservation_lead;
        let margin = parameters.wall_margin;
        let length = reservation_length(tolerance, DurationMs::ZERO, lead, wall_time, margin);
        Self {
            window,
            tolerance,
            length,
        }
    }
}

impl Job {
    /// Returns true if it says how the sites that it asks are ranked.
    pub fn has_ranking_preferences(&self) -> bool {
        self.spec.run.preferences.is_some() && self.reservation_terms().is_some()
    }
}

impl JobSpec {
    /// Sorts the sites that it may ask, by component, in the order of its preferences, for these
    /// starts and this tolerance. Returns the ranking of each component; nothing if it has no
    /// preferences.
    pub fn rank_candidates(
        &self,
        candidates: &mut [Vec<Placement>],
        (accepted, tolerance): (StartWindow, DurationMs),
        outlook: &RankingKnowledge<'_>,
        parameters: &JobParameters,
    ) -> Vec<SiteRanking> {
        let Some(preferences) = &self.run.preferences else {
            return Vec::new();
        };
        let window = reservation_begin_window(accepted, parameters, outlook.now);
        let lease = ReservationDemand::new(self.wall_time, window, tolerance, parameters);
        let ranked = candidates
            .iter_mut()
            .enumerate()
            .map(|(index, placements)| {
                let index = ComponentIndex(index as u32);
                let window = lease.window.shifted_by(self.offset_of(index));
                let lease = ReservationDemand { window, ..lease };
                let look = ComponentSiteRanking {
                    preferences,
                    lease,
                    outlook,
                    parameters,
                };
                let mut ranking = look.rank_placements(self, index, placements);
                let order = ranking.sort_candidates();
                *placements = order
                    .iter()
                    .map(|index| placements[*index].clone())
                    .collect();
                ranking
            });
        ranked.collect()
    }
}

/// The ranking of the sites of one component.
#[derive(Clone, Copy)]
struct ComponentSiteRanking<'a> {
    preferences: &'a RankingPreferences,
    lease: ReservationDemand,
    outlook: &'a RankingKnowledge<'a>,
    parameters: &'a JobParameters,
}

impl ComponentSiteRanking<'_> {
    fn rank_placements(
        self,
        spec: &JobSpec,
        index: ComponentIndex,
        placements: &[Placement],
    ) -> SiteRanking {
        let candidates = placements
            .iter()
            .map(|placement| self.build_candidate(spec, index, placement))
            .collect();
        SiteRanking {
            objective: self.preferences.objective,
            since: self.outlook.now,
            stage_out: self.preferences.stage_out.unwrap_or_default(),
            most: self.parameters.reservation_candidates,
            candidates,
        }
    }

    fn build_candidate(
        self,
        spec: &JobSpec,
        index: ComponentIndex,
        placement: &Placement,
    ) -> ReservationCandidate {
        let Self {
            preferences,
            outlook,
            parameters,
            ..
        } = self;
        // Every input has replicas and links to the site, or the site would be no candidate.
        let known = (!placement.sources.is_empty()).then_some(placement.transfer_time);
        let nothing = BenchmarkScores::new();
        let scores = outlook.scores.get(&placement.site).unwrap_or(&nothing);
        let candidate = ReservationCandidate {
            site: placement.site.clone(),
            stage_in: known.or(preferences.stage_in),
            execution: preferences.estimate_run_time(parameters.missing_benchmark_factor, scores),
            expected: None,
            found: CandidateState::NotAsked,
        };
        ReservationCandidate {
            expected: self.predict_start(spec, index, &candidate),
            ..candidate
        }
    }

    /// Returns the earliest start of a reservation for which the site's published timeline has
    /// room.
    fn predict_start(
        self,
        spec: &JobSpec,
        index: ComponentIndex,
        candidate: &ReservationCandidate,
    ) -> Option<Timestamp> {
        let free = self.outlook.free.get(&candidate.site)?;
        let resources = spec
            .components
            .get(index.0 as usize)?
            .resources
            .without_computing_power();
        let need: ResourceAmounts = free.to_amounts(&resources).ok()?;
        let StartWindow { earliest, latest } =
            candidate.window_to_request(self.outlook.now, self.lease.window);
        let before = latest + DurationMs(1);
        free.earliest_start(&OpeningRequest {
            before,
            ..OpeningRequest::after(earliest, need, self.lease.length)
        })
    }
}
