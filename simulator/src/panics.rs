//! Panics of actors, as a seed draws them. Only a chaos build has points that can panic;
//! in any other one nothing comes of them.

use std::sync::Arc;

use cospan_actors::clock::Clock;

use super::lives::Lives;
use super::tally::StrikeTally;

/// How often actors panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panics {
    /// Share of the points passed at which one does, in parts per million.
    pub share: u32,
    /// So often it does again at the same point, at most: what is built anew dies again.
    pub again_max: u32,
}

/// From now on actors on this thread panic like that.
#[cfg(cospan_chaos)]
pub(super) fn plant(
    panics: Panics,
    seed: u64,
    tally: Arc<StrikeTally>,
    lives: Arc<Lives>,
    clock: Arc<dyn Clock>,
) {
    use cospan_actors::chaos::{CrashPoint, panic_when};
    use cospan_actors::supervision::ActorKind;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::lives::Lived;

    let mut chance = StdRng::seed_from_u64(seed ^ 0x0070_616e_6963);
    let mut again: Option<(String, CrashPoint, u32)> = None;
    // Every handler tells first of what kind its actor is.
    let mut entered = None;
    panic_when(Some(Box::new(move |effect, point| {
        if point == CrashPoint::HandlerEntry && !effect.is_empty() {
            entered = ActorKind::ALL
                .into_iter()
                .find(|kind| kind.as_str() == effect);
        }
        // Who cannot be built is not built anew: nothing would come of that site or job.
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
            tally.count(super::kinds::FaultKind::ActorPanics, point.as_str());
            let whose = entered.filter(|_| point == CrashPoint::HandlerEntry);
            lives.note(clock.now(), Lived::Planted(whose));
        }
        strikes
    })));
}

/// Nobody panics any more.
#[cfg(cospan_chaos)]
pub(super) fn clear() {
    cospan_actors::chaos::panic_when(None);
}

/// No point of this build panics.
#[cfg(not(cospan_chaos))]
pub(super) fn plant(_: Panics, _: u64, _: Arc<StrikeTally>, _: Arc<Lives>, _: Arc<dyn Clock>) {}

/// No point of this build panics.
#[cfg(not(cospan_chaos))]
pub(super) fn clear() {}
