//! The co-allocator actor: queues, scans in slices, proposals.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, WrapFuture};
use cospan_domain::deduction::DeductedAmounts;
use cospan_domain::ids::JobId;
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::Priority;
use cospan_domain::queue::{
    PlacementQueues, Proposal, QueueDecision, QueueStanding, Scan, ScanReport, ScanSliceBudget,
    ScanStep, ScanTrigger, SweepGroups, WaitingJob,
};
use cospan_domain::units::Timestamp;
use tracing::{debug, error};

use super::barred_owners::BarredOwnerJobs;
use super::bid_rounds::BiddingState;
use super::crash_suspects::CrashSuspects;
use super::shared_reservation_admission::SharedReservationJobs;
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::commits::ChangedObjects;
use crate::committed::CommittedView;
use crate::context::SharedState;
use crate::deductions::DeductionHolder;
use crate::grid_snapshot::GridSnapshotMaker;
use crate::job::{JobCommandMessage, hold_job, job_actor, send_job_command};
use crate::supervision::{ActorId, ActorKind, LifeGuard, OwedAnswer};

/// The pause before a job that did not take its proposal is tried again.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);
/// The pause before a job whose record changed meanwhile is held again.
const HOLD_AGAIN: Duration = Duration::from_secs(1);

/// Takes jobs from the placement queues and finds sites for them.
pub struct CoAllocator {
    pub(super) shared: Arc<SharedState>,
    /// Jobs whose place in the queues may have changed.
    changed_jobs: ChangedObjects<JobId>,
    /// Jobs in whose turn earlier lives ended.
    crash_suspects: Arc<CrashSuspects>,
    queues: PlacementQueues,
    /// Sweeps that may have only a limited number of runs at once.
    groups: SweepGroups,
    /// Lengths of the queues as shown, by priority.
    lengths: [prometheus::IntGauge; Priority::ALL.len()],
    pub(super) grid: GridSnapshotMaker,
    pub(super) plans: DeductionHolder,
    pub(super) bids: BiddingState,
    /// Jobs with shared reservations.
    pub(super) within: SharedReservationJobs,
    /// Jobs that got a proposal and did not answer yet, however long that takes.
    asked: BTreeSet<JobId>,
    depth: prometheus::IntGauge,
    pub(super) scan: Option<Scan>,
    /// Something changed during a scan: another follows.
    again: bool,
    interval_due: bool,
    interval: Option<SpawnHandle>,
    wake: Option<(Timestamp, SpawnHandle)>,
    /// Jobs in whose turn earlier lives ended; not tried until they were held and released.
    shunned: BTreeSet<JobId>,
    /// Owners whose jobs ask sites under their names.
    pub(super) suspects: BarredOwnerJobs,
    dirty: DirtyFlag,
    _guard: LifeGuard,
}

/// A job's answer to a proposal.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct ProposalAnswer {
    job: JobId,
    taken: bool,
}

/// A job took in what follows from its tries, or could not.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct QueueDecisionSent(JobId);

/// Asks where a job stands in its placement queue.
#[derive(Debug, actix::Message)]
#[rtype(result = "Option<QueueStanding>")]
pub struct AskQueueStanding(pub JobId);

impl CoAllocator {
    /// A job in whose turn the co-allocator died this often is held.
    const SUSPECT_DEATHS: u32 = 2;

    /// Begins a new life: the queues are made anew from the view.
    pub(crate) fn new(
        shared: Arc<SharedState>,
        changed_jobs: ChangedObjects<JobId>,
        crash_suspects: Arc<CrashSuspects>,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        let queue = shared.settings.queue.clone();
        let seed = shared.settings.history_seed.clone();
        let queues = PlacementQueues::new(queue, seed);
        let depth = shared
            .metrics
            .mailbox_depth
            .with_label_values(&["co-allocator"]);
        depth.set(0);
        Self {
            depth,
            changed_jobs,
            crash_suspects,
            queues,
            groups: SweepGroups::default(),
            lengths: Priority::ALL.map(|class: Priority| {
                shared
                    .metrics
                    .queue_length
                    .with_label_values(&[class.as_str()])
            }),
            grid: GridSnapshotMaker::default(),
            plans: DeductionHolder::new(shared.deductions.clone(), shared.view.clone()),
            bids: BiddingState::default(),
            within: SharedReservationJobs::default(),
            asked: BTreeSet::new(),
            scan: None,
            again: false,
            interval_due: false,
            interval: None,
            wake: None,
            shunned: BTreeSet::new(),
            suspects: BarredOwnerJobs::default(),
            dirty,
            _guard: guard,
            shared,
        }
    }

