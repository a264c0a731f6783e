//! The network between sites, stored densely so that a policy can look at every pair.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::SiteName;
use crate::transfer::link_bandwidth::LinkBandwidths;
use crate::units::{BitsPerSecond, Bytes, DurationUs};

/// The default size of an exchange between two components.
pub const DEFAULT_MESSAGE: Bytes = Bytes(1_000_000);

/// Measured or configured bandwidth and latency of ordered pairs of sites. An unknown pair carries
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteNetwork {
    /// Sites with at least one link, by name.
    names: Vec<SiteName>,
    /// Row: from; column: to. As measured, else as configured.
    bandwidth: Vec<BitsPerSecond>,
    exchange: Vec<MessageTime>,
    /// The bandwidth at which the site of the row sends.
    upload: Vec<BitsPerSecond>,
    /// The sum of each row of `upload`.
    potential: Vec<BitsPerSecond>,
    /// Bandwidths and potentials as configured.
    nominal: Arc<[BitsPerSecond]>,
    nominal_potential: Arc<[BitsPerSecond]>,
    is_measured: Vec<bool>,
    /// The number of links that carry something; `unmeasured` counts those not measured.
    links: usize,
    unmeasured: usize,
    bids: BidBandwidthChoice,
    message: Bytes,
}

/// The choice of bandwidths by which sites bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BidBandwidthChoice {
    /// All of one kind: measured if every link is, else configured.
    #[default]
    OneKind,
    /// The latest known bandwidth of each link.
    Latest,
}

/// The kind of the bandwidths of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandwidthKind {
    /// Measured by transfers, on every link.
    Measured,
    /// Configured, on every link.
    Nominal,
    /// Measured on some links, configured on the others.
    Mixed,
}

impl BandwidthKind {
    /// Returns the kind in words.
    pub fn as_str(self) -> &'static str {
        match self {
            BandwidthKind::Measured => "measured",
            BandwidthKind::Nominal => "as configured",
            BandwidthKind::Mixed => "measured where they are, else as configured",
        }
    }
}

/// The time of a message between two components from one site to another, in nanoseconds: the
/// latency of its first bit, then the transmission of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageTime(u64);

impl MessageTime {
    /// The time within a site.
    pub const NONE: MessageTime = MessageTime(0);
    /// The time over a link that carries nothing.
    pub const NEVER: MessageTime = MessageTime(u64::MAX);

    fn of_message(message: Bytes, bandwidth: BitsPerSecond, latency: DurationUs) -> Self {
        let nanoseconds = u128::from(message.0) * 8_000_000_000;
        match nanoseconds.checked_div(u128::from(bandwidth.0)) {
            None => Self::NEVER,
            Some(sent) => {
                let time = sent + u128::from(latency.0) * 1_000;
                MessageTime(u64::try_from(time).unwrap_or(u64::MAX - 1))
            }
        }
    }
}

/// A link, in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLink {
    /// The site where it begins.
    pub from: SiteName,
    /// The site where it ends.
    pub to: SiteName,
    /// Bandwidth; 0 means that it carries nothing.
    pub bandwidth: BitsPerSecond,
    /// Bandwidth at which the first site would send if the other could receive it.
    pub upload: BitsPerSecond,
    /// Latency: half of a round trip.
    pub latency: DurationUs,
}

impl Default for SiteNetwork {
    fn default() -> Self {
        Self::new([], DEFAULT_MESSAGE)
    }
}

impl SiteNetwork {
    /// Makes a network from links; of several for one pair the last one counts. `message` is the
    /// size of an exchange between two components.
    pub fn new(links: impl IntoIterator<Item = SiteLink>, message: Bytes) -> Self {
        let links: Vec<SiteLink> = links.into_iter().collect();
        let ends = links.iter().flat_map(|link| [&link.from, &link.to]);
        let mut index: BTreeMap<SiteName, usize> = ends.map(|name| (name.clone(), 0)).collect();
        index
            .values_mut()
            .enumerate()
            .for_each(|(position, slot)| *slot = position);
        let sites = index.len();
        let pairs = index.len() * index.len();
        let mut network = Self {
            names: index.into_keys().collect(),
            bandwidth: vec![BitsPerSecond(0); pairs],
            exchange: vec![MessageTime::NEVER; pairs],
            upload: vec![BitsPerSecond(0); pairs],
            potential: vec![BitsPerSecond(0); sites],
            nominal: Arc::default(),
            nominal_potential: Arc::default(),
            is_measured: vec![false; pairs],
            links: 0,
            unmeasured: 0,
            bids: BidBandwidthChoice::default(),
            message,
        };
        for link in links {
            network.write_link(&link);
        }
        network.nominal = network.bandwidth.clone().into();
        network.nominal_potential = network.potential.clone().into();
        network.links = (0..pairs)
            .filter(|pair| network.is_real_link(*pair))
            .count();
        network.unmeasured = network.links;
        network
    }

    /// Chooses the bandwidths by which sites bid.
    pub fn with_bid_bandwidths(self, bids: BidBandwidthChoice) -> Self {
        Self { bids, ..self }
    }

    /// Makes a network from links (from, to, bandwidth) without latency; the last one of a pair
    /// counts.
    pub fn from_links(
        links: impl IntoIterator<Item = (SiteName, SiteName, BitsPerSecond)>,
    ) -> Self {
        Self::new(
            links.into_iter().map(|(from, to, bandwidth)| {
                let latency = DurationUs(0);
                SiteLink {
                    from,
                    to,
                    bandwidth,
                    upload: bandwidth,
                    latency,
                }
            }),
            DEFAULT_MESSAGE,
        )
    }

