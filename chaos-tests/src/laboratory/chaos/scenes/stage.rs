//! Where scenes are played: a few sites without local users, links between all of them,
//! and one undisturbed reign of a control plane, of which every call and change is written down.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRefusal, Ask, Submission};
use cospan_actors::journal::Change;
use cospan_actors::settings::Settings;
use cospan_domain::ids::{Digest, JobId, KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::job::spec::{Content, FileRef, Input, JobSpec};
use cospan_domain::job::state::Job;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};
use tokio::sync::Notify;

use crate::laboratory::handle::WorldHandle;
use crate::laboratory::journal::StoreDisk;
use crate::laboratory::reign::{End, Ground, Plan, Reign, reign};
use crate::laboratory::settings::default_settings;
use crate::laboratory::weather::{Called, Climate, Weather};
use crate::world::batch::Discipline;
use crate::world::cluster::ClusterSpec;
use crate::world::{LinkSpec, Pace, World};

/// When every scene begins.
pub(super) const BEGINS: Timestamp = Timestamp(1_000_000_000);
/// What every link carries.
pub(super) const BANDWIDTH: BitsPerSecond = BitsPerSecond(8_000_000);
/// Between two looks at what is waited for, where nothing became durable meanwhile.
const STEP: Duration = Duration::from_millis(500);

/// What a scene is played on.
pub(super) struct Stage {
    /// Names and processors of the sites.
    pub(super) sites: Vec<(SiteName, u32)>,
    /// Files by path, each with the sites that have it.
    pub(super) files: Vec<(RelPath, Content, Vec<SiteName>)>,
    /// Settings of the control plane.
    pub(super) settings: Settings,
    /// Whether sites tell of changes, or are only asked.
    pub(super) hints: bool,
    /// How wrappers behave.
    pub(super) pace: Pace,
    /// Seed of all chance on the stage.
    pub(super) seed: u64,
}

/// The name of the site with this number.
pub(super) fn site_name(number: usize) -> Result<SiteName> {
    const NAMES: [&str; 5] = ["amsterdam", "berlin", "cracow", "delft", "essen"];
    Ok(SiteName::new(NAMES[number % NAMES.len()])?)
}

/// The logical name of the file with this number.
pub(super) fn file_name(number: usize) -> Result<LogicalName> {
    Ok(LogicalName::new(&format!("file-{number}"))?)
}

impl Stage {
    /// Sites with so many processors each, and links between all of them.
    pub(super) fn of(processors: &[u32], seed: u64) -> Result<Self> {
        let sites = processors.iter().enumerate();
        let sites = sites.map(|(number, count)| Ok((site_name(number)?, *count)));
        let sites: Vec<(SiteName, u32)> = sites.collect::<Result<_>>()?;
        let pairs = || sites.iter().flat_map(|from| sites.iter().map(move |to| (&from.0, &to.0)));
        let links = pairs().filter(|(from, to)| from != to);
        let links = links.map(|(from, to)| ((from.clone(), to.clone()), BANDWIDTH)).collect();
        let settings = Settings { links, ..default_settings() };
        let pace =
            Pace { gate_max: DurationMs::ZERO, launch_max: DurationMs::ZERO, ..Pace::default() };
        Ok(Self { sites, files: Vec::new(), settings, hints: true, pace, seed })
    }

    /// A file of this size at these sites, by number.
    pub(super) fn add_file(&mut self, size: u64, sites: &[usize]) -> Result<usize> {
        let number = self.files.len();
        let path = RelPath::new(&format!("path-{number}"))?;
        let digest = Digest([u8::try_from(number)? + 1; 32]);
        let content = Content { digest, size: Bytes(size) };
        let at = sites.iter().map(|site| site_name(*site)).collect::<Result<_>>()?;
        self.files.push((path, content, at));
        Ok(number)
    }

    fn ground(&self) -> Ground {
        let site = |(name, processors): &(SiteName, u32)| {
            let here = self.files.iter().filter(|(_, _, at)| at.contains(name));
            ClusterSpec {
                name: name.clone(),
                nodes: 1,
                processors_per_node: *processors,
                discipline: Discipline::Fcfs,
                local_jobs: Vec::new(),
                files: here.map(|(path, content, _)| (path.clone(), *content)).collect(),
            }
        };
        let links = self.settings.links.iter().map(|((from, to), bandwidth)| LinkSpec {
            from: from.clone(),
            to: to.clone(),
            bandwidth: *bandwidth,
            latency: DurationMs::ZERO,
        });
        let links: Vec<LinkSpec> = links.collect();
        let sites = self.sites.iter().map(site).collect();
        let world = World::new(sites, &links, self.pace, self.seed, BEGINS);
        let weather = Weather::new(Climate::default(), self.seed);
        weather.watch_calls();
        Ground {
            world: WorldHandle::new(world),
            disk: StoreDisk::default(),
            weather: Arc::new(weather),
            hash: Arc::default(),
            settings: self.settings.clone(),
            hints: self.hints,
            lives: Arc::default(),
            keeps_archive: true,
        }
    }

