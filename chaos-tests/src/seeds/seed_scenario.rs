//! Draws a scenario from a seed: first which kinds of faults exist, then how often each happens.

use std::collections::BTreeMap;

use anyhow::Result;
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::claim::{ClaimParameters, MinClaimInterval};
use cospan_domain::content::Content;
use cospan_domain::ids::{PolicyName, RelPath, SiteName};
use cospan_domain::job::spec::{FlexibleBounds, Priority, RequestType};
use cospan_domain::placement::policy::POLICIES;
use cospan_domain::placement::{PlacementDefaults, QuotaBasis, SiteQuota};
use cospan_domain::queue::QueueParameters;
use cospan_domain::site::shared_reservation::SharedReservationTerms;
use cospan_domain::site::site_command::OperatorCommand;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, PerMillion, Timestamp};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, SeedableRng};

use super::crowds::CrowdKind;
use super::disks::draw_disk;
use super::draw_faults::{
    cut_off, draw_cut_offs, draw_deaths, draw_fault_rates, draw_faults, draw_kills, draw_panics,
};
use super::draw_reservations::draw_reservations;
use super::draw_shared_reservations::draw_shared;
use super::quotas::{ReservationQuota, draw_reservation_quota};
use super::rare_options::{
    RareOptions, draw_abandons, draw_moves, draw_orders, draw_queue, draw_rarities, draw_rivals,
};
use super::staging::draw_staging;
use super::stalls::draw_stalls;
use super::sweeps::{DrawnSweep, draw_sweeps};
use cospan_simulator::call_faults::FaultRates;
use cospan_simulator::kill_switch::KillPoint;
use cospan_simulator::panics::PanicRates;
use cospan_simulator::stalls::StallSettings;
use cospan_simulator::world::LinkSpec;
use cospan_simulator::world::batch::QueueDiscipline;
use cospan_simulator::world::site_faults::SiteFault;
use cospan_simulator::world::world_site::{ClusterSpec, LocalJob};

/// Start time of every run.
pub const BEGINS: Timestamp = Timestamp(1_000_000_000);
pub(super) const MINUTE: u64 = 60_000;
pub(super) const HOUR: u64 = 60 * MINUTE;
/// Clocks are set off by an hour at most.
const CLOCK_OFF_MS: i64 = 3_600_000;
const NAMES: [&str; 5] = ["amsterdam", "delft", "leiden", "twente", "utrecht"];
/// Share of the runs whose sites are driven by the adapter of Slurm; drawn from a stream of its
/// own.
const SLURM_SHARE: f64 = 0.1;
const BY_SLURM: u64 = 0x0073_6c75_726d;
/// Bandwidth of links while they are well.
pub(super) const BANDWIDTH: BitsPerSecond = BitsPerSecond(100_000_000);

/// The end of one run of the control plane, if it does not see the calm.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    /// Longest run.
    pub after: DurationMs,
    /// The act at which it is killed, if that comes sooner.
    pub moment: Option<KillPoint>,
    /// Downtime afterwards.
    pub down: DurationMs,
    /// Milliseconds by which the clock of its machine is ahead of the true time.
    pub clock_ahead_ms: i64,
}

/// An action of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAction {
    /// Submits the job with this number, with all of its sweep if it is the first of one, so
    /// many times at once; a later action may submit it again.
    Submit(usize, usize),
    /// Cancels it.
    Cancel(usize),
    /// Cancels it, and does not wait for silent sites.
    Abandon(usize),
    /// Freezes it, or thaws it.
    Freeze(usize, bool),
    /// Asks for another reservation, or for none any more.
    Promise(usize, Option<ReservationTerms>),
    /// Gives it another priority.
    Raise(usize, Priority),
    /// An operator gives a command about the site with this number.
    Site(usize, OperatorCommand),
    /// Operators request a shared reservation at these sites at the same moment: one of them may.
    Reserve(Vec<usize>, Box<SharedReservationTerms>),
    /// Says that the file with this number is not at one of its sites any more, or that
    /// it is again.
    File(usize, SiteName, bool),
}

