//! Whole placement queues: who is placed by a scan, in which order, whose tries count, and
//! what follows from them, on one site and without faults. A scan in slices comes to the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::ids::{JobId, PolicyName, Seq, SiteName};
use cospan_domain::job::spec::{Priority, Request};
use cospan_domain::placement::{
    Acceptance, Belief, ComponentRequest, GridSite, GridSnapshot, History, Network,
    PlacementRequest, SiteShape,
};
use cospan_domain::queue::{
    Condition, HoardParameters, PlacementQueues, QueueDecision, QueueParameters, ScanReport,
    ScanStep, SliceBudget, Trigger, Waiting,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::turns::Cycle;

/// Things done in one case.
const STEPS: usize = 24;
const INTERVAL: u64 = 60_000;

/// A job that waits, as a list would have it.
#[derive(Debug, Clone)]
struct Job {
    class: Priority,
    entered: u64,
    size: u32,
    most: Option<u32>,
    condition: Condition,
}

/// Its tries: all, those in this class, and when the last was counted.
#[derive(Debug, Clone, Copy)]
struct Tries(u32, Priority, u32, u64);

struct Plain {
    parameters: QueueParameters,
    cycle: Cycle,
    jobs: BTreeMap<JobId, Job>,
    tries: BTreeMap<JobId, Tries>,
    /// Who was told to rise or to give up, and did not answer.
    told: BTreeSet<JobId>,
}

/// What a scan comes to: who is placed in which order, and the report.
type Scanned = (Vec<JobId>, ScanReport);

impl Plain {
    /// Ready jobs of a class, head to tail.
    fn ready(&self, class: Priority) -> Vec<JobId> {
        let ready = self
            .jobs
            .iter()
            .filter(|(_, job)| job.class == class && job.condition == Condition::Ready);
        let mut ready: Vec<_> = ready.map(|(id, job)| (job.entered, *id)).collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, id)| id).collect()
    }

    fn wake(&mut self, now: u64) {
        for job in self.jobs.values_mut() {
            if matches!(job.condition, Condition::BackedOff(until) if until.0 <= now) {
                job.condition = Condition::Ready;
            }
        }
    }

    /// Places the first of a class that fits.
    fn first(
        &mut self,
        class: Priority,
        left: &mut u32,
        refused: &mut BTreeSet<u32>,
    ) -> Option<JobId> {
        for id in self.ready(class) {
            let job = self.jobs.get_mut(&id)?;
            if refused.contains(&job.size) {
                continue;
            }
            if job.size <= *left {
                *left -= job.size;
                job.condition = Condition::Offered;
                return Some(id);
            }
            refused.insert(job.size);
        }
        None
    }

    fn scan(&mut self, trigger: Trigger, idle: u32, now: u64) -> Scanned {
        self.wake(now);
        let (mut left, mut refused) = (idle, BTreeSet::new());
        let (mut placed, mut report) = (Vec::new(), ScanReport::default());
        let mut occupied = [false; 4];
        for class in Priority::ALL {
            occupied[class as usize] = !self.ready(class).is_empty();
        }
        let turn = match trigger {
            Trigger::Interval => self.cycle.take(occupied),
            Trigger::Event => None,
        };
        if let Some(class) = turn {
            while let Some(id) = self.first(class, &mut left, &mut refused) {
                placed.push(id);
            }
            for id in self.ready(class) {
                self.count(id, now, &mut report);
            }
        }
        while self.parameters.events {
            let Some((id, class)) = self.offer(&mut left, &mut refused) else { break };
            placed.push(id);
            self.cycle.place(class, self.jobs.get(&id).map_or(0, |job| job.size.into()));
        }
        report.placed = u32::try_from(placed.len()).unwrap_or(0);
        report.shapes_refused = u32::try_from(refused.len()).unwrap_or(0);
        (placed, report)
    }

    /// Who has something to spend first, in the order of their next turns.
    fn offer(&mut self, left: &mut u32, refused: &mut BTreeSet<u32>) -> Option<(JobId, Priority)> {
        let turns = &self.cycle.turns;
        let next = |class: &Priority| {
            (0..turns.len()).find(|ahead| turns[(self.cycle.at + ahead) % turns.len()] == *class)
        };
        let mut order = Priority::ALL;
        order.sort_by_key(next);
        let (rich, poor): (Vec<Priority>, Vec<Priority>) =
            order.into_iter().partition(|class| self.cycle.has_credit(*class));
        let mut classes = rich.into_iter().chain(poor);
        classes.find_map(|class| Some((self.first(class, left, refused)?, class)))
    }

    fn count(&mut self, id: JobId, now: u64, report: &mut ScanReport) {
        let Some(job) = self.jobs.get(&id) else { return };
        let last = self.tries.get(&id).copied();
        if last.is_some_and(|Tries(.., at)| now < at + INTERVAL) {
            return;
        }
        let Tries(all, class, here, _) = last.unwrap_or(Tries(0, job.class, 0, 0));
        let here = if class == job.class { here + 1 } else { 1 };
        self.tries.insert(id, Tries(all + 1, job.class, here, now));
        report.tries_counted += 1;
        let most = job.most.or(self.parameters.max_placement_tries);
        let up = match job.class {
            Priority::Low => Some(Priority::High),
            Priority::High => Some(Priority::SuperHigh),
            _ => None,
        };
        let rises = self.parameters.promote_after.is_some_and(|after| here >= after);
        if self.told.contains(&id) {
            return;
        }
        let before = report.decisions.len();
        if most.is_some_and(|most| all + 1 > most) {
            report.decisions.push(QueueDecision::GiveUp { job: id, tries: all + 1 });
        } else if let Some(to) = up.filter(|_| rises) {
            report.decisions.push(QueueDecision::Promote { job: id, to });
        }
        if report.decisions.len() > before {
            self.told.insert(id);
        }
    }
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let mut weight = || chance.random_range(1..=2);
    let [n1, n2, n3, n4] = std::array::from_fn(|_| weight());
    let parameters = QueueParameters {
        n_h: weight(),
        n_l: 1,
        n1,
        n2,
        n3,
        n4,
        scan_interval: DurationMs(INTERVAL),
        promote_after: [None, Some(1), Some(2)][chance.random_range(0..3)],
        max_placement_tries: [None, None, Some(3)][chance.random_range(0..3)],
        events: chance.random_bool(0.7),
        turn_processors: [1, 4, 16][chance.random_range(0..3)],
        hoard: HoardParameters { after: None, ..HoardParameters::default() },
    };
    let cycle = Cycle::new(&parameters);
    let mut queues = PlacementQueues::new(parameters.clone(), History::All);
    let (jobs, tries, told) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let mut plain = Plain { parameters, cycle, jobs, tries, told };
    let mut now = 1_000_000_u64;
    for step in 0..STEPS {
        now += chance.random_range(0..2 * INTERVAL);
        if chance.random_bool(0.6) {
            let id = JobId(chance.random_range(1..9));
            change(chance, &mut queues, &mut plain, id, now);
        } else {
            let trigger = [Trigger::Interval, Trigger::Interval, Trigger::Event];
            let trigger = trigger[chance.random_range(0..3)];
            let idle = chance.random_range(0..12);
            let slice = [1, 7, 100_000][chance.random_range(0..3)];
            let expected = plain.scan(trigger, idle, now);
            let told = scan(&mut queues, trigger, idle, slice, now);
            if told != expected {
                let jobs = &plain.jobs;
                return vec![format!(
                    "{trigger:?} over {idle} in slices of {slice}: {told:?}, not {expected:?}; {jobs:?}"
                )];
            }
        }
        if let Some(text) = stands_elsewhere(&queues, &plain) {
            return vec![format!("after step {step} {text}")];
        }
    }
    Vec::new()
}

