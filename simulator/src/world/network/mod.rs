//! Concurrent transfers between sites that share links fairly.
//!
//! Rates are max-min fair, by progressive filling (D. Bertsekas and R.
//! Gallager, *Data Networks*, 2nd ed., section 6.5.2): a flow gets less than
//! another on the same link only if it is held back elsewhere. A flow crosses
//! its link, the up-link of the site that it leaves and the down-link of the
//! site that it enters. Rates change only when flows start or end and when
//! capacities change, and only for flows that share something with the change,
//! directly or through others.
//!
//! *Latency.* A flow has its share from its start on, and its bytes move from one latency later;
//! alone it takes latency + 8 x bytes / capacity.
//!
//! *Arithmetic.* Whole numbers throughout: rates in thousandths of a bit per second, rounded down,
//! and the rest to send in millionths of a bit. So nothing drifts, and a flow with a rate always
//! finishes. Ends are rounded up to the millisecond. Capacities from 1 bit/s on can be shared by
//! 1000 flows.
//!
//! Pure and deterministic: time is an argument; time that goes backwards is taken to stand still.
//! Deliberately absent: loss, TCP's slow start, routing.

mod fairness;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cospan_domain::ids::SiteName;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};
use thiserror::Error;

use fairness::{ChannelIndex, FlowRate, MILLI, SharedChannel, SharingFlow};

/// Work is counted in rate times milliseconds: this many make a byte.
const WORK_PER_BYTE: u128 = 8 * MILLI * 1000;

/// A transfer's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlowId(pub u64);

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reason why nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// No link was added between these sites in this direction.
    #[error("there is no link from {from} to {to}; add it first")]
    NoLink {
        /// Start of the missing link.
        from: SiteName,
        /// End of the missing link.
        to: SiteName,
    },
    /// A flow with this number is under way or not yet fetched as completed.
    #[error("flow {id} is already under way; use a new number")]
    AlreadyKnown {
        /// The flow.
        id: FlowId,
    },
}

#[derive(Debug, Clone)]
struct SimulatedLink {
    channel: ChannelIndex,
    latency: DurationMs,
}

#[derive(Debug, Clone)]
struct NetworkFlow {
    bytes: Bytes,
    /// Time at which bytes begin to move.
    begins: Timestamp,
    /// Work left at `since`.
    left: u128,
    since: Timestamp,
    rate: FlowRate,
}

impl NetworkFlow {
    fn left_at(&self, now: Timestamp) -> u128 {
        let moving = now.since(self.since.max(self.begins));
        self.left
            .saturating_sub(self.rate.saturating_mul(u128::from(moving.0)))
    }

    /// Returns when it completes at its present rate; `None` if it stands still.
    fn completion_time(&self) -> Option<Timestamp> {
        let from = self.since.max(self.begins);
        match self.left {
            0 => Some(from),
            _ if self.rate == 0 => None,
            left => {
                let ms = u64::try_from(left.div_ceil(self.rate)).unwrap_or(u64::MAX);
                Some(from + DurationMs(ms))
            }
        }
    }

    fn bytes_done_at(&self, now: Timestamp) -> Bytes {
        let missing = self.left_at(now).div_ceil(WORK_PER_BYTE);
        Bytes(
            self.bytes
                .0
                .saturating_sub(u64::try_from(missing).unwrap_or(u64::MAX)),
        )
    }
}

/// Links between sites and the flows over them.
#[derive(Debug, Clone, Default)]
pub struct SimulatedNetwork {
    links: BTreeMap<(SiteName, SiteName), SimulatedLink>,
    up_links: BTreeMap<SiteName, ChannelIndex>,
    down_links: BTreeMap<SiteName, ChannelIndex>,
    channels: Vec<SharedChannel>,
    sharers: BTreeMap<FlowId, SharingFlow>,
    flows: BTreeMap<FlowId, NetworkFlow>,
    ends: BTreeSet<(Timestamp, FlowId)>,
    /// Completed and not yet fetched, in order of completion.
    completed: Vec<(FlowId, Bytes)>,
    latest: Timestamp,
}

