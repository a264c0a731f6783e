//! The address of each actor. Addresses change with every rebuild, so nobody may keep one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::prelude::SendError;
use actix::{Actor, Addr, Handler, Message};
use cospan_domain::ids::{Digest, JobId, SiteName};

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

/// The entry of one actor: its address and its dirty bit.
pub struct RegisteredActor<A: Actor> {
    addr: Addr<A>,
    dirty: DirtyFlag,
}

impl<A: Actor> Clone for RegisteredActor<A> {
    fn clone(&self) -> Self {
        Self {
            addr: self.addr.clone(),
            dirty: self.dirty.clone(),
        }
    }
}

impl<A> RegisteredActor<A>
where
    A: Actor<Context = actix::Context<A>> + Handler<LookAgain>,
{
    /// Makes the entry of a new life.
    pub fn new(addr: Addr<A>, dirty: DirtyFlag) -> Self {
        Self { addr, dirty }
    }

    /// The actor's address in this life.
    pub fn addr(&self) -> &Addr<A> {
        &self.addr
    }

    /// Asks the actor to look, unless it is to look already. Must be called on the control arbiter.
    pub fn request_look(&self) {
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

/// The entries of one kind of actor, by key.
pub struct ActorDirectory<K, A: Actor>(Mutex<BTreeMap<K, RegisteredActor<A>>>);

impl<K, A: Actor> Default for ActorDirectory<K, A> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<K, A> ActorDirectory<K, A>
where
    K: Ord + Clone,
    A: Actor<Context = actix::Context<A>> + Handler<LookAgain>,
{
    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, RegisteredActor<A>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters an actor's new life.
    pub fn register_actor(&self, key: K, entry: RegisteredActor<A>) {
        self.lock().insert(key, entry);
    }

    /// Removes an actor whose work is done.
    pub fn remove_actor(&self, key: &K) {
        self.lock().remove(key);
    }

    /// The actor's address, if it lives.
    pub fn addr(&self, key: &K) -> Option<Addr<A>> {
        self.lock()
            .get(key)
            .map(|entry| entry.addr.clone())
            .filter(Addr::connected)
    }

    /// Sends an actor a message, unless its mailbox is full or it is gone. A clone of an address
    /// may always send one message more: only the address kept here obeys the bound.
    ///
    /// # Errors
    ///
    /// The message was not delivered.
    pub fn send_bounded<M>(&self, key: &K, message: M) -> Result<(), SendError<M>>
    where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        match self.lock().get(key) {
            Some(entry) => entry.addr.try_send(message),
            None => Err(SendError::Closed(message)),
        }
    }

    /// Calls `visit` with each living actor, in order of their keys.
    pub fn for_each_actor(&self, mut visit: impl FnMut(&K, &Addr<A>)) {
        for (key, entry) in self
            .lock()
            .iter()
            .filter(|(_, entry)| entry.addr.connected())
        {
            visit(key, &entry.addr);
        }
    }

    /// The keys of all entries.
    pub fn keys(&self) -> Vec<K> {
        self.lock().keys().cloned().collect()
    }

    /// Returns true if there is an entry, of this life or the last.
    pub fn contains(&self, key: &K) -> bool {
        self.lock().contains_key(key)
    }

    /// Asks one actor to look.
    pub fn request_look_of(&self, key: &K) {
        if let Some(entry) = self.lock().get(key) {
            entry.request_look();
        }
    }

    /// Asks all actors to look.
    pub fn request_look_of_all(&self) {
        self.lock().values().for_each(RegisteredActor::request_look);
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The entries of all actors that others look up.
#[derive(Default)]
pub struct ActorRegistry {
    pub jobs: ActorDirectory<JobId, crate::job::JobActor>,
    /// Site actors.
    pub clusters: ActorDirectory<SiteName, crate::site::ClusterActor>,
    pub transfers: ActorDirectory<(Digest, SiteName), crate::transfer::TransferActor>,
    pub intake: ActorDirectory<(), crate::intake::Intake>,
    /// The catalogue actor.
    pub information: ActorDirectory<(), crate::catalogue::InformationActor>,
    pub data_manager: ActorDirectory<(), crate::transfer::DataManager>,
    pub co_allocator: ActorDirectory<(), crate::coallocator::CoAllocator>,
    pub claimer: ActorDirectory<(), crate::claimer::Claimer>,
    pub notifier: ActorDirectory<(), crate::notifier::Notifier>,
}
