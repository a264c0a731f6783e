//! What an end means: every row of the table, and the book's.

#![allow(clippy::unwrap_used, reason = "a test program")]

use cospan_sites::port::{Blame, EndedBySite};
use cospan_sites::verdict::{Left, Verdict, Word, to_markdown, verdict};

/// By word, in the order of [`Word::ALL`]; the columns are in the order of [`Left::ALL`]: nothing,
/// at its gate, began, trouble, spoiled, code 0, code or signal, TERM or KILL, told to end, wall
/// time, unstarted, too late, void. `?`: only when it is settled. Small letters are of what is not
/// over.
const TABLE: [(Word, &str); 16] = [
    (Word::Waiting, " q ?R ?R ?R ?R ?S ?J ?R ?R J J t q"),
    (Word::NeverRuns, "?N ?R ?R ?R ?R ?S ?J ?R ?R J J t q"),
    (Word::Requeued, " q ?R ?R ?R ?R ?R ?R ?R ?R J J t q"),
    (Word::Running, " g  g  g  g  g ?S ?J ?J ?J J J t v"),
    (Word::Completing, " g  g  g  g  g ?S ?J ?J ?J J J t v"),
    (Word::Completed, "?L ?L ?W ?L ?Z  S  J  J  J J J t v"),
    (Word::Failed, "?L ?L ?W ?L ?Z  L  J  J  J J J t v"),
    (Word::Cancelled, "?C ?C ?C ?C ?C  S  C  C  C J J t v"),
    (Word::Preempted, "?P ?P ?P ?P ?P  P  P  P  P J J t v"),
    (Word::TimeLimit, "?T ?T ?T ?T ?T  T  T  T  T J J t v"),
    (Word::Deadline, "?T ?T ?T ?T ?T  T  T  T  T J J t v"),
    (Word::NodeFailed, "?F ?F ?F ?F ?F  F  F  F  F J J t v"),
    (Word::BootFailed, "?F ?F ?F ?F ?F  F  F  F  F J J t v"),
    (Word::LaunchFailed, "?X ?X ?W ?X ?Z  X  X  X  X J J t v"),
    (Word::OutOfMemory, "?M ?M ?M ?M ?M  M  M  M  M J J t v"),
    (Word::Forgotten, " a ?L ?L ?L ?Z  S  J  C  C J J t v"),
];

fn meant(letter: char) -> Verdict {
    match letter {
        'a' => Verdict::Absent,
        'q' => Verdict::Queued,
        'g' => Verdict::Standing,
        'v' => Verdict::Void,
        't' => Verdict::TooLate,
        'S' => Verdict::Succeeded,
        'J' => Verdict::Failed,
        'L' => Verdict::Lost,
        'N' => Verdict::Ended(EndedBySite::NeverRuns),
        'R' => Verdict::Ended(EndedBySite::Requeued),
        'C' => Verdict::Ended(EndedBySite::Cancelled),
        'P' => Verdict::Ended(EndedBySite::Preempted),
        'T' => Verdict::Ended(EndedBySite::TimeLimit),
        'F' => Verdict::Ended(EndedBySite::NodeFailed),
        'X' => Verdict::Ended(EndedBySite::LaunchFailed),
        'M' => Verdict::Ended(EndedBySite::OutOfMemory),
        'W' => Verdict::Ended(EndedBySite::WrapperKilled),
        'Z' => Verdict::Ended(EndedBySite::Spoiled),
        other => panic!("{other}"),
    }
}

#[test]
fn an_end_means_what_its_row_and_column_say() {
    assert_eq!(TABLE.map(|(word, _)| word), Word::ALL);
    for (word, row) in TABLE {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), Left::ALL.len(), "{word:?}");
        for (left, cell) in Left::ALL.into_iter().zip(cells) {
            let waits = cell.starts_with('?');
            let late = meant(cell.chars().last().unwrap());
            let early = if waits { Verdict::Untold } else { late };
            assert_eq!(verdict(word, left, true), late, "{word:?}, {left:?}");
            assert_eq!(
                verdict(word, left, false),
                early,
                "{word:?}, {left:?}, early"
            );
        }
    }
}

#[test]
fn what_was_ended_from_outside_is_never_success_and_seldom_the_sites_error() {
    for word in Word::ALL {
        let outside = !matches!(
            word,
            Word::Forgotten | Word::Running | Word::Completing | Word::Completed
        );
        // A controller that forgot that it started something ended nothing, whatever it calls it.
        let forgot = matches!(word, Word::Waiting | Word::NeverRuns | Word::Cancelled);
        let outside = outside && !forgot;
        for left in Left::ALL {
            let verdict = verdict(word, left, true);
            assert!(
                !outside || verdict != Verdict::Succeeded,
                "{word:?}, {left:?}"
            );
            let by_people = [
                Word::Cancelled,
                Word::Preempted,
                Word::Requeued,
                Word::TimeLimit,
                Word::Deadline,
                Word::NeverRuns,
            ];
            let charged = verdict.blame() == Some(Blame::Site);
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
