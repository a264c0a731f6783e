//! Lives and deaths of actors as they truly were, reign by reign: who was made to panic,
//! who died, who was built, and what was carried out when somebody died too often. Adapters
//! of sites panic in any build, actors at planted points in a chaos build only.

use std::sync::{Arc, Mutex, PoisonError};

use cospan_actors::clock::Clock;
use cospan_actors::supervision::witness::{Turn, watch_lives};
use cospan_actors::supervision::{ActorId, ActorKind, Verdict};
use cospan_domain::units::Timestamp;

/// Something that happened to actors or to their process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lived {
    /// A panic was planted: in a handler of an actor of this kind, or somewhere else.
    Planted(Option<ActorKind>),
    /// An actor died.
    Died(ActorId),
    /// An actor was to be built: for the first time, or anew after a death.
    Built(ActorId, bool),
    /// This was carried out because an actor died.
    Judged(ActorId, Verdict),
    /// The disk failed.
    DiskFailed,
    /// The control plane asked for the end of its process.
    Fatal(String),
}

/// The lives of one reign.
#[derive(Debug, Clone, Default)]
pub struct Reigned {
    /// What happened, in order.
    pub lived: Vec<(Timestamp, Lived)>,
    /// When it was over.
    pub ended: Option<Timestamp>,
    /// Deaths that its supervisor says it was told of.
    pub counted: u64,
}

/// The lives of all reigns.
#[derive(Debug, Default)]
pub struct Lives(Mutex<Vec<Reigned>>);

impl Lives {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<Reigned>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn begin(&self) {
        self.with(|reigns| reigns.push(Reigned::default()));
    }

    /// What comes later is the doing of the laboratory, which drops all that is left.
    pub(super) fn end(&self, now: Timestamp, counted: u64) {
        self.with(|reigns| {
            if let Some(reign) = reigns.last_mut() {
                (reign.ended, reign.counted) = (Some(now), counted);
            }
        });
    }

    pub(super) fn note(&self, now: Timestamp, lived: Lived) {
        self.with(|reigns| {
            if let Some(reign) = reigns.last_mut().filter(|reign| reign.ended.is_none()) {
                reign.lived.push((now, lived));
            }
        });
    }

    /// All of them so far.
    pub fn reigns(&self) -> Vec<Reigned> {
        self.with(|reigns| reigns.clone())
    }
}

/// From now on the lives of actors on this thread are seen.
pub(super) fn watch(lives: Arc<Lives>, clock: Arc<dyn Clock>) {
    watch_lives(Some(Box::new(move |id, turn| {
        let id = id.clone();
        let lived = match turn {
            Turn::Built { anew } => Lived::Built(id, anew),
            Turn::Died => Lived::Died(id),
            Turn::Judged(verdict) => Lived::Judged(id, verdict),
        };
        lives.note(clock.now(), lived);
    })));
}

/// Nobody sees them any more.
pub(super) fn clear() {
    watch_lives(None);
}
