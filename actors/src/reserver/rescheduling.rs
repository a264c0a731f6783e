//! Brings reserved starts forward when sites have more free (FlexCo): one job at a time, earliest
//! start first, until none can be moved any more.
//!
//! The decision made here is only that a job is to look for a better plan. The job keeps its
//! reservations while it looks, until all of the new ones are confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actix::{AsyncContext, Context, Handler, SpawnHandle};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::{Job, ReschedulableJob};
use cospan_domain::placement::{GridSnapshot, PlacementAcceptance, place_parts};
use cospan_domain::reservation::flexco::{
    self, FlexPlan, MetaJob, OfferingSite, RescheduleOperations,
};
use cospan_domain::reservation::{TimeSpan, Timeline};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use futures_util::future::join_all;
use tracing::debug;

use super::division;
use super::reserver_actor::Reserver;
use crate::chaos::{self, CrashPoint};
use crate::context::SharedState;
use crate::job::{JobCommandMessage, job_actor};
use crate::site::free_slots;
use crate::supervision::{ActorKind, OwedAnswer};

/// The most slots that a site is asked for.
const SLOTS_MAX: usize = 1_000;
/// The most jobs that are looked at in one turn: those that start first.
const FRONT: usize = 64;
/// The pause between two turns, so that processors freed at about the same time count as one
/// change.
const GAP: DurationMs = DurationMs(1_000);
/// The pause before a job that could not be moved is tried again; doubles with each time.
const PAUSE: DurationMs = DurationMs(60_000);
/// The most doublings.
const DOUBLINGS: u32 = 6;

/// Jobs whose reserved starts may be brought forward, and what sites had free at the last look.
#[derive(Debug, Default)]
pub(super) struct ReschedulingState {
    jobs: BTreeMap<JobId, RescheduleFailures>,
    seen: BTreeMap<SiteName, IdleNowAndLater>,
    /// Sites whose free time has changed, and nobody could make use of all that yet.
    freed: BTreeSet<SiteName>,
    turn: RescheduleStage,
    wake: Option<SpawnHandle>,
}

/// The result of a job's earlier tries.
#[derive(Debug, Default)]
struct RescheduleFailures {
    /// The number of failures in a row.
    failures: u32,
    /// The job is not sent the command before this time.
    not_before: Timestamp,
}

/// The part of a site's report that matters here: idle processors, and what is left of them later,
/// step by step.
type IdleNowAndLater = (Option<Resources>, Vec<Resources>);

#[derive(Debug, Default, PartialEq, Eq)]
enum RescheduleStage {
    #[default]
    Rests,
    /// Sites are asked.
    Asks,
    /// This job got the command; its reserved start was then.
    Told(JobId, Timestamp),
}

/// Sites were asked.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(super) struct RescheduleOutcome {
    /// The job that got the command to look for a better plan, and its start.
    told: Option<(JobId, Timestamp)>,
    /// Sites with more free, of which other jobs may make use.
    freed: BTreeSet<SiteName>,
}

