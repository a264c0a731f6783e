//! The plans of several sites, and the moves when a job ends early (FlexCo, section 4.2, Algorithm
//! 2).
//!
//! Sites are first-come-first-served with conservative backfilling: each job is planned at the
//! earliest place that takes nothing from those before it. When a job ends early, its site
//! compresses its plan. The jobs over several sites may use what that leaves idle, in the order in
//! which they are planned. Each site whose plan changed thereby goes through the same. Every move
//! makes some job complete earlier or on fewer sites, so that this comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use super::initial_plan::{FlexPlan, MetaJob, OfferingSite, plan_in_shape};
use super::reschedule::{RescheduleOperations, reschedule_job};
use crate::ids::{JobId, SiteName};
use crate::reservation::timeline::{
    FOREVER, OpeningRequest, ResourceAmounts, ResourceKindsError, TimeSpan, Timeline,
};
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// The place of a job within one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalJobPlan {
    pub span: TimeSpan,
    pub amounts: ResourceAmounts,
}

/// A job over sites, and its present plan.
#[derive(Debug, Clone)]
struct PlannedMetaJob {
    job: MetaJob,
    allowed: RescheduleOperations,
    turn: usize,
    plan: FlexPlan,
}

/// A site, and the plan of the jobs that it alone schedules.
#[derive(Debug, Clone)]
struct PlannedSite {
    timeline: Timeline,
    local: BTreeMap<JobId, LocalJobPlan>,
}

/// A job that starts earlier than it was planned, or elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedJob {
    pub job: JobId,
    /// The start before.
    pub from: Timestamp,
    /// The start now.
    pub to: Timestamp,
}

/// Sites, and all that is planned there.
#[derive(Debug, Clone, Default)]
pub struct SitePlans {
    sites: BTreeMap<SiteName, PlannedSite>,
    metas: BTreeMap<JobId, PlannedMetaJob>,
    turns: usize,
}

impl SitePlans {
    /// Adds a site with its free time.
    pub fn add_site(&mut self, name: SiteName, timeline: Timeline) {
        self.sites.insert(
            name,
            PlannedSite {
                timeline,
                local: BTreeMap::new(),
            },
        );
    }

    /// The free time of a site.
    pub fn timeline(&self, site: &SiteName) -> Option<&Timeline> {
        self.sites.get(site).map(|site| &site.timeline)
    }

    /// The place of a local job.
    pub fn local_job_plan(&self, site: &SiteName, job: JobId) -> Option<LocalJobPlan> {
        self.sites.get(site)?.local.get(&job).copied()
    }

    /// The plan of a job over sites.
    pub fn meta_job_plan(&self, job: JobId) -> Option<&FlexPlan> {
        self.metas.get(&job).map(|meta| &meta.plan)
    }

    /// Plans a local job at the earliest place. `None`: the site has too little for it.
    ///
    /// # Errors
    /// The site does not count what the job needs.
    pub fn submit_local_job(
        &mut self,
        site: &SiteName,
        job: JobId,
        need: (&Resources, DurationMs),
        now: Timestamp,
    ) -> Result<Option<LocalJobPlan>, ResourceKindsError> {
        let Some(site) = self.sites.get_mut(site) else {
            return Ok(None);
        };
        let amounts = site.timeline.to_amounts(need.0)?;
        let start = site
            .timeline
            .earliest_start(&OpeningRequest::after(now, amounts, need.1));
        Ok(start.map(|start| {
            let booking = LocalJobPlan {
                span: TimeSpan::new(start, start + need.1),
                amounts,
            };
            site.timeline.book(booking.span, &amounts);
            site.local.insert(job, booking);
            booking
        }))
    }

    /// Plans a job over sites in the shape that was asked for, next-fit. `None`: the sites together
    /// have too little, or not by its latest start.
    pub fn submit_meta_job(
        &mut self,
        id: JobId,
        job: MetaJob,
        allowed: RescheduleOperations,
        now: Timestamp,
    ) -> Option<&FlexPlan> {
        let turn = self.turns;
        self.turns += 1;
        let plan = plan_in_shape(&job, 0, &offers_of_sites(&self.sites), turn, now)?;
        self.occupy_or_release(&job, &plan, true);
        let meta = PlannedMetaJob {
            job,
            allowed,
            turn,
            plan,
        };
        self.metas.insert(id, meta);
        self.metas.get(&id).map(|meta| &meta.plan)
    }

    /// Ends or cancels a local job at `now`: what it had left is free. Returns the jobs that moved,
    /// in order; a job may move more than once.
    pub fn end_local_job(&mut self, name: &SiteName, job: JobId, now: Timestamp) -> Vec<MovedJob> {
        let Some(site) = self.sites.get_mut(name) else {
            return Vec::new();
        };
        let Some(LocalJobPlan { span, amounts }) = site.local.remove(&job) else {
            return Vec::new();
        };
        site.timeline
            .release(TimeSpan::new(span.from.max(now), span.to), &amounts);
        self.move_until_stable([name.clone()].into(), now)
    }

    /// Ends or cancels a job over sites at `now`.
    pub fn end_meta_job(&mut self, id: JobId, now: Timestamp) -> Vec<MovedJob> {
        let Some(PlannedMetaJob { job, mut plan, .. }) = self.metas.remove(&id) else {
            return Vec::new();
        };
        plan.start = plan.start.max(now);
        self.occupy_or_release(&job, &plan, false);
        let changed = plan.parts.iter().map(|(site, _)| site.clone()).collect();
        self.move_until_stable(changed, now)
    }

