//! Max-min fair rates by progressive filling.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::units::BitsPerSecond;

use super::FlowId;

/// Thousandths of a bit per second.
pub(super) type FlowRate = u128;

/// Thousandths in a bit per second.
pub(super) const MILLI: u128 = 1000;

/// Index of a channel.
pub(super) type ChannelIndex = usize;

/// A capacity that flows share: a link, an up-link or a down-link.
#[derive(Debug, Clone)]
pub(super) struct SharedChannel {
    pub(super) capacity: FlowRate,
    pub(super) flows: BTreeSet<FlowId>,
}

/// A flow as seen by the sharing.
#[derive(Debug, Clone)]
pub(super) struct SharingFlow {
    pub(super) crosses: Vec<ChannelIndex>,
    pub(super) limit: Option<FlowRate>,
}

/// Converts a bandwidth to a rate.
pub(super) fn to_rate(bandwidth: BitsPerSecond) -> FlowRate {
    u128::from(bandwidth.0) * MILLI
}

/// Converts a rate to a bandwidth, rounded down.
pub(super) fn to_bandwidth(rate: FlowRate) -> BitsPerSecond {
    BitsPerSecond(u64::try_from(rate / MILLI).unwrap_or(u64::MAX))
}

/// The rest of a channel while it is filled.
#[derive(Debug, Clone, Copy)]
struct ChannelRest {
    capacity: FlowRate,
    flows: u128,
}

impl ChannelRest {
    /// Returns an equal share for each flow, if there are flows left.
    fn equal_share(&self) -> Option<FlowRate> {
        self.capacity.checked_div(self.flows)
    }
}

/// Computes the rates of all flows that cross a channel of `changed`, or share a channel with one
/// that does, and so on.
///
/// All rates rise together until a channel is full or a limit is reached. The flows that are held
/// back there keep their rate, the others rise on.
pub(super) fn fair_rates(
    channels: &[SharedChannel],
    sharers: &BTreeMap<FlowId, SharingFlow>,
    changed: &[ChannelIndex],
) -> Vec<(FlowId, FlowRate)> {
    let together = connected_channels(channels, sharers, changed);
    let mut rests: BTreeMap<ChannelIndex, ChannelRest> = BTreeMap::new();
    for channel in &together {
        let SharedChannel { capacity, flows } = &channels[*channel];
        let rest = ChannelRest {
            capacity: *capacity,
            flows: flows.len() as u128,
        };
        rests.insert(*channel, rest);
    }
    let flows = together
        .iter()
        .flat_map(|channel| &channels[*channel].flows);
    let mut rising: BTreeSet<FlowId> = flows.copied().collect();
    let limits = rising
        .iter()
        .filter_map(|id| Some((sharers.get(id)?.limit?, *id)));
    let mut limits: BTreeSet<(FlowRate, FlowId)> = limits.collect();
    let shares = rests
        .iter()
        .filter_map(|(channel, rest)| Some((rest.equal_share()?, *channel)));
    let mut shares: BTreeSet<(FlowRate, ChannelIndex)> = shares.collect();
    let mut rates = Vec::with_capacity(rising.len());
    while !rising.is_empty() {
        let Some((share, fullest)) = shares.first().copied() else {
            break;
        };
        let limited = limits.first().copied().filter(|(limit, _)| *limit <= share);
        let (held, rate): (Vec<FlowId>, FlowRate) = match limited {
            Some((limit, id)) => (vec![id], limit),
            None => (
                channels[fullest]
                    .flows
                    .intersection(&rising)
                    .copied()
                    .collect(),
                share,
            ),
        };
        for id in held {
            rising.remove(&id);
            rates.push((id, rate));
            let Some(sharer) = sharers.get(&id) else {
                continue;
            };
            if let Some(limit) = sharer.limit {
                limits.remove(&(limit, id));
            }
            for channel in &sharer.crosses {
                if let Some(rest) = rests.get_mut(channel) {
                    rest.equal_share()
                        .map(|share| shares.remove(&(share, *channel)));
                    rest.capacity -= rate;
                    rest.flows -= 1;
                    shares.extend(rest.equal_share().map(|share| (share, *channel)));
                }
            }
        }
    }
    rates
}

/// Finds the channels that are connected with `changed` through flows.
fn connected_channels(
    channels: &[SharedChannel],
    sharers: &BTreeMap<FlowId, SharingFlow>,
    changed: &[ChannelIndex],
) -> BTreeSet<ChannelIndex> {
    let mut found: BTreeSet<ChannelIndex> = changed.iter().copied().collect();
    let mut seen: BTreeSet<FlowId> = BTreeSet::new();
    let mut open = changed.to_vec();
    while let Some(channel) = open.pop() {
        for id in &channels[channel].flows {
            if seen.insert(*id) {
                let crosses = sharers.get(id).map(|sharer| sharer.crosses.as_slice());
                open.extend(
                    crosses
                        .unwrap_or_default()
                        .iter()
                        .filter(|at| found.insert(**at)),
                );
            }
        }
    }
    found
}
