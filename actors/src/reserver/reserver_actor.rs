//! The reserver actor: the jobs that it follows, and when it looks.

use std::sync::Arc;

use actix::{Actor, Context, Handler};
use cospan_domain::ids::JobId;

use super::rescheduling::ReschedulingState;
use super::reservation_sites::ReservationSeekers;
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::commits::ChangedObjects;
use crate::context::SharedState;
use crate::grid_snapshot::GridSnapshotMaker;
use crate::supervision::{ActorId, ActorKind, LifeGuard};

/// Seeks, divides and moves advance reservations for jobs. It keeps nothing that it could not make
/// anew from the view and the sites' reports.
pub struct Reserver {
    pub(super) shared: Arc<SharedState>,
    /// Jobs that want a reservation, or have one that may be moved, or did until now.
    changed: ChangedObjects<JobId>,
    pub(super) grid: GridSnapshotMaker,
    /// Jobs that want a reservation.
    pub(super) seeking: ReservationSeekers,
    /// Jobs whose reserved starts may be brought forward.
    pub(super) forwarding: ReschedulingState,
    depth: prometheus::IntGauge,
    dirty: DirtyFlag,
    _guard: LifeGuard,
}

impl Reserver {
    /// Begins a new life: its knowledge of jobs is made anew from the view.
    pub(crate) fn new(
        shared: Arc<SharedState>,
        changed: ChangedObjects<JobId>,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        let depth = shared
            .metrics
            .mailbox_depth
            .with_label_values(&["reserver"]);
        depth.set(0);
        Self {
            shared,
            changed,
            grid: GridSnapshotMaker::default(),
            seeking: ReservationSeekers::default(),
            forwarding: ReschedulingState::default(),
            depth,
            dirty,
            _guard: guard,
        }
    }

    fn update_jobs(&mut self, ids: impl IntoIterator<Item = JobId>) {
        let view = self.shared.view.load();
        let now = self.shared.clock.now();
        for id in ids {
            let job = view.jobs.get(&id).map(AsRef::as_ref);
            self.seeking.update_seeking_job(id, job);
            self.forwarding.update_reserved_job(id, job, now);
        }
    }

    fn do_due_work(&mut self, ctx: &mut Context<Self>) {
        self.dirty.take_owed_look();
        let changed = self.changed.take();
        self.update_jobs(changed);
        self.send_due_sites(ctx);
        self.look_for_earlier_starts(ctx);
        self.request_site_reports();
        self.show_depth();
    }

    /// Has sites polled again while jobs could make use of what they free.
    fn request_site_reports(&self) {
        let wanted = self.forwarding.follows_any_job();
        if self.shared.live.set_earlier_start_awaited(wanted) && wanted {
            self.shared.actors.request_look_of_all(ActorKind::Cluster);
        }
    }

    /// Shows the number of commands under way.
    pub(super) fn show_depth(&self) {
        self.depth.set(self.seeking.commands_under_way() as i64);
    }
}

impl RegisteredActor for Reserver {
    type Key = ();

    fn actor_id(_: &Self::Key) -> ActorId {
        ActorId::Reserver
    }
}

impl Actor for Reserver {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::Reserver.mailbox_bound(&self.shared.settings));
        self.changed.take();
        let all: Vec<JobId> = self.shared.view.load().jobs.keys().copied().collect();
        self.update_jobs(all);
        self.do_due_work(ctx);
    }
}

impl Handler<LookAgain> for Reserver {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Reserver);
        self.do_due_work(ctx);
    }
}
