//! The claiming times of a placed job: JPT, FTT, JST and JCT.

use super::claim_parameters::MinClaimInterval;
use crate::units::{DurationMs, PerMillion, Timestamp};

/// Claiming times of one round of a job (KOALA, section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimSchedule {
    /// JPT: the time at which the job was placed.
    pub placed_at: Timestamp,
    /// FTT: the longest transfer of its components.
    pub transfer_time: DurationMs,
    /// L of this round.
    pub l: PerMillion,
    /// The least time between two tries.
    pub min_step: MinClaimInterval,
}

impl ClaimSchedule {
    /// Returns JST = JPT + FTT: the job can start then, and the last try is made.
    pub fn start_time(&self) -> Timestamp {
        self.placed_at + self.transfer_time
    }

    /// Returns JCT(0) = JPT + L x FTT: the first try.
    pub fn first_try_time(&self) -> Timestamp {
        (self.placed_at + self.transfer_time.scaled_by(self.l)).min(self.start_time())
    }

    /// Returns the try after the one that was planned for `planned` and failed at `now`: min(JST,
    /// base + max(L x (JST - base), least step)), with base the later of the two (vector J-10).
    /// `None` after the last one, which is planned exactly for the start time, however late it is
    /// made.
    pub fn next_try_time(&self, planned: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let start = self.start_time();
        if planned >= start {
            return None;
        }
        let base = planned.max(now);
        let least = self.min_step.for_transfer_time(self.transfer_time);
        let step = start.since(base).scaled_by(self.l).max(least);
        Some((base + step).min(start))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schedule(transfer_ms: u64, l_per_mille: u32) -> ClaimSchedule {
        ClaimSchedule {
            placed_at: Timestamp(0),
            transfer_time: DurationMs(transfer_ms),
            l: PerMillion(l_per_mille * 1000),
            min_step: MinClaimInterval::Fixed(DurationMs(1_000)),
        }
    }

    fn try_times(schedule: &ClaimSchedule) -> Vec<u64> {
        std::iter::successors(Some(schedule.first_try_time()), |&at| {
            schedule.next_try_time(at, at)
        })
        .map(|at| at.0)
        .collect()
    }

    /// Vectors J-1 to J-8.
    #[test]
    fn tries_come_closer_and_end_at_the_start_time() {
        let vectors: [(u64, u32, &[u64]); 8] = [
            (
                320_000,
                750,
                &[240_000, 300_000, 315_000, 318_750, 319_750, 320_000],
            ),
            (16_000, 500, &[8_000, 12_000, 14_000, 15_000, 16_000]),
            (3_000, 0, &[0, 1_000, 2_000, 3_000]),
            (320_000, 1_000, &[320_000]),
            (0, 300, &[0]),
            (2_500, 250, &[625, 1_625, 2_500]),
            (160_000, 750, &[120_000, 150_000, 157_500, 159_375, 160_000]),
            (
                10_000,
                250,
                &[2_500, 4_375, 5_782, 6_837, 7_837, 8_837, 9_837, 10_000],
            ),
        ];
        for (transfer, l, expected) in vectors {
            assert_eq!(
                try_times(&schedule(transfer, l)),
                expected,
                "FTT {transfer}, L {l}"
            );
        }
        assert_eq!(try_times(&schedule(7_200_000, 0)).len(), 7_201);
    }

    /// Vector J-10.
    #[test]
    fn a_try_made_late_is_counted_from_when_it_was_made() {
        let schedule = schedule(320_000, 750);
        let next = schedule.next_try_time(Timestamp(300_000), Timestamp(310_000));
        assert_eq!(next, Some(Timestamp(317_500)));
        let very_late = schedule.next_try_time(Timestamp(300_000), Timestamp(999_000));
        assert_eq!(
            very_late,
            Some(Timestamp(320_000)),
            "the last try is still owed"
        );
        assert_eq!(
            schedule.next_try_time(Timestamp(320_000), Timestamp(999_000)),
            None
        );
    }

    /// Vector J-11.
    #[test]
    fn start_and_first_try_follow_from_placement_and_transfer() {
        let schedule = ClaimSchedule {
            placed_at: Timestamp(1_000_000),
            ..schedule(320_000, 750)
        };
        assert_eq!(schedule.start_time(), Timestamp(1_320_000));
        assert_eq!(schedule.first_try_time(), Timestamp(1_240_000));
    }

    #[test]
    fn by_default_a_long_transfer_does_not_mean_thousands_of_tries() {
        let schedule = ClaimSchedule {
            min_step: MinClaimInterval::Auto,
            ..schedule(7_200_000, 0)
        };
        assert_eq!(try_times(&schedule).len(), 65);
    }

    proptest! {
        #[test]
        fn tries_rise_strictly_and_the_last_is_the_start(
            placed in 0..10_000_000u64, transfer in 0..300_000u64, l in 0..=1_000_000u32,
            step in 1..5_000u64,
        ) {
            let schedule = ClaimSchedule {
                placed_at: Timestamp(placed),
                transfer_time: DurationMs(transfer),
                l: PerMillion(l),
                min_step: MinClaimInterval::Fixed(DurationMs(step)),
            };
            let tries = try_times(&schedule);
            prop_assert!(tries.is_sorted_by(|a, b| a < b), "{tries:?}");
            prop_assert_eq!(tries.last(), Some(&(placed + transfer)));
        }
    }
}
