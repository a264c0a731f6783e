//! Prints answers: columns for people, JSON or YAML for programs.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use tabwriter::TabWriter;

use super::args::OutputFormat;
use cospan_printing::terminal::{self, TerminalPrinter, paint, table_cell};

/// The output for answers.
pub(crate) struct AnswerPrinter {
    format: OutputFormat,
    to: TerminalPrinter<Box<dyn Write + Send>>,
}

impl AnswerPrinter {
    /// Prints to standard output.
    pub(crate) fn stdout(format: OutputFormat) -> Self {
        Self {
            format,
            to: terminal::stdout(),
        }
    }

    /// Prints to `to`, without colours.
    #[cfg(test)]
    pub(crate) fn to_writer(format: OutputFormat, to: Box<dyn Write + Send>) -> Self {
        Self {
            format,
            to: TerminalPrinter::plain(to),
        }
    }

    /// Returns the format of answers.
    pub(crate) fn format(&self) -> OutputFormat {
        self.format
    }

    /// Prints an answer; `text` formats it for people.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn print_answer<T: Serialize>(
        &mut self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> io::Result<()> {
        let text = match self.format {
            OutputFormat::Table => text(value),
            OutputFormat::Json => {
                terminal::visible_json(&serde_json::to_string_pretty(value)?).into_owned() + "\n"
            }
            OutputFormat::Yaml => to_yaml(value)?,
        };
        self.print_text(&text)
    }

    /// Prints a text for people.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn print_text(&mut self, text: &str) -> io::Result<()> {
        self.to.print_text(text)
    }

    /// Prints data at once: unchanged, unless people look at it.
    ///
    /// # Errors
    ///
    /// The data cannot be written.
    pub(crate) fn print_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.print_bytes(bytes)
    }
}

/// Formats YAML. A text in which YAML would leave something hidden is written as in JSON, which is
/// valid YAML.
fn to_yaml(value: &impl Serialize) -> io::Result<String> {
    let text = serde_saphyr::to_string(value).map_err(io::Error::other)?;
    let text = if text.contains(|c| c != '\n' && terminal::is_hidden(c)) {
        terminal::visible_yaml(&serde_json::to_string_pretty(value)?).into_owned()
    } else {
        text
    };
    Ok(if text.ends_with('\n') {
        text
    } else {
        text + "\n"
    })
}

/// Prints a note for the user beside the answer.
pub(crate) fn print_note(text: &str) {
    terminal::print_error(&format!("{text}\n"));
}

/// Formats rows of cells as columns below a heading.
pub(crate) fn format_columns(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut writer = TabWriter::new(Vec::new()).padding(2).ansi(true);
    let heading: Vec<String> = heading.iter().map(|text| bold(text)).collect();
    let lines = std::iter::once(&heading).chain(rows);
    // Writing to memory cannot fail.
    for line in lines {
        let cells: Vec<String> = line.iter().map(|text| table_cell(text)).collect();
        let _ = writeln!(writer, "{}", cells.join("\t"));
    }
    let text = writer
        .into_inner()
        .map(String::from_utf8)
        .map(Result::unwrap_or_default);
    let text = text.unwrap_or_default();
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Formats names and values, one below the other.
pub(crate) fn format_name_values(fields: &[(&str, String)]) -> String {
    let mut writer = TabWriter::new(Vec::new()).padding(2).ansi(true);
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(writer, "{}\t{}", bold(name), table_cell(value));
    }
    let text = writer
        .into_inner()
        .map(String::from_utf8)
        .map(Result::unwrap_or_default);
    text.unwrap_or_default()
}

/// Makes a text fit on one line, even if it contains texts of others.
pub(crate) fn single_line(text: &str) -> String {
    table_cell(text) + "\n"
}

/// Formats headings and names.
pub(crate) fn bold(text: &str) -> String {
    paint(Style::new().bold(), text)
}

/// Formats what matters less.
pub(crate) fn dim(text: &str) -> String {
    paint(Style::new().dimmed(), text)
}

