use cospan_domain::units::Timestamp;
use proptest::prelude::*;

use super::super::LogComplaint;
use super::*;

const KTH: &str = include_str!("../fixtures/kth-sp2-300.swf");

/// A line with the columns given, the others unknown.
fn swf_line(columns: &[(usize, &str)]) -> String {
    let mut row = ["-1"; 18];
    let usual = [(0, "1"), (1, "0"), (3, "60"), (4, "4")];
    for (column, value) in usual.iter().chain(columns) {
        row[*column] = value;
    }
    row.join(" ")
}

fn line_submitted_at(number: &str, submitted: &str) -> String {
    swf_line(&[(0, number), (1, submitted)])
}

fn read_log(lines: &[String]) -> Result<SwfLog, LogError> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read_swf(
        text.as_bytes(),
        WorkloadLogSettings::skipping_bad_lines("a.swf"),
        Some(100),
    )
}

fn job_numbers(log: &SwfLog) -> Vec<u64> {
    log.jobs.iter().map(|job| job.number).collect()
}

/// Reads the bad line between two good ones; the complaint about it.
fn complaint_about(bad: &str) -> LogComplaint {
    let lines = [
        line_submitted_at("1", "0"),
        bad.to_owned(),
        line_submitted_at("3", "9"),
    ];
    let log = read_log(&lines).unwrap();
    assert_eq!(job_numbers(&log), [1, 3], "the good lines are kept");
    assert_eq!(
        (log.complaints.lines_read(), log.complaints.lines_skipped()),
        (3, 1)
    );
    log.complaints.kept_in_full().next().unwrap().clone()
}

fn complaint_kind(bad: &str) -> LogComplaintKind {
    let complaint = complaint_about(bad);
    assert_eq!(complaint.line, 2);
    complaint.kind
}

#[test]
fn an_excerpt_of_a_real_log_is_read_in_full() {
    let log = read_swf(
        KTH.as_bytes(),
        WorkloadLogSettings::refusing_bad_lines("kth"),
        None,
    )
    .unwrap();
    assert_eq!(log.jobs.len(), 300);
    assert_eq!(log.complaints.to_string(), "300 lines read, none skipped");
    assert_eq!(log.header.computer.as_deref(), Some("IBM SP2"));
    assert_eq!(log.header.acknowledge, ["Lars Malinowsky"]);
    assert_eq!(
        (log.header.max_nodes, log.header.max_procs),
        (Some(100), Some(100))
    );
    assert_eq!(log.header.unix_start_time, Some(Timestamp(843_480_031_000)));
    let first = &log.jobs[0];
    assert_eq!(
        (first.number, first.processors, first.user),
        (15, 4, Some(12))
    );
    assert_eq!(first.submitted, DurationMs::from_secs(599_850));
    assert_eq!(first.wait, Some(DurationMs::from_secs(192_180)));
    assert_eq!(first.run_time, DurationMs::from_secs(3477));
    assert_eq!(first.requested_time, Some(DurationMs::from_secs(53_940)));
    assert_eq!((first.status, first.queue), (SwfJobStatus::Completed, None));
}

#[test]
fn a_line_of_too_few_or_too_many_columns_is_skipped() {
    assert_eq!(complaint_kind("1 2 3"), LogComplaintKind::ColumnCount);
    assert_eq!(
        complaint_about(&(line_submitted_at("2", "5") + " 7")).detail,
        "19 instead of 18"
    );
}

#[test]
fn what_is_not_a_number_is_skipped_and_named() {
    assert_eq!(
        complaint_kind(&swf_line(&[(3, "1h")])),
        LogComplaintKind::NotANumber
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(1, "1.x")])),
        LogComplaintKind::NotANumber
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(4, "2.5")])),
        LogComplaintKind::NotANumber
    );
    assert_eq!(
        complaint_about(&swf_line(&[(3, "1h")])).detail,
        "run time \"1h\""
    );
    assert_eq!(
        complaint_kind("1 0 \u{fffd} 60 4 1 1 1 1 1 1 1 1 1 1 1 1 1"),
        LogComplaintKind::NotANumber
    );
}