/// A file with the sites that have it.
pub type DrawnFile = (RelPath, Content, Vec<SiteName>);

/// A job as drawn.
#[derive(Debug, Clone)]
pub struct DrawnJob {
    /// Processors of each component.
    pub components: Vec<u32>,
    /// Set if the policy splits their sum instead: the ways in which it may.
    pub flexible: Option<FlexibleBounds>,
    /// Run time of its payloads.
    pub run_time: DurationMs,
    /// The requested wall time.
    pub wall_time: DurationMs,
    /// Exit code of its payloads.
    pub code: i32,
    /// The file that it reads, by number.
    pub input: Option<usize>,
    /// The site that is to keep what its first component writes, by number.
    pub output: Option<usize>,
    /// Options that few jobs have.
    pub rare_options: RareOptions,
}

/// Everything that a run consists of.
#[derive(Debug, Clone)]
pub struct SeedScenario {
    pub seed: u64,
    pub sites: Vec<ClusterSpec>,
    /// Links between the sites.
    pub links: Vec<LinkSpec>,
    /// Files, each with the sites that have it.
    pub files: Vec<DrawnFile>,
    /// Jobs by number.
    pub jobs: Vec<DrawnJob>,
    /// Those of them that are runs of sweeps.
    pub sweeps: Vec<DrawnSweep>,
    /// Actions of users, in order of time.
    pub actions: Vec<(Timestamp, UserAction)>,
    /// Fault rates of calls and of the disk.
    pub fault_rates: FaultRates,
    /// Faults of the world: when, at which site, what.
    pub troubles: Vec<(Timestamp, usize, SiteFault)>,
    /// Times in which no site answers.
    pub cut_offs: Vec<(Timestamp, Timestamp)>,
    /// Policies of the jobs.
    pub policies: PlacementDefaults,
    /// Quota of each site.
    pub quotas: BTreeMap<SiteName, SiteQuota>,
    /// The most that copies may take of a site.
    pub staging: BTreeMap<SiteName, Bytes>,
    /// Settings of claims.
    pub claim: ClaimParameters,
    /// Settings of the placement queues.
    pub queue: QueueParameters,
    /// Runs of the control plane that are killed, one after the other.
    pub kills: Vec<Kill>,
    /// True if sites send hints of changes.
    pub hints: bool,
    /// Time between two polls.
    pub poll_interval: DurationMs,
    /// Most commands that wait at the intake.
    pub intake_bound: usize,
    /// Most calls to one site that are under way at once.
    pub calls_per_site: usize,
    /// Longest time from the start of a batch job to its wrapper's arrival at the gate.
    pub launch_max: DurationMs,
    /// Time from the end of its wall time until a payload is ended by its site.
    pub wall_late: DurationMs,
    /// The most of a site that a user may reserve.
    pub reservation_quota: ReservationQuota,
    /// Rate of panics of actors, in a build that has points for that.
    pub panics: Option<PanicRates>,
    /// Rate of stalls of actors.
    pub stalls: Option<StallSettings>,
    /// True if sites put batch jobs whose node died back into their queues.
    pub requeues: bool,
    /// True if sites are driven by the adapter of Slurm, which asks as seldom as it does.
    pub by_slurm: bool,
    /// Time for which ended jobs are kept before they are archived.
    pub keep_jobs: DurationMs,
    /// From then on nothing goes wrong any more.
    pub calm_at: Timestamp,
}

pub(super) struct ScenarioDrawing {
    pub(super) chance: StdRng,
    pub(super) until: Timestamp,
}

impl ScenarioDrawing {
    /// Draws whether something exists at all in this run.
    pub(super) fn draw_existence(&mut self) -> bool {
        self.chance.random_bool(0.5)
    }

