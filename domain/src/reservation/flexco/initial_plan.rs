//! Initial scheduling (FlexCo, section 4.1, Algorithm 1).

use std::cmp::Reverse;

use super::free_time::{IdleStep, PublishedFreeTime};
use crate::ids::SiteName;
use crate::reservation::agreement::StartWindow;
use crate::reservation::timeline::TimeSpan;
use crate::resources::Resources;
use crate::units::{DurationMs, PerMillion, Timestamp};

/// A way to run a job: an amount in total, and a run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobShape {
    /// R, over all sites; other resources go with the processors in proportion.
    pub resources: Resources,
    /// x, within one site.
    pub run_time: DurationMs,
}

/// A job that may span sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaJob {
    /// The ways to run it, the one asked for first. The others, which Mold may choose, give its run
    /// time by its size. Never empty.
    pub shapes: Vec<JobShape>,
    /// r: the earliest start.
    pub ready: Timestamp,
    /// The latest start: the one that its user was given.
    pub latest: Timestamp,
    /// xo: the additional run time over several sites, as a share of x.
    pub overhead: PerMillion,
    /// The time that sites are to keep for it beyond its run time.
    pub beside: DurationMs,
    /// Bounds of a split.
    pub bounds: SplitBounds,
}

/// Bounds of a split over several sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitBounds {
    /// The least number of processors of a part.
    pub least: u32,
    /// The largest number of parts.
    pub most: usize,
}

impl Default for SplitBounds {
    fn default() -> Self {
        Self {
            least: 1,
            most: usize::MAX,
        }
    }
}

impl MetaJob {
    /// Returns the starts that are accepted, from now on.
    pub(super) fn accepted_window(&self, now: Timestamp) -> StartWindow {
        StartWindow::new(self.ready.max(now), self.latest)
    }

    /// Returns the longest time that it takes in any shape.
    pub fn longest_run(&self) -> DurationMs {
        self.shapes
            .iter()
            .map(|shape| self.run_time_on(shape, 2))
            .max()
            .unwrap_or_default()
    }

    /// Returns the time that it takes in a shape on so many sites; xo is rounded up.
    pub fn run_time_on(&self, shape: &JobShape, sites: usize) -> DurationMs {
        let overhead = if sites > 1 {
            self.overhead
        } else {
            PerMillion(0)
        };
        shape.run_time + shape.run_time.scaled_by(overhead) + self.beside
    }
}

/// The start, the shape and the sites of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexPlan {
    /// The index of the shape that it runs in.
    pub shape: usize,
    /// The start of all its parts.
    pub start: Timestamp,
    /// The time of completion, with the overhead if it spans sites.
    pub completion: Timestamp,
    /// The processors that each site gives, in the order in which the sites were filled.
    pub parts: Vec<(SiteName, u32)>,
}

impl FlexPlan {
    /// Returns the processors that a site gives.
    pub fn processors_at(&self, site: &SiteName) -> u32 {
        self.parts
            .iter()
            .find(|(name, _)| name == site)
            .map_or(0, |(_, count)| *count)
    }

    /// The span from start to completion.
    pub fn span(&self) -> TimeSpan {
        TimeSpan::new(self.start, self.completion)
    }

    /// Returns true if it completes earlier, or as early on fewer sites. Equal plans would take
    /// turns for ever otherwise.
    pub fn is_better_than(&self, other: &Self) -> bool {
        (self.completion, self.parts.len()) < (other.completion, other.parts.len())
    }
}

/// A site that may give processors.
#[derive(Clone, Copy)]
pub struct OfferingSite<'a> {
    pub name: &'a SiteName,
    pub time: &'a dyn PublishedFreeTime,
}

