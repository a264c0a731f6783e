//! The placement queues as a list of jobs, and the cycle of turns written out: who is tried by a
//! scan, in which order, whose tries count, what follows from them, and what is withheld. Whether
//! a job fits is asked of its policy.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::ids::SiteName;
use crate::placed::PlacementOrigin;
use crate::placement::tests::judge::holds_when_empty;
use crate::placement::{
    GridSite, PlacementContext, PlacementPlan, PlacementRefusal, RemainingResources,
    SilentObserver, dominant_refusal, try_to_place,
};
use crate::queue::StarvationGuardParameters;

/// The turns of a cycle, whose turn it is, and what each queue may spend.
#[derive(Debug)]
pub(super) struct PlainCycle {
    turns: Vec<Priority>,
    at: usize,
    credit: BTreeMap<Priority, i64>,
    worth: i64,
}

impl PlainCycle {
    pub(super) fn new(queue: &QueueParameters) -> Self {
        use Priority::{High, Low, SuperHigh, SuperLow};
        let round = |first, scans: u32, second, more: u32| {
            [vec![first; scans as usize], vec![second; more as usize]].concat()
        };
        let high = round(SuperHigh, queue.n1, High, queue.n2).repeat(queue.n_h as usize);
        let low = round(Low, queue.n3, SuperLow, queue.n4).repeat(queue.n_l as usize);
        let credit = Priority::ALL.map(|class| (class, 0)).into();
        let worth = queue.turn_processors.into();
        let mut cycle = Self {
            turns: [high, low].concat(),
            at: 0,
            credit,
            worth,
        };
        cycle.begin_turn();
        cycle
    }

    pub(super) fn current_class(&self) -> Priority {
        self.turns[self.at]
    }

    fn credit_mut(&mut self, class: Priority) -> &mut i64 {
        self.credit.get_mut(&class).unwrap()
    }

    /// What was saved is lost, what was overdrawn is not.
    fn begin_turn(&mut self) {
        let now = self.current_class();
        let worth = self.worth;
        let credit = self.credit_mut(now);
        *credit = worth + (*credit).min(0);
    }

    fn advance_turn(&mut self) {
        self.at = (self.at + 1) % self.turns.len();
    }

    /// Turns that are passed over gain nothing, but pay back what was overdrawn.
    fn move_to_class(&mut self, class: Priority) {
        if self.current_class() == class {
            return;
        }
        while self.current_class() != class {
            let now = self.current_class();
            let worth = self.worth;
            let credit = self.credit_mut(now);
            *credit = (*credit).max((*credit + worth).min(0));
            self.advance_turn();
        }
        self.begin_turn();
    }

    /// Whether it can spend anything in its turn, now or when it comes.
    pub(super) fn has_credit(&self, class: Priority) -> bool {
        let credit = self.credit[&class];
        if self.current_class() == class {
            credit > 0
        } else {
            credit + self.worth > 0
        }
    }

    /// A queue's next turn comes earlier than that of those behind it.
    pub(super) fn upcoming_order(&self) -> Vec<Priority> {
        let ahead = (0..self.turns.len()).map(|n| self.turns[(self.at + n) % self.turns.len()]);
        let mut order: Vec<Priority> = Vec::new();
        for class in ahead {
            if !order.contains(&class) {
                order.push(class);
            }
        }
        order
    }

    pub(super) fn charge_placed(&mut self, class: Priority, processors: u64) {
        if !self.has_credit(class) {
            *self.credit_mut(class) = self.worth;
        }
        self.move_to_class(class);
        *self.credit_mut(class) -= processors as i64;
        while self.credit[&self.current_class()] <= 0 {
            self.advance_turn();
            self.begin_turn();
        }
    }

    /// By the clock: the first queue in turn that has anybody.
    pub(super) fn take_turn(&mut self, has: impl Fn(Priority) -> bool) -> Option<Priority> {
        let class = self
            .upcoming_order()
            .into_iter()
            .find(|class| has(*class))?;
        self.move_to_class(class);
        self.advance_turn();
        self.begin_turn();
        Some(class)
    }
}

/// A job that waits.
#[derive(Debug, Clone)]
pub(super) struct PlainWaitingJob {
    pub(super) waiting: WaitingJob,
    pub(super) condition: WaitingCondition,
    /// When it came to wait as it does: a number that rises.
    since: u64,
}

