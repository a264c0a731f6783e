//! The stream of committed changes.

use std::io::Read;
use std::time::Duration;

use super::query::QueryBuilder;
use super::{Client, ClientError, SseReader};
use cospan_api::v1::event::ChangeReport;

impl Client {
    /// Opens the stream of committed changes from now on, of one job or of all. A silence longer
    /// than `silence` breaks it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn stream_changes(
        &self,
        job: Option<u64>,
        silence: Duration,
    ) -> Result<ChangeStream, ClientError> {
        let request = self
            .build_request(
                "GET",
                &QueryBuilder::from_path("/v1/events")
                    .with_optional_parameter("job", job)
                    .0,
            )
            .header("accept", "text/event-stream");
        let request = request
            .body(())
            .map_err(|error| self.unexpected_answer_error(error.to_string()))?;
        let request = self
            .agent
            .configure_request(request)
            .timeout_per_read(Some(silence))
            .build();
        let response = self
            .run_request(request)
            .map_err(|error| self.unreachable_error(&error))?;
        if !response.status().is_success() {
            return Err(self.read_refusal(response));
        }
        let body = response
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader();
        Ok(ChangeStream {
            events: SseReader::new(Box::new(body)),
        })
    }
}

/// A stream of committed changes. After a break the client must read everything again, so no
/// position is kept.
pub struct ChangeStream {
    events: SseReader<Box<dyn Read>>,
}

/// An event of a stream of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// Something happened to a job.
    Change(Box<ChangeReport>),
    /// Changes were missed: read everything again.
    Resync,
}

impl ChangeStream {
    /// Returns the next change; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection broke, was silent for too long, or sends nonsense.
    pub fn next_change(&mut self) -> std::io::Result<Option<StreamEvent>> {
        while let Some(event) = self.events.next_event()? {
            match event.name.as_str() {
                "job" => {
                    let change =
                        serde_json::from_str(&event.data).map_err(std::io::Error::other)?;
                    return Ok(Some(StreamEvent::Change(Box::new(change))));
                }
                "resync" => return Ok(Some(StreamEvent::Resync)),
                // Later servers may send more kinds of events.
                _ => {}
            }
        }
        Ok(None)
    }
}
