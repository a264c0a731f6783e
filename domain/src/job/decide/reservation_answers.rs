//! Decides on calls about reservations, and on their answers.

use crate::ids::{ComponentIndex, Round, SiteName};
use crate::job::decide::abort;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::job_command::JobRejection;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AbortCause, Job, JobPhase, JobReservations, UnreservedComponent};
use crate::job::reservations::{ReservationDemand, reservation_begin_window};
use crate::job::spec::RequestType;
use crate::placed::Placement;
use crate::reservation::coallocation::sort_largest_first;
use crate::reservation::owner_quota::OVER_QUOTA;
use crate::reservation::{
    Coallocation, CoallocationPart, ReservationCall, ReservationOutcome, ReservationSearchFailure,
    ReservationSearchState, ReservationSerial, SiteRanking, StartWindow,
};
use crate::resources::MEMORY;
use crate::units::{DurationMs, Timestamp};

/// The least step by which a search moves on.
pub(super) const UNIT: DurationMs = DurationMs(1_000);
/// Most parts of a job for which the ranking of sites is kept.
const RANKED_PARTS_MAX: usize = 16;
/// Most sites that are kept of each ranking, if there are several parts.
const RANKED_SITES_MAX: usize = 8;

/// Begins to request reservations, if any site may be asked and it is not too late.
pub(super) fn request_reservations(
    draft: &mut DecisionDraft<'_>,
    candidates: Vec<Vec<Placement>>,
    unreserved: &[Vec<Placement>],
    rankings: &[SiteRanking],
) -> Result<(), JobRejection> {
    let whole = candidates.len() == draft.job.spec.components.len();
    let wish = draft.job.reservation_terms().ok_or(JobRejection::Stale)?;
    let is_divided = matches!(draft.job.spec.request, RequestType::Flexible(_));
    if !is_request_due(draft) || !whole || is_divided {
        return Err(JobRejection::Stale);
    }
    let claimed = if wish.unreserved {
        UnreservedComponent::choose_unreserved(&candidates, unreserved)
    } else {
        Vec::new()
    };
    let window = reservation_window(draft, wish.window);
    if window.is_empty() {
        fail_job(
            draft,
            "its latest start has passed without a reservation".into(),
        );
    } else if let Some(index) = find_unplaceable(&candidates, &claimed) {
        if draft.job.claims_first() {
            return Err(JobRejection::Stale);
        }
        let reason = describe_unplaceable(draft, index, claimed.len() == candidates.len());
        fail_job(draft, reason);
    } else {
        let (wanted, placements) = build_reservation_request(draft, window, candidates, rankings);
        let lead = draft.parameters.reservation_lead;
        draft.emit(JobEventKind::ReservationSought {
            wanted,
            placements,
            lead,
            split: None,
        });
        if !claimed.is_empty() {
            draft.emit(JobEventKind::UnreservedChosen { claimed });
        }
    }
    Ok(())
}

/// Returns true if sites are to be asked for its reservation now.
pub(super) fn is_request_due(draft: &DecisionDraft<'_>) -> bool {
    let is_due = draft
        .job
        .reservation_due_at()
        .is_some_and(|time| time <= draft.now);
    draft.job.seeks_reservation() && is_due
}

/// Finds a component that no site can take; or the first, if none of them would be reserved.
fn find_unplaceable(
    candidates: &[Vec<Placement>],
    claimed: &[UnreservedComponent],
) -> Option<ComponentIndex> {
    if claimed.len() == candidates.len() {
        return Some(ComponentIndex(0));
    }
    let indexes = (0..candidates.len() as u32).map(ComponentIndex);
    let mut nowhere = indexes
        .zip(candidates)
        .filter(|(index, at)| at.is_empty() && !claimed.iter().any(|one| one.component == *index));
    nowhere.next().map(|(index, _)| index)
}

fn describe_unplaceable(
    draft: &DecisionDraft<'_>,
    index: ComponentIndex,
    all_unreserved: bool,
) -> String {
    if all_unreserved {
        return "no site that could hold any of its components grants reservations; drop \
                `[reservation]`"
            .into();
    }
    let name = draft.job.component_name(index).unwrap_or_default();
    let remedy = if draft
        .job
        .reservation_terms()
        .is_some_and(|wish| wish.unreserved)
    {
        ""
    } else {
        "; `unreserved = \"claim\"` in `[reservation]` has it claimed at the start"
    };
    format!("component {name}: no site that could hold it grants reservations{remedy}")
}

pub(super) fn fail_job(draft: &mut DecisionDraft<'_>, reason: String) {
    draft.emit(JobEventKind::JobFailed {
        reason: reason.into(),
    });
}