/// Failed tries that counted: all, those in this class, and when the last was.
#[derive(Debug, Clone)]
struct PlainTryCounts {
    all: u32,
    class: Priority,
    in_class: u32,
    last: Timestamp,
    /// It was told what follows, and did not answer.
    told: bool,
}

#[derive(Debug)]
pub(super) struct PlainQueues {
    parameters: QueueParameters,
    cycle: PlainCycle,
    pub(super) jobs: BTreeMap<JobId, PlainWaitingJob>,
    counted: BTreeMap<JobId, PlainTryCounts>,
    pub(super) history: SitePairHistory,
    /// Why a request that somebody has was refused the last time.
    pub(super) refusals: BTreeMap<Arc<PlacementRequest>, PlacementRefusal>,
    pub(super) starvation_guard: Option<StarvationGuard>,
    clock: u64,
}

/// A scan under way.
#[derive(Debug)]
pub(super) struct PlainScan {
    grid: Arc<GridSnapshot>,
    pub(super) remaining: RemainingResources,
    now: Timestamp,
    /// Who came later is not tried.
    began: u64,
    turn: Option<Priority>,
    is_first: bool,
    /// Nobody else with such a request is tried.
    refused: BTreeSet<Arc<PlacementRequest>>,
    pub(super) report: ScanReport,
}

impl PlainQueues {
    pub(super) fn new(parameters: QueueParameters, history: SitePairHistory) -> Self {
        Self {
            cycle: PlainCycle::new(&parameters),
            parameters,
            jobs: BTreeMap::new(),
            counted: BTreeMap::new(),
            history,
            refusals: BTreeMap::new(),
            starvation_guard: None,
            clock: 0,
        }
    }

    /// Jobs of a class, head to tail.
    pub(super) fn jobs_of_class(&self, class: Priority) -> Vec<JobId> {
        let here = self
            .jobs
            .values()
            .filter(|job| job.waiting.priority == class);
        let mut line: Vec<_> = here
            .map(|job| (job.waiting.entered, job.waiting.job))
            .collect();
        line.sort_unstable();
        line.into_iter().map(|(_, id)| id).collect()
    }

    fn ready_jobs(&self, class: Priority) -> Vec<JobId> {
        let mut line = self.jobs_of_class(class);
        line.retain(|id| self.jobs[id].condition == WaitingCondition::Ready);
        line
    }

    pub(super) fn tries(&self, id: JobId) -> u32 {
        self.counted.get(&id).map_or(0, |counted| counted.all)
    }

    fn set_condition(&mut self, id: JobId, condition: WaitingCondition) {
        self.clock += 1;
        let job = self.jobs.get_mut(&id).unwrap();
        job.condition = condition;
        job.since = self.clock;
    }

