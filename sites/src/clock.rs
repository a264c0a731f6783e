//! The machine's clock, and a steady one without the steps in which somebody sets it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cospan_domain::units::Timestamp;
use tracing::warn;

/// Returns what the machine's clock shows.
pub fn machine_time() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Milliseconds since some moment.
type ClockSource = Box<dyn Fn() -> i64 + Send + Sync>;

/// The machine's clock without the steps in which somebody sets it: deadlines go on as if it had
/// not been set, until the next start. Small corrections are followed.
pub struct SteadyClock {
    system: ClockSource,
    steady: ClockSource,
    followed: Mutex<SteadyClockState>,
}

#[derive(Debug, Clone, Copy)]
struct SteadyClockState {
    /// Added to the steady reading, it gives what is shown.
    offset_ms: i64,
    /// The sum of the steps that were left out.
    absorbed_ms: i64,
    read_at: i64,
}

impl SteadyClock {
    /// A larger difference, in ms, is a step, apart from a correction of one part in a
    /// thousand between two readings.
    const STEP_MS: i64 = 1_000;

    /// Returns the clock of this process: all whose times are compared must share it.
    pub fn of_process() -> Arc<Self> {
        static MACHINE: OnceLock<Arc<SteadyClock>> = OnceLock::new();
        MACHINE
            .get_or_init(|| {
                let begun = Instant::now();
                let clock = Self::new(
                    Box::new(|| i64::try_from(machine_time().0).unwrap_or(i64::MAX)),
                    Box::new(move || {
                        i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX)
                    }),
                );
                Arc::new(clock)
            })
            .clone()
    }

    /// Follows the corrections of `system`, and takes lengths from `steady`.
    pub fn new(system: ClockSource, steady: ClockSource) -> Self {
        let read_at = steady();
        let followed = SteadyClockState {
            offset_ms: system() - read_at,
            absorbed_ms: 0,
            read_at,
        };
        Self {
            system,
            steady,
            followed: Mutex::new(followed),
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        let system = (self.system)();
        let steady = (self.steady)();
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let difference = system - steady - followed.absorbed_ms - followed.offset_ms;
        let elapsed = steady - followed.read_at;
        followed.read_at = steady;
        if difference.abs() <= Self::STEP_MS + elapsed / 1_000 {
            followed.offset_ms += difference;
        } else {
            followed.absorbed_ms += difference;
            warn!(
                by_ms = difference,
                "this machine's clock was set; deadlines go on without it"
            );
        }
        Timestamp(u64::try_from(steady + followed.offset_ms).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn a_step_is_passed_over_and_a_correction_is_followed() {
        let system = Arc::new(AtomicI64::new(1_000_000));
        let steady = Arc::new(AtomicI64::new(0));
        let read = |from: &Arc<AtomicI64>| -> ClockSource {
            let from = from.clone();
            Box::new(move || from.load(Ordering::Relaxed))
        };
        let clock = SteadyClock::new(read(&system), read(&steady));
        let pass = |real: i64, shown: i64| {
            steady.fetch_add(real, Ordering::Relaxed);
            system.fetch_add(shown, Ordering::Relaxed);
            clock.now().0
        };
        assert_eq!(pass(500, 500), 1_000_500);
        assert_eq!(pass(1_000, 1_000 + 3_600_000), 1_001_500, "an hour forward");
        assert_eq!(
            pass(1_000, 1_020),
            1_002_520,
            "20 ms of correction after that"
        );
        assert_eq!(pass(1_000, 1_000 - 7_200_000), 1_003_520, "two hours back");
        assert_eq!(
            pass(10_000_000, 10_005_000),
            11_008_520,
            "five seconds within three hours"
        );
    }
}
