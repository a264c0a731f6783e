//! Rounds in which sites bid for a job: announced to all, answered by each for itself, sorted here.
//! One at a time, and the scan waits for it: the next job finds what is left.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, AsyncContext, Context, Handler, SpawnHandle};
use cospan_domain::bid::{BidRefusal, BidResubmissions, BidRound};
use cospan_domain::deduction::DeductionKey;
use cospan_domain::ids::JobId;
use cospan_domain::placed::PlacementOrigin;
use cospan_domain::placement::{
    AnnouncedNeed, BidRoundBasis, BidWithResources, GridSnapshot, PlacementPlan, PlacementRefusal,
    PlacementRequest,
};
use cospan_domain::queue::Scan;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use tracing::debug;

use super::coallocator_actor::CoAllocator;
use crate::chaos;
use crate::context::SharedState;
use crate::deductions::LEASE;
use crate::site::{BidReply, BidReplyContent, BiddingMessage, ClusterActor, JobAnnouncement};
use crate::supervision::ActorKind;

/// The state of all jobs that sites bid for.
#[derive(Default)]
pub(super) struct BiddingState {
    open: Option<OpenBidRound>,
    waiting: BidResubmissions,
    /// The reasons why the last round about a job came to nothing.
    refusals: BTreeMap<JobId, PlacementRefusal>,
    /// Requirements that sites were sent of jobs that wait.
    announced: BTreeMap<JobId, Arc<AnnouncedNeed>>,
    /// The last plan that all its sites have acknowledged, until it is proposed.
    granted: Option<DeductionKey>,
    /// Sites of that round, or of one before it in this scan, that do not know yet that the job
    /// went elsewhere. The message goes out with the next announcement, at the latest when the scan
    /// pauses.
    clears: Option<PendingBidClears>,
}

/// A job went to these sites of the scan's grid, by index: the others may forget it.
struct PendingBidClears {
    key: DeductionKey,
    chosen: Vec<usize>,
}

impl PendingBidClears {
    /// Returns the deduction that a site is to clear, if any.
    fn clear_for(&self, site: usize) -> Option<DeductionKey> {
        (!self.chosen.contains(&site)).then_some(self.key)
    }
}

/// The open round.
struct OpenBidRound {
    key: DeductionKey,
    asked: Arc<AnnouncedNeed>,
    ground: Arc<BidRoundBasis>,
    round: BidRound<BidWithResources>,
    stage: BidRoundStage,
    timer: SpawnHandle,
    /// The number of changes known when the job was announced.
    changes: u64,
}

enum BidRoundStage {
    /// Sites are bidding.
    Answers,
    /// The sites of a plan are to acknowledge what they were given.
    Acknowledgements(Box<AwardedPlan>),
}

struct AwardedPlan {
    answers: Vec<Result<BidWithResources, BidRefusal>>,
    plan: PlacementPlan,
    by: PlacementOrigin,
    /// All sites of the plan, by index.
    uses: BTreeMap<usize, Resources>,
    /// Sites that did not acknowledge yet.
    awaited: BTreeMap<usize, Resources>,
}

impl BiddingState {
    /// Returns when a waiting job may be announced again by what was reported already.
    pub(super) fn next_announcement_due(
        &self,
        changes: u64,
        interval: DurationMs,
        now: Timestamp,
    ) -> Option<Timestamp> {
        self.waiting.next_due(changes, interval, now)
    }

    /// Takes the granted plan for this job; its deductions go over to the caller.
    pub(super) fn take_granted_plan(&mut self, job: JobId) -> Option<DeductionKey> {
        self.granted.take_if(|key| key.job == job)
    }
}

