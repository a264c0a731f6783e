//! Reservations and running jobs in Slurm, and so what is free later.
//!
//! This is a forecast: jobs end earlier than they say, and Slurm may not show those of others. When
//! we reserve by it, Slurm itself says whether it was right.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::reservation::{
    IdleDrop, ReservationTag, ResourceKindsError, TimeSpan, Timeline, list_idle_drops,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};

use super::hosts::parse_host_list;
use super::queue::{PartitionLoad, default_partition};
use crate::agent::SiteAgentAnswer;

/// The time for which nodes that are out of order are assumed to stay so.
const OUT_OF_ORDER: DurationMs = DurationMs::from_secs(86_400);

/// The flag that marks an unconfirmed reservation of ours: Slurm ends it if nobody uses it.
const UNCONFIRMED: &str = "PURGE_COMP";

/// A reservation of anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlurmReservation {
    pub(super) name: Arc<str>,
    pub(super) span: TimeSpan,
    /// The processors of its cores.
    pub(super) processors: u32,
    /// True if it does not end by itself before its time.
    pub(super) confirmed: bool,
    /// The partition, if the reservation names one.
    pub(super) partition: Option<Arc<str>>,
    nodes: Option<BTreeSet<String>>,
}

/// A job of anybody that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RunningSlurmJob {
    processors: u32,
    until: Option<Timestamp>,
    reservation: Option<Arc<str>>,
    nodes: Option<BTreeSet<String>>,
}

/// Nodes of a partition that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartitionNodes {
    partition: Arc<str>,
    is_default: bool,
    nodes: Option<BTreeSet<String>>,
    /// Threads of each of their cores.
    threads: u32,
}

/// Reservations and running jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlurmOccupancy {
    pub(super) reserved: Vec<SlurmReservation>,
    running: Vec<RunningSlurmJob>,
    members: Vec<PartitionNodes>,
}

/// Parses seconds since 1970; `None` if the time is not known.
fn parse_seconds(text: &str) -> Option<Timestamp> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: u64 = text.parse().ok().filter(|_| is_number)?;
    seconds.checked_mul(1_000).map(Timestamp)
}

fn parse_name(text: &str) -> Option<Arc<str>> {
    (!matches!(text, "" | "(null)" | "N/A")).then(|| text.into())
}

impl SlurmReservation {
    /// Parses a line of `scontrol -o show reservation`, with times in seconds. `None` if it does
    /// not say when, or how much.
    fn parse_reservation(line: &str) -> Option<Self> {
        let from = parse_seconds(booking_field(line, "StartTime")?)?;
        let to = parse_seconds(booking_field(line, "EndTime")?)?;
        let cores: u32 = booking_field(line, "CoreCnt")?.parse().ok()?;
        let tres = booking_field(line, "TRES").unwrap_or_default();
        let counted = tres
            .split(',')
            .find_map(|kind| kind.strip_prefix("cpu=")?.parse().ok());
        let flags = booking_field(line, "Flags")?;
        (from < to).then_some(())?;
        Some(Self {
            name: parse_name(booking_field(line, "ReservationName")?)?,
            span: TimeSpan::new(from, to),
            processors: counted.unwrap_or(cores),
            confirmed: !flags
                .split(',')
                .any(|flag: &str| flag == UNCONFIRMED || flag.starts_with("PURGE_COMP=")),
            partition: booking_field(line, "PartitionName").and_then(parse_name),
            nodes: parse_host_list(booking_field(line, "Nodes")?),
        })
    }

    /// Returns its length.
    pub(super) fn reserved_length(&self) -> DurationMs {
        self.span.to.since(self.span.from)
    }

    /// Returns true if its name is a tag of a control plane.
    pub(super) fn is_ours(&self) -> bool {
        self.tag().is_some()
    }

    pub(super) fn tag(&self) -> Option<ReservationTag> {
        self.name.parse().ok()
    }

    /// Returns true if it has begun, and not ended.
    fn is_active_at(&self, now: Timestamp) -> bool {
        self.span.from <= now && now < self.span.to
    }
}

fn booking_field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

impl RunningSlurmJob {
    /// Parses a line of `squeue`: processors, end, reservation, nodes.
    fn parse_running(line: &str) -> Option<Self> {
        let mut fields = line.splitn(4, '|');
        let processors = fields.next()?;
        let until = fields.next()?;
        let reservation = fields.next()?;
        let nodes = fields.next()?;
        Some(Self {
            processors: processors.parse().ok()?,
            until: parse_seconds(until),
            reservation: parse_name(reservation),
            nodes: parse_host_list(nodes),
        })
    }
}

/// Returns the share of these processors that lies on the other nodes, too;
/// all if that is not known.
fn share_on_nodes(
    processors: u32,
    nodes: &Option<BTreeSet<String>>,
    others: &Option<BTreeSet<String>>,
) -> u32 {
    let (Some(nodes), Some(others)) = (nodes, others) else {
        return processors;
    };
    if nodes.is_empty() {
        return 0;
    }
    let common = nodes.intersection(others).count() as u64;
    let part = (u64::from(processors) * common).div_ceil(nodes.len() as u64);
    u32::try_from(part).unwrap_or(processors)
}

impl SlurmOccupancy {
    /// Parses the lines of an answer. One that cannot be read is skipped: Slurm
    /// refuses what is not free.
    pub(super) fn from_answer(answer: &SiteAgentAnswer) -> Self {
        let members = answer.values_of("members").filter_map(|line| {
            let mut fields = line.splitn(3, '|');
            let name = fields.next()?;
            let threads = fields.next()?;
            let nodes = fields.next()?;
            let is_default = name.ends_with('*');
            let name = name.strip_suffix('*').unwrap_or(name);
            let partition = name.into();
            let threads = threads.parse().ok()?;
            Some(PartitionNodes {
                partition,
                is_default,
                nodes: parse_host_list(nodes),
                threads,
            })
        });
        Self {
            reserved: answer
                .values_of("reserved")
                .filter_map(SlurmReservation::parse_reservation)
                .collect(),
            running: answer
                .values_of("running")
                .filter_map(RunningSlurmJob::parse_running)
                .collect(),
            members: members.collect(),
        }
    }

