//! A round of bids in messages: the answer of each site from what it alone knows, and the decision
//! on all answers. On the same state both give what the policy gives on a snapshot.

use std::sync::Arc;

use super::dominant::dominant_refusal;
use super::grid::GridSnapshot;
use super::history::SitePairHistory;
use super::placement_plan::PlacementPlan;
use super::placement_request::PlacementRequest;
use super::policies::multiple_resources as mrs;
use super::policy::{PlacementContext, find_policy};
use super::reason::{PlacementRefusal, SilentObserver};
use super::remaining::RemainingResources;
use super::site_search::PlacementSearch;
use crate::acquisition::AcquisitionMode;
use crate::bid::{Bid, BidAmounts, BidNeed, BidRefusal, compute_bid};
use crate::placed::PlacementOrigin;
use crate::resources::{MEMORY, Resources};
use crate::units::{BitsPerSecond, Mflops};

/// Returns true if sites bid for this request in messages: it wants what is free now, by a policy
/// that takes bids. If the bids do not cover it, it may wait in the queue of a site (see
/// [`crate::placement::place_in_queues_instead`]).
pub fn is_placed_by_bids(request: &PlacementRequest) -> bool {
    find_policy(request.policy()).is_ok_and(|policy| policy.takes_bids())
        && match request.acquisition().mode {
            AcquisitionMode::Immediate | AcquisitionMode::Auto => true,
            AcquisitionMode::Queued => false,
        }
}

/// The record that a site keeps of a job announced to it: its requirements, added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedNeed {
    request: Arc<PlacementRequest>,
    need: BidNeed,
    whole: Resources,
}

/// The common ground of all sites in one round: where the job's data is, and the links, whose
/// bandwidths are of one kind (see [`crate::placement::BidBandwidthChoice`]).
#[derive(Debug, Clone)]
pub struct BidRoundBasis {
    grid: Arc<GridSnapshot>,
    replicas: Vec<Vec<usize>>,
    source_potential: BitsPerSecond,
}

/// A bid, and the resources that the site gives: at most what is free and asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct BidWithResources {
    pub bid: Bid,
    /// Resources that the site has deducted for the job until the round is over.
    pub resources: Resources,
}

impl AnnouncedNeed {
    /// Adds up the requirements of an announced request.
    pub fn new(request: Arc<PlacementRequest>) -> Self {
        let mut whole = request.total_resources().cloned().unwrap_or_default();
        if request.total_resources().is_none() {
            request
                .components()
                .iter()
                .for_each(|part| whole.add(&part.resources));
        }
        Self {
            need: mrs::need_without_source(&request),
            request,
            whole,
        }
    }

    pub fn request(&self) -> &Arc<PlacementRequest> {
        &self.request
    }

    /// Returns the answer of the site at `index` in the round's grid; `free` excludes what is
    /// deducted for others.
    ///
    /// # Errors
    /// The site cannot take part.
    pub fn answer_for_site(
        &self,
        ground: &BidRoundBasis,
        index: usize,
        free: &Resources,
    ) -> Result<BidWithResources, BidRefusal> {
        let search = PlacementSearch::with_replicas(&self.request, &ground.grid, &ground.replicas);
        let amounts = BidAmounts {
            processors: free.processors.into(),
            power: Mflops::default(),
            memory_mb: free.other(MEMORY),
            disk_mb: free.other(mrs::DISK),
        };
        let offer = mrs::site_means(&search, index, amounts)?;
        let need = BidNeed {
            source_potential: ground.source_potential,
            ..self.need
        };
        Ok(BidWithResources {
            bid: compute_bid(&need, &offer)?,
            resources: self.cap_to_need(free),
        })
    }

    /// Lowers `left` after a round that did not cover the job: resources that sites turned out not
    /// to have must not go to jobs tried later, which would otherwise pass this one.
    pub fn lower_remaining(
        &self,
        answers: &[Result<BidWithResources, BidRefusal>],
        grid: &GridSnapshot,
        left: &mut RemainingResources,
    ) {
        left.begin_request();
        // Resources reserved for others are free for a job that ends before then.
        let lasts = self.request.holding_time();
        let told = answers.iter().enumerate();
        let told =
            told.filter(|(site, _)| grid.sites()[*site].usable_resources_for(lasts).is_none());
        for (site, answer) in told {
            match answer {
                // The site gave less of these than was asked for: it has no more.
                Ok(given) => left.limit_site(site, &given.resources, |name, count| match name {
                    None => count < u64::from(self.whole.processors),
                    Some(name) => count < self.whole.other(name),
                }),
                Err(BidRefusal::Silent | BidRefusal::NothingFree) => {
                    left.limit_site(site, &Resources::default(), |_, _| true);
                }
                Err(_) => {}
            }
        }
    }

    /// Returns what is free, up to what the job asks for.
    fn cap_to_need(&self, free: &Resources) -> Resources {
        let processors = free.processors.min(self.whole.processors);
        if self.whole.others.is_empty() {
            return Resources::processors(processors);
        }
        let others = self
            .whole
            .others
            .iter()
            .map(|(name, asked): (&Arc<str>, &u64)| (name.clone(), free.other(name).min(*asked)))
            .filter(|(_, count)| *count > 0);
        Resources {
            processors,
            others: others.collect(),
        }
    }

    /// Decides where the job goes, given the answers of all sites by index, and what placed it. A
    /// site that did not answer has declined. None gives more than is `left` to jobs tried now:
    /// what became free since belongs to those that are tried before.
    ///
    /// # Errors
    /// The bids, in order, do not cover the job.
    pub fn place_by_answers(
        &self,
        ground: &BidRoundBasis,
        answers: &[Result<BidWithResources, BidRefusal>],
        left: &RemainingResources,
    ) -> Result<(PlacementPlan, PlacementOrigin), PlacementRefusal> {
        let given = answers
            .iter()
            .map(|answer| Some(&answer.as_ref().ok()?.resources));
        let mut remaining = left.limited_to_given(given);
        let bids = answers.iter().map(|answer| match answer {
            Ok(given) => Ok(given.bid.clone()),
            Err(decline) => Err(*decline),
        });
        let mut context = PlacementContext {
            grid: &ground.grid,
            remaining: &mut remaining,
            history: &mut SitePairHistory::All,
            observer: &mut SilentObserver,
        };
        let search = PlacementSearch::new(&self.request, &ground.grid);
        let plan = mrs::place_answered(&search, &mut context, bids.collect())?;
        let by = plan.placed_by(dominant_refusal(&self.request, &plan, &mut context));
        Ok((plan, by))
    }
}

impl BidRoundBasis {
    /// Makes the ground for a round about this request.
    pub fn new(request: &PlacementRequest, grid: Arc<GridSnapshot>) -> Self {
        let search = PlacementSearch::new(request, &grid);
        let source_potential = mrs::source_potential(&search);
        let replicas = search.into_replicas();
        Self {
            grid,
            replicas,
            source_potential,
        }
    }

    /// Returns the grid as the scheduler knows it.
    pub fn grid(&self) -> &Arc<GridSnapshot> {
        &self.grid
    }
}
