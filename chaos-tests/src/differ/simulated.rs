//! Plays a scenario in the simulator: the same control plane over simulated sites.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use cospan_actors::api::command::{
    ApiAnswer, ApiCommand, ApiRequest, JobSubmission, OperatorCommand,
};
use cospan_domain::ids::{ComponentIndex, JobId, KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::site::availability::SiteState;
use cospan_domain::units::{BitsPerSecond, DurationMs, Timestamp};
use cospan_storage::memory::MemoryDisk;

use super::calls::CallCounts;
use super::differ_scenario::{
    BANDWIDTH_BITS_PER_S, DifferScenario, JobStanding, ScriptPoint, ScriptStep, file_name,
};
use super::{PlayedScenario, job_history, settings};
use cospan_simulator::call_faults::{CallFaultModel, FaultRates};
use cospan_simulator::control_plane_run::{
    ControlPlaneRun, RunEnd, RunPlan, SimEnvironment, run_control_plane,
};
use cospan_simulator::journal::StoreDisk;
use cospan_simulator::world::batch::QueueDiscipline;
use cospan_simulator::world::world_site::ClusterSpec;
use cospan_simulator::world::{LinkSpec, SimulatedWorld, SiteIndex, WrapperDelays};
use cospan_simulator::world_handle::WorldHandle;

/// Time at the start.
const BEGINS: Timestamp = Timestamp(1_700_000_000_000);
/// Longest way of a call; short, as to a site on this machine.
const WAY_MAX: DurationMs = DurationMs(4);
/// Downtime of the control plane at a restart.
const AWAY: DurationMs = DurationMs(200);
/// Downtime of a site that lost what ran there.
const REPAIR: DurationMs = DurationMs(50);
/// Time between two looks at a condition, and the longest wait for one.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const PATIENCE: DurationMs = DurationMs(120_000);

/// Plays a scenario; `program` stands for the payload's executable.
///
/// # Errors
/// The script cannot be carried out.
pub(super) fn play_scenario(
    scenario: &Arc<DifferScenario>,
    program: &str,
) -> Result<PlayedScenario> {
    let seed = scenario.number as u64;
    let fault_rates = FaultRates {
        way_max: WAY_MAX,
        ..FaultRates::default()
    };
    let disk = MemoryDisk::default();
    let environment = SimEnvironment {
        disk: StoreDisk::Memory(disk.clone()),
        keeps_archive: true,
        ..SimEnvironment::new(
            world(scenario)?,
            CallFaultModel::new(fault_rates, seed),
            settings::settings(scenario)?,
        )
    };
    let user = SimulatedUser {
        scenario: scenario.clone(),
        program: program.into(),
        world: environment.world.clone(),
        ids: Rc::default(),
        drained: Rc::default(),
    };
    let mut begins = BEGINS;
    let mut calls = CallCounts::default();
    let parts: Vec<_> = scenario
        .script
        .split_inclusive(ScriptStep::restarts)
        .collect();
    for (number, steps) in parts.iter().enumerate() {
        let seed = seed + number as u64;
        let last = number + 1 == parts.len();
        let plan = RunPlan::undisturbed(begins, seed);
        let user = user.clone();
        let steps = steps.to_vec();
        let end = run_control_plane(&environment, plan, move |plane_run| async move {
            user.act(&plane_run, &steps, number == 0).await?;
            if last {
                // A hint reports an end before its request is answered, and counted.
                plane_run
                    .sleep_until(plane_run.clock.now() + WAY_MAX + WAY_MAX)
                    .await;
            }
            Ok::<_, anyhow::Error>(CallCounts::from_counter(
                &plane_run.plane.shared().metrics.site_calls,
            ))
        })?;
        match end {
            RunEnd::Done(at, counted) => {
                calls.add_calls(&counted?);
                begins = at + AWAY;
            }
            RunEnd::Killed(at) => bail!("the control plane ended by itself at {} ms", at.0),
        }
    }
    Ok(PlayedScenario {
        stories: job_history::read_memory_store(&disk)?,
        calls,
    })
}

fn world(scenario: &DifferScenario) -> Result<SimulatedWorld> {
    let names = settings::sites(scenario)?;
    let mut clusters = Vec::new();
    for (site, name) in names.iter().enumerate() {
        let mut files = BTreeMap::new();
        for (file, planned) in scenario
            .files
            .iter()
            .enumerate()
            .filter(|(_, f)| f.site == site)
        {
            files.insert(RelPath::new(&file_name(file))?, planned.content(file));
        }
        clusters.push(ClusterSpec {
            name: name.clone(),
            nodes: scenario.processors[site],
            processors_per_node: 1,
            discipline: QueueDiscipline::Fcfs,
            local_jobs: Vec::new(),
            queues: false,
            reserves: false,
            files,
        });
    }
    let pairs = names
        .iter()
        .flat_map(|from| names.iter().map(move |to| (from, to)));
    let links: Vec<LinkSpec> = pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to): (&SiteName, &SiteName)| LinkSpec {
            from: from.clone(),
            to: to.clone(),
            bandwidth: BitsPerSecond(BANDWIDTH_BITS_PER_S),
            latency: DurationMs::ZERO,
        })
        .collect();
    let pace = WrapperDelays {
        launch_max: DurationMs(30),
        gate_max: DurationMs(30),
        ..WrapperDelays::default()
    };
    Ok(SimulatedWorld::new(
        clusters,
        &links,
        pace,
        scenario.number as u64,
        BEGINS,
    ))
}

