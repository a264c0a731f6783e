//! The address of each actor. Addresses change with every rebuild, so nobody may keep one.
//!
//! Whoever sends an actor a message names its type. A request to look names only its id, so that the
//! actors below can make it of those above.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::prelude::SendError;
use actix::{Actor, Addr, Context, Handler, Message};

use crate::supervision::{ActorId, ActorKind};

/// Asks an actor to look at its world again. It carries no state, so one waiting is enough.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct LookAgain;

/// A bit per actor: set while a look is owed. Whoever sets it first sends the message. A full
/// mailbox loses nothing, because the bit stays.
#[derive(Debug, Clone, Default)]
pub struct DirtyFlag(Arc<AtomicBool>);

impl DirtyFlag {
    /// Clears the bit; returns true if it was set.
    pub fn take_owed_look(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }

    fn mark_dirty(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Sets the bit without a message, for an actor that looks again by itself.
    pub fn owe_look(&self) {
        self.mark_dirty();
    }

    /// Returns true if a look is owed.
    pub fn owes_look(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// An actor that others look up.
pub trait RegisteredActor: Actor<Context = Context<Self>> + Handler<LookAgain> {
    /// The key that tells such an actor from the others; `()` if there is but one.
    type Key: Clone + Send + 'static;

    /// The name of the actor with this key.
    fn actor_id(key: &Self::Key) -> ActorId;
}

/// The entry of one actor: its address and its dirty bit.
struct RegistryEntry<A: RegisteredActor> {
    key: A::Key,
    addr: Addr<A>,
    dirty: DirtyFlag,
}

/// An entry of whatever actor.
trait AnyRegistryEntry: Any + Send {
    /// Asks the actor to look, unless it is to look already. Must be called on the control arbiter.
    fn request_look(&self);
}

impl<A: RegisteredActor> AnyRegistryEntry for RegistryEntry<A> {
    fn request_look(&self) {
        if !self.dirty.mark_dirty() {
            return;
        }
        if let Err(SendError::Full(look)) = self.addr.try_send(LookAgain) {
            // Later callers find the bit set and send nothing, so this call waits for room. The bit
            // allows one such wait an actor.
            let send = self.addr.send(look);
            actix_rt::spawn(async move {
                // An actor that died in between looks at everything when it is rebuilt.
                let _ = send.await;
            });
        }
    }
}

impl dyn AnyRegistryEntry {
    fn of_actor<A: RegisteredActor>(&self) -> Option<&RegistryEntry<A>> {
        (self as &dyn Any).downcast_ref()
    }
}

type RegistryEntries = BTreeMap<ActorId, Box<dyn AnyRegistryEntry>>;

/// The entries of all actors that others look up.
#[derive(Default)]
pub struct ActorRegistry(Mutex<BTreeMap<ActorKind, RegistryEntries>>);

impl ActorRegistry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ActorKind, RegistryEntries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `visit` with the entry of an actor, if there is one, of this life or the last.
    fn visit_entry<A: RegisteredActor, R>(
        &self,
        key: &A::Key,
        visit: impl FnOnce(&RegistryEntry<A>) -> R,
    ) -> Option<R> {
        let id = A::actor_id(key);
        let kinds = self.lock();
        kinds.get(&id.kind())?.get(&id)?.of_actor::<A>().map(visit)
    }

    /// Starts an actor's new life, and enters it.
    pub fn start_and_enter<A: RegisteredActor>(
        &self,
        key: A::Key,
        make: impl FnOnce(DirtyFlag) -> A,
    ) {
        let id = A::actor_id(&key);
        let dirty = DirtyFlag::default();
        let addr = make(dirty.clone()).start();
        let entry = Box::new(RegistryEntry { key, addr, dirty });
        self.lock().entry(id.kind()).or_default().insert(id, entry);
    }

    /// Removes an actor whose work is done.
    pub fn remove_actor(&self, id: &ActorId) {
        if let Some(entries) = self.lock().get_mut(&id.kind()) {
            entries.remove(id);
        }
    }

    /// The actor's address, if it lives.
    pub fn addr<A: RegisteredActor>(&self, key: &A::Key) -> Option<Addr<A>> {
        self.visit_entry(key, |entry: &RegistryEntry<A>| entry.addr.clone())
            .filter(Addr::connected)
    }

    /// Sends an actor a message, unless its mailbox is full or it is gone. A clone of an address
    /// may always send one message more: only the address kept here obeys the bound.
    ///
    /// # Errors
    ///
    /// The message was not delivered.
    pub fn send_bounded<A, M>(&self, key: &A::Key, message: M) -> Result<(), SendError<M>>
    where
        A: RegisteredActor + Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let id = A::actor_id(key);
        let kinds = self.lock();
        let entry = kinds.get(&id.kind()).and_then(|entries| entries.get(&id));
        match entry.and_then(|entry| entry.of_actor::<A>()) {
            Some(entry) => entry.addr.try_send(message),
            None => Err(SendError::Closed(message)),
        }
    }

    /// Calls `visit` with each living actor of one kind, in order of their keys. `visit` must not
    /// look up actors itself.
    pub fn for_each_actor<A: RegisteredActor>(
        &self,
        kind: ActorKind,
        mut visit: impl FnMut(&A::Key, &Addr<A>),
    ) {
        let kinds = self.lock();
        let entries = kinds.get(&kind).into_iter().flat_map(BTreeMap::values);
        for entry in entries.filter_map(|entry| entry.of_actor::<A>()) {
            if entry.addr.connected() {
                visit(&entry.key, &entry.addr);
            }
        }
    }

    /// Lists the entries of one kind of actor.
    pub fn ids(&self, kind: ActorKind) -> Vec<ActorId> {
        let kinds = self.lock();
        let entries = kinds.get(&kind).into_iter().flat_map(BTreeMap::keys);
        entries.cloned().collect()
    }

    /// Returns true if there is an entry, of this life or the last.
    pub fn contains(&self, id: &ActorId) -> bool {
        let kinds = self.lock();
        kinds
            .get(&id.kind())
            .is_some_and(|entries| entries.contains_key(id))
    }

    /// Asks one actor to look.
    pub fn request_look_of(&self, id: &ActorId) {
        if let Some(entry) = self.lock().get(&id.kind()).and_then(|all| all.get(id)) {
            entry.request_look();
        }
    }

    /// Asks all actors of one kind to look.
    pub fn request_look_of_all(&self, kind: ActorKind) {
        let kinds = self.lock();
        let entries = kinds.get(&kind).into_iter().flat_map(BTreeMap::values);
        entries.for_each(|entry| entry.request_look());
    }
}
