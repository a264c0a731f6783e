//! Judges whether a control plane notices that it is itself cut off: it must, soon after no
//! site answers any more, as long as anybody waits for what sites have.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cospan_actors::supervision::ActorId;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::units::{DurationMs, Timestamp};

use super::judge_transitions::{NOTICED, SeenJobs, has_part_in_placing};
use super::seed_scenario::SeedScenario;
use cospan_simulator::control_plane_run::ControlPlaneRun;

/// A control plane that began so long before knew every site.
const ACQUAINTED: DurationMs = DurationMs(600_000);
/// A job that waits so long by then has waited all the time.
const MOMENT: DurationMs = DurationMs(1_000);

/// Watches one run of the control plane through all times in which it is plain that no site
/// answers.
pub(super) async fn watch_isolation(
    plane_run: ControlPlaneRun,
    scenario: Arc<SeedScenario>,
    seen: Rc<RefCell<SeenJobs>>,
) {
    let begun = plane_run.clock.now();
    for (from, to) in scenario.plain_cut_offs() {
        let noticed_at = from + NOTICED;
        if from < begun + ACQUAINTED || to < noticed_at + MOMENT || plane_run.clock_ahead_ms != 0 {
            continue;
        }
        plane_run.sleep_until(Timestamp(from.0 - MOMENT.0)).await;
        let all_answer = plane_run
            .plane
            .list_sites()
            .iter()
            .all(|site| site.report.contact.is_answering());
        let waited = waiting_jobs(&plane_run);
        plane_run.sleep_until(noticed_at).await;
        let late = plane_run
            .lives
            .stalled_time(from, noticed_at, |id: &ActorId| {
                has_part_in_placing(id.kind())
            });
        if to < noticed_at + late + MOMENT {
            continue;
        }
        plane_run.sleep_until(noticed_at + late).await;
        let still = waiting_jobs(&plane_run);
        let waits = still.iter().any(|id| waited.contains(id));
        if all_answer && waits && !plane_run.plane.is_isolated() {
            let text = format!(
                "nobody noticed that we are cut off: {} to {}",
                from.0, noticed_at.0
            );
            seen.borrow_mut().violations.push(text);
        }
    }
    std::future::pending().await
}

/// Lists jobs that could be placed if there were room. Runs of sweeps may not have their turn.
fn waiting_jobs(plane_run: &ControlPlaneRun) -> Vec<cospan_domain::ids::JobId> {
    let view = plane_run.plane.view();
    let now = plane_run.plane.now();
    view.jobs
        .values()
        .filter(|job: &&Arc<Job>| {
            let ready =
                matches!(job.phase, JobPhase::Queued { not_before, .. } if not_before <= now);
            let alone = job.spec.run.task.is_none();
            ready && alone && job.frozen_by.is_none() && job.held.is_none()
        })
        .map(|job| job.id)
        .collect()
}
