//! Bandwidth shared by all copies over one link.
//!
//! Copies over a link are processes that do not know each other, so the link's budget is a small
//! file that they take turns to advance: the instant up to which its bandwidth is given away.
//! Whoever wants to move bytes moves that instant on by the time they take, and waits until it has
//! come. Together they keep to the limit, however many they are, and each gets its turn. A budget
//! that lay idle is worth [`BURST_NS`] and no more.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use cospan_domain::units::BitsPerSecond;
use rustix::time::{ClockId, clock_gettime};

use super::process_identity::boot_id;

/// The most that a link that was idle, or late, may catch up, in ns.
const BURST_NS: u64 = 50_000_000;
/// Bytes moved at once take about this long on the link, in ns.
const QUANTUM_NS: u64 = 50_000_000;
/// The longest wait for the turn; whoever has it that long is stopped or gone.
const TURN_MAX: Duration = Duration::from_secs(2);

/// A share in a link's budget.
#[derive(Debug)]
pub(super) struct BandwidthLimiter {
    budget: File,
    limit: BitsPerSecond,
    boot: String,
}

impl BandwidthLimiter {
    /// Takes part in the budget kept in a file.
    pub(super) fn new(budget: File, limit: BitsPerSecond) -> io::Result<Self> {
        Ok(Self {
            budget,
            limit,
            boot: boot_id()?,
        })
    }

    /// Returns how many bytes to move at a time, at most `max`.
    pub(super) fn quantum_bytes(&self, max: usize) -> usize {
        let bytes = u128::from(self.limit.0) * u128::from(QUANTUM_NS) / 8_000_000_000;
        usize::try_from(bytes)
            .unwrap_or(max)
            .clamp(512.min(max), max)
    }

    /// Takes bytes out of the budget; they may move after the returned wait.
    pub(super) fn take_bytes(&self, bytes: usize) -> io::Result<Duration> {
        let cost_ns = cost_ns(bytes, self.limit);
        if !self.wait_for_turn()? {
            return Ok(Duration::from_nanos(cost_ns));
        }
        let now_ns = now_ns();
        let given_away_ns = advance_budget(self.read_budget(), now_ns, cost_ns);
        let written = self.write_budget(given_away_ns);
        self.budget.unlock()?;
        written?;
        Ok(Duration::from_nanos(given_away_ns.saturating_sub(now_ns)))
    }

    fn wait_for_turn(&self) -> io::Result<bool> {
        let started = Instant::now();
        loop {
            match self.budget.try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if started.elapsed() > TURN_MAX => return Ok(false),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    /// Reads what was given away; 0 if the file is new, damaged or from before the last boot.
    fn read_budget(&self) -> u64 {
        let mut bytes = [0; 128];
        let length = self.budget.read_at(&mut bytes, 0).unwrap_or(0);
        bytes
            .get(..length)
            .and_then(|bytes| self.parse_instant(bytes))
            .unwrap_or(0)
    }

    fn parse_instant(&self, bytes: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (instant, rest) = text.split_once(' ')?;
        (rest.trim_end() == self.boot).then_some(instant.parse().ok()?)
    }

    fn write_budget(&self, given_away_ns: u64) -> io::Result<()> {
        self.budget
            .write_all_at(format!("{given_away_ns:020} {}\n", self.boot).as_bytes(), 0)
    }
}

/// Computes the instant up to which the bandwidth is given away after one more request.
fn advance_budget(given_away_ns: u64, now_ns: u64, cost_ns: u64) -> u64 {
    given_away_ns
        .max(now_ns.saturating_sub(BURST_NS))
        .saturating_add(cost_ns)
}

fn cost_ns(bytes: usize, limit: BitsPerSecond) -> u64 {
    let exact = (bytes as u128) * 8_000_000_000;
    u64::try_from(exact.div_ceil(u128::from(limit.0.max(1)))).unwrap_or(u64::MAX)
}

/// Reads a clock that all processes of this machine share and nobody sets.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whoever asks, however much and whenever: over any window the bytes
        /// let through are at most its length plus one burst, in time of the link.
        #[test]
        fn no_window_carries_more_than_the_limit_and_one_burst(
            requests in proptest::collection::vec((0_u64..200_000_000, 1_u64..80_000_000), 1..60)
        ) {
            let mut now = 1_000_000_000;
            let mut given_away = 0;
            let mut passed = Vec::new();
            for (pause, cost) in requests {
                now += pause;
                given_away = advance_budget(given_away, now, cost);
                passed.push((given_away.max(now), cost));
            }
            for first in 0..passed.len() {
                let mut carried = 0;
                for (at, cost) in &passed[first..] {
                    carried += cost;
                    // The first request of a window was paid for before it began.
                    let window = at - passed[first].0 + passed[first].1;
                    prop_assert!(carried <= window + BURST_NS, "{carried} in {window}");
                }
            }
        }
    }

    #[test]
    fn budget_from_another_boot_or_damaged_counts_as_unused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("budget");
        for content in [
            "",
            "99999999999999999999 other\n",
            "\0\0\0",
            "18446744073709551615",
        ] {
            std::fs::write(&path, content).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let limiter = BandwidthLimiter::new(file, BitsPerSecond(8_000_000)).unwrap();
            assert!(
                limiter.take_bytes(1000).unwrap() <= Duration::from_millis(1),
                "{content:?}"
            );
        }
    }

    #[test]
    fn a_slow_link_is_asked_for_little_at_a_time() {
        let quantum = |bits| {
            let limiter = BandwidthLimiter {
                budget: tempfile::tempfile().unwrap(),
                limit: bits,
                boot: "x".into(),
            };
            limiter.quantum_bytes(1 << 20)
        };
        assert_eq!(quantum(BitsPerSecond(8_000_000)), 50_000);
        assert_eq!(quantum(BitsPerSecond(1)), 512);
        assert_eq!(quantum(BitsPerSecond(u64::MAX)), 1 << 20);
    }
}
