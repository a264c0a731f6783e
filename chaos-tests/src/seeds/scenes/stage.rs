//! The stage of scenes: a few sites, links between all of them, and one or several runs of a
//! control plane that nothing disturbs but what the scene is about.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use cospan_actors::actor_settings::ActorSettings;
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, LogicalName, RelPath, SiteName};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};

pub(super) use super::scene::StagedScene;
use cospan_simulator::call_faults::{CallFaultModel, FaultRates};
use cospan_simulator::control_plane_run::{RunEnd, RunPlan, SimEnvironment, run_control_plane};
use cospan_simulator::settings::default_settings;
use cospan_simulator::world::batch::QueueDiscipline;
use cospan_simulator::world::world_site::{ClusterSpec, LocalJob};
use cospan_simulator::world::{LinkSpec, SimulatedWorld, WrapperDelays};

/// Start time of every scene.
pub(super) const BEGINS: Timestamp = Timestamp(1_000_000_000);
/// Bandwidth of every link.
pub(super) const BANDWIDTH: BitsPerSecond = BitsPerSecond(8_000_000);

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
        Ok(Self::with_sites(sites.collect::<Result<_>>()?, seed))
    }

    /// Does the same for sites with these names.
    pub(super) fn with_sites(sites: Vec<(SiteName, u32)>, seed: u64) -> Self {
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
        let (files, locals, granting, fault_rates) = Default::default();
        let hints = true;
        Self {
            sites,
            files,
            settings,
            hints,
            fault_rates,
            locals,
            granting,
            pace,
            seed,
        }
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
                latency: DurationMs::ZERO,
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
        let set = self.set_up();
        match set.run_planned(set.plan(BEGINS), act)? {
            RunEnd::Done(_, ((), found)) => Ok(found),
            RunEnd::Killed(at) => bail!("the control plane ended by itself at {}", at.0),
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
}

/// A stage as it is set: everything that outlives a control plane.
pub(super) struct Set {
    pub(super) environment: SimEnvironment,
    files: Vec<(RelPath, Content, Vec<SiteName>)>,
    seed: u64,
}

impl Set {
    /// Returns the settings of the next control plane.
    pub(super) fn settings(&mut self) -> &mut ActorSettings {
        &mut self.environment.settings
    }

    /// Forgets the files that a run of the control plane registers.
    pub(super) fn forget_files(&mut self) {
        self.files.clear();
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
        let files = self.files.clone();
        let end = run_control_plane(&self.environment, plan, move |plane_run| async move {
            let scene = StagedScene::of_plane_run(plane_run);
            let played = async {
                // That takes no time, but some turns.
                while !scene.plane_run.plane.is_ready() {
                    tokio::task::yield_now().await;
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
        Ok(match end {
            RunEnd::Done(at, done) => RunEnd::Done(at, done?),
            RunEnd::Killed(at) => RunEnd::Killed(at),
        })
    }
}