    fn wake_backed_off(&mut self, now: Timestamp) {
        let over = self
            .jobs
            .values()
            .filter(|job: &&PlainWaitingJob| matches!(job.condition, WaitingCondition::BackedOff(at) if at <= now))
            .map(|job| job.waiting.job);
        over.collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| self.set_condition(id, WaitingCondition::Ready));
    }

    /// A job waits, or waits otherwise; one that has a plan keeps it, unless it is frozen.
    pub(super) fn insert(&mut self, waiting: WaitingJob) {
        let known = self.jobs.get(&waiting.job);
        let condition = match known.map(|job| job.condition) {
            _ if waiting.frozen => WaitingCondition::Frozen,
            Some(WaitingCondition::Offered) => WaitingCondition::Offered,
            _ if waiting.not_before > Timestamp(0) => {
                WaitingCondition::BackedOff(waiting.not_before)
            }
            _ => WaitingCondition::Ready,
        };
        let place = |waiting: &WaitingJob| {
            (
                waiting.priority,
                waiting.entered,
                Arc::clone(&waiting.request),
            )
        };
        self.clock += 1;
        // One that waits as before has not arrived anew.
        let same = known
            .filter(|job| job.condition == condition && place(&job.waiting) == place(&waiting));
        let since = same.map_or(self.clock, |job| job.since);
        if let Some(counted) = self.counted.get_mut(&waiting.job)
            && counted.class != waiting.priority
        {
            counted.class = waiting.priority;
            counted.in_class = 0;
        }
        self.jobs.insert(
            waiting.job,
            PlainWaitingJob {
                waiting,
                condition,
                since,
            },
        );
        self.drop_stale_refusals();
    }

    /// Nothing is known of a request that nobody has.
    fn drop_stale_refusals(&mut self) {
        let jobs = &self.jobs;
        self.refusals
            .retain(|request, _| jobs.values().any(|job| job.waiting.request == *request));
    }

    pub(super) fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.drop_stale_refusals();
    }

    pub(super) fn forget_job(&mut self, id: JobId) {
        self.remove(id);
        self.counted.remove(&id);
    }

    pub(super) fn clear_decision(&mut self, id: JobId) {
        self.counted
            .entry(id)
            .and_modify(|counted| counted.told = false);
    }

    pub(super) fn withdraw_proposal(&mut self, id: JobId) {
        if self
            .jobs
            .get(&id)
            .is_some_and(|job| job.condition == WaitingCondition::Offered)
        {
            self.set_condition(id, WaitingCondition::Ready);
        }
    }

    pub(super) fn begin_scan(
        &mut self,
        trigger: ScanTrigger,
        grid: Arc<GridSnapshot>,
        now: Timestamp,
    ) -> PlainScan {
        self.wake_backed_off(now);
        let occupied = Priority::ALL.map(|class| (class, !self.ready_jobs(class).is_empty()));
        let occupied = BTreeMap::from(occupied);
        let turn = match trigger {
            ScanTrigger::Interval => self.cycle.take_turn(|class| occupied[&class]),
            ScanTrigger::Event => None,
        };
        PlainScan {
            remaining: RemainingResources::of_grid(&grid),
            grid,
            now,
            began: self.clock,
            turn,
            is_first: true,
            refused: BTreeSet::new(),
            report: ScanReport::default(),
        }
    }

    /// The next plan of a scan; without one it is over.
    pub(super) fn next_plan(
        &mut self,
        round: &mut PlainScan,
    ) -> Option<(JobId, PlacementPlan, PlacementOrigin)> {
        if std::mem::take(&mut round.is_first) {
            self.starvation_guard = self.begin_withholding(round);
        }
        if let Some(class) = round.turn {
            if let Some(offer) = self.place_first_of_class(class, round) {
                return Some(offer);
            }
            round.turn = None;
            self.ready_jobs(class)
                .into_iter()
                .for_each(|id| self.count_failed_try(id, round));
        }
        if !self.parameters.events {
            return None;
        }
        // Who has something to spend comes first, in the order of the next turns.
        let mut order = self.cycle.upcoming_order();
        order.sort_by_key(|class| !self.cycle.has_credit(*class));
        for class in order {
            if let Some(offer) = self.place_first_of_class(class, round) {
                let processors = self.jobs[&offer.0].waiting.request.processors();
                self.cycle.charge_placed(class, processors);
                return Some(offer);
            }
        }
        None
    }

    /// Places the first of a class that fits.
    fn place_first_of_class(
        &mut self,
        class: Priority,
        round: &mut PlainScan,
    ) -> Option<(JobId, PlacementPlan, PlacementOrigin)> {
        for id in self.ready_jobs(class) {
            let request = Arc::clone(&self.jobs[&id].waiting.request);
            if self.jobs[&id].since > round.began || round.refused.contains(&request) {
                continue;
            }
            let mut context = PlacementContext {
                grid: &round.grid,
                remaining: &mut round.remaining,
                history: &mut self.history,
                observer: &mut SilentObserver,
            };
            match try_to_place(&request, &mut context) {
                Err(refusal) => self.record_refusal(request, refusal, round),
                Ok(plan) => {
                    let by = plan.placed_by(dominant_refusal(&request, &plan, &mut context));
                    self.refusals.remove(&request);
                    self.set_condition(id, WaitingCondition::Offered);
                    round.report.placed += 1;
                    return Some((id, plan, by));
                }
            }
        }
        None
    }

    fn record_refusal(
        &mut self,
        request: Arc<PlacementRequest>,
        refusal: PlacementRefusal,
        round: &mut PlainScan,
    ) {
        round.refused.insert(Arc::clone(&request));
        round.report.shapes_refused += 1;
        self.refusals.insert(request, refusal);
    }

    /// A try that failed counts once in an interval; then a job that was not told is given up or
    /// rises.
    fn count_failed_try(&mut self, id: JobId, round: &mut PlainScan) {
        let PlainWaitingJob { waiting, since, .. } = &self.jobs[&id];
        let class = waiting.priority;
        let interval = self.parameters.scan_interval;
        let last = self.counted.get(&id).map(|counted| counted.last);
        if *since > round.began || last.is_some_and(|last| round.now < last + interval) {
            return;
        }
        let new = PlainTryCounts {
            all: 0,
            class,
            in_class: 0,
            last: round.now,
            told: false,
        };
        let counted = self.counted.entry(id).or_insert(new);
        counted.all += 1;
        counted.in_class += 1;
        counted.last = round.now;
        round.report.tries_counted += 1;
        let most = waiting.max_tries.or(self.parameters.max_placement_tries);
        let is_due = self
            .parameters
            .promote_after
            .is_some_and(|after| counted.in_class >= after);
        let up = |to| QueueDecision::Promote { job: id, to };
        let decision = match class {
            _ if most.is_some_and(|most| counted.all > most) => Some(QueueDecision::GiveUp {
                job: id,
                tries: counted.all,
            }),
            Priority::Low if is_due => Some(up(Priority::High)),
            Priority::High if is_due => Some(up(Priority::SuperHigh)),
            _ => None,
        };
        if let Some(decision) = decision.filter(|_| !counted.told) {
            counted.told = true;
            round.report.decisions.push(decision);
        }
    }

    /// The oldest super-high job, if it is tried, has waited long enough and does not fit, has
    /// withheld for it what it lacks.
    fn begin_withholding(&mut self, round: &mut PlainScan) -> Option<StarvationGuard> {
        let job = *self.jobs_of_class(Priority::SuperHigh).first()?;
        let PlainWaitingJob {
            waiting, condition, ..
        } = self.jobs[&job].clone();
        let until = withholding_end(
            &self.parameters.starvation_guard,
            waiting.entered,
            round.now,
        )?;
        if condition != WaitingCondition::Ready {
            return None;
        }
        let mut context = PlacementContext {
            grid: &round.grid,
            remaining: &mut round.remaining.clone(),
            history: &mut self.history.clone(),
            observer: &mut SilentObserver,
        };
        let refusal = try_to_place(&waiting.request, &mut context).err()?;
        let withheld = withhold_processors(
            &waiting.request,
            self.parameters.starvation_guard.share.0,
            round,
        );
        self.record_refusal(waiting.request, refusal, round);
        (!withheld.is_empty()).then_some(StarvationGuard {
            job,
            withheld,
            until,
        })
    }
}