    /// Makes a network from the measured or configured rates.
    pub fn from_bandwidths(links: &LinkBandwidths) -> Self {
        Self::from_links(
            links
                .all_pairs()
                .map(|(from, to, rate)| (from.clone(), to.clone(), rate)),
        )
    }

    /// Updates a configured link; `is_measured` says where the values come from.
    pub fn set_link(&mut self, link: &SiteLink, is_measured: bool) {
        let Some(pair) = self.write_link(link) else {
            return;
        };
        if self.is_real_link(pair) && self.is_measured[pair] != is_measured {
            if is_measured {
                self.unmeasured -= 1
            } else {
                self.unmeasured += 1
            }
        }
        self.is_measured[pair] = is_measured;
    }

    fn write_link(&mut self, link: &SiteLink) -> Option<usize> {
        let pair = self.pair_index(&link.from, &link.to)?;
        if link.from != link.to {
            let row = &mut self.potential[pair / self.names.len()].0;
            *row = row
                .saturating_sub(self.upload[pair].0)
                .saturating_add(link.upload.0);
        }
        self.upload[pair] = link.upload;
        self.bandwidth[pair] = link.bandwidth;
        self.exchange[pair] = MessageTime::of_message(self.message, link.bandwidth, link.latency);
        Some(pair)
    }

    /// Returns true if the link joins two different sites and carries something.
    fn is_real_link(&self, pair: usize) -> bool {
        let sites = self.names.len();
        self.nominal[pair].0 > 0 && pair / sites != pair % sites
    }

    /// Returns the bandwidth from one site to another; 0 if unknown.
    pub fn bandwidth(&self, from: &SiteName, to: &SiteName) -> BitsPerSecond {
        self.pair_index(from, to)
            .map_or(BitsPerSecond(0), |pair| self.bandwidth[pair])
    }

    /// Returns the position of a site in the table, if it has any link.
    pub(super) fn position_of_site(&self, site: &SiteName) -> Option<usize> {
        self.names.binary_search(site).ok()
    }

    /// Returns the bandwidth by positions.
    pub(super) fn bandwidth_between(&self, from: usize, to: usize) -> BitsPerSecond {
        self.bandwidth[from * self.names.len() + to]
    }

    /// Returns the kind of the bandwidths by which sites bid now.
    pub fn bid_bandwidth_kind(&self) -> BandwidthKind {
        match self.bids {
            _ if self.unmeasured == self.links => BandwidthKind::Nominal,
            _ if self.unmeasured == 0 => BandwidthKind::Measured,
            BidBandwidthChoice::Latest => BandwidthKind::Mixed,
            BidBandwidthChoice::OneKind => BandwidthKind::Nominal,
        }
    }

    /// Returns the bandwidth by which sites bid, by positions.
    pub(super) fn bid_bandwidth(&self, from: usize, to: usize) -> BitsPerSecond {
        match self.bid_bandwidth_kind() {
            BandwidthKind::Nominal => self.nominal[from * self.names.len() + to],
            BandwidthKind::Measured | BandwidthKind::Mixed => self.bandwidth_between(from, to),
        }
    }

    /// Returns what a site sends to all others together, by its position.
    pub(super) fn total_sending_bandwidth(&self, from: usize) -> BitsPerSecond {
        match self.bid_bandwidth_kind() {
            BandwidthKind::Nominal => self.nominal_potential[from],
            BandwidthKind::Measured | BandwidthKind::Mixed => self.potential[from],
        }
    }

    /// Returns the time of an exchange, by positions.
    pub(super) fn message_time_at(&self, from: usize, to: usize) -> MessageTime {
        self.exchange[from * self.names.len() + to]
    }

    fn pair_index(&self, from: &SiteName, to: &SiteName) -> Option<usize> {
        Some(self.position_of_site(from)? * self.names.len() + self.position_of_site(to)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SiteName {
        SiteName::new(text).unwrap()
    }

    #[test]
    fn a_link_has_a_direction_and_an_unknown_one_carries_nothing() {
        let network = SiteNetwork::from_links([
            (name("b"), name("a"), BitsPerSecond(5)),
            (name("a"), name("c"), BitsPerSecond(7)),
        ]);
        assert_eq!(network.bandwidth(&name("b"), &name("a")), BitsPerSecond(5));
        assert_eq!(network.bandwidth(&name("a"), &name("b")), BitsPerSecond(0));
        assert_eq!(network.bandwidth(&name("a"), &name("z")), BitsPerSecond(0));
    }

    #[test]
    fn an_exchange_takes_the_latency_and_the_time_of_its_bits() {
        let link = |to: &str, mbit: u64, latency_ms: u64| SiteLink {
            from: name("a"),
            to: name(to),
            bandwidth: BitsPerSecond(mbit * 1_000_000),
            upload: BitsPerSecond(mbit * 1_000_000),
            latency: DurationUs(latency_ms * 1_000),
        };
        let mut network = SiteNetwork::new([link("b", 100, 5), link("c", 0, 5)], Bytes(1_000_000));
        assert_eq!(network.message_time_at(0, 1), MessageTime(85_000_000));
        assert_eq!(network.message_time_at(0, 2), MessageTime::NEVER);
        assert_eq!(network.message_time_at(1, 0), MessageTime::NEVER);
        network.set_link(&link("b", 10, 3), true);
        assert_eq!(
            network.message_time_at(0, 1),
            MessageTime(803_000_000),
            "as measured"
        );
        network.set_link(&link("z", 1, 0), true);
        assert_eq!(network.bandwidth(&name("a"), &name("z")), BitsPerSecond(0));
    }
}