impl CoAllocator {
    /// Announces a job that the scan came to; returns true if the scan waits for a round now.
    pub(super) fn announce_job(
        &mut self,
        job: JobId,
        request: Arc<PlacementRequest>,
        ctx: &mut Context<Self>,
    ) -> bool {
        let now = self.shared.clock.now();
        let changes = self.shared.live.placement_change_count();
        // A job with another request than before counts as new.
        let known = self
            .bids
            .announced
            .get(&job)
            .filter(|asked| **asked.request() == *request);
        let asked = known.cloned();
        if asked.is_some() && self.refuse_if_too_soon(job, &request, changes, now) {
            return false;
        }
        let Some(scan) = &self.scan else { return false };
        let ground = Arc::new(BidRoundBasis::new(&request, scan.shared_grid()));
        self.drop_granted_plan();
        let is_known = asked.is_some();
        let asked = asked.unwrap_or_else(|| Arc::new(AnnouncedNeed::new(request)));
        if !is_known && self.bids.announced.insert(job, asked.clone()).is_some() {
            self.send_to_all_sites(|| BiddingMessage::Cancel(job));
        }
        let lease = now + self.shared.settings.bids.timeout + LEASE;
        let key = self.plans.open_plan(job, lease);
        let round = BidRound::new(ground.grid().sites().len());
        let timer = self.start_bid_timer(ctx);
        let stage = BidRoundStage::Answers;
        let open = OpenBidRound {
            key,
            asked,
            ground,
            round,
            stage,
            timer,
            changes,
        };
        self.bids.open = Some(open);
        self.send_announcements(!is_known, ctx);
        true
    }

    /// Refuses a job if its last round came to nothing and it is not time for another. What the job
    /// could have by now is kept from jobs that are tried after it.
    fn refuse_if_too_soon(
        &mut self,
        job: JobId,
        request: &PlacementRequest,
        changes: u64,
        now: Timestamp,
    ) -> bool {
        let interval = self.shared.settings.bids.interval;
        let bids = &mut self.bids;
        let (Some(scan), Some(refusal)) = (&mut self.scan, bids.refusals.get(&job)) else {
            return false;
        };
        let plan = scan.foresee_plan(job, request);
        let cause = plan.is_some() || scan.is_periodic();
        if bids
            .waiting
            .may_announce(job, changes, cause, interval, now)
        {
            return false;
        }
        if let Some(plan) = plan {
            scan.take_plan(request, &plan);
            bids.waiting.mark_postponed(job);
        }
        scan.record_round_outcome(job, Err(refusal.clone()));
        true
    }

    fn send_announcements(&mut self, in_full: bool, ctx: &mut Context<Self>) {
        let Some(open) = &mut self.bids.open else {
            return;
        };
        let told = Arc::new(JobAnnouncement {
            key: open.key,
            at: self.shared.clock.now(),
            asked: in_full.then(|| open.asked.clone()),
            ground: open.ground.clone(),
            reply: ctx.address().recipient(),
        });
        let cleared = self.bids.clears.take();
        let mut clears = 0;
        let mut absent = vec![true; open.ground.grid().sites().len()];
        visit_site_actors(&self.shared, open.ground.grid(), |site, addr| {
            absent[site] = false;
            let clear = cleared.as_ref().and_then(|cleared| cleared.clear_for(site));
            clears += u64::from(clear.is_some());
            // One for each site and round.
            addr.do_send(BiddingMessage::Announce {
                told: told.clone(),
                site,
                clear,
            });
        });
        self.shared.metrics.bid_messages.inc_by(clears);
        let absent = absent.iter().enumerate().filter(|(_, absent)| **absent);
        absent.for_each(|(site, _)| open.round.mark_unreachable(site));
        if open.round.is_complete() {
            // Not now: the caller of `announce` goes on when the answers are there.
            ctx.notify(CloseBidRound(open.key));
        }
    }

    /// Reports to sites that a job went elsewhere, if no announcement follows at once that could
    /// carry it.
    pub(super) fn send_clears(&mut self) {
        let (Some(cleared), Some(scan)) = (self.bids.clears.take(), &self.scan) else {
            return;
        };
        let mut clears = 0;
        visit_site_actors(&self.shared, scan.grid(), |site, addr| {
            if let Some(key) = cleared.clear_for(site) {
                clears += 1;
                addr.do_send(BiddingMessage::Clear(key));
            }
        });
        self.shared.metrics.bid_messages.inc_by(clears);
    }

    fn start_bid_timer(&self, ctx: &mut Context<Self>) -> SpawnHandle {
        let timeout = Duration::from_millis(self.shared.settings.bids.timeout.0);
        ctx.run_later(timeout, |this, ctx| this.close_overdue_round(ctx))
    }

