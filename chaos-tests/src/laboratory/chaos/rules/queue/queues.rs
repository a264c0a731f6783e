//! The placement queues as a list of jobs: who is tried by a scan, in which order, whose tries
//! count, and what follows from them. Whether one job fits is asked of its policy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::ids::JobId;
use cospan_domain::job::spec::Priority;
use cospan_domain::placement::{
    Board, GridSnapshot, History, PlacementRequest, Refusal, Remaining, Silent, dominant_refusal,
    place,
};
use cospan_domain::queue::{
    Condition, Hoard, Offer, QueueDecision, QueueParameters, ScanReport, Trigger, Waiting,
};
use cospan_domain::units::Timestamp;

use super::hoards;
use super::turns::Cycle;

pub(super) const INTERVAL: u64 = 60_000;

/// A job that waits.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) class: Priority,
    pub(super) entered: u64,
    /// Which of the shapes it has.
    pub(super) shape: usize,
    pub(super) most: Option<u32>,
    pub(super) condition: Condition,
    /// When it became ready, as a number that rises each time that any does.
    since: u64,
}

/// Its tries: all, those in this class, and when the last was counted.
#[derive(Debug, Clone, Copy)]
struct Tries(u32, Priority, u32, u64);

pub(super) struct Plain {
    pub(super) parameters: QueueParameters,
    cycle: Cycle,
    pub(super) shapes: Vec<Arc<PlacementRequest>>,
    pub(super) jobs: BTreeMap<JobId, Job>,
    tries: BTreeMap<JobId, Tries>,
    /// Who was told to rise or to give up, and did not answer.
    told: BTreeSet<JobId>,
    pub(super) history: History,
    /// Why a shape was refused the last time.
    pub(super) refusals: BTreeMap<usize, Refusal>,
    pub(super) hoard: Option<Hoard>,
    arrivals: u64,
}

/// A scan under way.
pub(super) struct Round {
    pub(super) grid: Arc<GridSnapshot>,
    pub(super) remaining: Remaining,
    pub(super) now: u64,
    /// Who became ready later is not tried.
    began: u64,
    pub(super) turn: Option<Priority>,
    counted: bool,
    hoarded: bool,
    refused: BTreeSet<usize>,
    /// Shapes for which a decision was made, once for each.
    pub(super) tried: Vec<usize>,
    pub(super) report: ScanReport,
}

impl Plain {
    pub(super) fn new(
        parameters: QueueParameters,
        history: History,
        shapes: Vec<Arc<PlacementRequest>>,
    ) -> Self {
        Self {
            cycle: Cycle::new(&parameters),
            parameters,
            shapes,
            jobs: BTreeMap::new(),
            tries: BTreeMap::new(),
            told: BTreeSet::new(),
            history,
            refusals: BTreeMap::new(),
            hoard: None,
            arrivals: 0,
        }
    }

    /// Jobs of a class, head to tail.
    pub(super) fn line(&self, class: Priority) -> Vec<JobId> {
        let here = self.jobs.iter().filter(|(_, job)| job.class == class);
        let mut line: Vec<_> = here.map(|(id, job)| (job.entered, *id)).collect();
        line.sort_unstable();
        line.into_iter().map(|(_, id)| id).collect()
    }

    /// Those of them that are tried.
    pub(super) fn ready(&self, class: Priority) -> Vec<JobId> {
        let is_ready =
            |id: &JobId| self.jobs.get(id).is_some_and(|job| job.condition == Condition::Ready);
        self.line(class).into_iter().filter(is_ready).collect()
    }

    pub(super) fn tries(&self, id: JobId) -> u32 {
        self.tries.get(&id).map_or(0, |tries| tries.0)
    }

    fn set(&mut self, id: JobId, condition: Condition) {
        self.arrivals += 1;
        if let Some(job) = self.jobs.get_mut(&id) {
            (job.condition, job.since) = (condition, self.arrivals);
        }
    }

