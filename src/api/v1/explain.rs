//! Why a job waits or was placed where it is, as data.

use std::fmt;

use cospan_domain::bid::{Bid, Dimension, SiteBid};
use cospan_domain::placed::DominantRefusal;
use cospan_domain::queue::Classified;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::document::PriorityName;
use super::last_words::LastWordsReport;
use super::quantity::Instant;
use super::ranking::RankingReport;

/// Why a job is where it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExplainReport {
    /// The job; 0 if it was only tried.
    pub job: u64,
    /// How many changes of the job were recorded when this was worked out: pages with different
    /// numbers tell of different states of it. Missing of a job that was only tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// In one sentence.
    pub summary: String,
    /// The class that it would have; of a job that was only tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<ClassReport>,
    /// The policy that was asked; of a placed job the one that placed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The rule by which it was placed, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "most-left")]
    pub rule: Option<String>,
    /// What kept most of the sites that were refused when it was placed, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedReport>,
    /// Its place in its queue, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// When it may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateReport>,
    /// Why it cannot be said when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_unknown: Option<String>,
    /// What it would cost if it were placed as it would be now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostReport>,
    /// What was found for each component at each site, in the order of preference. Of a job
    /// that is placed: where it is, and what the other sites would be to it now.
    pub verdicts: Vec<VerdictReport>,
    /// Where each site stands on the job's virtual map; under a policy that takes bids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bids: Vec<BidReport>,
    /// What they are by, in words: of which kind bandwidths are, and of a job that is placed, that
    /// they are those of now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bids_by: Option<String>,
    /// By component: how the sites that may promise it a start are ranked, if it has preferences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<RankingReport>,
    /// Processors that are withheld for another job and count as taken here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<WithheldReport>,
    /// How far its input has come, while it waits for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferReport>,
    /// What its failed components printed last as errors: the payloads' own words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_words: Vec<LastWordsReport>,
    /// On the first page, where it is not the only one or has more than 200 verdicts: all of them,
    /// also those of later pages, those of one code together, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<VerdictGroup>,
    /// What has to do with later components (verdicts, rankings, transfers and what they would
    /// cost) is missing here: ask for it with this number as `after`. A dry run tells of the first
    /// ones only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

impl ExplainReport {
    /// Adds what the page after this one tells.
    pub fn append(&mut self, page: Self) {
        self.verdicts.extend(page.verdicts);
        self.ranking.extend(page.ranking);
        self.transfers.extend(page.transfers);
        if let (Some(cost), Some(more)) = (&mut self.cost, page.cost) {
            cost.transfers.extend(more.transfers);
        }
        self.next = page.next;
    }
}

/// Verdicts of one code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct VerdictGroup {
    /// Stable code of the reason.
    #[schema(example = "too-few-processors")]
    pub code: String,
    /// How many sites have it.
    pub sites: u64,
    /// Of how many components.
    pub components: u64,
    /// The first of them in words.
    pub example: String,
}

/// What a site bids for a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BidReport {
    /// The site.
    pub site: String,
    /// Its place; missing if it does not bid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<MapPlace>,
    /// Why it does not bid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
    /// Nobody said how many GFLOPS its processors do: it takes part in what does not ask for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_gflops: bool,
}

/// A place on a job's virtual map, with the job at the origin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct MapPlace {
    /// What the site lacks, over all resources.
    pub x: f64,
    /// What the job's input costs there: the time until it is there over the run time.
    pub y: f64,
    /// Distance from the origin; the nearest site is preferred.
    pub distance: f64,
    /// By dimension, before weights; 0: met.
    pub indices: std::collections::BTreeMap<String, f64>,
    /// What would bring it nearer, with an amount where one follows; missing at the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2.0 GB more free memory")]
    pub nearer: Option<String>,
}

impl From<&SiteBid> for BidReport {
    fn from(
        SiteBid {
            site,
            answer,
            nearer,
            lacks_gflops,
        }: &SiteBid,
    ) -> Self {
        Self {
            site: site.to_string(),
            at: answer.as_ref().ok().map(|bid: &Bid| MapPlace {
                x: bid.x,
                y: bid.y,
                distance: bid.distance,
                indices: Dimension::ALL
                    .iter()
                    .map(|dimension| (dimension.as_str().to_owned(), bid.index(*dimension)))
                    .collect(),
                nearer: nearer.clone(),
            }),
            declined: answer.as_ref().err().map(ToString::to_string),
            lacks_gflops: *lacks_gflops,
        }
    }
}

