//! Reschedules a job to an earlier start, when sites have more free (FlexCo).

use crate::ids::SiteName;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::job_command::JobRejection;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{JobReservations, ReschedulableJob};
use crate::reservation::flexco::{PartsPlan, UnsplitPart};
use crate::reservation::{Coallocation, CoallocationPart, StartWindow};
use crate::units::DurationMs;

/// Requests a better plan while the present reservations stay, if it still is better: no
/// reservation is replaced unless all of a better plan is confirmed.
pub(super) fn reschedule_earlier(
    draft: &mut DecisionDraft<'_>,
    plan: PartsPlan,
    freed: Vec<SiteName>,
) -> Result<(), JobRejection> {
    let forward = draft
        .job
        .reschedulable_job(draft.now)
        .ok_or(JobRejection::Stale)?;
    let plan = PartsPlan {
        start: plan.start.max(forward.window.earliest),
        ..plan
    };
    let reservation = draft
        .job
        .reservation
        .as_deref()
        .ok_or(JobRejection::Stale)?;
    let is_whole = forward.divided.is_none();
    if !is_whole || !is_plan_possible(&forward, &plan) || !plan.is_better_than(&forward.present) {
        return Err(JobRejection::Stale);
    }
    let wanted = build_earlier_request(
        reservation,
        &forward,
        &plan,
        draft.parameters.reservation_windows,
    );
    draft.emit(JobEventKind::ReservationForwardSought {
        wanted,
        freed,
        anew: None,
    });
    Ok(())
}

fn is_plan_possible(forward: &ReschedulableJob, plan: &PartsPlan) -> bool {
    plan.sites.len() == forward.parts.len()
        && forward
            .parts
            .iter()
            .zip(&plan.sites)
            .all(|(part, site): (&UnsplitPart, &SiteName)| {
                part.choices.iter().any(|(choice, _)| choice == site)
            })
}

/// Builds the request: starts from the planned one up to just before the present one, at the
/// planned sites first. On fewer sites, exactly what is planned: anything else may be no better.
fn build_earlier_request(
    reservation: &JobReservations,
    forward: &ReschedulableJob,
    plan: &PartsPlan,
    windows_max: u32,
) -> Coallocation {
    let old = &reservation.search.job;
    let is_earlier = plan.start < forward.present.start;
    let latest = if is_earlier {
        forward.present.start - DurationMs(1)
    } else {
        plan.start
    };
    let window = StartWindow::new(plan.start, latest);
    let parts = old
        .parts
        .iter()
        .zip(&forward.parts)
        .zip(&plan.sites)
        .map(
            |((part, whole), planned): ((&CoallocationPart, &UnsplitPart), &SiteName)| {
                let others = whole
                    .choices
                    .iter()
                    .map(|(site, _)| site)
                    .filter(|site| *site != planned);
                let others = others.filter(|_| is_earlier);
                CoallocationPart {
                    sites: [planned].into_iter().chain(others).cloned().collect(),
                    ..part.clone()
                }
            },
        )
        .collect();
    let tolerance = old.tolerance.min(latest.since(plan.start));
    // The plan was made from what sites publish, so nothing is ranked.
    let rankings = Vec::new();
    Coallocation {
        parts,
        window,
        tolerance,
        unit: old.unit,
        windows_max,
        rankings,
    }
}
