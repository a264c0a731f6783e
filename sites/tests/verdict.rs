//! What an end means: every row of the table, and the book's.

#![allow(clippy::unwrap_used, reason = "a test program")]

use cospan_sites::attempt_end::{
    AttemptEnd, BatchState, WrapperTraces, interpret_end, to_markdown,
};
use cospan_sites::port::{EndedBySite, ErrorBlame};

/// By word, in the order of [`BatchState::ALL`]; the columns are in the order of [`WrapperTraces::ALL`]: nothing,
/// at its gate, began, trouble, spoiled, code 0, code or signal, TERM or KILL, told to end, wall
/// time, unstarted, too late, void. `?`: only when it is settled. Small letters are of what is not
/// over.
const TABLE: [(BatchState, &str); 16] = [
    (BatchState::Waiting, " q ?R ?R ?R ?R ?S ?J ?R ?R J J t q"),
    (BatchState::NeverRuns, "?N ?R ?R ?R ?R ?S ?J ?R ?R J J t q"),
    (BatchState::Requeued, " q ?R ?R ?R ?R ?R ?R ?R ?R J J t q"),
    (BatchState::Running, " g  g  g  g  g ?S ?J ?J ?J J J t v"),
    (BatchState::Completing, " g  g  g  g  g ?S ?J ?J ?J J J t v"),
    (BatchState::Completed, "?L ?L ?W ?L ?Z  S  J  J  J J J t v"),
    (BatchState::Failed, "?L ?L ?W ?L ?Z  L  J  J  J J J t v"),
    (BatchState::Cancelled, "?C ?C ?C ?C ?C  S  C  C  C J J t v"),
    (BatchState::Preempted, "?P ?P ?P ?P ?P  P  P  P  P J J t v"),
    (BatchState::TimeLimit, "?T ?T ?T ?T ?T  T  T  T  T J J t v"),
    (BatchState::Deadline, "?T ?T ?T ?T ?T  T  T  T  T J J t v"),
    (BatchState::NodeFailed, "?F ?F ?F ?F ?F  F  F  F  F J J t v"),
    (BatchState::BootFailed, "?F ?F ?F ?F ?F  F  F  F  F J J t v"),
    (
        BatchState::LaunchFailed,
        "?X ?X ?W ?X ?Z  X  X  X  X J J t v",
    ),
    (
        BatchState::OutOfMemory,
        "?M ?M ?M ?M ?M  M  M  M  M J J t v",
    ),
    (BatchState::Forgotten, " a ?L ?L ?L ?Z  S  J  C  C J J t v"),
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
        'N' => AttemptEnd::Ended(EndedBySite::NeverRuns),
        'R' => AttemptEnd::Ended(EndedBySite::Requeued),
        'C' => AttemptEnd::Ended(EndedBySite::Cancelled),
        'P' => AttemptEnd::Ended(EndedBySite::Preempted),
        'T' => AttemptEnd::Ended(EndedBySite::TimeLimit),
        'F' => AttemptEnd::Ended(EndedBySite::NodeFailed),
        'X' => AttemptEnd::Ended(EndedBySite::LaunchFailed),
        'M' => AttemptEnd::Ended(EndedBySite::OutOfMemory),
        'W' => AttemptEnd::Ended(EndedBySite::WrapperKilled),
        'Z' => AttemptEnd::Ended(EndedBySite::Spoiled),
        other => panic!("{other}"),
    }
}

#[test]
fn an_end_means_what_its_row_and_column_say() {
    assert_eq!(TABLE.map(|(word, _)| word), BatchState::ALL);
    for (word, row) in TABLE {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), WrapperTraces::ALL.len(), "{word:?}");
        for (left, cell) in WrapperTraces::ALL.into_iter().zip(cells) {
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
    for word in BatchState::ALL {
        let outside = !matches!(
            word,
            BatchState::Forgotten
                | BatchState::Running
                | BatchState::Completing
                | BatchState::Completed
        );
        // A controller that forgot that it started something ended nothing, whatever it calls it.
        let forgot = matches!(
            word,
            BatchState::Waiting | BatchState::NeverRuns | BatchState::Cancelled
        );
        let outside = outside && !forgot;
        for left in WrapperTraces::ALL {
            let verdict = interpret_end(word, left, true);
            assert!(
                !outside || verdict != AttemptEnd::Succeeded,
                "{word:?}, {left:?}"
            );
            let by_people = [
                BatchState::Cancelled,
                BatchState::Preempted,
                BatchState::Requeued,
                BatchState::TimeLimit,
                BatchState::Deadline,
                BatchState::NeverRuns,
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
    let current = to_markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page, format!("{before}{BEGIN}{current}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            table, current,
            "run: UPDATE_DOCS=1 cargo test -p cospan-sites --test verdict"
        );
    }
}
