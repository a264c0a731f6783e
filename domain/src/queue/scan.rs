//! A scan of the queues against one snapshot, in slices.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use super::placement_queues::{PlacementQueues, QueuePlace};
use super::shapes::WaitingShapeId;
use super::tries::QueueDecision;
use crate::bid::BidRefusal;
use crate::ids::JobId;
use crate::job::spec::Priority;
use crate::placed::PlacementOrigin;
use crate::placement::{
    self, AnnouncedNeed, BidWithResources, GridSnapshot, PlacementContext, PlacementPlan,
    PlacementRefusal, PlacementRequest, RemainingResources, SilentObserver, SitePairHistory,
    dominant_refusal, find_policy, is_placed_by_bids,
};
use crate::poisoned_job::panic_if_poisoned;
use crate::units::Timestamp;

/// The reason for a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanTrigger {
    /// The scan interval is over: one turn of the cycle, whose tries count. Then, if events are on,
    /// the same as for an event.
    Interval,
    /// A job arrived, or a site has more to give: every queue gets its chance, in order of weight.
    /// These tries are not counted. Does nothing if events are off.
    Event,
}

/// The work that a slice may do before it yields. One unit is a step in an index. A decision costs
/// [`ScanSliceBudget::DECISION`] units for each of its components, times its policy's
/// [`effort`](crate::placement::Policy::effort).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSliceBudget(pub u32);

/// A plan proposed for a job. Its processors are taken from the scan's working copy. The job is not
/// tried again until it leaves the queue or the proposal is withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    pub job: JobId,
    pub plan: PlacementPlan,
    /// The policy that chose, and the reason why other sites were refused.
    pub by: PlacementOrigin,
    /// The processors of all its components.
    pub processors: u64,
}

/// The result of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanStep {
    /// A plan was made; go on with the same budget.
    Placed(Proposal),
    /// Sites are to bid for this job before another is tried; [`Scan::record_round_outcome`] takes the
    /// outcome. Only if [`Scan::with_bid_rounds`] asks for it.
    Announce(JobId, Arc<PlacementRequest>),
    /// The budget is used up; go on later.
    Yield,
    /// All jobs were tried.
    Done(ScanReport),
}

/// The result of a whole scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanReport {
    /// Plans proposed.
    pub placed: u32,
    /// Shapes that did not fit.
    pub shapes_refused: u32,
    /// Counted tries that failed.
    pub tries_counted: u32,
    /// The consequences of these tries.
    pub decisions: Vec<QueueDecision>,
}

/// A scan under way. It does not try jobs that become ready after it began.
#[derive(Debug, Clone)]
pub struct Scan {
    pub(super) grid: Arc<GridSnapshot>,
    pub(super) remaining: RemainingResources,
    pub(super) now: Timestamp,
    arrivals: u64,
    stage: ScanStage,
    then_offer: bool,
    lanes: [QueueShapeHeads; 4],
    refused: BTreeSet<WaitingShapeId>,
    pub(super) trying: Option<JobId>,
    starvation_guards: bool,
    /// True if the scan interval triggered it.
    periodic: bool,
    /// True if sites bid for jobs in messages, where the policy takes bids.
    rounds: bool,
    /// The outcome of the last round of bids.
    resolved: Option<BidRoundOutcome>,
    report: ScanReport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanStage {
    /// Tries one queue as a whole.
    Turn(Priority),
    /// Counts the tries of that queue, past this job.
    Count(Priority, Option<(Timestamp, JobId)>),
    /// Tries all queues by weight.
    Offer,
    Done,
}

/// The heads of one queue's shapes, in order of the queue.
#[derive(Debug, Clone, Default)]
struct QueueShapeHeads {
    heads: BinaryHeap<Reverse<QueuePlace>>,
    filled_to: Option<WaitingShapeId>,
    filled: bool,
}

/// The outcome of a round of bids: a plan and what made it, or the reason why there is none.
type BidRoundOutcome = (
    JobId,
    Result<(PlacementPlan, PlacementOrigin), PlacementRefusal>,
);

/// The result of a try of one job.
enum JobTryOutcome {
    Placed(Proposal),
    Refused,
    Announce(JobId, Arc<PlacementRequest>),
}

/// The result of a try of one queue.
enum QueueTryOutcome {
    Placed(Proposal),
    Announce(JobId, Arc<PlacementRequest>),
    Exhausted,
    OutOfBudget,
}

impl ScanSliceBudget {
    /// Units that a decision costs for each component.
    pub const DECISION: u32 = 10;

