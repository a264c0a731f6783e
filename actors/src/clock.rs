//! The one source of time: UTC milliseconds, read once per message.

use cospan_domain::units::{DurationMs, Timestamp};
pub use cospan_sites::clock::SteadyClock;
use tokio::time::Instant;

/// Tells the time. Deadlines are stored as UTC; timers are hints to look again.
pub trait Clock: Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        cospan_sites::clock::machine_time()
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        SteadyClock::now(self)
    }
}

/// A clock that follows the runtime's timers, which tests and simulations pause
/// and advance.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeClock {
    origin: Instant,
    begins_at: Timestamp,
}

impl RuntimeClock {
    /// Makes a clock that shows `begins_at` now.
    pub fn starting_at(begins_at: Timestamp) -> Self {
        Self {
            origin: Instant::now(),
            begins_at,
        }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let ms = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.begins_at + DurationMs(ms)
    }
}
