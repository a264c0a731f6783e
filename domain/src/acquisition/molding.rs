//! Alternatives for a flexible request: other shapes (Mold), and a longer run time where it spans
//! sites (FlexCo; M. Netto and R. Buyya, 2007).

use thiserror::Error;

use crate::units::{DurationMs, PerMillion};

/// The largest allowed overhead, in percent.
pub const MOST_OVERHEAD: u32 = 1_000;

/// The alternatives that a flexible request accepts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MoldingOptions {
    /// xo: the extra run time over several sites compared with one, in percent.
    pub overhead: u32,
    /// Shapes that may be chosen in place of the one asked for.
    pub shapes: Vec<AlternativeShape>,
}

/// A number of processors in total, with the run time on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlternativeShape {
    /// Processors of all components together.
    pub processors: u32,
    /// Longest run time with them, within one site.
    pub run_time: DurationMs,
}

/// The first mistake in a [`MoldingOptions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum MoldingError {
    #[error(
        "only a flexible request has an overhead or other shapes; drop them, or set `request = \"flexible\"`"
    )]
    NotFlexible,
    #[error("flexible.overhead is {0} percent; at most {MOST_OVERHEAD} are allowed")]
    Overhead(u32),
    #[error("flexible.shape: {0} processors, or a run time of 0; both must be above 0")]
    Zero(u32),
    #[error(
        "flexible.shape: there are two shapes of {0} processors (the component's own `processors`, \
         with `wall_time`, are one); drop one of them"
    )]
    Equal(u32),
    #[error(
        "flexible.shape: {more} processors for {long} are no faster than {fewer} for {short}, so \
         that nobody would choose them; give them a shorter run_time, or drop the shape"
    )]
    NoFaster {
        more: u32,
        long: DurationMs,
        fewer: u32,
        short: DurationMs,
    },
    #[error(
        "flexible.shape: {processors} processors are less than min_component_size ({min}); ask for \
         more, or lower it"
    )]
    BelowMinimum { processors: u32, min: u32 },
    #[error(
        "with its overhead it may run for {given} over several sites; at most {max} are allowed: \
         lower wall_time, or flexible.overhead"
    )]
    TooLong { given: DurationMs, max: DurationMs },
}

impl MoldingOptions {
    /// Returns xo as a share.
    pub fn overhead_share(&self) -> PerMillion {
        PerMillion(self.overhead.saturating_mul(10_000))
    }

    /// Returns the run time over that many sites: with the overhead, rounded up, if there are
    /// several.
    pub fn run_time_on_sites(&self, run_time: DurationMs, sites: usize) -> DurationMs {
        let overhead = if sites > 1 {
            self.overhead_share()
        } else {
            PerMillion(0)
        };
        run_time + run_time.scaled_by(overhead)
    }

    /// Lists all shapes, the one that is asked for first.
    pub fn all_shapes(
        &self,
        asked: AlternativeShape,
    ) -> impl Iterator<Item = AlternativeShape> + '_ {
        [asked].into_iter().chain(self.shapes.iter().copied())
    }

    /// Checks it against the shape that is asked for; `min` is the fewest processors of a
    /// component, `max` the longest run time of a job.
    ///
    /// # Errors
    /// A shape is invalid, or nobody could choose it.
    pub fn validate(
        &self,
        asked: AlternativeShape,
        min: u32,
        max: DurationMs,
    ) -> Result<(), MoldingError> {
        if self.overhead > MOST_OVERHEAD {
            return Err(MoldingError::Overhead(self.overhead));
        }
        let mut all: Vec<AlternativeShape> = self.all_shapes(asked).collect();
        for shape in &all {
            let AlternativeShape {
                processors,
                run_time,
            } = *shape;
            let longest = self.run_time_on_sites(run_time, 2);
            match () {
                () if processors == 0 || run_time == DurationMs::ZERO => {
                    return Err(MoldingError::Zero(processors));
                }
                () if processors < min => {
                    return Err(MoldingError::BelowMinimum { processors, min });
                }
                () if longest > max => {
                    return Err(MoldingError::TooLong {
                        given: longest,
                        max,
                    });
                }
                () => {}
            }
        }
        all.sort_unstable();
        all.windows(2)
            .try_for_each(|pair| check_faster(pair[0], pair[1]))
    }
}

/// Checks that the larger of two shapes finishes sooner.
fn check_faster(small: AlternativeShape, large: AlternativeShape) -> Result<(), MoldingError> {
    let fewer = small.processors;
    let short = small.run_time;
    let more = large.processors;
    let long = large.run_time;
    match () {
        () if fewer == more => Err(MoldingError::Equal(more)),
        () if long >= short => Err(MoldingError::NoFaster {
            more,
            long,
            fewer,
            short,
        }),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn shape(processors: u32, secs: u64) -> AlternativeShape {
        AlternativeShape {
            processors,
            run_time: DurationMs::from_secs(secs),
        }
    }

    const ASKED: AlternativeShape = shape(32, 7_200);

    fn validate_shapes(overhead: u32, shapes: &[AlternativeShape]) -> Result<(), MoldingError> {
        let molding = MoldingOptions {
            overhead,
            shapes: shapes.to_vec(),
        };
        molding.validate(ASKED, 4, DurationMs::from_secs(10_000))
    }

    #[test]
    fn shapes_that_nobody_could_choose_are_refused() {
        assert_eq!(
            validate_shapes(20, &[shape(64, 4_000), shape(16, 8_000)]),
            Ok(())
        );
        assert_eq!(
            validate_shapes(0, &[shape(64, 40), shape(64, 30)]),
            Err(MoldingError::Equal(64))
        );
        assert_eq!(
            validate_shapes(0, &[shape(32, 40)]),
            Err(MoldingError::Equal(32)),
            "as asked for"
        );
        let Err(MoldingError::NoFaster {
            more: 64,
            fewer: 32,
            ..
        }) = validate_shapes(0, &[shape(64, 7_200)])
        else {
            panic!("as long on more processors")
        };
        assert_eq!(
            validate_shapes(0, &[shape(0, 1)]),
            Err(MoldingError::Zero(0))
        );
        assert_eq!(
            validate_shapes(0, &[shape(64, 0)]),
            Err(MoldingError::Zero(64))
        );
        let below = MoldingError::BelowMinimum {
            processors: 3,
            min: 4,
        };
        assert_eq!(validate_shapes(0, &[shape(3, 9_000)]), Err(below));
    }

    #[test]
    fn an_overhead_beyond_the_longest_time_of_a_job_is_refused() {
        assert_eq!(
            validate_shapes(MOST_OVERHEAD + 1, &[]),
            Err(MoldingError::Overhead(1_001))
        );
        let Err(MoldingError::TooLong { given, .. }) = validate_shapes(39, &[]) else {
            panic!("ten thousand seconds and eight")
        };
        assert_eq!(given, DurationMs::from_secs(10_008));
    }

    #[test]
    fn only_what_spans_sites_takes_longer() {
        let molding = MoldingOptions {
            overhead: 20,
            shapes: Vec::new(),
        };
        assert_eq!(
            molding.run_time_on_sites(DurationMs(101), 1),
            DurationMs(101)
        );
        assert_eq!(
            molding.run_time_on_sites(DurationMs(101), 2),
            DurationMs(122),
            "rounded up"
        );
    }
}
