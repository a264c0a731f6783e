//! Judges whether a control plane notices that it is itself cut off: it must, soon after no
//! site answers any more, as long as anybody waits for what sites have.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cospan_actors::api::CommittedView;
use cospan_actors::supervision::ActorId;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::units::{DurationMs, Timestamp};

use super::judge_transitions::{SeenJobs, has_part_in_placing};
use super::seed_scenario::SeedScenario;
use cospan_simulator::control_plane_run::ControlPlaneRun;

/// By then it is noticed that no site answers, and what was decided before is written.
const NOTICED: DurationMs = DurationMs(300_000);
/// A control plane that began so long before knew every site.
const ACQUAINTED: DurationMs = DurationMs(600_000);
/// A job that waits so long by then has waited all the time.
const MOMENT: DurationMs = DurationMs(1_000);

/// Times in which no site answers, and whether the control plane must have noticed. It asks no site
/// while nobody has anything there or waits for room: jobs with reserved starts only wait for those.
#[derive(Debug, Default)]
pub(super) struct CutOffs {
    times: Vec<(Timestamp, Timestamp)>,
    /// Start of the running control plane, which asks every site then.
    begun: Timestamp,
    /// Time since which there was always somebody for whom sites are asked.
    asked_since: Option<Timestamp>,
    /// End of the last cut-off that was noticed: sites are asked until then, whoever needs them.
    noticed: Option<Timestamp>,
}

impl CutOffs {
    pub(super) fn new(times: Vec<(Timestamp, Timestamp)>) -> Self {
        Self {
            times,
            ..Self::default()
        }
    }

    /// Starts over for another control plane.
    pub(super) fn begin_life(&mut self, now: Timestamp) {
        self.begun = now;
        self.asked_since = None;
        self.noticed = None;
    }

    /// Learns whether sites are asked from now on. `stalled`: how long actors stalled since a time.
    pub(super) fn learn_view(
        &mut self,
        view: &CommittedView,
        now: Timestamp,
        its_now: Timestamp,
        stalled: &dyn Fn(Timestamp) -> DurationMs,
    ) {
        self.noticed = self.noticed_until(now, stalled);
        let is_asked = !view.holdings.is_empty() || !waiting_jobs(view, its_now).is_empty();
        let since = self.asked_since.unwrap_or(now);
        self.asked_since = is_asked.then_some(since);
    }

    /// Returns true if no site answers, and that must have been noticed.
    pub(super) fn is_noticed(
        &self,
        now: Timestamp,
        stalled: &dyn Fn(Timestamp) -> DurationMs,
    ) -> bool {
        self.noticed_until(now, stalled).is_some()
    }

    fn noticed_until(
        &self,
        now: Timestamp,
        stalled: &dyn Fn(Timestamp) -> DurationMs,
    ) -> Option<Timestamp> {
        let (from, to) = self
            .times
            .iter()
            .find(|(from, to)| (*from..*to).contains(&now))?;
        let since = if *from <= self.begun {
            Some(*from)
        } else {
            self.asked_since.map(|since| since.max(*from))
        };
        let long_enough = since
            .is_some_and(|since| since + NOTICED <= now && since + NOTICED + stalled(since) <= now);
        (long_enough || self.noticed == Some(*to)).then_some(*to)
    }
}

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
        let waited = waiting_jobs(&plane_run.plane.view(), plane_run.plane.now());
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
        let still = waiting_jobs(&plane_run.plane.view(), plane_run.plane.now());
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
fn waiting_jobs(view: &CommittedView, now: Timestamp) -> Vec<cospan_domain::ids::JobId> {
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

#[cfg(test)]
mod tests {
    use cospan_domain::ids::SiteName;

    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp(1_000 * secs)
    }

    /// A view in which somebody has something at a site, or nobody has.
    fn view(busy: bool) -> CommittedView {
        let mut view = CommittedView::default();
        if busy {
            let site = SiteName::new("delft").unwrap();
            view.holdings.insert(site, Default::default());
        }
        view
    }

    /// Cut off from 1,000 s to 9,000 s, in the life of a control plane that began then.
    fn cut_off(begun: u64, views: &[(u64, bool)], now: u64) -> bool {
        let mut cut_offs = CutOffs::new(vec![(at(1_000), at(9_000))]);
        let never = |_| DurationMs::ZERO;
        cut_offs.begin_life(at(begun));
        for (since, busy) in views {
            cut_offs.learn_view(&view(*busy), at(*since), at(*since), &never);
        }
        cut_offs.is_noticed(at(now), &never)
    }

    #[test]
    fn nobody_notices_a_cut_off_before_sites_are_asked() {
        assert!(!cut_off(0, &[(10, false)], 2_000));
        let asked = [(10, false), (2_000, true)];
        assert!(!cut_off(0, &asked, 2_299));
        assert!(cut_off(0, &asked, 2_300));
        assert!(cut_off(0, &[(10, true)], 1_300), "they were asked before");
        assert!(
            cut_off(1_000, &[(1_010, false)], 1_300),
            "all are asked at the start"
        );
    }

    #[test]
    fn a_cut_off_that_was_noticed_is_known_until_a_site_answers() {
        let asked_once = [(10, true), (1_300, false)];
        assert!(cut_off(0, &asked_once, 1_400));
        assert!(cut_off(0, &asked_once, 8_999));
        assert!(!cut_off(0, &asked_once, 9_000));
        assert!(!cut_off(0, &[(10, true), (1_299, false)], 1_400));
    }
}
