//! Made-up runs: a crude scheduler over a few sites, with local users.

use std::collections::{BTreeMap, VecDeque};

use cospan_domain::units::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::simulate::report::{
    GanttBar, JobEnding, LoadKind, LoadUseStep, QueueStep, RunJob, RunRecord, SiteTrace,
};

/// What to make up.
#[derive(Debug, Clone)]
pub(super) struct SampleSettings {
    /// Label of the run.
    pub(super) label: String,
    /// Seed of the workload.
    pub(super) seed: u64,
    /// Processors by site.
    pub(super) sites: Vec<u32>,
    /// Number of grid jobs.
    pub(super) jobs: u64,
    /// Mean time between two grid jobs.
    pub(super) gap_ms: u64,
    /// Milliseconds for which claimed processors wait at the gate.
    pub(super) hold_ms: u64,
}

const BEGAN: u64 = 1_200_000_000_000;
const NAMES: [&str; 6] = [
    "Delft",
    "Amsterdam VU",
    "Leiden",
    "Amsterdam UvA",
    "Utrecht",
    "Twente",
];

enum SampleEvent {
    Submit(usize),
    LocalArrival(usize),
    Start(usize),
    End(usize),
    Free(usize, u32, LoadKind),
    Outage(usize),
}

struct SampleSimulation {
    rng: StdRng,
    now: u64,
    events: BTreeMap<(u64, u64), SampleEvent>,
    sequence: u64,
    used: Vec<[u32; 4]>,
    placed: Vec<Vec<(usize, u32)>>,
    waiting: VecDeque<usize>,
    run: RunRecord,
    hold_ms: u64,
}

/// Makes up a run.
pub(super) fn sample_run(of: &SampleSettings) -> RunRecord {
    let mut world = SampleSimulation::new(of);
    while let Some((&key, _)) = world.events.first_key_value() {
        let Some(event) = world.events.remove(&key) else {
            break;
        };
        if key.0 > world.run.ended.0 {
            break;
        }
        world.now = key.0;
        world.handle_event(event);
        world.place_waiting();
    }
    let counters = [
        ("messages", 41),
        ("journal records", 17),
        ("network faults", 3),
    ];
    world.run.counters = counters
        .map(|(name, each)| (name.to_owned(), each * of.jobs + of.seed))
        .into();
    world.run
}

impl SampleSimulation {
    fn new(of: &SampleSettings) -> Self {
        let mut rng = StdRng::seed_from_u64(of.seed);
        let length = of.jobs * of.gap_ms + 3_600_000;
        let site = |(index, processors): (usize, &u32)| SiteTrace {
            name: NAMES[index % NAMES.len()].to_owned(),
            processors: *processors,
            load: vec![LoadUseStep {
                at: Timestamp(BEGAN),
                running: 0,
                held: 0,
                local: 0,
                down: 0,
            }],
            bars: Vec::new(),
            bars_dropped: 0,
            bookings: Vec::new(),
            local_days: Vec::new(),
        };
        let mut at = BEGAN;
        let jobs: Vec<RunJob> = (1..=of.jobs)
            .map(&mut |id: u64| {
                at += draw_exponential(&mut rng, of.gap_ms);
                draw_job(&mut rng, id, at)
            })
            .collect();
        let sites: Vec<SiteTrace> = of.sites.iter().enumerate().map(site).collect();
        let mut world = Self {
            now: BEGAN,
            events: BTreeMap::new(),
            sequence: 0,
            used: vec![[0; 4]; sites.len()],
            placed: vec![Vec::new(); jobs.len()],
            waiting: VecDeque::new(),
            run: RunRecord {
                label: of.label.clone(),
                seed: of.seed,
                began: Timestamp(BEGAN),
                ended: Timestamp(BEGAN + length),
                sites,
                attempts: Vec::new(),
                queue: vec![QueueStep {
                    at: Timestamp(BEGAN),
                    waiting: 0,
                }],
                jobs,
                counters: BTreeMap::new(),
            },
            hold_ms: of.hold_ms,
            rng,
        };
        for index in 0..world.run.jobs.len() {
            world.schedule_event(
                world.run.jobs[index].submitted.0,
                SampleEvent::Submit(index),
            );
        }
        for site in 0..world.run.sites.len() {
            world.schedule_event(BEGAN, SampleEvent::LocalArrival(site));
            let first = length / 5 * (site as u64 + 1) / 2;
            world.schedule_event(BEGAN + first, SampleEvent::Outage(site));
        }
        world
    }

