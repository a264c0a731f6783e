//! All text that this program prints for people passes here: text of others (names, messages, the
//! output of payloads) moves no cursor, hides nothing, and turns no other text around, but is shown
//! as it is spelt: `\u{202e}`.
//!
//! Our own colours are sealed with a number that nobody else knows, which distinguishes them from
//! the same bytes in text of others.

pub mod log_format;
mod visible_text;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;

pub use cospan_domain::text::is_hidden;
use visible_text::{StyleTreatment, WhitespaceTreatment, write_visible};
pub use visible_text::{on_one_line, visible_json, visible_yaml};

/// The beginning of our own sequences.
static SEAL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\x1b[{};",
        RandomState::new().hash_one("what we say ourselves")
    )
});

/// Moves to the start of the line, and clears it.
static CLEAR: LazyLock<String> =
    LazyLock::new(|| format!("{}{}", escape_sequence("G"), escape_sequence("2K")));

static ERRORS: Mutex<Option<TerminalPrinter<Box<dyn Write + Send>>>> = Mutex::new(None);

/// A sequence of ours for the terminal; `order` is the part behind `ESC [`.
pub fn escape_sequence(order: &str) -> String {
    format!("{}{order}", *SEAL)
}

/// The sequence that clears a line.
pub fn clear_line() -> &'static str {
    &CLEAR
}

/// A text in a style.
pub fn paint(style: Style, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!(
        "{}{text}{}",
        style.render().to_string().replace("\x1b[", &SEAL),
        style.render_reset().to_string().replace("\x1b[", &SEAL)
    )
}

/// Prints to one destination.
pub struct TerminalPrinter<W: Write> {
    to: W,
    styles: StyleTreatment,
    /// True if people read it at once.
    is_live: bool,
    /// The beginning of a character of which the rest may come.
    begun: Vec<u8>,
}

impl<W: Write> TerminalPrinter<W> {
    /// Without colours, as for a file.
    pub fn plain(to: W) -> Self {
        Self {
            to,
            styles: StyleTreatment::Dropped,
            is_live: false,
            begun: Vec::new(),
        }
    }

    /// As for a terminal.
    pub fn live(to: W) -> Self {
        Self {
            to,
            styles: StyleTreatment::Kept,
            is_live: true,
            begun: Vec::new(),
        }
    }

    /// Prints text for people, at once.
    pub fn print_text(&mut self, text: &str) -> io::Result<()> {
        let mut seen = String::with_capacity(text.len());
        self.end_partial_character(&mut seen);
        write_visible(
            &mut seen,
            text,
            &SEAL,
            (self.styles, WhitespaceTreatment::Kept),
        );
        self.to.write_all(seen.as_bytes())?;
        self.to.flush()
    }

    /// Prints data, at once: exactly, unless people read it.
    pub fn print_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_live {
            let mut seen = String::with_capacity(bytes.len());
            self.append_visible(bytes, &mut seen);
            self.to.write_all(seen.as_bytes())?;
        } else {
            self.to
                .write_all(&visible_text::without_sealed(bytes, SEAL.as_bytes()))?;
        }
        self.to.flush()
    }

    /// Appends data in the form that people may see.
    fn append_visible(&mut self, bytes: &[u8], seen: &mut String) {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let text = chunk.valid().replace("\r\n", "\n");
            write_visible(seen, &text, &SEAL, (self.styles, WhitespaceTreatment::Kept));
            let invalid = chunk.invalid();
            let is_begun = std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
            if is_begun && chunks.peek().is_none() {
                self.begun = invalid.to_vec();
            } else {
                visible_text::write_bytes(seen, invalid);
            }
        }
    }

    fn end_partial_character(&mut self, seen: &mut String) {
        visible_text::write_bytes(seen, &std::mem::take(&mut self.begun));
    }
}

impl<W: Write> Drop for TerminalPrinter<W> {
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            // No error can be reported any more.
            let _ = self.print_text("");
        }
    }
}

/// Standard output.
pub fn stdout() -> TerminalPrinter<Box<dyn Write + Send>> {
    let stdout = io::stdout();
    let choice = AutoStream::choice(&stdout);
    let is_live = stdout.is_terminal();
    printer_for(Box::new(stdout), choice, is_live)
}

/// Standard error, one printer for the whole process.
fn with_stderr(
    use_it: impl FnOnce(&mut TerminalPrinter<Box<dyn Write + Send>>) -> io::Result<()>,
) -> io::Result<()> {
    let mut held: MutexGuard<'_, _> = ERRORS.lock().unwrap_or_else(PoisonError::into_inner);
    let errors = held.get_or_insert_with(|| {
        let stderr = io::stderr();
        let choice = AutoStream::choice(&stderr);
        let is_live = stderr.is_terminal();
        printer_for(Box::new(stderr), choice, is_live)
    });
    use_it(errors)
}

fn printer_for(
    to: Box<dyn Write + Send>,
    choice: ColorChoice,
    is_live: bool,
) -> TerminalPrinter<Box<dyn Write + Send>> {
    let styles = if choice == ColorChoice::Never {
        StyleTreatment::Dropped
    } else {
        StyleTreatment::Kept
    };
    TerminalPrinter {
        to,
        styles,
        is_live,
        begun: Vec::new(),
    }
}

