//! Which mutant is active. Written into a copy of the sources; not part of Cospan.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// One more than the highest number of a mutant.
pub const COUNT: usize = NUMBER_OF_MUTANTS;

/// Set from outside, so that one build of the tests serves all mutants.
const VARIABLE: &str = "COSPAN_MUTANT";

static ACTIVE: LazyLock<AtomicU32> = LazyLock::new(|| {
    let named = std::env::var(VARIABLE).ok().and_then(|number| number.parse().ok());
    AtomicU32::new(named.unwrap_or(u32::MAX))
});
static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// Whether this mutant is active. That it was asked for is noted.
#[inline]
pub fn on(mutant: u32) -> bool {
    REACHED[mutant as usize].store(true, Relaxed);
    ACTIVE.load(Relaxed) == mutant
}

/// Makes one mutant active.
pub fn activate(mutant: u32) {
    ACTIVE.store(mutant, Relaxed);
}

/// Which were asked for since the last call.
pub fn take_reached() -> Vec<usize> {
    (0..COUNT).filter(|mutant| REACHED[*mutant].swap(false, Relaxed)).collect()
}

/// What a function returns that gives an iterator; it can be cloned if both can.
pub fn either<T, A: Iterator<Item = T>, B: Iterator<Item = T>>(
    mutated: bool,
    other: A,
    original: B,
) -> std::iter::Chain<std::iter::Take<A>, std::iter::Take<B>> {
    let (others, originals) = if mutated { (usize::MAX, 0) } else { (0, usize::MAX) };
    other.take(others).chain(original.take(originals))
}
