//! Jobs that want a reservation: told which sites may be asked, in which order. They wait in no
//! placement queue, as nothing has to be idle for them now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context, Handler, SpawnHandle};
use cospan_domain::ids::{ComponentIndex, JobId, KeyName, SiteName};
use cospan_domain::job::command::JobCommand;
use cospan_domain::job::reservation::Outlook;
use cospan_domain::job::state::{Job, JobPhase};
use cospan_domain::placed::Placement;
use cospan_domain::placement::{
    GridSite, GridSnapshot, PlacementAcceptance, PlacementRequest, could_be_reserved,
    rank_to_reserve, rank_unreserved,
};
use cospan_domain::reserve::{Ranking, Span, Timeline};
use cospan_domain::units::{DurationMs, Timestamp};

use super::actor::CoAllocator;
use super::dividing::is_divided;
use super::forward::free_times;
use super::grid::GridMaker;
use crate::chaos::{self, CrashPoint};
use crate::job::JobOrder;
use crate::shared::Shared;
use crate::supervision::{ActorKind, OwedAnswer};

/// Jobs that wait to be told.
#[derive(Debug, Default)]
pub(super) struct Seeking {
    /// Each with the time before which it is not to be told.
    jobs: BTreeMap<JobId, Timestamp>,
    /// Those that are being told.
    told: BTreeSet<JobId>,
    wake: Option<SpawnHandle>,
}

/// A job was told which sites it may ask.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(super) struct ReservationSitesSent(JobId);

impl Seeking {
    /// A job as it stands in the view.
    pub(super) fn fold(&mut self, id: JobId, job: Option<&Job>) {
        let seeking = job.filter(|job| job.seeks_reservation());
        match seeking.and_then(|job| Some((&job.phase, job.reservation_asked_at()?))) {
            Some((JobPhase::Queued { not_before, .. }, asked_at)) => {
                self.jobs.insert(id, asked_at.max(*not_before));
            }
            Some(_) | None => drop(self.jobs.remove(&id)),
        }
    }

    pub(super) fn begin_to_tell(&mut self, job: JobId) {
        self.told.insert(job);
    }

    /// It was told, or is not to be before that.
    pub(super) fn told_or_later(&mut self, job: JobId, not_before: Timestamp) {
        self.told.remove(&job);
        self.jobs
            .entry(job)
            .and_modify(|time| *time = not_before.max(*time));
    }

    fn untold(&self) -> Vec<(JobId, Timestamp)> {
        let jobs = self.jobs.iter().filter(|(id, _)| !self.told.contains(id));
        jobs.map(|(id, not_before)| (*id, *not_before)).collect()
    }
}

impl CoAllocator {
    /// Tells those whose time has come, as far as there are sites to ask.
    pub(super) fn tell_seeking(&mut self, ctx: &mut Context<Self>) {
        if self.seeking.jobs.is_empty() {
            return;
        }
        let view = self.shared.view.load();
        let now = self.shared.clock.now();
        let untold = self.seeking.untold();
        let mut next = untold
            .iter()
            .map(|(_, time)| *time)
            .filter(|time| *time > now)
            .min();
        let due = untold
            .into_iter()
            .filter(|(_, not_before)| *not_before <= now);
        let due: Vec<&Arc<Job>> = due.filter_map(|(id, _)| view.jobs.get(&id)).collect();
        if !due.is_empty() {
            let grid = self.grid.snapshot(&self.shared);
            let mut to_rank = Vec::new();
            for job in due {
                if is_divided(job) {
                    self.divide(job, &grid, ctx);
                    continue;
                }
                match sites_for(&self.shared, job, &grid, now) {
                    Ok(candidates) if job.ranks_sites() => to_rank.push((job.clone(), candidates)),
                    Ok(candidates) => self.tell_sites(job, candidates, ctx),
                    Err(later) => next = Some(next.map_or(later, |next| next.min(later))),
                }
            }
            if !to_rank.is_empty() {
                self.rank_and_tell(to_rank, grid, ctx);
            }
        }
        self.wake_seeking(next.map(|next| next.since(now)), ctx);
    }

    fn tell_sites(&mut self, job: &Job, sites: Candidates, ctx: &mut Context<Self>) {
        self.seeking.told.insert(job.id);
        let Candidates {
            reserved: candidates,
            unreserved,
        } = sites;
        let rankings = Vec::new();
        let wish = job.reservation_wish();
        let reserve = JobCommand::Reserve {
            candidates,
            unreserved,
            rankings,
            wish,
        };
        self.order_job(job.id, reserve, ReservationSitesSent(job.id), ctx);
    }