/// Prints text on standard error, at once. A failure cannot be reported anywhere.
pub fn print_error(text: &str) {
    let _ = with_stderr(|errors| errors.print_text(text));
}

/// Prints data on standard error, at once.
///
/// # Errors
/// The data cannot be written.
pub fn print_error_bytes(bytes: &[u8]) -> io::Result<()> {
    with_stderr(|errors| errors.print_bytes(bytes))
}

/// Returns true if people read standard output.
pub fn has_live_output() -> bool {
    io::stdout().is_terminal()
}

/// Returns true if people read standard error.
pub fn has_live_errors() -> bool {
    io::stderr().is_terminal()
}

/// A text without our colours.
pub fn without_styles(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    write_visible(
        &mut seen,
        text,
        &SEAL,
        (StyleTreatment::Dropped, WhitespaceTreatment::Kept),
    );
    seen
}

/// A cell of a table: one line, with our colours and nobody else's.
pub fn table_cell(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    write_visible(
        &mut seen,
        text,
        &SEAL,
        (StyleTreatment::Sealed, WhitespaceTreatment::Spelt),
    );
    seen
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;

    use super::*;

    fn printed(live: bool, print: impl FnOnce(&mut TerminalPrinter<&mut Vec<u8>>)) -> String {
        let mut to = Vec::new();
        let mut printer = if live {
            TerminalPrinter::live(&mut to)
        } else {
            TerminalPrinter::plain(&mut to)
        };
        print(&mut printer);
        drop(printer);
        String::from_utf8_lossy(&to).into_owned()
    }

    #[test]
    fn our_colours_are_told_from_the_same_bytes_in_a_name() {
        let red = paint(AnsiColor::Red.on_default(), "failed \x1b[32mwell\x1b[0m");
        let live = printed(true, |printer| printer.print_text(&red).unwrap());
        assert_eq!(live, "\x1b[31mfailed \\u{1b}[32mwell\\u{1b}[0m\x1b[0m");
        let filed = printed(false, |printer| printer.print_text(&red).unwrap());
        assert_eq!(filed, "failed \\u{1b}[32mwell\\u{1b}[0m");
        let line = format!("{}at work", clear_line());
        assert_eq!(
            printed(true, |printer| printer.print_text(&line).unwrap()),
            "\x1b[G\x1b[2Kat work"
        );
    }

    #[test]
    fn nothing_hidden_is_printed_for_people() {
        let hostile =
            "a\u{7}\u{8}\r\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}\u{e0041}b";
        for live in [true, false] {
            let text = printed(live, |printer| printer.print_text(hostile).unwrap());
            assert!(!text.contains(is_hidden), "{text:?}");
            assert!(
                text.contains("\\u{202e}") && text.contains("\\u{9b}2J"),
                "{text}"
            );
        }
        let data = printed(true, |printer| {
            printer.print_bytes(hostile.as_bytes()).unwrap()
        });
        assert!(!data.contains(is_hidden), "{data:?}");
    }

    #[test]
    fn lines_tabs_and_letters_of_all_scripts_stay_as_they_are() {
        let text = "Grüße\t日本語 e\u{301}\u{1f600}\nשלום\n";
        assert_eq!(
            printed(true, |printer| printer.print_text(text).unwrap()),
            text
        );
        assert_eq!(
            printed(true, |printer| printer
                .print_bytes(text.as_bytes())
                .unwrap()),
            text
        );
    }

    #[test]
    fn data_are_exact_unless_people_look_at_them() {
        let data = b"\x1b[31m\xff\xfe\r\n\xe2\x80\xae";
        let mut to = Vec::new();
        TerminalPrinter::plain(&mut to).print_bytes(data).unwrap();
        assert_eq!(to, data);
        let label = paint(Style::new().dimmed(), "a | ").into_bytes();
        let mut to = Vec::new();
        TerminalPrinter::plain(&mut to)
            .print_bytes(&[&label, &data[..]].concat())
            .unwrap();
        assert_eq!(
            to,
            [b"a | ", &data[..]].concat(),
            "but our colours are dropped"
        );
        let live = printed(true, |printer| printer.print_bytes(data).unwrap());
        assert_eq!(live, "\\u{1b}[31m\\xff\\xfe\n\\u{202e}");
    }

    #[test]
    fn a_character_that_comes_in_pieces_is_whole_and_one_without_its_end_is_spelt() {
        let live = printed(true, |printer| {
            for piece in [
                "é".as_bytes(),
                &[0xe2, 0x80],
                &[0xae],
                &[0xe2],
                b"x",
                &[0xc3],
            ] {
                printer.print_bytes(piece).unwrap();
            }
            printer.print_text("end").unwrap();
        });
        assert_eq!(live, "é\\u{202e}\\xe2x\\xc3end");
    }

    #[test]
    fn a_cell_is_one_line_with_our_colours() {
        let text = table_cell(&paint(Style::new().bold(), "a\n8\tfinished\x1b[1m"));
        assert_eq!(without_styles(&text), "a\\n8\\tfinished\\u{1b}[1m");
        let live = printed(true, |printer| printer.print_text(&text).unwrap());
        assert!(
            live.starts_with("\x1b[1ma") && live.ends_with("\x1b[0m"),
            "{live:?}"
        );
    }
}