impl ReschedulingState {
    /// Returns true if reports of free processors are worth having.
    pub(super) fn follows_any_job(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Follows a job as it stands in the view.
    pub(super) fn update_reserved_job(&mut self, id: JobId, job: Option<&Job>, now: Timestamp) {
        let Some(job) = job.filter(|job| job.is_flexibly_reserved()) else {
            self.jobs.remove(&id);
            return self.end_turn_of(id);
        };
        let tried = self.jobs.entry(id).or_default();
        let Some(forward) = job.reschedulable_job(now) else {
            return;
        };
        if let RescheduleStage::Told(told, before) = self.turn
            && told == id
        {
            let has_moved = forward.present.start < before;
            tried.failures = if has_moved { 0 } else { tried.failures + 1 };
            let pause = if has_moved {
                0
            } else {
                PAUSE.0 << tried.failures.min(DOUBLINGS)
            };
            tried.not_before = now + DurationMs(pause);
            self.turn = RescheduleStage::Rests;
        }
    }

    fn end_turn_of(&mut self, id: JobId) {
        if matches!(self.turn, RescheduleStage::Told(told, _) if told == id) {
            self.turn = RescheduleStage::Rests;
        }
    }

    /// Notes the sites whose report differs from the last look, or is their first.
    fn note_changed_sites(&mut self, shared: &SharedState) {
        for (name, report) in shared.live.all_reports() {
            let idle = report.idle.as_ref().map(|(_, idle)| idle.clone());
            let left = report.ebbs.iter().map(|ebb| ebb.left.clone()).collect();
            let said = (idle, left);
            if self.seen.get(&name) != Some(&said) {
                self.seen.insert(name.clone(), said);
                self.freed.insert(name);
            }
        }
    }

    /// Lists the jobs that may get the command now, and when the next one may.
    fn due_jobs(&self, now: Timestamp) -> (Vec<JobId>, Option<Timestamp>) {
        let (due, later): (Vec<_>, Vec<_>) = self
            .jobs
            .iter()
            .partition(|(_, tried)| tried.not_before <= now);
        let next = later.into_iter().map(|(_, tried)| tried.not_before).min();
        (due.into_iter().map(|(id, _)| *id).collect(), next)
    }
}

impl Reserver {
    /// Looks for a reserved start that can be brought forward, if something was freed.
    pub(super) fn look_for_earlier_starts(&mut self, ctx: &mut Context<Self>) {
        if !self.forwarding.follows_any_job() {
            self.forwarding = ReschedulingState::default();
            return;
        }
        self.forwarding.note_changed_sites(&self.shared);
        if self.forwarding.turn != RescheduleStage::Rests
            || self.forwarding.freed.is_empty()
            || self.forwarding.wake.is_some()
        {
            return;
        }
        self.forwarding.wake = Some(ctx.run_later(Duration::from_millis(GAP.0), |this, ctx| {
            this.forwarding.wake = None;
            this.reschedule_one(ctx);
        }));
    }

    fn reschedule_one(&mut self, ctx: &mut Context<Self>) {
        let now = self.shared.clock.now();
        let (due, next) = self.forwarding.due_jobs(now);
        let front = first_jobs_to_start(&self.shared, &due, now);
        if self.forwarding.turn != RescheduleStage::Rests || front.is_empty() {
            self.reschedule_later(next.map(|next| next.since(now)), ctx);
            return;
        }
        self.forwarding.turn = RescheduleStage::Asks;
        let freed = std::mem::take(&mut self.forwarding.freed);
        let grid = self.grid.snapshot(&self.shared);
        let shared = self.shared.clone();
        let died = RescheduleOutcome {
            told: None,
            freed: freed.clone(),
        };
        let owed = OwedAnswer::new(ctx.address(), died);
        actix_rt::spawn(async move {
            chaos::reach_point(CrashPoint::SpawnedFuture);
            let told = command_first_movable(&shared, &grid, front, &freed).await;
            let freed = if told.is_some() {
                freed
            } else {
                BTreeSet::new()
            };
            owed.send_answer(RescheduleOutcome { told, freed }).await;
        });
    }

