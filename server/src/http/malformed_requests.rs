//! Connections that are given up because they carried no valid request. The HTTP layer logs a line
//! for each, with which anybody who can connect could fill a disk; they are counted instead.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The HTTP layer, by its own name.
const SPEAKER: &str = "actix_http::";
/// Text of its message about a connection that it gives up, and about a head without an end.
const GIVEN_UP: &str = "stream error: ";
const ENDLESS: &str = "MAX_BUFFER_SIZE ";
/// Text of its message about an answer that we broke off: the reason is logged elsewhere.
const BROKEN_OFF: &str = "Response payload stream error: ";

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Takes the number of such connections since the last call.
pub(super) fn take_count() -> u64 {
    COUNT.swap(0, Ordering::Relaxed)
}

/// Keeps such messages out of the log, and counts them.
#[derive(Debug, Default)]
pub struct MalformedRequestLayer;

impl<S: Subscriber> Layer<S> for MalformedRequestLayer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let about = event.metadata();
        if *about.level() != Level::ERROR || !about.target().starts_with(SPEAKER) {
            return true;
        }
        let mut message = MessageVisitor::default();
        event.record(&mut message);
        if message.0.starts_with(GIVEN_UP) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        ![GIVEN_UP, ENDLESS, BROKEN_OFF]
            .iter()
            .any(|said| message.0.starts_with(said))
    }
}

#[derive(Default)]
struct MessageVisitor(String);

impl Visit for MessageVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
