//! The choice of jobs that give way to a job of a higher class (KOALA, section 4.5, step 3;
//! preemption protocols: one wave a round, and only if it suffices).

use crate::ids::JobId;
use crate::job::spec::Priority;
use crate::resources::Resources;
use crate::units::Timestamp;

/// A job that was preempted this often gives way no more.
pub const MAX_PREEMPTIONS: u32 = 3;

/// A job of ours that holds processors at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptibleJob {
    pub job: JobId,
    pub priority: Priority,
    /// The resources that it holds there.
    pub resources: Resources,
    /// The latest estimate of its start time (JST).
    pub start_estimate: Timestamp,
    pub submitted_at: Timestamp,
    /// True if no payload of it may have begun.
    pub at_gate: bool,
}

/// Chooses the jobs below `priority` that give way, so that a site with `idle` can start what needs
/// `need`; `None` if all of them together would not suffice. Jobs whose payload has not begun come
/// first, then the latest start, the later submission and the greater number, until it is enough.
/// Then each that is not needed after all is dropped again, the oldest first.
pub fn choose_victims(
    idle: &Resources,
    need: &Resources,
    priority: Priority,
    mut candidates: Vec<PreemptibleJob>,
) -> Option<Vec<PreemptibleJob>> {
    candidates.retain(|victim| victim.priority < priority);
    candidates
        .sort_by_key(|v| std::cmp::Reverse((v.at_gate, v.start_estimate, v.submitted_at, v.job)));
    let mut chosen = Vec::new();
    let mut candidates = candidates.into_iter();
    while !is_enough_with_victims(idle, need, &chosen) {
        chosen.push(candidates.next()?);
    }
    let mut oldest_first = chosen.len();
    while oldest_first > 0 {
        oldest_first -= 1;
        let spared = chosen.remove(oldest_first);
        if !is_enough_with_victims(idle, need, &chosen) {
            chosen.insert(oldest_first, spared);
        }
    }
    Some(chosen)
}

fn is_enough_with_victims(idle: &Resources, need: &Resources, victims: &[PreemptibleJob]) -> bool {
    let mut have = idle.clone();
    victims
        .iter()
        .for_each(|victim| have.add(&victim.resources));
    have.covers(need)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn victim(job: u64, priority: Priority, processors: u32, start: u64) -> PreemptibleJob {
        PreemptibleJob {
            job: JobId(job),
            priority,
            resources: Resources::processors(processors),
            start_estimate: Timestamp(start),
            submitted_at: Timestamp(job),
            at_gate: false,
        }
    }

    /// The jobs at B of vectors I-1 to I-18.
    fn victims_at_b() -> Vec<PreemptibleJob> {
        vec![
            victim(1, Priority::Low, 2, 100),
            victim(2, Priority::Low, 4, 200),
            victim(3, Priority::High, 8, 230),
            victim(4, Priority::SuperLow, 3, 150),
        ]
    }

    fn choose_victim_ids(
        idle: u32,
        need: u32,
        class: Priority,
        candidates: Vec<PreemptibleJob>,
    ) -> Option<Vec<u64>> {
        let idle = Resources::processors(idle);
        let need = Resources::processors(need);
        let victims = choose_victims(&idle, &need, class, candidates)?;
        Some(victims.iter().map(|victim| victim.job.0).collect())
    }

    /// Vectors I-3, I-5, I-6 and I-8.
    #[test]
    fn lower_jobs_give_way_the_latest_start_first_and_only_if_that_suffices() {
        assert_eq!(
            choose_victim_ids(4, 8, Priority::High, victims_at_b()),
            Some(vec![2])
        );
        assert_eq!(
            choose_victim_ids(3, 12, Priority::High, victims_at_b()),
            Some(vec![2, 4, 1])
        );
        assert_eq!(
            choose_victim_ids(3, 13, Priority::High, victims_at_b()),
            None
        );
        assert_eq!(choose_victim_ids(4, 8, Priority::Low, victims_at_b()), None);
    }

    /// Vector I-18.
    #[test]
    fn of_equal_starts_the_later_submission_yields_then_the_greater_number() {
        let mut two = vec![
            victim(1, Priority::Low, 4, 200),
            victim(2, Priority::Low, 4, 200),
        ];
        assert_eq!(
            choose_victim_ids(4, 8, Priority::High, two.clone()),
            Some(vec![2])
        );
        two[0].submitted_at = Timestamp(2);
        assert_eq!(
            choose_victim_ids(4, 8, Priority::High, two.clone()),
            Some(vec![2])
        );
        two[0].submitted_at = Timestamp(3);
        assert_eq!(choose_victim_ids(4, 8, Priority::High, two), Some(vec![1]));
    }

    #[test]
    fn a_job_whose_payload_has_not_begun_gives_way_before_one_that_runs() {
        let mut two = vec![
            victim(1, Priority::Low, 4, 100),
            victim(2, Priority::Low, 4, 200),
        ];
        two[0].at_gate = true;
        assert_eq!(choose_victim_ids(4, 8, Priority::High, two), Some(vec![1]));
    }

    #[test]
    fn a_victim_without_which_the_rest_suffices_is_spared() {
        let two = vec![
            victim(1, Priority::Low, 8, 100),
            victim(2, Priority::Low, 2, 200),
        ];
        assert_eq!(choose_victim_ids(0, 8, Priority::High, two), Some(vec![1]));
    }

    proptest! {
        #[test]
        fn every_victim_is_lower_and_needed(
            idle in 0..20u32, need in 1..40u32,
            held in proptest::collection::vec((0..4usize, 1..12u32, 0..5u64), 0..8),
        ) {
            let victims: Vec<PreemptibleJob> = held.iter().enumerate().map(|(job, &(class, size, start))| {
                victim(job as u64, Priority::ALL[class], size, start)
            }).collect();
            let idle = Resources::processors(idle);
            let need = Resources::processors(need);
            let class = Priority::High;
            match choose_victims(&idle, &need, class, victims.clone()) {
                Some(chosen) => {
                    prop_assert!(is_enough_with_victims(&idle, &need, &chosen));
                    prop_assert!(chosen.iter().all(|victim| victim.priority < class));
                    for at in 0..chosen.len() {
                        let mut fewer = chosen.clone();
                        fewer.remove(at);
                        prop_assert!(!is_enough_with_victims(&idle, &need, &fewer));
                    }
                }
                None => {
                    let lower: Vec<PreemptibleJob> =
                        victims.into_iter().filter(|victim| victim.priority < class).collect();
                    prop_assert!(!is_enough_with_victims(&idle, &need, &lower));
                }
            }
        }
    }
}
