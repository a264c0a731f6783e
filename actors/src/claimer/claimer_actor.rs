//! The claimer: the claiming queue, in order of claiming time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler};
use cospan_domain::claim::{ClaimTry, ClaimingQueue, plan_claim};
use cospan_domain::deduction::DeductedAmounts;
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_command::{JobCommand, JobSurroundings};
use cospan_domain::job::job_state::{Component, Job};
use cospan_domain::units::{DurationMs, Timestamp};
use tracing::debug;

use super::claim_snapshot::ClaimPass;
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::commits::ChangedObjects;
use crate::context::SharedState;
use crate::deductions::DeductionHolder;
use crate::grid_snapshot::GridSnapshotMaker;
use crate::job::{self, JobCommandMessage, job_actor};
use crate::supervision::{ActorId, ActorKind, LifeGuard, OwedAnswer};

/// A report this old when a try is due is as good as a new one.
const FRESH: DurationMs = DurationMs(1_000);
/// A site that has not answered for this long since a try was due is judged by its last report.
const PATIENCE: DurationMs = DurationMs(5_000);
/// The pause before a try that its job did not take is made again, and between looks at silent
/// sites.
const AGAIN: Duration = Duration::from_millis(250);

/// The actor that keeps the claiming queue, and a timer for each job in it.
pub struct Claimer {
    shared: Arc<SharedState>,
    /// Jobs whose place in the queue may have changed.
    changed: ChangedObjects<JobId>,
    queue: ClaimingQueue,
    grid: GridSnapshotMaker,
    /// The times at which tries that wait for fresh reports became due.
    awaited: BTreeMap<JobId, Timestamp>,
    /// Jobs that were sent a try and did not answer yet, however long that takes.
    under_way: BTreeSet<JobId>,
    /// Deductions for those tries.
    plans: DeductionHolder,
    depth: prometheus::IntGauge,
    looks_again: bool,
    dirty: DirtyFlag,
    _guard: LifeGuard,
}

/// A job's answer to a try.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct JobTookTry {
    job: JobId,
    taken: bool,
}

impl Claimer {
    /// Begins a new life: the queue is made anew from the view.
    pub(crate) fn new(
        shared: Arc<SharedState>,
        changed: ChangedObjects<JobId>,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        let depth = shared.metrics.mailbox_depth.with_label_values(&["claimer"]);
        depth.set(0);
        Self {
            depth,
            changed,
            queue: ClaimingQueue::default(),
            grid: GridSnapshotMaker::default(),
            awaited: BTreeMap::new(),
            under_way: BTreeSet::new(),
            plans: DeductionHolder::new(shared.deductions.clone(), shared.view.clone()),
            looks_again: false,
            shared,
            dirty,
            _guard: guard,
        }
    }

    fn update_queued_job(&mut self, id: JobId, job: Option<&Job>, now: Timestamp) {
        match job.and_then(|job| job.next_claim_time(&self.shared.settings.job)) {
            Some(at) if self.queue.time_of(id) != Some(at) => {
                self.awaited.remove(&id);
                self.queue.set_time(id, at);
                // Due jobs are looked at right after this.
                if at > now {
                    self.shared.start_actor(ActorId::ClaimTimer(id));
                }
            }
            Some(_) => {}
            None => {
                self.awaited.remove(&id);
                self.queue.remove(id);
            }
        }
    }

    fn look_at_queue(&mut self, ctx: &mut Context<Self>) {
        self.dirty.take_owed_look();
        let view = self.shared.view.load();
        let now = self.shared.clock.now();
        for id in self.changed.take() {
            self.update_queued_job(id, view.jobs.get(&id).map(AsRef::as_ref), now);
        }
        self.send_due_tries(ctx);
    }