    /// Sends a message to all sites.
    fn send_to_all_sites(&self, message: impl Fn() -> BiddingMessage) {
        let mut told = 0;
        self.shared
            .actors
            .for_each_actor::<ClusterActor>(ActorKind::Cluster, |_, addr| {
                told += 1;
                addr.do_send(message());
            });
        self.shared.metrics.bid_messages.inc_by(told);
    }

    /// Counts a round that is over: its outcome, and its messages.
    fn count_bid_round(&self, open: &OpenBidRound, outcome: &str) {
        let metrics = &self.shared.metrics;
        metrics.bid_rounds.with_label_values(&[outcome]).inc();
        metrics.bid_messages.inc_by(open.round.messages());
    }

    fn handle_bid_reply(&mut self, reply: BidReply, ctx: &mut Context<Self>) {
        let Some(open) = self.bids.open.as_mut().filter(|open| open.key == reply.key) else {
            return;
        };
        match (reply.what, &mut open.stage) {
            (BidReplyContent::Answer(answer), BidRoundStage::Answers) => {
                open.round.record_answer(reply.site, answer);
                if open.round.is_complete() {
                    self.close_bidding(ctx);
                }
            }
            (BidReplyContent::Unheard(why), BidRoundStage::Answers) => {
                debug!(job = %reply.key.job, ?why, "told again what the job asks for");
                self.resend_requirements(reply.site, ctx);
            }
            (BidReplyContent::Acknowledged, BidRoundStage::Acknowledgements(dispatch)) => {
                dispatch.awaited.remove(&reply.site);
                open.round.count_sent(1);
                if dispatch.awaited.is_empty() {
                    self.finish_granted_round(ctx);
                }
            }
            (
                BidReplyContent::Answer(_) | BidReplyContent::Unheard(_),
                BidRoundStage::Acknowledgements(_),
            )
            | (BidReplyContent::Acknowledged, BidRoundStage::Answers) => {}
        }
    }

    /// Sends a site the requirements again: it forgot them, or knows others. These count.
    fn resend_requirements(&mut self, site: usize, ctx: &mut Context<Self>) {
        let Some(open) = &mut self.bids.open else {
            return;
        };
        let Some(place) = open.ground.grid().sites().get(site) else {
            return;
        };
        let key = open.key;
        let asked = Some(open.asked.clone());
        let ground = open.ground.clone();
        let reply = ctx.address().recipient();
        let at = self.shared.clock.now();
        let told = Arc::new(JobAnnouncement {
            key,
            at,
            asked,
            ground,
            reply,
        });
        if let Some(addr) = self.shared.actors.addr::<ClusterActor>(&place.name) {
            open.round.count_sent(3);
            addr.do_send(BiddingMessage::Cancel(key.job));
            addr.do_send(BiddingMessage::Announce {
                told,
                site,
                clear: None,
            });
        }
    }

    /// Passes over the sites that have not answered, or not acknowledged.
    fn close_overdue_round(&mut self, ctx: &mut Context<Self>) {
        let Some(open) = &mut self.bids.open else {
            return;
        };
        let BidRoundStage::Acknowledgements(dispatch) = &mut open.stage else {
            return self.close_bidding(ctx);
        };
        let ledgers = self.shared.deductions.lock_ledgers();
        let sites = open.ground.grid().sites();
        // Perhaps only the acknowledgement is lost.
        dispatch
            .awaited
            .retain(|site, _| !ledgers.is_acknowledged(&open.key, &sites[*site].name));
        drop(ledgers);
        if dispatch.awaited.is_empty() {
            return self.finish_granted_round(ctx);
        }
        let silent: Vec<usize> = dispatch.awaited.keys().copied().collect();
        let mut answers = std::mem::take(&mut dispatch.answers);
        silent
            .into_iter()
            .for_each(|site| answers[site] = Err(BidRefusal::Silent));
        self.decide_bids(answers, ctx);
    }

    fn close_bidding(&mut self, ctx: &mut Context<Self>) {
        let Some(open) = &mut self.bids.open else {
            return;
        };
        let answers = open.round.close_bid_round();
        self.decide_bids(answers, ctx);
    }

