//! What becomes of actors, for whoever judges their supervisor. Nobody looks in a server.

use std::cell::RefCell;

use super::{ActorId, SupervisorVerdict};

/// A turn in the life of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorTurn {
    /// It is to be built: for the first time, or anew after a death.
    Built {
        /// Which of the two.
        anew: bool,
    },
    /// It died.
    Died,
    /// More than a new life followed.
    Judged(SupervisorVerdict),
}

/// Sees the lives of actors.
pub type Witness = Box<dyn FnMut(&ActorId, ActorTurn)>;

thread_local! {
    static WITNESS: RefCell<Option<Witness>> = const { RefCell::new(None) };
}

/// From now on `witness` sees the lives of actors on this thread; `None`: nobody does.
pub fn watch_lives(witness: Option<Witness>) {
    WITNESS.set(witness);
}

/// A life takes a turn.
pub(crate) fn tell(id: &ActorId, turn: ActorTurn) {
    // Actors may die with their thread.
    let _ = WITNESS.try_with(|witness| {
        if let Some(witness) = witness.borrow_mut().as_mut() {
            witness(id, turn);
        }
    });
}
