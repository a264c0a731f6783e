//! How a job becomes components.

use rand::Rng;
use rand::rngs::StdRng;

/// The largest number of components of a job, however it is split.
pub const COMPONENTS_MAX: u32 = 1000;

/// How a job becomes components, at most [`COMPONENTS_MAX`]. They are as equal as can be: their sizes
/// differ by at most one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// One component.
    None,
    /// This many components, at least 1; fewer for jobs that have fewer
    /// processors.
    Into(u32),
    /// The fewest components of at most this many processors, at least 1.
    LargerThan(u32),
    /// 1, 2 or 4 components, equally likely; fewer for jobs that have fewer
    /// processors.
    Random,
}

impl Split {
    /// The components of a job of at least one processor, largest first.
    pub(super) fn components(self, processors: u32, rng: &mut StdRng) -> Vec<u32> {
        let wanted = match self {
            Self::None => 1,
            Self::Into(count) => count,
            Self::LargerThan(most) => processors.div_ceil(most.max(1)),
            Self::Random => [1, 2, 4][rng.random_range(0..3)],
        };
        let count = wanted.clamp(1, processors.clamp(1, COMPONENTS_MAX));
        let (each, larger) = (processors / count, processors % count);
        (0..count).map(|index| each + u32::from(index < larger)).collect()
    }

    /// Part of a line: what it does.
    pub fn describe(&self) -> String {
        match self {
            Self::None => "not split".into(),
            Self::Into(count) => format!("split into {count}"),
            Self::LargerThan(most) => format!("split above {most} processors"),
            Self::Random => "split into 1, 2 or 4 at random".into(),
        }
    }
}
