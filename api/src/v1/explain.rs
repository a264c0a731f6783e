//! The reasons why a job waits or was placed where it is, as data.

use std::fmt;

use cospan_domain::bid::{Bid, Dimension, SiteBid};
use cospan_domain::placed::DominantRefusal;
use cospan_domain::queue::AssignedClass;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::document::PriorityName;
use super::quantity::Instant;
use super::ranking::RankingReport;
use super::stderr_tail::LastWordsReport;

/// The reasons why a job is where it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExplainReport {
    /// The number of the job; 0 in a dry run.
    pub job: u64,
    /// The number of recorded changes of the job at the time of this report. Pages with different
    /// numbers show different states of the job. Missing in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// A summary in one sentence.
    pub summary: String,
    /// The priority that the job would have; only in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<ClassReport>,
    /// The policy that was asked; for a placed job, the policy that placed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The rule by which the job is placed, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "most-left")]
    pub rule: Option<String>,
    /// The reason for which most of the refused sites were refused at placement, while the job is
    /// placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedReport>,
    /// The position of the job in its queue, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// When the job may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateReport>,
    /// The reason why no start can be estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_unknown: Option<String>,
    /// The cost of the placement that the job would get now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostReport>,
    /// The verdicts on each component at each site, in the order of preference. For a placed job:
    /// where it is, and what the other sites would be to it now.
    pub verdicts: Vec<VerdictReport>,
    /// The position of each site on the job's virtual map; only under a policy that takes bids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bids: Vec<BidReport>,
    /// The basis of the bids, in words: the kind of bandwidths, and for a placed job that they are
    /// the present ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bids_by: Option<String>,
    /// The ranking of the sites that may reserve, by component, if the job has preferences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<RankingReport>,
    /// Processors that are withheld for another job and count as taken here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<WithheldReport>,
    /// Progress of the input, while the job waits for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferReport>,
    /// The last error output of the failed components: the payloads' own words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_words: Vec<LastWordsReport>,
    /// All verdicts grouped by code, also those of later pages, the most frequent first. Only on
    /// the first page, and only if there are several pages or more than 200 verdicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<VerdictGroup>,
    /// Position where the next page starts: verdicts, rankings, transfers and costs of later
    /// components are missing here. Ask for them with this number as `after`. A dry run reports
    /// only the first components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

impl ExplainReport {
    /// Appends the next page to this one.
    pub fn append_page(&mut self, page: Self) {
        self.verdicts.extend(page.verdicts);
        self.ranking.extend(page.ranking);
        self.transfers.extend(page.transfers);
        if let (Some(cost), Some(more)) = (&mut self.cost, page.cost) {
            cost.transfers.extend(more.transfers);
        }
        self.next = page.next;
    }
}

/// Verdicts with one code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct VerdictGroup {
    /// Stable code of the reason.
    #[schema(example = "too-few-processors")]
    pub code: String,
    /// Number of sites with this code.
    pub sites: u64,
    /// Number of components with this code.
    pub components: u64,
    /// The first of these verdicts, in words.
    pub example: String,
}

/// The bid of a site for a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BidReport {
    /// The site.
    pub site: String,
    /// The position of the site; missing if it does not bid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<MapPlace>,
    /// The reason why the site does not bid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
    /// True if the configuration has no GFLOPS for the site's processors. The site then bids only
    /// for jobs that do not ask for GFLOPS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_gflops: bool,
}

/// A position on a job's virtual map, with the job at the origin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct MapPlace {
    /// The lack of the site, over all resources.
    pub x: f64,
    /// The cost of the job's input there: the transfer time divided by the run time.
    pub y: f64,
    /// Distance from the origin; the nearest site is preferred.
    pub distance: f64,
    /// The lack by dimension, before weights; 0: met.
    pub indices: std::collections::BTreeMap<String, f64>,
    /// The change that would bring the site nearer, with an amount if there is one; missing at the
    /// origin.
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

/// The priority of a job, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassReport {
    /// The priority.
    pub class: PriorityName,
    /// True if the job names no priority and the server gave it this one.
    pub given: bool,
    /// The number, from 1, of the `[[priority]]` of the configuration that concerns the job;
    /// missing if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u64>,
}

impl From<AssignedClass> for ClassReport {
    fn from(classified: AssignedClass) -> Self {
        let AssignedClass { class, given, rule } = classified;
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

/// The reason for which most of the refused sites were refused at placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedReport {
    /// Stable code of the reason.
    #[schema(example = "not-enough-idle")]
    pub code: String,
    /// Number of sites that were refused for this reason.
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
    /// The job for which they are withheld.
    pub job: u64,
    /// The end of the withholding.
    pub until: Instant,
    /// Number of processors by site.
    pub processors: std::collections::BTreeMap<String, u32>,
}

/// Progress of one file on its way to one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TransferReport {
    /// The component that reads or made the file.
    pub component: String,
    /// The site to which the file is copied.
    pub site: String,
    /// The site from which the file was to come when the job was placed.
    pub from: String,
    /// BLAKE3 digest of the content.
    pub digest: String,
    /// Bytes that have arrived, as last seen.
    pub done_bytes: u64,
    /// Size of the file.
    pub size_bytes: u64,
    /// When the whole file is expected; missing while nothing is copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_at: Option<Instant>,
    /// True if the file is there, whole and checked.
    pub here: bool,
    /// The reason why the latest transfer failed; it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// When a waiting job may start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EstimateReport {
    /// The earliest start.
    pub from: Instant,
    /// The start if jobs take as long as those before them did; missing from older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Instant>,
    /// The start is probably before this.
    pub until: Instant,
    /// The basis of the estimate.
    pub basis: String,
}

/// The cost of a placement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct CostReport {
    /// The transfers to the sites of the job, with their lengths.
    pub transfers: Vec<ExpectedTransferReport>,
    /// Bytes that come from other sites.
    pub moved_bytes: u64,
    /// Time until all input has arrived.
    pub transfer_ms: u64,
    /// Processor time that the job would take at most: claimed while its input is on the way, at
    /// the gate for at most `claim.hold_max`, and running for its wall time.
    pub held_processor_ms: u64,
    /// The part of it in which the job runs.
    pub run_processor_ms: u64,
}

/// A content that a component would wait for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ExpectedTransferReport {
    /// The component.
    pub component: String,
    /// The site of the component.
    pub site: String,
    /// The source of the content; the same site if it is there.
    pub from: String,
    /// BLAKE3 digest of the content.
    pub digest: String,
    /// Size in bytes; for a chunk, the size of the chunk.
    pub bytes: u64,
    /// Length of the transfer.
    pub time_ms: u64,
    /// Bits per second on which the estimate is based; missing if nothing is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<u64>,
    /// When the bandwidth was measured; missing if it is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Instant>,
}

/// The verdict on one component at one site.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct VerdictReport {
    /// The component; missing if the verdict concerns the whole job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The site; missing if the verdict concerns no site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Stable code of the reason.
    #[schema(example = "too-few-processors")]
    pub code: String,
    /// True if the component goes to this site.
    pub chosen: bool,
    /// Time to bring the input there; missing if that is impossible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_ms: Option<u64>,
    /// Age of the site's last report; missing if the site never answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Idle processors, as the site reported them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<u32>,
    /// Idle processors that the quota lets us take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_leaves: Option<u32>,
    /// Processors that are deducted for other jobs of ours and not shown by the site yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<u32>,
    /// Errors of the site in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u32>,
    /// When the site is probed first, while it is unusable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_at: Option<Instant>,
    /// The verdict in words.
    pub detail: String,
}