impl SimulatedNetwork {
    /// Makes a network without links and flows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a link in one direction, or changes latency and capacity of a known one from `now` on;
    /// flows under way keep their latency.
    pub fn set_link(
        &mut self,
        from: &SiteName,
        to: &SiteName,
        capacity: BitsPerSecond,
        latency: DurationMs,
        now: Timestamp,
    ) {
        self.advance_to(now);
        let key = (from.clone(), to.clone());
        if let Some(link) = self.links.get_mut(&key) {
            link.latency = latency;
            let channel = link.channel;
            self.set_channel_capacity(channel, capacity, now);
        } else {
            let channel = self.add_channel(capacity);
            self.links.insert(key, SimulatedLink { channel, latency });
        }
    }

    /// Changes the capacity of a link from `now` on; 0 cuts it, and its flows wait.
    ///
    /// # Errors
    /// Fails if there is no such link.
    pub fn set_capacity(
        &mut self,
        from: &SiteName,
        to: &SiteName,
        capacity: BitsPerSecond,
        now: Timestamp,
    ) -> Result<(), NetworkError> {
        let channel = self.find_link(from, to)?.channel;
        self.set_channel_capacity(channel, capacity, now);
        Ok(())
    }

    /// Limits what leaves a site over all links together. The first limit of a site holds for flows
    /// that start afterwards; later calls change it for all.
    pub fn set_up_link(&mut self, site: &SiteName, capacity: BitsPerSecond, now: Timestamp) {
        self.advance_to(now);
        match self.up_links.get(site).copied() {
            Some(channel) => self.set_channel_capacity(channel, capacity, now),
            None => {
                let channel = self.add_channel(capacity);
                self.up_links.insert(site.clone(), channel);
            }
        }
    }

    /// Limits what enters a site, as [`SimulatedNetwork::set_up_link`] does for what leaves.
    pub fn set_down_link(&mut self, site: &SiteName, capacity: BitsPerSecond, now: Timestamp) {
        self.advance_to(now);
        match self.down_links.get(site).copied() {
            Some(channel) => self.set_channel_capacity(channel, capacity, now),
            None => {
                let channel = self.add_channel(capacity);
                self.down_links.insert(site.clone(), channel);
            }
        }
    }

    /// Starts a transfer, at no more than `limit` if there is one.
    ///
    /// # Errors
    /// Fails if there is no such link, or the number is in use; nothing starts then.
    pub fn start_flow(
        &mut self,
        id: FlowId,
        from: &SiteName,
        to: &SiteName,
        bytes: Bytes,
        limit: Option<BitsPerSecond>,
        now: Timestamp,
    ) -> Result<(), NetworkError> {
        let now = self.advance_to(now);
        if self.flows.contains_key(&id) || self.completed.iter().any(|(known, _)| *known == id) {
            return Err(NetworkError::AlreadyKnown { id });
        }
        let link = self.find_link(from, to)?;
        let begins = now + link.latency;
        let site_links = [self.up_links.get(from), self.down_links.get(to)];
        let mut crosses = vec![link.channel];
        crosses.extend(site_links.into_iter().flatten());
        for channel in &crosses {
            self.channels[*channel].flows.insert(id);
        }
        let left = u128::from(bytes.0) * WORK_PER_BYTE;
        self.flows.insert(
            id,
            NetworkFlow {
                bytes,
                begins,
                left,
                since: now,
                rate: 0,
            },
        );
        let limit = limit.map(fairness::to_rate);
        self.sharers.insert(
            id,
            SharingFlow {
                crosses: crosses.clone(),
                limit,
            },
        );
        if left == 0 {
            self.ends.insert((begins, id));
        }
        self.share_channels(&crosses, now);
        Ok(())
    }

    /// Ends a transfer and returns the bytes that had arrived; `None` if it is unknown.
    pub fn stop_flow(&mut self, id: FlowId, now: Timestamp) -> Option<Bytes> {
        let now = self.advance_to(now);
        if let Some(at) = self.completed.iter().position(|(known, _)| *known == id) {
            return Some(self.completed.remove(at).1);
        }
        self.remove_flow(id, now)
            .map(|flow| flow.bytes_done_at(now))
    }

    /// Returns the bytes that have arrived by `now`; `None` if the flow is unknown.
    pub fn bytes_arrived(&mut self, id: FlowId, now: Timestamp) -> Option<Bytes> {
        let now = self.advance_to(now);
        let completed = self.completed.iter().find(|(known, _)| *known == id);
        completed
            .map(|(_, bytes)| *bytes)
            .or_else(|| Some(self.flows.get(&id)?.bytes_done_at(now)))
    }

