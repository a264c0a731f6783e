//! The two sides of a bid: what a job needs, and what a site has.

use super::weights::DimensionWeights;
use crate::units::{BitsPerSecond, Bytes, DurationMs, Mflops};

/// The run time of a request that gives none.
const ASSUMED_RUN_TIME: DurationMs = DurationMs::from_secs(3_600);

/// Amounts that are asked for, free or given. For a job `processors` are those asked for as such,
/// and `power` is what is asked for as computing power; for a site they are all its free
/// processors, and what those can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BidAmounts {
    pub processors: u64,
    pub power: Mflops,
    /// Memory, in megabytes.
    pub memory_mb: u64,
    /// Disk, in megabytes.
    pub disk_mb: u64,
}

/// The terms that determine a job's distance to a site, beside the amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BidTerms {
    /// The user's estimate of the run time, without staging; above 0.
    pub run_time: DurationMs,
    /// The weight of each dimension.
    pub weights: DimensionWeights,
    /// The rate at which input that is at the site is read; `None`: in no time.
    pub local_rate: Option<BitsPerSecond>,
}

/// The needs of a job, the same for every site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BidNeed {
    pub amounts: BidAmounts,
    /// Potential of the site with its data; 0 if it has none, or nothing can be sent from there.
    pub source_potential: BitsPerSecond,
    pub terms: BidTerms,
}

/// The means of a site for a job, by its own account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteSupply {
    /// Free amounts, less deductions. `power` is not read: it follows from the processors.
    pub free: BidAmounts,
    /// Speed of each processor; `None` if unknown.
    pub power_per_processor: Option<Mflops>,
    /// Total bandwidth to all other sites.
    pub potential: BitsPerSecond,
    /// The route of each of the job's inputs to the site.
    pub routes: Vec<InputRoute>,
}

/// The route of an input to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputRoute {
    /// An input of this size that is there already.
    Here(Bytes),
    /// An input that comes from another site.
    From {
        /// Index of that site.
        site: usize,
        size: Bytes,
        /// Bandwidth at which that site can send to this one.
        upload: BitsPerSecond,
        /// Bandwidth at which this site can receive from that one.
        download: BitsPerSecond,
    },
}

impl Default for BidTerms {
    fn default() -> Self {
        Self {
            run_time: ASSUMED_RUN_TIME,
            weights: DimensionWeights::default(),
            local_rate: None,
        }
    }
}

impl InputRoute {
    /// Returns the size of the input.
    pub(super) fn size(&self) -> Bytes {
        let (InputRoute::Here(size) | InputRoute::From { size, .. }) = self;
        *size
    }

    /// Returns the rate at which it comes from another site.
    pub(super) fn transfer_rate(&self) -> Option<BitsPerSecond> {
        match self {
            InputRoute::Here(_) => None,
            InputRoute::From {
                upload, download, ..
            } => Some(*upload.min(download)),
        }
    }

    /// Returns the transfer time in seconds at a rate above 0.
    pub(super) fn transfer_seconds_at(&self, rate: BitsPerSecond) -> f64 {
        self.size().0 as f64 * 8.0 / rate.0 as f64
    }
}

impl BidAmounts {
    /// Returns what a site gives of what the job asks for.
    pub(super) fn limited_to_offer(&self, offer: &SiteSupply) -> Self {
        let each = offer.power_per_processor.unwrap_or_default();
        let processors = self.processors.min(offer.free.processors);
        let power = Mflops((offer.free.processors - processors).saturating_mul(each.0));
        Self {
            processors,
            power: self.power.min(power),
            memory_mb: self.memory_mb.min(offer.free.memory_mb),
            disk_mb: self.disk_mb.min(offer.free.disk_mb),
        }
    }
}
