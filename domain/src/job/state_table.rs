//! The state machine of a job as a table, for the book and for the oracle.

use std::fmt::Write;

use crate::job::job_event::JobEventKind;
use crate::job::job_state::PhaseKind;

/// A transition: in phase `from`, the event leads to phase `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhaseTransition {
    pub from: PhaseKind,
    /// The name of the event.
    pub event: &'static str,
    pub to: PhaseKind,
    /// The condition, for people.
    pub when: &'static str,
}

macro_rules! table {
    ($($from:ident $event:ident $to:ident : $when:literal;)*) => {
        &[$(PhaseTransition {
            from: PhaseKind::$from,
            event: stringify!($event),
            to: PhaseKind::$to,
            when: $when,
        }),*]
    };
}

/// Every transition that changes the phase. What is not listed never happens.
pub const TRANSITIONS: &[PhaseTransition] = table! {
    Queued JobPlaced Placed: "every component has a site";
    Queued JobFailed Failed: "more tries than max_placement_tries, or no site grants its reservation";
    Queued RoundAborted Aborting: "a user cancels, or wants another start or none, while sites are asked for reservations";
    Queued JobCancelled Cancelled: "a user cancels";
    Placed ClaimBegun Claiming: "it is time to claim, and every component could start now";
    Placed ComponentsClaimed Claiming: "it is time to claim, and enough components could start now (T < 1)";
    Placed RoundAborted Aborting: "input is lost, the site is being drained, or a user cancels while reservations are held, or gives them back";
    Placed JobCancelled Cancelled: "a user cancels";
    Claiming GoDecided Starting: "all that begin together wait at their gates and all input is there";
    Claiming ClaimReturned Placed: "what was claimed was given back, and there is time for another try";
    Claiming RoundAborted Aborting: "processors are not had in time, a site fails, a payload cannot start, input is lost, drain, cancel, a reservation is given back";
    Starting JobStarted Running: "all payloads that begin together have begun";
    Starting RoundAborted Aborting: "one has not begun within go_grace of the others, fails, or its site is silent; cancel";
    Running PayloadsSucceeded Collecting: "all payloads succeeded";
    Running RoundAborted Aborting: "a payload or a site fails, a site is silent, the wall time is long over; cancel";
    Collecting JobFinished Finished: "all outputs are where they belong";
    Collecting JobFailed Failed: "its site did not take an output, after so many tries";
    Collecting RoundAborted Aborting: "an output is missing, or its site is silent; cancel";
    Aborting JobRequeued Queued: "nothing of the round lives, and the job may be tried again";
    Aborting JobFailed Failed: "nothing of the round lives, and the job is given up";
    Aborting JobCancelled Cancelled: "nothing of the round lives, and a user cancelled";
};

/// Returns true if an event may lead from one phase to another. Events that keep the phase are
/// always allowed, except in a final one: there only the delivery of messages about the end is
/// recorded.
pub fn is_transition_allowed(from: PhaseKind, event: &str, to: PhaseKind) -> bool {
    if from == to {
        return from.is_final() == (event == JobEventKind::END_TOLD);
    }
    TRANSITIONS
        .iter()
        .any(|t| t.from == from && t.event == event && t.to == to)
}

/// Formats the table as Markdown.
pub fn to_markdown() -> String {
    let mut text = String::from("| from | event | to | when |\n|---|---|---|---|\n");
    for t in TRANSITIONS {
        let from = t.from.as_str();
        let to = t.to.as_str();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {from} | `{}` | {to} | {} |", t.event, t.when);
    }
    text
}