/// Plans a job in one of its shapes: within one site if it completes there as early as over
/// several, else from the first start on at which the sites together have enough. Sites are filled
/// one after the other from number `turn` on (next-fit), which is to be one more for each new job.
/// `None`: there is no such start up to the latest one.
pub fn plan_in_shape(
    job: &MetaJob,
    shape: usize,
    sites: &[OfferingSite<'_>],
    turn: usize,
    now: Timestamp,
) -> Option<FlexPlan> {
    let asked = job.shapes.get(shape)?;
    let first = turn % sites.len().max(1);
    let in_turn = [&sites[first..], &sites[..first]].concat();
    let alone = job.run_time_on(asked, 1);
    let spread = job.run_time_on(asked, 2);
    let mut over_several: Option<FlexPlan> = None;
    let window = job.accepted_window(now);
    let wanted = asked.resources.processors;
    for start in candidate_starts(sites, window, wanted) {
        if over_several
            .as_ref()
            .is_some_and(|best| start + alone > best.completion)
        {
            break;
        }
        let span = TimeSpan::new(start, start + alone);
        if let Some(site) = in_turn
            .iter()
            .find(|site| site.time.processors_offered(span, &asked.resources) >= wanted)
        {
            let parts = vec![(site.name.clone(), wanted)];
            return Some(FlexPlan {
                shape,
                start,
                completion: start + alone,
                parts,
            });
        }
        if over_several.is_none() {
            let span = TimeSpan::new(start, start + spread);
            let offers = in_turn.iter().map(|site| {
                (
                    site.name,
                    site.time.processors_offered(span, &asked.resources),
                )
            });
            let offers = offers.collect::<Vec<_>>();
            over_several = fill_sites(wanted, &offers, job.bounds).map(|parts| FlexPlan {
                shape,
                start,
                completion: start + spread,
                parts,
            });
        }
    }
    over_several
}

/// Plans a job in the shape in which it completes first; of equal ones on fewer sites, then in the
/// order in which shapes are asked for.
pub fn plan_best_shape(
    job: &MetaJob,
    sites: &[OfferingSite<'_>],
    turn: usize,
    now: Timestamp,
) -> Option<FlexPlan> {
    let plans =
        (0..job.shapes.len()).filter_map(|shape| plan_in_shape(job, shape, sites, turn, now));
    plans.reduce(|best, plan| {
        if plan.is_better_than(&best) {
            plan
        } else {
            best
        }
    })
}

/// Takes as many as there are from one site after the other; from the largest, if those that come
/// first would be too many. `None`: not enough.
fn fill_sites(
    wanted: u32,
    offers: &[(&SiteName, u32)],
    bounds: SplitBounds,
) -> Option<Vec<(SiteName, u32)>> {
    let least = bounds.least.max(1);
    let offering: Vec<_> = offers
        .iter()
        .filter(|(_, offered)| *offered >= least)
        .collect();
    let in_turn: Vec<usize> = (0..offering.len()).collect();
    let mut largest = in_turn.clone();
    largest.sort_by_key(|at| Reverse(offering[*at].1));
    let enough = |order: Vec<usize>| {
        let mut sum = 0;
        let before = order.iter().position(|at| {
            sum += u64::from(offering[*at].1);
            sum >= u64::from(wanted)
        });
        let count = before? + 1;
        let fits = count <= bounds.most && count as u64 * u64::from(least) <= u64::from(wanted);
        fits.then(|| order[..count].to_vec())
    };
    let mut chosen = enough(in_turn).or_else(|| enough(largest))?;
    chosen.sort_unstable();
    let mut rest = wanted;
    let mut others = chosen.len() as u32;
    let parts = chosen
        .into_iter()
        .map(|at: usize| {
            others -= 1;
            let given = offering[at].1.min(rest - least * others);
            rest -= given;
            (offering[at].0.clone(), given)
        })
        .collect();
    Some(parts)
}

/// Returns every start worth a look within a window: the first, and each time a site gains, except
/// those at which all sites together have less than `wanted` processors.
pub(super) fn candidate_starts(
    sites: &[OfferingSite<'_>],
    window: StartWindow,
    wanted: u32,
) -> impl Iterator<Item = Timestamp> + use<> {
    let span = TimeSpan::new(window.earliest, window.latest + DurationMs(1));
    let mut changes: Vec<(usize, IdleStep)> = sites
        .iter()
        .enumerate()
        .flat_map(|(site, offer): (usize, &OfferingSite<'_>)| {
            offer
                .time
                .idle_steps(span)
                .into_iter()
                .map(move |idle| (site, idle))
        })
        .collect();
    // There is an ascending run for each site: merging them is fast.
    changes.sort_by_key(|(_, idle)| idle.at);
    let mut now = vec![0; sites.len()];
    let mut total = 0_u64;
    let mut starts = Vec::new();
    for at in changes.chunk_by(|a, b| a.1.at == b.1.at) {
        for (site, idle) in at {
            total = total - u64::from(now[*site]) + u64::from(idle.processors);
            now[*site] = idle.processors;
        }
        let is_worth_it = total >= u64::from(wanted) && at.iter().any(|(_, idle)| idle.gains);
        if is_worth_it && at[0].1.at <= window.latest {
            starts.push(at[0].1.at);
        }
    }
    starts.into_iter()
}
