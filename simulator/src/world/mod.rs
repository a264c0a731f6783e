//! The simulated world: clusters with their batch systems, local users, files and links. It has no
//! clock of its own and knows nothing of the control plane: time is an argument, and everything
//! follows from the calls to it and from its agenda.

mod agenda;
pub mod attempt;
pub mod batch;
pub mod copies;
mod double_submissions;
pub mod network;
mod site_calls;
pub mod site_faults;
pub mod slurm_output;
mod waiting_local_users;
pub mod world_history;
mod world_reservations;
pub mod world_site;

use std::collections::BTreeMap;

use cospan_domain::ids::SiteName;
use cospan_domain::units::{BitsPerSecond, DurationMs, Timestamp};
use cospan_sites::port::AttemptSubmitRequest;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub use agenda::SiteIndex;
use agenda::{AgendaEvent, EventAgenda};
use batch::LrmJobId;
pub use copies::OUTPUT_BYTES;
use network::SimulatedNetwork;
use site_faults::{FaultEffectCounts, SiteFault};
use world_history::{WorldLedger, WorldLedgerEvent};
use world_site::{BatchJobOwner, ClusterSpec, LocalJobStart, SimulatedCluster};

/// A link from one site to another.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    pub from: SiteName,
    pub to: SiteName,
    pub bandwidth: BitsPerSecond,
    /// Time until the first byte arrives.
    pub latency: DurationMs,
}

/// The delays of the wrappers of our attempts.
#[derive(Debug, Clone, Copy)]
pub struct WrapperDelays {
    /// Longest time from the start of a batch job to its wrapper's arrival at the gate.
    pub launch_max: DurationMs,
    /// Longest time from the decision of a gate until its wrapper has seen it.
    pub gate_max: DurationMs,
    /// Time by which a payload is ended too late after its wall time.
    pub wall_late: DurationMs,
}

impl Default for WrapperDelays {
    fn default() -> Self {
        let wall_late = DurationMs::ZERO;
        Self {
            launch_max: DurationMs(1_000),
            gate_max: DurationMs(1_000),
            wall_late,
        }
    }
}

/// Everything outside of the control plane.
pub struct SimulatedWorld {
    now: Timestamp,
    sites: Vec<SimulatedCluster>,
    by_name: BTreeMap<SiteName, SiteIndex>,
    network: SimulatedNetwork,
    fastest_link: BitsPerSecond,
    agenda: EventAgenda,
    ledger: WorldLedger,
    chance: StdRng,
    pace: WrapperDelays,
    /// True for sites at which something changed since the last call.
    touched: Vec<bool>,
    next_flow: u64,
    troubles: Vec<SiteFault>,
    struck: FaultEffectCounts,
    /// An attempt that another control plane submits where numbers are reused.
    rival: Option<AttemptSubmitRequest>,
    /// True if batch jobs whose node died are requeued.
    requeues: bool,
    /// True if control planes drive the sites through the adapter of Slurm.
    by_slurm: bool,
}

impl SimulatedWorld {
    /// Makes a world in which nothing has happened yet. All its random numbers follow from `seed`.
    pub fn new(
        sites: Vec<ClusterSpec>,
        links: &[LinkSpec],
        pace: WrapperDelays,
        seed: u64,
        now: Timestamp,
    ) -> Self {
        let mut network = SimulatedNetwork::new();
        for link in links {
            network.set_link(&link.from, &link.to, link.bandwidth, link.latency, now);
        }
        let fastest_link = links
            .iter()
            .map(|link| link.bandwidth)
            .max()
            .unwrap_or_default();
        let names = sites
            .iter()
            .enumerate()
            .map(|(at, site)| (site.name.clone(), SiteIndex(at)));
        let by_name = names.collect();
        let touched = vec![false; sites.len()];
        let sites: Vec<SimulatedCluster> = sites
            .into_iter()
            .map(|spec| SimulatedCluster::new(spec, now))
            .collect();
        let mut world = Self {
            now,
            sites,
            by_name,
            network,
            fastest_link,
            agenda: EventAgenda::default(),
            ledger: WorldLedger::default(),
            chance: StdRng::seed_from_u64(seed),
            pace,
            touched,
            next_flow: 0,
            troubles: Vec::new(),
            struck: FaultEffectCounts::new(),
            rival: None,
            requeues: false,
            by_slurm: false,
        };
        for at in 0..world.sites.len() {
            world.schedule_local_user(SiteIndex(at));
        }
        world
    }

    /// Adds another control plane that uses the same account: where a batch system forgets
    /// submissions, it is the next to submit, and gets their numbers.
    pub fn set_rival(&mut self, order: AttemptSubmitRequest) {
        self.rival = Some(order);
    }

    /// Makes sites requeue batch jobs whose node died from now on, although nobody asked for that.
    pub fn set_requeues(&mut self, requeues: bool) {
        self.requeues = requeues;
    }

    /// Makes control planes drive the sites through the adapter of Slurm from now on.
    pub fn drive_by_slurm(&mut self) {
        self.by_slurm = true;
    }

    /// Returns true if control planes drive the sites through the adapter of Slurm.
    pub fn is_driven_by_slurm(&self) -> bool {
        self.by_slurm
    }

    /// Returns the time that the world has reached.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns what payloads and sites did: the truth that oracles read.
    pub fn ledger(&self) -> &WorldLedger {
        &self.ledger
    }

