//! Settings of the placement queues, and the rules between them.

use thiserror::Error;

use super::starvation_guard::StarvationGuardParameters;
use crate::job::spec::Priority;
use crate::parameters::ParameterError;
use crate::units::DurationMs;

/// Weights and intervals of the placement queues (KOALA, section 4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueParameters {
    /// N_h: rounds over super-high and high in one cycle.
    pub n_h: u32,
    /// N_l: rounds over low and super-low in one cycle; at most `n_h`.
    pub n_l: u32,
    /// Scans of super-high in one round.
    pub n1: u32,
    /// Scans of high in one round.
    pub n2: u32,
    /// Scans of low in one round.
    pub n3: u32,
    /// Scans of super-low in one round.
    pub n4: u32,
    /// Time between two scans by the clock; also the least time between two counted tries of one
    /// job.
    pub scan_interval: DurationMs,
    /// P: a job moves up one class after this many counted tries that failed; `None` never.
    pub promote_after: Option<u32>,
    /// A job that sets no limit fails after more counted tries than this; `None` never.
    pub max_placement_tries: Option<u32>,
    /// True if jobs are also placed at once when one arrives or capacity is freed.
    pub events: bool,
    /// Processors that one turn of a queue is worth when freed capacity is given out.
    pub turn_processors: u32,
    /// Withholding of freed processors.
    pub starvation_guard: StarvationGuardParameters,
}

/// A setting that is allowed but looks like a mistake.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{setting} is {given}; {remark}")]
pub struct ParameterWarning {
    pub setting: &'static str,
    pub given: String,
    /// The reason why it looks wrong.
    pub remark: String,
}

impl Default for QueueParameters {
    fn default() -> Self {
        Self {
            n_h: 1,
            n_l: 1,
            n1: 1,
            n2: 1,
            n3: 1,
            n4: 1,
            scan_interval: DurationMs::from_secs(60),
            promote_after: None,
            max_placement_tries: None,
            events: true,
            turn_processors: 64,
            starvation_guard: StarvationGuardParameters::default(),
        }
    }
}

impl QueueParameters {
    /// The largest number of rounds, or of scans, that a cycle may have of one kind.
    pub const MAX_WEIGHT: u32 = 1_000;

    /// Checks ranges, and the rules between settings.
    ///
    /// # Errors
    /// The first setting outside its range.
    pub fn validate(&self) -> Result<Vec<ParameterWarning>, ParameterError> {
        let weights = [
            ("n_h", self.n_h),
            ("n_l", self.n_l),
            ("n1", self.n1),
            ("n2", self.n2),
            ("n3", self.n3),
            ("n4", self.n4),
        ];
        for (setting, given) in weights {
            if !(1..=Self::MAX_WEIGHT).contains(&given) {
                let rule = format!("from 1 to {}", Self::MAX_WEIGHT);
                return Err(ParameterError::new(setting, given, rule));
            }
        }
        if self.n_h < self.n_l {
            return Err(ParameterError::new(
                "n_h",
                self.n_h,
                format!("at least n_l ({})", self.n_l),
            ));
        }
        if self.scan_interval == DurationMs::ZERO {
            return Err(ParameterError::new(
                "scan_interval",
                self.scan_interval,
                "above 0",
            ));
        }
        if self.promote_after == Some(0) {
            let rule = "at least 1, or absent for no promotion";
            return Err(ParameterError::new("promote_after", 0, rule));
        }
        if self.turn_processors == 0 {
            return Err(ParameterError::new("turn_processors", 0, "at least 1"));
        }
        Ok(self.list_odd_settings())
    }

    fn list_odd_settings(&self) -> Vec<ParameterWarning> {
        let high = (self.n2 > self.n1).then(|| {
            odd_setting(
                "n2",
                self.n2,
                format!("high is scanned more often than super-high ({})", self.n1),
            )
        });
        let low = (self.n4 > self.n3).then(|| {
            odd_setting(
                "n4",
                self.n4,
                format!("super-low is scanned more often than low ({})", self.n3),
            )
        });
        high.into_iter().chain(low).collect()
    }

    /// Scans in one cycle: N_h (n1 + n2) + N_l (n3 + n4).
    pub fn cycle_length(&self) -> u64 {
        u64::from(self.n_h) * (u64::from(self.n1) + u64::from(self.n2))
            + u64::from(self.n_l) * (u64::from(self.n3) + u64::from(self.n4))
    }

    /// Returns the queue that has its turn at a position of the cycle.
    pub fn class_at(&self, position: u64) -> Priority {
        self.class_and_turn_count(position).0
    }

    /// Returns for how many positions, from this one on, the same queue has its turn within its
    /// round.
    pub fn turn_count_at(&self, position: u64) -> u64 {
        self.class_and_turn_count(position).1
    }

    fn class_and_turn_count(&self, position: u64) -> (Priority, u64) {
        let position = position % self.cycle_length().max(1);
        let high = u64::from(self.n_h) * (u64::from(self.n1) + u64::from(self.n2));
        match position.checked_sub(high) {
            None => turn_at(
                position,
                (Priority::SuperHigh, self.n1),
                (Priority::High, self.n2),
            ),
            Some(low) => turn_at(low, (Priority::Low, self.n3), (Priority::SuperLow, self.n4)),
        }
    }
}

/// The queue that has its turn at a position of rounds of two queues with these weights, and the
/// length of that turn.
fn turn_at(position: u64, upper: (Priority, u32), lower: (Priority, u32)) -> (Priority, u64) {
    let first = u64::from(upper.1);
    let second = u64::from(lower.1);
    let at = position % (first + second);
    if at < first {
        (upper.0, first - at)
    } else {
        (lower.0, first + second - at)
    }
}

fn odd_setting(setting: &'static str, given: u32, remark: String) -> ParameterWarning {
    ParameterWarning {
        setting,
        given: given.to_string(),
        remark,
    }
}
