//! Splitting, load and description.

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::COMPONENTS_MAX;
use super::*;

fn components(split: WorkloadSplit, processors: u32) -> Vec<u32> {
    split.split_processors(processors, &mut StdRng::seed_from_u64(1))
}

#[test]
fn a_job_is_split_as_it_says() {
    assert_eq!(components(WorkloadSplit::None, 7), [7]);
    assert_eq!(components(WorkloadSplit::Into(4), 7), [2, 2, 2, 1]);
    assert_eq!(components(WorkloadSplit::Into(4), 3), [1, 1, 1]);
    assert_eq!(components(WorkloadSplit::LargerThan(16), 16), [16]);
    assert_eq!(components(WorkloadSplit::LargerThan(16), 17), [9, 8]);
    assert_eq!(components(WorkloadSplit::LargerThan(16), 33), [11, 11, 11]);
}

#[test]
fn a_random_split_gives_one_two_and_four_components_equally_often() {
    let jobs = planned(&WorkloadOptions {
        split: WorkloadSplit::Random,
        ..poisson(3000, &[8])
    })
    .jobs;
    for count in [1, 2, 4] {
        let share = jobs
            .iter()
            .filter(|job| job.components.len() == count)
            .count();
        assert!((900..1100).contains(&share), "{share} of 3000 have {count}");
    }
    assert!(jobs.iter().all(|job| job.processors() == 8));
}

#[test]
fn the_load_is_the_processor_time_asked_for_over_what_there_is() {
    // 2 x 50 + 4 x 50 processor seconds a hundred seconds apart, twice.
    let jobs = [job(0, &[1, 1], 50, 90), job(100, &[4], 90, 50)];
    assert_eq!(offered_load(&jobs, 3), Some(0.5));
    assert_eq!(offered_load(&jobs[..1], 3), None);
    assert_eq!(offered_load(&[jobs[0].clone(), jobs[0].clone()], 3), None);
    assert_eq!(offered_load(&jobs, 0), None);
}

#[test]
fn options_are_described_in_a_line() {
    let options = WorkloadOptions {
        jobs_max: Some(5),
        load_scale: 1.5,
        split: WorkloadSplit::LargerThan(16),
        inputs: ["a", "b"].map(|name| name.parse().unwrap()).into(),
        priorities: vec![cospan_domain::job::spec::Priority::High],
        ..poisson(10, &[1, 8])
    };
    assert_eq!(
        options.describe(),
        "10 Poisson jobs every 30s of 1|8 processors for 1m00s to 3m00s; first 5 jobs; load x 1.5; \
         split above 16 processors; input a|b; priority high; estimates as-given; seed 1"
    );
    let plain = WorkloadOptions::new(WorkloadSource::Log("a.swf".into()), 7);
    assert_eq!(
        plain.describe(),
        "log a.swf; load x 1; not split; estimates as-given; seed 7"
    );
}

proptest! {
    #[test]
    fn components_keep_all_processors_and_are_as_equal_as_can_be(
        processors in 1_u32..5000,
        parameter in 1_u32..200,
        seed in 0_u64..100,
    ) {
        let splits =
            [WorkloadSplit::None, WorkloadSplit::Into(parameter), WorkloadSplit::LargerThan(parameter), WorkloadSplit::Random];
        for split in splits {
            let parts = split.split_processors(processors, &mut StdRng::seed_from_u64(seed));
            prop_assert_eq!(parts.iter().sum::<u32>(), processors);
            prop_assert!(parts.is_sorted_by(|first, second| first >= second));
            let most = parts[0];
            let least = parts[parts.len() - 1];
            prop_assert!(least > 0 && most - least <= 1);
            prop_assert!(parts.len() <= COMPONENTS_MAX as usize);
            if split == WorkloadSplit::LargerThan(parameter) && parts.len() < COMPONENTS_MAX as usize {
                prop_assert!(most <= parameter);
                let fewer = parts.len() as u32 - 1;
                prop_assert!(fewer == 0 || processors.div_ceil(fewer) > parameter);
            }
        }
    }
}