    /// Moves jobs until nothing moves any more.
    fn move_until_stable(
        &mut self,
        mut changed: BTreeSet<SiteName>,
        now: Timestamp,
    ) -> Vec<MovedJob> {
        let mut moved = Vec::new();
        while let Some(name) = changed.pop_first() {
            if let Some(site) = self.sites.get_mut(&name) {
                site.compress_plan(now, &mut moved);
            }
            changed.append(&mut self.move_meta_jobs(&name, now, &mut moved));
        }
        moved
    }

    /// Searches again for the jobs over sites at the front of a site's queue, while processors are
    /// idle there. Returns the sites whose plans changed.
    fn move_meta_jobs(
        &mut self,
        name: &SiteName,
        now: Timestamp,
        moved: &mut Vec<MovedJob>,
    ) -> BTreeSet<SiteName> {
        let mut changed = BTreeSet::new();
        for id in self.front_meta_jobs(name, now) {
            let idle = self
                .sites
                .get(name)
                .map(|site| site.timeline.least_free(instant_span(now)));
            if idle.is_none_or(|idle| idle.whole_processors() == 0) {
                break;
            }
            if let Some((old, new)) = self.move_meta_job(id, now) {
                moved.push(MovedJob {
                    job: id,
                    from: old.start,
                    to: new.start,
                });
                changed.extend(old.parts.into_iter().chain(new.parts).map(|(site, _)| site));
            }
        }
        changed
    }

    /// Lists the jobs over sites that wait at a site before its first local job.
    fn front_meta_jobs(&self, name: &SiteName, now: Timestamp) -> Vec<JobId> {
        let Some(site) = self.sites.get(name) else {
            return Vec::new();
        };
        let waiting = site.local.values().map(|booking| booking.span.from);
        let first = waiting
            .filter(|start| *start > now)
            .min()
            .unwrap_or(FOREVER);
        let front = self.metas.iter().filter(|(_, meta)| {
            meta.plan.parts.len() > 1
                && meta.plan.processors_at(name) > 0
                && (meta.plan.start > now && meta.plan.start <= first)
        });
        let mut front: Vec<_> = front.map(|(id, meta)| (meta.plan.start, *id)).collect();
        front.sort();
        front.into_iter().map(|(_, id)| id).collect()
    }

    /// Replaces the plan of a job by a better one, if there is one; returns both.
    fn move_meta_job(&mut self, id: JobId, now: Timestamp) -> Option<(FlexPlan, FlexPlan)> {
        let PlannedMetaJob {
            job,
            allowed,
            turn,
            plan: old,
        } = self.metas.get(&id)?.clone();
        self.occupy_or_release(&job, &old, false);
        let new = reschedule_job(
            &job,
            &old,
            allowed,
            &offers_of_sites(&self.sites),
            turn,
            now,
        );
        self.occupy_or_release(&job, new.as_ref().unwrap_or(&old), true);
        let new = new?;
        self.metas.get_mut(&id)?.plan = new.clone();
        Some((old, new))
    }

    /// Occupies the sites of a plan, or releases them.
    fn occupy_or_release(&mut self, job: &MetaJob, plan: &FlexPlan, is_booked: bool) {
        let Some(shape) = job.shapes.get(plan.shape) else {
            return;
        };
        for (name, count) in &plan.parts {
            let Some(site) = self.sites.get_mut(name) else {
                continue;
            };
            let Ok(amounts) = site
                .timeline
                .to_amounts(&shape.resources.portion_for(*count))
            else {
                continue;
            };
            if is_booked {
                site.timeline.book(plan.span(), &amounts)
            } else {
                site.timeline.release(plan.span(), &amounts)
            }
        }
    }
}

impl PlannedSite {
    /// Moves the waiting local jobs to earlier starts, in the order of their planned starts, until
    /// none moves; none starts later.
    fn compress_plan(&mut self, now: Timestamp, moved: &mut Vec<MovedJob>) {
        loop {
            let waiting = self
                .local
                .iter()
                .filter(|(_, booking)| booking.span.from > now);
            let mut order: Vec<_> = waiting.map(|(id, b)| (b.span.from, *id)).collect();
            order.sort();
            let before = moved.len();
            for (from, job) in order {
                if let Some(to) = self.move_earlier(job, now) {
                    moved.push(MovedJob { job, from, to });
                }
            }
            if moved.len() == before {
                return;
            }
        }
    }

    fn move_earlier(&mut self, job: JobId, now: Timestamp) -> Option<Timestamp> {
        let booking = self.local.get_mut(&job)?;
        let LocalJobPlan {
            span,
            amounts: need,
        } = *booking;
        let length = span.to.since(span.from);
        let wanted = OpeningRequest {
            need,
            length,
            from: now,
            before: span.from,
            until: span.from,
        };
        let start = self.timeline.earliest_start(&wanted)?;
        let earlier = TimeSpan::new(start, start + length);
        self.timeline
            .replace_booking((span, &need), (earlier, &need));
        booking.span = earlier;
        Some(start)
    }
}

fn offers_of_sites(sites: &BTreeMap<SiteName, PlannedSite>) -> Vec<OfferingSite<'_>> {
    sites
        .iter()
        .map(|(name, site)| OfferingSite {
            name,
            time: &site.timeline,
        })
        .collect()
}

fn instant_span(at: Timestamp) -> TimeSpan {
    TimeSpan::new(at, at + DurationMs(1))
}