/// Returns the window in which reservations for these starts may begin; empty if it is too late.
pub(super) fn reservation_window(draft: &DecisionDraft<'_>, accepted: StartWindow) -> StartWindow {
    reservation_begin_window(accepted, draft.parameters, draft.now)
}

/// Builds the request, and by part the placements.
fn build_reservation_request(
    draft: &DecisionDraft<'_>,
    window: StartWindow,
    candidates: Vec<Vec<Placement>>,
    rankings: &[SiteRanking],
) -> (Coallocation, Vec<Vec<Placement>>) {
    let job = &draft.job;
    let parameters = draft.parameters;
    let wished = job
        .reservation_terms()
        .map(|wish| wish.tolerance)
        .unwrap_or_default();
    let ReservationDemand {
        tolerance, length, ..
    } = ReservationDemand::new(job.spec.wall_time, window, wished, parameters);
    let reserved = candidates
        .iter()
        .enumerate()
        .filter(|(_, sites)| !sites.is_empty());
    let mut parts: Vec<CoallocationPart> = reserved
        .map(|(index, placements): (usize, &Vec<Placement>)| {
            let component = ComponentIndex(index as u32);
            let resources = job.spec.components[index]
                .resources
                .without_computing_power();
            let sites = placements
                .iter()
                .map(|placement| placement.site.clone())
                .collect();
            CoallocationPart {
                component,
                resources,
                length,
                sites,
                offset: job.spec.offset_of(component),
            }
        })
        .collect();
    sort_largest_first(&mut parts, MEMORY);
    let placements = parts
        .iter()
        .map(|part: &CoallocationPart| candidates[part.component.0 as usize].clone())
        .collect();
    let windows_max = parameters.reservation_windows;
    let rankings = keep_rankings(&parts, rankings);
    (
        Coallocation {
            parts,
            window,
            tolerance,
            unit: UNIT,
            windows_max,
            rankings,
        },
        placements,
    )
}

/// Keeps the ranking of each part. Of several parts only the best sites are kept, for people, and
/// of very many parts none: a job's record is bounded.
fn keep_rankings(parts: &[CoallocationPart], rankings: &[SiteRanking]) -> Vec<SiteRanking> {
    let mut kept = parts
        .iter()
        .map(|part: &CoallocationPart| rankings.get(part.component.0 as usize).cloned())
        .collect::<Option<Vec<_>>>()
        .unwrap_or_default();
    match kept.len() {
        0 | 1 => {}
        2..=RANKED_PARTS_MAX => {
            kept.iter_mut()
                .for_each(|it| it.candidates.truncate(RANKED_SITES_MAX));
        }
        _ => kept.clear(),
    }
    kept
}

/// Applies the answer of a site.
pub(super) fn apply_reservation_answer(
    draft: &mut DecisionDraft<'_>,
    question: u32,
    outcome: ReservationOutcome,
) -> Result<(), JobRejection> {
    let asked = draft
        .job
        .reservation
        .as_deref()
        .and_then(JobReservations::due_call);
    match asked {
        Some((number, ask)) if number == question => {
            let site = ask.site().clone();
            draft.emit(JobEventKind::ReservationAnswered { site, outcome });
            Ok(())
        }
        Some(_) | None => Err(JobRejection::Stale),
    }
}

/// Records that a site is not asked, as its user may reserve no more there.
pub(super) fn skip_over_quota(
    draft: &mut DecisionDraft<'_>,
    question: u32,
    most: u32,
    next: Option<Timestamp>,
) -> Result<(), JobRejection> {
    let asked = draft
        .job
        .reservation
        .as_deref()
        .and_then(JobReservations::due_call);
    match asked {
        Some((
            number,
            ReservationCall::Create { site, .. } | ReservationCall::Modify { site, .. },
        )) if number == question => {
            draft.emit(JobEventKind::ReservationWithheld { site, most, next });
            Ok(())
        }
        Some(_) | None => Err(JobRejection::Stale),
    }
}

/// Takes a site that has not answered for too long to have refused. A reservation that it may have
/// made, or kept, is nobody's then: it is found there by its tag, and cancelled.
pub(super) fn treat_silence_as_refusal(draft: &mut DecisionDraft<'_>) {
    let reservation = draft.job.reservation.as_deref();
    let late = reservation.and_then(|reservation| reservation.silence_deadline(draft.parameters));
    let asked = reservation.and_then(JobReservations::due_call);
    if let (Some(late), Some((_, ask))) = (late, asked)
        && draft.is_deadline_over(late)
    {
        let outcome = ask.without_answer();
        let site = ask.site().clone();
        draft.emit(JobEventKind::ReservationAnswered { site, outcome });
    }
}

