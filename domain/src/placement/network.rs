//! The network between sites, dense so that a policy can look at every pair.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::SiteName;
use crate::transfer::links::Links;
use crate::units::{BitsPerSecond, Bytes, DurationUs};

/// What an exchange between two components carries where nothing else is said.
pub const DEFAULT_MESSAGE: Bytes = Bytes(1_000_000);

/// Measured or configured bandwidth and latency of ordered pairs of sites. A pair
/// that is not known carries nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Sites with at least one link, by name.
    names: Vec<SiteName>,
    /// Row: from; column: to. As measured, else as configured.
    bandwidth: Vec<BitsPerSecond>,
    exchange: Vec<Exchange>,
    /// What the site of the row sends.
    upload: Vec<BitsPerSecond>,
    /// Sum of each row of it.
    potential: Vec<BitsPerSecond>,
    /// Bandwidths and potentials as configured.
    nominal: Arc<[BitsPerSecond]>,
    nominal_potential: Arc<[BitsPerSecond]>,
    is_measured: Vec<bool>,
    /// Links that carry something, and those of them that are not measured.
    links: usize,
    unmeasured: usize,
    bids: BidBandwidths,
    message: Bytes,
}

/// By which bandwidths sites bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BidBandwidths {
    /// All of one kind: measured if every link is, else configured.
    #[default]
    OneKind,
    /// Of each link the latest that is known.
    Latest,
}

/// What the bandwidths of a round are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandwidthKind {
    /// Those of transfers, on every link.
    Measured,
    /// Those that somebody wrote down, on every link.
    Nominal,
    /// Measured on some links, configured on the others.
    Mixed,
}

impl BandwidthKind {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            BandwidthKind::Measured => "measured",
            BandwidthKind::Nominal => "as configured",
            BandwidthKind::Mixed => "measured where they are, else as configured",
        }
    }
}

/// How long a message between two components takes from one site to another, in
/// nanoseconds: the time of its first bit, then of all the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exchange(u64);

impl Exchange {
    /// Within a site.
    pub const NONE: Exchange = Exchange(0);
    /// Over a link that carries nothing.
    pub const NEVER: Exchange = Exchange(u64::MAX);

    fn of(message: Bytes, bandwidth: BitsPerSecond, latency: DurationUs) -> Self {
        let nanoseconds = u128::from(message.0) * 8_000_000_000;
        match nanoseconds.checked_div(u128::from(bandwidth.0)) {
            None => Self::NEVER,
            Some(sent) => {
                let time = sent + u128::from(latency.0) * 1_000;
                Exchange(u64::try_from(time).unwrap_or(u64::MAX - 1))
            }
        }
    }
}

/// One link, in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where it begins.
    pub from: SiteName,
    /// Where it ends.
    pub to: SiteName,
    /// What it carries; 0 means nothing.
    pub bandwidth: BitsPerSecond,
    /// What the site where it begins sends over it, if the other could receive it.
    pub upload: BitsPerSecond,
    /// How long the first bit takes: half of a round trip.
    pub latency: DurationUs,
}

impl Default for Network {
    fn default() -> Self {
        Self::new([], DEFAULT_MESSAGE)
    }
}