    /// Plays a scene from the moment at which the control plane is ready and all files are
    /// registered; what it found.
    ///
    /// # Errors
    /// The scene cannot be played.
    pub(super) fn play<W>(self, act: impl FnOnce(Scene) -> W + 'static) -> Result<Vec<String>>
    where
        W: Future<Output = Result<()>> + 'static,
    {
        let (ground, plan) = (self.ground(), Plan::undisturbed(BEGINS, self.seed));
        let files = self.files;
        let end = reign(&ground, plan, move |reign| async move {
            let scene = Scene {
                reign,
                changes: Rc::default(),
                changed: Rc::default(),
                found: Rc::default(),
            };
            let played = async {
                scene
                    .until(DurationMs::from_secs(60), |scene| scene.reign.plane.is_ready())
                    .await?;
                scene.register(&files).await?;
                act(scene.clone()).await
            };
            let result = tokio::select! {
                biased;
                () = scene.follow() => Err(anyhow::anyhow!("the control plane ended")),
                result = played => result,
            };
            result.map(|()| scene.found.take())
        })?;
        match end {
            End::Done(_, result) => result,
            End::Killed(at) => bail!("the control plane ended by itself at {}", at.0),
        }
    }
}

/// A control plane on its stage.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) reign: Reign,
    changes: Rc<RefCell<Vec<(Timestamp, Arc<Change>)>>>,
    changed: Rc<Notify>,
    found: Rc<RefCell<Vec<String>>>,
}

impl Scene {
    async fn follow(&self) {
        let mut stream = self.reign.plane.subscribe();
        while let Ok(committed) = stream.recv().await {
            self.changes.borrow_mut().push((self.now(), committed.change));
            self.changed.notify_waiters();
        }
    }

    async fn register(&self, files: &[(RelPath, Content, Vec<SiteName>)]) -> Result<()> {
        for (number, (path, _, sites)) in files.iter().enumerate() {
            for site in sites {
                let (name, site, path) = (file_name(number)?, site.clone(), path.clone());
                self.ask(Ask::AddFile { name, site, path, replace: false }).await?;
            }
        }
        Ok(())
    }

    /// The time.
    pub(super) fn now(&self) -> Timestamp {
        self.reign.clock.now()
    }

    /// Notes what is not as it was worked out.
    pub(super) fn check(&self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.found.borrow_mut().push(otherwise());
        }
    }

    /// Asks as a user.
    ///
    /// # Errors
    /// The refusal.
    pub(super) async fn ask(&self, what: Ask) -> Result<ApiAnswer, ApiRefusal> {
        #[allow(clippy::expect_used, reason = "a name that is valid")]
        let by = KeyName::new("alice").expect("a name");
        self.reign.plane.command(ApiCommand { by, what }).await
    }

    /// Submits one job.
    ///
    /// # Errors
    /// It is refused.
    pub(super) async fn submit(&self, spec: JobSpec) -> Result<JobId> {
        match self.ask(Ask::Submit(vec![Submission::of(Arc::new(spec))])).await? {
            ApiAnswer::Submitted(jobs) if jobs.len() == 1 => Ok(jobs[0].id),
            other => bail!("a submission came to {other:?}"),
        }
    }

    /// A job as its record is.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn job(&self, id: JobId) -> Result<Arc<Job>> {
        let job = self.reign.plane.view().jobs.get(&id).cloned();
        job.ok_or_else(|| anyhow::anyhow!("job {id} is gone"))
    }

    /// Waits until something is so, and tells when that was.
    ///
    /// # Errors
    /// It was not within this time.
    pub(super) async fn until(
        &self,
        within: DurationMs,
        so: impl Fn(&Self) -> bool,
    ) -> Result<Timestamp> {
        let end = self.now() + within;
        while !so(self) {
            if self.now() >= end {
                let jobs: Vec<_> =
                    self.reign.plane.view().jobs.values().map(|job| job.phase.clone()).collect();
                bail!("what was waited for did not come about within {within}: {jobs:?}");
            }
            // Exact where a change is what was waited for.
            let _ = tokio::time::timeout(STEP, self.changed.notified()).await;
        }
        Ok(self.now())
    }

    /// Lets so much time pass.
    pub(super) async fn pass(&self, length: DurationMs) {
        tokio::time::sleep(Duration::from_millis(length.0)).await;
    }

    /// All calls that reached a site so far.
    pub(super) fn calls(&self) -> Vec<Called> {
        self.reign.weather.calls()
    }

    /// How often each call was made so far.
    pub(super) fn call_counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for called in self.calls() {
            *counts.entry(called.call).or_default() += 1;
        }
        counts
    }

    /// All durable changes so far, and when each was told.
    pub(super) fn changes(&self) -> Vec<(Timestamp, Arc<Change>)> {
        self.changes.borrow().clone()
    }
}

/// Lets every component of a job read this file.
pub(super) fn reads(mut spec: JobSpec, file: usize) -> Result<JobSpec> {
    for component in &mut spec.components {
        let file = FileRef { name: file_name(file)?, bound: None };
        let path = RelPath::new("input")?;
        component.inputs.push(Input { file, path, feed: Default::default() });
    }
    Ok(spec)
}
