use super::*;

fn make_complaints(
    cases: &[(u64, LogComplaintKind)],
    lines_read: u64,
    kept: usize,
) -> LogComplaints {
    let reading = WorkloadLogSettings {
        file: "a.swf".into(),
        on_bad: BadLineTreatment::Skip {
            kept_per_kind_max: kept,
        },
    };
    let mut complaints = LogComplaints {
        lines_read,
        ..LogComplaints::default()
    };
    for (line, kind) in cases {
        complaints
            .record_complaint(UnplacedComplaint::new(*kind, "x").at_line(*line), &reading)
            .unwrap();
    }
    complaints
}

#[test]
fn the_summary_tells_counts_and_lines() {
    let cases = [
        (17, LogComplaintKind::UnknownRunTime),
        (290, LogComplaintKind::UnknownRunTime),
        (300, LogComplaintKind::ColumnCount),
    ];
    assert_eq!(
        make_complaints(&cases, 40_318, 10).to_string(),
        "3 of 40,318 lines skipped: 1 x wrong column count (line 300), \
         2 x unknown run time (lines 17, 290)"
    );
}

#[test]
fn what_is_kept_or_incomplete_is_told_apart_from_what_is_skipped() {
    let cases = [
        (5, LogComplaintKind::BackInTime),
        (9, LogComplaintKind::Truncated),
    ];
    assert_eq!(
        make_complaints(&cases, 1_000_000, 10).to_string(),
        "1,000,000 lines read, none skipped; kept all the same: 1 x goes back in time (line 5); \
         the log is incomplete: 1 x truncated file (line 9)"
    );
}

#[test]
fn only_the_first_of_a_kind_are_kept_but_all_are_counted() {
    let cases: Vec<_> = (1..=1500)
        .map(|line| (line, LogComplaintKind::ZeroProcessors))
        .collect();
    let complaints = make_complaints(&cases, 2000, 2);
    assert_eq!(complaints.count(LogComplaintKind::ZeroProcessors), 1500);
    assert_eq!(
        complaints
            .kept_in_full()
            .map(|kept| kept.line)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(
        complaints.to_string(),
        "1,500 of 2,000 lines skipped: 1,500 x zero processors (lines 1, 2 and 1,498 more)"
    );
    let counted_only = make_complaints(&cases, 2000, 0).to_string();
    assert_eq!(
        counted_only,
        "1,500 of 2,000 lines skipped: 1,500 x zero processors"
    );
}

#[test]
fn a_clean_log_has_nothing_to_complain_about() {
    let complaints = make_complaints(&[], 7, 10);
    assert!(complaints.is_empty());
    assert_eq!(complaints.to_string(), "7 lines read, none skipped");
}

#[test]
fn refusing_names_file_line_cause_and_remedy() {
    let complaint =
        UnplacedComplaint::new(LogComplaintKind::UnknownRunTime, "run time -1").at_line(17);
    let refused = LogComplaints::default().record_complaint(
        complaint,
        &WorkloadLogSettings::refusing_bad_lines("kth.swf"),
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "kth.swf, line 17: unknown run time (run time -1); fill in the value or remove the line, \
         or allow bad lines to be skipped"
    );
}
