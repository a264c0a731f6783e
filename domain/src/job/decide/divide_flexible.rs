//! Divides a flexible job over the sites that can reserve processors for it (FlexCo).

use super::decision_draft::DecisionDraft;
use super::reservation_answers::{UNIT, fail_job, is_request_due};
use crate::ids::{ComponentIndex, SiteName};
use crate::job::job_command::JobRejection;
use crate::job::job_event::JobEventKind;
use crate::job::job_state::{AlternativeDivision, Job, JobDivision};
use crate::placed::Placement;
use crate::reservation::coallocation::sort_largest_first;
use crate::reservation::flexco::{FlexPlan, MetaJob};
use crate::reservation::{Coallocation, CoallocationPart, StartWindow};
use crate::resources::{MEMORY, Resources};
use crate::units::DurationMs;

/// A reservation may begin at least so much later than planned: time passes until a site is asked.
const SLACK: DurationMs = DurationMs::from_secs(60);

/// The request, and by part and rank of its site the placement.
type WantedDivision = (Coallocation, Vec<Vec<Placement>>);

/// Begins to request the planned reservations, if it is not too late.
pub(super) fn request_division(
    draft: &mut DecisionDraft<'_>,
    plan: &FlexPlan,
    placements: Vec<Placement>,
) -> Result<(), JobRejection> {
    let job = draft
        .job
        .divisible_job(draft.parameters, draft.now)
        .ok_or(JobRejection::Stale)?;
    if !is_request_due(draft) || !is_plan_for_job(&job, plan, &placements) {
        return Err(JobRejection::Stale);
    }
    let accepted = StartWindow::new(job.ready, job.latest);
    if accepted.is_empty() {
        fail_job(
            draft,
            "its latest start has passed without a reservation".into(),
        );
        return Ok(());
    }
    let is_accepted = plan.start <= job.latest;
    let split = draft.job.next_split(plan.shape, !is_accepted);
    let tolerance = draft
        .job
        .reservation_terms()
        .map(|wish| wish.tolerance)
        .unwrap_or_default();
    let earliest = plan.start.max(job.ready);
    let window = if is_accepted {
        StartWindow::new(earliest, (earliest + tolerance.max(SLACK)).min(job.latest))
    } else {
        // Sites answer from when on they would grant it.
        accepted
    };
    let asked = DivisionRequest {
        job: &job,
        plan,
        window,
        tolerance,
    };
    let (wanted, placements) = asked.build_division_request(draft, placements);
    let lead = draft.parameters.reservation_lead;
    draft.emit(JobEventKind::ReservationSought {
        wanted,
        placements,
        lead,
        split: Some(split),
    });
    Ok(())
}

/// Requests a better division while the present reservations stay, if it still is better.
pub(super) fn request_new_division(
    draft: &mut DecisionDraft<'_>,
    plan: &FlexPlan,
    placements: Vec<Placement>,
    freed: Vec<SiteName>,
) -> Result<(), JobRejection> {
    let forward = draft
        .job
        .reschedulable_job(draft.now)
        .ok_or(JobRejection::Stale)?;
    let (job, present) = forward.divided.ok_or(JobRejection::Stale)?;
    let reservation = draft
        .job
        .reservation
        .as_deref()
        .ok_or(JobRejection::Stale)?;
    if !is_plan_for_job(&job, plan, &placements) {
        return Err(JobRejection::Stale);
    }
    let start = plan.start.max(job.ready);
    let time = job.run_time_on(&job.shapes[plan.shape], plan.parts.len());
    let plan = FlexPlan {
        start,
        completion: start + time,
        ..plan.clone()
    };
    if start > job.latest || !plan.is_better_than(&present) {
        return Err(JobRejection::Stale);
    }
    // On fewer sites, exactly what is planned: anything else may be no better.
    let last = if plan.completion < present.completion {
        present.completion - time - DurationMs(1)
    } else {
        start
    };
    let tolerance = reservation.search.job.tolerance;
    let latest = (start + tolerance.max(SLACK)).min(job.latest).min(last);
    let window = StartWindow::new(start, latest);
    let asked = DivisionRequest {
        job: &job,
        plan: &plan,
        window,
        tolerance,
    };
    let (wanted, placements) = asked.build_division_request(draft, placements);
    let split = JobDivision {
        refused: 0,
        is_last: false,
        ..draft.job.next_split(plan.shape, false)
    };
    let anew = Some(Box::new(AlternativeDivision { placements, split }));
    draft.emit(JobEventKind::ReservationForwardSought {
        wanted,
        freed,
        anew,
    });
    Ok(())
}

/// Returns true if this is a plan for this job, and these are its parts.
fn is_plan_for_job(job: &MetaJob, plan: &FlexPlan, placements: &[Placement]) -> bool {
    let Some(shape) = job.shapes.get(plan.shape) else {
        return false;
    };
    let total: u64 = plan.parts.iter().map(|(_, count)| u64::from(*count)).sum();
    placements.len() == plan.parts.len()
        && plan.parts.iter().zip(placements).all(
            |((site, count), placement): (&(SiteName, u32), &Placement)| {
                placement.site == *site && placement.share == Some(*count)
            },
        )
        && total == u64::from(shape.resources.processors)
}

/// A plan with the window and the tolerance of its request.
struct DivisionRequest<'a> {
    job: &'a MetaJob,
    plan: &'a FlexPlan,
    window: StartWindow,
    tolerance: DurationMs,
}

impl DivisionRequest<'_> {
    /// Builds the request: each part at its own site, and nowhere else.
    fn build_division_request(
        &self,
        draft: &DecisionDraft<'_>,
        placements: Vec<Placement>,
    ) -> WantedDivision {
        let StartWindow { earliest, latest } = self.window;
        let tolerance = self.tolerance.min(latest.since(earliest));
        let length = self
            .job
            .run_time_on(&self.job.shapes[self.plan.shape], self.plan.parts.len());
        let mut parts: Vec<CoallocationPart> = placements
            .iter()
            .enumerate()
            .map(|(index, placement): (usize, &Placement)| CoallocationPart {
                component: ComponentIndex(index as u32),
                resources: resource_share(&draft.job, placement.share.unwrap_or(0)),
                length,
                sites: vec![placement.site.clone()],
                offset: DurationMs::ZERO,
            })
            .collect();
        sort_largest_first(&mut parts, MEMORY);
        let placements = parts
            .iter()
            .map(|part: &CoallocationPart| vec![placements[part.component.0 as usize].clone()])
            .collect();
        let windows_max = draft.parameters.reservation_windows;
        let window = self.window;
        let rankings = Vec::new();
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
}

fn resource_share(job: &Job, processors: u32) -> Resources {
    let whole = job
        .spec
        .components
        .first()
        .map(|component| component.resources.without_computing_power());
    whole.unwrap_or_default().portion_for(processors)
}
