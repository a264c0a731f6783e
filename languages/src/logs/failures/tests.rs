use flate2::Compression;
use flate2::read::GzEncoder;
use proptest::prelude::*;

use super::*;

const HEADER: &str = "System,nodenumz,Prob Started,Prob Fixed,Down Time,Facilities,Hardware,\
                      Human Error,Network,Undetermined,Software\n";

fn row(system: &str, node: &str, started: &str, fixed: &str) -> String {
    format!("{system},{node},{started},{fixed},6,,Memory Dimm,,,,\n")
}

fn good_row(system: &str, node: &str) -> String {
    row(system, node, "6/21/2005 10:54", "6/21/2005 11:00")
}

type ParsedFailures = (Vec<LoggedFailure>, LogComplaints);

fn read_bytes(bytes: &[u8], system: Option<u32>) -> Result<ParsedFailures, LogError> {
    let mut reader = FailureLogReader::new(
        bytes,
        WorkloadLogSettings::skipping_bad_lines("lanl.csv"),
        system,
    )?;
    let failures = reader.by_ref().collect::<Result<_, _>>()?;
    Ok((failures, reader.complaints))
}

fn read_rows(rows: &[String], system: Option<u32>) -> ParsedFailures {
    read_bytes((HEADER.to_owned() + &rows.concat()).as_bytes(), system).unwrap()
}

fn complaint_kind(bad: String) -> LogComplaintKind {
    let (failures, complaints) = read_rows(&[good_row("2", "0"), bad, good_row("2", "1")], None);
    assert_eq!(failures.len(), 2, "the good rows are kept");
    let kept: Vec<_> = complaints.kept_in_full().collect();
    assert_eq!((kept.len(), kept[0].line), (1, 3));
    kept[0].kind
}

#[test]
fn a_failure_is_read_with_node_times_and_cause() {
    let (failures, complaints) = read_rows(&[good_row("20", "7")], None);
    let started = Timestamp(1_119_351_240_000);
    let repaired = Timestamp(started.0 + 360_000);
    let cause = FailureCause::Hardware;
    assert_eq!(
        failures,
        [LoggedFailure {
            system: 20,
            node: 7,
            started,
            repaired,
            cause
        }]
    );
    assert!(complaints.is_empty());
}

#[test]
fn a_failure_without_cause_is_kept_as_such() {
    let row = "2,0,6/21/2005 10:54,6/21/2005 10:54,0,,,,,,\n".to_owned();
    assert_eq!(
        read_rows(&[row], None).0[0].cause,
        FailureCause::NotRecorded
    );
}

#[test]
fn only_the_system_asked_for_is_read() {
    let rows = [
        good_row("2", "0"),
        row("3", "x", "", ""),
        good_row("20", "1"),
    ];
    let (failures, complaints) = read_rows(&rows, Some(20));
    assert_eq!(
        failures
            .iter()
            .map(|failure| failure.node)
            .collect::<Vec<_>>(),
        [1]
    );
    assert!(complaints.is_empty());
    assert_eq!(complaints.lines_read(), 1);
}

#[test]
fn rows_that_cannot_be_used_are_reported() {
    let date = "6/21/2005 10:54";
    assert_eq!(
        complaint_kind(row("2", "0", "", date)),
        LogComplaintKind::UnknownTime
    );
    assert_eq!(
        complaint_kind(row("2", "0", date, "")),
        LogComplaintKind::UnknownTime
    );
    assert_eq!(
        complaint_kind(row("2", "0", "yesterday", date)),
        LogComplaintKind::NotADate
    );
    assert_eq!(
        complaint_kind(row("2", "0", date, "6/20/2005 10:54")),
        LogComplaintKind::EndBeforeStart
    );
    assert_eq!(
        complaint_kind(row("2", "", date, date)),
        LogComplaintKind::NotANumber
    );
    assert_eq!(
        complaint_kind("2,0\n".into()),
        LogComplaintKind::ColumnCount
    );
}

