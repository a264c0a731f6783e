//! Workloads from logs.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::super::EstimateSource;
use super::*;
use cospan_languages::logs::{BadLineTreatment, LogComplaintKind};

/// Jobs as (number, submitted, run time, processors, estimate), in seconds.
fn log(rows: &[(u32, u64, i64, u32, i64)]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log.swf");
    let text: String = rows
        .iter()
        .map(
            |(number, at, run, size, estimate): &(u32, u64, i64, u32, i64)| {
                format!(
                    "{number} {at} 0 {run} {size} -1 -1 {size} {estimate} -1 1 1 1 1 1 1 -1 -1\n"
                )
            },
        )
        .collect();
    fs::write(&file, format!("; Version: 2.2\n{text}")).unwrap();
    (directory, file)
}

const ROWS: [(u32, u64, i64, u32, i64); 6] = [
    (11, 0, 100, 8, 100),
    (12, 10, 100, 500, 300),
    (13, 20, 0, 4, 0),
    (14, 30, -1, 4, 300),
    (15, 40, 90, 4, 60),
    (16, 50, 90, 150, 300),
];

#[test]
fn jobs_of_a_log_are_kept_as_they_are() {
    let (_directory, file) = log(&ROWS);
    let options = WorkloadOptions::new(WorkloadSource::Log(file), 1);
    let jobs = planned(&options).jobs;
    let expected = [
        WorkloadJob {
            name: "11".into(),
            ..job(0, &[8], 100, 100)
        },
        WorkloadJob {
            name: "13".into(),
            run_time: DurationMs(1),
            estimate: DurationMs(1),
            ..job(20, &[4], 0, 0)
        },
        WorkloadJob {
            name: "15".into(),
            ..job(40, &[4], 90, 60)
        },
    ];
    assert_eq!(jobs, expected);
    assert_eq!(jobs[2].occupation_time(), DurationMs::from_secs(60));
}

#[test]
fn what_is_left_out_or_changed_is_counted_with_its_lines() {
    let (_directory, file) = log(&ROWS);
    let complaints = planned(&WorkloadOptions::new(WorkloadSource::Log(file), 1)).complaints;
    let source = &complaints.source;
    let read = source.log.as_ref().unwrap();
    assert_eq!(read.count(LogComplaintKind::TooManyProcessors), 1);
    assert_eq!(read.count(LogComplaintKind::UnknownRunTime), 1);
    assert_eq!(source.estimates_missing, 1);
    assert_eq!(
        (source.estimates_too_short, source.run_times_raised),
        (1, 1)
    );
    assert_eq!(complaints.unplaceable, 1);
    let told = complaints.to_string();
    for part in [
        "1 x more processors than the grid has (line 3)",
        "1 x unknown run time (line 5)",
        "1 job without estimate, taken to be the run time",
        "1 job longer than their estimate, to be killed then",
        "1 job without run time, taken to be 1 ms",
        "1 left out that no empty grid has room for (job 16)",
    ] {
        assert!(told.contains(part), "no {part:?} in: {told}");
    }
}

#[test]
fn estimates_that_are_not_used_are_not_complained_about() {
    let (_directory, file) = log(&ROWS);
    for estimates in [EstimateSource::Exact, EstimateSource::Tsafrir] {
        let plain = WorkloadOptions::new(WorkloadSource::Log(file.clone()), 1);
        let source = planned(&WorkloadOptions { estimates, ..plain })
            .complaints
            .source;
        assert_eq!(
            (source.estimates_missing, source.estimates_too_short),
            (0, 0)
        );
        assert_eq!(source.run_times_raised, 1);
    }
    let first = WorkloadOptions {
        jobs_max: Some(1),
        ..WorkloadOptions::new(WorkloadSource::Log(file), 1)
    };
    let source = planned(&first).complaints.source;
    assert_eq!((source.estimates_missing, source.run_times_raised), (0, 0));
}

#[test]
fn a_split_makes_room_for_jobs_larger_than_any_site() {
    let (_directory, file) = log(&ROWS);
    let options = WorkloadOptions {
        split: WorkloadSplit::LargerThan(64),
        estimates: EstimateSource::Exact,
        ..WorkloadOptions::new(WorkloadSource::Log(file), 1)
    };
    let Workload { jobs, complaints } = planned(&options);
    assert_eq!(jobs[3].components, [50, 50, 50]);
    assert_eq!(complaints.unplaceable, 0);
    assert!(jobs.iter().all(|job| job.estimate == job.run_time));
}

#[test]
fn estimates_are_so_many_times_as_long_and_run_times_stay() {
    let (_directory, file) = log(&ROWS);
    let with = |estimates_times| {
        let options = WorkloadOptions::new(WorkloadSource::Log(file.clone()), 1);
        planned(&WorkloadOptions {
            estimates: EstimateSource::Exact,
            estimates_times,
            ..options
        })
        .jobs
    };
    for (plain, longer) in with(1.0).iter().zip(with(1.25)) {
        assert_eq!(longer.run_time, plain.run_time);
        assert!(
            (longer.estimate.0 * 4).abs_diff(plain.run_time.0 * 5) <= 2,
            "{longer:?}"
        );
    }
}

#[test]
fn a_bad_line_is_refused_with_its_number_if_asked_for() {
    let (_directory, file) = log(&ROWS);
    let on_bad = BadLineTreatment::Refuse;
    let error = refused(&WorkloadOptions {
        on_bad,
        ..WorkloadOptions::new(WorkloadSource::Log(file), 1)
    });
    assert!(error.contains("line 3: more processors than the grid has (500 instead of 400)"));
}

#[test]
fn a_log_that_is_not_there_is_named() {
    let error = refused(&WorkloadOptions::new(
        WorkloadSource::Log("/no/log.swf".into()),
        1,
    ));
    assert!(error.contains("cannot open the log /no/log.swf"), "{error}");
}