/// Formats a state of a job, component or site in the colour of its meaning.
pub(crate) fn color_state(text: &str) -> String {
    let colour = match text {
        "finished" | "succeeded" | "usable" => AnsiColor::Green,
        "running" | "starting" | "collecting" | "opened" => AnsiColor::Cyan,
        "failed" | "lost" | "unusable" | "abandoned" | "credentials-expired" => AnsiColor::Red,
        "cancelled" | "killed" | "aborting" | "probing" | "draining" | "drained" | "frozen"
        | "maintenance" | "silent" | "unreachable" | "uncertain" | "held" | "unknown" => {
            AnsiColor::Yellow
        }
        _ => return text.into(),
    };
    paint(colour.on_default(), text)
}

/// Returns the word before an error message.
pub(crate) fn error_word() -> String {
    paint(AnsiColor::Red.on_default().bold(), "error")
}

/// Returns the word before a warning.
pub(crate) fn warning_word() -> String {
    paint(AnsiColor::Yellow.on_default().bold(), "warning")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printed(format: OutputFormat) -> String {
        #[derive(Serialize)]
        struct PrintedRow {
            id: u64,
            state: &'static str,
        }
        let shared = SharedBuffer::default();
        let rows = [
            PrintedRow {
                id: 7,
                state: "running",
            },
            PrintedRow {
                id: 11,
                state: "queued",
            },
        ];
        AnswerPrinter::to_writer(format, Box::new(shared.clone()))
            .print_answer(&rows, |rows| {
                let cells = rows
                    .iter()
                    .map(|row| vec![row.id.to_string(), color_state(row.state)]);
                format_columns(&["ID", "STATE"], &cells.collect::<Vec<_>>())
            })
            .unwrap();
        let bytes = shared.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_same_answer_is_printed_in_three_forms() {
        assert_eq!(
            printed(OutputFormat::Table),
            "ID  STATE\n7   running\n11  queued\n"
        );
        let json: serde_json::Value = serde_json::from_str(&printed(OutputFormat::Json)).unwrap();
        assert_eq!(json[1]["state"], "queued");
        assert_eq!(
            printed(OutputFormat::Yaml),
            "- id: 7\n  state: running\n- id: 11\n  state: queued\n"
        );
    }

    #[test]
    fn a_name_makes_no_row_and_no_column_of_its_own() {
        let rows = vec![vec!["7".into(), "a\n8\tfinished\u{202e}".into()]];
        let text = terminal::without_styles(&format_columns(&["ID", "NAME"], &rows));
        assert_eq!(text, "ID  NAME\n7   a\\n8\\tfinished\\u{202e}\n");
        let text = format_name_values(&[("Name", "a\nState  finished".into())]);
        assert_eq!(text.lines().count(), 1, "{text}");
        let text =
            terminal::without_styles(&single_line(&format!("it is {}: a\njob 8", bold("held"))));
        assert_eq!(text, "it is held: a\\njob 8\n");
    }

    #[test]
    fn structured_answers_hide_nothing_and_are_exact() {
        let name = "a\u{9b}2J\u{202e}\u{7f}\u{e0041}: \u{1b}[31m";
        let value = serde_json::json!({ "name": name, "id": 7 });
        for format in [OutputFormat::Json, OutputFormat::Yaml] {
            let shared = SharedBuffer::default();
            let mut out = AnswerPrinter::to_writer(format, Box::new(shared.clone()));
            out.print_answer(&value, |_| String::new()).unwrap();
            let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
            assert!(
                !text.contains(|c| c != '\n' && terminal::is_hidden(c)),
                "{text:?}"
            );
            let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, value);
        }
    }

    #[test]
    fn fields_without_a_value_are_left_out() {
        let text = format_name_values(&[("name", "wave".into()), ("policy", String::new())]);
        assert!(text.contains("wave") && !text.contains("policy"), "{text}");
    }
}