    fn node_groups_of(
        &self,
        partition: Option<&str>,
    ) -> impl Iterator<Item = (&BTreeSet<String>, u32)> {
        let meant = self.members.iter().filter(move |members| match partition {
            Some(partition) => &*members.partition == partition,
            None => members.is_default,
        });
        meant.filter_map(|members| Some((members.nodes.as_ref()?, members.threads)))
    }

    fn nodes_of(&self, partition: Option<&str>) -> Option<BTreeSet<String>> {
        let nodes: BTreeSet<String> = self
            .node_groups_of(partition)
            .flat_map(|(nodes, _)| nodes)
            .cloned()
            .collect();
        (!nodes.is_empty()).then_some(nodes)
    }

    /// Returns the fewest processors that a core of a partition has.
    pub(super) fn processors_per_core(&self, partition: Option<&str>) -> u32 {
        self.node_groups_of(partition)
            .map(|(_, threads)| threads)
            .min()
            .unwrap_or(1)
            .max(1)
    }

    pub(super) fn find_reservation(&self, name: &str) -> Option<&SlurmReservation> {
        self.reserved.iter().find(|booked| &*booked.name == name)
    }

    /// Returns the processors of jobs that run in a reservation.
    fn used_in_reservation(&self, name: &str) -> u32 {
        let inside = self
            .running
            .iter()
            .filter(|job| job.reservation.as_deref() == Some(name));
        inside
            .map(|job| job.processors)
            .fold(0, u32::saturating_add)
    }

    /// Returns the idle processors of a reservation: none before it begins.
    pub(super) fn idle_in_reservation(&self, name: &str, now: Timestamp) -> u32 {
        let on = self
            .find_reservation(name)
            .filter(|booked| booked.is_active_at(now));
        on.map_or(0, |booked| {
            booked
                .processors
                .saturating_sub(self.used_in_reservation(name))
        })
    }

    /// Returns the idle processors of a partition that are kept for those who reserved them.
    pub(super) fn reserved_idle(&self, partition: Option<&str>, now: Timestamp) -> u32 {
        let nodes = self.nodes_of(partition);
        self.reserved
            .iter()
            .map(|booked: &SlurmReservation| {
                share_on_nodes(
                    self.idle_in_reservation(&booked.name, now),
                    &booked.nodes,
                    &nodes,
                )
            })
            .fold(0, u32::saturating_add)
    }

    /// Forecasts what is free of a partition from now on; `total` has all other kinds of resources.
    pub(super) fn forecast_timeline(
        &self,
        partition: Option<&str>,
        load: PartitionLoad,
        total: &Resources,
        now: Timestamp,
    ) -> Result<Timeline, ResourceKindsError> {
        let capacity = Resources {
            processors: load.whole,
            ..total.clone()
        };
        let mut timeline = Timeline::new(now, &capacity)?;
        let nodes = self.nodes_of(partition);
        take_processors(
            &mut timeline,
            TimeSpan::new(now, now + OUT_OF_ORDER),
            load.whole.saturating_sub(load.total),
        )?;
        for booked in &self.reserved {
            let span = TimeSpan::new(booked.span.from.max(now), booked.span.to);
            let processors = share_on_nodes(booked.processors, &booked.nodes, &nodes);
            take_processors(&mut timeline, span, processors)?;
        }
        for job in self
            .running
            .iter()
            .filter(|job| !self.runs_in_active_reservation(job, now))
        {
            // A job that is overdue may end any moment.
            let until = job.until.unwrap_or(now + OUT_OF_ORDER).max(now);
            let processors = share_on_nodes(job.processors, &job.nodes, &nodes);
            take_processors(&mut timeline, TimeSpan::new(now, until), processors)?;
        }
        Ok(timeline)
    }

    /// Returns true if a job runs on processors that are counted as reserved.
    fn runs_in_active_reservation(&self, job: &RunningSlurmJob, now: Timestamp) -> bool {
        let inside = job
            .reservation
            .as_deref()
            .and_then(|name| self.find_reservation(name));
        inside.is_some_and(|booked| booked.is_active_at(now))
    }

    /// Returns the times at which idle resources of a partition drop, if anybody reserved anything.
    pub(super) fn idle_drops(
        &self,
        partition: Option<&str>,
        load: PartitionLoad,
        idle: &Resources,
        now: Timestamp,
    ) -> Vec<IdleDrop> {
        if self.reserved.is_empty() {
            return Vec::new();
        }
        // With more than eight kinds of resources nothing is said about later.
        let timeline = self.forecast_timeline(partition, load, idle, now);
        timeline
            .map(|timeline| list_idle_drops(&timeline, idle, now))
            .unwrap_or_default()
    }
}

fn take_processors(
    timeline: &mut Timeline,
    span: TimeSpan,
    processors: u32,
) -> Result<(), ResourceKindsError> {
    let amounts = timeline.to_amounts(&Resources::processors(processors))?;
    timeline.book(span, &amounts);
    Ok(())
}

/// Returns the name of the partition to reserve in.
pub(super) fn reserving_partition<'a>(
    answer: &'a SiteAgentAnswer,
    own: Option<&'a str>,
) -> Option<&'a str> {
    own.or_else(|| default_partition(answer.values_of("load")))
}
