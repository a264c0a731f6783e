//! The parameters of the model and the values its authors fitted.

use super::super::{GammaDistribution, ModelParameterError, check_parameter};

/// The kinds of jobs in the workload. The default is the authors': typed.
#[derive(Debug, Clone, PartialEq)]
pub enum LublinParameters {
    /// A single stream for jobs of all types.
    Typeless(StreamParameters),
    /// A stream of batch jobs and one of interactive jobs, independent.
    Typed {
        /// The batch jobs.
        batch: StreamParameters,
        /// The interactive jobs.
        interactive: StreamParameters,
    },
}

/// The parameters of a stream of jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamParameters {
    /// Distribution of the number of processors.
    pub sizes: SizeParameters,
    /// Distribution of run times.
    pub run_times: RunTimeParameters,
    /// Distribution of arrivals.
    pub arrivals: ArrivalParameters,
}

/// The distribution of job sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeParameters {
    /// Share of jobs of one processor, 0 to 1.
    pub serial_share: f64,
    /// Share of jobs whose size is drawn as a power of two; with
    /// `serial_share` at most 1.
    pub power_of_two_share: f64,
    /// log2 of the smallest parallel job (ULow); up to 0.2 off makes that size
    /// more or less frequent. 0 to `log2_knee`.
    pub log2_low: f64,
    /// log2 of the size at which the distribution bends (UMed); 1.5 to 3.5
    /// below `log2_high`.
    pub log2_knee: f64,
    /// log2 of the largest job (UHi).
    pub log2_high: f64,
    /// Weight of the sizes below the bend (UProb); 0.7 to 0.95 is usual.
    pub lower_share: f64,
    /// Processors of the machine, above 0. Our addition: no job becomes larger
    /// where rounding to a power of two would make it so.
    pub processors_max: u32,
}

/// The distribution of run times: a hyper-gamma of ln seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunTimeParameters {
    /// The gamma of the shorter jobs.
    pub ln_first: GammaDistribution,
    /// The gamma of the longer jobs.
    pub ln_second: GammaDistribution,
    /// Change of the share of the first gamma with each processor (pa). 0 makes run times
    /// independent of size.
    pub first_share_slope: f64,
    /// The share of the first gamma at size zero (pb). Smaller is longer.
    pub first_share_base: f64,
}

/// The distribution of arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalParameters {
    /// The gamma of ln seconds between arrivals at rush hours (aarr, barr).
    pub ln_gap: GammaDistribution,
    /// Multiplies the shape of `ln_gap`, so that it stands for the whole day
    /// (ARAR).
    pub rush_to_all: f64,
    /// The daily cycle (anum, bnum): a gamma of the half hour of the day, for a
    /// day that starts at 5:30.
    pub daily_cycle: GammaDistribution,
}

impl Default for LublinParameters {
    fn default() -> Self {
        Self::Typed {
            batch: StreamParameters::batch(),
            interactive: StreamParameters::interactive(),
        }
    }
}

impl LublinParameters {
    /// Scales the workload to a machine of `processors` instead of 128.
    pub fn for_system(self, processors: u32) -> Self {
        match self {
            Self::Typeless(all) => Self::Typeless(all.for_system(processors)),
            Self::Typed { batch, interactive } => Self::Typed {
                batch: batch.for_system(processors),
                interactive: interactive.for_system(processors),
            },
        }
    }
}

impl StreamParameters {
    /// Returns the parameters of jobs of all types, for 128 processors.
    pub const fn typeless() -> Self {
        Self {
            sizes: SizeParameters::from_fit(0.244, 0.576, [0.8, 4.5, 7.0], 0.86),
            run_times: RunTimeParameters::from_fit((4.2, 0.94), (312.0, 0.03), (-0.0054, 0.78)),
            arrivals: ArrivalParameters::from_fit((10.2303, 0.4871), 1.0225, (8.1737, 3.9631)),
        }
    }

    /// Returns the parameters of batch jobs, for 128 processors.
    pub const fn batch() -> Self {
        Self {
            sizes: SizeParameters::from_fit(0.2927, 0.6686, [1.2, 5.0, 7.0], 0.875),
            run_times: RunTimeParameters::from_fit(
                (6.57, 0.823),
                (639.1, 0.0156),
                (-0.003, 0.6986),
            ),
            arrivals: ArrivalParameters::from_fit((6.0415, 0.8531), 1.0519, (6.1271, 5.2740)),
        }
    }