    /// Returns the capacity of a link; `None` if there is none.
    pub fn link_capacity(&self, from: &SiteName, to: &SiteName) -> Option<BitsPerSecond> {
        let channel = self.find_link(from, to).ok()?.channel;
        Some(fairness::to_bandwidth(self.channels[channel].capacity))
    }

    /// Returns the time that the first bit takes over a link; `None` if there is none, or it is
    /// cut.
    pub fn link_latency(&self, from: &SiteName, to: &SiteName) -> Option<DurationMs> {
        self.link_capacity(from, to)
            .filter(|capacity| capacity.0 > 0)?;
        self.find_link(from, to).ok().map(|link| link.latency)
    }

    /// Returns the bandwidth that a flow has now, rounded down; `None` if it is unknown.
    pub fn flow_rate(&self, id: FlowId) -> Option<BitsPerSecond> {
        Some(fairness::to_bandwidth(self.flows.get(&id)?.rate))
    }

    /// Returns the number of transfers under way.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Returns when the next transfer completes if nothing changes before; `None` if none can.
    /// Valid until the next call that changes something.
    pub fn next_completion(&self) -> Option<(Timestamp, FlowId)> {
        let fetched_late = self.completed.first().map(|(id, _)| (self.latest, *id));
        fetched_late.or_else(|| self.ends.first().copied())
    }

    /// Returns the transfers that completed up to `now`, in order of completion and number; each is
    /// returned once.
    pub fn take_completed(&mut self, now: Timestamp) -> Vec<FlowId> {
        self.advance_to(now);
        std::mem::take(&mut self.completed)
            .into_iter()
            .map(|(id, _)| id)
            .collect()
    }

    fn find_link(&self, from: &SiteName, to: &SiteName) -> Result<&SimulatedLink, NetworkError> {
        let key = (from.clone(), to.clone());
        self.links.get(&key).ok_or(NetworkError::NoLink {
            from: key.0,
            to: key.1,
        })
    }

    fn add_channel(&mut self, capacity: BitsPerSecond) -> ChannelIndex {
        self.channels.push(SharedChannel {
            capacity: fairness::to_rate(capacity),
            flows: BTreeSet::new(),
        });
        self.channels.len() - 1
    }

    fn set_channel_capacity(
        &mut self,
        channel: ChannelIndex,
        capacity: BitsPerSecond,
        now: Timestamp,
    ) {
        let now = self.advance_to(now);
        self.channels[channel].capacity = fairness::to_rate(capacity);
        self.share_channels(&[channel], now);
    }

    /// Completes every flow that ends by `now`, one instant after another, and returns the time of
    /// the call.
    fn advance_to(&mut self, now: Timestamp) -> Timestamp {
        while let Some((end, id)) = self.ends.first().copied()
            && end <= now
        {
            self.latest = self.latest.max(end);
            if let Some(flow) = self.remove_flow(id, end) {
                self.completed.push((id, flow.bytes));
            }
        }
        self.latest = self.latest.max(now);
        self.latest
    }

    fn remove_flow(&mut self, id: FlowId, now: Timestamp) -> Option<NetworkFlow> {
        let flow = self.flows.remove(&id)?;
        if let Some(end) = flow.completion_time() {
            self.ends.remove(&(end, id));
        }
        let crosses = self
            .sharers
            .remove(&id)
            .map(|sharer| sharer.crosses)
            .unwrap_or_default();
        for channel in &crosses {
            self.channels[*channel].flows.remove(&id);
        }
        self.share_channels(&crosses, now);
        Some(flow)
    }

    /// Shares the capacity of these channels, and of all connected ones, again.
    fn share_channels(&mut self, changed: &[ChannelIndex], now: Timestamp) {
        for (id, rate) in fairness::fair_rates(&self.channels, &self.sharers, changed) {
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            if flow.rate == rate {
                continue;
            }
            if let Some(end) = flow.completion_time() {
                self.ends.remove(&(end, id));
            }
            flow.left = flow.left_at(now);
            flow.since = now;
            flow.rate = rate;
            if let Some(end) = flow.completion_time() {
                self.ends.insert((end, id));
            }
        }
    }
}