    fn rebuild_queues(&mut self) {
        self.changed_jobs.take();
        let view = self.shared.view.load();
        for job in view.jobs.values() {
            self.groups.record_phase(job);
            self.within.update_sharing_job(job.id, Some(job));
        }
        for group in self.groups.limited_sweeps() {
            self.groups.give_turns(group, std::iter::empty());
        }
        let tried = view.jobs.values().filter(|job| self.groups.has_turn(job));
        let tried = tried.filter(|job| !self.shunned.contains(&job.id));
        for job in tried {
            if let Some(waiting) =
                WaitingJob::from_job(job, || self.shared.placement_request_of(job))
            {
                self.queues.insert(waiting);
            }
        }
    }

    fn update_changed_jobs(&mut self) {
        let dirty = self.changed_jobs.take();
        if dirty.is_empty() {
            return;
        }
        let view = self.shared.view.load();
        let mut groups = BTreeSet::new();
        let mut changed = BTreeSet::new();
        for id in dirty {
            // Nothing else would withdraw the proposal: the time when it expires goes with it.
            if self.plans.end_plan_of_job(id) {
                self.queues.withdraw_proposal(id);
            }
            groups.extend(
                view.jobs
                    .get(&id)
                    .and_then(|job| self.groups.record_phase(job)),
            );
            changed.insert(id);
        }
        for group in groups {
            changed.extend(self.groups.give_turns(group, self.asked.iter().copied()));
        }
        changed
            .into_iter()
            .for_each(|id| self.update_job(&view, id));
    }

    /// Follows a job as it stands in the view, and as its sweep lets it be tried.
    pub(super) fn update_job(&mut self, view: &CommittedView, id: JobId) {
        let job = view.jobs.get(&id);
        self.within.update_sharing_job(id, job.map(AsRef::as_ref));
        if self.shunned.contains(&id) {
            if job.is_some_and(|job| needs_hold(job)) {
                return;
            }
            self.shunned.remove(&id);
            self.crash_suspects.clear_job(id);
        }
        let tried = job.filter(|job| self.groups.has_turn(job));
        let waiting = tried
            .and_then(|job| WaitingJob::from_job(job, || self.shared.placement_request_of(job)));
        match waiting {
            Some(waiting) => return self.queues.insert(waiting),
            None if job.is_none_or(|job| job.is_final()) => self.queues.forget_job(id),
            None => self.queues.remove(id),
        }
        self.forget_bids(id);
    }

    fn do_due_work(&mut self, ctx: &mut Context<Self>) {
        self.dirty.take_owed_look();
        self.update_changed_jobs();
        self.update_barred_owner_requests();
        self.drop_void_round(ctx);
        let now = self.shared.clock.now();
        for job in self.plans.take_expired_jobs(now) {
            self.queues.withdraw_proposal(job);
        }
        if self.scan.is_some() {
            self.again = true;
        } else if !self.queues.is_empty() {
            self.begin_scan(ctx);
        }
        self.place_sharing_jobs(ctx);
        self.request_site_reports();
        self.set_timers(ctx, now);
        self.show_metrics();
    }

    /// Has sites polled again while jobs wait for what they have.
    fn request_site_reports(&self) {
        let wanted = self.queues.has_jobs_without_proposal();
        if self.shared.live.set_placement_awaited(wanted) && wanted {
            self.shared.actors.request_look_of_all(ActorKind::Cluster);
        }
    }

    fn begin_scan(&mut self, ctx: &mut Context<Self>) {
        let now = self.shared.clock.now();
        let grid = self.grid.snapshot(&self.shared);
        let trigger = if std::mem::take(&mut self.interval_due) {
            ScanTrigger::Interval
        } else {
            ScanTrigger::Event
        };
        self.again = false;
        let scan = self.queues.begin_scan(trigger, grid, now);
        self.scan = Some(if self.shared.settings.bids.in_messages {
            scan.with_bid_rounds()
        } else {
            scan
        });
        self.run_scan_slice(ctx);
    }

