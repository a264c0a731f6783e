//! Whole placement queues over several sites: jobs of many shapes with files, fixed sites and
//! every policy come, change and leave, also while a scan is under way. Every plan, what is left,
//! what is withheld, every report and where each job stands are those of a [list of jobs], and
//! the work of a scan is what its steps cost.
//!
//! [list of jobs]: super::queues

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, JobId, PolicyName, Seq, SiteName};
use cospan_domain::job::spec::{Flexible, Priority, Request};
use cospan_domain::labels::{Constraint, Rule};
use cospan_domain::placement::{
    Acceptance, Belief, ComponentRequest, GridSite, GridSnapshot, Hindrance, History, Network,
    PlacementRequest, Quota, QuotaBasis, SiteShape, find_policy,
};
use cospan_domain::queue::{
    Condition, HoardParameters, PlacementQueues, QueueParameters, ScanStep, SliceBudget, Trigger,
    Waiting,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::queues::{INTERVAL, Job, Plain, Round};

/// Things done in one case.
const STEPS: usize = 16;
/// Policies that take longer than others.
const CONNECTED: [&str; 2] =
    ["connected-cluster-minimization", "connected-flexible-cluster-minimization"];
/// More than any scan may spend.
const PLENTY: u32 = 1_000_000;

/// The queues, and what they should be.
struct Case {
    queues: PlacementQueues,
    plain: Plain,
    sites: Vec<SiteName>,
    totals: Vec<Resources>,
    network: Arc<Network>,
    replicas: Arc<BTreeMap<Digest, BTreeSet<SiteName>>>,
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let mut found: Vec<String> = spends(chance).into_iter().collect();
    let Some(mut case) = draw(chance) else { return vec!["no queues can be drawn".to_owned()] };
    let mut now = 1_000_000_u64;
    for step in 0..STEPS {
        now += INTERVAL / 4 * chance.random_range(0..8);
        if chance.random_bool(0.6) {
            case.change(chance, now);
        } else if chance.random_bool(0.05) {
            case.plain.wake(now);
            case.queues.wake(Timestamp(now));
        } else {
            found.extend(case.scan(chance, now));
        }
        found.extend(case.stands_elsewhere().map(|text| format!("after step {step} {text}")));
        if !found.is_empty() {
            return found;
        }
    }
    found
}

/// A budget that is not used up may be overdrawn once.
fn spends(chance: &mut StdRng) -> Option<String> {
    let (has, units) = (chance.random_range(0..4), chance.random_range(0..4));
    let mut budget = SliceBudget(has);
    let may = budget.spend(units);
    let left = has.max(units) - units;
    let right = may == (has > 0) && budget.0 == left && SliceBudget::about_one_ms().0 > 0;
    (!right).then(|| format!("of {has} units {units} are spent: {may}, {budget:?}"))
}

fn draw(chance: &mut StdRng) -> Option<Case> {
    let count = if chance.random_bool(0.4) { 1 } else { chance.random_range(2..=3) };
    let names = (0..count).map(|number| SiteName::new(&format!("site-{number}")).ok());
    let sites: Vec<SiteName> = names.collect::<Option<_>>()?;
    let mut links = Vec::new();
    for (from, to) in sites.iter().flat_map(|from| sites.iter().map(move |to| (from, to))) {
        let rate = [0, 1_000_000, 8_000_000][chance.random_range(0..3)];
        links.push((from.clone(), to.clone(), BitsPerSecond(rate)));
    }
    let at = |chance: &mut StdRng| {
        sites.iter().filter(|_| chance.random_bool(0.5)).cloned().collect::<BTreeSet<_>>()
    };
    let replicas = (1..=2).map(|number| (Digest([number; 32]), at(chance))).collect();
    let pairs = sites.iter().flat_map(|to| sites.iter().map(move |from| (to, from)));
    let any = chance.random_bool(0.5);
    let pairs = pairs.filter(|_| chance.random_bool(0.5));
    let history = match any {
        true => History::All,
        false => History::Pairs(pairs.map(|(to, from)| (to.clone(), from.clone())).collect()),
    };
    let parameters = parameters(chance);
    let mut shapes = Vec::new();
    for _ in 0..chance.random_range(2..6) {
        let shape = Arc::new(shape(chance, &sites)?);
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    let totals = sites.iter().map(|_| Resources {
        processors: chance.random_range(4..=20),
        others: chance.random_bool(0.5).then(|| ("gpus".into(), 2)).into_iter().collect(),
    });
    Some(Case {
        totals: totals.collect(),
        sites,
        queues: PlacementQueues::new(parameters.clone(), history.clone()),
        plain: Plain::new(parameters, history, shapes),
        network: Arc::new(Network::from_links(links)),
        replicas: Arc::new(replicas),
    })
}

fn parameters(chance: &mut StdRng) -> QueueParameters {
    let mut weight = || chance.random_range(1..=2);
    let [n1, n2, n3, n4, n_h] = std::array::from_fn(|_| weight());
    let after = [None, Some(0), Some(INTERVAL), Some(3 * INTERVAL)][chance.random_range(0..4)];
    QueueParameters {
        n_h,
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
        hoard: HoardParameters {
            after: after.map(DurationMs),
            share: PerMillion([0, 300_000, 500_000, 1_000_000][chance.random_range(0..4)]),
            time: DurationMs([1, 2, 5][chance.random_range(0..3)] * INTERVAL),
        },
    }
}

/// What a job may ask for; some have policies that are gone, or cannot place them.
fn shape(chance: &mut StdRng, sites: &[SiteName]) -> Option<PlacementRequest> {
    let policy = match chance.random_range(0..12) {
        0..=4 => "worst-fit",
        5..=7 => "close-to-files",
        8 | 9 => "cluster-minimization",
        10 => ["flexible-cluster-minimization", CONNECTED[1]][chance.random_range(0..2)],
        _ => ["gone", CONNECTED[0]][chance.random_range(0..2)],
    };
    let flexible = policy.contains("flexible") && chance.random_bool(0.8);
    let fixed = !flexible && chance.random_bool(0.15);
    let count = if flexible { 1 } else { [1, 1, 2, 3][chance.random_range(0..4)] };
    let component = |chance: &mut StdRng| {
        let large = chance.random_bool(0.2);
        let processors = chance.random_range(1..=if large { 18 } else { 5 });
        let mut part = ComponentRequest::of_resources(Resources::processors(processors));
        if chance.random_bool(0.1) {
            part.resources.others.insert("gpus".into(), 1);
        }
        if chance.random_bool(0.1) {
            part.constraints.push(Constraint { key: "key".into(), rule: Rule::Is("a".into()) });
        }
        let inputs = (1..=2).filter(|_| chance.random_bool(0.15));
        let content = |number| Content { digest: Digest([number; 32]), size: Bytes(3_000_000) };
        part.inputs = inputs.map(content).collect();
        part.site = sites.choose(chance).cloned().filter(|_| fixed);
        part
    };
    let components = (0..count).map(|_| component(chance)).collect();
    let request = match (fixed, flexible) {
        (true, _) => Request::Fixed,
        (_, true) => Request::Flexible(Flexible::default()),
        _ => Request::NonFixed,
    };
    let restartable = chance.random_bool(0.7);
    Some(PlacementRequest::new(PolicyName::new(policy).ok()?, request, restartable, components))
}

impl Case {
    /// The sites as they are now; most of them take work and are busy.
    fn grid(&self, chance: &mut StdRng) -> Arc<GridSnapshot> {
        let mut sites = Vec::new();
        for (name, total) in self.sites.iter().zip(&self.totals) {
            let total = total.clone();
            let mut largest = total.clone();
            largest.processors -= if chance.random_bool(0.2) { 2 } else { 0 };
            let labels = chance.random_bool(0.7).then(|| ("key".into(), ["a".into()].into()));
            let labels = labels.into_iter().collect();
            let mut idle = total.clone();
            idle.processors = chance.random_range(0..=total.processors);
            let shape = SiteShape { total, largest_component: largest, labels };
            let half = Quota { share: PerMillion(500_000), basis: QuotaBasis::Level };
            let acceptance = match chance.random_range(0..12) {
                0 => Acceptance::Closed(Hindrance::Frozen),
                1 => Acceptance::ProbesOnly,
                _ => Acceptance::Open,
            };
            let belief = Belief { idle, asked_at: Timestamp(0) };
            sites.push(GridSite {
                shape: Some(Arc::new(shape)).filter(|_| chance.random_bool(0.95)),
                acceptance,
                idle: Some(belief).filter(|_| chance.random_bool(0.95)),
                quota: if chance.random_bool(0.1) { half } else { Quota::NONE },
                room: [None, None, None, Some(1)][chance.random_range(0..4)],
                serves_files: true,
                ..GridSite::unheard(name.clone())
            });
        }
        let (network, replicas) = (self.network.clone(), self.replicas.clone());
        Arc::new(GridSnapshot::new(Seq(1), sites, network, replicas))
    }

    /// A job comes, changes, leaves, answers, or is not placed after all.
    fn change(&mut self, chance: &mut StdRng, now: u64) {
        let id = JobId(chance.random_range(1..10));
        let known = self.plain.jobs.get(&id).cloned();
        match chance.random_range(0..20) {
            0 => {
                self.queues.remove(id);
                self.plain.remove(id);
            }
            1 => {
                self.queues.forget(id);
                self.plain.forget(id);
            }
            2..=6 if self.plain.heard(id) => self.queues.heard(id),
            2..=6 if known.as_ref().is_none_or(|job| job.condition == Condition::Offered) => {
                self.queues.withdraw_offer(id);
                self.plain.withdraw(id);
            }
            _ => {
                let waiting = self.waiting(chance, id, known, now);
                self.plain.insert(&waiting);
                self.queues.insert(waiting);
            }
        }
    }

    fn waiting(&self, chance: &mut StdRng, id: JobId, known: Option<Job>, now: u64) -> Waiting {
        let mut changes = |often: f64| known.is_none() || chance.random_bool(often);
        let [moves, reshapes, limits, stops] =
            [changes(0.4), changes(0.2), changes(0.3), changes(0.5)];
        let class = Priority::ALL[chance.random_range(0..4)];
        let class = known.as_ref().filter(|_| !moves).map_or(class, |job| job.class);
        let here = known.as_ref().filter(|job| job.class == class);
        let shape = chance.random_range(0..self.plain.shapes.len());
        let shape = known.as_ref().filter(|_| !reshapes).map_or(shape, |job| job.shape);
        let most = chance.random_bool(0.3).then(|| chance.random_range(0..4));
        let most = known.as_ref().filter(|_| !limits).map_or(most, |job| job.most);
        let (frozen, waits) = (stops && chance.random_bool(0.1), chance.random_bool(0.15));
        let later = now + INTERVAL / 4 * chance.random_range(0..5);
        Waiting {
            job: id,
            priority: class,
            entered: Timestamp(here.map_or(now, |job| job.entered)),
            not_before: Timestamp(if waits { later } else { 0 }),
            frozen,
            max_tries: most,
            // An equal request is the same shape, wherever it is kept.
            request: match chance.random_bool(0.2) {
                true => Arc::new((*self.plain.shapes[shape]).clone()),
                false => self.plain.shapes[shape].clone(),
            },
        }
    }

    /// One scan step by step, with or without changes in between.
    fn scan(&mut self, chance: &mut StdRng, now: u64) -> Option<String> {
        let grid = self.grid(chance);
        let trigger = [Trigger::Interval, Trigger::Interval, Trigger::Event];
        let trigger = trigger[chance.random_range(0..3)];
        let slice = [1, 7, PLENTY, PLENTY][chance.random_range(0..4)];
        let undisturbed = chance.random_bool(0.7);
        let mut round = self.plain.begin(trigger, grid.clone(), now);
        let mut scan = self.queues.begin_scan(trigger, grid, Timestamp(now));
        let shapes = self.shapes_ready();
        let (mut placed, mut yields, mut budget) = (Vec::new(), 0, SliceBudget(slice));
        loop {
            if !undisturbed && chance.random_bool(0.5) {
                self.change(chance, now);
            }
            let expected = self.plain.next(&mut round);
            let step = loop {
                match self.queues.step(&mut scan, &mut budget) {
                    ScanStep::Yield if budget.0 > 0 => return Some("it yields too early".into()),
                    ScanStep::Yield => (yields, budget) = (yields + 1, SliceBudget(slice)),
                    step => break step,
                }
            };
            let ought = match &expected {
                Some(offer) => ScanStep::Placed(offer.clone()),
                None => ScanStep::Done(round.report.clone()),
            };
            let same_grid = std::ptr::eq(scan.grid(), &*round.grid);
            let left = *scan.remaining() == round.remaining && scan.trying().is_none();
            if step != ought || !left || !same_grid {
                let jobs = &self.plain.jobs;
                let text = format!("{trigger:?} in slices of {slice}: {step:?}, not {ought:?}");
                let left = format!("{:?}, not {:?}", scan.remaining(), round.remaining);
                return Some(format!("{text}; left are {left}; of {jobs:?}"));
            }
            let Some(offer) = expected else { break };
            placed.extend(self.plain.jobs.get(&offer.job).map(|job| job.class));
        }
        let cost = self.cost(&round, &shapes, &placed);
        let spent = PLENTY - budget.0;
        let right = match slice {
            PLENTY => spent == cost,
            // The last of a slice may overdraw it.
            _ => yields * slice <= cost,
        };
        let text = || format!("{trigger:?} cost {spent} or {yields} slices of {slice}, not {cost}");
        (undisturbed && !right).then(text)
    }

    /// How many shapes are ready in each class.
    fn shapes_ready(&self) -> BTreeMap<Priority, u32> {
        let count = |class| {
            let jobs = self.plain.ready(class).into_iter();
            let shapes: BTreeSet<usize> =
                jobs.filter_map(|id| Some(self.plain.jobs.get(&id)?.shape)).collect();
            (class, u32::try_from(shapes.len()).unwrap_or(0))
        };
        Priority::ALL.into_iter().map(count).collect()
    }

    /// One unit for each step: the first of each shape is looked up, who is next, whose tries
    /// count. A decision costs more, with every component and with the effort of its policy.
    fn cost(&self, round: &Round, before: &BTreeMap<Priority, u32>, placed: &[Priority]) -> u32 {
        let after = self.shapes_ready();
        let visited = |class: &Priority| self.plain.parameters.events || round.turn == Some(*class);
        let mut cost = 0;
        for class in Priority::ALL.iter().filter(|class| visited(class)) {
            let of = |counts: &BTreeMap<Priority, u32>| counts.get(class).copied().unwrap_or(0);
            let plans = placed.iter().filter(|other| *other == class).count();
            cost += of(before) + 1 + u32::try_from(plans).unwrap_or(0) + of(&after);
        }
        if let Some(class) = round.turn {
            cost += u32::try_from(self.plain.line(class).len()).unwrap_or(0) + 1;
        }
        for request in round.tried.iter().map(|shape| &self.plain.shapes[*shape]) {
            let effort = find_policy(request.policy()).map_or(1, |policy| policy.effort(request));
            let parts = u32::try_from(request.components().len()).unwrap_or(0);
            cost += SliceBudget::DECISION * parts * effort;
        }
        cost
    }

    /// Where the queues are not what the list of their jobs says.
    fn stands_elsewhere(&self) -> Option<String> {
        let (queues, plain) = (&self.queues, &self.plain);
        for class in Priority::ALL {
            let line = plain.line(class);
            let told: Vec<JobId> = queues.jobs(class).collect();
            if told != line || queues.len_of(class) != line.len() {
                return Some(format!("{told:?} wait in {}, not {line:?}", class.as_str()));
            }
            for (ahead, id) in line.iter().enumerate() {
                let job = plain.jobs.get(id)?;
                let told = queues.standing(*id);
                let is =
                    told.as_ref().map(|s| (s.priority, s.ahead, s.condition, s.tries, &s.refusal));
                let refusal = plain.refusals.get(&job.shape).cloned();
                let ought = (class, ahead, job.condition, plain.tries(*id), &refusal);
                if is != Some(ought) {
                    return Some(format!("{id} stands {is:?}, not {ought:?}"));
                }
            }
        }
        let back_off = |job: &Job| match job.condition {
            Condition::BackedOff(until) => Some(until),
            _ => None,
        };
        let shapes: BTreeSet<usize> = plain.jobs.values().map(|job| job.shape).collect();
        let unserved = plain.jobs.values().any(|job| job.condition != Condition::Offered);
        let checks = [
            (queues.len() == plain.jobs.len(), "how many wait"),
            (queues.is_empty() == plain.jobs.is_empty(), "whether anybody waits"),
            (queues.next_wake() == plain.jobs.values().filter_map(back_off).min(), "wakes"),
            (queues.shape_count() == shapes.len(), "shapes"),
            (queues.has_unserved() == unserved, "whether anybody is unserved"),
            (*queues.history() == plain.history, "the history table"),
            (queues.hoard_in_effect() == plain.hoard.as_ref(), "what is withheld"),
            (*queues.parameters() == plain.parameters, "settings"),
            (queues.standing(JobId(99)).is_none(), "a job that is not there"),
        ];
        let (_, what) = checks.into_iter().find(|(right, _)| !right)?;
        let is = format!("{:?}, {:?}", queues.hoard_in_effect(), queues.history());
        Some(format!("{what}: {is}, not {:?}, {:?}", plain.hoard, plain.history))
    }
}
