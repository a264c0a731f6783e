//! Arrivals with a daily cycle.
//!
//! Each half hour of the day has a price, the higher the more jobs arrive in it; 1 on average. A
//! gap is drawn as if all half hours were alike, and then paid: busy half hours consume more of it,
//! so it covers less time.

use cospan_domain::units::DurationMs;
use rand::Rng;

use super::super::gamma::GammaSampler;
use super::super::{GammaDistribution, ModelParameterError, check_parameter};
use super::ArrivalParameters;

/// Half hours of a day.
pub(super) const BUCKETS: usize = 48;
/// Start of the cycle: at bucket 11, half past five in the morning, when fewest jobs arrive. (The
/// authors' program calls this number an hour, but counts half hours with it; only so do the fitted
/// gammas peak at midday.)
const CYCLE_START: usize = 11;
const BUCKET_SECS: f64 = 1800.0;
/// ln of the longest gap in seconds, before the daily cycle; about five days.
const LN_GAP_MAX: f64 = 13.0;

/// The arrivals of one stream of jobs.
#[derive(Debug, Clone)]
pub(super) struct LublinArrivals {
    ln_gap: GammaSampler,
    prices: [f64; BUCKETS],
    /// Half hours passed since the start.
    buckets_passed: u64,
    /// The sum paid into the present half hour; below its price.
    paid: f64,
}

impl LublinArrivals {
    pub(super) fn new(parameters: &ArrivalParameters) -> Result<Self, ModelParameterError> {
        let GammaDistribution { shape, scale } = parameters.ln_gap;
        let whole_day = GammaDistribution {
            shape: shape * parameters.rush_to_all,
            scale,
        };
        Ok(Self {
            ln_gap: whole_day.to_sampler("the gamma of ln gap")?,
            prices: daily_prices(parameters.daily_cycle)?,
            buckets_passed: 0,
            paid: 0.0,
        })
    }

    /// Returns the next arrival, since the start; never before the last one.
    pub(super) fn next_arrival(&mut self, rng: &mut impl Rng) -> DurationMs {
        self.paid += self.ln_gap.draw_at_most(LN_GAP_MAX, rng).exp() / BUCKET_SECS;
        while self.paid >= self.current_price() {
            self.paid -= self.current_price();
            self.buckets_passed += 1;
        }
        let buckets = self.buckets_passed as f64 + self.paid / self.current_price();
        DurationMs((buckets * BUCKET_SECS * 1000.0).round() as u64)
    }

    fn current_price(&self) -> f64 {
        self.prices[(self.buckets_passed % BUCKETS as u64) as usize]
    }
}

/// Returns the share of arrivals in each half hour of the day, times their number.
pub(super) fn daily_prices(
    cycle: GammaDistribution,
) -> Result<[f64; BUCKETS], ModelParameterError> {
    cycle.to_sampler("the gamma of the daily cycle")?;
    let mut prices = [0.0; BUCKETS];
    for place in CYCLE_START..CYCLE_START + BUCKETS {
        let middle = place as f64;
        let ends = (
            cycle.cumulative_probability(middle - 0.5),
            cycle.cumulative_probability(middle + 0.5),
        );
        if let (Some(before), Some(after)) = ends {
            prices[(place - 1) % BUCKETS] = after - before;
        }
    }
    let sum: f64 = prices.iter().sum();
    let is_spread = sum.is_finite() && sum > 0.01;
    check_parameter(
        is_spread,
        "the mean of the daily cycle",
        cycle.mean(),
        "within 11 to 58 half hours",
    )?;
    Ok(prices.map(|price| price * BUCKETS as f64 / sum))
}