    pub(super) fn wake(&mut self, now: u64) {
        let over = |job: &Job| matches!(job.condition, Condition::BackedOff(at) if at.0 <= now);
        let woken = self.jobs.iter().filter(|(_, job)| over(job)).map(|(id, _)| *id);
        woken.collect::<Vec<_>>().into_iter().for_each(|id| self.set(id, Condition::Ready));
    }

    /// A job waits, or waits otherwise; one that has a plan keeps it, unless it is frozen.
    pub(super) fn insert(&mut self, waiting: &Waiting) {
        let Waiting { job: id, priority: class, not_before, frozen, .. } = *waiting;
        let Some(shape) = self.shapes.iter().position(|shape| *shape == waiting.request) else {
            return;
        };
        let known = self.jobs.get(&id);
        let offered = known.is_some_and(|job| job.condition == Condition::Offered);
        let condition = match (frozen, offered) {
            (true, _) => Condition::Frozen,
            (_, true) => Condition::Offered,
            _ if not_before > Timestamp(0) => Condition::BackedOff(not_before),
            _ => Condition::Ready,
        };
        let (entered, most) = (waiting.entered.0, waiting.max_tries);
        let same = known.filter(|job| {
            (job.class, job.entered, job.shape, job.condition) == (class, entered, shape, condition)
        });
        // One that waits as before has not arrived anew.
        let since = same.map_or(self.arrivals + 1, |job| job.since);
        self.arrivals += 1;
        if let Some(tries) = self.tries.get_mut(&id).filter(|tries| tries.1 != class) {
            (tries.1, tries.2) = (class, 0);
        }
        self.jobs.insert(id, Job { class, entered, shape, most, condition, since });
        self.tidy();
    }

    /// Nothing is known of a shape that nobody has.
    fn tidy(&mut self) {
        let jobs = &self.jobs;
        self.refusals.retain(|shape, _| jobs.values().any(|job| job.shape == *shape));
    }