    /// Returns the parameters of interactive jobs, of at most 64 of 128 processors.
    pub const fn interactive() -> Self {
        Self {
            sizes: SizeParameters::from_fit(0.1541, 0.625, [1.0, 3.0, 5.5], 0.705),
            run_times: RunTimeParameters::from_fit(
                (3.8351, 0.6605),
                (7.073, 0.6856),
                (-0.0118, 0.9156),
            ),
            arrivals: ArrivalParameters::from_fit((6.5510, 0.6621), 0.9797, (8.9186, 3.6680)),
        }
    }

    /// Scales the jobs to a machine of `processors`; see [`SizeParameters::for_system`].
    pub fn for_system(self, processors: u32) -> Self {
        Self {
            sizes: self.sizes.for_system(processors),
            ..self
        }
    }
}

impl SizeParameters {
    const fn from_fit(serial: f64, power_of_two: f64, log2: [f64; 3], lower_share: f64) -> Self {
        Self {
            serial_share: serial,
            power_of_two_share: power_of_two,
            log2_low: log2[0],
            log2_knee: log2[1],
            log2_high: log2[2],
            lower_share,
            processors_max: 128,
        }
    }

    /// Moves the bend and the largest size with the size of the machine, at the same distance, and
    /// limits jobs to it.
    pub fn for_system(self, processors: u32) -> Self {
        let shift = f64::from(processors).log2() - f64::from(self.processors_max).log2();
        let log2_high = (self.log2_high + shift).max(0.0);
        let log2_low = self.log2_low.min(log2_high);
        let log2_knee = (self.log2_knee + shift).clamp(log2_low, log2_high);
        Self {
            log2_low,
            log2_knee,
            log2_high,
            processors_max: processors,
            ..self
        }
    }

    pub(super) fn check_sizes(&self) -> Result<(), ModelParameterError> {
        let parallel = 1.0 - self.serial_share;
        let share = "from 0 to 1";
        check_parameter(
            is_share(self.serial_share),
            "the serial share",
            self.serial_share,
            share,
        )?;
        check_parameter(
            is_share(self.lower_share),
            "the share of lower sizes",
            self.lower_share,
            share,
        )?;
        check_parameter(
            (0.0..=parallel).contains(&self.power_of_two_share),
            "the power-of-two share",
            self.power_of_two_share,
            "from 0 to 1 less the serial share",
        )?;
        check_parameter(
            (0.0..=self.log2_knee).contains(&self.log2_low),
            "log2 of the smallest size",
            self.log2_low,
            "from 0 to log2 of the bend",
        )?;
        check_parameter(
            (self.log2_knee..=31.0).contains(&self.log2_high),
            "log2 of the largest size",
            self.log2_high,
            "from log2 of the bend to 31",
        )?;
        let processors = f64::from(self.processors_max);
        check_parameter(
            self.processors_max > 0,
            "the machine's processors",
            processors,
            "above 0",
        )
    }
}

impl RunTimeParameters {
    const fn from_fit(first: (f64, f64), second: (f64, f64), (slope, base): (f64, f64)) -> Self {
        Self {
            ln_first: GammaDistribution {
                shape: first.0,
                scale: first.1,
            },
            ln_second: GammaDistribution {
                shape: second.0,
                scale: second.1,
            },
            first_share_slope: slope,
            first_share_base: base,
        }
    }

    /// Returns the probability that a job of `processors` is a shorter one.
    pub fn first_share(&self, processors: u32) -> f64 {
        (self.first_share_slope * f64::from(processors) + self.first_share_base).clamp(0.0, 1.0)
    }

    pub(super) fn check_run_times(&self) -> Result<(), ModelParameterError> {
        let slope = self.first_share_slope;
        let base = self.first_share_base;
        check_parameter(
            slope.is_finite(),
            "the slope of the first share",
            slope,
            "finite",
        )?;
        check_parameter(
            base.is_finite(),
            "the base of the first share",
            base,
            "finite",
        )
    }
}

impl ArrivalParameters {
    const fn from_fit(gap: (f64, f64), rush_to_all: f64, cycle: (f64, f64)) -> Self {
        Self {
            ln_gap: GammaDistribution {
                shape: gap.0,
                scale: gap.1,
            },
            rush_to_all,
            daily_cycle: GammaDistribution {
                shape: cycle.0,
                scale: cycle.1,
            },
        }
    }
}

fn is_share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}
