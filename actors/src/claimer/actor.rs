//! The claimer: the claiming queue, in order of claiming time.

use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler};
use cospan_domain::claim::queue::ClaimingQueue;
use cospan_domain::ids::JobId;
use cospan_domain::job::state::{Job, Phase};
use cospan_domain::units::Timestamp;

use super::timer::Expired;
use crate::chaos::{self, Point};
use crate::shared::Shared;
use crate::supervision::{ActorId, LifeGuard};
use crate::switchboard::{Dirty, Look};

/// Keeps the claiming queue, and a timer for each job in it.
pub struct Claimer {
    shared: Arc<Shared>,
    queue: ClaimingQueue,
    dirty: Dirty,
    _guard: LifeGuard,
}

impl Claimer {
    /// A new life: the queue is made anew from the view.
    pub fn new(shared: Arc<Shared>, dirty: Dirty, guard: LifeGuard) -> Self {
        Self { shared, queue: ClaimingQueue::default(), dirty, _guard: guard }
    }

    fn fold(&mut self, id: JobId, job: Option<&Job>) {
        match job.and_then(claim_time) {
            Some(at) if self.queue.time_of(id) != Some(at) => {
                self.queue.insert(id, at);
                self.shared.start(ActorId::ClaimTimer(id));
            }
            Some(_) => {}
            None => drop(self.queue.remove(id)),
        }
    }

    fn look(&mut self) {
        self.dirty.take();
        let view = self.shared.view.load_full();
        for id in self.shared.dirty.take_claims() {
            self.fold(id, view.jobs.get(&id).map(AsRef::as_ref));
        }
        self.claim_due();
    }

    /// In order of claiming time: each job decides what follows.
    fn claim_due(&mut self) {
        let now = self.shared.clock.now();
        let due: Vec<JobId> = self.queue.due(now).map(|(_, job)| job).collect();
        due.iter().for_each(|job| self.shared.switchboard.jobs.look(job));
    }
}

/// When a job is to be claimed for.
pub(super) fn claim_time(job: &Job) -> Option<Timestamp> {
    match job.phase {
        Phase::Placed { start_estimate, .. } => Some(start_estimate),
        _ => None,
    }
}

impl Actor for Claimer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach(Point::Started);
        ctx.set_mailbox_capacity(4_096);
        let view = self.shared.view.load_full();
        for (id, job) in &view.jobs {
            self.fold(*id, Some(job));
        }
        ctx.notify(Look);
    }
}

impl Handler<Look> for Claimer {
    type Result = ();

    fn handle(&mut self, _: Look, _: &mut Context<Self>) {
        chaos::reach(Point::HandlerEntry);
        self.look();
    }
}

impl Handler<Expired> for Claimer {
    type Result = ();

    fn handle(&mut self, _: Expired, _: &mut Context<Self>) {
        self.claim_due();
    }
}
