//! Poisson arrivals: gaps that are independent and exponentially distributed.

use cospan_domain::units::DurationMs;
use rand::Rng;
use rand_distr::Exp1;

use super::{ModelParameterError, check_parameter};

/// A stream of arrival times.
#[derive(Debug, Clone)]
pub struct PoissonArrivals {
    mean_gap: DurationMs,
    /// The last arrival with its fraction, so that rounding errors do not add up.
    last_ms: f64,
}

impl PoissonArrivals {
    /// Makes arrivals from time zero on, `mean_gap` apart on average.
    ///
    /// # Errors
    /// If the mean gap is zero.
    pub fn new(mean_gap: DurationMs) -> Result<Self, ModelParameterError> {
        check_parameter(
            mean_gap > DurationMs::ZERO,
            "the mean gap between arrivals",
            0.0,
            "above 0",
        )?;
        Ok(Self {
            mean_gap,
            last_ms: 0.0,
        })
    }

    /// Returns the next arrival, since the start; never before the last one.
    pub fn next_arrival(&mut self, rng: &mut impl Rng) -> DurationMs {
        let gap: f64 = rng.sample(Exp1);
        self.last_ms += gap * self.mean_gap.0 as f64;
        DurationMs(self.last_ms.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const MEAN: DurationMs = DurationMs::from_secs(30);

    fn gaps(seed: u64, count: usize) -> Vec<f64> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut arrivals = PoissonArrivals::new(MEAN).unwrap();
        let times: Vec<u64> = (0..count)
            .map(|_| arrivals.next_arrival(&mut rng).0)
            .collect();
        times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / MEAN.0 as f64)
            .collect()
    }

    #[test]
    fn gaps_have_the_mean_and_the_deviation_of_an_exponential() {
        let gaps = gaps(7, 40_000);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.03, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.08, "variance {variance}");
    }

    #[test]
    fn the_share_of_gaps_above_the_mean_is_one_in_e() {
        let gaps = gaps(8, 40_000);
        let above = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / gaps.len() as f64;
        assert!((above - f64::exp(-1.0)).abs() < 0.01, "share {above}");
    }

    #[test]
    fn the_seed_decides_the_arrivals() {
        assert_eq!(gaps(3, 100), gaps(3, 100));
        assert_ne!(gaps(3, 100), gaps(4, 100));
    }

    #[test]
    fn a_mean_of_zero_is_refused() {
        let error = PoissonArrivals::new(DurationMs::ZERO).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the mean gap between arrivals is 0; it must be above 0"
        );
    }
}
