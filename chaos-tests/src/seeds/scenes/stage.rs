//! The stage of scenes: a few sites, links between all of them, and one or several runs of a
//! control plane that nothing disturbs but what the scene is about.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use cospan_actors::actor_settings::ActorSettings;
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, LogicalName, RelPath, SiteName};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};

pub(super) use super::scene::{StagedScene, fixed_at, with_input};
#[cfg(cospan_chaos)]
use cospan_simulator::actor_lives::RecordedActorEvent;
use cospan_simulator::call_faults::{CallFaultModel, FaultRates};
use cospan_simulator::control_plane_run::{RunEnd, RunPlan, SimEnvironment, run_control_plane};
use cospan_simulator::settings::default_settings;
use cospan_simulator::world::batch::QueueDiscipline;
use cospan_simulator::world::world_site::{ClusterSpec, LocalJob};
use cospan_simulator::world::{LinkSpec, SimulatedWorld, WrapperDelays};
use cospan_simulator::world_handle::WorldHandle;

/// Start time of every scene.
pub(super) const BEGINS: Timestamp = Timestamp(1_000_000_000);
/// Bandwidth of every link.
pub(super) const BANDWIDTH: BitsPerSecond = BitsPerSecond(8_000_000);
/// Longer than any control plane takes to be ready.
const MINUTE: DurationMs = DurationMs(60_000);

/// The setting of a scene.
pub(super) struct SceneStage {
    /// Names and processors of the sites.
    pub(super) sites: Vec<(SiteName, u32)>,
    /// Files by path, each with the sites that have it.
    pub(super) files: Vec<(RelPath, Content, Vec<SiteName>)>,
    pub(super) settings: ActorSettings,
    /// True if sites send hints of changes, false if they are only asked.
    pub(super) hints: bool,
    /// Fault rates of calls and of the disk.
    pub(super) fault_rates: FaultRates,
    /// Time that the first bit takes from one site to another; a missing entry means none.
    pub(super) ways: BTreeMap<(SiteName, SiteName), DurationMs>,
    /// Jobs of local users, by number of the site.
    pub(super) locals: Vec<(usize, LocalJob)>,
    /// Sites that grant reservations, by number.
    pub(super) granting: BTreeSet<usize>,
    /// Timing of the wrappers.
    pub(super) pace: WrapperDelays,
    /// Seed of all chance on the stage.
    pub(super) seed: u64,
}

/// Returns the name of the site with this number.
pub(super) fn site_name(number: usize) -> Result<SiteName> {
    const NAMES: [&str; 5] = ["amsterdam", "berlin", "cracow", "delft", "essen"];
    Ok(SiteName::new(NAMES[number % NAMES.len()])?)
}

/// Returns the logical name of the file with this number.
pub(super) fn file_name(number: usize) -> Result<LogicalName> {
    Ok(LogicalName::new(&format!("file-{number}"))?)
}

impl SceneStage {
    /// Makes sites with so many processors each, and links between all of them.
    pub(super) fn with_processors(processors: &[u32], seed: u64) -> Result<Self> {
        let sites = processors.iter().enumerate();
        let sites = sites.map(|(number, count)| Ok((site_name(number)?, *count)));
        let sites: Vec<(SiteName, u32)> = sites.collect::<Result<_>>()?;
        let pairs = sites
            .iter()
            .flat_map(|from| sites.iter().map(move |to| (&from.0, &to.0)));
        let links = pairs.filter(|(from, to)| from != to);
        let links = links
            .map(|(from, to)| ((from.clone(), to.clone()), BANDWIDTH))
            .collect();
        let settings = ActorSettings {
            links,
            ..default_settings()
        };
        let pace = WrapperDelays {
            gate_max: DurationMs::ZERO,
            launch_max: DurationMs::ZERO,
            ..WrapperDelays::default()
        };
        let (files, locals, granting, ways, fault_rates) = Default::default();
        let hints = true;
        Ok(Self {
            sites,
            files,
            settings,
            hints,
            fault_rates,
            ways,
            locals,
            granting,
            pace,
            seed,
        })
    }

    /// Adds a file of this size at these sites, and returns its number.
    pub(super) fn add_file(&mut self, size: u64, sites: &[usize]) -> Result<usize> {
        let number = self.files.len();
        let path = RelPath::new(&format!("path-{number}"))?;
        let digest = Digest([u8::try_from(number)? + 1; 32]);
        let content = Content {
            digest,
            size: Bytes(size),
        };
        let at = sites
            .iter()
            .map(|site| site_name(*site))
            .collect::<Result<_>>()?;
        self.files.push((path, content, at));
        Ok(number)
    }