#[test]
fn numbers_that_no_column_allows_are_skipped() {
    assert_eq!(
        complaint_kind(&swf_line(&[(2, "-5")])),
        LogComplaintKind::OutOfRange
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(11, "4294967296")])),
        LogComplaintKind::OutOfRange
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(3, "99999999999999999999")])),
        LogComplaintKind::OutOfRange
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(10, "6")])),
        LogComplaintKind::OutOfRange
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(0, "-1")])),
        LogComplaintKind::OutOfRange
    );
}

#[test]
fn an_unknown_submit_or_run_time_is_skipped() {
    assert_eq!(
        complaint_kind(&swf_line(&[(1, "-1")])),
        LogComplaintKind::UnknownTime
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(3, "-1")])),
        LogComplaintKind::UnknownRunTime
    );
}

#[test]
fn processors_must_be_known_and_not_zero_and_fit_the_grid() {
    assert_eq!(
        complaint_kind(&swf_line(&[(4, "-1")])),
        LogComplaintKind::UnknownProcessors
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(4, "0"), (7, "8")])),
        LogComplaintKind::ZeroProcessors
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(4, "-1"), (7, "0")])),
        LogComplaintKind::ZeroProcessors
    );
    assert_eq!(
        complaint_kind(&swf_line(&[(4, "101")])),
        LogComplaintKind::TooManyProcessors
    );
    assert_eq!(
        read_log(&[swf_line(&[(4, "100")])]).unwrap().jobs[0].processors,
        100
    );
}

#[test]
fn requested_processors_stand_in_for_unknown_allocated_ones() {
    let log = read_log(&[
        swf_line(&[(4, "-1"), (7, "8")]),
        swf_line(&[(4, "3"), (7, "8")]),
    ])
    .unwrap();
    let processors = log
        .jobs
        .iter()
        .map(|job| (job.processors, job.requested_processors));
    assert_eq!(processors.collect::<Vec<_>>(), [(8, Some(8)), (3, Some(8))]);
}

#[test]
fn bursts_of_a_swapped_job_do_not_become_jobs() {
    for status in ["2", "3", "4"] {
        assert_eq!(
            complaint_kind(&swf_line(&[(1, "-1"), (10, status)])),
            LogComplaintKind::PartialExecution
        );
    }
}

#[test]
fn a_job_that_goes_back_in_time_is_reported_and_sorted_in() {
    let log = read_log(&[
        line_submitted_at("1", "5"),
        line_submitted_at("2", "9"),
        line_submitted_at("3", "5"),
        line_submitted_at("4", "7"),
    ])
    .unwrap();
    assert_eq!(job_numbers(&log), [1, 3, 4, 2]);
    assert_eq!(log.complaints.count(LogComplaintKind::BackInTime), 1);
    let kept = log.complaints.kept_in_full().next().unwrap();
    assert_eq!(
        kept.detail,
        "job 3 was submitted at 5s, job 2 before it at 9s"
    );
    assert_eq!(log.complaints.lines_skipped(), 0);
}

#[test]
fn fractions_of_seconds_are_kept_to_the_millisecond() {
    let log = read_log(&[swf_line(&[
        (1, "1.5"),
        (2, "-1.00"),
        (3, "0.0129"),
        (8, "7.04"),
    ])])
    .unwrap();
    let job = &log.jobs[0];
    assert_eq!((job.submitted, job.wait), (DurationMs(1500), None));
    assert_eq!(
        (job.run_time, job.requested_time),
        (DurationMs(12), Some(DurationMs(7040)))
    );
}

#[test]
fn a_last_line_that_breaks_off_is_reported_as_truncated() {
    let text = format!("{}\n{}", line_submitted_at("1", "0"), "2 17 -1 60 4 -");
    let log = read_swf(
        text.as_bytes(),
        WorkloadLogSettings::skipping_bad_lines("a.swf"),
        None,
    )
    .unwrap();
    assert_eq!(job_numbers(&log), [1]);
    assert_eq!(
        log.complaints.to_string(),
        "1 line read, none skipped; the log is incomplete: 1 x truncated file (line 2)"
    );
    let whole = format!(
        "{}\n{}",
        line_submitted_at("1", "0"),
        line_submitted_at("2", "3")
    );
    let log = read_swf(
        whole.as_bytes(),
        WorkloadLogSettings::refusing_bad_lines("a.swf"),
        None,
    )
    .unwrap();
    assert_eq!(
        job_numbers(&log),
        [1, 2],
        "a missing line end alone is no fault"
    );
}

