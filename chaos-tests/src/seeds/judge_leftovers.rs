//! Judges what is left when all jobs have ended and there was time to clean up.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRequest, JobSubmission};
use cospan_domain::ids::{JobId, KeyName};
use cospan_domain::job::job_state::JobPhase;
use cospan_domain::site::availability::SiteState;
use cospan_domain::site::site_state::SiteNotificationId;
use cospan_domain::units::DurationMs;

use super::judge_reservations;
use super::judge_shared_reservations;
use cospan_simulator::control_plane_run::ControlPlaneRun;
use cospan_simulator::jobs::build_job;

/// An ended job is archived at most so long after its time.
const ARCHIVED_WITHIN: DurationMs = DurationMs(2 * 3_600_000);

/// By then every site was asked what is free, because somebody waits.
const ASKED_WITHIN: DurationMs = DurationMs(240_000);
/// More processors than any site has.
const GIANT: u32 = 1_000_000;

/// Checks that nothing is left that ought to be over.
///
/// # Errors
/// Something is left; the error names it.
pub(super) fn is_at_rest(plane_run: &ControlPlaneRun, keep_jobs: DurationMs) -> Result<()> {
    let view = plane_run.plane.view();
    let now = plane_run.clock.now();
    ensure!(
        view.is_derived_state_correct(),
        "a fold differs from a fresh one"
    );
    for job in view.jobs.values() {
        if let JobPhase::Finished { at }
        | JobPhase::Failed { at, .. }
        | JobPhase::Cancelled { at, .. } = job.phase
        {
            let late = at + keep_jobs + ARCHIVED_WITHIN < now;
            ensure!(
                !late,
                "job {} ended at {} and is not archived",
                job.id,
                at.0
            );
        }
    }
    // A later query may have sites swept because of it.
    let instance = plane_run.plane.shared().instance;
    let left = plane_run.world.read(|world| {
        let names = world
            .sites()
            .iter()
            .filter_map(|site| world.index_of(site.name()));
        let mut tags = names.flat_map(|site| world.list_attempts(site));
        tags.find(|tag| tag.instance == instance)
    });
    ensure!(left.is_none(), "{left:?} was left behind");
    // No deduction outlives its plan, or the life of its maker.
    let shared = plane_run.plane.shared();
    let now = shared.clock.now();
    let leaks = shared.deductions.find_leaks(&shared.view.load(), now);
    ensure!(
        leaks.is_empty(),
        "what is deducted is owned by no job: {leaks:?}"
    );
    let open = shared.deductions.open_plan_count();
    let shown = shared.metrics.provisional_plans.get();
    ensure!(
        (open, shown) == (0, 0),
        "{open} plans are open at rest, and {shown} are shown"
    );
    let now = plane_run.clock.now();
    let leases = plane_run
        .world
        .read(|world| judge_reservations::unneeded_reservations(world, &view, instance, now));
    ensure!(
        leases.is_empty(),
        "reservations were left behind: {leases:?}"
    );
    let wrong = judge_shared_reservations::find_disagreements(plane_run, instance);
    ensure!(
        wrong.is_empty(),
        "what is kept is not as it is recorded: {wrong:?}"
    );
    for (site, held) in &view.holdings {
        ensure!(held.is_empty(), "ended jobs hold something at {site}");
    }
    for ((digest, site), jobs) in &view.needs {
        ensure!(
            jobs.is_empty(),
            "ended jobs need {digest} at {site}: {jobs:?}"
        );
    }
    ensure!(
        view.untold.is_empty(),
        "nobody was told of the end of {:?}",
        view.untold
    );
    for site in view.sites.values() {
        // Of too many that could not be sent, the oldest are given up, and counted.
        let ids = (1..=site.last_notification.0).map(SiteNotificationId);
        let lost = ids.filter(|id| plane_run.call_faults.arrived_at(&site.site, *id).is_none());
        let lost: Vec<SiteNotificationId> = lost.collect();
        ensure!(
            lost.len() as u64 <= site.notifications_dropped,
            "nobody had messages {lost:?} about {}, and {} were given up",
            site.site,
            site.notifications_dropped
        );
        ensure!(
            site.owed.is_empty(),
            "{} still owes a message: {:?}",
            site.site,
            site.owed
        );
    }
    for site in plane_run.plane.list_sites() {
        let is_well = matches!(
            site.state,
            SiteState::Usable | SiteState::Unusable | SiteState::Probing { .. }
        );
        let known = plane_run
            .plane
            .shared()
            .live
            .site_report(&site.name)
            .map(|report| report.contact);
        let name = &site.name;
        let state = site.state;
        ensure!(
            is_well,
            "site {name} is {state:?} although nothing is wrong: {known:?}, {now:?}"
        );
    }
    Ok(())
}

/// Submits a job that no site can ever take, and cancels it. Sites are asked only while somebody
/// waits, and are shown as they were when they were asked last. `submitted` gets its number.
///
/// # Errors
/// It is refused, or not over once it is cancelled.
pub(super) async fn wait_and_cancel(
    plane_run: &ControlPlaneRun,
    submitted: impl FnOnce(JobId),
) -> Result<()> {
    let spec = Arc::new(build_job(
        &[GIANT],
        DurationMs(1_000),
        DurationMs(60_000),
        0,
    )?);
    let asked = JobSubmission {
        allow_unplaceable: true,
        ..JobSubmission::from_spec(spec)
    };
    let ApiAnswer::Submitted(jobs) =
        run_command(plane_run, ApiRequest::Submit(vec![asked])).await?
    else {
        bail!("a submission came to something else")
    };
    let id = jobs
        .first()
        .map(|job| job.id)
        .ok_or_else(|| anyhow!("nothing was submitted"))?;
    submitted(id);
    plane_run
        .sleep_until(plane_run.clock.now() + ASKED_WITHIN)
        .await;
    run_command(plane_run, ApiRequest::Cancel(vec![id])).await?;
    let is_over = plane_run
        .plane
        .view()
        .jobs
        .get(&id)
        .is_none_or(|job| job.is_final());
    ensure!(is_over, "a job that only waited is cancelled, and not over");
    Ok(())
}

async fn run_command(plane_run: &ControlPlaneRun, what: ApiRequest) -> Result<ApiAnswer> {
    let by = KeyName::new("carol")?;
    let answer = plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await;
    answer.map_err(|refusal| anyhow!("refused at rest: {refusal}"))
}
