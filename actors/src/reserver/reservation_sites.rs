//! Jobs that want a reservation: sent the sites that they may ask, in order. They wait in no
//! placement queue, as nothing has to be idle for them now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context, Handler, SpawnHandle};
use cospan_domain::ids::{ComponentIndex, JobId, KeyName, SiteName};
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::reservations::RankingKnowledge;
use cospan_domain::placed::Placement;
use cospan_domain::placement::{
    GridSite, GridSnapshot, PlacementAcceptance, PlacementRequest, could_be_reserved,
    rank_reservable_sites, rank_unreserved_sites,
};
use cospan_domain::reservation::{SiteRanking, TimeSpan, Timeline};
use cospan_domain::units::{DurationMs, Timestamp};

use super::division::needs_division;
use super::rescheduling::ask_free_times;
use super::reserver_actor::Reserver;
use crate::chaos::{self, CrashPoint};
use crate::context::SharedState;
use crate::grid_snapshot::GridSnapshotMaker;
use crate::job::{JobCommandMessage, job_actor, send_job_command};
use crate::supervision::{ActorKind, OwedAnswer};

/// Jobs that wait for their sites.
#[derive(Debug, Default)]
pub(super) struct ReservationSeekers {
    /// The jobs, each with the time before which it is not sent its sites.
    jobs: BTreeMap<JobId, Timestamp>,
    /// Jobs whose command is under way.
    told: BTreeSet<JobId>,
    wake: Option<SpawnHandle>,
}

/// A job was sent the sites that it may ask.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(super) struct ReservationSitesSent(JobId);

impl ReservationSeekers {
    /// Follows a job as it stands in the view.
    pub(super) fn update_seeking_job(&mut self, id: JobId, job: Option<&Job>) {
        let seeking = job.filter(|job| job.seeks_reservation());
        match seeking.and_then(|job| Some((&job.phase, job.reservation_due_at()?))) {
            Some((JobPhase::Queued { not_before, .. }, asked_at)) => {
                self.jobs.insert(id, asked_at.max(*not_before));
            }
            Some(_) | None => drop(self.jobs.remove(&id)),
        }
    }

    pub(super) fn mark_sending(&mut self, job: JobId) {
        self.told.insert(job);
    }

    /// Notes that a job's command is over, or is not to be sent before that time.
    pub(super) fn mark_sent_or_postponed(&mut self, job: JobId, not_before: Timestamp) {
        self.told.remove(&job);
        self.jobs
            .entry(job)
            .and_modify(|time| *time = not_before.max(*time));
    }

    /// The number of jobs whose command is under way.
    pub(super) fn commands_under_way(&self) -> usize {
        self.told.len()
    }

    fn jobs_to_send_sites(&self) -> Vec<(JobId, Timestamp)> {
        let jobs = self.jobs.iter().filter(|(id, _)| !self.told.contains(id));
        jobs.map(|(id, not_before)| (*id, *not_before)).collect()
    }
}