    pub(super) fn draw_between(&mut self, least: u64, most: u64) -> DurationMs {
        DurationMs(self.chance.random_range(least..=most))
    }

    /// Draws how far a clock is ahead, or behind, in milliseconds.
    pub(super) fn draw_clock_offset_ms(&mut self) -> i64 {
        self.chance.random_range(-CLOCK_OFF_MS..=CLOCK_OFF_MS)
    }

    pub(super) fn draw_moment(&mut self) -> Timestamp {
        BEGINS + DurationMs(self.chance.random_range(0..self.until.since(BEGINS).0))
    }
}

impl SeedScenario {
    /// Draws a run of so many jobs on so many sites, with faults during `length`.
    ///
    /// # Errors
    /// Never: all names are valid.
    pub fn draw(seed: u64, jobs: usize, sites: usize, length: DurationMs) -> Result<Self> {
        let calm_at = BEGINS + length;
        let mut drawing = ScenarioDrawing {
            chance: StdRng::seed_from_u64(seed),
            until: calm_at,
        };
        let names: Vec<SiteName> = NAMES[..sites.min(NAMES.len())]
            .iter()
            .map(|name| SiteName::new(name))
            .collect::<Result<_, _>>()?;
        let files = draw_files(&mut drawing, &names)?;
        let drawn = (0..jobs)
            .map(|_| draw_job(&mut drawing, files.len(), names.len()))
            .collect();
        let mut drawn = draw_rarities(seed, drawn, &names);
        let (sweeps, swept) = draw_sweeps(seed, &mut drawn, files.len(), calm_at);
        let cut_offs = draw_cut_offs(&mut drawing);
        let sites: Vec<_> = names
            .iter()
            .map(|n| draw_site(&mut drawing, n, &files))
            .collect();
        let mut troubles = draw_faults(&mut drawing, &names);
        troubles.extend(cut_off(&names, &cut_offs));
        let mut actions = draw_actions(&mut drawing, jobs);
        actions.extend(swept);
        actions.extend(draw_orders(seed, names.len(), calm_at));
        actions.extend(draw_moves(seed, &files, calm_at));
        actions.extend(draw_abandons(seed, &actions, &troubles));
        actions.sort_by_key(|(at, _)| *at);
        let mut scenario = Self {
            seed,
            policies: draw_policies(&mut drawing),
            quotas: draw_quotas(&mut drawing, &sites),
            queue: draw_queue(seed),
            staging: draw_staging(seed, &files, &names),
            sites,
            links: all_links(&names),
            actions,
            fault_rates: draw_fault_rates(&mut drawing),
            troubles,
            cut_offs,
            kills: draw_deaths(seed, draw_kills(&mut drawing), calm_at),
            hints: drawing.chance.random_bool(0.7),
            poll_interval: drawing.draw_between(2_000, 60_000),
            intake_bound: [1, 1_024][drawing.chance.random_range(0..2)],
            calls_per_site: drawing.chance.random_range(1..=8),
            launch_max: DurationMs([1_000, MINUTE][drawing.chance.random_range(0..2)]),
            keep_jobs: DurationMs([HOUR, 24 * HOUR][drawing.chance.random_range(0..2)]),
            claim: draw_claim(&mut drawing),
            requeues: drawing.draw_existence(),
            by_slurm: StdRng::seed_from_u64(seed ^ BY_SLURM).random_bool(SLURM_SHARE),
            wall_late: DurationMs::ZERO,
            reservation_quota: ReservationQuota::default(),
            panics: draw_panics(&mut drawing),
            stalls: draw_stalls(seed, calm_at),
            files,
            jobs: drawn,
            sweeps,
            calm_at,
        };
        scenario.fault_rates.disk = draw_disk(seed, calm_at);
        match CrowdKind::of(seed, scenario.sites.len()) {
            Some(crowd) => crowd.apply_to(&mut scenario),
            None => {
                draw_rivals(&mut scenario);
                draw_queues(seed, &mut scenario.sites);
                draw_reservations(&mut scenario);
                draw_reservation_quota(&mut scenario);
                draw_shared(&mut scenario)?;
            }
        }
        Ok(scenario)
    }