impl Network {
    /// From links, the last one of a pair counts; `message`: what an exchange between two
    /// components carries.
    pub fn new(links: impl IntoIterator<Item = Link>, message: Bytes) -> Self {
        let links: Vec<Link> = links.into_iter().collect();
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
            exchange: vec![Exchange::NEVER; pairs],
            upload: vec![BitsPerSecond(0); pairs],
            potential: vec![BitsPerSecond(0); sites],
            nominal: Arc::default(),
            nominal_potential: Arc::default(),
            is_measured: vec![false; pairs],
            links: 0,
            unmeasured: 0,
            bids: BidBandwidths::default(),
            message,
        };
        for link in links {
            network.write(&link);
        }
        network.nominal = network.bandwidth.clone().into();
        network.nominal_potential = network.potential.clone().into();
        network.links = (0..pairs).filter(|pair| network.counts(*pair)).count();
        network.unmeasured = network.links;
        network
    }

    /// Has sites bid by these bandwidths.
    pub fn with_bids_by(self, bids: BidBandwidths) -> Self {
        Self { bids, ..self }
    }

    /// From links (from, to, bandwidth) without latency; the last one of a pair counts.
    pub fn from_links(
        links: impl IntoIterator<Item = (SiteName, SiteName, BitsPerSecond)>,
    ) -> Self {
        Self::new(
            links.into_iter().map(|(from, to, bandwidth)| {
                let latency = DurationUs(0);
                Link {
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

    /// From what was measured or configured.
    pub fn of(links: &Links) -> Self {
        Self::from_links(
            links
                .iter()
                .map(|(from, to, rate)| (from.clone(), to.clone(), rate)),
        )
    }

    /// Sets what is known now of a link that was configured, measured or as configured.
    pub fn set(&mut self, link: &Link, is_measured: bool) {
        let Some(pair) = self.write(link) else { return };
        if self.counts(pair) && self.is_measured[pair] != is_measured {
            if is_measured {
                self.unmeasured -= 1
            } else {
                self.unmeasured += 1
            }
        }
        self.is_measured[pair] = is_measured;
    }

    fn write(&mut self, link: &Link) -> Option<usize> {
        let pair = self.pair(&link.from, &link.to)?;
        if link.from != link.to {
            let row = &mut self.potential[pair / self.names.len()].0;
            *row = row
                .saturating_sub(self.upload[pair].0)
                .saturating_add(link.upload.0);
        }
        self.upload[pair] = link.upload;
        self.bandwidth[pair] = link.bandwidth;
        self.exchange[pair] = Exchange::of(self.message, link.bandwidth, link.latency);
        Some(pair)
    }

    /// Whether it joins two sites and is there.
    fn counts(&self, pair: usize) -> bool {
        let sites = self.names.len();
        self.nominal[pair].0 > 0 && pair / sites != pair % sites
    }

    /// Bandwidth from one site to another; 0 if it is not known.
    pub fn bandwidth(&self, from: &SiteName, to: &SiteName) -> BitsPerSecond {
        self.pair(from, to)
            .map_or(BitsPerSecond(0), |pair| self.bandwidth[pair])
    }

    /// Where a site stands in the table, if it has any link.
    pub(super) fn position(&self, site: &SiteName) -> Option<usize> {
        self.names.binary_search(site).ok()
    }

    /// Bandwidth by positions.
    pub(super) fn between(&self, from: usize, to: usize) -> BitsPerSecond {
        self.bandwidth[from * self.names.len() + to]
    }

    /// Of which kind the bandwidths are by which sites bid now.
    pub fn bid_kind(&self) -> BandwidthKind {
        match self.bids {
            _ if self.unmeasured == self.links => BandwidthKind::Nominal,
            _ if self.unmeasured == 0 => BandwidthKind::Measured,
            BidBandwidths::Latest => BandwidthKind::Mixed,
            BidBandwidths::OneKind => BandwidthKind::Nominal,
        }
    }

    /// Bandwidth by which sites bid, by positions.
    pub(super) fn bid_bandwidth(&self, from: usize, to: usize) -> BitsPerSecond {
        match self.bid_kind() {
            BandwidthKind::Nominal => self.nominal[from * self.names.len() + to],
            BandwidthKind::Measured | BandwidthKind::Mixed => self.between(from, to),
        }
    }

    /// What a site sends to all others together, by its position.
    pub(super) fn potential(&self, from: usize) -> BitsPerSecond {
        match self.bid_kind() {
            BandwidthKind::Nominal => self.nominal_potential[from],
            BandwidthKind::Measured | BandwidthKind::Mixed => self.potential[from],
        }
    }

    /// How long an exchange takes, by positions.
    pub(super) fn exchange(&self, from: usize, to: usize) -> Exchange {
        self.exchange[from * self.names.len() + to]
    }

    fn pair(&self, from: &SiteName, to: &SiteName) -> Option<usize> {
        Some(self.position(from)? * self.names.len() + self.position(to)?)
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
        let network = Network::from_links([
            (name("b"), name("a"), BitsPerSecond(5)),
            (name("a"), name("c"), BitsPerSecond(7)),
        ]);
        assert_eq!(network.bandwidth(&name("b"), &name("a")), BitsPerSecond(5));
        assert_eq!(network.bandwidth(&name("a"), &name("b")), BitsPerSecond(0));
        assert_eq!(network.bandwidth(&name("a"), &name("z")), BitsPerSecond(0));
    }

    #[test]
    fn an_exchange_takes_the_latency_and_the_time_of_its_bits() {
        let link = |to: &str, mbit: u64, latency_ms: u64| Link {
            from: name("a"),
            to: name(to),
            bandwidth: BitsPerSecond(mbit * 1_000_000),
            upload: BitsPerSecond(mbit * 1_000_000),
            latency: DurationUs(latency_ms * 1_000),
        };
        let mut network = Network::new([link("b", 100, 5), link("c", 0, 5)], Bytes(1_000_000));
        assert_eq!(network.exchange(0, 1), Exchange(85_000_000));
        assert_eq!(network.exchange(0, 2), Exchange::NEVER);
        assert_eq!(network.exchange(1, 0), Exchange::NEVER);
        network.set(&link("b", 10, 3), true);
        assert_eq!(network.exchange(0, 1), Exchange(803_000_000), "as measured");
        network.set(&link("z", 1, 0), true);
        assert_eq!(network.bandwidth(&name("a"), &name("z")), BitsPerSecond(0));
    }
}
