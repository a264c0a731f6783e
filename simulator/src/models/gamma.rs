//! The gamma distribution.

use rand::Rng;
use rand_distr::Distribution;

use super::{ModelParameterError, check_parameter};

/// Redraws before a value above a limit is set to the limit, so that no choice
/// of parameters can make a model draw for ever.
const REDRAWS_MAX: usize = 1000;

/// A gamma distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GammaDistribution {
    /// Shape (alpha), above 0.
    pub shape: f64,
    /// Scale (beta), above 0. Scaling it scales mean and deviation alike.
    pub scale: f64,
}

impl GammaDistribution {
    /// Returns the mean, shape times scale.
    pub fn mean(self) -> f64 {
        self.shape * self.scale
    }

    /// Returns the probability of a value of at most `value`, or `None` if the parameters or the
    /// value have none.
    pub fn cumulative_probability(self, value: f64) -> Option<f64> {
        if value <= 0.0 {
            return Some(0.0);
        }
        statrs::function::gamma::checked_gamma_lr(self.shape, value / self.scale).ok()
    }

    /// Makes a source of values, if shape and scale are above 0; `parameter` is the name for the
    /// error.
    pub(super) fn to_sampler(
        self,
        parameter: &'static str,
    ) -> Result<GammaSampler, ModelParameterError> {
        for value in [self.shape, self.scale] {
            check_parameter(
                value.is_finite() && value > 0.0,
                parameter,
                value,
                "above 0 in shape and scale",
            )?;
        }
        rand_distr::Gamma::new(self.shape, self.scale)
            .map(GammaSampler)
            .map_err(|_| ModelParameterError {
                parameter,
                value: self.shape,
                allowed: "smaller",
            })
    }
}

/// Draws values of a gamma distribution.
#[derive(Debug, Clone)]
pub(super) struct GammaSampler(rand_distr::Gamma<f64>);

impl GammaSampler {
    /// Draws a value of at most `limit`: again while it is above.
    pub(super) fn draw_at_most(&self, limit: f64, rng: &mut impl Rng) -> f64 {
        let mut values = self.0.sample_iter(rng).take(REDRAWS_MAX);
        values.find(|value| *value <= limit).unwrap_or(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_shape_one_it_is_the_exponential_distribution() {
        let gamma = GammaDistribution {
            shape: 1.0,
            scale: 2.0,
        };
        for value in [0.1, 1.0, 3.0, 10.0, 40.0] {
            let exact = 1.0 - f64::exp(-value / 2.0);
            assert!((gamma.cumulative_probability(value).unwrap() - exact).abs() < 1e-12);
        }
    }

    #[test]
    fn with_a_whole_shape_it_is_the_erlang_distribution() {
        let gamma = GammaDistribution {
            shape: 3.0,
            scale: 1.5,
        };
        for value in [0.5, 2.0, 4.5, 12.0] {
            let x = value / 1.5;
            let exact = 1.0 - f64::exp(-x) * (1.0 + x + x * x / 2.0);
            assert!((gamma.cumulative_probability(value).unwrap() - exact).abs() < 1e-12);
        }
    }

    #[test]
    fn parameters_that_make_no_distribution_are_refused() {
        for (shape, scale) in [
            (0.0, 1.0),
            (1.0, -1.0),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
        ] {
            assert!(
                GammaDistribution { shape, scale }
                    .to_sampler("gap")
                    .is_err()
            );
        }
    }

    #[test]
    fn a_limit_that_is_never_met_is_used_itself() {
        use rand::SeedableRng;
        let sampler = GammaDistribution {
            shape: 1000.0,
            scale: 1.0,
        }
        .to_sampler("gap")
        .unwrap();
        assert_eq!(
            sampler.draw_at_most(13.0, &mut rand::rngs::StdRng::seed_from_u64(1)),
            13.0
        );
    }
}
