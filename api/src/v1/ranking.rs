//! The ranking of the sites that may reserve for a job.

use cospan_domain::acquisition::RankingObjective;
use cospan_domain::ids::ComponentIndex;
use cospan_domain::job::job_state::Job;
use cospan_domain::reservation::{
    CandidateState, CoallocationPart, ReservationCandidate, ReservationSearch, SiteRanking,
};
use cospan_domain::units::DurationMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::preferences::ObjectiveName;
use super::quantity::Instant;

/// The ranking of the sites for a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RankingReport {
    /// The component.
    pub component: String,
    /// The objective of the comparison.
    pub by: ObjectiveName,
    /// The reason why that is not the objective that the job prefers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "the run time is unknown")]
    pub because: Option<String>,
    /// The sites, the best first.
    pub candidates: Vec<CandidateReport>,
}

/// The predictions for a component at a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CandidateReport {
    /// The site.
    pub site: String,
    /// `chosen`: its reservation is kept; `granted`: its offer was given back, or has yet to be
    /// compared; `expected`: it was not asked, and the start is the one that it published;
    /// `not-asked`: nor did it publish one; `refused`; `too-late`: the input would arrive after the
    /// latest start; `lost`: it offered a reservation, but no longer had it when it was to be
    /// confirmed.
    #[schema(example = "chosen")]
    pub state: String,
    /// Time until the input has arrived; missing: unknown, which counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_in_ms: Option<u64>,
    /// The predicted start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// The predicted run time; missing: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
    /// When the output would be where it is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Instant>,
    /// For a site that refused: from when on it may reserve, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Instant>,
}

impl RankingReport {
    /// Reports the rankings of the job's components that the filter selects, by part of the
    /// reservation.
    pub fn of(job: &Job, is_told_of: impl Fn(ComponentIndex) -> bool) -> Vec<Self> {
        let Some(reservation) = job.reservation.as_deref() else {
            return Vec::new();
        };
        let search = reservation
            .rescheduling_search()
            .map_or(&reservation.search, |(search, _)| search);
        let parts = search
            .job
            .rankings
            .iter()
            .zip(&search.job.parts)
            .enumerate();
        let parts = parts.filter(|(_, (_, part))| is_told_of(part.component));
        parts
            .map(
                |(index, (ranking, part)): (usize, (&SiteRanking, &CoallocationPart))| {
                    let name = job.component_name(part.component).unwrap_or_default();
                    Self::for_component(
                        name,
                        ranking,
                        reservation.lead,
                        reserved_site(search, index),
                    )
                },
            )
            .collect()
    }

    /// Reports the ranking of one component, which starts some time after its reservation begins.
    pub fn for_component(
        component: String,
        ranking: &SiteRanking,
        lead: DurationMs,
        kept: Option<&str>,
    ) -> Self {
        let (mut order, by) = ranking.candidates_best_first();
        let rest: Vec<usize> = (0..ranking.candidates.len())
            .filter(|index| !order.contains(index))
            .collect();
        order.extend(rest);
        let fell_back = by != ranking.objective && by == RankingObjective::EarliestStart;
        Self {
            component,
            by: by.into(),
            because: fell_back.then(|| "the run time is unknown".into()),
            candidates: order
                .into_iter()
                .map(|index: usize| {
                    let candidate = &ranking.candidates[index];
                    CandidateReport::of(
                        ranking,
                        candidate,
                        lead,
                        kept == Some(candidate.site.as_str()),
                    )
                })
                .collect(),
        }
    }
}

/// Returns the site of a part's reservation.
fn reserved_site(search: &ReservationSearch, part: usize) -> Option<&str> {
    search
        .part_reservations()
        .get(part)?
        .as_ref()
        .map(|held| held.site.as_str())
}

impl CandidateReport {
    fn of(
        ranking: &SiteRanking,
        candidate: &ReservationCandidate,
        lead: DurationMs,
        is_kept: bool,
    ) -> Self {
        let prediction = ranking.predict_candidate(candidate);
        let done = prediction
            .and_then(|it| it.to_delivery)
            .map(|it| ranking.since + it + lead);
        let (state, next) = match candidate.found {
            _ if is_kept => ("chosen", None),
            CandidateState::Granted(_) => ("granted", None),
            CandidateState::NotAsked if candidate.expected.is_some() => ("expected", None),
            CandidateState::NotAsked => ("not-asked", None),
            CandidateState::TooLate => ("too-late", None),
            CandidateState::Refused(next) => ("refused", next),
            CandidateState::Lost => ("lost", None),
        };
        Self {
            site: candidate.site.to_string(),
            state: state.into(),
            stage_in_ms: candidate.stage_in.map(|length| length.0),
            start: candidate.start_at_site().map(|start| Instant(start + lead)),
            run_ms: candidate.execution.map(|length| length.0),
            done: done.map(Instant),
            next: next.map(|next| Instant(next + lead)),
        }
    }
}
