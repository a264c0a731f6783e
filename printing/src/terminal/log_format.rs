//! The log as people and programs read it: text of others hides nothing in it, and begins no line
//! that looks like one of ours.

use std::fmt;
use std::io;

use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

use super::{is_hidden, visible_json};

/// The usual fields, spelt so that all of them is visible.
#[derive(Debug, Default)]
pub struct VisibleFields(DefaultFields);

impl<'writer> FormatFields<'writer> for VisibleFields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut text = String::new();
        self.0.format_fields(Writer::new(&mut text), fields)?;
        writer.write_str(&indent_entry(&text))
    }
}

/// Indents further lines.
fn indent_entry(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => seen.push_str("\n    "),
            '\t' => seen.push('\t'),
            c if is_hidden(c) => seen.extend(c.escape_unicode()),
            c => seen.push(c),
        }
    }
    seen
}

/// Standard error for entries in JSON, each written at once.
#[derive(Debug)]
pub struct JsonLogWriter<W>(pub W);

impl<W: io::Write> io::Write for JsonLogWriter<W> {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.0
            .write_all(visible_json(&String::from_utf8_lossy(entry)).as_bytes())?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const HOSTILE: &str = "a\u{1b}[31m\u{9b}\u{202e}\n2026-01-01T00:00:00Z  INFO all is well";

    #[derive(Clone, Default)]
    struct CapturedLog(Arc<Mutex<Vec<u8>>>);

    impl io::Write for CapturedLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl CapturedLog {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn an_entry_hides_nothing_and_forges_no_other() {
        let kept = CapturedLog::default();
        let to = kept.clone();
        let lines = fmt::layer()
            .with_ansi(false)
            .fmt_fields(VisibleFields::default());
        let lines = lines.with_writer(move || to.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::warn!(job = HOSTILE, name = %HOSTILE, "{HOSTILE}");
        });
        let text = kept.text();
        assert!(!text.contains(|c| c != '\n' && is_hidden(c)), "{text:?}");
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("2026-01-01"))
                .count(),
            0,
            "{text}"
        );
        assert!(text.contains("\\u{202e}"), "{text}");
    }

    #[test]
    fn an_entry_in_json_hides_nothing_and_is_exact() {
        let kept = CapturedLog::default();
        let to = kept.clone();
        let lines = fmt::layer().json().flatten_event(true);
        let lines = lines.with_writer(move || JsonLogWriter(to.clone()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::warn!(name = HOSTILE, "told");
        });
        let text = kept.text();
        assert!(!text.contains(|c| c != '\n' && is_hidden(c)), "{text:?}");
        let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(entry["name"], HOSTILE);
    }
}