/// A job comes, changes, leaves, answers, or is not placed after all.
fn change(
    chance: &mut StdRng,
    queues: &mut PlacementQueues,
    plain: &mut Plain,
    id: JobId,
    now: u64,
) {
    match (chance.random_range(0..10), plain.jobs.get(&id).cloned()) {
        (0, _) => {
            queues.remove(id);
            plain.jobs.remove(&id);
        }
        (1, _) => {
            queues.forget(id);
            plain.jobs.remove(&id);
            plain.tries.remove(&id);
            plain.told.remove(&id);
        }
        (2..=5, _) if plain.told.remove(&id) => queues.heard(id),
        (2..=5, Some(job)) if job.condition == Condition::Offered => {
            queues.withdraw_offer(id);
            plain.jobs.insert(id, Job { condition: Condition::Ready, ..job });
        }
        (_, known) => {
            let class = Priority::ALL[chance.random_range(0..4)];
            let size = known.as_ref().map_or_else(|| chance.random_range(1..6), |job| job.size);
            let frozen = chance.random_bool(0.1);
            let waits = chance.random_bool(0.2);
            let not_before =
                Timestamp(if waits { now + chance.random_range(1..INTERVAL) } else { 0 });
            let most = chance.random_bool(0.2).then(|| chance.random_range(1..4));
            let offered = known.as_ref().is_some_and(|job| job.condition == Condition::Offered);
            let entered = match &known {
                Some(job) if job.class == class => job.entered,
                _ => now,
            };
            let condition = match (frozen, offered, waits) {
                (true, ..) => Condition::Frozen,
                (_, true, _) => Condition::Offered,
                (.., true) => Condition::BackedOff(not_before),
                _ => Condition::Ready,
            };
            let Ok(policy) = PolicyName::new("worst-fit") else { return };
            let component = ComponentRequest::of_resources(Resources::processors(size));
            let request = PlacementRequest::new(policy, Request::NonFixed, true, vec![component]);
            let (entered_at, request) = (Timestamp(entered), Arc::new(request));
            queues.insert(Waiting {
                job: id,
                priority: class,
                entered: entered_at,
                not_before,
                frozen,
                max_tries: most,
                request,
            });
            if let Some(tries) = plain.tries.get_mut(&id).filter(|tries| tries.1 != class) {
                (tries.1, tries.2) = (class, 0);
            }
            plain.jobs.insert(id, Job { class, entered, size, most, condition });
        }
    }
}

