//! The split of a job into components.

use std::fmt;
use std::str::FromStr;

use rand::Rng;
use rand::rngs::StdRng;

/// The largest number of components of a job, whatever its split.
pub const COMPONENTS_MAX: u32 = 1000;

/// The split of a job into components, at most [`COMPONENTS_MAX`]. They are as equal as possible:
/// their sizes differ by at most one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadSplit {
    /// No split: a single component.
    None,
    /// This many components, at least 1; fewer for jobs that have fewer processors.
    Into(u32),
    /// The fewest components of at most this many processors, at least 1.
    LargerThan(u32),
    /// 1, 2 or 4 components, equally likely; fewer for jobs that have fewer
    /// processors.
    Random,
}

/// The size of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobSize {
    /// Total processors, which a [`WorkloadSplit`] divides into components.
    Whole(u32),
    /// Components that are given, whatever the [`WorkloadSplit`].
    Parts {
        /// The number of components, at least 1.
        count: u32,
        /// Processors of each, at least 1.
        each: u32,
    },
}

impl JobSize {
    /// Total processors.
    pub fn processors(self) -> u32 {
        match self {
            Self::Whole(processors) => processors,
            Self::Parts { count, each } => count.saturating_mul(each),
        }
    }

    /// The number of components, if they are given.
    pub(super) fn given_components(self) -> Option<u32> {
        match self {
            Self::Whole(_) => None,
            Self::Parts { count, .. } => Some(count),
        }
    }
}

impl From<u32> for JobSize {
    fn from(processors: u32) -> Self {
        Self::Whole(processors)
    }
}

impl fmt::Display for JobSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(processors) => write!(f, "{processors}"),
            Self::Parts { count, each } => write!(f, "{count}x{each}"),
        }
    }
}

impl FromStr for JobSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = match text.split_once('x') {
            None => read_number(text).map(Self::Whole),
            Some((count, each)) => read_number(count)
                .filter(|count| *count <= COMPONENTS_MAX)
                .zip(read_number(each))
                .map(|(count, each)| Self::Parts { count, each }),
        };
        size.ok_or_else(|| {
            format!(
                "write processors like 36, or components like 4x9 (at most {COMPONENTS_MAX}), \
                 above 0"
            )
        })
    }
}

fn read_number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| *number > 0)
}

impl WorkloadSplit {
    /// The components of a job of at least one processor, largest first.
    pub(super) fn split_processors(self, processors: u32, rng: &mut StdRng) -> Vec<u32> {
        let wanted = match self {
            Self::None => 1,
            Self::Into(count) => count,
            Self::LargerThan(most) => processors.div_ceil(most.max(1)),
            Self::Random => [1, 2, 4][rng.random_range(0..3)],
        };
        let count = wanted.clamp(1, processors.clamp(1, COMPONENTS_MAX));
        let each = processors / count;
        let larger = processors % count;
        (0..count)
            .map(|index| each + u32::from(index < larger))
            .collect()
    }

    /// Describes the split, as part of a line.
    pub fn describe(&self) -> String {
        match self {
            Self::None => "not split".into(),
            Self::Into(count) => format!("split into {count}"),
            Self::LargerThan(most) => format!("split above {most} processors"),
            Self::Random => "split into 1, 2 or 4 at random".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, size) in [
            ("36", JobSize::Whole(36)),
            ("4x9", JobSize::Parts { count: 4, each: 9 }),
        ] {
            assert_eq!(text.parse(), Ok(size));
            assert_eq!((size.to_string(), size.processors()), (text.to_owned(), 36));
        }
    }

    #[test]
    fn sizes_of_nothing_or_of_too_many_components_are_refused() {
        for text in ["", "0", "0x9", "4x0", "x9", "4x", "4x9x2", "1001x1", "-1"] {
            let refusal = text.parse::<JobSize>().unwrap_err();
            assert!(refusal.contains("components like 4x9"), "{text}: {refusal}");
        }
    }
}
