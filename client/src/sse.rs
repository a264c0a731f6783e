//! A reader of server-sent events.

use std::io::{BufRead, BufReader, Read};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// The name of the event; `message` if it has none.
    pub name: String,
    /// The data of the event, lines joined.
    pub data: String,
    /// The id of the event; a later stream continues after it.
    pub id: Option<String>,
}

/// A reader that splits bytes into events.
pub struct SseReader<R> {
    from: BufReader<R>,
}

/// Longest line; longer lines are not events of ours.
const MAX_LINE: u64 = 16 << 20;

impl<R: Read> SseReader<R> {
    /// Reads events from this source.
    pub fn new(from: R) -> Self {
        Self {
            from: BufReader::new(from),
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection broke, was silent for too long, or sends nonsense.
    pub fn next_event(&mut self) -> std::io::Result<Option<SseEvent>> {
        let mut event = SseEvent::default();
        let mut any = false;
        loop {
            let mut line = String::new();
            if self.from.by_ref().take(MAX_LINE).read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if any {
                    if event.name.is_empty() {
                        event.name = "message".into();
                    }
                    return Ok(Some(event));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => event.name = value.into(),
                "id" => event.id = Some(value.into()),
                "data" => {
                    if any {
                        event.data.push('\n');
                    }
                    event.data.push_str(value);
                    any = true;
                }
                // Comments keep the connection alive; other fields are not used.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Vec<SseEvent> {
        let mut reader = SseReader::new(text.as_bytes());
        std::iter::from_fn(|| reader.next_event().unwrap()).collect()
    }

    #[test]
    fn events_are_split_and_comments_passed_over() {
        let events = events(
            ": keep-alive\n\nid: 7\nevent: job\ndata: {\"a\":1}\n\ndata: x\ndata: y\r\n\r\n",
        );
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].name, "job");
        assert_eq!(events[0].id.as_deref(), Some("7"));
        assert_eq!(events[0].data, "{\"a\":1}");
        assert_eq!(
            (events[1].name.as_str(), events[1].data.as_str()),
            ("message", "x\ny")
        );
    }

    #[test]
    fn an_event_cut_off_by_the_end_is_dropped() {
        assert_eq!(events("event: job\ndata: half"), []);
    }
}
