//! How the sites that may promise a job its start were ranked.

use cospan_domain::acquire::Objective;
use cospan_domain::ids::ComponentIndex;
use cospan_domain::job::state::Job;
use cospan_domain::reserve::{
    CandidateState, CoallocationPart, Ranking, ReservationCandidate, ReservationSearch,
};
use cospan_domain::units::DurationMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::preferences::ObjectiveName;
use super::quantity::Instant;

/// How the sites of a component were ranked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RankingReport {
    /// The component.
    pub component: String,
    /// What they were compared by.
    pub by: ObjectiveName,
    /// Why that is not what the job prefers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "nothing is known of the run time")]
    pub because: Option<String>,
    /// The sites, the best first.
    pub candidates: Vec<CandidateReport>,
}

/// What is predicted for a component at a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CandidateReport {
    /// The site.
    pub site: String,
    /// `chosen`: what it granted is kept; `granted`: what it granted was given back, or has yet to
    /// be compared; `expected`: it was not asked, the start is what it published; `not-asked`: nor
    /// did it publish one; `refused`; `too-late`: the input would be there after the latest start;
    /// `lost`: it granted one, and had it no more when it was to keep it.
    #[schema(example = "chosen")]
    pub state: String,
    /// How long it takes until the input is there; missing: nobody knows, and it counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_in_ms: Option<u64>,
    /// When it would start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// How long it would run; missing: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
    /// When its output would be where it is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Instant>,
    /// Of a site that refused: from when on it may grant a start, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Instant>,
}

impl RankingReport {
    /// Those of a job's components that are to be told of, by part of its reservation.
    pub fn of(job: &Job, is_told_of: impl Fn(ComponentIndex) -> bool) -> Vec<Self> {
        let Some(reservation) = job.reservation.as_deref() else {
            return Vec::new();
        };
        let search = reservation
            .moving()
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
                |(index, (ranking, part)): (usize, (&Ranking, &CoallocationPart))| {
                    let name = job.name_of(part.component).unwrap_or_default();
                    Self::of_one(name, ranking, reservation.lead, kept(search, index))
                },
            )
            .collect()
    }

    /// That of one component. Starts are so long after their reservations begin.
    pub fn of_one(
        component: String,
        ranking: &Ranking,
        lead: DurationMs,
        kept: Option<&str>,
    ) -> Self {
        let (mut order, by) = ranking.best_first();
        let rest: Vec<usize> = (0..ranking.candidates.len())
            .filter(|index| !order.contains(index))
            .collect();
        order.extend(rest);
        let fell_back = by != ranking.objective && by == Objective::EarliestStart;
        Self {
            component,
            by: by.into(),
            because: fell_back.then(|| "nothing is known of the run time".into()),
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

/// The site whose reservation a part has.
fn kept(search: &ReservationSearch, part: usize) -> Option<&str> {
    search
        .reserved()
        .get(part)?
        .as_ref()
        .map(|held| held.site.as_str())
}

impl CandidateReport {
    fn of(
        ranking: &Ranking,
        candidate: &ReservationCandidate,
        lead: DurationMs,
        is_kept: bool,
    ) -> Self {
        let prediction = ranking.prediction(candidate);
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
            start: candidate.start().map(|start| Instant(start + lead)),
            run_ms: candidate.execution.map(|length| length.0),
            done: done.map(Instant),
            next: next.map(|next| Instant(next + lead)),
        }
    }
}
