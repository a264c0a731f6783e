//! Labels against each other.

use super::small_run;
use crate::simulate::report::{
    ComparisonMetric, LabelComparison, LabelPair, PairedDifference, RunSummary, Significance,
};

/// Runs of one label whose jobs waited so long on average, by seed.
fn runs_with_waits(label: &str, means: &[f64]) -> Vec<RunSummary> {
    let base = RunSummary::of_run(&small_run(label, 0));
    means
        .iter()
        .enumerate()
        .map(|(seed, mean): (usize, &f64)| {
            let mut run = base.clone();
            run.seed = seed as u64;
            run.wait_s.mean = *mean;
            run
        })
        .collect()
}

fn verdict(metric: ComparisonMetric, comparison: &LabelComparison) -> Significance {
    comparison
        .metrics
        .iter()
        .find(|row| row.metric == metric)
        .unwrap()
        .differences[0]
        .verdict
}

#[test]
fn differences_are_taken_seed_by_seed() {
    // Differences -2, -1, -3: mean -2, deviation 1, half width 4.3027 / sqrt(3).
    let mut runs = runs_with_waits("first", &[10.0, 112.0, 1014.0]);
    runs.extend(runs_with_waits("second", &[8.0, 111.0, 1011.0]));
    let comparison = LabelComparison::of_runs(&runs);
    let difference = comparison.metrics[0].differences[0];
    let interval = difference.interval.unwrap();
    assert_eq!(interval.mean, -2.0);
    assert!((interval.half_width.unwrap() - 2.4842).abs() < 1e-3);
    assert_eq!(difference.verdict, Significance::NoDifferenceShown);
    assert_eq!(comparison.labels, ["first", "second"]);
}

#[test]
fn less_wait_is_better_and_fewer_jobs_done_are_worse() {
    let mut runs = runs_with_waits("first", &[10.0, 12.0, 14.0, 11.0]);
    let mut others = runs_with_waits("second", &[8.0, 10.1, 11.9, 9.0]);
    for (seed, run) in others.iter_mut().enumerate() {
        run.jobs.done -= 5 + seed as u64 % 2;
    }
    runs.extend(others);
    let comparison = LabelComparison::of_runs(&runs);
    assert_eq!(
        verdict(ComparisonMetric::MeanWait, &comparison),
        Significance::Better
    );
    assert_eq!(
        verdict(ComparisonMetric::JobsDone, &comparison),
        Significance::Worse
    );
    assert_eq!(
        verdict(ComparisonMetric::Utilization, &comparison),
        Significance::NoDifferenceShown
    );
}

#[test]
fn only_seeds_in_common_count_and_one_is_too_few() {
    let mut runs = runs_with_waits("first", &[10.0]);
    runs.extend(runs_with_waits("second", &[8.0, 900.0]));
    let comparison = LabelComparison::of_runs(&runs);
    let difference = comparison.metrics[0].differences[0];
    assert_eq!(difference.interval.unwrap().mean, -2.0);
    assert_eq!(difference.verdict, Significance::TooFewSeeds);
}

#[test]
fn three_labels_are_each_held_against_the_first() {
    let runs: Vec<_> = ["c", "a", "b"]
        .iter()
        .flat_map(|label| runs_with_waits(label, &[1.0, 2.0]))
        .collect();
    let comparison = LabelComparison::of_runs(&runs);
    assert_eq!(comparison.baseline, "c");
    assert!(comparison.metrics.iter().all(|row| row.means.len() == 3));
    assert!(
        comparison
            .metrics
            .iter()
            .all(|row| row.differences.len() == 2)
    );
}

#[test]
fn each_difference_is_between_labels_that_differ_in_one_thing() {
    let labels = ["wf, easy", "wf, fcfs", "cf, easy", "cf, fcfs", "cm, fcfs"];
    let means = [10.0, 20.0, 40.0, 80.0, 160.0];
    let runs = labels.iter().zip(means);
    let runs: Vec<_> = runs
        .flat_map(|(label, mean)| runs_with_waits(label, &[mean, mean]))
        .collect();
    let comparison = LabelComparison::of_runs(&runs);
    let words: Vec<String> = comparison.pairs.iter().map(LabelPair::words).collect();
    let expected = [
        "fcfs less easy (wf)",
        "cf less wf (easy)",
        "cf less wf (fcfs)",
        "fcfs less easy (cf)",
        "cm less wf (fcfs)",
    ];
    assert_eq!(words, expected);
    let waits: Vec<f64> = comparison.metrics[0]
        .differences
        .iter()
        .map(|difference: &PairedDifference| difference.interval.unwrap().mean)
        .collect();
    assert_eq!(waits, [10.0, 30.0, 60.0, 40.0, 140.0]);
}