    /// Sorts the answers, and sends the job out if they cover it.
    fn decide_bids(
        &mut self,
        mut answers: Vec<Result<BidWithResources, BidRefusal>>,
        ctx: &mut Context<Self>,
    ) {
        loop {
            let Some(open) = &self.bids.open else { return };
            let Some(scan) = &mut self.scan else { return };
            scan.set_job_in_trial(Some(open.key.job));
            let decided = open
                .asked
                .place_by_answers(&open.ground, &answers, scan.remaining());
            scan.set_job_in_trial(None);
            let (plan, by) = match decided {
                Ok(decided) => decided,
                Err(refusal) => {
                    scan.learn_from_bids(&open.asked, &answers);
                    return self.finish_uncovered_round(refusal, ctx);
                }
            };
            match self.award_plan(plan, by, answers, ctx) {
                Ok(()) => return,
                Err(left) => answers = left,
            }
        }
    }

    /// Sends the job to the sites of the plan.
    ///
    /// # Errors
    ///
    /// One of them is not there any more: the answers without it.
    fn award_plan(
        &mut self,
        plan: PlacementPlan,
        by: PlacementOrigin,
        mut answers: Vec<Result<BidWithResources, BidRefusal>>,
        ctx: &mut Context<Self>,
    ) -> Result<(), Vec<Result<BidWithResources, BidRefusal>>> {
        let Some(open) = &mut self.bids.open else {
            return Ok(());
        };
        let sites = open.ground.grid().sites();
        let mut uses: BTreeMap<usize, Resources> = BTreeMap::new();
        for (site, used) in open.asked.request().resources_of_plan(&plan) {
            if let Some(index) = open.ground.grid().index_of(&site) {
                uses.entry(index).or_default().add(&used);
            }
        }
        let actors = &self.shared.actors;
        let addrs = uses
            .keys()
            .filter_map(|&site| Some((site, actors.addr::<ClusterActor>(&sites[site].name)?)));
        let addrs: Vec<_> = addrs.collect();
        if let Some(gone) = uses
            .keys()
            .find(|site| addrs.iter().all(|(at, _)| at != *site))
        {
            answers[*gone] = Err(BidRefusal::Silent);
            return Err(answers);
        }
        // Processors that an earlier plan of this round gave to others are free again.
        let mut ledgers = self.shared.deductions.lock_ledgers();
        if let BidRoundStage::Acknowledgements(before) = &open.stage {
            let dropped = before.uses.keys().filter(|site| !uses.contains_key(site));
            for site in dropped {
                let ledger = ledgers.ledger_number(&sites[*site].name);
                ledgers.release_site(&open.key, ledger);
            }
        }
        ledgers.extend_lease(&open.key, self.shared.clock.now() + LEASE);
        drop(ledgers);
        open.round.count_sent(addrs.len() as u64);
        for (site, addr) in addrs {
            let used = uses[&site].clone();
            addr.do_send(BiddingMessage::Award {
                key: open.key,
                site,
                used,
                reply: ctx.address().recipient(),
            });
        }
        let awaited = uses.clone();
        open.stage = BidRoundStage::Acknowledgements(Box::new(AwardedPlan {
            answers,
            plan,
            by,
            uses,
            awaited,
        }));
        ctx.cancel_future(open.timer);
        let timeout = Duration::from_millis(self.shared.settings.bids.timeout.0);
        open.timer = ctx.run_later(timeout, |this, ctx| this.close_overdue_round(ctx));
        Ok(())
    }

    /// Ends a round that all sites of the plan have acknowledged. The others get the message that
    /// the job went there.
    fn finish_granted_round(&mut self, ctx: &mut Context<Self>) {
        let Some(open) = self.bids.open.take() else {
            return;
        };
        ctx.cancel_future(open.timer);
        self.count_bid_round(&open, "placed");
        let BidRoundStage::Acknowledgements(dispatch) = open.stage else {
            return;
        };
        let chosen = dispatch.uses.keys().copied().collect();
        self.bids.clears = Some(PendingBidClears {
            key: open.key,
            chosen,
        });
        self.shared
            .deductions
            .lock_ledgers()
            .extend_lease(&open.key, self.shared.clock.now() + LEASE);
        self.bids.announced.remove(&open.key.job);
        self.bids.waiting.forget(open.key.job);
        self.bids.refusals.remove(&open.key.job);
        self.bids.granted = Some(open.key);
        let AwardedPlan { plan, by, .. } = *dispatch;
        self.resolve_round(open.key.job, Ok((plan, by)), ctx);
    }