    /// Lists times in which no site answers although each did before: then it is plain that the
    /// fault is ours. A site that is unreachable is so for two hours at most.
    pub fn plain_cut_offs(&self) -> Vec<(Timestamp, Timestamp)> {
        self.cut_offs
            .iter()
            .filter(|(from, to): &&(Timestamp, Timestamp)| {
                let mut others = self
                    .troubles
                    .iter()
                    .filter(|(.., trouble)| trouble.hides_site());
                !others.any(|(at, ..)| *at + DurationMs(3 * HOUR) >= *from && at <= to)
            })
            .copied()
            .collect()
    }

    /// Describes the draw in one line.
    pub fn describe(&self) -> String {
        let faults: Vec<String> = self
            .fault_rates
            .faults
            .iter()
            .map(|(f, share)| format!("{}:{share}", f.as_str()))
            .collect();
        let mut troubles: BTreeMap<&str, usize> = BTreeMap::new();
        self.troubles
            .iter()
            .for_each(|(.., t)| *troubles.entry(t.kind().as_str()).or_default() += 1);
        let troubles: Vec<String> = troubles.iter().map(|(t, n)| format!("{t}:{n}")).collect();
        let crowd = CrowdKind::of(self.seed, self.sites.len());
        let stalls = self.stalls.map(|stalls| stalls.to_string());
        format!(
            "seed {}: {} sites{}, {} jobs{} under {} and {}, {} quotas, {} queues, {} promises, {} within, {} actions, {} kills, way {} ms, sync {} ms, poll {}, hints {}, faults [{}], failing syncs {}, troubles [{}], stalls [{}]",
            self.seed,
            self.sites.len(),
            if self.by_slurm { " under Slurm" } else { "" },
            self.jobs.len(),
            crowd.map_or("", CrowdKind::as_str),
            self.policies.rigid,
            self.policies.flexible,
            self.quotas.len(),
            self.sites.iter().filter(|site| site.queues).count(),
            self.jobs
                .iter()
                .filter(|job| job.rare_options.promised.is_some())
                .count(),
            self.jobs
                .iter()
                .filter(|job| job.rare_options.within.is_some())
                .count(),
            self.actions.len(),
            self.kills.len(),
            self.fault_rates.way_max.0,
            self.fault_rates.sync_max.0,
            self.poll_interval,
            self.hints,
            faults.join(" "),
            self.fault_rates.failing_syncs,
            troubles.join(" "),
            stalls.unwrap_or_default(),
        )
    }
}

/// Lets components wait in the queues of most of the sites, in a third of these runs. Drawn from a
/// stream of its own.
fn draw_queues(seed: u64, sites: &mut [ClusterSpec]) {
    let mut chance = StdRng::seed_from_u64(seed ^ QUEUES);
    if chance.random_ratio(1, 3) {
        sites
            .iter_mut()
            .for_each(|site| site.queues = chance.random_bool(0.7));
    }
}

/// Number of the random stream.
const QUEUES: u64 = 0x7175_6575_6573;

fn draw_files(drawing: &mut ScenarioDrawing, names: &[SiteName]) -> Result<Vec<DrawnFile>> {
    (0..12)
        .map(|number: usize| {
            let path = RelPath::new(&format!("data/file-{number}"))?;
            let digest = blake3::hash(format!("file {number}").as_bytes());
            // On its way for up to ten minutes: time enough to claim more than once.
            let most = [2_000_000_000, 8_000_000_000][drawing.chance.random_range(0..2)];
            let size = Bytes(drawing.chance.random_range(1_000_000..most));
            let digest = cospan_domain::ids::Digest(*digest.as_bytes());
            let count = drawing.chance.random_range(1..=names.len().min(3));
            let at = names
                .choose_multiple(&mut drawing.chance, count)
                .cloned()
                .collect();
            Ok((path, Content { digest, size }, at))
        })
        .collect()
}

