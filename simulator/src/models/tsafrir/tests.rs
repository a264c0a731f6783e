use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

const HOURS_18: DurationMs = DurationMs::from_secs(18 * 3600);

fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

fn draw_counts_of(jobs: u64, seed: u64) -> Vec<EstimateCount> {
    EstimateModel::new(jobs, HOURS_18)
        .draw_counts(&mut rng(seed))
        .unwrap()
}

fn minutes(minutes: u64) -> DurationMs {
    DurationMs::from_secs(minutes * 60)
}

#[test]
fn the_number_of_distinct_estimates_follows_the_curve() {
    let count = |jobs| DistinctEstimatesRule::Piecewise.count_distinct(jobs);
    assert_eq!(
        [20, 200, 1_000, 10_000, 70_000].map(count),
        [10, 20, 35, 90, 340]
    );
    assert_eq!([0, 110, 5_500, 1_000_000].map(count), [0, 15, 63, 565]);
    assert_eq!(DistinctEstimatesRule::PowerLaw.count_distinct(10_000), 101);
    for jobs in [20, 200, 1_000, 10_000, 70_000] {
        assert_eq!(draw_counts_of(jobs, 1).len() as u64, count(jobs));
    }
}

#[test]
fn the_longest_estimate_is_the_most_popular() {
    let counts = draw_counts_of(10_000, 2);
    let top = counts.iter().max_by_key(|count| count.jobs).unwrap();
    assert_eq!(top.estimate, HOURS_18);
    // 89 percent less the fitted shares of ranks 2 to 20.
    let fitted: f64 = (2..=20)
        .map(|r| 14.0491 * f64::exp(-0.177531 * f64::from(r)) + 0.462513)
        .sum();
    let share = top.jobs as f64 / 100.0;
    assert!((share - (89.0 - fitted)).abs() < 1.0, "{share} percent");
}

#[test]
fn twenty_estimates_cover_89_percent_of_the_jobs() {
    let mut counts: Vec<u64> = draw_counts_of(70_000, 3)
        .iter()
        .map(|count| count.jobs)
        .collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    let head = counts[..HEAD_LEN].iter().sum::<u64>() as f64 / 700.0;
    assert!((88.0..91.5).contains(&head), "{head} percent");
}

#[test]
fn the_head_is_made_of_usual_times_and_long_multiples() {
    let head = head::head_estimates(minutes(100 * 60), HEAD_LEN, &BTreeSet::new());
    let hours: Vec<u64> = head[16..].iter().map(|time| time.0 / 3_600_000).collect();
    assert_eq!(head[..3], [minutes(6000), minutes(5), minutes(15)]);
    assert_eq!(hours, [50, 90, 80, 70]);
}

#[test]
fn a_short_maximum_leaves_a_short_head() {
    let head = head::head_estimates(minutes(60), HEAD_LEN, &BTreeSet::new());
    let mut times: Vec<u64> = head.iter().map(|time| time.0 / 60_000).collect();
    times.sort_unstable();
    assert_eq!(times, [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60]);
}

#[test]
fn every_popularity_rank_of_the_head_is_given_once() {
    for seed in 0..200 {
        let times: Vec<DurationMs> = (1..=20).map(minutes).collect();
        let mut ordered = head::order_by_popularity(times.clone(), minutes(20), &mut rng(seed));
        assert_eq!(ordered[0], minutes(20));
        ordered.sort_unstable();
        assert_eq!(ordered, times);
    }
}

#[test]
fn short_estimates_are_more_popular_than_long_ones_but_the_longest() {
    // In the logs the earlier half of the others has the better ranks.
    let ranks_of_first_half: usize = (0..200)
        .map(|seed| {
            let times: Vec<DurationMs> = (1..=20).map(minutes).collect();
            let ordered = head::order_by_popularity(times, minutes(20), &mut rng(seed));
            let first_half = ordered
                .iter()
                .enumerate()
                .filter(|(_, time)| **time <= minutes(9));
            first_half.map(|(rank, _)| rank + 1).sum::<usize>()
        })
        .sum();
    let mean = ranks_of_first_half as f64 / (200.0 * 9.0);
    assert!(mean < 9.5, "mean rank {mean}");
}

