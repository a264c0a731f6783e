//! Judges that what is to end at a site does, once nothing goes wrong any more: an order that
//! comes to nothing then never will come to anything, however often it is given.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId};
use cospan_domain::job::due::{EffectKind, due};
use cospan_domain::job::state::Job;
use cospan_domain::units::{DurationMs, Timestamp};

use super::history::Seen;
use crate::laboratory::reign::Reign;

/// Between two looks.
const EVERY: DurationMs = DurationMs(60_000);
/// It takes seconds, and minutes while actors stall, which they do for an hour at most.
const ENDED_WITHIN: DurationMs = DurationMs(2 * 3_600_000);

/// Attempts that are to end, and since when.
#[derive(Debug, Default)]
struct ToEnd(BTreeMap<(JobId, ComponentIndex, Attempt), Timestamp>);

impl ToEnd {
    /// Takes note of what is to end now; one that ought to have by now.
    fn look<'a>(
        &mut self,
        jobs: impl Iterator<Item = &'a Job>,
        now: Timestamp,
    ) -> Option<(JobId, ComponentIndex, Attempt)> {
        let ends = jobs.flat_map(|job| {
            let ends = due(job, now).into_iter().filter(|effect| effect.kind == EffectKind::End);
            ends.map(|effect| (job.id, effect.component, effect.attempt))
        });
        self.0 = ends.map(|end| (end, self.0.get(&end).copied().unwrap_or(now))).collect();
        let late = self.0.iter().find(|(_, since)| **since + ENDED_WITHIN < now);
        late.map(|(end, _)| *end)
    }
}

/// Looks again and again until something is ordered to end in vain.
pub(super) async fn watch(reign: Reign, seen: Rc<RefCell<Seen>>) {
    let mut to_end = ToEnd::default();
    loop {
        let view = reign.plane.view();
        let jobs = view.jobs.values().map(|job| &**job);
        if let Some((job, component, attempt)) = to_end.look(jobs, reign.plane.now()) {
            let (component, attempt) = (component.0, attempt.0);
            let text = format!(
                "an order to end comes to nothing: job {job}, {component}-{attempt}, for {ENDED_WITHIN}"
            );
            seen.borrow_mut().violations.push(text);
            return;
        }
        reign.until(reign.clock.now() + EVERY).await;
    }
}