fn draw_site(drawing: &mut ScenarioDrawing, name: &SiteName, files: &[DrawnFile]) -> ClusterSpec {
    let disciplines = [
        QueueDiscipline::Fcfs,
        QueueDiscipline::Easy,
        QueueDiscipline::Conservative,
    ];
    let discipline = disciplines[drawing.chance.random_range(0..3)];
    let nodes = drawing.chance.random_range(4..=32);
    let mut local_jobs = Vec::new();
    if drawing.draw_existence() {
        let most = drawing.chance.random_range(5 * MINUTE..=HOUR);
        let mut at = BEGINS + drawing.draw_between(0, most);
        while at < drawing.until {
            let run_time = drawing.draw_between(MINUTE, HOUR);
            let processors = drawing.chance.random_range(1..=nodes);
            let estimate = DurationMs(run_time.0 * drawing.chance.random_range(1..=3));
            local_jobs.push(LocalJob {
                at,
                processors,
                run_time,
                estimate,
            });
            at = at + drawing.draw_between(1, most);
        }
    }
    let here = files.iter().filter(|(.., at)| at.contains(name));
    let files = here
        .map(|(path, content, _)| (path.clone(), *content))
        .collect();
    let name = name.clone();
    ClusterSpec {
        name,
        nodes,
        processors_per_node: 2,
        discipline,
        local_jobs,
        files,
        queues: false,
        reserves: false,
    }
}

fn all_links(names: &[SiteName]) -> Vec<LinkSpec> {
    let pairs = names
        .iter()
        .flat_map(|from| names.iter().map(move |to| (from, to)));
    let others = pairs.filter(|(from, to)| from != to);
    others
        .map(|(from, to)| LinkSpec {
            from: from.clone(),
            to: to.clone(),
            bandwidth: BANDWIDTH,
            latency: DurationMs(2),
        })
        .collect()
}

fn draw_job(drawing: &mut ScenarioDrawing, files: usize, sites: usize) -> DrawnJob {
    let parts = [1, 1, 1, 2, 2, 3][drawing.chance.random_range(0..6)];
    let components: Vec<u32> = (0..parts)
        .map(|_| drawing.chance.random_range(1..=8))
        .collect();
    let run_time = drawing.draw_between(1_000, 20 * MINUTE);
    let wall_time = if drawing.chance.random_bool(0.95) {
        DurationMs(run_time.0 + MINUTE)
    } else {
        DurationMs(run_time.0 / 2 + 1)
    };
    let code = i32::from(drawing.chance.random_bool(0.03));
    let reads = drawing.chance.random_bool(0.4);
    let input = reads.then(|| drawing.chance.random_range(0..files));
    let leaves = drawing.chance.random_bool(0.15);
    let output = leaves.then(|| drawing.chance.random_range(0..sites));
    let flexible = (output.is_none() && drawing.chance.random_bool(0.2))
        .then(|| draw_split(drawing, &components));
    let rare_options = RareOptions::default();
    DrawnJob {
        components,
        flexible,
        run_time,
        wall_time,
        code,
        input,
        output,
        rare_options,
    }
}

/// Draws bounds, or the drawn components as the preferred of two splits.
fn draw_split(drawing: &mut ScenarioDrawing, components: &[u32]) -> FlexibleBounds {
    let total: u32 = components.iter().sum();
    let splits = if drawing.chance.random_bool(0.3) {
        vec![components.to_vec(), vec![total]]
    } else {
        Vec::new()
    };
    // The smallest site has eight processors: so many components always find their sites.
    let most = drawing.chance.random_range(total.div_ceil(8)..=4);
    let most = drawing.chance.random_bool(0.3).then_some(most);
    let min_component_size = drawing.chance.random_range(1..=total.min(4));
    FlexibleBounds {
        min_component_size,
        max_components: most,
        splits,
    }
}

