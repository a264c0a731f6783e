//! Knows the active mutant. Written into a copy of the sources; not part of Cospan.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The highest number of a mutant, plus one.
pub const COUNT: usize = NUMBER_OF_MUTANTS;

/// Set from outside, so that one build of the tests serves all mutants.
const VARIABLE: &str = "COSPAN_MUTANT";

static ACTIVE: LazyLock<AtomicU32> = LazyLock::new(|| {
    let named = std::env::var(VARIABLE).ok().and_then(|number| number.parse().ok());
    AtomicU32::new(named.unwrap_or(u32::MAX))
});
static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// Returns true if this mutant is active, and records that it was reached.
#[inline]
pub fn on(mutant: u32) -> bool {
    REACHED[mutant as usize].store(true, Relaxed);
    ACTIVE.load(Relaxed) == mutant
}

/// Makes one mutant active.
pub fn activate(mutant: u32) {
    ACTIVE.store(mutant, Relaxed);
}

/// Lists the mutants reached since the last call.
pub fn take_reached() -> Vec<usize> {
    (0..COUNT).filter(|mutant| REACHED[*mutant].swap(false, Relaxed)).collect()
}

/// The body of a function that returns an iterator; it can be cloned if both iterators can.
pub fn either<T, A: Iterator<Item = T>, B: Iterator<Item = T>>(
    mutated: bool,
    other: A,
    original: B,
) -> std::iter::Chain<std::iter::Take<A>, std::iter::Take<B>> {
    let (others, originals) = if mutated { (usize::MAX, 0) } else { (0, usize::MAX) };
    other.take(others).chain(original.take(originals))
}