    /// Plans due claims in order of claiming time, each on what those before it leave.
    fn send_due_tries(&mut self, ctx: &mut Context<Self>) {
        let now = self.shared.clock.now();
        // A job that does not answer is not asked again: it may have written what it decided.
        self.plans.take_expired_jobs(now);
        let view = self.shared.view.load();
        let due: Vec<JobId> = self.queue.due_jobs(now).map(|(_, job)| job).collect();
        let ready: Vec<&Arc<Job>> = due
            .iter()
            .filter(|job| !self.under_way.contains(job))
            .filter_map(|job| view.jobs.get(job))
            .filter(|job| job.held.is_none())
            .collect();
        let all = ready.len();
        let ready: Vec<_> = ready
            .into_iter()
            .filter(|job| self.has_fresh_reports(job, now))
            .collect();
        if ready.len() < all {
            self.schedule_next_look(ctx);
        }
        if ready.is_empty() {
            return;
        }
        let parameters = &self.shared.settings.job.claim;
        let mut field = ClaimPass::new(&self.shared, &mut self.grid);
        let tries: Vec<(Arc<Job>, ClaimTry)> = ready
            .into_iter()
            .map(|job| (job.clone(), plan_claim(job, parameters, now, &mut field)))
            .collect();
        for (job, attempt) in tries {
            self.send_claim_try(&job, attempt, ctx);
        }
    }

    /// Returns true if the sites of the job's unclaimed components have just reported what is idle;
    /// asks them if not. No job waits long for a silent site.
    fn has_fresh_reports(&mut self, job: &Job, now: Timestamp) -> bool {
        let asks = !self.awaited.contains_key(&job.id);
        let since = *self.awaited.entry(job.id).or_insert(now);
        if now >= since + PATIENCE {
            return true;
        }
        let live = &self.shared.live;
        let mut informed = true;
        for (site, oldest) in self.sites_to_report(job, since, now) {
            let report = live.site_report(&site).unwrap_or_default();
            let fresh = report
                .idle
                .as_ref()
                .is_some_and(|(asked_at, _)| *asked_at >= oldest);
            if !fresh && report.contact.is_answering() {
                informed = false;
                if asks {
                    live.request_fresh_report(&site, now);
                    self.shared
                        .actors
                        .request_look_of(&ActorId::Cluster(site.clone()));
                }
            }
        }
        informed
    }

    /// Lists the sites that a try which became due at `since` depends on, and how old their reports
    /// may be. They are those where the components are placed. A component that is restarted alone
    /// may go anywhere, so all sites count, and nobody else may have asked them lately. Reserved
    /// processors depend on no report.
    fn sites_to_report(
        &self,
        job: &Job,
        since: Timestamp,
        now: Timestamp,
    ) -> BTreeMap<SiteName, Timestamp> {
        let mut sites = BTreeMap::new();
        if job
            .components
            .iter()
            .any(|c: &Component| c.awaits_restart_claim() && !c.is_to_begin_later())
        {
            let expired = now - self.shared.settings.information_expiry;
            sites.extend(self.shared.sites.keys().map(|site| (site.clone(), expired)));
        }
        let placed = job.unclaimed_components().filter_map(|index| {
            let component = job.components.get(index.0 as usize)?;
            let placement = component.placement.as_ref();
            // Reserved processors need not be idle.
            let placement = placement.filter(|place| place.acquisition.reservation_use().is_none());
            placement.map(|placement| placement.site.clone())
        });
        sites.extend(placed.map(|site| (site, since - FRESH)));
        sites
    }

    fn send_claim_try(&mut self, job: &Job, attempt: ClaimTry, ctx: &mut Context<Self>) {
        let id = job.id;
        self.awaited.remove(&id);
        self.under_way.insert(id);
        let now = self.shared.clock.now();
        self.plans
            .deduct_for_job(id, now, deductions_of_try(job, &attempt).into_iter());
        self.depth.set(self.under_way.len() as i64);
        debug!(job = %id, ?attempt, "claiming try");
        let shared = self.shared.clone();
        let external = job::external_state(&shared, job);
        let promise = shared
            .promised
            .deduct_for_placements(attempt.moves.iter().map(|(_, placement)| placement));
        let owed = OwedAnswer::new(
            ctx.address(),
            JobTookTry {
                job: id,
                taken: false,
            },
        );
        // Not a future of this actor: it would poll all of them whenever one is answered.
        actix_rt::spawn(async move {
            chaos::reach_point(CrashPoint::SpawnedFuture);
            let taken = request_claim(&shared, id, attempt, external).await;
            if let Some(promise) = promise {
                promise.end_once_decided(taken, shared.journal()).await;
            }
            // A rebuilt claimer has nothing under way.
            owed.send_answer(JobTookTry { job: id, taken }).await;
        });
    }

