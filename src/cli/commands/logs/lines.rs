//! The lines of one of several streams, each with a label in front.

use crate::cli::print::dim;

/// Longest part of an unfinished line that is kept back.
const LONGEST_LINE: usize = 64 << 10;

/// The lines of a stream, on their way to be printed; without a label, its bytes unchanged.
pub(super) struct StreamLines {
    label: Option<String>,
    unfinished: Vec<u8>,
}

impl StreamLines {
    pub(super) fn of(label: Option<&str>) -> Self {
        Self {
            label: label.map(|label| dim(&format!("{label} | "))),
            unfinished: Vec::new(),
        }
    }

    /// Adds bytes, and returns everything that can be printed now.
    pub(super) fn take_printable(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(label) = &self.label else {
            return bytes.to_vec();
        };
        self.unfinished.extend_from_slice(bytes);
        let newline = self.unfinished.iter().rposition(|byte| *byte == b'\n');
        let mut ready = newline.map_or(0, |at| at + 1);
        if self.unfinished.len() - ready > LONGEST_LINE {
            ready = self.unfinished.len();
        }
        let rest = self.unfinished.split_off(ready);
        let ready = std::mem::replace(&mut self.unfinished, rest);
        add_label(label, &ready)
    }

    /// Returns the rest when no more bytes come.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        let Some(label) = &self.label else {
            return Vec::new();
        };
        add_label(label, &std::mem::take(&mut self.unfinished))
    }
}

fn add_label(label: &str, lines: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(lines.len() * 2);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(label.as_bytes());
        text.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_printed_in_parts_and_never_kept_whole() {
        let mut lines = StreamLines::of(Some("a"));
        let mut printed = 0;
        let mut most = 0;
        for _ in 0..100 {
            printed += lines
                .take_printable(&[b'x'; 40 << 10])
                .iter()
                .filter(|byte| **byte == b'x')
                .count();
            most = most.max(lines.unfinished.len());
        }
        assert!(most <= LONGEST_LINE, "{most} bytes were kept");
        printed += lines
            .take_rest()
            .iter()
            .filter(|byte| **byte == b'x')
            .count();
        assert_eq!(printed, 100 * (40 << 10), "and nothing is lost");
    }

    #[test]
    fn parts_of_a_line_wait_for_its_end() {
        let mut lines = StreamLines::of(Some("a"));
        assert_eq!(lines.take_printable(b"one, "), b"");
        let whole = anstream::adapter::strip_bytes(&lines.take_printable(b"two\nthr")).into_vec();
        assert_eq!(whole, b"a | one, two\n");
        let rest = anstream::adapter::strip_bytes(&lines.take_rest()).into_vec();
        assert_eq!(rest, b"a | thr\n");
    }

    #[test]
    fn every_line_of_a_labelled_stream_says_whose_it_is() {
        let text = add_label("ab   | ", b"one\ntwo");
        assert_eq!(String::from_utf8(text).unwrap(), "ab   | one\nab   | two\n");
        assert_eq!(add_label("ab   | ", b""), b"");
    }

    #[test]
    fn the_only_stream_is_printed_byte_by_byte() {
        let mut lines = StreamLines::of(None);
        assert_eq!(lines.take_printable(b"one, "), b"one, ");
        assert_eq!(lines.take_rest(), b"");
    }
}