/// The user who carries out a script; outlives control planes.
#[derive(Clone)]
struct SimulatedUser {
    scenario: Arc<DifferScenario>,
    program: String,
    world: Arc<WorldHandle>,
    ids: Rc<RefCell<BTreeMap<usize, JobId>>>,
    /// The site that was drained last.
    drained: Rc<RefCell<Option<SiteName>>>,
}

impl SimulatedUser {
    async fn act(
        &self,
        plane_run: &ControlPlaneRun,
        steps: &[ScriptStep],
        first: bool,
    ) -> Result<()> {
        wait_until(plane_run, "it takes work", || {
            Ok(plane_run.plane.is_ready())
        })
        .await?;
        if first {
            self.await_rest(plane_run).await?;
            self.register_files(plane_run).await?;
        }
        for step in steps {
            self.step(plane_run, *step)
                .await
                .with_context(|| format!("{step:?}"))?;
        }
        Ok(())
    }

    async fn step(&self, plane_run: &ControlPlaneRun, step: ScriptStep) -> Result<()> {
        match step {
            ScriptStep::Rest => self.await_rest(plane_run).await,
            ScriptStep::Submit(job) => self.submit(plane_run, job).await,
            ScriptStep::Await(job, point) => self.await_point(plane_run, job, point).await,
            ScriptStep::Pause(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
            ScriptStep::Release(job, component) => self.release(plane_run, job, component),
            ScriptStep::ReleaseAll(job) => {
                let components = 0..self.scenario.jobs[job].components.len();
                components
                    .into_iter()
                    .try_for_each(|index| self.release(plane_run, job, index))
            }
            ScriptStep::Cancel(job) => ask(plane_run, ApiRequest::Cancel(vec![self.id(job)?]))
                .await
                .map(drop),
            ScriptStep::Freeze(job) => ask(plane_run, ApiRequest::Freeze(vec![self.id(job)?]))
                .await
                .map(drop),
            ScriptStep::Thaw(job) => ask(plane_run, ApiRequest::Thaw(vec![self.id(job)?]))
                .await
                .map(drop),
            ScriptStep::Lose(job) => self.lose_site(plane_run, job),
            ScriptStep::Drain(job) => {
                let site = self.site(plane_run, job, 0)?;
                *self.drained.borrow_mut() = Some(site);
                self.command_site(plane_run, OperatorCommand::Drain).await
            }
            ScriptStep::Undrain => self.command_site(plane_run, OperatorCommand::Undrain).await,
            // It is the last step of its part.
            ScriptStep::Restart => Ok(()),
        }
    }

    async fn register_files(&self, plane_run: &ControlPlaneRun) -> Result<()> {
        let sites = settings::sites(&self.scenario)?;
        for (file, planned) in self.scenario.files.iter().enumerate() {
            let what = ApiRequest::AddFile {
                name: LogicalName::new(&file_name(file))?,
                site: sites[planned.site].clone(),
                path: RelPath::new(&file_name(file))?,
                replace: false,
                reaches_all: false,
            };
            ask(plane_run, what).await?;
        }
        Ok(())
    }

    async fn submit(&self, plane_run: &ControlPlaneRun, job: usize) -> Result<()> {
        let spec = Arc::new(self.scenario.spec(job, &self.program)?);
        let submission = JobSubmission::from_spec(spec);
        let ApiAnswer::Submitted(jobs) =
            ask(plane_run, ApiRequest::Submit(vec![submission])).await?
        else {
            bail!("another answer than to a submission");
        };
        let submitted = jobs.first().context("no job was accepted")?;
        self.ids.borrow_mut().insert(job, submitted.id);
        Ok(())
    }

    fn id(&self, job: usize) -> Result<JobId> {
        self.ids
            .borrow()
            .get(&job)
            .copied()
            .with_context(|| format!("job {job} has no number"))
    }

    fn read_job(&self, plane_run: &ControlPlaneRun, job: usize) -> Result<Arc<Job>> {
        let id = self.id(job)?;
        plane_run
            .plane
            .view()
            .jobs
            .get(&id)
            .cloned()
            .with_context(|| format!("there is no job {id}"))
    }

    async fn await_point(
        &self,
        plane_run: &ControlPlaneRun,
        job: usize,
        point: ScriptPoint,
    ) -> Result<()> {
        wait_until(plane_run, "it gets there", || {
            let job = self.read_job(plane_run, job)?;
            let standing = JobStanding {
                phase: job.phase.kind().as_str().into(),
                round: job.round.0,
                runs: job
                    .components
                    .iter()
                    .map(|c| c.run.as_str().into())
                    .collect(),
            };
            point
                .has_reached(&standing)
                .with_context(|| format!("it has ended: {:?}", job.phase))
        })
        .await
    }

    async fn await_rest(&self, plane_run: &ControlPlaneRun) -> Result<()> {
        wait_until(plane_run, "every site is usable and idle", || {
            Ok(plane_run.plane.list_sites().iter().all(|site| {
                let total = site.report.description.as_ref().map(|said| &said.total);
                let idle = site.report.idle.as_ref().map(|(_, idle)| idle);
                site.state == SiteState::Usable && total.is_some() && total == idle
            }))
        })
        .await
    }

    fn site(&self, plane_run: &ControlPlaneRun, job: usize, component: usize) -> Result<SiteName> {
        let job = self.read_job(plane_run, job)?;
        let placement = job
            .components
            .get(component)
            .and_then(|c| c.placement.as_ref());
        Ok(placement.context("the job is not placed")?.site.clone())
    }

    async fn command_site(
        &self,
        plane_run: &ControlPlaneRun,
        order: OperatorCommand,
    ) -> Result<()> {
        let site = self
            .drained
            .borrow()
            .clone()
            .context("no site was emptied")?;
        ask(plane_run, ApiRequest::Site(site, order))
            .await
            .map(drop)
    }

    fn release(&self, plane_run: &ControlPlaneRun, job: usize, component: usize) -> Result<()> {
        let site = self.site(plane_run, job, component)?;
        let index = ComponentIndex(component as u32);
        let tag = self
            .read_job(plane_run, job)?
            .latest_tag(plane_run.plane.instance(), index);
        self.change_site(plane_run, &site, |world, site| {
            world.finish_payload(site, tag)
        })
    }

    fn lose_site(&self, plane_run: &ControlPlaneRun, job: usize) -> Result<()> {
        let site = self.site(plane_run, job, 0)?;
        self.change_site(plane_run, &site, |world, site| {
            world.kill_site(site, REPAIR)
        })
    }

    fn change_site(
        &self,
        plane_run: &ControlPlaneRun,
        site: &SiteName,
        act: impl FnOnce(&mut SimulatedWorld, SiteIndex),
    ) -> Result<()> {
        self.world.act_at(plane_run.clock.now(), |world| {
            let site = world.index_of(site).context("there is no such site")?;
            act(world, site);
            Ok(())
        })
    }
}

async fn ask(plane_run: &ControlPlaneRun, what: ApiRequest) -> Result<ApiAnswer> {
    let by = KeyName::new("admin")?;
    let answer = plane_run
        .plane
        .execute_command(ApiCommand { by, what })
        .await;
    answer.map_err(|refusal| anyhow!("refused: {refusal}"))
}

async fn wait_until(
    plane_run: &ControlPlaneRun,
    what: &str,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = plane_run.clock.now() + PATIENCE;
    while !holds()? {
        if plane_run.clock.now() > deadline {
            bail!("not within {PATIENCE}: {what}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
