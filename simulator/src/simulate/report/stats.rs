//! Means, quantiles and confidence intervals.

use serde::Serialize;

/// Quantiles 0.975 of Student's t distribution for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
    2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687,
    2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
];

/// Quantile 0.975 of the normal distribution.
const Z_975: f64 = 1.959_964;

/// A mean over seeds with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ConfidenceInterval {
    /// Mean of the values.
    pub mean: f64,
    /// The interval reaches this far to either side; `None` for one value.
    pub half_width: Option<f64>,
    /// Number of values.
    pub values: usize,
}

/// The distribution of the values of one run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ValueDistribution {
    /// Number of values; the other fields are 0 when it is.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Quantile 0.5.
    pub median: f64,
    /// Quantile 0.95.
    pub p95: f64,
    /// Greatest value.
    pub max: f64,
}

impl ConfidenceInterval {
    /// The interval of these values by Student's t, which assumes that they are independent and
    /// about normal. `None` without values.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let mean = mean(values)?;
        let freedom = values.len() - 1;
        let half_width = (freedom > 0).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let variance = squares / freedom as f64;
            t_975(freedom) * (variance / values.len() as f64).sqrt()
        });
        Some(Self {
            mean,
            half_width,
            values: values.len(),
        })
    }

    /// Returns true if zero lies outside; never for one value.
    pub fn excludes_zero(&self) -> bool {
        self.half_width.is_some_and(|half| self.mean.abs() > half)
    }
}

impl ValueDistribution {
    /// The distribution of these values, in any order.
    pub fn of_unsorted(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let Some(mean) = mean(&values) else {
            return Self::default();
        };
        Self {
            count: values.len(),
            mean,
            median: quantile(&values, 0.5),
            p95: quantile(&values, 0.95),
            max: quantile(&values, 1.0),
        }
    }

    /// A figure of the distribution, if there are any values.
    pub fn if_any(&self, figure: f64) -> Option<f64> {
        (self.count > 0).then_some(figure)
    }
}

/// Arithmetic mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Quantile `share` (0 to 1) of sorted values, interpolated linearly between
/// neighbours: definition 7 of Hyndman and Fan, "Sample Quantiles in
/// Statistical Packages", 1996. 0 without values.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let position = share.clamp(0.0, 1.0) * last as f64;
    let low = position.floor() as usize;
    let high = position.ceil() as usize;
    sorted[low] + (sorted[high] - sorted[low]) * (position - low as f64)
}

/// Quantile 0.975 of Student's t: from the table, and beyond it by the
/// expansion around the normal quantile (Abramowitz and Stegun 26.7.5), which
/// is right to four decimals there. Infinite without freedom.
pub fn t_975(freedom: usize) -> f64 {
    let Some(index) = freedom.checked_sub(1) else {
        return f64::INFINITY;
    };
    T_975.get(index).copied().unwrap_or_else(|| {
        let z = Z_975;
        let v = freedom as f64;
        let first = (z.powi(3) + z) / 4.0;
        let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
        z + first / v + second / v.powi(2)
    })
}