    /// Runs one slice of a scan: about a millisecond, then everybody else has a turn.
    pub(super) fn run_scan_slice(&mut self, ctx: &mut Context<Self>) {
        let mut budget = ScanSliceBudget::about_one_ms();
        while let Some(scan) = &mut self.scan {
            match self.queues.step_scan(scan, &mut budget) {
                ScanStep::Placed(offer) => self.propose_plan(offer, &mut budget, ctx),
                ScanStep::Announce(job, request) => {
                    if self.announce_job(job, request, ctx) {
                        return;
                    }
                }
                ScanStep::Yield => {
                    self.send_clears();
                    let turn = tokio::task::yield_now().into_actor(self);
                    ctx.spawn(turn.map(|(), this, ctx| this.run_scan_slice(ctx)));
                    return;
                }
                ScanStep::Done(report) => {
                    self.send_clears();
                    self.scan = None;
                    self.drop_granted_plan();
                    self.finish_scan(report, ctx);
                }
            }
        }
        if self.again || self.interval_due {
            self.do_due_work(ctx);
        } else {
            // Jobs were put off meanwhile.
            self.set_timers(ctx, self.shared.clock.now());
        }
    }

    fn propose_plan(
        &mut self,
        offer: Proposal,
        budget: &mut ScanSliceBudget,
        ctx: &mut Context<Self>,
    ) {
        chaos::reach_for_effect("PlaceJob", CrashPoint::BeforeEffect);
        let job = offer.job;
        let now = self.shared.clock.now();
        let view = self.shared.view.load();
        let granted = self.bids.take_granted_plan(job);
        let Some(record) = view.jobs.get(&job) else {
            self.plans.end_plan_of_job(job);
            return self.queues.forget_job(job);
        };
        let room = self
            .shared
            .promised
            .check_room(&view, &offer.plan.placements);
        budget.spend_units(room.looks);
        if !room.is_there {
            // A claim moved there, or a job took it, since the scan began.
            self.plans.end_plan_of_job(job);
            self.queues.withdraw_proposal(job);
            self.again = true;
            return;
        }
        self.asked.insert(job);
        self.depth.set(self.asked.len() as i64);
        let placements = &offer.plan.placements;
        let promise = self
            .shared
            .promised
            .deduct_for_placements(placements.iter());
        // Sites hold processors for a granted plan: they are deducted already.
        if granted.is_none() {
            let offered = record.spec.resource_uses(placements);
            let offered = offered.map(|(site, used)| (site, DeductedAmounts::for_proposal(used)));
            self.plans.deduct_for_job(job, now, offered);
        }
        let shared = self.shared.clone();
        let owed = OwedAnswer::new(ctx.address(), ProposalAnswer { job, taken: false });
        let by = Some(offer.by);
        let placements = offer.plan.placements;
        debug!(%job, ?placements, "offered");
        // Not a future of this actor: it would poll all of them whenever one is answered.
        actix_rt::spawn(async move {
            chaos::reach_point(CrashPoint::SpawnedFuture);
            let answer = match job_actor(&shared, job).await {
                Some(addr) => addr
                    .send(JobCommandMessage(JobCommand::Place { placements, by }))
                    .await
                    .ok(),
                None => None,
            };
            let taken = matches!(answer, Some(Ok(())));
            if let Some(promise) = promise {
                promise.end_once_decided(taken, shared.journal()).await;
            }
            // A rebuilt co-allocator has proposed nothing.
            owed.send_answer(ProposalAnswer { job, taken }).await;
        });
    }

    fn handle_proposal_answer(&mut self, answer: &ProposalAnswer, ctx: &mut Context<Self>) {
        chaos::reach_for_effect("PlaceJob", CrashPoint::AfterEffect);
        let job = answer.job;
        if answer.taken {
            self.note_job_answered(job);
            return;
        }
        // The job's actor is about to start, or about to publish why not. Without a pause the same
        // proposal would be made again before anybody had a turn.
        ctx.run_later(REFUSED_PAUSE, move |this, ctx| {
            this.note_job_answered(job);
            this.plans.end_plan_of_job(job);
            this.queues.withdraw_proposal(job);
            this.do_due_work(ctx);
        });
    }

    fn note_job_answered(&mut self, job: JobId) {
        self.asked.remove(&job);
        self.depth.set(self.asked.len() as i64);
    }

    fn finish_scan(&mut self, report: ScanReport, ctx: &mut Context<Self>) {
        if **self.shared.history.load() != *self.queues.history() {
            // New pairs may serve jobs that were refused before.
            self.again = true;
            self.shared
                .history
                .store(Arc::new(self.queues.history().clone()));
        }
        self.shared
            .starvation_guard
            .store(Arc::new(self.queues.active_withholding().cloned()));
        for decision in report.decisions {
            self.send_queue_decision(decision, ctx);
        }
    }

