//! The two sides of a bid: what a job needs, and what a site has.

use super::weights::Weights;
use crate::units::{BitsPerSecond, Bytes, DurationMs, Mflops};

/// Run time of a request that says none.
const ASSUMED_RUN_TIME: DurationMs = DurationMs::from_secs(3_600);

/// Counts of what is asked for, free or given. Of a job `processors` are those that it asks
/// for as such, and `power` what it asks for as computing power; of a site all its free
/// processors, and what they can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BidAmounts {
    /// Processors.
    pub processors: u64,
    /// Computing power.
    pub power: Mflops,
    /// Memory in megabytes.
    pub memory_mb: u64,
    /// Disk in megabytes.
    pub disk_mb: u64,
}

/// By what a job's distance to a site is measured, beside what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Terms {
    /// How long the job runs, as its user estimates, without staging; above 0.
    pub run_time: DurationMs,
    /// How much each dimension counts.
    pub weights: Weights,
    /// What input is read with that is at the site; `None`: in no time.
    pub local_rate: Option<BitsPerSecond>,
}

/// What a job needs. The same for every site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BidNeed {
    /// How much.
    pub amounts: BidAmounts,
    /// Potential of the site with its data; 0 if it has none, or nothing can be sent from there.
    pub source_potential: BitsPerSecond,
    /// How its distance is measured.
    pub terms: Terms,
}

/// What a site has for a job, by its own account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteMeans {
    /// What is free, less what is promised. `power` is not read: they are those of the
    /// processors.
    pub free: BidAmounts,
    /// What each processor does; `None` if nobody said.
    pub power_per_processor: Option<Mflops>,
    /// Sum of what it can send to each other site.
    pub potential: BitsPerSecond,
    /// How each of the job's inputs gets there.
    pub routes: Vec<Route>,
}

/// How an input gets to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// So much of it is there.
    Here(Bytes),
    /// It comes from another site.
    From {
        /// Its index.
        site: usize,
        /// How much.
        size: Bytes,
        /// What that site can send to this one.
        upload: BitsPerSecond,
        /// What this site can receive from that one.
        download: BitsPerSecond,
    },
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            run_time: ASSUMED_RUN_TIME,
            weights: Weights::default(),
            local_rate: None,
        }
    }
}

impl Route {
    /// How much.
    pub(super) fn size(&self) -> Bytes {
        let (Route::Here(size) | Route::From { size, .. }) = self;
        *size
    }

    /// What it comes with from another site.
    pub(super) fn rate(&self) -> Option<BitsPerSecond> {
        match self {
            Route::Here(_) => None,
            Route::From {
                upload, download, ..
            } => Some(*upload.min(download)),
        }
    }

    /// How long it takes at a rate above 0.
    pub(super) fn seconds(&self, rate: BitsPerSecond) -> f64 {
        self.size().0 as f64 * 8.0 / rate.0 as f64
    }
}

impl BidAmounts {
    /// Of what the job asks for, what a site gives it.
    pub(super) fn given(&self, offer: &SiteMeans) -> Self {
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