    /// Ends a round whose bids do not cover the job: what was deducted is free again, and the job
    /// waits.
    fn finish_uncovered_round(&mut self, refusal: PlacementRefusal, ctx: &mut Context<Self>) {
        let Some(open) = self.bids.open.take() else {
            return;
        };
        ctx.cancel_future(open.timer);
        let job = open.key.job;
        let now = self.shared.clock.now();
        debug!(%job, %refusal.reason, "no bids cover the job");
        self.shared.deductions.lock_ledgers().end_plan(&open.key);
        self.count_bid_round(&open, "not-covered");
        // A job that is gone was cancelled at all sites.
        if self.bids.announced.contains_key(&job) {
            self.bids.waiting.record_refusal(job, open.changes, now);
            self.bids.refusals.insert(job, refusal.clone());
        }
        self.resolve_round(job, Err(refusal), ctx);
    }

    fn resolve_round(
        &mut self,
        job: JobId,
        outcome: Result<(PlacementPlan, PlacementOrigin), PlacementRefusal>,
        ctx: &mut Context<Self>,
    ) {
        if let Some(scan) = &mut self.scan {
            Scan::record_round_outcome(scan, job, outcome);
            self.run_scan_slice(ctx);
        }
    }

    /// Drops a round about a job that changed meanwhile: nothing is deducted for it any more.
    pub(super) fn drop_void_round(&mut self, ctx: &mut Context<Self>) {
        if let Some(open) = self.bids.open.take_if(|open: &mut OpenBidRound| {
            !self
                .shared
                .deductions
                .lock_ledgers()
                .is_plan_open(&open.key)
        }) {
            ctx.cancel_future(open.timer);
            self.count_bid_round(&open, "void");
            // Announced anew if it still waits, and in full: a site that has other requirements
            // under its id may not have said so yet.
            if self.bids.announced.remove(&open.key.job).is_some() {
                self.send_to_all_sites(|| BiddingMessage::Cancel(open.key.job));
            }
            self.run_scan_slice(ctx);
        }
    }

    /// Drops a granted plan that nobody took up: its job changed while sites were bidding.
    pub(super) fn drop_granted_plan(&mut self) {
        if let Some(key) = self.bids.granted.take() {
            self.shared.deductions.lock_ledgers().end_plan(&key);
        }
    }

    /// Forgets a job that waits no more, here and at the sites that know it.
    pub(super) fn forget_bids(&mut self, job: JobId) {
        self.bids.waiting.forget(job);
        self.bids.refusals.remove(&job);
        if self.bids.announced.remove(&job).is_some() {
            self.send_to_all_sites(|| BiddingMessage::Cancel(job));
        }
    }
}

/// Calls `visit` with the index of each site of a grid whose actor lives, and that actor's address.
fn visit_site_actors(
    shared: &SharedState,
    grid: &GridSnapshot,
    mut visit: impl FnMut(usize, &Addr<ClusterActor>),
) {
    let mut sites = grid.sites().iter().enumerate().peekable();
    // Both are in order of name.
    shared
        .actors
        .for_each_actor::<ClusterActor>(ActorKind::Cluster, |name, addr| {
            while let Some((site, place)) = sites.peek() {
                match place.name.cmp(name) {
                    Ordering::Greater => return,
                    Ordering::Equal => visit(*site, addr),
                    Ordering::Less => {}
                }
                sites.next();
            }
        });
}

/// A round in which no site is left to wait for.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct CloseBidRound(DeductionKey);

impl Handler<CloseBidRound> for CoAllocator {
    type Result = ();

    fn handle(&mut self, CloseBidRound(key): CloseBidRound, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::CoAllocator);
        if self.bids.open.as_ref().is_some_and(|open| open.key == key) {
            self.close_bidding(ctx);
        }
    }
}

impl Handler<BidReply> for CoAllocator {
    type Result = ();

    fn handle(&mut self, reply: BidReply, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::CoAllocator);
        self.handle_bid_reply(reply, ctx);
    }
}
