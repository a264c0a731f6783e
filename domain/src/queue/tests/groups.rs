//! Turns of the runs of sweeps with a limit.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::ids::{JobId, KeyName};
use crate::job::job_state::{Job, JobPhase};
use crate::job::tests::job_world::{JobWorld, spec};
use crate::queue::sweep_groups::SweepGroups;
use crate::runner::{SweepRow, SweepTask};
use crate::units::Timestamp;

const AT: Timestamp = Timestamp(9);

fn sweep_run(index: u32, at_once: Option<u32>) -> Job {
    let mut spec = spec(1);
    let group = JobId(100);
    let values = SweepRow::new();
    spec.run.task = Some(SweepTask {
        group,
        index,
        count: 9,
        at_once,
        values,
    });
    let mut job = JobWorld::new(spec).job;
    job.id = JobId(100 + u64::from(index));
    job
}

fn job_ids(indexes: impl IntoIterator<Item = u64>) -> BTreeSet<JobId> {
    indexes
        .into_iter()
        .map(|index| JobId(100 + index))
        .collect()
}

fn record_job(groups: &mut SweepGroups, job: &Job) {
    groups.record_phase(job);
}

#[test]
fn the_first_that_wait_have_their_turn_as_far_as_the_limit_goes() {
    let mut groups = SweepGroups::default();
    let mut runs: Vec<Job> = (0..5).map(|index| sweep_run(index, Some(2))).collect();
    runs.iter()
        .for_each(|job| assert_eq!(groups.record_phase(job), Some(JobId(100))));
    let none = std::iter::empty;
    assert_eq!(groups.give_turns(JobId(100), none()), job_ids([0, 1]));
    runs[0].phase = JobPhase::Running { since: AT };
    groups.record_phase(&runs[0]);
    assert_eq!(
        groups.give_turns(JobId(100), none()),
        job_ids([0]),
        "it has had its turn"
    );
    assert!(groups.has_turn(&runs[1]) && !groups.has_turn(&runs[2]));
    runs[0].phase = JobPhase::Finished { at: AT };
    groups.record_phase(&runs[0]);
    assert_eq!(groups.give_turns(JobId(100), none()), job_ids([2]));
    runs[1].frozen_by = KeyName::new("alice").ok();
    groups.record_phase(&runs[1]);
    assert_eq!(
        groups.give_turns(JobId(100), none()),
        job_ids([1, 3]),
        "one that is frozen waits for nothing"
    );
}

#[test]
fn who_was_offered_a_place_keeps_its_turn_when_an_earlier_one_comes_back() {
    let mut groups = SweepGroups::default();
    let mut runs: Vec<Job> = (0..2).map(|index| sweep_run(index, Some(1))).collect();
    runs[0].frozen_by = KeyName::new("alice").ok();
    runs.iter().for_each(|job| record_job(&mut groups, job));
    assert_eq!(
        groups.give_turns(JobId(100), std::iter::empty()),
        job_ids([1])
    );
    runs[0].frozen_by = None;
    groups.record_phase(&runs[0]);
    assert_eq!(
        groups.give_turns(JobId(100), [JobId(101)].into_iter()),
        job_ids([])
    );
    assert!(groups.has_turn(&runs[1]) && !groups.has_turn(&runs[0]));
}

#[test]
fn jobs_without_a_limit_need_no_turn() {
    let mut groups = SweepGroups::default();
    assert_eq!(groups.record_phase(&sweep_run(0, None)), None);
    assert!(groups.has_turn(&sweep_run(0, None)));
    assert!(groups.has_turn(&JobWorld::new(spec(1)).job));
    assert_eq!(groups.limited_sweeps(), []);
}

proptest! {
    /// Whatever runs do: never more than the limit run or have their turn, and somebody has
    /// it whenever there is room.
    #[test]
    fn a_limit_is_kept_and_used(
        limit in 1_u32..4,
        steps in prop::collection::vec((0_usize..8, 0_u8..4, any::<bool>()), 1..60),
    ) {
        let mut groups = SweepGroups::default();
        let mut runs: Vec<Job> = (0..8).map(|index| sweep_run(index, Some(limit))).collect();
        runs.iter().for_each(|job| record_job(&mut groups, job));
        groups.give_turns(JobId(100), std::iter::empty());
        let mut offered = BTreeSet::new();
        for (index, step, offer) in steps {
            let had_turn = groups.has_turn(&runs[index]);
            let job = &mut runs[index];
            let waits = matches!(job.phase, JobPhase::Queued { .. }) && job.frozen_by.is_none();
            match step {
                0 if waits && had_turn && offer => drop(offered.insert(job.id)),
                0 if waits && had_turn => job.phase = JobPhase::Placed { at: AT, start_estimate: AT },
                1 if !waits && job.frozen_by.is_none() => {
                    job.phase = JobPhase::Queued { since: AT, not_before: AT };
                }
                2 if !waits => job.phase = JobPhase::Finished { at: AT },
                3 if !offered.contains(&job.id) => {
                    job.frozen_by = match job.frozen_by {
                        None => KeyName::new("alice").ok(),
                        Some(_) => None,
                    };
                }
                _ => {}
            }
            if !matches!(job.phase, JobPhase::Queued { .. }) {
                offered.remove(&job.id);
            }
            groups.record_phase(&runs[index]);
            groups.give_turns(JobId(100), offered.iter().copied());
            let busy = runs.iter().filter(|job: &&Job| {
                !job.is_final() && !matches!(job.phase, JobPhase::Queued { .. })
            }).count();
            let waiting = |job: &&Job| {
                matches!(job.phase, JobPhase::Queued { .. }) && job.frozen_by.is_none()
            };
            let turns = runs.iter().filter(waiting).filter(|job| groups.has_turn(job)).count();
            let waiting = runs.iter().filter(waiting).count();
            let room = (limit as usize).saturating_sub(busy);
            prop_assert!(turns <= room.max(offered.len()), "{turns} {room} {offered:?}");
            prop_assert!(turns >= room.min(waiting));
            let mut fresh = SweepGroups::default();
            runs.iter().for_each(|job| record_job(&mut fresh, job));
            fresh.give_turns(JobId(100), offered.iter().copied());
            let same = runs.iter().filter(|job| matches!(job.phase, JobPhase::Queued { .. }));
            for job in same.filter(|job| job.frozen_by.is_none()) {
                prop_assert_eq!(fresh.has_turn(job), groups.has_turn(job), "as after a restart");
            }
        }
    }
}