    /// Returns how often each kind of fault had an effect at each step.
    pub fn fault_counts(&self) -> &FaultEffectCounts {
        &self.struck
    }

    /// Returns the index of a site; `None` if there is none of this name.
    pub fn index_of(&self, name: &SiteName) -> Option<SiteIndex> {
        self.by_name.get(name).copied()
    }

    /// Returns the sites, in the order in which they were given.
    pub fn sites(&self) -> &[SimulatedCluster] {
        &self.sites
    }

    /// Returns the time of the next event that happens by itself.
    pub fn next_event(&self) -> Option<Timestamp> {
        let flow = self.network.next_completion().map(|(at, _)| at);
        flow.into_iter().chain(self.agenda.next_time()).min()
    }

    /// Lets everything happen that is due until `now`.
    pub fn advance_to(&mut self, now: Timestamp) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            self.finish_copies();
            while let Some((site, event)) = self.agenda.take_due(self.now) {
                self.handle_event(site, event);
            }
        }
        self.now = self.now.max(now);
    }

    /// Returns the sites at which something changed since the last call.
    pub fn take_touched(&mut self) -> Vec<SiteIndex> {
        let touched = self.touched.iter_mut().enumerate();
        touched
            .filter_map(|(at, bit)| std::mem::take(bit).then_some(SiteIndex(at)))
            .collect()
    }

    fn handle_event(&mut self, site: SiteIndex, event: AgendaEvent) {
        match event {
            AgendaEvent::WrapperReady(tag, job) => self.on_wrapper_ready(site, tag, job),
            AgendaEvent::HoldOver(tag) => self.on_hold_over(site, tag),
            AgendaEvent::Eligible(tag, job) => self.enter_queue(site, tag, job),
            AgendaEvent::GateSeen(tag) => self.on_gate_seen(site, tag),
            AgendaEvent::PayloadEnd(tag) => self.on_payload_end(site, tag),
            AgendaEvent::LocalUser => self.submit_local_job(site),
            AgendaEvent::LocalEnd(job) => self.end_local_job(site, job),
            AgendaEvent::LocalQueue => self.check_waiting(site),
            AgendaEvent::FailedByNode(job) => self.fail_by_node(site, job),
            AgendaEvent::NodeUp(node) => self.bring_node_up(site, node),
            AgendaEvent::NodeMended(node) => self.repair_black_hole(site, node),
            AgendaEvent::Trouble(number) => self.apply_fault(site, number),
        }
    }

    /// Draws a duration of at most `most`.
    fn draw_duration(&mut self, most: DurationMs) -> DurationMs {
        DurationMs(self.chance.random_range(0..=most.0))
    }

    fn mark_touched(&mut self, site: SiteIndex) {
        self.touched[site.0] = true;
    }

    /// Starts every batch job that may start, and records the load.
    fn start_batch_jobs(&mut self, site: SiteIndex) {
        let now = self.now;
        self.start_waiting(site);
        for job in self.sites[site.0].batch.schedule(now) {
            self.handle_batch_start(site, job);
        }
        self.sites[site.0].record_load(now);
        self.mark_touched(site);
    }

    fn handle_batch_start(&mut self, site: SiteIndex, job: LrmJobId) {
        let is_failed = self.sites[site.0].runs_in_a_black_hole(job);
        match self.sites[site.0].occupants.get(&job).cloned() {
            Some(BatchJobOwner::Ours(tag)) => {
                let delay = self.draw_duration(self.pace.launch_max);
                self.sites[site.0].mark_started(tag, job);
                let name = &self.sites[site.0].name;
                self.ledger
                    .record_event(self.now, name, tag, WorldLedgerEvent::Started);
                let event = if is_failed {
                    AgendaEvent::FailedByNode(job)
                } else {
                    AgendaEvent::WrapperReady(tag, job)
                };
                self.agenda.add_event(self.now + delay, site, event);
            }
            Some(BatchJobOwner::Local { .. }) if is_failed => {
                let delay = self.pace.launch_max;
                self.agenda
                    .add_event(self.now + delay, site, AgendaEvent::FailedByNode(job));
            }
            Some(BatchJobOwner::Local {
                run_time,
                submitted,
                ..
            }) => {
                let began = LocalJobStart {
                    submitted,
                    began: self.now,
                    run_time,
                };
                self.sites[site.0].local_starts.push(began);
                self.agenda
                    .add_event(self.now + run_time, site, AgendaEvent::LocalEnd(job));
            }
            None => {}
        }
    }

    fn schedule_local_user(&mut self, site: SiteIndex) {
        if let Some(at) = self.sites[site.0].next_local_submission() {
            self.agenda.add_event(at, site, AgendaEvent::LocalUser);
        }
    }

    fn submit_local_job(&mut self, site: SiteIndex) {
        let now = self.now;
        if let Some(job) = self.sites[site.0].take_next_local_job() {
            self.sites[site.0].accept_local_job(job, now);
        }
        self.schedule_local_user(site);
        self.start_batch_jobs(site);
    }

    fn end_local_job(&mut self, site: SiteIndex, job: LrmJobId) {
        if self.sites[site.0].end_local_job(job, self.now) {
            self.start_batch_jobs(site);
        }
    }
}