    pub(super) fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.tidy();
    }

    pub(super) fn forget(&mut self, id: JobId) {
        self.remove(id);
        self.tries.remove(&id);
        self.told.remove(&id);
    }

    /// Whether it had been told anything.
    pub(super) fn heard(&mut self, id: JobId) -> bool {
        self.told.remove(&id)
    }

    pub(super) fn withdraw(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.condition == Condition::Offered) {
            self.set(id, Condition::Ready);
        }
    }

    pub(super) fn begin(&mut self, trigger: Trigger, grid: Arc<GridSnapshot>, now: u64) -> Round {
        self.wake(now);
        let mut occupied = [false; 4];
        for class in Priority::ALL {
            occupied[class as usize] = !self.ready(class).is_empty();
        }
        let turn = match trigger {
            Trigger::Interval => self.cycle.take(occupied),
            Trigger::Event => None,
        };
        Round {
            remaining: Remaining::of(&grid),
            grid,
            now,
            began: self.arrivals,
            turn,
            counted: false,
            hoarded: false,
            refused: BTreeSet::new(),
            tried: Vec::new(),
            report: ScanReport::default(),
        }
    }

    /// The next plan of a scan; without one it is over.
    pub(super) fn next(&mut self, round: &mut Round) -> Option<Offer> {
        if !std::mem::replace(&mut round.hoarded, true) {
            self.hoard = self.hoard_for(round);
        }
        if let Some(class) = round.turn.filter(|_| !round.counted) {
            if let Some(offer) = self.first(class, round) {
                return Some(offer);
            }
            round.counted = true;
            self.ready(class).into_iter().for_each(|id| self.count(id, round));
        }
        if !self.parameters.events {
            return None;
        }
        // Who has something to spend comes first, in the order of the next turns.
        let turns = &self.cycle.turns;
        let next = |class: &Priority| {
            (0..turns.len()).find(|ahead| turns[(self.cycle.at + ahead) % turns.len()] == *class)
        };
        let mut order = Priority::ALL;
        order.sort_by_key(next);
        order.sort_by_key(|class| !self.cycle.has_credit(*class));
        for class in order {
            if let Some(offer) = self.first(class, round) {
                self.cycle.place(class, offer.processors);
                return Some(offer);
            }
        }
        None
    }

    /// Places the first of a class that fits; of one shape that does not, nobody does.
    fn first(&mut self, class: Priority, round: &mut Round) -> Option<Offer> {
        for id in self.ready(class) {
            let job = self.jobs.get(&id).filter(|job| job.since <= round.began);
            let Some(shape) = job.map(|job| job.shape) else { continue };
            if round.refused.contains(&shape) {
                continue;
            }
            round.tried.push(shape);
            let request = Arc::clone(&self.shapes[shape]);
            let mut board = Board {
                grid: &round.grid,
                remaining: &mut round.remaining,
                history: &mut self.history,
                observer: &mut Silent,
            };
            match place(&request, &mut board) {
                Ok(plan) => {
                    let by = plan.placed_by(dominant_refusal(&request, &plan, &mut board));
                    self.refusals.remove(&shape);
                    self.set(id, Condition::Offered);
                    round.report.placed += 1;
                    let processors = request.processors();
                    return Some(Offer { job: id, plan, by, processors });
                }
                Err(refusal) => self.refuse(shape, refusal, round),
            }
        }
        None
    }

    fn refuse(&mut self, shape: usize, refusal: Refusal, round: &mut Round) {
        round.refused.insert(shape);
        round.report.shapes_refused += 1;
        self.refusals.insert(shape, refusal);
    }

    /// The oldest super-high job, if it is tried and has waited long enough, has withheld for
    /// it what it lacks.
    fn hoard_for(&mut self, round: &mut Round) -> Option<Hoard> {
        let job = *self.line(Priority::SuperHigh).first()?;
        let Job { entered, shape, condition, .. } = *self.jobs.get(&job)?;
        let until = hoards::until(&self.parameters.hoard, entered, round.now)?;
        if condition != Condition::Ready {
            return None;
        }
        let request = Arc::clone(&self.shapes[shape]);
        let mut board = Board {
            grid: &round.grid,
            remaining: &mut round.remaining.clone(),
            history: &mut self.history.clone(),
            observer: &mut Silent,
        };
        let refusal = place(&request, &mut board).err()?;
        self.refuse(shape, refusal, round);
        let share = self.parameters.hoard.share;
        let withheld = hoards::withhold(&request, &round.grid, share, &mut round.remaining);
        (!withheld.is_empty()).then_some(Hoard { job, withheld, until })
    }

    fn count(&mut self, id: JobId, round: &mut Round) {
        let job = self.jobs.get(&id).filter(|job| job.since <= round.began);
        let Some(job) = job else { return };
        let (last, now) = (self.tries.get(&id).copied(), round.now);
        if last.is_some_and(|Tries(.., at)| now < at + INTERVAL) {
            return;
        }
        let Tries(all, class, here, _) = last.unwrap_or(Tries(0, job.class, 0, 0));
        let here = if class == job.class { here + 1 } else { 1 };
        self.tries.insert(id, Tries(all + 1, job.class, here, now));
        round.report.tries_counted += 1;
        let most = job.most.or(self.parameters.max_placement_tries);
        let up = match job.class {
            Priority::Low => Some(Priority::High),
            Priority::High => Some(Priority::SuperHigh),
            _ => None,
        };
        let rises = self.parameters.promote_after.is_some_and(|after| here >= after);
        let decision = match up.filter(|_| rises) {
            _ if most.is_some_and(|most| all + 1 > most) => {
                Some(QueueDecision::GiveUp { job: id, tries: all + 1 })
            }
            up => up.map(|to| QueueDecision::Promote { job: id, to }),
        };
        if let Some(decision) = decision.filter(|_| !self.told.contains(&id)) {
            self.told.insert(id);
            round.report.decisions.push(decision);
        }
    }
}
