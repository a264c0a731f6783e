//! What could be got of a site lately. What is idle there need not be ours: others go first, or
//! an account has all that it may have.
//!
//! After a wait for that, only what is smaller or shorter is claimed there for a while, and that
//! is all: nothing is predicted. Learned anew after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PartitionAccount;
use crate::units::{DurationMs, Timestamp};

/// So long a wait counts after it was last seen.
const HEEDED: DurationMs = DurationMs::from_secs(600);
/// So long a start counts as one of lately.
const LATELY: DurationMs = DurationMs::from_secs(3_600);
/// The most waits that are kept of one lane: those that end last.
const WAITS_MAX: usize = 16;

/// What is asked of a lane: that it is as small in one way makes no smaller what is larger in
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionDemand {
    /// Processors.
    pub processors: u32,
    /// For how long, in whole minutes as resource managers count.
    pub time: DurationMs,
}

/// A wait for others, or for a limit of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// What was asked.
    pub ask: PartitionDemand,
    /// When.
    pub asked_at: Timestamp,
    /// What the site said that it waited for.
    pub why: Arc<str>,
    /// Only what is smaller or shorter is claimed before this.
    pub until: Timestamp,
}

/// What started at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Got {
    /// What was asked.
    pub ask: PartitionDemand,
    /// When it started.
    pub at: Timestamp,
}

/// What is known of one lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Experience {
    /// The largest of lately: most processors, of equals the longest.
    pub got: Option<Got>,
    /// None of them as large, as long and over no later than another.
    pub waits: Vec<Waited>,
}

/// What could be got of a site, by lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Obtainable(BTreeMap<PartitionAccount, Experience>);

impl PartitionDemand {
    /// Processors for a wall time.
    pub fn new(processors: u32, wall_time: DurationMs) -> Self {
        let minutes = wall_time.0.div_ceil(60_000);
        Self {
            processors,
            time: DurationMs(minutes.saturating_mul(60_000)),
        }
    }

    /// Whether it is as large and as long as another.
    pub fn covers(&self, other: &PartitionDemand) -> bool {
        self.processors >= other.processors && self.time >= other.time
    }
}

impl Obtainable {
    /// What was asked then started at once.
    pub fn started(
        &mut self,
        lane: PartitionAccount,
        ask: PartitionDemand,
        asked_at: Timestamp,
        at: Timestamp,
    ) {
        let known = self.0.entry(lane).or_default();
        // Who waited before that would not have to now.
        known
            .waits
            .retain(|wait| !ask.covers(&wait.ask) || wait.until > asked_at + HEEDED);
        let size = |ask: &PartitionDemand| (ask.processors, ask.time);
        if known
            .got
            .is_none_or(|got: Got| at.since(got.at) >= LATELY || size(&ask) >= size(&got.ask))
        {
            known.got = Some(Got { ask, at });
        }
    }

    /// What was asked then started after a wait. That wait counts, from now on, for as long again
    /// as it lasted: what is asked next may wait so long too, and hardly longer.
    pub fn started_late(
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
            .filter(|wait: &&mut Waited| ask.covers(&wait.ask) && wait.asked_at <= asked_at)
        {
            wait.until = wait.until.min(at + at.since(asked_at));
        }
    }

    /// What was asked then was seen to wait at `seen_at`.
    pub fn waited(
        &mut self,
        lane: PartitionAccount,
        ask: PartitionDemand,
        why: &Arc<str>,
        asked_at: Timestamp,
        seen_at: Timestamp,
    ) {
        let wait = Waited {
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

    /// Forgets what does not count any more; tells whether a wait was among it.
    pub fn forget(&mut self, now: Timestamp) -> bool {
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

    /// A wait because of which this is not asked for now: of several the one that counts longest.
    pub fn in_the_way(&self, lane: &PartitionAccount, ask: &PartitionDemand) -> Option<&Waited> {
        let waits = &self.0.get(lane)?.waits;
        waits
            .iter()
            .filter(|wait| ask.covers(&wait.ask))
            .max_by_key(|wait| wait.until)
    }

    /// The most processors that may be asked for so long; `None`: any number.
    pub fn most(&self, lane: &PartitionAccount, time: DurationMs) -> Option<u32> {
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

    /// Whether anything is not asked for until later.
    pub fn has_waits(&self) -> bool {
        self.0.values().any(|known| !known.waits.is_empty())
    }

    /// When the next wait, or the largest start of a lane, counts no more.
    pub fn next_end(&self) -> Option<Timestamp> {
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

    /// By lane.
    pub fn lanes(&self) -> impl Iterator<Item = (&PartitionAccount, &Experience)> {
        self.0.iter()
    }
}

#[cfg(test)]
#[path = "obtainable_tests.rs"]
mod tests;
