//! Expected run times: users say how long a job may take, jobs that ended say how long such jobs take
//! (R. Gibbons, "A historical application profiler for use by parallel schedulers", JSSPP 1997:
//! the runs of the most specific group that has enough of them count).

use std::collections::BTreeMap;

use crate::ids::KeyName;
use crate::units::{DurationMs, PerMillion};

/// The fewest runs of a group that say anything.
const FEWEST: usize = 3;

/// The part of a job by which its run time is guessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTimeTraits<'a> {
    /// The key that submitted it.
    pub owner: &'a KeyName,
    /// The longest run time, as its user says.
    pub wall_time: DurationMs,
    /// The processors of all of its components.
    pub processors: u32,
}

/// A group of jobs that may be expected to run alike; later ones are wider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum RunGroup {
    SameSize(KeyName, DurationMs, u32),
    SameWallTime(KeyName, DurationMs),
    SameOwner(KeyName),
    All,
}

/// The run times of jobs that ended, as shares of their wall times.
#[derive(Debug, Clone, Default)]
pub struct RunTimeHistory {
    shares: BTreeMap<RunGroup, Vec<PerMillion>>,
}

impl RunTimeTraits<'_> {
    fn groups(&self) -> [RunGroup; 4] {
        let owner = || self.owner.clone();
        [
            RunGroup::SameSize(owner(), self.wall_time, self.processors),
            RunGroup::SameWallTime(owner(), self.wall_time),
            RunGroup::SameOwner(owner()),
            RunGroup::All,
        ]
    }
}

impl RunTimeHistory {
    /// Records that a job ran for so long.
    pub fn record_run(&mut self, job: &RunTimeTraits<'_>, run: DurationMs) {
        let whole = u128::from(job.wall_time.0.max(1));
        let share = (u128::from(run.0) * 1_000_000 / whole).min(1_000_000);
        let share = PerMillion(u32::try_from(share).unwrap_or(PerMillion::ONE.0));
        for group in job.groups() {
            self.shares.entry(group).or_default().push(share);
        }
    }

    /// Returns the expected run time of a job that has run for `elapsed` already: the mean of those
    /// like it that ran for longer. If there are too few like it, or none ran for longer, that is
    /// its wall time.
    pub fn expected_run(&self, job: &RunTimeTraits<'_>, elapsed: DurationMs) -> DurationMs {
        let groups = job.groups();
        let known = groups.iter().filter_map(|group| self.shares.get(group));
        let Some(shares) = known.into_iter().find(|shares| shares.len() >= FEWEST) else {
            return job.wall_time.max(elapsed);
        };
        let longer = shares
            .iter()
            .map(|share| job.wall_time.scaled_by(*share))
            .filter(|run| *run > elapsed);
        let mut sum = 0_u128;
        let mut count = 0_u128;
        for run in longer {
            sum += u128::from(run.0);
            count += 1;
        }
        match sum.checked_div(count) {
            Some(mean) => DurationMs(u64::try_from(mean).unwrap_or(u64::MAX)),
            None => job.wall_time.max(elapsed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(count: u64) -> DurationMs {
        DurationMs::from_secs(count)
    }

    fn job(owner: &KeyName, wall: u64, processors: u32) -> RunTimeTraits<'_> {
        RunTimeTraits {
            owner,
            wall_time: secs(wall),
            processors,
        }
    }

    #[test]
    fn jobs_are_expected_to_run_like_those_that_are_most_like_them() {
        let alice = KeyName::new("alice").unwrap();
        let bob = KeyName::new("bob").unwrap();
        let mut history = RunTimeHistory::default();
        let expected = |history: &RunTimeHistory, job| history.expected_run(&job, DurationMs::ZERO);
        assert_eq!(
            expected(&history, job(&alice, 600, 1)),
            secs(600),
            "nothing is known"
        );
        for _ in 0..3 {
            history.record_run(&job(&alice, 600, 1), secs(60));
            history.record_run(&job(&alice, 600, 8), secs(300));
        }
        assert_eq!(expected(&history, job(&alice, 600, 1)), secs(60));
        assert_eq!(expected(&history, job(&alice, 600, 8)), secs(300));
        assert_eq!(
            expected(&history, job(&alice, 600, 2)),
            secs(180),
            "of any size"
        );
        assert_eq!(
            expected(&history, job(&alice, 1_200, 1)),
            secs(360),
            "as large a share"
        );
        assert_eq!(
            expected(&history, job(&bob, 600, 1)),
            secs(180),
            "of anybody"
        );
    }

    #[test]
    fn a_job_that_runs_on_is_expected_to_run_as_long_as_those_that_did() {
        let alice = KeyName::new("alice").unwrap();
        let mut history = RunTimeHistory::default();
        for run in [10, 20, 30, 400] {
            history.record_run(&job(&alice, 600, 1), secs(run));
        }
        let expected = |elapsed| history.expected_run(&job(&alice, 600, 1), secs(elapsed));
        assert_eq!(expected(0), secs(115));
        assert_eq!(expected(25), secs(215));
        assert_eq!(expected(30), secs(400));
        assert_eq!(expected(401), secs(600), "no other ran for so long");
        assert_eq!(expected(700), secs(700));
    }
}
