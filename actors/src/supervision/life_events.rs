//! The lives of actors, for tests that judge the supervisor. A server has no witness.

use std::cell::RefCell;

use super::{ActorId, SupervisorVerdict};

/// An event in the life of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorTurn {
    /// The actor is to be built: for the first time, or anew after a death.
    Built {
        /// True after a death.
        anew: bool,
    },
    /// The actor died.
    Died,
    /// An escalation followed.
    Judged(SupervisorVerdict),
}

/// A function that sees the lives of actors.
pub type Witness = Box<dyn FnMut(&ActorId, ActorTurn)>;

thread_local! {
    static WITNESS: RefCell<Option<Witness>> = const { RefCell::new(None) };
}

/// Makes `witness` see the lives of actors on this thread from now on; `None` ends that.
pub fn watch_lives(witness: Option<Witness>) {
    WITNESS.set(witness);
}

/// Records an event in a life.
pub(crate) fn record(id: &ActorId, turn: ActorTurn) {
    // Actors may die with their thread.
    let _ = WITNESS.try_with(|witness| {
        if let Some(witness) = witness.borrow_mut().as_mut() {
            witness(id, turn);
        }
    });
}
