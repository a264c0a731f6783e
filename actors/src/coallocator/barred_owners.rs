//! Barred owners: their jobs ask sites under their owners' names.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::ids::{JobId, KeyName};
use cospan_domain::job::job_state::{Job, JobPhase};

use super::coallocator_actor::CoAllocator;
use crate::supervision::ActorId;

/// The number of jobs that are folded anew before everybody else has a turn: one owner may have
/// very many.
const SLICE: usize = 100;

/// The owners under whose names jobs ask.
#[derive(Debug, Default)]
pub(super) struct BarredOwnerJobs {
    owners: BTreeSet<KeyName>,
    /// Jobs whose request is still to change.
    to_fold: BTreeSet<JobId>,
}

impl CoAllocator {
    /// Changes the requests of jobs whose owners have become barred somewhere, or are barred
    /// nowhere any more.
    pub(super) fn update_barred_owner_requests(&mut self) {
        let owners = self.shared.live.barred_owners();
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
            self.update_job(&view, id);
        }
        self.shared.actors.request_look_of(&ActorId::CoAllocator);
    }
}
