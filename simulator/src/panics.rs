//! Panics of actors, drawn from a seed. Only a chaos build has points that can panic; other builds
//! do nothing here.

use std::sync::Arc;

use cospan_actors::clock::Clock;

use super::actor_lives::ActorLives;
use super::fault_tally::FaultEffectTally;

/// Frequency of panics of actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PanicRates {
    /// Share of the passed points at which an actor panics, in parts per million.
    pub share: u32,
    /// Maximal number of further panics at the same point: the actor that is built again dies
    /// again.
    pub again_max: u32,
}

/// Makes actors on this thread panic at that rate from now on.
#[cfg(cospan_chaos)]
pub(super) fn plant_panics(
    panics: PanicRates,
    seed: u64,
    tally: Arc<FaultEffectTally>,
    lives: Arc<ActorLives>,
    clock: Arc<dyn Clock>,
) {
    use cospan_actors::chaos::{CrashPoint, set_panic_hook};
    use cospan_actors::supervision::ActorKind;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::actor_lives::RecordedActorEvent;

    let mut chance = StdRng::seed_from_u64(seed ^ 0x0070_616e_6963);
    let mut again: Option<(String, CrashPoint, u32)> = None;
    // Every handler reports first of what kind its actor is.
    let mut entered = None;
    set_panic_hook(Some(Box::new(move |effect, point| {
        if point == CrashPoint::HandlerEntry && !effect.is_empty() {
            entered = ActorKind::ALL
                .into_iter()
                .find(|kind| kind.as_str() == effect);
        }
        // An actor that cannot be built is not built again: its site or job would be lost.
        if point == CrashPoint::Factory || point == CrashPoint::BeforeAnswer {
            return false;
        }
        let repeats = again.as_mut().is_some_and(|(at_effect, at, left)| {
            let same = at_effect == effect && *at == point && *left > 0;
            *left -= u32::from(same);
            same
        });
        let strikes = repeats || chance.random_range(0..1_000_000) < panics.share;
        if strikes && !repeats {
            let times = chance.random_range(0..=panics.again_max);
            again = Some((effect.to_owned(), point, times));
        }
        if strikes {
            tally.count_fault(super::fault_kinds::FaultKind::ActorPanics, point.as_str());
            let whose = entered.filter(|_| point == CrashPoint::HandlerEntry);
            lives.record_event(clock.now(), RecordedActorEvent::Planted(whose));
        }
        strikes
    })));
}

/// Stops the panics.
#[cfg(cospan_chaos)]
pub(super) fn stop_panics() {
    cospan_actors::chaos::set_panic_hook(None);
}

/// Does nothing: this build has no points that panic.
#[cfg(not(cospan_chaos))]
pub(super) fn plant_panics(
    _: PanicRates,
    _: u64,
    _: Arc<FaultEffectTally>,
    _: Arc<ActorLives>,
    _: Arc<dyn Clock>,
) {
}

/// Does nothing: this build has no points that panic.
#[cfg(not(cospan_chaos))]
pub(super) fn stop_panics() {}