    fn schedule_event(&mut self, when: u64, event: SampleEvent) {
        self.sequence += 1;
        self.events.insert((when, self.sequence), event);
    }

    fn free_processors(&self, site: usize) -> u32 {
        self.run.sites[site]
            .processors
            .saturating_sub(self.used[site].iter().sum())
    }

    fn handle_event(&mut self, event: SampleEvent) {
        match event {
            SampleEvent::Submit(job) => self.waiting.push_back(job),
            SampleEvent::LocalArrival(site) => {
                let hour = (self.now - BEGAN) / 3_600_000 % 24;
                let gap = if (8..20).contains(&hour) {
                    300_000
                } else {
                    900_000
                };
                let next = self.now + draw_exponential(&mut self.rng, gap);
                self.schedule_event(next, SampleEvent::LocalArrival(site));
                let wanted = self.rng.random_range(1..12);
                let length = draw_exponential(&mut self.rng, 1_800_000);
                self.occupy(site, wanted, length, LoadKind::Local);
            }
            SampleEvent::Outage(site) => {
                let wanted = self.run.sites[site].processors / 6;
                self.occupy(site, wanted, 1_500_000, LoadKind::Down);
            }
            SampleEvent::Free(site, processors, kind) => {
                self.change_use(site, kind, processors, false)
            }
            SampleEvent::Start(job) => self.start_job(job),
            SampleEvent::End(job) => self.end_job(job),
        }
    }

    fn occupy(&mut self, site: usize, wanted: u32, length: u64, kind: LoadKind) {
        let processors = wanted.min(self.free_processors(site));
        if processors > 0 {
            self.change_use(site, kind, processors, true);
            self.add_bar(site, self.now, self.now + length, processors, kind, None);
            self.schedule_event(self.now + length, SampleEvent::Free(site, processors, kind));
        }
    }

    fn place_waiting(&mut self) {
        let mut index = 0;
        while index < self.waiting.len().min(30) {
            let job = self.waiting[index];
            self.run.jobs[job].attempts += 1;
            if self.try_place(job) {
                self.waiting.remove(index);
            } else {
                index += 1;
            }
        }
        let waiting = self.waiting.len() as u32;
        if self
            .run
            .queue
            .last()
            .is_none_or(|last| last.waiting != waiting)
        {
            self.run.queue.push(QueueStep {
                at: Timestamp(self.now),
                waiting,
            });
        }
    }

    fn try_place(&mut self, job: usize) -> bool {
        let components = self.run.jobs[job].components;
        let processors = self.run.jobs[job].processors;
        let mut free: Vec<u32> = (0..self.used.len())
            .map(|site| self.free_processors(site))
            .collect();
        let mut sites = Vec::new();
        for _ in 0..components {
            let share = processors / components;
            let Some(site) = (0..free.len()).max_by_key(|s| free[*s]) else {
                return false;
            };
            if free[site] < share {
                return false;
            }
            free[site] -= share;
            sites.push((site, share));
        }
        for (site, share) in &sites {
            self.change_use(*site, LoadKind::GridHold, *share, true);
        }
        let mut distinct: Vec<usize> = sites.iter().map(|(site, _)| *site).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let row = &mut self.run.jobs[job];
        row.sites = distinct.len() as u32;
        row.placed = Some(Timestamp(self.now));
        row.rounds += 1;
        row.transfer_bytes = u64::from(processors) * 1_000_000;
        self.placed[job] = sites;
        let hold = if components > 1 {
            1 + draw_exponential(&mut self.rng, self.hold_ms)
        } else {
            900
        };
        self.schedule_event(self.now + hold, SampleEvent::Start(job));
        true
    }

