//! Jobs of owners whom some site takes no jobs of ask sites under their owners' names.

use std::sync::Arc;

use cospan_domain::ids::JobId;
use cospan_domain::job::state::{Job, Phase};

use super::actor::CoAllocator;

impl CoAllocator {
    /// Jobs of owners whom some site has become closed to, or to whom none is any more, ask for
    /// something else than before.
    pub(super) fn fold_suspects(&mut self) {
        let suspects = self.shared.live.suspects();
        if suspects == self.suspects {
            return;
        }
        let before = std::mem::replace(&mut self.suspects, suspects);
        let view = self.shared.view.load();
        let is_concerned = |job: &&Arc<Job>| {
            let is_waiting = matches!(job.phase, Phase::Queued { .. });
            is_waiting && before.contains(&job.owner) != self.suspects.contains(&job.owner)
        };
        let concerned: Vec<JobId> =
            view.jobs.values().filter(is_concerned).map(|job| job.id).collect();
        concerned.into_iter().for_each(|id| self.fold(&view, id));
    }
}