    /// The budget of about a millisecond of work.
    pub fn about_one_ms() -> Self {
        Self(2_000)
    }

    /// Spends units; returns false when nothing was left to spend.
    pub fn spend_units(&mut self, units: u32) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(units);
        left
    }
}

impl Scan {
    /// The job whose plan is being made: the one to blame if a policy panics.
    pub fn job_in_trial(&self) -> Option<JobId> {
        self.trying
    }

    /// Makes sites bid for jobs whose policy takes bids, instead of computing here what each of
    /// them would answer.
    pub fn with_bid_rounds(self) -> Self {
        Self {
            rounds: true,
            ..self
        }
    }

    /// Takes the outcome of the round that was announced for a job.
    pub fn record_round_outcome(
        &mut self,
        job: JobId,
        outcome: Result<(PlacementPlan, PlacementOrigin), PlacementRefusal>,
    ) {
        self.resolved = Some((job, outcome));
    }

    /// Sets the job to blame if the next step panics.
    pub fn set_job_in_trial(&mut self, job: Option<JobId>) {
        self.trying = job;
    }

    /// The grid as it was when the scan began, for keeping.
    pub fn shared_grid(&self) -> Arc<GridSnapshot> {
        self.grid.clone()
    }

    /// Returns true if the scan interval triggered this scan.
    pub fn is_periodic(&self) -> bool {
        self.periodic
    }

    /// The part of the grid that is left after the plans so far.
    pub fn remaining(&self) -> &RemainingResources {
        &self.remaining
    }

    /// Finds a plan for a job by what is idle and left, without asking a site. Takes nothing.
    pub fn foresee_plan(
        &mut self,
        job: JobId,
        request: &PlacementRequest,
    ) -> Option<PlacementPlan> {
        self.trying = Some(job);
        let mut context = PlacementContext {
            grid: &self.grid,
            remaining: &mut self.remaining.clone(),
            history: &mut SitePairHistory::All,
            observer: &mut SilentObserver,
        };
        let plan = placement::place_on_idle(request, &mut context);
        self.trying = None;
        plan.ok()
    }

    /// Learns from a round of bids that did not cover the job: see
    /// [`AnnouncedNeed::lower_remaining`].
    pub fn learn_from_bids(
        &mut self,
        asked: &AnnouncedNeed,
        answers: &[Result<BidWithResources, BidRefusal>],
    ) {
        asked.lower_remaining(answers, &self.grid, &mut self.remaining);
    }

    /// Takes what a plan uses that was made elsewhere.
    pub fn take_plan(&mut self, request: &PlacementRequest, plan: &PlacementPlan) {
        self.remaining.begin_request();
        let parts = request.components();
        let placed = request
            .resources_of_plan(plan)
            .zip(&plan.placements)
            .enumerate();
        for (part, ((site, used), placement)) in placed {
            if let Some(index) = self.grid.index_of(&site) {
                let component = parts.get(part).or(parts.first());
                let site = &self.grid.sites()[index];
                match component.and_then(|component| site.pool_of(component)) {
                    Some(pool) => self.remaining.take_of_partition(index, pool.name, &used),
                    None => self.remaining.take_available(index, &used),
                }
                if self.grid.sites()[index].staging_left.is_some() {
                    let contents = placement.sources.iter().map(|source| source.content);
                    self.remaining.add_staged(index, contents);
                }
            }
        }
    }

    /// The grid as it was when the scan began.
    pub fn grid(&self) -> &GridSnapshot {
        &self.grid
    }
}

impl PlacementQueues {
    /// Begins a scan, which tries the jobs that are ready now against this snapshot.
    pub fn begin_scan(
        &mut self,
        trigger: ScanTrigger,
        grid: Arc<GridSnapshot>,
        now: Timestamp,
    ) -> Scan {
        self.wake_backed_off(now);
        let turn = match trigger {
            ScanTrigger::Interval => self.take_turn(),
            ScanTrigger::Event => None,
        };
        let then_offer = self.parameters.events;
        let stage = match turn {
            Some(class) => ScanStage::Turn(class),
            None if then_offer => ScanStage::Offer,
            None => ScanStage::Done,
        };
        Scan {
            remaining: RemainingResources::of_grid(&grid),
            grid,
            now,
            arrivals: self.arrival_count(),
            stage,
            then_offer,
            lanes: Default::default(),
            refused: BTreeSet::new(),
            trying: None,
            starvation_guards: true,
            periodic: trigger == ScanTrigger::Interval,
            rounds: false,
            resolved: None,
            report: ScanReport::default(),
        }
    }