    fn environment(&self) -> SimEnvironment {
        let links = self
            .settings
            .links
            .iter()
            .map(|((from, to), bandwidth)| LinkSpec {
                from: from.clone(),
                to: to.clone(),
                bandwidth: *bandwidth,
                latency: self
                    .ways
                    .get(&(from.clone(), to.clone()))
                    .copied()
                    .unwrap_or_default(),
            });
        let links: Vec<LinkSpec> = links.collect();
        let sites = self
            .sites
            .iter()
            .enumerate()
            .map(|(number, (name, processors)): (usize, &(SiteName, u32))| {
                let locals = self.locals.iter().filter(|(at, _)| *at == number);
                let here = self.files.iter().filter(|(_, _, at)| at.contains(name));
                ClusterSpec {
                    name: name.clone(),
                    nodes: 1,
                    processors_per_node: *processors,
                    discipline: QueueDiscipline::Fcfs,
                    local_jobs: locals.map(|(_, job)| *job).collect(),
                    queues: false,
                    reserves: self.granting.contains(&number),
                    files: here
                        .map(|(path, content, _)| (path.clone(), *content))
                        .collect(),
                }
            })
            .collect();
        let world = SimulatedWorld::new(sites, &links, self.pace, self.seed, BEGINS);
        let call_faults = CallFaultModel::new(self.fault_rates.clone(), self.seed);
        call_faults.start_recording_calls();
        SimEnvironment {
            hints: self.hints,
            keeps_archive: true,
            ..SimEnvironment::new(world, call_faults, self.settings.clone())
        }
    }

    /// Plays a scene from the moment at which the control plane is ready and all files are
    /// registered; returns what it found.
    ///
    /// # Errors
    /// The scene cannot be played.
    pub(super) fn play_scene<W>(
        self,
        act: impl FnOnce(StagedScene) -> W + 'static,
    ) -> Result<Vec<String>>
    where
        W: Future<Output = Result<()>> + 'static,
    {
        let environment = self.environment();
        let plan = RunPlan::undisturbed(BEGINS, self.seed);
        Ok(expect_survival(run_act(&environment, plan, self.files, Curtain::Late, act)?)?.found)
    }

    /// Plays a scene from the very moment at which the control plane is ready.
    ///
    /// # Errors
    /// The scene cannot be played.
    pub(super) fn play_from_start<W>(
        self,
        act: impl FnOnce(StagedScene) -> W + 'static,
    ) -> Result<Vec<String>>
    where
        W: Future<Output = Result<()>> + 'static,
    {
        let environment = self.environment();
        let plan = RunPlan::undisturbed(BEGINS, self.seed);
        Ok(expect_survival(run_act(
            &environment,
            plan,
            self.files,
            Curtain::AtOnce,
            act,
        )?)?
        .found)
    }

    /// Plays a scene in which the control plane ends by itself; returns when that was, and what
    /// became of its actors.
    ///
    /// # Errors
    /// The scene cannot be played, or comes to an end before.
    #[cfg(cospan_chaos)]
    pub(super) fn play_to_death<W>(
        self,
        act: impl FnOnce(StagedScene) -> W + 'static,
    ) -> Result<(Timestamp, Vec<(Timestamp, RecordedActorEvent)>)>
    where
        W: Future<Output = Result<()>> + 'static,
    {
        let environment = self.environment();
        let plan = RunPlan::undisturbed(BEGINS, self.seed);
        match run_act(&environment, plan, self.files, Curtain::AtOnce, act)? {
            Ok(_) => bail!("the control plane does not end"),
            Err(at) => {
                let control_plane_runs = environment.lives.run_records();
                Ok((
                    at,
                    control_plane_runs
                        .into_iter()
                        .flat_map(|plane_run| plane_run.lived)
                        .collect(),
                ))
            }
        }
    }

    /// Sets the stage for one run of the control plane or several in a row.
    pub(super) fn set_up(self) -> Set {
        Set {
            environment: self.environment(),
            files: self.files,
            seed: self.seed,
        }
    }

    /// Plays a scene in two acts: at the end of the first the control plane is killed, and another
    /// one takes over what it left after this pause.
    ///
    /// # Errors
    /// The scene cannot be played.
    pub(super) fn play_twice<T: 'static, V, W>(
        self,
        pause: DurationMs,
        first: impl FnOnce(StagedScene) -> V + 'static,
        second: impl FnOnce(StagedScene, T) -> W + 'static,
    ) -> Result<Vec<String>>
    where
        V: Future<Output = Result<T>> + 'static,
        W: Future<Output = Result<()>> + 'static,
    {
        let environment = self.environment();
        let plan = RunPlan::undisturbed(BEGINS, self.seed);
        let left = expect_survival(run_act(
            &environment,
            plan,
            self.files,
            Curtain::AtOnce,
            first,
        )?)?;
        let plan = RunPlan::undisturbed(left.at + pause, self.seed ^ 1);
        let over = expect_survival(run_act(
            &environment,
            plan,
            Vec::new(),
            Curtain::AtOnce,
            |scene| second(scene, left.result),
        )?)?;
        Ok([left.found, over.found].concat())
    }
}

