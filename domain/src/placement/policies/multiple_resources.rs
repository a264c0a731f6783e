//! Multiple resource scheduling: every site says how far it is from what the job needs, over all
//! resources at once, and the nearest wins (MRS; see [`crate::bid`]).

use std::collections::BTreeSet;

use super::cluster_minimization::place_in_order;
use super::flexible::{
    FlexibleCandidate, FlexibleSplitBounds, place_first_split, place_split, split_bounds,
};
use crate::bid::{
    Bid, BidAmounts, BidNeed, BidRefusal, InputRoute, SiteBid, SiteSupply, compute_bid, rank_bids,
    split_in_order, suggest_remedy,
};
use crate::content::Content;
use crate::job::spec::RequestType;
use crate::placed::PlacementRule;
use crate::placement::placement_plan::PlacementPlan;
use crate::placement::placement_request::PlacementRequest;
use crate::placement::policy::{PlacementContext, Policy};
use crate::placement::reason::PlacementRefusal;
use crate::placement::remaining::RemainingResources;
use crate::placement::site_search::PlacementSearch;
use crate::resources::MEMORY;
use crate::units::{BitsPerSecond, Bytes, Mflops};

/// The MRS policy. Of the sites that can take a part of the job it chooses the nearest on the job's
/// virtual map; the rest of the job goes to the others, ordered by what the data costs there, then
/// by distance.
#[derive(Debug, Clone, Copy)]
pub struct MultipleResources;

impl MultipleResources {
    pub const NAME: &'static str = "mrs";
}

impl Policy for MultipleResources {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn serves(&self, _: &RequestType) -> bool {
        true
    }

    fn takes_bids(&self) -> bool {
        true
    }

    fn place(
        &self,
        request: &PlacementRequest,
        context: &mut PlacementContext<'_>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        let search = PlacementSearch::new(request, context.grid);
        let answers = collect_answers(&search, context.remaining);
        place_answered(&search, context, answers)
    }
}

/// Places a job by the answers of all sites, by site index.
///
/// # Errors
/// The bids do not cover the job.
pub(in crate::placement) fn place_answered(
    search: &PlacementSearch<'_>,
    context: &mut PlacementContext<'_>,
    answers: Vec<Result<Bid, BidRefusal>>,
) -> Result<PlacementPlan, PlacementRefusal> {
    let request = search.request;
    let round = AnsweredBidRound { search, answers };
    if context.observer.is_listening() {
        context
            .observer
            .record_bids(round.site_bids(context.remaining));
    }
    let parts = round.list_sites_with_room(context.remaining);
    match request.request_type() {
        RequestType::Fixed | RequestType::NonFixed => {
            place_in_order(search, context, &parts, PlacementRule::Nearest)
        }
        RequestType::Flexible(_) if !request.splits().is_empty() => {
            place_first_split(search, context, &parts)
        }
        RequestType::Flexible(_) => {
            let (total, bounds) = split_bounds(request, context)?;
            place_split(
                search,
                context,
                PlacementRule::Nearest,
                &total,
                bounds,
                |candidates: &[FlexibleCandidate], bounds| round.split_by_bid(candidates, bounds),
            )
        }
    }
}

/// The answers of all sites to a job.
struct AnsweredBidRound<'a> {
    search: &'a PlacementSearch<'a>,
    answers: Vec<Result<Bid, BidRefusal>>,
}

impl AnsweredBidRound<'_> {
    fn site_bids(&self, remaining: &RemainingResources) -> Vec<SiteBid> {
        let bids = self.answers.iter().flatten().map(|bid| bid.distance);
        let nearest = bids.fold(f64::INFINITY, f64::min);
        let search = self.search;
        let need = need_with_source(self.search);
        let sites = search.grid.sites();
        let told = self
            .answers
            .iter()
            .enumerate()
            .map(|(site, answer)| SiteBid {
                site: sites[site].name.clone(),
                answer: answer.clone(),
                nearer: answer.as_ref().ok().and_then(|bid| {
                    let offer = site_means(search, site, free_amounts(remaining, site)).ok()?;
                    suggest_remedy(bid, &need, &offer, nearest, &|site| {
                        sites[site].name.to_string()
                    })
                }),
                lacks_gflops: sites[site].power_per_processor.is_none(),
            });
        told.collect()
    }

    /// Lists the sites with room for any component, in the order in which they are taken.
    fn list_sites_with_room(&self, remaining: &RemainingResources) -> Vec<usize> {
        self.order_by_bid((0..self.answers.len()).filter(|site: &usize| {
            let mut parts = self.search.request.components_by_size().iter().rev();
            parts.any(|part| self.search.can_place_at(*part as usize, *site, remaining))
        }))
    }

    /// Orders those of these sites that bid as they are taken.
    fn order_by_bid(&self, sites: impl Iterator<Item = usize>) -> Vec<usize> {
        let bids: Vec<(usize, &Bid)> = sites
            .filter_map(|site| Some((site, self.answers[site].as_ref().ok()?)))
            .collect();
        rank_bids(&bids).into_iter().map(|at| bids[at].0).collect()
    }

    /// Returns sites and sizes for a total that may be split.
    fn split_by_bid(
        &self,
        candidates: &[FlexibleCandidate],
        bounds: FlexibleSplitBounds,
    ) -> Vec<(usize, u32)> {
        let order = self.order_by_bid(candidates.iter().map(|candidate| candidate.site));
        let taken: Vec<_> = order
            .iter()
            .filter_map(|site: &usize| candidates.iter().find(|candidate| candidate.site == *site))
            .collect();
        let most: Vec<u32> = taken.iter().map(|candidate| candidate.usable).collect();
        let parts = split_in_order(bounds.total, bounds.min, bounds.most, &most);
        parts
            .into_iter()
            .map(|(at, size)| (taken[at].site, size))
            .collect()
    }
}