impl Reserver {
    /// Sends the jobs whose time has come their sites, as far as there are sites to ask.
    pub(super) fn send_due_sites(&mut self, ctx: &mut Context<Self>) {
        if self.seeking.jobs.is_empty() {
            return;
        }
        let view = self.shared.view.load();
        let now = self.shared.clock.now();
        let untold = self.seeking.jobs_to_send_sites();
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
                if needs_division(job) {
                    self.divide_job(job, &grid, ctx);
                    continue;
                }
                match candidate_sites_for(&self.shared, job, &grid, now) {
                    Ok(candidates) if job.has_ranking_preferences() => {
                        to_rank.push((job.clone(), candidates))
                    }
                    Ok(candidates) => self.send_sites(job, candidates, ctx),
                    Err(later) => next = Some(next.map_or(later, |next| next.min(later))),
                }
            }
            if !to_rank.is_empty() {
                self.rank_and_send(to_rank, grid, ctx);
            }
        }
        self.schedule_seeking_look(next.map(|next| next.since(now)), ctx);
    }

    fn send_sites(&mut self, job: &Job, sites: CandidatePlacements, ctx: &mut Context<Self>) {
        self.seeking.told.insert(job.id);
        let CandidatePlacements {
            reserved: candidates,
            unreserved,
        } = sites;
        let rankings = Vec::new();
        let wish = job.reservation_terms();
        let reserve = JobCommand::Reserve {
            candidates,
            unreserved,
            rankings,
            wish,
        };
        let heard = ReservationSitesSent(job.id);
        send_job_command(&self.shared, job.id, reserve, heard, ctx.address());
    }

    /// Ranks the sites for each of these jobs by its preferences and by what the sites publish,
    /// then sends the job its sites.
    fn rank_and_send(
        &mut self,
        jobs: Vec<(Arc<Job>, CandidatePlacements)>,
        grid: Arc<GridSnapshot>,
        ctx: &mut Context<Self>,
    ) {
        self.seeking.told.extend(jobs.iter().map(|(job, _)| job.id));
        let shared = self.shared.clone();
        let jobs: Vec<_> = jobs
            .into_iter()
            .map(|(job, sites): (Arc<Job>, CandidatePlacements)| {
                let owed = OwedAnswer::new(ctx.address(), ReservationSitesSent(job.id));
                (job, sites, owed)
            })
            .collect();
        actix_rt::spawn(async move {
            chaos::reach_point(CrashPoint::SpawnedFuture);
            let free =
                ask_free_times_for_jobs(&shared, &grid, jobs.iter().map(|(job, ..)| &**job)).await;
            for (job, sites, owed) in jobs {
                let CandidatePlacements {
                    reserved: mut candidates,
                    unreserved,
                } = sites;
                let rankings = rank_candidates_of(&shared, &job, &mut candidates, &free);
                let wish = job.reservation_terms();
                let reserve = JobCommand::Reserve {
                    candidates,
                    unreserved,
                    rankings,
                    wish,
                };
                if let Some(addr) = job_actor(&shared, job.id).await {
                    let _ = addr.send(JobCommandMessage(reserve)).await;
                }
                owed.send_default_answer().await;
            }
        });
    }

    /// Looks again soon, as a command to a job may have come to nothing.
    pub(super) fn look_at_seeking_soon(&mut self, ctx: &mut Context<Self>) {
        self.schedule_seeking_look(Some(DurationMs(20)), ctx);
    }

    fn schedule_seeking_look(&mut self, pause: Option<DurationMs>, ctx: &mut Context<Self>) {
        if let Some(handle) = self.seeking.wake.take() {
            ctx.cancel_future(handle);
        }
        self.seeking.wake = pause.map(|pause| {
            ctx.run_later(Duration::from_millis(pause.0.max(5)), |this, ctx| {
                this.seeking.wake = None;
                this.send_due_sites(ctx);
            })
        });
    }
}

/// Ranks the sites that a job may ask, as of now, by component; empty if the job names no ranking.
/// Nothing is reserved.
pub(crate) async fn preview_ranking(shared: &SharedState, job: &Job) -> Vec<SiteRanking> {
    if !job.has_ranking_preferences() {
        return Vec::new();
    }
    let grid = GridSnapshotMaker::default().snapshot(shared);
    let free = ask_free_times_for_jobs(shared, &grid, std::iter::once(job)).await;
    rank_candidates_of(
        shared,
        job,
        &mut CandidatePlacements::from_grid(shared, job, &grid).reserved,
        &free,
    )
}

/// Asks sites what they have free for as long as one of these jobs may run.
async fn ask_free_times_for_jobs(
    shared: &SharedState,
    grid: &GridSnapshot,
    jobs: impl Iterator<Item = &Job>,
) -> BTreeMap<SiteName, Timeline> {
    let now = shared.clock.now();
    let ends = jobs
        .filter_map(|job: &Job| {
            let wish = job.reservation_terms()?;
            let length = job.spec.wall_time + shared.settings.job.holding_beyond_wall_time();
            Some(wish.window.latest + job.spec.longest_offset() + length + wish.tolerance)
        })
        .max()
        .unwrap_or_default();
    ask_free_times(shared, grid, TimeSpan::new(now, ends.max(now))).await
}

/// Sorts the sites that a job with preferences may ask, by component; returns how.
fn rank_candidates_of(
    shared: &SharedState,
    job: &Job,
    candidates: &mut [Vec<Placement>],
    free: &BTreeMap<SiteName, Timeline>,
) -> Vec<SiteRanking> {
    let Some(wish) = job.reservation_terms() else {
        return Vec::new();
    };
    let outlook = RankingKnowledge {
        free,
        scores: &shared.settings.scores,
        now: shared.clock.now(),
    };
    let starts = (wish.window, wish.tolerance);
    job.spec
        .rank_candidates(candidates, starts, &outlook, &shared.settings.job)
}

