//! Estimates the idle processors: Slurm's load of a while ago, and what we did since.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::acquisition::PartitionAccount;
use cospan_domain::reservation::IdleDrop;
use cospan_domain::resources::Resources;
use cospan_domain::units::Timestamp;

use super::SlurmSite;
use super::queue::SlurmJob;
use crate::attempt_end::BatchJobState;

impl SlurmSite {
    /// Returns what one more submission would find: what Slurm has idle, less what already waits
    /// for it, and never more than we may use.
    pub(super) fn idle_for_submission(&self, jobs: &[SlurmJob], now: Timestamp) -> Resources {
        let heard = self.lock_reports();
        let mut load = heard.estimate_load();
        let bookings = &heard.bookings;
        load.idle = match &self.config.reservation {
            Some(name) => bookings.idle_in_reservation(name, now),
            None => {
                let kept = bookings.reserved_idle(self.config.partition.as_deref(), now);
                load.idle.saturating_sub(kept)
            }
        };
        let mut idle = self.usable_total();
        let ours = idle
            .processors
            .min(load.total)
            .saturating_sub(sum_processors(jobs, takes_processors));
        let waiting = sum_processors(jobs, |job| job.word == BatchJobState::Waiting);
        let free = load.idle.saturating_sub(waiting);
        idle.processors = ours.min(free);
        idle
    }

    /// Returns the times at which idle resources drop, because others have reserved them.
    pub(super) fn idle_drops(&self, idle: &Resources, now: Timestamp) -> Vec<IdleDrop> {
        let heard = self.lock_reports();
        let Some((_, load, _)) = heard.load.filter(|_| self.config.reservation.is_none()) else {
            return Vec::new();
        };
        heard
            .bookings
            .idle_drops(self.config.partition.as_deref(), load, idle, now)
    }

    /// Returns the same of each partition. We do not know in which our jobs are: those that wait,
    /// or started since Slurm was asked, count in each.
    pub(super) fn idle_by_partition(
        &self,
        jobs: &[SlurmJob],
        now: Timestamp,
    ) -> BTreeMap<Arc<str>, Resources> {
        let waiting = jobs.iter().filter(|job| job.word == BatchJobState::Waiting);
        let waiting = waiting
            .map(|job| job.processors)
            .fold(0, u32::saturating_add);
        let lanes = self
            .lock_facts()
            .as_ref()
            .map(|facts| facts.lanes.clone())
            .unwrap_or_default();
        let heard = self.lock_reports();
        let ours = heard.processors_taken_since().saturating_add(waiting);
        let partitions = lanes
            .partitions
            .into_iter()
            .filter_map(|(name, partition)| {
                let bookings = &heard.bookings;
                let idle = match PartitionAccount::reservation_in_partition_name(&name) {
                    Some(reservation) => bookings.idle_in_reservation(reservation, now),
                    None => {
                        let kept = bookings.reserved_idle(Some(&*name), now);
                        heard.loads.get(&name)?.idle.saturating_sub(kept)
                    }
                };
                let free = idle.saturating_sub(ours);
                let processors = partition.total.processors.min(free);
                Some((
                    name,
                    Resources {
                        processors,
                        ..partition.total
                    },
                ))
            });
        partitions.collect()
    }
}

fn takes_processors(job: &SlurmJob) -> bool {
    job.is_active() && job.word != BatchJobState::NeverRuns
}

fn sum_processors(jobs: &[SlurmJob], wanted: fn(&SlurmJob) -> bool) -> u32 {
    let counted = jobs.iter().filter(|job| wanted(job));
    counted
        .map(|job| job.processors)
        .fold(0, u32::saturating_add)
}
