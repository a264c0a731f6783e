//! The shape of every durable state machine: decide, evolve, due, next wake.
//!
//! A command is decided into events, events are made durable, and only then does the state follow.
//! Effects are derived from the state alone, so that start, restart, hint and tick all take the
//! same path.

use crate::units::Timestamp;

/// A pure state machine with a durable state.
pub trait StateMachine {
    /// The durable state.
    type State: Clone;
    /// Requests to it, and reports of what was observed.
    type Command;
    /// Events, which are journalled.
    type Event: Clone;
    /// The reason why a command changes nothing.
    type Rejection;
    /// Calls that its actor is to make.
    type Effect;
    /// Settings that decisions depend on.
    type Parameters;

    /// Decides the events that follow from a command. No events means that there is nothing to do,
    /// and no error.
    ///
    /// # Errors
    /// The command does not fit the state; nothing happened.
    fn decide(
        state: &Self::State,
        parameters: &Self::Parameters,
        command: Self::Command,
        now: Timestamp,
    ) -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Applies an event to the state. Total: an event that was journalled is never refused.
    fn evolve(state: &mut Self::State, event: &Self::Event);

    /// Lists the effects that are due: each stays due until an event records its outcome.
    fn due(state: &Self::State, parameters: &Self::Parameters, now: Timestamp)
    -> Vec<Self::Effect>;

    /// Returns the time to look again if nothing happens before; `None`: only when something
    /// happens.
    fn next_wake(
        state: &Self::State,
        parameters: &Self::Parameters,
        now: Timestamp,
    ) -> Option<Timestamp>;
}
