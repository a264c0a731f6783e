//! Random numbers in separate streams, all from one seed.
//!
//! Each purpose has its own stream, for each thing that it draws for: so one more draw in one place
//! leaves all others as they were.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// FNV-1a, 64 bits (Fowler, Noll, Vo): small, and the same for ever.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The stream for `purpose` at `place` under `seed`.
pub(crate) fn random_stream(seed: u64, purpose: &str, place: &str) -> StdRng {
    let seed = seed.to_le_bytes();
    // The length keeps ("ab", "c") and ("a", "bc") apart.
    let length = purpose.len().to_le_bytes();
    let bytes = seed
        .iter()
        .chain(&length)
        .chain(purpose.as_bytes())
        .chain(place.as_bytes());
    let hash = bytes.fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
    });
    StdRng::seed_from_u64(hash)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::Rng;

    use super::*;

    #[test]
    fn seed_purpose_and_place_each_give_another_stream() {
        let keys = [
            (1, "ab", "c"),
            (2, "ab", "c"),
            (1, "a", "bc"),
            (1, "ab", "d"),
            (1, "b", "c"),
        ];
        let first: BTreeSet<u64> = keys
            .map(|(seed, purpose, place)| random_stream(seed, purpose, place).random())
            .into();
        assert_eq!(first.len(), keys.len());
    }

    #[test]
    fn the_same_key_gives_the_same_stream() {
        let draw = || random_stream(7, "failures", "delft").random::<u64>();
        assert_eq!(draw(), draw());
    }
}
