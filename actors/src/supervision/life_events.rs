//! The lives of actors, for tests that judge the supervisor. A server has no witness.

use std::cell::RefCell;

use super::{ActorId, Escalation};

/// An event in the life of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorLifecycleEvent {
    /// The actor is to be built: for the first time, or anew after a death.
    Built {
        /// True after a death.
        anew: bool,
    },
    /// The actor died.
    Died,
    /// An escalation followed.
    Judged(Escalation),
}

/// A function that sees the lives of actors.
pub type LifeEventHandler = Box<dyn FnMut(&ActorId, ActorLifecycleEvent)>;

thread_local! {
    static WITNESS: RefCell<Option<LifeEventHandler>> = const { RefCell::new(None) };
}

/// Makes `witness` see the lives of actors on this thread from now on; `None` ends that.
pub fn set_life_event_handler(witness: Option<LifeEventHandler>) {
    WITNESS.set(witness);
}

/// Records an event in a life.
pub(crate) fn record_life_event(id: &ActorId, turn: ActorLifecycleEvent) {
    // Actors may die with their thread.
    let _ = WITNESS.try_with(|witness| {
        if let Some(witness) = witness.borrow_mut().as_mut() {
            witness(id, turn);
        }
    });
}