/// Draws claims of all or nothing, or bit by bit; early or at the last moment.
fn draw_claim(drawing: &mut ScenarioDrawing) -> ClaimParameters {
    let often = drawing.chance.random_bool(0.2);
    ClaimParameters {
        threshold: PerMillion([0, 500_000, 1_000_000][drawing.chance.random_range(0..3)]),
        l: PerMillion([0, 750_000, 1_000_000][drawing.chance.random_range(0..3)]),
        min_claim_step: if often {
            MinClaimInterval::Fixed(DurationMs(5_000))
        } else {
            MinClaimInterval::Auto
        },
        ..ClaimParameters::default()
    }
}

/// Draws one of the policies for each type of request.
fn draw_policies(drawing: &mut ScenarioDrawing) -> PlacementDefaults {
    let defaults = PlacementDefaults::default();
    let rigid = draw_policy(drawing, &RequestType::NonFixed);
    let flexible = draw_policy(drawing, &RequestType::Flexible(FlexibleBounds::default()));
    PlacementDefaults {
        rigid: rigid.unwrap_or(defaults.rigid),
        flexible: flexible.unwrap_or(defaults.flexible),
        ..defaults
    }
}

fn draw_policy(drawing: &mut ScenarioDrawing, request: &RequestType) -> Option<PolicyName> {
    let serving = POLICIES.iter().filter(|policy| policy.serves(request));
    serving
        .choose(&mut drawing.chance)
        .and_then(|policy| PolicyName::new(policy.name()).ok())
}

/// Draws quotas that leave room for the largest job at each site that has one.
fn draw_quotas(
    drawing: &mut ScenarioDrawing,
    sites: &[ClusterSpec],
) -> BTreeMap<SiteName, SiteQuota> {
    let exist = drawing.draw_existence();
    let large = sites
        .iter()
        .filter(|site| exist && site.nodes * site.processors_per_node >= 32);
    large
        .map(|site: &ClusterSpec| {
            let share = PerMillion(drawing.chance.random_range(750_000..1_000_000));
            let basis = [QuotaBasis::Level, QuotaBasis::Share][drawing.chance.random_range(0..2)];
            (site.name.clone(), SiteQuota { share, basis })
        })
        .collect()
}

fn draw_actions(drawing: &mut ScenarioDrawing, jobs: usize) -> Vec<(Timestamp, UserAction)> {
    let cancels = drawing.draw_existence();
    let freezes = drawing.draw_existence();
    let fussy = drawing.draw_existence();
    let mut actions = Vec::new();
    for number in 0..jobs {
        let at = drawing.draw_moment();
        let impatient = drawing.chance.random_bool(0.1);
        actions.push((
            at,
            UserAction::Submit(number, if impatient { 3 } else { 1 }),
        ));
        if drawing.chance.random_bool(0.1) {
            actions.push((
                at + drawing.draw_between(0, MINUTE),
                UserAction::Submit(number, 1),
            ));
        }
        if cancels && drawing.chance.random_bool(0.1) {
            actions.push((
                at + drawing.draw_between(0, HOUR),
                UserAction::Cancel(number),
            ));
        }
        if freezes && drawing.chance.random_bool(0.05) {
            let from = at + drawing.draw_between(0, 10 * MINUTE);
            actions.push((from, UserAction::Freeze(number, true)));
            actions.push((
                from + drawing.draw_between(MINUTE, HOUR),
                UserAction::Freeze(number, false),
            ));
        }
        for _ in 0..if fussy {
            drawing.chance.random_range(0..=6)
        } else {
            0
        } {
            let to = Priority::ALL[drawing.chance.random_range(0..Priority::ALL.len())];
            actions.push((
                at + drawing.draw_between(0, HOUR),
                UserAction::Raise(number, to),
            ));
        }
    }
    actions
}