/// Returns the sites that a job may ask, or when to look again: while some that could serve it may
/// turn up, it waits for them, until it is too late.
fn candidate_sites_for(
    shared: &SharedState,
    job: &Job,
    grid: &GridSnapshot,
    now: Timestamp,
) -> Result<CandidatePlacements, Timestamp> {
    let candidates = CandidatePlacements::from_grid(shared, job, grid);
    // A job that can do without them goes on without.
    let may_wait = job.claims_first() || can_gain_reserving_sites(grid, &job.owner);
    let waits = candidates.has_missing_sites(job, grid) && may_wait;
    let latest = job.reservation_terms().map(|wish| wish.window.latest);
    match latest.filter(|latest| waits && now <= *latest) {
        Some(latest) => Err(latest + DurationMs(1)),
        None => Ok(candidates),
    }
}

/// Placements by component, the best site first.
#[derive(Debug)]
struct CandidatePlacements {
    /// At sites that offer reservations.
    reserved: Vec<Vec<Placement>>,
    /// At sites that offer none, if its user lets it be claimed there.
    unreserved: Vec<Vec<Placement>>,
}

impl CandidatePlacements {
    fn from_grid(shared: &SharedState, job: &Job, grid: &GridSnapshot) -> Self {
        let defaults = &shared.settings.default_policies;
        let without = job.reservation_terms().is_some_and(|wish| wish.unreserved);
        let indexes = (0..job.spec.components.len() as u32).map(ComponentIndex);
        let requests =
            indexes.map(|index| PlacementRequest::of_single_component(job, index, defaults));
        let ranked = requests.map(|request| {
            let Some(request) = request else {
                return (Vec::new(), Vec::new());
            };
            let request = shared.add_owner_if_barred(Arc::new(request), &job.owner);
            let reserved = rank_reservable_sites(&request, grid);
            // A component that a site could reserve, but takes nothing now, is not claimed
            // elsewhere meanwhile.
            let claimed = without && reserved.is_empty() && !could_be_reserved(&request, grid);
            (
                reserved,
                if claimed {
                    rank_unreserved_sites(&request, grid)
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

    /// Returns true if a component has no site now, or only sites without reservations while others
    /// that it could go to have not answered yet.
    fn has_missing_sites(&self, job: &Job, grid: &GridSnapshot) -> bool {
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

/// Returns true if some site may still turn out to offer reservations, or take placements of this
/// owner again.
pub(super) fn can_gain_reserving_sites(grid: &GridSnapshot, owner: &KeyName) -> bool {
    grid.sites()
        .iter()
        .any(|site: &GridSite| match site.grants_reservations() {
            Some(grants) => {
                let is_open = site.acceptance_of_reserved() == PlacementAcceptance::Open;
                grants && (!is_open || site.ban_of_owner(Some(owner)).is_some())
            }
            None => true,
        })
}

impl Handler<ReservationSitesSent> for Reserver {
    type Result = ();

    fn handle(&mut self, ReservationSitesSent(job): ReservationSitesSent, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Reserver);
        self.seeking.told.remove(&job);
        self.show_depth();
        self.look_at_seeking_soon(ctx);
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::placement::{SiteNetwork, SiteProperties};
    use cospan_domain::resources::Resources;
    use cospan_domain::site::barred_owners_record::OwnerBan;

    use super::*;

    #[test]
    fn a_site_that_takes_none_of_an_owners_jobs_may_take_them_again() {
        let [mallory, alice] = ["mallory", "alice"].map(|name| KeyName::new(name).expect("a name"));
        let shape = SiteProperties {
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
            bans: [(mallory.clone(), OwnerBan::Probed)].into(),
            ..GridSite::never_answered(SiteName::new("delft").expect("a name"))
        };
        let catalogue = Arc::new(BTreeMap::<_, BTreeSet<SiteName>>::new());
        let network = Arc::new(SiteNetwork::from_links(std::iter::empty()));
        let grid = GridSnapshot::new([site], network, catalogue);
        assert!(can_gain_reserving_sites(&grid, &mallory));
        assert!(!can_gain_reserving_sites(&grid, &alice), "all is known");
    }
}
