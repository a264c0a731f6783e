//! Measures whether this machine keeps time: a scenario in real time proves nothing while the
//! machine stands still.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

/// Time between two measurements.
const BEAT: Duration = Duration::from_millis(100);

/// A measurement of the delay of a sleep followed by what every step of a scenario needs: starting
/// a process and writing to the disk. Many steps that are a little late add up to one that is very
/// late.
pub(super) struct Steadiness {
    began: Instant,
    /// End of the latest stall that mattered, in milliseconds after `began`; 0 for none.
    stalled_at_ms: AtomicU64,
    stop: AtomicBool,
}

impl Steadiness {
    /// The part of the margins of a second and a half that may be lost.
    const STALL: Duration = Duration::from_millis(500);

    pub(super) fn new() -> Self {
        let stalled_at_ms = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        Self {
            began: Instant::now(),
            stalled_at_ms,
            stop,
        }
    }

    /// Measures until it is stopped.
    ///
    /// # Errors
    /// Nothing can be written in `base`, or no process started.
    pub(super) fn watch_stalls(&self, base: &Path) -> Result<()> {
        std::fs::create_dir_all(base)?;
        let mut file: File = tempfile::tempfile_in(base)?;
        let mut lost = Duration::ZERO;
        while !self.stop.load(Ordering::Relaxed) {
            let asleep = Instant::now();
            std::thread::sleep(BEAT);
            Command::new("/bin/true").status()?;
            file.rewind()?;
            file.write_all(b"beat")?;
            file.sync_data()?;
            // A delay a second ago counts for a third, two seconds ago for a ninth.
            lost = lost * 9 / 10 + asleep.elapsed().saturating_sub(BEAT);
            if lost > Self::STALL {
                self.stalled_at_ms
                    .store(to_ms(self.began.elapsed()), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns true if the machine stood still at any time after this moment.
    pub(super) fn stalled_since(&self, moment: Instant) -> bool {
        let moment = to_ms(moment.duration_since(self.began));
        self.stalled_at_ms.load(Ordering::Relaxed) > moment
    }
}

fn to_ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
