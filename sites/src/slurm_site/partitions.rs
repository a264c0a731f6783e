//! The partitions of a cluster, and reservations of its administrators, in which jobs may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::acquisition::{Partition, PartitionAccount, SitePartitions};
use cospan_domain::units::DurationMs;

use super::occupancy::{SlurmOccupancy, reserving_partition};
use super::{SlurmSite, nodes, queue, times};
use crate::agent::SiteAgentAnswer;
use crate::clock;
use crate::port::{AttemptSubmitRequest, SiteError};

impl SlurmSite {
    /// Returns the partition for jobs that name none, and how long jobs may run in each.
    pub(super) fn read_partitions(&self, answer: &SiteAgentAnswer) -> SitePartitions {
        let config = &self.config;
        let own_partition = reserving_partition(answer, config.partition.as_deref());
        let reservation = config
            .reservation
            .as_deref()
            .map(PartitionAccount::reservation_partition_name);
        let own = PartitionAccount {
            partition: reservation.or_else(|| own_partition.map(Arc::from)),
            account: config.account.as_deref().map(Arc::from),
        };
        let mut times = times::default_times(answer.values_of("load"));
        let longest = times::longest_times(answer.values_of("load"));
        let loads = queue::loads_by_partition(|| answer.values_of("load")).into_iter();
        let mut partitions: BTreeMap<Arc<str>, Partition> = loads
            .map(|(name, load): (Arc<str>, queue::PartitionLoad)| {
                let partition =
                    self.make_partition(answer, &name, load.whole, longest.get(&name).copied());
                (name, partition)
            })
            .collect();
        for booked in SlurmOccupancy::from_answer(answer)
            .reserved
            .iter()
            .filter(|one| !one.is_ours())
        {
            let Some(within) = booked.partition.as_deref().or(own_partition) else {
                continue;
            };
            let name = PartitionAccount::reservation_partition_name(&booked.name);
            let time = limit_length(booked.reserved_length(), times.get(within));
            times.insert(name.clone(), time);
            let longest = Some(limit_length(booked.reserved_length(), longest.get(within)));
            partitions.insert(
                name,
                self.make_partition(answer, within, booked.processors, longest),
            );
        }
        SitePartitions {
            own,
            times,
            partitions,
            smallest_nodes: nodes::smallest_nodes(answer),
        }
    }

    /// Checks that a reservation that an attempt names lasts for it, as far as is known.
    pub(super) fn check_reservation_lasts(
        &self,
        lane: &PartitionAccount,
        order: &AttemptSubmitRequest,
    ) -> Result<(), SiteError> {
        let named = lane
            .partition
            .as_deref()
            .and_then(PartitionAccount::reservation_in_partition_name);
        let Some(name) = named.filter(|_| order.reservation.is_none()) else {
            return Ok(());
        };
        match self
            .lock_reports()
            .reservation_time_left(name, clock::machine_time())
        {
            Some(left) if left < order.wall_time => Err(SiteError::Unfit(format!(
                "only {left} are left of reservation {name}, and its wall time is {}",
                order.wall_time
            ))),
            _ => Ok(()),
        }
    }

    fn make_partition(
        &self,
        answer: &SiteAgentAnswer,
        name: &str,
        processors: u32,
        longest: Option<DurationMs>,
    ) -> Partition {
        let mut total = self.partition_total(&nodes::partition_amounts(answer, Some(name)));
        total.processors = total.processors.min(processors);
        Partition { total, longest }
    }
}

fn limit_length(length: DurationMs, longest: Option<&DurationMs>) -> DurationMs {
    longest.map_or(length, |longest| length.min(*longest))
}