/// Computes the answer of each site to a job, by site index.
fn collect_answers(
    search: &PlacementSearch<'_>,
    remaining: &RemainingResources,
) -> Vec<Result<Bid, BidRefusal>> {
    let need = need_with_source(search);
    let sites = 0..search.grid.sites().len();
    sites
        .map(|site| {
            compute_bid(
                &need,
                &site_means(search, site, free_amounts(remaining, site))?,
            )
        })
        .collect()
}

/// Returns the amounts left at a site.
fn free_amounts(remaining: &RemainingResources, site: usize) -> BidAmounts {
    BidAmounts {
        processors: remaining.processors()[site].into(),
        power: Mflops::default(),
        memory_mb: remaining.other_resource_left(site, MEMORY),
        disk_mb: remaining.other_resource_left(site, DISK),
    }
}

/// Returns the needs of the job as a whole, given where its data is.
fn need_with_source(search: &PlacementSearch<'_>) -> BidNeed {
    BidNeed {
        source_potential: source_potential(search),
        ..need_without_source(search.request)
    }
}

/// Returns the needs of the job as a whole, wherever its data is.
pub(in crate::placement) fn need_without_source(request: &PlacementRequest) -> BidNeed {
    let mut amounts = BidAmounts {
        power: Mflops(request.gflops().saturating_mul(1_000)),
        ..BidAmounts::default()
    };
    let components = request.components().iter();
    let whole = request
        .total_resources()
        .map(|total| (total, request.gflops()));
    let parts = components.map(|part| (&part.resources, part.gflops));
    for (asked, gflops) in whole.into_iter().chain(parts.filter(|_| whole.is_none())) {
        let processors = if gflops == 0 { asked.processors } else { 0 };
        amounts.processors = amounts.processors.saturating_add(processors.into());
        amounts.memory_mb = amounts.memory_mb.saturating_add(asked.other(MEMORY));
        amounts.disk_mb = amounts.disk_mb.saturating_add(asked.other(DISK));
    }
    BidNeed {
        amounts,
        source_potential: BitsPerSecond(0),
        terms: *request.bid_terms(),
    }
}

pub(in crate::placement) const DISK: &str = "disk_mb";

/// Returns the potential of the site with the most of the job's data, of equal ones the first by
/// name.
pub(in crate::placement) fn source_potential(search: &PlacementSearch<'_>) -> BitsPerSecond {
    let mut held = vec![0_u64; search.grid.sites().len()];
    for content in search.request.contents() {
        for &site in search.replicas_of(*content) {
            held[site] = held[site].saturating_add(content.size.0);
        }
    }
    let most = held.iter().copied().max().filter(|&most| most > 0);
    let source = most.and_then(|most| held.iter().position(|&held| held == most));
    source.map_or(BitsPerSecond(0), |source| {
        search.grid.total_sending_bandwidth(source)
    })
}

/// Returns the means of a site with these free amounts.
pub(in crate::placement) fn site_means(
    search: &PlacementSearch<'_>,
    site: usize,
    free: BidAmounts,
) -> Result<SiteSupply, BidRefusal> {
    Ok(SiteSupply {
        free,
        power_per_processor: search.grid.sites()[site].power_per_processor,
        potential: search.grid.total_sending_bandwidth(site),
        routes: input_routes(search, site)?,
    })
}

/// Returns the route of each content that the job reads, from where it arrives first. A link
/// carries the lesser of what one site sends and the other receives.
fn input_routes(search: &PlacementSearch<'_>, site: usize) -> Result<Vec<InputRoute>, BidRefusal> {
    let shape = search.grid.sites()[site].shape.as_ref();
    let Some(shape) = shape.filter(|_| !search.request.contents().is_empty()) else {
        return Ok(Vec::new());
    };
    let parts = 0..search.request.components().len();
    let contents: BTreeSet<Content> = parts
        .flat_map(|part| search.contents_at(part, site, shape))
        .collect();
    contents
        .into_iter()
        .map(|content: Content| {
            let size = bytes_read(search.request, content);
            let (from, _) = search
                .nearest_replica(content, site)
                .map_err(|_| BidRefusal::NoBandwidth)?;
            let rate = search.grid.bid_bandwidth(from, site);
            Ok(if from == site {
                InputRoute::Here(size)
            } else {
                InputRoute::From {
                    site: from,
                    size,
                    upload: rate,
                    download: rate,
                }
            })
        })
        .collect()
}

/// Returns the bytes of a content that the whole job reads: all of a file that a flexible one reads
/// in chunks.
fn bytes_read(request: &PlacementRequest, content: Content) -> Bytes {
    match request.total_resources() {
        Some(_) => request.whole_file_of(content).size,
        None => content.size,
    }
}