    fn reschedule_later(&mut self, pause: Option<DurationMs>, ctx: &mut Context<Self>) {
        let Some(pause) = pause.filter(|_| self.forwarding.wake.is_none()) else {
            return;
        };
        let pause = Duration::from_millis(pause.0.max(GAP.0));
        self.forwarding.wake = Some(ctx.run_later(pause, |this, ctx| {
            this.forwarding.wake = None;
            this.look_for_earlier_starts(ctx);
        }));
    }
}

/// Lists the first of these jobs to start, with what each of them has.
fn first_jobs_to_start(
    shared: &SharedState,
    due: &[JobId],
    now: Timestamp,
) -> Vec<(JobId, ReschedulableJob)> {
    let view = shared.view.load();
    let forward = due
        .iter()
        .filter_map(|id| Some((*id, view.jobs.get(id)?.reschedulable_job(now)?)));
    let mut front: Vec<_> = forward.collect();
    front.sort_by_key(|(id, forward)| (forward.present.start, *id));
    front.truncate(FRONT);
    front
}

/// Sends the first job that could have a better plan the command to look for it.
async fn command_first_movable(
    shared: &SharedState,
    grid: &GridSnapshot,
    front: Vec<(JobId, ReschedulableJob)>,
    freed: &BTreeSet<SiteName>,
) -> Option<(JobId, Timestamp)> {
    let ends = front
        .iter()
        .map(|(_, f)| f.present.start + longest_run_of(f))
        .max()?;
    let now = shared.clock.now();
    let free = ask_free_times(shared, grid, TimeSpan::new(now, ends)).await;
    let offers: Vec<OfferingSite<'_>> = free
        .iter()
        .map(|(name, time)| OfferingSite { name, time })
        .collect();
    for (job, forward) in front {
        let command = match &forward.divided {
            Some(divided) => plan_better_division(shared, grid, job, divided, &free, freed),
            None => plan_earlier_start(&forward, &offers, now, freed),
        };
        tokio::task::yield_now().await;
        let Some(command) = command else { continue };
        let present = forward.present;
        debug!(%job, ?command, ?present, "a better plan is free");
        if let Some(addr) = job_actor(shared, job).await
            && let Ok(Ok(())) = addr.send(JobCommandMessage(command)).await
        {
            return Some((job, present.start));
        }
    }
    None
}

fn plan_earlier_start(
    forward: &ReschedulableJob,
    offers: &[OfferingSite<'_>],
    now: Timestamp,
    freed: &BTreeSet<SiteName>,
) -> Option<JobCommand> {
    let ReschedulableJob {
        parts,
        present,
        window,
        ..
    } = forward;
    let plan = flexco::reschedule_parts(parts, present, offers, *window, now)?;
    let freed = freed_sites_used(plan.sites.iter(), freed);
    Some(JobCommand::BringForward { plan, freed })
}

/// Plans a better division of a flexible job, beside what it has.
fn plan_better_division(
    shared: &SharedState,
    grid: &GridSnapshot,
    job: JobId,
    (meta, present): &(MetaJob, FlexPlan),
    free: &BTreeMap<SiteName, Timeline>,
    freed: &BTreeSet<SiteName>,
) -> Option<JobCommand> {
    let view = shared.view.load();
    let job = view.jobs.get(&job)?;
    let now = shared.clock.now();
    let offers = division::free_offers_for_job(shared, grid, job, free, now);
    let offers = division::as_site_offers(&offers);
    let turn = division::first_site_index(job.id);
    let all = RescheduleOperations {
        shift: true,
        remap: true,
        mold: true,
    };
    let plan = flexco::reschedule_job(meta, present, all, &offers, turn, now)?;
    let placements = place_parts(job, &plan.parts, grid, &shared.settings.default_policies)?;
    let freed = freed_sites_used(plan.parts.iter().map(|(site, _)| site), freed);
    Some(JobCommand::DivideAnew {
        plan,
        placements,
        freed,
    })
}

fn longest_run_of(forward: &ReschedulableJob) -> DurationMs {
    match &forward.divided {
        Some((job, _)) => job.longest_run(),
        None => forward
            .parts
            .iter()
            .map(|part| part.length)
            .max()
            .unwrap_or_default(),
    }
}

/// Lists the sites that made a plan possible: the changed ones among its sites, or else all that
/// changed.
fn freed_sites_used<'a>(
    sites: impl Iterator<Item = &'a SiteName> + Clone,
    freed: &BTreeSet<SiteName>,
) -> Vec<SiteName> {
    let there: Vec<SiteName> = freed
        .iter()
        .filter(|name| sites.clone().any(|site| site == *name))
        .cloned()
        .collect();
    if there.is_empty() {
        freed.iter().cloned().collect()
    } else {
        there
    }
}

/// Asks the sites that take reservations what they have free, as they publish it. A site that does
/// not answer offers nothing.
pub(super) async fn ask_free_times(
    shared: &SharedState,
    grid: &GridSnapshot,
    span: TimeSpan,
) -> BTreeMap<SiteName, Timeline> {
    let sites = grid
        .sites()
        .iter()
        .filter(|site| site.acceptance == PlacementAcceptance::Open);
    let granting = sites.filter_map(|site| {
        let shape = site.shape.as_ref().filter(|shape| shape.reservations)?;
        Some((&site.name, &shape.total))
    });
    let free = granting.map(|(name, total)| async move {
        let slots = free_slots(shared, name, span, SLOTS_MAX).await.ok()?;
        Some((
            name.clone(),
            flexco::timeline_of_slots(total, span.from, &slots).ok()?,
        ))
    });
    join_all(free).await.into_iter().flatten().collect()
}

impl Handler<RescheduleOutcome> for Reserver {
    type Result = ();

    fn handle(&mut self, done: RescheduleOutcome, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Reserver);
        self.forwarding.freed.extend(done.freed);
        self.forwarding.turn = RescheduleStage::Rests;
        if let Some((id, start)) = done.told {
            self.forwarding.turn = RescheduleStage::Told(id, start);
            let view = self.shared.view.load();
            let now = self.shared.clock.now();
            self.forwarding
                .update_reserved_job(id, view.jobs.get(&id).map(AsRef::as_ref), now);
        }
        self.look_for_earlier_starts(ctx);
    }
}