/// A stage as it is set: everything that outlives a control plane.
pub(super) struct Set {
    environment: SimEnvironment,
    files: Vec<(RelPath, Content, Vec<SiteName>)>,
    seed: u64,
}

impl Set {
    /// Returns the settings of the next control plane.
    pub(super) fn settings(&mut self) -> &mut ActorSettings {
        &mut self.environment.settings
    }

    /// Returns the world, for judging what happened there.
    pub(super) fn world(&self) -> &WorldHandle {
        &self.environment.world
    }

    /// Plans an undisturbed run of the control plane.
    pub(super) fn plan(&self, begins: Timestamp) -> RunPlan {
        RunPlan::undisturbed(begins, self.seed)
    }

    /// Plays one run of the control plane as planned; returns its result and what was found, if it
    /// was not killed.
    ///
    /// # Errors
    /// The scene cannot be played.
    pub(super) fn run_planned<T: 'static, W>(
        &self,
        plan: RunPlan,
        act: impl FnOnce(StagedScene) -> W + 'static,
    ) -> Result<RunEnd<(T, Vec<String>)>>
    where
        W: Future<Output = Result<T>> + 'static,
    {
        Ok(
            match run_act(
                &self.environment,
                plan,
                self.files.clone(),
                Curtain::AtOnce,
                act,
            )? {
                Ok(PlayedRun { at, result, found }) => RunEnd::Done(at, (result, found)),
                Err(at) => RunEnd::Killed(at),
            },
        )
    }

    /// Plays one run of the control plane, as [`SceneStage::play_scene`] does; returns when it
    /// ended, and what it found.
    ///
    /// # Errors
    /// The scene cannot be played.
    pub(super) fn run_control_plane<W>(
        &self,
        begins: Timestamp,
        act: impl FnOnce(StagedScene) -> W + 'static,
    ) -> Result<(Timestamp, Vec<String>)>
    where
        W: Future<Output = Result<()>> + 'static,
    {
        let plan = RunPlan::undisturbed(begins, self.seed);
        let files = if begins == BEGINS {
            self.files.clone()
        } else {
            Vec::new()
        };
        let played = expect_survival(run_act(&self.environment, plan, files, Curtain::Late, act)?)?;
        Ok((played.at, played.found))
    }
}

/// The moment at which a scene begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Curtain {
    /// As soon as the control plane is ready.
    AtOnce,
    /// Once it was looked at whether it is ready: sites have answered by then what they have.
    Late,
}

/// The result of a run of the control plane.
struct PlayedRun<T> {
    at: Timestamp,
    result: T,
    found: Vec<String>,
}

fn expect_survival<T>(played: Result<PlayedRun<T>, Timestamp>) -> Result<PlayedRun<T>> {
    played.or_else(|at| bail!("the control plane ended by itself at {}", at.0))
}

/// Runs a control plane that comes to the end of its act, or else to its own at this time.
fn run_act<T: 'static, W>(
    environment: &SimEnvironment,
    plan: RunPlan,
    files: Vec<(RelPath, Content, Vec<SiteName>)>,
    curtain: Curtain,
    act: impl FnOnce(StagedScene) -> W + 'static,
) -> Result<Result<PlayedRun<T>, Timestamp>>
where
    W: Future<Output = Result<T>> + 'static,
{
    let end = run_control_plane(environment, plan, move |plane_run| async move {
        let scene = StagedScene::of_plane_run(plane_run);
        let played = async {
            match curtain {
                Curtain::Late => drop(
                    scene
                        .wait_until(MINUTE, |s| s.plane_run.plane.is_ready())
                        .await?,
                ),
                // That takes no time, but some turns.
                Curtain::AtOnce => {
                    while !scene.plane_run.plane.is_ready() {
                        tokio::task::yield_now().await;
                    }
                }
            }
            scene.register_files(&files).await?;
            act(scene.clone()).await
        };
        let result = tokio::select! {
            biased;
            () = scene.follow_changes() => Err(anyhow::anyhow!("the control plane ended")),
            result = played => result,
        };
        result.map(|result| (result, scene.problems_found()))
    })?;
    match end {
        RunEnd::Done(at, done) => done.map(|(result, found)| Ok(PlayedRun { at, result, found })),
        RunEnd::Killed(at) => Ok(Err(at)),
    }
}
