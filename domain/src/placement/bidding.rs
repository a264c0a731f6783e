//! A round of bids in messages: what each site answers from what it alone knows, and what
//! follows from all answers. On the same state both come to what the policy comes to on a
//! snapshot.

use std::sync::Arc;

use super::dominant::dominant_refusal;
use super::grid::GridSnapshot;
use super::history::PairHistory;
use super::plan::PlacementPlan;
use super::policies::{MultipleResources, multiple_resources as mrs};
use super::policy::PlacementContext;
use super::reason::{PlacementRefusal, Silent};
use super::remaining::Remaining;
use super::request::PlacementRequest;
use super::search::PlacementSearch;
use crate::acquire::AcquisitionMode;
use crate::bid::{Bid, BidAmounts, BidNeed, Decline, bid};
use crate::placed::PlacedBy;
use crate::resources::{MEMORY, Resources};
use crate::units::{BitsPerSecond, Mflops};

/// Whether sites bid for this in messages: it wants what is free now, by a policy that takes
/// bids. Where that covers it not, it may wait in the queue of a site (see
/// [`crate::placement::queue_instead`]).
pub fn takes_bids(request: &PlacementRequest) -> bool {
    request.policy().as_str() == MultipleResources::NAME
        && match request.acquisition().mode {
            AcquisitionMode::Immediate | AcquisitionMode::Auto => true,
            AcquisitionMode::Queued => false,
        }
}

/// What a site keeps of a job that was announced to it: its requirements, added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedNeed {
    request: Arc<PlacementRequest>,
    need: BidNeed,
    whole: Resources,
}

/// What all sites count by in one round: where the job's data is, and the links, whose
/// bandwidths are of one kind (see [`crate::placement::BidBandwidths`]).
#[derive(Debug, Clone)]
pub struct BidBasis {
    grid: Arc<GridSnapshot>,
    replicas: Vec<Vec<usize>>,
    source_potential: BitsPerSecond,
}

/// A site's bid, and what it gives: of all that the job asks for at most what is free.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenBid {
    /// How far the site is.
    pub bid: Bid,
    /// What it has deducted for the job until the round is over.
    pub resources: Resources,
}

impl AnnouncedNeed {
    /// From a request as announced.
    pub fn new(request: Arc<PlacementRequest>) -> Self {
        let mut whole = request.total().cloned().unwrap_or_default();
        if request.total().is_none() {
            request
                .components()
                .iter()
                .for_each(|part| whole.add(&part.resources));
        }
        Self {
            need: mrs::need(&request),
            request,
            whole,
        }
    }

    /// The request.
    pub fn request(&self) -> &Arc<PlacementRequest> {
        &self.request
    }

    /// The answer of the site at `index` in the round's grid, with so much free that is not
    /// promised to anybody else.
    ///
    /// # Errors
    /// It cannot take part.
    pub fn answer(
        &self,
        ground: &BidBasis,
        index: usize,
        free: &Resources,
    ) -> Result<GivenBid, Decline> {
        let search = PlacementSearch::knowing(&self.request, &ground.grid, &ground.replicas);
        let amounts = BidAmounts {
            processors: free.processors.into(),
            power: Mflops::default(),
            memory_mb: free.other(MEMORY),
            disk_mb: free.other(mrs::DISK),
        };
        let offer = mrs::offer(&search, index, amounts)?;
        let need = BidNeed {
            source_potential: ground.source_potential,
            ..self.need
        };
        Ok(GivenBid {
            bid: bid(&need, &offer)?,
            resources: self.of_free(free),
        })
    }

    /// The job was not covered: what sites turned out not to have is not left to those that are
    /// tried after it either, who would else pass it.
    pub fn learn(
        &self,
        answers: &[Result<GivenBid, Decline>],
        grid: &GridSnapshot,
        left: &mut Remaining,
    ) {
        left.begin_request();
        let asked = |name: Option<&str>| match name {
            None => u64::from(self.whole.processors),
            Some(name) => self.whole.other(name),
        };
        // What others were promised is there for whoever is over by then.
        let lasts = self.request.lasts();
        let told = answers.iter().enumerate();
        let told = told.filter(|(site, _)| grid.sites()[*site].usable_for(lasts).is_none());
        for (site, answer) in told {
            match answer {
                // Of what it gave less of than was asked, it has no more.
                Ok(given) => left.limit(site, &given.resources, |name, count| count < asked(name)),
                Err(Decline::Silent | Decline::NothingFree) => {
                    left.limit(site, &Resources::default(), |_, _| true);
                }
                Err(_) => {}
            }
        }
    }

    /// Of what is free as much as the job asks for.
    fn of_free(&self, free: &Resources) -> Resources {
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

    /// Where the job goes by the answers of all sites, by index, and what placed it. A site
    /// that did not answer has declined, and none gives more than is `left` to those that are
    /// tried now: what came free since belongs to those that are tried before.
    ///
    /// # Errors
    /// What they give, in order, does not cover the job.
    pub fn decide(
        &self,
        ground: &BidBasis,
        answers: &[Result<GivenBid, Decline>],
        left: &Remaining,
    ) -> Result<(PlacementPlan, PlacedBy), PlacementRefusal> {
        let given = answers
            .iter()
            .map(|answer| Some(&answer.as_ref().ok()?.resources));
        let mut remaining = left.of_given(given);
        let bids = answers.iter().map(|answer| match answer {
            Ok(given) => Ok(given.bid.clone()),
            Err(decline) => Err(*decline),
        });
        let mut context = PlacementContext {
            grid: &ground.grid,
            remaining: &mut remaining,
            history: &mut PairHistory::All,
            observer: &mut Silent,
        };
        let search = PlacementSearch::new(&self.request, &ground.grid);
        let plan = mrs::place_answered(&search, &mut context, bids.collect())?;
        let by = plan.placed_by(dominant_refusal(&self.request, &plan, &mut context));
        Ok((plan, by))
    }
}

impl BidBasis {
    /// For a round about this request.
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

    /// The grid as the scheduler knows it.
    pub fn grid(&self) -> &Arc<GridSnapshot> {
        &self.grid
    }
}
