//! The clock of a world. Time passes only while the runtime is idle, so one reading serves
//! everybody until the next idle moment; actors ask for the time very often.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use cospan_actors::clock::{Clock, RuntimeClock};
use cospan_domain::units::Timestamp;

thread_local! {
    static RESTS: Cell<u64> = const { Cell::new(1) };
}

/// Records that the runtime of this thread was idle. Must be called after every such moment.
pub fn count_runtime_rest() {
    RESTS.set(RESTS.get() + 1);
}

/// A clock for the runtime of one thread. The runtime must report every idle moment through
/// [`count_runtime_rest`], and nobody sets the time forward.
#[derive(Debug)]
pub(super) struct WorldClock {
    runtime: RuntimeClock,
    /// Number of the idle moment after which the clock was last read; 0: never.
    read: AtomicU64,
    shown_ms: AtomicU64,
}

impl WorldClock {
    /// Makes a clock that shows `begins` now.
    pub(super) fn starting_at(begins: Timestamp) -> Self {
        let runtime = RuntimeClock::starting_at(begins);
        Self {
            runtime,
            read: AtomicU64::new(0),
            shown_ms: AtomicU64::new(0),
        }
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        let rests = RESTS.get();
        if self.read.load(Ordering::Relaxed) != rests {
            self.shown_ms.store(self.runtime.now().0, Ordering::Relaxed);
            self.read.store(rests, Ordering::Relaxed);
        }
        Timestamp(self.shown_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::control_plane_run::build_runtime;

    #[test]
    fn it_always_shows_what_the_runtime_does() {
        build_runtime().block_on(async {
            let clock = WorldClock::starting_at(Timestamp(1_000));
            let plain = RuntimeClock::starting_at(Timestamp(1_000));
            for pause in [0, 1, 5, 1_000, 86_400_000, 0, 3] {
                assert_eq!(clock.now(), plain.now());
                tokio::task::yield_now().await;
                assert_eq!(clock.now(), plain.now());
                tokio::time::sleep(Duration::from_millis(pause)).await;
                assert_eq!(clock.now(), plain.now());
            }
            assert_eq!(clock.now(), Timestamp(1_000 + 86_401_009));
        });
    }
}
