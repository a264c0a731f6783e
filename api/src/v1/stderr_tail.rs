//! The end of a failed component's error output: the payload's own words, made harmless, and the
//! command that reads the rest.

use cospan_domain::text::is_hidden;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bytes from the end that are read.
pub const TAIL_BYTES: u32 = 4 << 10;
/// Most lines that are shown.
const LINES: usize = 10;
/// Most characters of a line that are shown.
const WIDTH: usize = 200;

/// The last lines that a failed component printed to standard error. These are the payload's words:
/// they are shown, and nothing is concluded from them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LastWordsReport {
    /// The component.
    pub component: String,
    /// The attempt that failed.
    pub attempt: u32,
    /// The site where it ran.
    pub site: String,
    /// At most ten lines of at most 200 characters, without control characters.
    #[serde(default)]
    pub lines: Vec<String>,
    /// True if there are more lines than these.
    #[serde(default)]
    pub shortened: bool,
    /// The reason why the lines could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The command that prints all lines.
    #[schema(example = "cospan logs 12 --component solver --stream stderr")]
    pub more: String,
}

/// Returns the last lines of a text that ends with `tail`, and true if there is more text. `whole`
/// says that there is nothing in front of `tail`.
pub fn last_lines(tail: &[u8], whole: bool) -> (Vec<String>, bool) {
    let text = String::from_utf8_lossy(tail);
    let text = anstream::adapter::strip_str(&text).to_string();
    let mut lines: Vec<&str> = text.lines().collect();
    // The first line lacks its beginning.
    if !whole && lines.len() > 1 {
        lines.remove(0);
    }
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let first = lines.len().saturating_sub(LINES);
    let shortened = !whole || first > 0 || lines.iter().any(|line| line.chars().count() > WIDTH);
    (
        lines[first..]
            .iter()
            .map(|line| sanitize_line(line))
            .collect(),
        shortened,
    )
}

/// Makes a line harmless: it moves no cursor, hides nothing, and turns no other text around.
fn sanitize_line(line: &str) -> String {
    // A terminal shows what follows the last carriage return.
    let shown = line
        .trim_end_matches('\r')
        .rsplit('\r')
        .next()
        .unwrap_or_default();
    let mut text: String = shown
        .chars()
        .take(WIDTH)
        .map(|c: char| match c {
            '\t' => ' ',
            c if is_hidden(c) => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect();
    if shown.chars().nth(WIDTH).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_lines_are_told_and_that_there_is_more() {
        let text: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        let (lines, shortened) = last_lines(text.as_bytes(), true);
        assert_eq!(
            (lines.len(), lines[0].as_str(), shortened),
            (10, "line 21", true)
        );
        let (lines, shortened) = last_lines(b"only this\n\n", true);
        assert_eq!((lines, shortened), (vec!["only this".to_owned()], false));
        assert_eq!(last_lines(b"", true), (Vec::new(), false));
    }

    #[test]
    fn a_line_whose_beginning_was_not_read_is_left_out() {
        let (lines, shortened) = last_lines(b"lf a line\nwhole\n", false);
        assert_eq!((lines, shortened), (vec!["whole".to_owned()], true));
        // Unless there is no other.
        assert_eq!(last_lines(b"lf a line", false).0, ["lf a line"]);
    }

    #[test]
    fn no_word_of_a_payload_moves_the_cursor_or_hides_another() {
        let bytes = b"\x1b[2J\x1b]0;title\x07red \x1b[31mred\x1b[0m\tend\x08\x00\n10%\r90%\r\n\xff";
        let (lines, _) = last_lines(bytes, true);
        assert_eq!(lines[0], "red red end");
        assert_eq!(&lines[1..], ["90%", "\u{fffd}"]);
        let (lines, _) = last_lines("a\u{202e}b\u{9b}c".as_bytes(), true);
        assert!(!lines[0].contains(['\u{202e}', '\u{9b}']), "{lines:?}");
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let (lines, shortened) = last_lines("é".repeat(1_000).as_bytes(), true);
        assert_eq!((lines[0].chars().count(), shortened), (WIDTH + 1, true));
        assert!(lines[0].ends_with('…'));
    }
}