    /// Sites are put in the order that each of these jobs prefers, by what they publish, before it
    /// is told.
    fn rank_and_tell(
        &mut self,
        jobs: Vec<(Arc<Job>, Candidates)>,
        grid: Arc<GridSnapshot>,
        ctx: &mut Context<Self>,
    ) {
        self.seeking.told.extend(jobs.iter().map(|(job, _)| job.id));
        let shared = self.shared.clone();
        let jobs: Vec<_> = jobs
            .into_iter()
            .map(|(job, sites): (Arc<Job>, Candidates)| {
                let owed = OwedAnswer::new(ctx.address(), ReservationSitesSent(job.id));
                (job, sites, owed)
            })
            .collect();
        actix_rt::spawn(async move {
            chaos::reach(CrashPoint::SpawnedFuture);
            let free = free_for(&shared, &grid, jobs.iter().map(|(job, ..)| &**job)).await;
            for (job, sites, owed) in jobs {
                let Candidates {
                    reserved: mut candidates,
                    unreserved,
                } = sites;
                let rankings = rank(&shared, &job, &mut candidates, &free);
                let wish = job.reservation_wish();
                let reserve = JobCommand::Reserve {
                    candidates,
                    unreserved,
                    rankings,
                    wish,
                };
                if let Some(addr) = shared.job_actor(job.id).await {
                    let _ = addr.send(JobOrder(reserve)).await;
                }
                owed.settle_so().await;
            }
        });
    }

    /// What a job was told may have come to nothing.
    pub(super) fn look_at_seeking_soon(&mut self, ctx: &mut Context<Self>) {
        self.wake_seeking(Some(DurationMs(20)), ctx);
    }

    fn wake_seeking(&mut self, pause: Option<DurationMs>, ctx: &mut Context<Self>) {
        if let Some(handle) = self.seeking.wake.take() {
            ctx.cancel_future(handle);
        }
        self.seeking.wake = pause.map(|pause| {
            ctx.run_later(Duration::from_millis(pause.0.max(5)), |this, ctx| {
                this.seeking.wake = None;
                this.tell_seeking(ctx);
            })
        });
    }
}

/// How the sites would be ranked now that a job may ask, by component; nothing if it does not say
/// by what. Nobody reserves anything.
pub(crate) async fn would_rank(shared: &Shared, job: &Job) -> Vec<Ranking> {
    if !job.ranks_sites() {
        return Vec::new();
    }
    let grid = GridMaker::default().snapshot(shared);
    let free = free_for(shared, &grid, std::iter::once(job)).await;
    rank(
        shared,
        job,
        &mut Candidates::of(shared, job, &grid).reserved,
        &free,
    )
}

/// What sites have free for as long as one of these jobs may run.
async fn free_for(
    shared: &Shared,
    grid: &GridSnapshot,
    jobs: impl Iterator<Item = &Job>,
) -> BTreeMap<SiteName, Timeline> {
    let now = shared.clock.now();
    let ends = jobs
        .filter_map(|job: &Job| {
            let wish = job.reservation_wish()?;
            let length = job.spec.wall_time + shared.settings.job.beyond_wall_time();
            Some(wish.window.latest + job.spec.longest_offset() + length + wish.tolerance)
        })
        .max()
        .unwrap_or_default();
    free_times(shared, grid, Span::new(now, ends.max(now))).await
}

/// Puts the sites that a job with preferences may ask, by component, in order; says how.
fn rank(
    shared: &Shared,
    job: &Job,
    candidates: &mut [Vec<Placement>],
    free: &BTreeMap<SiteName, Timeline>,
) -> Vec<Ranking> {
    let Some(wish) = job.reservation_wish() else {
        return Vec::new();
    };
    let outlook = Outlook {
        free,
        scores: &shared.settings.scores,
        now: shared.clock.now(),
    };
    let starts = (wish.window, wish.tolerance);
    job.spec
        .rank_candidates(candidates, starts, &outlook, &shared.settings.job)
}

/// The sites that a job may ask, or when to look again: while some that could serve it may turn
/// up, it waits for them, until it is too late.
fn sites_for(
    shared: &Shared,
    job: &Job,
    grid: &GridSnapshot,
    now: Timestamp,
) -> Result<Candidates, Timestamp> {
    let candidates = Candidates::of(shared, job, grid);
    // Who can do without goes on without.
    let may_wait = job.claims_first() || may_change(grid, &job.owner);
    let waits = candidates.lack_some(job, grid) && may_wait;
    let latest = job.reservation_wish().map(|wish| wish.window.latest);
    match latest.filter(|latest| waits && now <= *latest) {
        Some(latest) => Err(latest + DurationMs(1)),
        None => Ok(candidates),
    }
}