    /// Sends a job the command that follows from its tries.
    fn send_queue_decision(&mut self, decision: QueueDecision, ctx: &mut Context<Self>) {
        let (job, command) = match decision {
            QueueDecision::Promote { job, to } => (job, JobCommand::Promote { to }),
            QueueDecision::GiveUp { job, tries } => (job, JobCommand::GiveUpPlacement { tries }),
        };
        let heard = QueueDecisionSent(job);
        send_job_command(&self.shared, job, command, heard, ctx.address());
    }

    fn set_timers(&mut self, ctx: &mut Context<Self>, now: Timestamp) {
        if self.interval.is_none() && !self.queues.is_empty() {
            let pause = Duration::from_millis(self.shared.settings.queue.scan_interval.0.max(1));
            self.interval = Some(ctx.run_later(pause, |this, ctx| {
                this.interval = None;
                this.interval_due = true;
                this.do_due_work(ctx);
            }));
        }
        let interval = self.shared.settings.bids.interval;
        let again = self.bids.next_announcement_due(
            self.shared.live.placement_change_count(),
            interval,
            now,
        );
        let next = self.queues.next_wake().into_iter().chain(again).min();
        if self.wake.as_ref().map(|(time, _)| *time) == next {
            return;
        }
        if let Some((_, handle)) = self.wake.take() {
            ctx.cancel_future(handle);
        }
        self.wake = next.map(|time| {
            let pause = Duration::from_millis(time.since(now).0.max(5));
            let handle = ctx.run_later(pause, |this, ctx| {
                this.wake = None;
                this.do_due_work(ctx);
            });
            (time, handle)
        });
    }

    fn show_metrics(&self) {
        for (class, gauge) in Priority::ALL.into_iter().zip(&self.lengths) {
            gauge.set(self.queues.count_waiting(class) as i64);
        }
    }

    /// Holds the jobs in whose turn the last lives ended, so that the co-allocator goes on.
    fn hold_crash_suspects(&mut self) {
        let view = self.shared.view.load();
        let suspects = self.crash_suspects.all().into_iter();
        for (job, _) in suspects.filter(|(_, deaths)| *deaths >= Self::SUSPECT_DEATHS) {
            if !view.jobs.get(&job).is_some_and(|job| needs_hold(job)) {
                self.crash_suspects.clear_job(job);
                continue;
            }
            error!(
                %job,
                "the co-allocator dies again and again when it places this job; the job is held"
            );
            self.shunned.insert(job);
            // Not a future of this actor: it must outlive it.
            actix_rt::spawn(hold_until_durable(self.shared.clone(), job));
        }
    }
}

fn needs_hold(job: &Job) -> bool {
    !job.is_final() && job.held.is_none()
}

/// Holds a job, even if its record changes meanwhile.
async fn hold_until_durable(shared: Arc<SharedState>, job: JobId) {
    loop {
        hold_job(&shared, job).await;
        if !shared
            .view
            .load()
            .jobs
            .get(&job)
            .is_some_and(|job| needs_hold(job))
        {
            return;
        }
        tokio::time::sleep(HOLD_AGAIN).await;
    }
}

impl Drop for CoAllocator {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(job) = self.scan.as_ref().and_then(Scan::job_in_trial)
        {
            self.crash_suspects.note_death(job);
        }
    }
}

impl RegisteredActor for CoAllocator {
    type Key = ();

    fn actor_id(_: &Self::Key) -> ActorId {
        ActorId::CoAllocator
    }
}

impl Actor for CoAllocator {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::CoAllocator.mailbox_bound(&self.shared.settings));
        self.hold_crash_suspects();
        self.rebuild_queues();
        self.do_due_work(ctx);
    }
}

impl Handler<LookAgain> for CoAllocator {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::CoAllocator);
        self.do_due_work(ctx);
    }
}

impl Handler<ProposalAnswer> for CoAllocator {
    type Result = ();

    fn handle(&mut self, answer: ProposalAnswer, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::CoAllocator);
        self.handle_proposal_answer(&answer, ctx);
    }
}

impl Handler<QueueDecisionSent> for CoAllocator {
    type Result = ();

    fn handle(&mut self, QueueDecisionSent(job): QueueDecisionSent, _: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::CoAllocator);
        self.queues.clear_decision(job);
    }
}

impl Handler<AskQueueStanding> for CoAllocator {
    type Result = actix::MessageResult<AskQueueStanding>;

    fn handle(&mut self, message: AskQueueStanding, _: &mut Context<Self>) -> Self::Result {
        chaos::enter_handler(ActorKind::CoAllocator);
        actix::MessageResult(self.queues.standing_of(message.0))
    }
}