    fn start_job(&mut self, job: usize) {
        let held_from = self.run.jobs[job].placed.map_or(self.now, |at| at.0);
        let length = 1_000 + draw_exponential(&mut self.rng, 900_000);
        for (component, (site, share)) in self.placed[job].clone().into_iter().enumerate() {
            self.change_use(site, LoadKind::GridHold, share, false);
            self.change_use(site, LoadKind::GridRun, share, true);
            let id = Some((job as u64 + 1, component as u32));
            self.add_bar(site, held_from, self.now, share, LoadKind::GridHold, id);
            self.add_bar(
                site,
                self.now,
                self.now + length,
                share,
                LoadKind::GridRun,
                id,
            );
        }
        let row = &mut self.run.jobs[job];
        row.started = Some(Timestamp(self.now));
        row.held_processor_ms = (self.now - held_from) * u64::from(row.processors);
        self.schedule_event(self.now + length, SampleEvent::End(job));
    }

    fn end_job(&mut self, job: usize) {
        for (site, share) in std::mem::take(&mut self.placed[job]) {
            self.change_use(site, LoadKind::GridRun, share, false);
        }
        let row = &mut self.run.jobs[job];
        row.finished = Some(Timestamp(self.now));
        row.ending = match self.rng.random_range(0..100) {
            0..3 => JobEnding::Failed,
            3..4 => JobEnding::Cancelled,
            _ => JobEnding::Done,
        };
    }

    fn change_use(&mut self, site: usize, kind: LoadKind, processors: u32, more: bool) {
        let used = &mut self.used[site][kind as usize];
        *used = if more {
            *used + processors
        } else {
            *used - processors
        };
        let [running, held, local, down] = self.used[site];
        let step = LoadUseStep {
            at: Timestamp(self.now),
            running,
            held,
            local,
            down,
        };
        self.run.sites[site].load.push(step);
    }

    fn add_bar(
        &mut self,
        site: usize,
        from: u64,
        to: u64,
        processors: u32,
        kind: LoadKind,
        id: Option<(u64, u32)>,
    ) {
        self.run.sites[site].bars.push(GanttBar {
            from: Timestamp(from),
            to: Timestamp(to),
            processors,
            kind,
            job: id.map(|id| id.0),
            component: id.map(|id| id.1),
        });
    }
}

fn draw_job(rng: &mut StdRng, id: u64, at: u64) -> RunJob {
    let components = [1, 1, 1, 2, 2, 3, 4][rng.random_range(0..7)];
    let each = [1, 2, 4, 8, 8, 16, 16, 24][rng.random_range(0..8)];
    RunJob {
        id,
        name: format!("job-{id}"),
        components,
        processors: components * each,
        sites: 0,
        priority: ["low", "low", "high"][rng.random_range(0..3)].to_owned(),
        submitted: Timestamp(at),
        placed: None,
        claimed: None,
        started: None,
        finished: None,
        ending: JobEnding::Unfinished,
        total_placement_time_ms: 0,
        start_delay_ms: None,
        rounds: 0,
        rounds_aborted: 0,
        attempts: 0,
        failed_claims: 0,
        missed_starts: 0,
        preemptions: 0,
        site_errors: u32::from(rng.random_range(0..20) == 0),
        transfer_bytes: 0,
        transfer_time_ms: 0,
        gained_processor_ms: 0,
        held_processor_ms: 0,
    }
}

fn draw_exponential(rng: &mut StdRng, mean_ms: u64) -> u64 {
    let uniform: f64 = rng.random_range(f64::EPSILON..1.0);
    (-uniform.ln() * mean_ms as f64) as u64
}
