//! The last answers of Slurm.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::{DurationMs, Timestamp};
use tokio::time::Instant;

use super::accounts::SlurmAccountingCache;
use super::attempt_numbers::AttemptNumbers;
use super::occupancy::SlurmOccupancy;
use super::queue::{PartitionLoad, SlurmJob};
use super::signs_of_life::SignsOfLife;
use crate::agent::site_time::SiteClockState;
use crate::attempt_end::BatchJobState;
use crate::port::BatchSystemSilence;

/// The latest reports of Slurm.
#[derive(Debug, Default)]
pub(super) struct LatestSlurmReports {
    pub(super) queue: Option<(Instant, Vec<SlurmJob>)>,
    /// The load of its nodes, and how many processors our attempts had then.
    pub(super) load: Option<(Instant, PartitionLoad, u32)>,
    /// The load of each partition.
    pub(super) loads: BTreeMap<Arc<str>, PartitionLoad>,
    /// All reservations at that time.
    pub(super) bookings: SlurmOccupancy,
    /// The time when it last gave no answer, and why; `None` once it answers again.
    pub(super) silent: Option<(Instant, String)>,
    /// The clock of the site.
    pub(super) time: SiteClockState,
    /// The time since when the recorded end of an attempt has been seen.
    pub(super) exited: BTreeMap<AttemptTag, Instant>,
    /// The accounts of jobs that Slurm forgot.
    pub(super) accounts: SlurmAccountingCache,
    /// The numbers that Slurm gave to attempts.
    pub(super) numbers: AttemptNumbers,
    /// The signs that wrappers give of themselves.
    pub(super) signs_of_life: SignsOfLife,
}

impl LatestSlurmReports {
    /// Returns true if its report on these attempts is still good enough.
    pub(super) fn is_recent_for(&self, tags: &[AttemptTag], memory: Duration) -> bool {
        let is_fresh = self
            .queue
            .as_ref()
            .is_some_and(|(at, _)| at.elapsed() < memory);
        is_fresh
            && tags.iter().all(|tag: &AttemptTag| {
                let mut of_it = self
                    .known_jobs()
                    .iter()
                    .filter(|job| job.tag == *tag)
                    .peekable();
                of_it.peek().is_some()
                    && of_it.all(|job| {
                        matches!(job.word, BatchJobState::Waiting | BatchJobState::Running)
                    })
            })
    }

    /// Returns why it has no answer, if it had none a moment ago.
    pub(super) fn recent_silence(&self, memory: Duration) -> Option<String> {
        let (at, why) = self.silent.as_ref()?;
        (at.elapsed() < memory).then(|| why.clone())
    }

    /// Describes its silence, for this reason.
    pub(super) fn describe_silence(&self, why: String) -> BatchSystemSilence {
        let age = self.queue.as_ref().map(|(at, _)| at.elapsed());
        BatchSystemSilence {
            age: age.map(|age: Duration| {
                DurationMs(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
            }),
            why,
        }
    }

    pub(super) fn knows_load(&self, memory: Duration) -> bool {
        self.load.is_some_and(|(at, ..)| at.elapsed() < memory)
    }

    /// Returns how much is left of a reservation, if it is known.
    pub(super) fn reservation_time_left(
        &self,
        reservation: &str,
        now: Timestamp,
    ) -> Option<DurationMs> {
        let span = self.bookings.find_reservation(reservation)?.span;
        Some(span.to.since(span.from.max(now)))
    }

    pub(super) fn known_jobs(&self) -> &[SlurmJob] {
        self.queue.as_ref().map_or(&[], |(_, jobs)| jobs)
    }

    /// Returns the processors that our attempts took since its nodes were last looked at.
    pub(super) fn processors_taken_since(&self) -> u32 {
        let then = self.load.map_or(0, |(_, _, ours)| ours);
        used_processors(self.known_jobs()).saturating_sub(then)
    }

    /// Estimates the load now: we know what our attempts took and freed since its
    /// nodes were last looked at.
    pub(super) fn estimate_load(&self) -> PartitionLoad {
        let Some((_, load, ours)) = self.load else {
            return PartitionLoad::default();
        };
        let idle = load
            .idle
            .saturating_add(ours)
            .saturating_sub(used_processors(self.known_jobs()));
        PartitionLoad {
            idle: idle.min(load.total),
            ..load
        }
    }
}

/// Returns the processors that attempts use.
pub(super) fn used_processors(jobs: &[SlurmJob]) -> u32 {
    jobs.iter()
        .filter(|job: &&SlurmJob| job.is_active() && !job.word.is_in_queue())
        .map(|job| job.processors)
        .fold(0, u32::saturating_add)
}
