//! Crash points and planted panics, named after the steps of the protocol.
//!
//! Compiled to nothing, but for the count of messages, unless the build sets
//! `--cfg cospan_chaos`; see the chapter on chaos in the book.

use std::cell::Cell;

thread_local! {
    static MESSAGES: Cell<u64> = const { Cell::new(0) };
}

/// The number of messages that actors on this thread have handled so far. A simulated control plane
/// has all of its actors on one thread.
pub fn handled_message_count() -> u64 {
    MESSAGES.get()
}

fn count_message() {
    MESSAGES.set(MESSAGES.get() + 1);
}

/// A step at which a chaos build may crash or panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrashPoint {
    /// A handler was entered.
    HandlerEntry,
    /// An actor starts.
    Started,
    /// An actor is being built.
    Factory,
    /// Events were decided, and are not yet durable.
    Decided,
    /// Effects of this kind will be due once the journal has the events.
    BeforeJournal,
    /// The events that make effects of this kind due are durable.
    AfterJournal,
    /// An effect of this kind is about to be performed.
    BeforeEffect,
    /// The effect was performed; its outcome is not recorded.
    AfterEffect,
    /// A client is about to be answered.
    BeforeAnswer,
    /// A future that an actor spawned runs.
    SpawnedFuture,
}

impl CrashPoint {
    /// All points.
    pub const ALL: [CrashPoint; 10] = [
        CrashPoint::HandlerEntry,
        CrashPoint::Started,
        CrashPoint::Factory,
        CrashPoint::Decided,
        CrashPoint::BeforeJournal,
        CrashPoint::AfterJournal,
        CrashPoint::BeforeEffect,
        CrashPoint::AfterEffect,
        CrashPoint::BeforeAnswer,
        CrashPoint::SpawnedFuture,
    ];

    /// The point's name in chaos plans.
    pub fn as_str(self) -> &'static str {
        match self {
            CrashPoint::HandlerEntry => "handler-entry",
            CrashPoint::Started => "started",
            CrashPoint::Factory => "factory",
            CrashPoint::Decided => "decided",
            CrashPoint::BeforeJournal => "before-journal",
            CrashPoint::AfterJournal => "after-journal",
            CrashPoint::BeforeEffect => "before-effect",
            CrashPoint::AfterEffect => "after-effect",
            CrashPoint::BeforeAnswer => "before-answer",
            CrashPoint::SpawnedFuture => "spawned-future",
        }
    }
}

#[cfg(not(cospan_chaos))]
mod quiet {
    use cospan_domain::job::job_state::Job;
    use cospan_domain::site::site_state::SiteRecord;
    use cospan_domain::units::Timestamp;

    use super::CrashPoint;
    use crate::supervision::ActorKind;

    /// Called when a handler of an actor of this kind is entered.
    #[inline(always)]
    pub fn enter_handler(_: ActorKind) {
        super::count_message();
    }

    /// Notes how many jobs are accepted and not ended. They are counted only in a chaos build.
    #[inline(always)]
    pub fn note_jobs_in_flight(_: impl FnOnce() -> usize) {}

    /// Passes a point.
    #[inline(always)]
    pub fn reach_point(_: CrashPoint) {}

    /// Passes a point for an effect of this name.
    #[inline(always)]
    pub fn reach_for_effect(_: &str, _: CrashPoint) {}

    /// Passes a point for each of these effects.
    #[inline(always)]
    pub fn reach_for_effects(_: &[&'static str], _: CrashPoint) {}

    /// Lists the effects that a record makes due.
    #[inline(always)]
    pub fn due_effect_names(_: &Job, _: Timestamp) -> Vec<&'static str> {
        Vec::new()
    }

    /// Names the call that a site is due next about shared reservations.
    #[inline(always)]
    pub fn due_site_call_names(_: &SiteRecord) -> Vec<&'static str> {
        Vec::new()
    }
}

#[cfg(not(cospan_chaos))]
pub use quiet::{
    due_effect_names, due_site_call_names, enter_handler, note_jobs_in_flight, reach_for_effect,
    reach_for_effects, reach_point,
};

#[cfg(cospan_chaos)]
mod chaos_points;

#[cfg(cospan_chaos)]
pub use chaos_points::{
    due_effect_names, due_site_call_names, enter_handler, load_plan, note_jobs_in_flight,
    reach_for_effect, reach_for_effects, reach_point, set_panic_hook,
};