    fn take_turn(&mut self) -> Option<Priority> {
        let mut turns = self.turns.clone();
        let class = turns.take_turn_of_occupied(&self.parameters, |class| self.has_ready(class));
        self.turns = turns;
        class
    }

    /// Continues a scan until it has a plan, is done, or has used the budget.
    pub fn step_scan(&mut self, scan: &mut Scan, budget: &mut ScanSliceBudget) -> ScanStep {
        if std::mem::take(&mut scan.starvation_guards) {
            self.starvation_guard = self.begin_withholding(scan);
        }
        loop {
            match scan.stage {
                ScanStage::Turn(class) => match self.try_queue(scan, class, budget) {
                    QueueTryOutcome::Placed(offer) => return ScanStep::Placed(offer),
                    QueueTryOutcome::Announce(job, request) => {
                        return ScanStep::Announce(job, request);
                    }
                    QueueTryOutcome::OutOfBudget => return ScanStep::Yield,
                    QueueTryOutcome::Exhausted => scan.stage = ScanStage::Count(class, None),
                },
                ScanStage::Count(class, after) => match self.next_in_class(class, after) {
                    _ if !budget.spend_units(1) => return ScanStep::Yield,
                    Some(next) => {
                        self.count_try_in_scan(scan, next.1);
                        scan.stage = ScanStage::Count(class, Some(next));
                    }
                    None if scan.then_offer => scan.stage = ScanStage::Offer,
                    None => scan.stage = ScanStage::Done,
                },
                ScanStage::Offer => match self.try_queues_by_credit(scan, budget) {
                    QueueTryOutcome::Placed(offer) => return ScanStep::Placed(offer),
                    QueueTryOutcome::Announce(job, request) => {
                        return ScanStep::Announce(job, request);
                    }
                    QueueTryOutcome::OutOfBudget => return ScanStep::Yield,
                    QueueTryOutcome::Exhausted => scan.stage = ScanStage::Done,
                },
                ScanStage::Done => return ScanStep::Done(std::mem::take(&mut scan.report)),
            }
        }
    }

    fn count_try_in_scan(&mut self, scan: &mut Scan, job: JobId) {
        if let Some(decision) = self.count_try(job, scan.arrivals, scan.now) {
            scan.report.tries_counted += 1;
            scan.report.decisions.extend(decision);
        }
    }

    /// Tries first the queues that have credit. Capacity that none of them can use goes to the
    /// others.
    fn try_queues_by_credit(
        &mut self,
        scan: &mut Scan,
        budget: &mut ScanSliceBudget,
    ) -> QueueTryOutcome {
        let order = self.turns.upcoming_order(&self.parameters);
        for with_credit in [true, false] {
            for class in order {
                if self.turns.has_credit(&self.parameters, class) != with_credit {
                    continue;
                }
                match self.try_queue(scan, class, budget) {
                    QueueTryOutcome::Exhausted => {}
                    stop @ (QueueTryOutcome::OutOfBudget | QueueTryOutcome::Announce(..)) => {
                        return stop;
                    }
                    QueueTryOutcome::Placed(offer) => {
                        self.turns
                            .charge_placed(&self.parameters, class, offer.processors);
                        return QueueTryOutcome::Placed(offer);
                    }
                }
            }
        }
        QueueTryOutcome::Exhausted
    }

    /// Tries a queue, in its order, until a plan is found.
    fn try_queue(
        &mut self,
        scan: &mut Scan,
        class: Priority,
        budget: &mut ScanSliceBudget,
    ) -> QueueTryOutcome {
        if !self.fill_shape_heads(scan, class, budget) {
            return QueueTryOutcome::OutOfBudget;
        }
        while let Some(&Reverse(place)) = scan.lanes[class as usize].heads.peek() {
            if !budget.spend_units(1) {
                return QueueTryOutcome::OutOfBudget;
            }
            let (_, job, shape) = place;
            let attempted = if scan.refused.contains(&shape) {
                JobTryOutcome::Refused
            } else if !self.was_ready_since(class, place, scan.arrivals) {
                self.advance_shape_heads(scan, class, place);
                continue;
            } else {
                self.try_job(scan, job, shape, budget)
            };
            match attempted {
                JobTryOutcome::Announce(job, request) => {
                    return QueueTryOutcome::Announce(job, request);
                }
                JobTryOutcome::Placed(offer) => {
                    // Looks up the next of its shape while this one is still indexed.
                    self.advance_shape_heads(scan, class, place);
                    self.mark_proposed(job);
                    scan.report.placed += 1;
                    return QueueTryOutcome::Placed(offer);
                }
                JobTryOutcome::Refused => drop(scan.lanes[class as usize].heads.pop()),
            }
        }
        QueueTryOutcome::Exhausted
    }

