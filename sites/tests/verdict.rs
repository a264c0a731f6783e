//! What an end means: every row of the table, and the book's.

#![allow(clippy::unwrap_used, reason = "a test program")]

use cospan_sites::attempt_end::{
    AttemptEnd, BatchJobState, WrapperFileState, format_end_table, interpret_end,
};
use cospan_sites::port::{ErrorBlame, SiteEndReason};

/// By word, in the order of [`BatchJobState::ALL`]; the columns are in the order of
/// [`WrapperFileState::ALL`]: nothing, at its gate, began, trouble, spoiled, code 0, code or
/// signal, TERM or KILL, told to end, wall time, unstarted, too late, void. `?`: only when it is
/// settled. Small letters are of what is not over.
const TABLE: [(BatchJobState, &str); 16] = [
    (BatchJobState::Waiting, " q ?R ?R ?R ?R ?S ?J ?R ?R J J t q"),
    (
        BatchJobState::NeverRuns,
        "?N ?R ?R ?R ?R ?S ?J ?R ?R J J t q",
    ),
    (
        BatchJobState::Requeued,
        " q ?R ?R ?R ?R ?R ?R ?R ?R J J t q",
    ),
    (BatchJobState::Running, " g  g  g  g  g ?S ?J ?J ?J J J t v"),
    (
        BatchJobState::Completing,
        " g  g  g  g  g ?S ?J ?J ?J J J t v",
    ),
    (
        BatchJobState::Completed,
        "?L ?L ?W ?L ?Z  S  J  J  J J J t v",
    ),
    (BatchJobState::Failed, "?L ?L ?W ?L ?Z  L  J  J  J J J t v"),
    (
        BatchJobState::Cancelled,
        "?C ?C ?C ?C ?C  S  C  C  C J J t v",
    ),
    (
        BatchJobState::Preempted,
        "?P ?P ?P ?P ?P  P  P  P  P J J t v",
    ),
    (
        BatchJobState::TimeLimit,
        "?T ?T ?T ?T ?T  T  T  T  T J J t v",
    ),
    (
        BatchJobState::Deadline,
        "?T ?T ?T ?T ?T  T  T  T  T J J t v",
    ),
    (
        BatchJobState::NodeFailed,
        "?F ?F ?F ?F ?F  F  F  F  F J J t v",
    ),
    (
        BatchJobState::BootFailed,
        "?F ?F ?F ?F ?F  F  F  F  F J J t v",
    ),
    (
        BatchJobState::LaunchFailed,
        "?X ?X ?W ?X ?Z  X  X  X  X J J t v",
    ),
    (
        BatchJobState::OutOfMemory,
        "?M ?M ?M ?M ?M  M  M  M  M J J t v",
    ),
    (
        BatchJobState::Forgotten,
        " a ?L ?L ?L ?Z  S  J ?J  C J J t v",
    ),
];

fn meant(letter: char) -> AttemptEnd {
    match letter {
        'a' => AttemptEnd::Absent,
        'q' => AttemptEnd::Queued,
        'g' => AttemptEnd::Standing,
        'v' => AttemptEnd::Void,
        't' => AttemptEnd::TooLate,
        'S' => AttemptEnd::Succeeded,
        'J' => AttemptEnd::Failed,
        'L' => AttemptEnd::Lost,
        'N' => AttemptEnd::Ended(SiteEndReason::NeverRuns),
        'R' => AttemptEnd::Ended(SiteEndReason::Requeued),
        'C' => AttemptEnd::Ended(SiteEndReason::Cancelled),
        'P' => AttemptEnd::Ended(SiteEndReason::Preempted),
        'T' => AttemptEnd::Ended(SiteEndReason::TimeLimit),
        'F' => AttemptEnd::Ended(SiteEndReason::NodeFailed),
        'X' => AttemptEnd::Ended(SiteEndReason::LaunchFailed),
        'M' => AttemptEnd::Ended(SiteEndReason::OutOfMemory),
        'W' => AttemptEnd::Ended(SiteEndReason::WrapperKilled),
        'Z' => AttemptEnd::Ended(SiteEndReason::Spoiled),
        other => panic!("{other}"),
    }
}

#[test]
fn an_end_means_what_its_row_and_column_say() {
    assert_eq!(TABLE.map(|(word, _)| word), BatchJobState::ALL);
    for (word, row) in TABLE {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), WrapperFileState::ALL.len(), "{word:?}");
        for (left, cell) in WrapperFileState::ALL.into_iter().zip(cells) {
            let waits = cell.starts_with('?');
            let late = meant(cell.chars().last().unwrap());
            let early = if waits { AttemptEnd::Untold } else { late };
            assert_eq!(interpret_end(word, left, true), late, "{word:?}, {left:?}");
            assert_eq!(
                interpret_end(word, left, false),
                early,
                "{word:?}, {left:?}, early"
            );
        }
    }
}

#[test]
fn what_was_ended_from_outside_is_never_success_and_seldom_the_sites_error() {
    for word in BatchJobState::ALL {
        let outside = !matches!(
            word,
            BatchJobState::Forgotten
                | BatchJobState::Running
                | BatchJobState::Completing
                | BatchJobState::Completed
        );
        // A controller that forgot that it started something ended nothing, whatever it calls it.
        let forgot = matches!(
            word,
            BatchJobState::Waiting | BatchJobState::NeverRuns | BatchJobState::Cancelled
        );
        let outside = outside && !forgot;
        for left in WrapperFileState::ALL {
            let verdict = interpret_end(word, left, true);
            assert!(
                !outside || verdict != AttemptEnd::Succeeded,
                "{word:?}, {left:?}"
            );
            let by_people = [
                BatchJobState::Cancelled,
                BatchJobState::Preempted,
                BatchJobState::Requeued,
                BatchJobState::TimeLimit,
                BatchJobState::Deadline,
                BatchJobState::NeverRuns,
            ];
            let charged = verdict.whose_error() == Some(ErrorBlame::Site);
            assert!(
                !(charged && by_people.contains(&word)),
                "{word:?}, {left:?}"
            );
        }
    }
}

/// `UPDATE_DOCS=1 cargo test -p cospan-sites --test verdict` writes it anew.
#[test]
fn the_table_of_the_book_is_that_of_the_code() {
    const BEGIN: &str = "<!-- table: begin -->\n";
    const END: &str = "<!-- table: end -->";
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/guide/ends.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let current = format_end_table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page, format!("{before}{BEGIN}{current}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            table, current,
            "run: UPDATE_DOCS=1 cargo test -p cospan-sites --test verdict"
        );
    }
}