fn scan(
    queues: &mut PlacementQueues,
    trigger: Trigger,
    idle: u32,
    slice: u32,
    now: u64,
) -> Scanned {
    let Ok(name) = SiteName::new("delft") else { return Default::default() };
    let (total, idle) = (Resources::processors(20), Resources::processors(idle));
    let largest_component = total.clone();
    let shape = SiteShape { total, largest_component, labels: BTreeMap::new() };
    let site = GridSite {
        shape: Some(Arc::new(shape)),
        acceptance: Acceptance::Open,
        idle: Some(Belief { idle, asked_at: Timestamp(0) }),
        ..GridSite::unheard(name)
    };
    let network = Arc::new(Network::from_links([]));
    let replicas: BTreeMap<_, BTreeSet<SiteName>> = BTreeMap::new();
    let grid = Arc::new(GridSnapshot::new(Seq(1), [site], network, Arc::new(replicas)));
    let mut scan = queues.begin_scan(trigger, grid, Timestamp(now));
    let (mut placed, mut budget) = (Vec::new(), SliceBudget(slice));
    loop {
        match queues.step(&mut scan, &mut budget) {
            ScanStep::Placed(offer) => placed.push(offer.job),
            ScanStep::Yield => budget = SliceBudget(slice),
            ScanStep::Done(report) => return (placed, report),
        }
    }
}

/// Where the queues are not what a list of their jobs says.
fn stands_elsewhere(queues: &PlacementQueues, plain: &Plain) -> Option<String> {
    for class in Priority::ALL {
        let mut order: Vec<_> = (plain.jobs.iter().filter(|(_, job)| job.class == class))
            .map(|(id, job)| (job.entered, *id))
            .collect();
        order.sort_unstable();
        let order: Vec<JobId> = order.into_iter().map(|(_, id)| id).collect();
        let told: Vec<JobId> = queues.jobs(class).collect();
        if told != order || queues.len_of(class) != order.len() {
            return Some(format!("{told:?} wait in {}, not {order:?}", class.as_str()));
        }
        for (ahead, id) in order.iter().enumerate() {
            let condition = plain.jobs.get(id).map(|job| job.condition);
            let tries = plain.tries.get(id).map_or(0, |tries| tries.0);
            let told = queues.standing(*id);
            let is = told.as_ref().map(|s| (s.priority, s.ahead, s.condition, s.tries));
            if is != condition.map(|condition| (class, ahead, condition, tries)) {
                return Some(format!("{id} stands {told:?}: {condition:?}, {tries} tries"));
            }
        }
    }
    let wakes = plain.jobs.values().filter_map(|job| match job.condition {
        Condition::BackedOff(until) => Some(until),
        _ => None,
    });
    let sizes: BTreeSet<u32> = plain.jobs.values().map(|job| job.size).collect();
    let right = queues.len() == plain.jobs.len()
        && queues.is_empty() == plain.jobs.is_empty()
        && queues.next_wake() == wakes.min()
        && queues.shape_count() == sizes.len();
    (!right).then(|| format!("of {:?} wakes {:?}", plain.jobs, queues.next_wake()))
}
