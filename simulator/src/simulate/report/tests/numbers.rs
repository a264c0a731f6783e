//! Means, quantiles and intervals, against hand-made and slower ones.

use cospan_domain::units::Timestamp;
use proptest::prelude::{any, prop_assert, proptest};

use super::{empty_run, short_job, small_run};
use crate::simulate::report::number_format;
use crate::simulate::report::{
    ConfidenceInterval, JobEnding, JobGroupSummary, RunJob, RunRecord, RunSummary,
    ValueDistribution, quantile, t_975,
};

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

#[test]
fn the_summary_agrees_with_sums_over_the_rows() {
    let run = small_run("a", 3);
    let summary = RunSummary::of_run(&run);
    let mut waited_ms = 0;
    let mut started = 0;
    let mut done = 0u32;
    let mut slowdowns = 0.0;
    for job in &run.jobs {
        if let Some(start) = job.started {
            waited_ms += start.0 - job.submitted.0;
            started += 1;
        }
        if job.ending == JobEnding::Done {
            let (Some(start), Some(end)) = (job.started, job.finished) else {
                panic!("no end")
            };
            let run_ms = (end.0 - start.0).max(10_000) as f64;
            slowdowns += ((end.0 - job.submitted.0) as f64 / run_ms).max(1.0);
            done += 1;
        }
    }
    assert!(done > 10 && started > done as usize);
    assert_eq!(summary.wait_s.count, started);
    assert_eq!(summary.jobs.done, u64::from(done));
    assert!(near(
        summary.wait_s.mean,
        waited_ms as f64 / 1000.0 / started as f64
    ));
    assert!(near(
        summary.bounded_slowdown.mean,
        slowdowns / f64::from(done)
    ));
    let held: u64 = run.jobs.iter().map(|job| job.held_processor_ms).sum();
    assert!(near(
        summary.wasted_processor_hours,
        held as f64 / 3_600_000.0
    ));
}

#[test]
fn utilization_agrees_with_the_area_of_the_bars() {
    let run = small_run("a", 4);
    let within = |at: Timestamp| at.0.clamp(run.began.0, run.ended.0);
    let mut areas = [0u64; 4];
    for bar in run.sites.iter().flat_map(|site| &site.bars) {
        areas[bar.kind as usize] += (within(bar.to) - within(bar.from)) * u64::from(bar.processors);
    }
    let whole = ((run.ended.0 - run.began.0) * run.processors()) as f64;
    let summary = RunSummary::of_run(&run);
    assert!(near(summary.load.grid_running, areas[0] as f64 / whole));
    assert!(near(summary.load.local, areas[2] as f64 / whole));
    assert!(near(
        summary.utilization(),
        (areas[0] + areas[2]) as f64 / whole
    ));
}