/// After a time they are withheld for so long, then not for as long, and so on.
fn withholding_end(
    starvation_guard: &StarvationGuardParameters,
    entered: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    let mut begins = entered + starvation_guard.after?;
    while begins <= now {
        let ends = begins + starvation_guard.time;
        if now < ends {
            return Some(ends);
        }
        begins = ends + starvation_guard.time;
    }
    None
}

/// Each component, the largest first, has what is left where most is left of the sites that could
/// hold it when empty, but never more of a site than the share.
fn withhold_processors(
    request: &PlacementRequest,
    share: u32,
    round: &mut PlainScan,
) -> Vec<(SiteName, u32)> {
    let sites = round.grid.sites();
    let total = |site: &GridSite| {
        site.shape
            .as_ref()
            .map_or(0, |shape| shape.total.processors)
    };
    let bound = |site: &GridSite| u64::from(total(site)) * u64::from(share) / 1_000_000;
    let mut bounds: Vec<u32> = sites.iter().map(|site| bound(site) as u32).collect();
    let mut parts: Vec<_> = request.components().iter().collect();
    parts.sort_by_key(|part| Reverse(part.resources.processors));
    let mut taken = vec![0; sites.len()];
    for part in parts {
        let left = |at: &usize| round.remaining.processors()[*at].min(bounds[*at]);
        let best = (0..sites.len())
            .filter(|at: &usize| {
                let site = &sites[*at];
                part.site.as_ref().is_none_or(|name| *name == site.name)
                    && site.acceptance.hindrance(request.may_probe()).is_none()
                    && site.shape.is_some()
                    && holds_when_empty(part, site)
            })
            .min_by_key(|at| Reverse(left(at)));
        let Some(at) = best else { continue };
        let count = left(&at).min(part.resources.processors);
        bounds[at] -= count;
        taken[at] += count;
        round.remaining.withhold_from_all(at, count);
    }
    let names = sites.iter().map(|site| site.name.clone());
    names.zip(taken).filter(|(_, count)| *count > 0).collect()
}