#[test]
fn a_log_of_fewer_jobs_than_its_header_announces_is_incomplete() {
    let header = "; MaxJobs: 5 (all)\n;  user=3 (2 jobs removed)\n";
    let read = |jobs: usize| {
        let text = header.to_owned() + &format!("{}\n", line_submitted_at("1", "0")).repeat(jobs);
        read_swf(
            text.as_bytes(),
            WorkloadLogSettings::skipping_bad_lines("a.swf"),
            None,
        )
        .unwrap()
    };
    assert!(read(3).complaints.is_empty());
    assert_eq!(
        read(2)
            .complaints
            .count(LogComplaintKind::FewerThanAnnounced),
        1
    );
}

#[test]
fn a_log_without_a_job_is_an_error_always() {
    for text in ["", "; Version: 2.2\n", "\n\n", "not a log\n"] {
        let error = read_swf(
            text.as_bytes(),
            WorkloadLogSettings::skipping_bad_lines("a.swf"),
            None,
        )
        .unwrap_err();
        assert!(matches!(error, LogError::Empty { .. }), "{error}");
    }
    let error = read_log(&["no log".into()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.swf has no usable entry (1 of 1 lines skipped: 1 x wrong column count (line 1)); \
         check the file name"
    );
}

#[test]
fn refusing_ends_the_reading_at_the_first_bad_line() {
    let text = [
        line_submitted_at("1", "0"),
        swf_line(&[(3, "-1")]),
        line_submitted_at("3", "0"),
    ]
    .join("\n");
    let mut reader = SwfReader::new(
        text.as_bytes(),
        WorkloadLogSettings::refusing_bad_lines("a.swf"),
        None,
    )
    .unwrap();
    assert_eq!(reader.next().unwrap().unwrap().number, 1);
    let error = reader.next().unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with("a.swf, line 2: unknown run time (run time \"-1\")"),
        "{error}"
    );
    assert!(reader.next().is_none());
}

#[test]
fn the_header_is_known_before_the_first_job_is_taken() {
    let text = format!(
        "\n;  Computer: A: b\n; MaxProcs: many\n\n{}\n",
        line_submitted_at("1", "0")
    );
    let reader = SwfReader::new(
        text.as_bytes(),
        WorkloadLogSettings::skipping_bad_lines("a.swf"),
        None,
    )
    .unwrap();
    assert_eq!(reader.header().computer.as_deref(), Some("A: b"));
    assert_eq!(reader.header().max_procs, None);
    assert_eq!(reader.count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_line_becomes_a_job_or_a_complaint(
        rows in proptest::collection::vec(
            proptest::collection::vec("-1|-5|0|[1-9][0-9]{0,3}|x|1\\.5", 16..20), 1..30),
    ) {
        let lines: Vec<String> = rows.iter().map(|row| row.join("  ")).collect();
        match read_log(&lines) {
            Ok(log) => {
                let skipped = log.complaints.lines_skipped();
                prop_assert_eq!(log.jobs.len() as u64 + skipped, lines.len() as u64);
                prop_assert!(log.jobs.is_sorted_by_key(|job| job.submitted));
                prop_assert!(log.jobs.iter().all(|job| (1..=100).contains(&job.processors)));
            }
            Err(error) => prop_assert!(error.to_string().contains("no usable entry")),
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-0-9 ;:x.\n]{0,300}") {
        let _ = read_swf(text.as_bytes(), WorkloadLogSettings::skipping_bad_lines("a.swf"), Some(4));
        let _ = read_swf(text.as_bytes(), WorkloadLogSettings::refusing_bad_lines("a.swf"), None);
    }
}
