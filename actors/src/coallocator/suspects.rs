//! Jobs of owners whom some site takes no jobs of ask sites under their owners' names.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::ids::{JobId, KeyName};
use cospan_domain::job::state::{Job, JobPhase};

use super::actor::CoAllocator;

/// So many jobs are folded anew before everybody else has a turn: one owner may have very many.
const SLICE: usize = 100;

/// Under whose names jobs ask.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    owners: BTreeSet<KeyName>,
    /// Jobs that are still to ask for something else than before.
    to_fold: BTreeSet<JobId>,
}

impl CoAllocator {
    /// Jobs of owners whom some site has become closed to, or to whom none is any more, ask for
    /// something else than before.
    pub(super) fn fold_suspects(&mut self) {
        let owners = self.shared.live.suspects();
        let view = self.shared.view.load();
        if owners != self.suspects.owners {
            let before = std::mem::replace(&mut self.suspects.owners, owners);
            let now = &self.suspects.owners;
            let concerned = view
                .jobs
                .values()
                .filter(|job: &&Arc<Job>| {
                    let is_waiting = matches!(job.phase, JobPhase::Queued { .. });
                    is_waiting && before.contains(&job.owner) != now.contains(&job.owner)
                })
                .map(|job| job.id);
            self.suspects.to_fold.extend(concerned);
        }
        for _ in 0..SLICE {
            let Some(id) = self.suspects.to_fold.pop_first() else {
                return;
            };
            self.fold(&view, id);
        }
        self.shared.actors.co_allocator.look(&());
    }
}