#[test]
fn an_interval_is_what_the_textbook_says() {
    // Mean 5, squares 32, variance 32/7, error of the mean 0.755929, t(7) 2.3646.
    let interval =
        ConfidenceInterval::of_values(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
    assert_eq!((interval.mean, interval.values), (5.0, 8));
    assert!((interval.half_width.unwrap() - 1.787_47).abs() < 1e-4);
    assert_eq!(
        ConfidenceInterval::of_values(&[3.0]).unwrap().half_width,
        None
    );
    assert_eq!(ConfidenceInterval::of_values(&[]), None);
}

#[test]
fn quantiles_of_students_t_agree_with_the_tables() {
    let known = [
        (1, 12.706),
        (5, 2.571),
        (30, 2.042),
        (31, 2.0395),
        (40, 2.0211),
        (60, 2.0003),
    ];
    for (freedom, expected) in known {
        assert!(
            (t_975(freedom) - expected).abs() < 5e-4,
            "{freedom}: {}",
            t_975(freedom)
        );
    }
    assert!((t_975(120) - 1.9799).abs() < 5e-4);
    assert!((2..200).all(|freedom| t_975(freedom) < t_975(freedom - 1)));
    assert_eq!(t_975(0), f64::INFINITY);
}

#[test]
fn quantiles_are_interpolated() {
    assert!(near(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.5));
    assert!(near(quantile(&[10.0, 20.0, 30.0], 0.95), 29.0));
    assert_eq!(quantile(&[], 0.5), 0.0);
    assert_eq!(ValueDistribution::of_unsorted(vec![4.0, 1.0]).max, 4.0);
}

#[test]
fn numbers_show_as_many_digits_as_they_are_worth() {
    let of = |mean, half| ConfidenceInterval {
        mean,
        half_width: Some(half),
        values: 3,
    };
    assert_eq!(
        number_format::format_interval(&of(173.604, 4.17)),
        "173.6 ± 4.2"
    );
    assert_eq!(
        number_format::format_difference(&of(-0.001, 0.2)),
        "0.00 ± 0.20"
    );
    assert_eq!(
        number_format::format_difference(&of(-12.0, 30.0)),
        "−12 ± 30"
    );
    assert_eq!(number_format::format_seconds(7_200.0), "2 h");
    assert_eq!(
        number_format::format_count(1_234_567),
        "1\u{202f}234\u{202f}567"
    );
    assert_eq!(number_format::cut_text("co-allocation", 5), "co-a…");
}

proptest! {
    #[test]
    fn quantiles_lie_within_the_values_and_in_order(mut values: Vec<u16>, a in 0.0..1.0, b in 0.0..1.0) {
        values.push(1);
        values.sort_unstable();
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let low = quantile(&values, f64::min(a, b));
        let high = quantile(&values, f64::max(a, b));
        prop_assert!(values[0] <= low && low <= high + 1e-9);
        prop_assert!(high <= values[values.len() - 1]);
    }

    #[test]
    fn a_shift_moves_an_interval_and_leaves_its_width(values: Vec<u16>, shift in any::<u16>()) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let moved: Vec<f64> = values.iter().map(|value| value + f64::from(shift)).collect();
        if let (Some(before), Some(after)) = (ConfidenceInterval::of_values(&values), ConfidenceInterval::of_values(&moved)) {
            prop_assert!((after.mean - before.mean - f64::from(shift)).abs() < 1e-6);
            let widths = (before.half_width.unwrap_or(0.0), after.half_width.unwrap_or(0.0));
            prop_assert!((widths.0 - widths.1).abs() < 1e-6);
        }
    }
}

#[test]
fn jobs_are_told_apart_by_their_size_and_their_components() {
    let job = |components: u32, processors: u32, wait_s: u64| RunJob {
        components,
        processors,
        started: Some(Timestamp(1_000 + wait_s * 1_000)),
        ..short_job()
    };
    let queued = RunJob {
        started: None,
        finished: None,
        ..job(3, 48, 0)
    };
    let jobs = vec![job(1, 1, 1), job(1, 16, 1), job(3, 48, 5_793), queued];
    let summary = RunSummary::of_run(&RunRecord {
        jobs,
        ..empty_run()
    });
    let told = |groups: &[JobGroupSummary]| -> Vec<(String, u64, u64, f64)> {
        groups
            .iter()
            .map(|group: &JobGroupSummary| {
                (
                    group.describe(),
                    group.jobs,
                    group.started,
                    group.wait_s.median,
                )
            })
            .collect()
    };
    let components = [("1".to_owned(), 2, 2, 1.0), ("3".to_owned(), 2, 1, 5_793.0)];
    assert_eq!(told(&summary.by_components), components);
    let sizes = [
        ("1".to_owned(), 1, 1, 1.0),
        ("5 to 16".to_owned(), 1, 1, 1.0),
        ("17 to 64".to_owned(), 2, 1, 5_793.0),
    ];
    assert_eq!(told(&summary.by_processors), sizes);
}