#[test]
fn tail_estimates_are_whole_minutes_unless_the_minute_is_taken() {
    let mut taken = BTreeSet::from([HOURS_18, minutes(1)]);
    let times = tail::tail_estimates(HOURS_18, 340, 320, &mut taken);
    assert_eq!(taken.len(), 322);
    assert!(times.iter().all(|time| time.0 % 10_000 == 0));
    let short = times
        .iter()
        .filter(|time| **time <= minutes(9 * 60))
        .count();
    assert!(short > 200, "{short} of 320 in the lower half");
}

#[test]
fn tail_estimates_follow_the_fitted_curve() {
    // With 340 estimates the bend is at 1.3609; half way, t / M = 0.3609 / 2 / 0.8609.
    let times = tail::tail_estimates(minutes(100_000), 340, 320, &mut BTreeSet::new());
    let found = times[159].0 as f64 / minutes(100_000).0 as f64;
    assert!((found - 0.2096).abs() < 0.0005, "{found}");
    assert_eq!(times[319], minutes(100_000));
}

#[test]
fn a_crowded_maximum_still_gives_distinct_estimates() {
    let distinct = DistinctEstimatesRule::PowerLaw;
    for (jobs, expected) in [(1_000_000, 1264), (100_000_000, 3600)] {
        let model = EstimateModel {
            distinct,
            ..EstimateModel::new(jobs, minutes(60))
        };
        let drawn = model.draw_counts(&mut rng(6)).unwrap();
        let estimates: BTreeSet<_> = drawn.iter().map(|count| count.estimate).collect();
        assert_eq!((drawn.len(), estimates.len()), (expected, expected));
    }
}

#[test]
fn known_estimates_keep_their_counts() {
    let known = vec![
        EstimateCount {
            estimate: minutes(7),
            jobs: 400,
        },
        EstimateCount {
            estimate: minutes(60),
            jobs: 300,
        },
    ];
    let model = EstimateModel {
        known: known.clone(),
        ..EstimateModel::new(1000, HOURS_18)
    };
    let drawn = model.draw_counts(&mut rng(5)).unwrap();
    assert!(known.iter().all(|count| drawn.contains(count)));
    assert_eq!(drawn.len(), 35);
    assert_eq!(drawn.iter().map(|count| count.jobs).sum::<u64>(), 1000);
}

#[test]
fn a_model_that_cannot_be_drawn_from_says_why() {
    let model = EstimateModel::new(100, HOURS_18);
    let error = |model: EstimateModel| model.draw_counts(&mut rng(1)).unwrap_err();
    let count = |estimate, jobs| EstimateCount { estimate, jobs };
    assert_eq!(
        error(EstimateModel {
            jobs: 0,
            ..model.clone()
        }),
        EstimateError::NoJobs
    );
    let short = EstimateModel {
        longest: minutes(59),
        ..model.clone()
    };
    assert_eq!(
        error(short).to_string(),
        "the longest estimate is 59m00s; choose 1h00m00s or more"
    );
    let known = vec![count(minutes(5), 60), count(minutes(9), 60)];
    assert_eq!(
        error(EstimateModel {
            known,
            ..model.clone()
        }),
        EstimateError::KnownExceedJobs {
            known: 120,
            jobs: 100
        }
    );
    for known in [
        vec![count(minutes(5), 1), count(minutes(5), 1)],
        vec![count(DurationMs::ZERO, 1)],
        vec![count(minutes(5), 0)],
        vec![count(minutes(2000), 1)],
    ] {
        let error = error(EstimateModel {
            known,
            ..model.clone()
        });
        assert!(matches!(error, EstimateError::KnownUnusable(_)));
    }
    let known = (1..=21).map(|minute| count(minutes(minute), 1)).collect();
    assert_eq!(
        error(EstimateModel { known, ..model }),
        EstimateError::TooManyKnown(21)
    );
}

