//! Experience of what we could get at a site lately. Idle processors need not be ours: other jobs
//! go first, or the account has reached its limit.
//!
//! After such a wait we claim only smaller or shorter work there for a while. Nothing is predicted,
//! and a restart forgets everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PartitionAccount;
use crate::units::{DurationMs, Timestamp};

/// A wait counts for this long after it was last seen.
const HEEDED: DurationMs = DurationMs::from_secs(600);
/// A start counts as recent for this long.
const LATELY: DurationMs = DurationMs::from_secs(3_600);
/// The most waits kept for one partition: those that end last.
const WAITS_MAX: usize = 16;

/// The size of a request. Requests are ordered partially: one that needs fewer processors but more
/// time is not the smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionDemand {
    pub processors: u32,
    /// Wall time, in whole minutes as batch systems count.
    pub time: DurationMs,
}

/// A wait for other jobs, or for a limit of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionWait {
    /// The request that waited.
    pub ask: PartitionDemand,
    pub asked_at: Timestamp,
    /// The reason that the site gave.
    pub why: Arc<str>,
    /// Until then only smaller or shorter work is claimed.
    pub until: Timestamp,
}

/// A request that started at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImmediateStart {
    pub ask: PartitionDemand,
    /// The time of its start.
    pub at: Timestamp,
}

/// The experience with one partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionExperience {
    /// The largest recent start: by processors, then by time.
    pub got: Option<ImmediateStart>,
    /// Waits, none of which covers another and ends no later than that.
    pub waits: Vec<PartitionWait>,
}

/// The experience with a site, by partition and account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteExperience(BTreeMap<PartitionAccount, PartitionExperience>);

impl PartitionDemand {
    /// Makes a request, with the wall time rounded up to minutes.
    pub fn new(processors: u32, wall_time: DurationMs) -> Self {
        let minutes = wall_time.0.div_ceil(60_000);
        Self {
            processors,
            time: DurationMs(minutes.saturating_mul(60_000)),
        }
    }

    /// Returns true if this request is as large and as long as the other.
    pub fn covers(&self, other: &PartitionDemand) -> bool {
        self.processors >= other.processors && self.time >= other.time
    }
}

impl SiteExperience {
    /// Records a request, made at `asked_at`, that started at once.
    pub fn record_start(
        &mut self,
        lane: PartitionAccount,
        ask: PartitionDemand,
        asked_at: Timestamp,
        at: Timestamp,
    ) {
        let known = self.0.entry(lane).or_default();
        // Requests that waited before would not have to now.
        known
            .waits
            .retain(|wait| !ask.covers(&wait.ask) || wait.until > asked_at + HEEDED);
        if known.got.is_none_or(|got: ImmediateStart| {
            at.since(got.at) >= LATELY
                || (ask.processors, ask.time) >= (got.ask.processors, got.ask.time)
        }) {
            known.got = Some(ImmediateStart { ask, at });
        }
    }

    /// Records a request that started after a wait. From now on the wait counts for as long again
    /// as it lasted: the next request may wait as long, and hardly longer.
    pub fn record_late_start(
        &mut self,
        lane: &PartitionAccount,
        ask: PartitionDemand,
        asked_at: Timestamp,
        at: Timestamp,
    ) {
        let Some(known) = self.0.get_mut(lane) else {
            return;
        };
        for wait in known
            .waits
            .iter_mut()
            .filter(|wait: &&mut PartitionWait| ask.covers(&wait.ask) && wait.asked_at <= asked_at)
        {
            wait.until = wait.until.min(at + at.since(asked_at));
        }
    }

    /// Records a request, made at `asked_at`, that was seen to wait at `seen_at`.
    pub fn record_wait(
        &mut self,
        lane: PartitionAccount,
        ask: PartitionDemand,
        why: &Arc<str>,
        asked_at: Timestamp,
        seen_at: Timestamp,
    ) {
        let wait = PartitionWait {
            ask,
            asked_at,
            why: why.clone(),
            until: seen_at + HEEDED,
        };
        let waits = &mut self.0.entry(lane).or_default().waits;
        if waits
            .iter()
            .any(|other| ask.covers(&other.ask) && other.until >= wait.until)
        {
            return;
        }
        waits.retain(|other| !other.ask.covers(&ask) || other.until > wait.until);
        waits.push(wait);
        if waits.len() > WAITS_MAX {
            waits.sort_by_key(|wait| std::cmp::Reverse(wait.until));
            waits.truncate(WAITS_MAX);
        }
    }

    /// Forgets what no longer counts; returns true if that ended a wait.
    pub fn forget_expired(&mut self, now: Timestamp) -> bool {
        let mut ended = false;
        self.0.retain(|_, known| {
            let before = known.waits.len();
            known.waits.retain(|wait| wait.until > now);
            ended |= known.waits.len() < before;
            known.got = known.got.filter(|got| now.since(got.at) < LATELY);
            known.got.is_some() || !known.waits.is_empty()
        });
        ended
    }

    /// Returns the wait that keeps us from asking now; of several the one that counts longest.
    pub fn blocking_wait(
        &self,
        lane: &PartitionAccount,
        ask: &PartitionDemand,
    ) -> Option<&PartitionWait> {
        let waits = &self.0.get(lane)?.waits;
        waits
            .iter()
            .filter(|wait| ask.covers(&wait.ask))
            .max_by_key(|wait| wait.until)
    }

    /// Returns the most processors that may be asked for with this time; `None`: any number.
    pub fn max_processors(&self, lane: &PartitionAccount, time: DurationMs) -> Option<u32> {
        let shorter = self
            .0
            .get(lane)?
            .waits
            .iter()
            .filter(|wait| wait.ask.time <= time);
        shorter
            .map(|wait| wait.ask.processors.saturating_sub(1))
            .min()
    }

    /// Returns true if any request is put off because of a wait.
    pub fn has_waits(&self) -> bool {
        self.0.values().any(|known| !known.waits.is_empty())
    }

    /// Returns when the next wait, or largest start, stops counting.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let waits = self
            .0
            .values()
            .flat_map(|known| &known.waits)
            .map(|wait| wait.until);
        let got = self
            .0
            .values()
            .filter_map(|known| known.got)
            .map(|got| got.at + LATELY);
        waits.chain(got).min()
    }

    /// Lists the experience by partition and account.
    pub fn list_experience(
        &self,
    ) -> impl Iterator<Item = (&PartitionAccount, &PartitionExperience)> {
        self.0.iter()
    }
}

#[cfg(test)]
#[path = "partition_experience_tests.rs"]
mod tests;
