//! The guard that reports a death to the supervisor.

use actix::Addr;

use super::life_events::{self, ActorLifecycleEvent};
use super::{ActorDeath, ActorId, Supervisor};

/// Carried by every supervised actor. Dropped without having been disarmed, it reports the death: a
/// panic drops the actor while unwinding.
#[derive(Debug)]
pub struct LifeGuard {
    id: Option<Box<ActorId>>,
    supervisor: Addr<Supervisor>,
}

impl LifeGuard {
    /// Makes the guard of one life of an actor.
    pub fn new(id: ActorId, supervisor: Addr<Supervisor>) -> Self {
        Self {
            id: Some(Box::new(id)),
            supervisor,
        }
    }

    /// Disarms the guard of an actor that ends because its work is done.
    pub fn disarm(&mut self) {
        self.id = None;
    }
}

impl Drop for LifeGuard {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            life_events::record_life_event(&id, ActorLifecycleEvent::Died);
            // Bounded by the number of actors: each dies once.
            self.supervisor.do_send(ActorDeath { id: *id });
        }
    }
}
