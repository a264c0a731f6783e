//! The shape that every durable thing shares: decide, evolve, due, next wake.
//!
//! A command is decided into events, events are made durable, and only then
//! does the state follow. What is to be done is derived from the state alone,
//! so that start, restart, hint and tick all run the same line.

use crate::units::Timestamp;

/// A durable thing as a pure state machine.
pub trait Machine {
    /// What is durable.
    type State: Clone;
    /// What may be asked of it or told to it.
    type Command;
    /// What happened to it, journalled.
    type Event: Clone;
    /// Why a command changes nothing.
    type Rejection;
    /// What it asks the shell to do.
    type Effect;
    /// Settings that decisions depend on.
    type Parameters;

    /// What follows from a command. No events means: nothing to do, and no error.
    ///
    /// # Errors
    /// The command does not fit the state; nothing happened.
    fn decide(
        state: &Self::State,
        parameters: &Self::Parameters,
        command: Self::Command,
        now: Timestamp,
    ) -> Result<Vec<Self::Event>, Self::Rejection>;

    /// The state after an event. Total: an event that was journalled is never refused.
    fn evolve(state: &mut Self::State, event: &Self::Event);

    /// Effects that are due: each stays due until an event records its outcome.
    fn due(state: &Self::State, parameters: &Self::Parameters, now: Timestamp)
    -> Vec<Self::Effect>;

    /// When to look again if nothing happens before; `None`: only when something happens.
    fn next_wake(
        state: &Self::State,
        parameters: &Self::Parameters,
        now: Timestamp,
    ) -> Option<Timestamp>;
}