    fn schedule_next_look(&mut self, ctx: &mut Context<Self>) {
        if !self.looks_again {
            self.looks_again = true;
            ctx.run_later(AGAIN, |this, ctx| {
                this.looks_again = false;
                this.look_at_queue(ctx);
            });
        }
    }
}

/// Lists what a try takes at each site: idle processors, or reserved ones.
fn deductions_of_try(job: &Job, attempt: &ClaimTry) -> Vec<(SiteName, DeductedAmounts)> {
    let placed = attempt.start.iter().filter_map(|&index| {
        let before = job.components.get(index.0 as usize)?.placement.as_ref();
        let resources = job.resources_of(index)?;
        let moved = attempt.moves.iter().find(|(at, _)| *at == index);
        Some(match moved.map(|(_, to)| to) {
            Some(to) if before.is_none_or(|before| before.site != to.site) => {
                (to.site.clone(), DeductedAmounts::for_moved_claim(resources))
            }
            Some(to) => (to.site.clone(), DeductedAmounts::for_claim(resources)),
            None => (before?.site.clone(), DeductedAmounts::for_claim(resources)),
        })
    });
    placed.collect()
}

/// Has the job decide on a try; returns true if the job took it.
async fn request_claim(
    shared: &SharedState,
    id: JobId,
    attempt: ClaimTry,
    external: JobSurroundings,
) -> bool {
    let victims = attempt.preempting.clone();
    let Some(addr) = job_actor(shared, id).await else {
        return false;
    };
    let answer = addr
        .send(JobCommandMessage(JobCommand::Claim(attempt, external)))
        .await;
    let taken = matches!(answer, Ok(Ok(())));
    if taken {
        preempt_victims(shared, id, victims).await;
    }
    taken
}

/// Preempts the victims, once the claim that needs their processors is durable. A victim that does
/// not get the message keeps its processors, and the claim is lost in time.
async fn preempt_victims(shared: &SharedState, by: JobId, victims: Vec<JobId>) {
    for victim in victims {
        if let Some(addr) = job_actor(shared, victim).await {
            // A victim refuses if it ended or changed meanwhile.
            let _ = addr
                .send(JobCommandMessage(JobCommand::Preempt { by }))
                .await;
        }
    }
}

impl RegisteredActor for Claimer {
    type Key = ();

    fn actor_id(_: &Self::Key) -> ActorId {
        ActorId::Claimer
    }
}

impl Actor for Claimer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::Claimer.mailbox_bound(&self.shared.settings));
        let view = self.shared.view.load();
        let now = self.shared.clock.now();
        for (id, job) in &view.jobs {
            self.update_queued_job(*id, Some(job), now);
        }
        ctx.notify(LookAgain);
    }
}

impl Handler<LookAgain> for Claimer {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Claimer);
        self.look_at_queue(ctx);
    }
}

impl Handler<JobTookTry> for Claimer {
    type Result = ();

    fn handle(&mut self, answer: JobTookTry, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Claimer);
        self.under_way.remove(&answer.job);
        self.plans.end_plan_of_job(answer.job);
        self.depth.set(self.under_way.len() as i64);
        if answer.taken {
            // One look serves all tries that are answered at about the same time.
            self.shared.actors.request_look_of(&ActorId::Claimer)
        } else {
            self.schedule_next_look(ctx)
        }
    }
}