    fn try_job(
        &mut self,
        scan: &mut Scan,
        job: JobId,
        shape: WaitingShapeId,
        budget: &mut ScanSliceBudget,
    ) -> JobTryOutcome {
        let Some(request) = self.shapes.request_of_shape(shape).map(Arc::clone) else {
            return JobTryOutcome::Refused;
        };
        let effort = find_policy(request.policy()).map_or(1, |policy| policy.effort(&request));
        budget.spend_units(ScanSliceBudget::DECISION * request.components().len() as u32 * effort);
        scan.trying = Some(job);
        panic_if_poisoned(job);
        let in_messages = scan.rounds && is_placed_by_bids(&request);
        let resolved = scan
            .resolved
            .take()
            .filter(|(of, _)| in_messages && *of == job);
        if in_messages && resolved.is_none() {
            scan.trying = None;
            return JobTryOutcome::Announce(job, request);
        }
        let outcome = match resolved {
            Some((_, Ok((plan, by)))) => {
                scan.take_plan(&request, &plan);
                Ok((plan, by))
            }
            Some((_, Err(refusal))) => self.place_in_site_queue(scan, &request).ok_or(refusal),
            None => self.place_request(scan, &request, placement::try_to_place),
        };
        scan.trying = None;
        self.finish_attempt(scan, job, shape, &request, outcome)
    }

    /// Tries to place a job in the queue of a site, after no round covered it.
    fn place_in_site_queue(
        &mut self,
        scan: &mut Scan,
        request: &PlacementRequest,
    ) -> Option<(PlacementPlan, PlacementOrigin)> {
        self.place_request(scan, request, |request, context| {
            placement::place_in_queues_instead(request, context).ok_or(())
        })
        .ok()
    }

    fn place_request<E>(
        &mut self,
        scan: &mut Scan,
        request: &PlacementRequest,
        place: impl Fn(&PlacementRequest, &mut PlacementContext<'_>) -> Result<PlacementPlan, E>,
    ) -> Result<(PlacementPlan, PlacementOrigin), E> {
        let mut context = PlacementContext {
            grid: &scan.grid,
            remaining: &mut scan.remaining,
            history: &mut self.history,
            observer: &mut SilentObserver,
        };
        let plan = place(request, &mut context)?;
        let by = plan.placed_by(dominant_refusal(request, &plan, &mut context));
        Ok((plan, by))
    }

    fn finish_attempt(
        &mut self,
        scan: &mut Scan,
        job: JobId,
        shape: WaitingShapeId,
        request: &PlacementRequest,
        outcome: Result<(PlacementPlan, PlacementOrigin), PlacementRefusal>,
    ) -> JobTryOutcome {
        match outcome {
            Ok((plan, by)) => {
                self.shapes.set_refusal(shape, None);
                JobTryOutcome::Placed(Proposal {
                    job,
                    plan,
                    by,
                    processors: request.processors(),
                })
            }
            Err(refusal) => {
                self.note_refusal(scan, shape, refusal);
                JobTryOutcome::Refused
            }
        }
    }

    pub(super) fn note_refusal(
        &mut self,
        scan: &mut Scan,
        shape: WaitingShapeId,
        refusal: PlacementRefusal,
    ) {
        scan.refused.insert(shape);
        scan.report.shapes_refused += 1;
        self.shapes.set_refusal(shape, Some(refusal));
    }

    /// Puts the head of each shape into the lane; returns false if the budget ends before.
    fn fill_shape_heads(
        &self,
        scan: &mut Scan,
        class: Priority,
        budget: &mut ScanSliceBudget,
    ) -> bool {
        let lane = &mut scan.lanes[class as usize];
        while !lane.filled {
            if !budget.spend_units(1) {
                return false;
            }
            match self.first_of_shape_after(class, lane.filled_to) {
                Some(place) => {
                    lane.filled_to = Some(place.2);
                    lane.heads.push(Reverse(place));
                }
                None => lane.filled = true,
            }
        }
        true
    }

    /// Replaces the head of the lane by the next job of its shape.
    fn advance_shape_heads(&self, scan: &mut Scan, class: Priority, place: QueuePlace) {
        let lane = &mut scan.lanes[class as usize];
        lane.heads.pop();
        lane.heads
            .extend(self.next_of_shape(class, place).map(Reverse));
    }
}