/// By component: where it would go, the best site first.
#[derive(Debug)]
struct Candidates {
    /// Of the sites that grant reservations.
    reserved: Vec<Vec<Placement>>,
    /// Of those that grant none, if its user lets it be claimed there.
    unreserved: Vec<Vec<Placement>>,
}

impl Candidates {
    fn of(shared: &Shared, job: &Job, grid: &GridSnapshot) -> Self {
        let defaults = &shared.settings.default_policies;
        let without = job.reservation_wish().is_some_and(|wish| wish.unreserved);
        let indexes = (0..job.spec.components.len() as u32).map(ComponentIndex);
        let requests = indexes.map(|index| PlacementRequest::of_one(job, index, defaults));
        let ranked = requests.map(|request| {
            let Some(request) = request else {
                return (Vec::new(), Vec::new());
            };
            let request = shared.asked_by(Arc::new(request), &job.owner);
            let reserved = rank_to_reserve(&request, grid);
            // What a site could promise that takes nothing now is not claimed elsewhere meanwhile.
            let claimed = without && reserved.is_empty() && !could_be_reserved(&request, grid);
            (
                reserved,
                if claimed {
                    rank_unreserved(&request, grid)
                } else {
                    Vec::new()
                },
            )
        });
        let (reserved, unreserved) = ranked.unzip();
        Self {
            reserved,
            unreserved,
        }
    }

    /// Whether a component has no site now, or only such as grant nothing while others have not
    /// been heard from that it could go to, too.
    fn lack_some(&self, job: &Job, grid: &GridSnapshot) -> bool {
        let unknown = grid
            .sites()
            .iter()
            .any(|site| site.grants_reservations().is_none());
        let both = self
            .reserved
            .iter()
            .zip(&self.unreserved)
            .zip(&job.spec.components);
        both.into_iter().any(|((reserved, unreserved), component)| {
            let may_go_elsewhere = unknown && component.site.is_none();
            reserved.is_empty() && (unreserved.is_empty() || may_go_elsewhere)
        })
    }
}

/// Whether some site may still turn out to grant reservations, or take placements of this owner
/// again.
pub(super) fn may_change(grid: &GridSnapshot, owner: &KeyName) -> bool {
    let is_closed = |site: &GridSite| {
        site.acceptance_of_promised() != PlacementAcceptance::Open
            || site.ban_of(Some(owner)).is_some()
    };
    grid.sites()
        .iter()
        .any(|site: &GridSite| match site.grants_reservations() {
            Some(grants) => grants && is_closed(site),
            None => true,
        })
}

impl Handler<ReservationSitesSent> for CoAllocator {
    type Result = ();

    fn handle(&mut self, ReservationSitesSent(job): ReservationSitesSent, ctx: &mut Context<Self>) {
        chaos::enter(ActorKind::CoAllocator);
        self.seeking.told.remove(&job);
        self.look_at_seeking_soon(ctx);
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::placement::{Network, SiteShape};
    use cospan_domain::resources::Resources;
    use cospan_domain::site::owners::Ban;

    use super::*;

    #[test]
    fn a_site_that_takes_none_of_an_owners_jobs_may_take_them_again() {
        let [mallory, alice] = ["mallory", "alice"].map(|name| KeyName::new(name).expect("a name"));
        let shape = SiteShape {
            total: Resources::processors(8),
            largest_component: Resources::processors(8),
            labels: Default::default(),
            queues: false,
            queues_only: false,
            reservations: true,
            lanes: None,
        };
        let site = GridSite {
            shape: Some(Arc::new(shape)),
            acceptance: PlacementAcceptance::Open,
            bans: [(mallory.clone(), Ban::Probed)].into(),
            ..GridSite::unheard(SiteName::new("delft").expect("a name"))
        };
        let catalogue = Arc::new(BTreeMap::<_, BTreeSet<SiteName>>::new());
        let network = Arc::new(Network::from_links(std::iter::empty()));
        let grid = GridSnapshot::new([site], network, catalogue);
        assert!(may_change(&grid, &mallory));
        assert!(!may_change(&grid, &alice), "all is known");
    }
}
