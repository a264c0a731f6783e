//! Lives and deaths of actors as they truly were: which actors were made to panic, died and were
//! built, and what the supervisor did when an actor died too often. Adapters of sites panic in any
//! build, actors at planted points in a chaos build only.

use std::sync::{Arc, Mutex, PoisonError};

use cospan_actors::clock::Clock;
use cospan_actors::supervision::life_events::{ActorLifecycleEvent, set_life_event_handler};
use cospan_actors::supervision::{ActorId, ActorKind, Escalation};
use cospan_domain::units::{DurationMs, Timestamp};

/// An event in the life of an actor or of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedActorEvent {
    /// A panic was planted: in a handler of an actor of this kind, or elsewhere.
    Planted(Option<ActorKind>),
    /// An actor died.
    Died(ActorId),
    /// An actor was to be built: for the first time, or again (`true`) after a death.
    Built(ActorId, bool),
    /// The verdict that the supervisor carried out because an actor died.
    Judged(ActorId, Escalation),
    /// An actor was made to take no message for this long, with its mailbox full (`true`) or not.
    Stalled(ActorId, DurationMs, bool),
    /// The disk failed.
    DiskFailed,
    /// The control plane asked for the end of its process.
    Fatal(String),
}

/// The lives of one run of the control plane.
#[derive(Debug, Clone, Default)]
pub struct RunActorLives {
    /// Events in order.
    pub lived: Vec<(Timestamp, RecordedActorEvent)>,
    /// Time at which the run was over.
    pub ended: Option<Timestamp>,
    /// Deaths that the supervisor says it was told of.
    pub counted: u64,
}

impl RunActorLives {
    /// Returns for how much of the time from `since` to `now` at least one of these actors stalled.
    pub fn stalled_time(
        &self,
        since: Timestamp,
        now: Timestamp,
        which: impl Fn(&ActorId) -> bool,
    ) -> DurationMs {
        let mut total = DurationMs::ZERO;
        let mut until = since;
        for (at, lived) in &self.lived {
            let RecordedActorEvent::Stalled(id, lasts, _) = lived else {
                continue;
            };
            let from = (*at).max(until);
            let to = (*at + *lasts).min(now);
            if from < to && which(id) {
                total = total + to.since(from);
                until = to;
            }
        }
        total
    }
}

/// The lives of actors in all runs.
#[derive(Debug, Default)]
pub struct ActorLives(Mutex<Vec<RunActorLives>>);

impl ActorLives {
    fn with_runs<T>(&self, act: impl FnOnce(&mut Vec<RunActorLives>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn begin_run(&self) {
        self.with_runs(|control_plane_runs| control_plane_runs.push(RunActorLives::default()));
    }

    /// Ends the record of a run: later deaths come from the simulator, which drops all that is
    /// left.
    pub(super) fn end_run(&self, now: Timestamp, counted: u64) {
        self.with_runs(|control_plane_runs| {
            if let Some(plane_run) = control_plane_runs.last_mut() {
                plane_run.ended = Some(now);
                plane_run.counted = counted;
            }
        });
    }

    pub(super) fn record_event(&self, now: Timestamp, lived: RecordedActorEvent) {
        self.with_runs(|control_plane_runs| {
            if let Some(plane_run) = control_plane_runs
                .last_mut()
                .filter(|plane_run| plane_run.ended.is_none())
            {
                plane_run.lived.push((now, lived));
            }
        });
    }

    /// Returns the same as [`RunActorLives::stalled_time`], for the current run of the control
    /// plane.
    pub fn stalled_time(
        &self,
        since: Timestamp,
        now: Timestamp,
        which: impl Fn(&ActorId) -> bool,
    ) -> DurationMs {
        self.with_runs(|control_plane_runs: &mut Vec<RunActorLives>| {
            Some(control_plane_runs.last()?.stalled_time(since, now, which))
        })
        .unwrap_or_default()
    }

    /// Returns when the last life of an actor began in the current run of the control plane.
    pub fn life_began_at(&self, id: &ActorId) -> Option<Timestamp> {
        self.with_runs(|control_plane_runs| {
            let lived = control_plane_runs.last()?.lived.iter().rev();
            let mut births = lived
                .filter(|(_, lived)| matches!(lived, RecordedActorEvent::Built(of, _) if of == id));
            births.next().map(|(at, _)| *at)
        })
    }

    /// Returns the records of all runs so far.
    pub fn run_records(&self) -> Vec<RunActorLives> {
        self.with_runs(|control_plane_runs| control_plane_runs.clone())
    }
}

/// Records the lives of actors on this thread from now on.
pub(super) fn watch_actors(lives: Arc<ActorLives>, clock: Arc<dyn Clock>) {
    set_life_event_handler(Some(Box::new(move |id, turn| {
        let id = id.clone();
        let lived = match turn {
            ActorLifecycleEvent::Built { anew } => RecordedActorEvent::Built(id, anew),
            ActorLifecycleEvent::Died => RecordedActorEvent::Died(id),
            ActorLifecycleEvent::Judged(verdict) => RecordedActorEvent::Judged(id, verdict),
        };
        lives.record_event(clock.now(), lived);
    })));
}

/// Stops the record of the lives of actors on this thread.
pub(super) fn stop_watching_actors() {
    set_life_event_handler(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_stalls_count_once_and_only_within_what_is_asked_for() {
        let stall = |at, id, lasts| {
            (
                Timestamp(at),
                RecordedActorEvent::Stalled(id, DurationMs(lasts), false),
            )
        };
        let lived = vec![
            stall(100, ActorId::Journal, 100),
            stall(150, ActorId::Claimer, 100),
            stall(160, ActorId::Journal, 10),
            stall(400, ActorId::Journal, 100),
        ];
        let plane_run = RunActorLives {
            lived,
            ..RunActorLives::default()
        };
        let stalled = |since, now, which: fn(&ActorId) -> bool| {
            plane_run
                .stalled_time(Timestamp(since), Timestamp(now), which)
                .0
        };
        assert_eq!(stalled(0, 1_000, |_| true), 250);
        assert_eq!(stalled(120, 450, |_| true), 180);
        assert_eq!(stalled(0, 1_000, |id| *id == ActorId::Claimer), 100);
        assert_eq!(stalled(250, 400, |_| true), 0);
    }
}