#[test]
fn jobs_longer_than_the_estimates_are_refused() {
    let estimates = [EstimateCount {
        estimate: minutes(5),
        jobs: 2,
    }];
    let error = assign_estimates(&estimates, &[minutes(3), minutes(6)], &mut rng(1)).unwrap_err();
    assert_eq!(
        error,
        EstimateError::TooFewLongEstimates {
            jobs: 1,
            run_time: minutes(6)
        }
    );
    let error = assign_estimates(&estimates, &[minutes(3)], &mut rng(1)).unwrap_err();
    assert_eq!(
        error,
        EstimateError::CountMismatch {
            estimates: 2,
            jobs: 1
        }
    );
}

#[test]
fn the_seed_decides_estimates_and_assignment() {
    let all = |seed| {
        let drawn = draw_counts_of(500, seed);
        let run_times = vec![minutes(1); 500];
        (
            assign_estimates(&drawn, &run_times, &mut rng(seed)).unwrap(),
            drawn,
        )
    };
    assert_eq!(all(7), all(7));
    assert_ne!(all(7).1, all(8).1);
    assert_ne!(all(7).0, all(8).0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_add_up_and_leave_no_estimate_without_a_job(
        shares in proptest::collection::vec(0.0_f64..50.0, 1..60),
        more in 0_u64..10_000,
    ) {
        let jobs = shares.len() as u64 + more;
        let counts = counts::apportion_jobs(jobs, &shares);
        prop_assert_eq!(counts.iter().sum::<u64>(), jobs);
        prop_assert!(counts.iter().all(|count| *count >= 1));
    }

    #[test]
    fn estimates_are_distinct_within_the_maximum_and_cover_all_jobs(
        jobs in 1_u64..4_000,
        hours in 1_u64..400,
        is_power_law: bool,
        known in proptest::collection::btree_map(1_u64..60, 1_u64..40, 0..20),
        seed: u64,
    ) {
        let known: Vec<_> = known
            .into_iter()
            .map(|(minute, jobs)| EstimateCount { estimate: minutes(minute), jobs })
            .collect();
        let jobs = jobs + known.iter().map(|count| count.jobs).sum::<u64>();
        let distinct =
            if is_power_law { DistinctEstimatesRule::PowerLaw } else { DistinctEstimatesRule::Piecewise };
        let longest = minutes(hours * 60);
        let model = EstimateModel { jobs, longest, distinct, known };
        let drawn = model.draw_counts(&mut rng(seed)).unwrap();
        prop_assert!(drawn.windows(2).all(|pair| pair[0].estimate < pair[1].estimate));
        prop_assert!(drawn[0].estimate > DurationMs::ZERO);
        prop_assert_eq!(drawn[drawn.len() - 1].estimate, longest);
        prop_assert_eq!(drawn.iter().map(|count| count.jobs).sum::<u64>(), jobs);
        prop_assert!(drawn.iter().all(|count| count.jobs >= 1));
    }

    #[test]
    fn every_estimate_covers_its_run_time_and_is_used_as_often_as_drawn(
        percent in proptest::collection::vec(0_u64..=100, 1..400),
        seed: u64,
    ) {
        let drawn = draw_counts_of(percent.len() as u64, seed);
        let mut multiset: Vec<DurationMs> =
            drawn.iter().flat_map(|count| (0..count.jobs).map(|_| count.estimate)).collect();
        let run_times: Vec<DurationMs> =
            multiset.iter().zip(&percent).map(|(time, percent)| DurationMs(time.0 * percent / 100)).collect();
        let mut assigned = assign_estimates(&drawn, &run_times, &mut rng(seed)).unwrap();
        prop_assert!(assigned.iter().zip(&run_times).all(|(estimate, run)| estimate >= run));
        assigned.sort_unstable();
        multiset.sort_unstable();
        prop_assert_eq!(assigned, multiset);
    }
}