/// The class of a job's placement queue, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassReport {
    /// The class.
    pub class: PriorityName,
    /// The job names none: it is given.
    pub given: bool,
    /// The number, from 1, of the `[[priority]]` of the configuration that is for the job;
    /// missing if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u64>,
}

impl From<Classified> for ClassReport {
    fn from(classified: Classified) -> Self {
        let Classified { class, given, rule } = classified;
        Self {
            class: class.into(),
            given,
            rule: rule.map(|number| number as u64),
        }
    }
}

impl fmt::Display for ClassReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class)?;
        match (self.given, self.rule) {
            (true, Some(rule)) => write!(f, ", given by [[priority]] number {rule}"),
            (true, None) => f.write_str(", the default"),
            (false, Some(rule)) => write!(f, ", as asked; judged by [[priority]] number {rule}"),
            (false, None) => f.write_str(", as asked"),
        }
    }
}

/// What kept most of the sites that were refused when a job was placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedReport {
    /// Stable code of the reason.
    #[schema(example = "not-enough-idle")]
    pub code: String,
    /// How many sites it kept from the job.
    pub sites: u32,
}

impl From<&DominantRefusal> for RefusedReport {
    fn from(refused: &DominantRefusal) -> Self {
        Self {
            code: refused.code.as_str().into(),
            sites: refused.sites,
        }
    }
}

impl fmt::Display for RefusedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} other site(s) refused: {}", self.sites, self.code)
    }
}

/// Processors that are withheld for a job that has waited long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WithheldReport {
    /// For which job.
    pub job: u64,
    /// Until when.
    pub until: Instant,
    /// How many at which site.
    pub processors: std::collections::BTreeMap<String, u32>,
}

/// How far one file has come on its way to one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TransferReport {
    /// The component that reads it, or made it.
    pub component: String,
    /// Where it goes.
    pub site: String,
    /// Where it was to come from when the job was placed.
    pub from: String,
    /// BLAKE3 digest of the content.
    pub digest: String,
    /// Bytes that are there, as last seen.
    pub done_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
    /// When it is expected to be whole; missing while it is not being copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_at: Option<Instant>,
    /// It is there, whole and checked.
    pub here: bool,
    /// Why the latest try to copy it failed; it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// When a waiting job may start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EstimateReport {
    /// At the earliest.
    pub from: Instant,
    /// In all likelihood before this.
    pub until: Instant,
    /// What that is based on.
    pub basis: String,
}

/// What a placement would cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct CostReport {
    /// What would be brought to its sites, and how long that takes.
    pub transfers: Vec<ExpectedTransferReport>,
    /// Bytes of them that come from other sites.
    pub moved_bytes: u64,
    /// Time until all input is there.
    pub transfer_ms: u64,
    /// Processor time that it would hold at most: claimed while its input is on the way, waiting
    /// for the common start as long as `claim.hold_max`, and running for its wall time.
    pub held_processor_ms: u64,
    /// The part of it in which it runs.
    pub run_processor_ms: u64,
}

/// One content that a component would wait for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExpectedTransferReport {
    /// The component.
    pub component: String,
    /// Where it runs.
    pub site: String,
    /// Where the content comes from; the same site if it is there.
    pub from: String,
    /// BLAKE3 digest of the content.
    pub digest: String,
    /// Its size; of a chunk, the chunk's.
    pub bytes: u64,
    /// How long it takes.
    pub time_ms: u64,
    /// Bits per second that this reckons with; missing if nothing is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<u64>,
    /// When that was measured; missing if it is as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Instant>,
}

/// What was found for one component at one site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct VerdictReport {
    /// The component; missing if it concerns the whole job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The site; missing if it concerns none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Stable code of the reason.
    #[schema(example = "too-few-processors")]
    pub code: String,
    /// The component goes there.
    pub chosen: bool,
    /// How long its input would take to get there; missing if it cannot be brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_ms: Option<u64>,
    /// How old what the site said is; missing if it never said anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Processors that the site said are idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<u32>,
    /// Processors of those that the quota lets us take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_leaves: Option<u32>,
    /// Processors that are promised to other jobs of ours and not shown by the site yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<u32>,
    /// The site's errors in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u32>,
    /// When the site is probed first, while it is unusable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_at: Option<Instant>,
    /// In words.
    pub detail: String,
}