/// Acts on the end of the search while the job waits.
pub(super) fn step_reservation(draft: &mut DecisionDraft<'_>) {
    let Some(reservation) = draft.job.reservation.as_deref().filter(|r| !r.spent) else {
        return;
    };
    match reservation.search.current_state() {
        ReservationSearchState::Asks(_) => {}
        // A frozen job is placed once it is thawed.
        ReservationSearchState::Confirmed if draft.job.frozen_by.is_some() => {}
        ReservationSearchState::Confirmed if reservation.has_ended(draft.now) => {
            // The search that is to replace it may still succeed.
            if reservation.rescheduling_search().is_none() {
                draft.emit(JobEventKind::JobRequeued {
                    not_before: draft.now,
                });
            }
        }
        ReservationSearchState::Confirmed => place_reserved(draft),
        ReservationSearchState::Failed(
            ReservationSearchFailure::LostAtTheEnd | ReservationSearchFailure::GivenUp,
        ) => {
            let parameters = draft.parameters;
            let seed = draft.job.id.0;
            let tries = reservation.search.serials;
            let pause = parameters.backoff_after(parameters.claim_backoff, tries, seed);
            draft.emit(JobEventKind::JobRequeued {
                not_before: draft.now + pause,
            });
        }
        ReservationSearchState::Failed(failure) if draft.job.claims_first() => {
            let next = reservation.search.best.map(|next| next + reservation.lead);
            draft.emit(JobEventKind::ReservationForgone { failure, next });
        }
        ReservationSearchState::Failed(_) if reservation.is_divided_anew() => {
            let tries = reservation.split.map_or(0, |split| split.refused);
            let parameters = draft.parameters;
            let seed = draft.job.id.0;
            let pause = parameters.backoff_after(parameters.claim_backoff, tries + 1, seed);
            draft.emit(JobEventKind::JobRequeued {
                not_before: draft.now + pause,
            });
        }
        ReservationSearchState::Failed(failure) => {
            let quota = if reservation.withheld { OVER_QUOTA } else { "" };
            fail_job(
                draft,
                format!("{}{quota}", describe_search_failure(&draft.job, failure)),
            );
        }
    }
}

/// Handles a reservation that its site has lost, or that somebody removed there. It is better to
/// know that now than when all were to start: another reservation is requested, or the user learns
/// that there is none.
pub(super) fn handle_lost_reservation(
    draft: &mut DecisionDraft<'_>,
    site: &SiteName,
    serial: ReservationSerial,
) -> Result<(), JobRejection> {
    let is_placed = matches!(draft.job.phase, JobPhase::Placed { .. });
    let found = draft.job.indexed_components().find(|(_, component)| {
        let promised = component.acquisition().reservation_use();
        is_placed
            && component
                .placement
                .as_ref()
                .is_some_and(|placement| placement.site == *site)
            && promised.is_some_and(|promised| !promised.shared && promised.serial == serial)
    });
    let Some((component, _)) = found else {
        return Err(JobRejection::Stale);
    };
    let detail = format!("site {site} does not hold its reservation any more").into();
    abort::abort_round(draft, AbortCause::ClaimLost { component, detail });
    Ok(())
}

/// Begins the round at the sites that confirmed its reservations.
pub(super) fn place_reserved(draft: &mut DecisionDraft<'_>) {
    let reservation = draft.job.reservation.as_deref();
    let Some(placements) = reservation.and_then(JobReservations::placements) else {
        return;
    };
    let begins = (0..)
        .map(ComponentIndex)
        .zip(&placements)
        .filter_map(|(index, placement)| {
            Some(placement.acquisition.reservation_use()?.from - draft.job.spec.offset_of(index))
        });
    let begins = begins.max().unwrap_or(draft.now);
    // Components without a reservation may get idle processors until then.
    let claims_for = reservation
        .map(JobReservations::extra_claim_time)
        .unwrap_or_default();
    let start_estimate = draft.job.start_for_begin(begins) + claims_for;
    let round = Round(draft.job.round.0 + 1);
    draft.emit(JobEventKind::JobPlaced {
        round,
        placements,
        start_estimate,
        by: None,
    });
}

fn describe_search_failure(job: &Job, failure: ReservationSearchFailure) -> &'static str {
    let alone = job.spec.components.len() == 1;
    match failure {
        ReservationSearchFailure::Never if alone => "no site will ever grant its reservation",
        ReservationSearchFailure::Never => {
            "no site will ever grant a reservation for one of its components"
        }
        ReservationSearchFailure::WindowsTried => {
            "no common start was found in as many windows as are tried for one job"
        }
        ReservationSearchFailure::NoCommonStart if alone => {
            "no site grants a start within its window"
        }
        ReservationSearchFailure::NoCommonStart
        | ReservationSearchFailure::LostAtTheEnd
        | ReservationSearchFailure::GivenUp => "its sites grant no common start within its window",
    }
}
