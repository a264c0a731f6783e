//! The data manager: makes sure that every copy that is needed, or of which something is left, has
//! its actor. It keeps nothing that it could not read again.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, Message};

use super::CopyKey;
use super::copy_users::{is_copy_needed, pinned_copies};
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::commits::ChangedObjects;
use crate::context::SharedState;
use crate::supervision::{ActorId, ActorKind, LifeGuard};
use crate::transfer::TransferActor;

/// The number of copies gone over in one go; the rest waits for its turn behind other work.
const SLICE: usize = 256;

/// The actor that starts transfers, and asks them to look.
pub struct DataManager {
    shared: Arc<SharedState>,
    /// Copies whose need may have changed.
    changed: ChangedObjects<CopyKey>,
    dirty: DirtyFlag,
    waiting: BTreeSet<CopyKey>,
    /// A message to go on is on its way.
    going_on: bool,
    _guard: LifeGuard,
}

/// Goes on with the copies that wait.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ContinueCopies;

impl DataManager {
    /// Begins a new life.
    pub(crate) fn new(
        shared: Arc<SharedState>,
        changed: ChangedObjects<CopyKey>,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        Self {
            shared,
            changed,
            dirty,
            waiting: BTreeSet::new(),
            going_on: false,
            _guard: guard,
        }
    }

    /// Lists all copies that are needed or there, by what is durable.
    fn all_copies(&self) -> BTreeSet<CopyKey> {
        let view = self.shared.view.load();
        let pinned = view.files.values().flat_map(|file| pinned_copies(file));
        let known = view.needs.keys().chain(view.copies.keys()).cloned();
        known.chain(pinned).collect()
    }

    fn look_at_waiting_copies(&mut self, ctx: &mut Context<Self>) {
        let view = self.shared.view.load();
        for _ in 0..SLICE {
            let Some(key) = self.waiting.pop_first() else {
                return;
            };
            if self.shared.actors.contains(&TransferActor::actor_id(&key)) {
                self.shared
                    .actors
                    .request_look_of(&TransferActor::actor_id(&key));
                continue;
            }
            let wanted = view.copies.contains_key(&key) || is_copy_needed(&view, &key);
            // A copy at a site that is not configured waits until the site is again.
            if wanted && self.shared.sites.contains_key(&key.1) {
                let (digest, site) = key;
                self.shared.start_actor(ActorId::Transfer(digest, site));
            }
        }
        if !self.waiting.is_empty() && !std::mem::replace(&mut self.going_on, true) {
            ctx.notify(ContinueCopies);
        }
    }
}

impl RegisteredActor for DataManager {
    type Key = ();

    fn actor_id(_: &Self::Key) -> ActorId {
        ActorId::DataManager
    }
}

impl Actor for DataManager {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::DataManager.mailbox_bound(&self.shared.settings));
        self.waiting = self.all_copies();
        self.look_at_waiting_copies(ctx);
    }
}

impl Handler<LookAgain> for DataManager {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::DataManager);
        self.dirty.take_owed_look();
        let copies = self.changed.take();
        if copies.is_empty() {
            // A site came or went: copies that wait for one may go on.
            self.shared.actors.request_look_of_all(ActorKind::Transfer);
        }
        self.waiting.extend(copies);
        self.look_at_waiting_copies(ctx);
    }
}

impl Handler<ContinueCopies> for DataManager {
    type Result = ();

    fn handle(&mut self, _: ContinueCopies, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::DataManager);
        self.going_on = false;
        self.look_at_waiting_copies(ctx);
    }
}