#[test]
fn a_last_row_that_breaks_off_is_reported_as_truncated() {
    let (failures, complaints) = read_rows(&[good_row("2", "0"), "2,1,6/21/2005 10".into()], None);
    assert_eq!(failures.len(), 1);
    assert_eq!(complaints.count(LogComplaintKind::Truncated), 1);
    let (failures, complaints) = read_rows(
        &[good_row("2", "0"), good_row("2", "1").trim_end().into()],
        None,
    );
    assert_eq!((failures.len(), complaints.is_empty()), (2, true));
}

#[test]
fn a_compressed_log_that_breaks_off_keeps_what_came_before() {
    let rows: String = (0..5_000)
        .map(|node| good_row("2", &(node * 7919 % 5003).to_string()))
        .collect();
    let mut zipped = Vec::new();
    let text = HEADER.to_owned() + &rows;
    GzEncoder::new(text.as_bytes(), Compression::fast())
        .read_to_end(&mut zipped)
        .unwrap();
    assert_eq!(read_bytes(&zipped, None).unwrap().0.len(), 5_000);
    let (failures, complaints) = read_bytes(&zipped[..zipped.len() / 2], None).unwrap();
    assert!(
        (1_000..4_000).contains(&failures.len()),
        "{}",
        failures.len()
    );
    assert_eq!(complaints.count(LogComplaintKind::Truncated), 1);
}

#[test]
fn a_log_without_failures_or_columns_is_an_error() {
    let error = read_bytes(HEADER.as_bytes(), None).unwrap_err();
    assert!(matches!(error, LogError::Empty { .. }), "{error}");
    for text in ["", "a,b\n1,2\n"] {
        let error = read_bytes(text.as_bytes(), None).unwrap_err();
        assert!(matches!(error, LogError::ColumnMissing { .. }), "{error}");
    }
}

#[test]
fn refusing_names_the_row() {
    let text = HEADER.to_owned() + &good_row("2", "0") + &row("2", "0", "", "");
    let reader = FailureLogReader::new(
        text.as_bytes(),
        WorkloadLogSettings::refusing_bad_lines("lanl.csv"),
        None,
    )
    .unwrap();
    let error = reader.last().unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with("lanl.csv, line 3: unknown time (Prob Started)"),
        "{error}"
    );
}

#[test]
fn dates_that_do_not_exist_are_refused() {
    for text in [
        "2/29/2005 1:00",
        "13/1/2005 1:00",
        "0/1/2005 1:00",
        "4/31/2005 1:00",
        "1/0/2005 1:00",
        "1/1/1969 1:00",
        "1/1/2005 24:00",
        "1/1/2005 1:60",
        "1/1/2005",
        "1/2005 1:00",
        "a/1/2005 1:00",
        "1/1/99999999999999999999 1:00",
        "1/1/2005 1:00:00",
        "",
    ] {
        assert_eq!(wall_clock::parse_wall_clock(text), None, "{text}");
    }
}

#[test]
fn dates_count_from_1970_with_leap_days() {
    let days = |text: &str| wall_clock::parse_wall_clock(text).map(|time| time.0 / 86_400_000);
    assert_eq!(days("1/1/1970 0:00"), Some(0));
    assert_eq!(days("3/1/1972 0:00"), Some(790));
    assert_eq!(days("2/29/2000 23:59"), Some(11_016));
    assert_eq!(days("1/1/2100 0:00"), Some(47_482));
    assert_eq!(days("3/1/2100 0:00"), Some(47_541));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_bytes(&bytes, None);
        let _ = read_bytes(&[HEADER.as_bytes(), &bytes].concat(), None);
    }

    #[test]
    fn every_row_becomes_a_failure_or_a_complaint(
        rows in proptest::collection::vec(("[0-9x]?", "([1-9]/[1-9]/200[0-5] 1:00)?"), 1..20),
    ) {
        let rows: Vec<String> =
            rows.iter().map(|(node, date)| row("2", node, date, "1/1/2006 0:00")).collect();
        if let Ok((failures, complaints)) = read_bytes((HEADER.to_owned() + &rows.concat()).as_bytes(), None) {
            prop_assert_eq!(failures.len() as u64 + complaints.lines_skipped(), rows.len() as u64);
        }
    }
}
