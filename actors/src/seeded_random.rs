//! Seeded chance, one child stream per purpose, so that a new draw in one place does not disturb
//! the rest.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cospan_domain::units::DurationMs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The purposes of chance, each with a stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RandomPurpose {
    /// Spreading of restarts and retries.
    Jitter,
    /// Names of partial data.
    Nonce,
}

/// The source of all chance in one control plane.
#[derive(Debug)]
pub struct RandomSource {
    streams: Mutex<BTreeMap<RandomPurpose, StdRng>>,
}

impl RandomSource {
    /// Makes a source whose draws all follow from `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Self {
            streams: Mutex::new(
                [RandomPurpose::Jitter, RandomPurpose::Nonce]
                    .map(|purpose: RandomPurpose| {
                        (
                            purpose,
                            StdRng::seed_from_u64(seed ^ ((purpose as u64 + 1) << 56)),
                        )
                    })
                    .into(),
            ),
        }
    }

    /// Draws 64 random bits.
    pub fn draw_bits(&self, purpose: RandomPurpose) -> u64 {
        let mut streams = self
            .streams
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        streams
            .get_mut(&purpose)
            .map_or(0, |stream| stream.random())
    }

    /// Returns `length` plus up to a quarter of it.
    pub fn with_jitter(&self, length: DurationMs) -> DurationMs {
        let most = (length.0 / 4).max(1);
        DurationMs(
            length
                .0
                .saturating_add(self.draw_bits(RandomPurpose::Jitter) % most),
        )
    }
}
