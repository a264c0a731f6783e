//! Settings of claiming.

use crate::parameters::ParameterError;
use crate::units::{DurationMs, PerMillion};

/// The settings for when and how processors are claimed (KOALA, section 4.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimParameters {
    /// L at a job's first placement: the share of the transfer time that passes before the first
    /// try, and of the remaining time before each next one.
    pub l: PerMillion,
    /// The amount by which L falls with each round that could not be claimed by its start time.
    pub l_step: PerMillion,
    /// The lower bound of L.
    pub l_min: PerMillion,
    /// Least time between two tries.
    pub min_claim_step: MinClaimInterval,
    /// T: the share of a job's components that must be startable for a try to go on.
    pub threshold: PerMillion,
    /// The number of refused claims after which a job fails; `None`: never.
    pub max_claim_tries: Option<u32>,
}

/// Least time between two claiming tries of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinClaimInterval {
    /// The longer of 1 s and a 64th of the transfer time, so that a long transfer does not mean
    /// thousands of tries.
    Auto,
    /// A fixed time.
    Fixed(DurationMs),
}

impl Default for ClaimParameters {
    fn default() -> Self {
        Self {
            l: PerMillion(750_000),
            l_step: PerMillion(250_000),
            l_min: PerMillion(0),
            min_claim_step: MinClaimInterval::Auto,
            threshold: PerMillion::ONE,
            max_claim_tries: None,
        }
    }
}

impl ClaimParameters {
    /// Returns settings for one try, all or nothing, at the estimated start: L = 1 and T = 1.
    pub fn at_start_only() -> Self {
        Self {
            l: PerMillion::ONE,
            l_step: PerMillion(0),
            ..Self::default()
        }
    }

    /// Checks ranges, and what must hold between settings.
    ///
    /// # Errors
    /// Returns the first setting outside its range.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let ratios = [
            ("l", self.l),
            ("l_step", self.l_step),
            ("l_min", self.l_min),
            ("threshold", self.threshold),
        ];
        for (setting, ratio) in ratios {
            if ratio > PerMillion::ONE {
                return Err(ParameterError::new(
                    setting,
                    format_ratio(ratio),
                    "from 0 to 1",
                ));
            }
        }
        if self.l_min > self.l {
            let rule = format!("at most l ({})", format_ratio(self.l));
            return Err(ParameterError::new("l_min", format_ratio(self.l_min), rule));
        }
        if self.min_claim_step == MinClaimInterval::Fixed(DurationMs::ZERO) {
            return Err(ParameterError::new(
                "min_claim_step",
                DurationMs::ZERO,
                "above 0",
            ));
        }
        Ok(())
    }

    /// Returns L for the next round of a job that could not be claimed by its start time (J-9).
    pub fn lower_l(&self, l: PerMillion) -> PerMillion {
        PerMillion(l.0.saturating_sub(self.l_step.0).max(self.l_min.0))
    }
}

impl MinClaimInterval {
    /// Returns the least step for a job with this transfer time; never zero.
    pub fn for_transfer_time(self, transfer_time: DurationMs) -> DurationMs {
        match self {
            MinClaimInterval::Auto => DurationMs(transfer_time.0.div_ceil(64).max(1_000)),
            MinClaimInterval::Fixed(step) => DurationMs(step.0.max(1)),
        }
    }
}

fn format_ratio(ratio: PerMillion) -> String {
    format!("{}", f64::from(ratio.0) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower_l_repeatedly(parameters: &ClaimParameters, times: usize) -> Vec<u32> {
        std::iter::successors(Some(parameters.l), |l: &PerMillion| {
            Some(parameters.lower_l(*l))
        })
        .take(times)
        .map(|l| l.0 / 1000)
        .collect()
    }

    /// Vector J-9.
    #[test]
    fn l_falls_by_its_step_down_to_its_least_value() {
        let mut parameters = ClaimParameters::default();
        assert_eq!(lower_l_repeatedly(&parameters, 5), [750, 500, 250, 0, 0]);
        parameters.l_min = PerMillion(200_000);
        assert_eq!(
            lower_l_repeatedly(&parameters, 5),
            [750, 500, 250, 200, 200]
        );
        parameters.l_min = PerMillion(0);
        parameters.l_step = PerMillion(300_000);
        assert_eq!(lower_l_repeatedly(&parameters, 4), [750, 450, 150, 0]);
    }

    #[test]
    fn a_setting_outside_its_range_is_named() {
        let error = |change: fn(&mut ClaimParameters)| {
            let mut parameters = ClaimParameters::default();
            change(&mut parameters);
            parameters.validate().unwrap_err().to_string()
        };
        assert_eq!(
            error(|p| p.l = PerMillion(1_500_000)),
            "l is 1.5; it must be from 0 to 1"
        );
        assert!(error(|p| p.threshold = PerMillion(2_000_000)).starts_with("threshold"));
        assert!(error(|p| p.l_min = PerMillion(800_000)).contains("at most l (0.75)"));
        assert!(
            error(
                |p: &mut ClaimParameters| p.min_claim_step = MinClaimInterval::Fixed(DurationMs(0))
            )
            .starts_with("min_claim_step is 0s")
        );
        assert_eq!(ClaimParameters::default().validate(), Ok(()));
        assert_eq!(ClaimParameters::at_start_only().validate(), Ok(()));
    }
}
