//! Judges that attempts which are to end at a site do end, once nothing goes wrong any more: a
//! request that has no effect then never will have one, however often it is repeated.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId};
use cospan_domain::job::job_due::{JobEffectKind, due};
use cospan_domain::job::job_state::Job;
use cospan_domain::units::{DurationMs, Timestamp};

use super::judge_transitions::SeenJobs;
use cospan_simulator::control_plane_run::ControlPlaneRun;

/// Time between two looks.
const EVERY: DurationMs = DurationMs(60_000);
/// Ending takes seconds, and minutes while actors stall, which they do for an hour at most. A site
/// may hide what it does for two hours, and fail again right after that.
const ENDED_WITHIN: DurationMs = DurationMs(8 * 3_600_000);

type VainPart = (JobId, ComponentIndex, Attempt);

/// Attempts that are to end, and since when.
#[derive(Debug, Default)]
struct ToEnd(BTreeMap<VainPart, Timestamp>);

impl ToEnd {
    /// Records the attempts that are to end now, and returns one that ought to have ended by now.
    fn record_and_find_overdue(
        &mut self,
        parts: impl Iterator<Item = VainPart>,
        now: Timestamp,
    ) -> Option<VainPart> {
        self.0 = parts
            .map(|part| (part, self.0.get(&part).copied().unwrap_or(now)))
            .collect();
        let late = self
            .0
            .iter()
            .find(|(_, since)| **since + ENDED_WITHIN < now);
        late.map(|(part, _)| *part)
    }
}

/// Lists the attempts of a job that are to end.
fn attempts_to_end(job: &Job, now: Timestamp) -> impl Iterator<Item = VainPart> {
    let effects = due(job, now)
        .into_iter()
        .filter(|effect| effect.kind == JobEffectKind::End);
    effects.map(|effect| (job.id, effect.component, effect.attempt))
}

/// Looks again and again until an attempt is found that was asked to end in vain.
pub(super) async fn watch_ends(plane_run: ControlPlaneRun, seen: Rc<RefCell<SeenJobs>>) {
    let mut to_end = ToEnd::default();
    loop {
        let view = plane_run.plane.view();
        let now = plane_run.plane.now();
        let parts = view.jobs.values().flat_map(|job| attempts_to_end(job, now));
        if let Some((job, component, attempt)) = to_end.record_and_find_overdue(parts, now) {
            let component = component.0;
            let attempt = attempt.0;
            let text = format!(
                "an order to end comes to nothing: job {job}, {component}-{attempt}, for {ENDED_WITHIN}"
            );
            seen.borrow_mut().violations.push(text);
            return;
        }
        plane_run.sleep_until(plane_run.clock.now() + EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: VainPart = (JobId(1), ComponentIndex(0), Attempt(1));
    const OTHER: VainPart = (JobId(2), ComponentIndex(0), Attempt(1));

    #[test]
    fn only_an_end_that_was_due_all_the_time_is_late() {
        let mut to_end = ToEnd::default();
        let begins = Timestamp(0);
        let mut look =
            |parts: &[VainPart], at| to_end.record_and_find_overdue(parts.iter().copied(), at);
        assert_eq!(look(&[SLOW, OTHER], begins), None);
        assert_eq!(look(&[SLOW], begins + DurationMs(1)), None);
        let within = begins + ENDED_WITHIN;
        assert_eq!(look(&[SLOW, OTHER], within), None);
        let after = within + DurationMs(1);
        assert_eq!(look(&[OTHER], after), None, "it was not due for a moment");
        assert_eq!(
            look(&[SLOW, OTHER], after),
            None,
            "this one has ended since"
        );
        assert_eq!(
            look(&[SLOW], after + ENDED_WITHIN + DurationMs(1)),
            Some(SLOW)
        );
    }
}
