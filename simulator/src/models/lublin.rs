//! The workload model of Lublin and Feitelson: rigid jobs as three
//! supercomputer logs of the 1990s show them, with a daily cycle, many serial
//! and power-of-two sizes, and run times that grow with size.
//!
//! Source: U. Lublin, D. G. Feitelson, "The workload on parallel
//! supercomputers: modeling the characteristics of rigid jobs", JPDC 63(11),
//! 2003 (first U. Lublin's thesis, 1999), and the parameters of the generator
//! the authors published with it.
//!
//! The parameters set the load; [`approximate_load`] computes the result. For more load: a smaller
//! scale or shape of [`ArrivalParameters::ln_gap`], a smaller
//! [`RunTimeParameters::first_share_base`] (longer run times), a smaller
//! [`SizeParameters::lower_share`] (larger jobs).

mod arrivals;
mod parameters;
#[cfg(test)]
mod tests;

use cospan_domain::units::DurationMs;
use rand::Rng;

use super::gamma::GammaSampler;
use super::{GeneratedJob, ModelParameterError};
use arrivals::LublinArrivals;

pub use parameters::{
    ArrivalParameters, LublinParameters, RunTimeParameters, SizeParameters, StreamParameters,
};

/// ln of the longest run time in seconds, about 45 hours.
const LN_RUN_TIME_MAX: f64 = 12.0;

/// Makes jobs, in the order of their submission.
#[derive(Debug, Clone)]
pub struct LublinGenerator {
    first: LublinJobStream,
    second: Option<LublinJobStream>,
}

impl LublinGenerator {
    /// Makes a generator at hour zero of the first day.
    ///
    /// # Errors
    /// If a parameter is outside its range.
    pub fn new(parameters: &LublinParameters) -> Result<Self, ModelParameterError> {
        let (first, second) = match parameters {
            LublinParameters::Typeless(all) => (LublinJobStream::new(all, false)?, None),
            LublinParameters::Typed { batch, interactive } => (
                LublinJobStream::new(batch, false)?,
                Some(LublinJobStream::new(interactive, true)?),
            ),
        };
        Ok(Self { first, second })
    }

    /// Makes the next job: of the stream whose next arrival comes first.
    pub fn next_job(&mut self, rng: &mut impl Rng) -> GeneratedJob {
        let first_arrival = self.first.next_arrival(rng);
        let Some(second) = &mut self.second else {
            return self.first.next_job(rng);
        };
        let is_second = second.next_arrival(rng) < first_arrival;
        if is_second {
            second.next_job(rng)
        } else {
            self.first.next_job(rng)
        }
    }

    /// Makes the next `count` jobs.
    pub fn jobs(&mut self, count: usize, rng: &mut impl Rng) -> Vec<GeneratedJob> {
        (0..count).map(|_| self.next_job(rng)).collect()
    }
}

/// Computes mean run time times mean processors over the machine's processors times the mean gap
/// between arrivals: the authors' approximation, which ignores that larger jobs run longer. Returns
/// `None` for fewer than two jobs, for jobs submitted all at once, or for no processors.
pub fn approximate_load(jobs: &[GeneratedJob], processors: u32) -> Option<f64> {
    let first = jobs.first()?;
    let last = jobs.last()?;
    let span_secs = last.submitted.as_secs_f64() - first.submitted.as_secs_f64();
    if span_secs <= 0.0 || processors == 0 {
        return None;
    }
    let count = jobs.len() as f64;
    let mean_gap_secs = span_secs / (count - 1.0);
    let mean_run_secs = jobs
        .iter()
        .map(|job| job.run_time.as_secs_f64())
        .sum::<f64>()
        / count;
    let mean_processors = jobs
        .iter()
        .map(|job| f64::from(job.processors))
        .sum::<f64>()
        / count;
    Some(mean_run_secs * mean_processors / (f64::from(processors) * mean_gap_secs))
}

/// The stream of jobs of one type.
#[derive(Debug, Clone)]
struct LublinJobStream {
    sizes: SizeParameters,
    run_times: RunTimeParameters,
    ln_first: GammaSampler,
    ln_second: GammaSampler,
    arrivals: LublinArrivals,
    pending: Option<DurationMs>,
    is_interactive: bool,
}

impl LublinJobStream {
    fn new(
        parameters: &StreamParameters,
        is_interactive: bool,
    ) -> Result<Self, ModelParameterError> {
        let StreamParameters {
            sizes,
            run_times,
            arrivals,
        } = *parameters;
        sizes.check_sizes()?;
        run_times.check_run_times()?;
        Ok(Self {
            sizes,
            run_times,
            ln_first: run_times
                .ln_first
                .to_sampler("the first gamma of ln run time")?,
            ln_second: run_times
                .ln_second
                .to_sampler("the second gamma of ln run time")?,
            arrivals: LublinArrivals::new(&arrivals)?,
            pending: None,
            is_interactive,
        })
    }

    /// Returns when the next job comes; drawn once for each job.
    fn next_arrival(&mut self, rng: &mut impl Rng) -> DurationMs {
        *self
            .pending
            .get_or_insert_with(|| self.arrivals.next_arrival(rng))
    }

    fn next_job(&mut self, rng: &mut impl Rng) -> GeneratedJob {
        let submitted = self.next_arrival(rng);
        self.pending = None;
        let processors = self.sizes.draw_size(rng);
        let run_time = self.draw_run_time(processors, rng);
        GeneratedJob {
            submitted,
            run_time,
            processors,
            interactive: self.is_interactive,
        }
    }

    /// Draws a run time: hyper-gamma distributed in its logarithm, and the longer the larger the
    /// job.
    fn draw_run_time(&self, processors: u32, rng: &mut impl Rng) -> DurationMs {
        let is_first = rng.random::<f64>() < self.run_times.first_share(processors);
        let gamma = if is_first {
            &self.ln_first
        } else {
            &self.ln_second
        };
        let secs = gamma.draw_at_most(LN_RUN_TIME_MAX, rng).exp().floor();
        DurationMs::from_secs(secs as u64)
    }
}

impl SizeParameters {
    /// Draws a size: one processor, a power of two, or any number; the latter two are uniform in
    /// their logarithm, in two stages.
    fn draw_size(&self, rng: &mut impl Rng) -> u32 {
        let kind: f64 = rng.random();
        if kind <= self.serial_share {
            return 1;
        }
        let is_lower = rng.random::<f64>() < self.lower_share;
        let (low, high) = if is_lower {
            (self.log2_low, self.log2_knee)
        } else {
            (self.log2_knee, self.log2_high)
        };
        let exponent = low + (high - low) * rng.random::<f64>();
        if kind <= self.serial_share + self.power_of_two_share {
            // Rounding up must not lead beyond the machine.
            let largest = f64::from(self.processors_max.ilog2());
            return exponent.round().min(largest).exp2() as u32;
        }
        (exponent.exp2().round() as u32).clamp(1, self.processors_max)
    }
}
