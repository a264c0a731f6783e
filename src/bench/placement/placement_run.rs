//! Placement through the actors: a whole control plane with its store on disk, and sites that are
//! tables in memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cospan_actors::actor_context::{Committed, SharedParts};
use cospan_actors::actor_settings::Settings;
use cospan_actors::api::ControlPlane;
use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRequest, Submission};
use cospan_actors::clock::SteadyClock;
use cospan_actors::journal::{JournalChange, view_of};
use cospan_actors::metrics::Metrics;
use cospan_actors::wiring;
use cospan_domain::ids::{JobId, KeyName, PolicyName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase, PhaseKind};
use cospan_domain::job::spec::{Flexible, JobSpec, Priority, RequestType};
use cospan_domain::placement::Policy;
use cospan_domain::placement::policy::POLICIES;
use cospan_domain::units::DurationMs;
use cospan_simulator::jobs::shared_job;
use cospan_simulator::settings::default_settings;
use cospan_sites::port::Site;
use cospan_storage::record::Loader;
use cospan_storage::{EngineKind, StoreOptions};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::broadcast::Receiver;

use super::memory_site::{PROCESSORS, StubSite};
use crate::bench::report::BenchReport;

/// Jobs of one request.
const BATCH: usize = 1_000;
/// The number of times that processors are freed for one job.
const TURNS: usize = 300;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Turns that all tasks get after the last figure was taken.
const LAST_TURNS: usize = 1_000;
/// Time between two looks at the view.
const LOOK: Duration = Duration::from_micros(500);
const WALL_TIME: DurationMs = DurationMs::from_secs(86_400);

pub(super) fn bench(report: &mut BenchReport, place: &Path, quick: bool) -> Result<()> {
    crate::cli::progress("placements that become durable");
    let rate = scene(&place.join("durable"), 1, 0, move |s| {
        durable(s, reduce_count(20_000, quick), || job(&[1]))
    })?;
    report.figure("place_durable_per_s", rate, "1/s", ">= 10000");
    // Where sites bid, the number of sites counts: see `bids`.
    for policy in POLICIES
        .iter()
        .copied()
        .filter(|policy| !policy.takes_bids())
    {
        let at = place.join(policy.name());
        let rate = scene(&at, 1, 0, move |s| {
            durable(s, reduce_count(5_000, quick), move || job_under(policy))
        })?;
        let name = format!("place_durable_per_s_{}", policy.name().replace('-', "_"));
        report.figure(name, rate, "1/s", "");
    }
    crate::cli::progress("a scan beside which everybody else has a turn");
    let stall = scene_of(&place.join("stall"), often_scanned(), 100, 3, move |s| {
        stall(s, reduce_count(100_000, quick))
    })?;
    report.figure("arbiter_stall_max_ms", stall * 1e3, "ms", "<= 5");
    crate::cli::progress("one job that fits among many that do not");
    let mut freed = scene(&place.join("freed"), 1, 0, move |s| {
        freed(s, reduce_count(10_000, quick))
    })?;
    report.figure(
        "freed_to_placed_p50_ms",
        at(&mut freed, 0.5) * 1e3,
        "ms",
        "",
    );
    report.figure(
        "freed_to_placed_p99_ms",
        at(&mut freed, 0.99) * 1e3,
        "ms",
        "<= 10",
    );
    crate::cli::progress("jobs of three components, until they run");
    let rate = scene(&place.join("coalloc"), 3, PROCESSORS, move |s| {
        coalloc(s, reduce_count(2_000, quick))
    })?;
    report.figure("coalloc_3x_per_s", rate, "1/s", ">= 500");
    crate::cli::progress("a thousand sites, of which a hundred fall silent");
    let count = reduce_count(400, quick);
    let well = median_taken(&place.join("well"), count, 0)?;
    let ill = median_taken(&place.join("ill"), count, 100)?;
    report.figure("place_1000_sites_ms", well * 1e3, "ms", "");
    report.figure("place_with_dead_sites_ratio", ill / well, "", "<= 1.1");
    Ok(())
}

fn reduce_count(count: usize, quick: bool) -> usize {
    if quick { count / 10 } else { count }
}

fn median_taken(place: &Path, jobs: usize, silent: usize) -> Result<f64> {
    let mut taken = scene(place, 1_000, 64, move |s| one_by_one(s, jobs, silent))?;
    Ok(at(&mut taken, 0.5))
}

/// The value below which this share of the values lies.
fn at(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 - 1.0) * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// A control plane and its sites.
pub(crate) struct PlaneScene {
    pub(crate) plane: ControlPlane,
    pub(super) sites: Vec<Arc<StubSite>>,
}

struct Nobody;

impl cospan_actors::notifier::Messenger for Nobody {
    fn send(
        &self,
        _: &str,
        _: cospan_actors::notifier::Notice,
    ) -> futures_util::future::BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// Settings that scan the queues each second, not only on events.
fn often_scanned() -> Settings {
    let mut settings = default_settings();
    settings.queue.scan_interval = DurationMs::from_secs(1);
    settings
}

/// Settings under which sites bid in messages.
pub(super) fn in_messages() -> Settings {
    let mut settings = default_settings();
    settings.bids.in_messages = true;
    settings
}

/// Runs `work` with a control plane of this many sites, each with this many idle processors.
pub(super) fn scene<T: 'static, W: Future<Output = Result<T>> + 'static>(
    place: &Path,
    sites: usize,
    idle: u32,
    work: impl FnOnce(PlaneScene) -> W + 'static,
) -> Result<T> {
    scene_of(place, default_settings(), sites, idle, work)
}

/// Does the same with other settings.
pub(super) fn scene_of<T: 'static, W: Future<Output = Result<T>> + 'static>(
    place: &Path,
    settings: Settings,
    sites: usize,
    idle: u32,
    work: impl FnOnce(PlaneScene) -> W + 'static,
) -> Result<T> {
    let stubs = named(sites, |name| Ok(StubSite::new(name, idle)))?;
    scene_at(place, settings, stubs, work)
}

/// Does the same with sites that grant reservations.
pub(crate) fn granting_scene<T: 'static, W: Future<Output = Result<T>> + 'static>(
    place: &Path,
    sites: usize,
    work: impl FnOnce(PlaneScene) -> W + 'static,
) -> Result<T> {
    scene_at(
        place,
        default_settings(),
        named(sites, StubSite::granting)?,
        work,
    )
}

fn named(sites: usize, stub: impl Fn(SiteName) -> Result<StubSite>) -> Result<Vec<Arc<StubSite>>> {
    (0..sites)
        .map(|index: usize| Ok(Arc::new(stub(SiteName::new(&format!("s{index:03}"))?)?)))
        .collect()
}

fn scene_at<T: 'static, W: Future<Output = Result<T>> + 'static>(
    place: &Path,
    settings: Settings,
    sites: Vec<Arc<StubSite>>,
    work: impl FnOnce(PlaneScene) -> W + 'static,
) -> Result<T> {
    let place = place.to_owned();
    actix_web::rt::System::new().block_on(async move {
        let plane = start(&place, settings, &sites)?;
        let scene = PlaneScene { plane, sites };
        scene
            .until("all sites have answered", |plane| {
                scene.sites.iter().all(|site| {
                    plane
                        .shared()
                        .live
                        .site(site.name())
                        .is_some_and(|report| report.idle.is_some())
                })
            })
            .await?;
        let done = work(scene).await;
        // Actors that were just built start here, in vain, while there is a runtime for their
        // timers.
        for _ in 0..LAST_TURNS {
            tokio::task::yield_now().await;
        }
        done
    })
}

fn start(place: &Path, settings: Settings, sites: &[Arc<StubSite>]) -> Result<ControlPlane> {
    let (sink, reports) = wiring::report_channel();
    let mut loader = Loader::default();
    let mut damage = None;
    let options = StoreOptions::new(EngineKind::Sled);
    let opened = cospan_storage::open_and_load(place, &options, sink, &mut |stored| {
        if damage.is_none() {
            damage = loader.take(stored).err();
        }
    })?;
    damage.map_or(Ok(()), Err)?;
    let mut loaded = loader.finish()?;
    let remains = std::mem::take(&mut loaded.remains);
    let parts = SharedParts {
        clock: SteadyClock::of_machine(),
        seed: 1,
        settings,
        instance: opened.instance,
        former: opened.former,
        epoch: opened.epoch,
        view: view_of(loaded),
        metrics: Arc::new(Metrics::new(&prometheus::Registry::new())?),
        sites: sites
            .iter()
            .map(|site| Arc::clone(site) as Arc<dyn Site>)
            .collect(),
        store: opened.journal,
        messenger: Arc::new(Nobody),
        on_fatal: Box::new(|problem| {
            crate::cli::progress(&format!("the control plane ended: {problem}"));
            std::process::exit(1);
        }),
    };
    Ok(wiring::start(parts, remains, reports))
}

impl PlaneScene {
    pub(crate) async fn until(
        &self,
        what: &str,
        mut holds: impl FnMut(&ControlPlane) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        while !holds(&self.plane) {
            if begun.elapsed() > PATIENCE {
                bail!("not within {} s: {what}", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Counts the jobs in this phase by the counters that exist: looking at each job would take
    /// more of the arbiter's time than placing it.
    pub(crate) fn count(plane: &ControlPlane, phase: PhaseKind) -> usize {
        let gauge = plane
            .shared()
            .metrics
            .jobs
            .with_label_values(&[phase.as_str()]);
        usize::try_from(gauge.get()).unwrap_or(0)
    }

    /// Waits for the commit that places the job. It asks nothing meanwhile, so that the arbiter is
    /// as idle as it is for others.
    pub(crate) async fn placed(commits: &mut Receiver<Committed>, id: JobId) -> Result<()> {
        let placed = async {
            loop {
                if let JournalChange::Job { new, .. } = &*commits.recv().await?.change
                    && new.id == id
                    && !waits(new)
                {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(PATIENCE, placed)
            .await
            .context("a job was not placed in time")?
    }

    async fn ask(&self, what: ApiRequest) -> Result<ApiAnswer> {
        let by = KeyName::new("bench")?;
        let answer = self.plane.command(ApiCommand { by, what }).await;
        answer.map_err(|refusal| anyhow::anyhow!("refused: {refusal:?}"))
    }

    async fn submit(&self, specs: Vec<Arc<JobSpec>>) -> Result<Vec<JobId>> {
        let answer = self
            .ask(ApiRequest::Submit(
                specs
                    .into_iter()
                    .map(|spec| Submission {
                        allow_unplaceable: true,
                        ..Submission::of(spec)
                    })
                    .collect(),
            ))
            .await?;
        let ApiAnswer::Submitted(jobs) = answer else {
            bail!("no jobs in the answer")
        };
        Ok(jobs.iter().map(|job| job.id).collect())
    }

    /// Counted tries of a waiting job that failed.
    async fn tries(&self, job: JobId) -> Result<u32> {
        Ok(self
            .plane
            .standing(job)
            .await
            .context("the job does not wait")?
            .tries)
    }

    /// Submits this many jobs in batches and returns their numbers.
    pub(crate) async fn fill(
        &self,
        count: usize,
        job: impl Fn(usize) -> Result<Arc<JobSpec>>,
    ) -> Result<Vec<JobId>> {
        let mut ids = Vec::new();
        for first in (0..count).step_by(BATCH) {
            let numbers = first..count.min(first + BATCH);
            ids.extend(
                self.submit(numbers.map(&job).collect::<Result<_>>()?)
                    .await?,
            );
        }
        Ok(ids)
    }
}

pub(crate) fn job(components: &[u32]) -> Result<Arc<JobSpec>> {
    shared_job(components, DurationMs::ZERO, WALL_TIME, 0)
}

/// Builds a job of one processor that this policy places.
fn job_under(policy: &dyn Policy) -> Result<Arc<JobSpec>> {
    let mut spec = JobSpec::clone(&*job(&[1])?);
    let kinds = [
        RequestType::NonFixed,
        RequestType::Flexible(Flexible::default()),
    ];
    let kind = kinds.into_iter().find(|kind| policy.serves(kind));
    spec.request = kind.context("a policy that serves nothing")?;
    spec.policy = Some(PolicyName::new(policy.name())?);
    Ok(Arc::new(spec))
}

fn waits(job: &Job) -> bool {
    matches!(job.phase, JobPhase::Queued { .. })
}

/// Jobs per second that leave their queue once there is room for all. Their submissions are never
/// answered, so that little else is done.
async fn durable(
    scene: PlaneScene,
    jobs: usize,
    job: impl Fn() -> Result<Arc<JobSpec>>,
) -> Result<f64> {
    let site = scene.sites.first().context("a site")?.clone();
    site.swallow_submissions();
    scene.fill(jobs, |_| job()).await?;
    ensure!(
        PlaneScene::count(&scene.plane, PhaseKind::Queued) == jobs,
        "nothing fits before its time"
    );
    let begun = Instant::now();
    site.set_idle(PROCESSORS);
    scene
        .until("all are placed", |plane| {
            PlaneScene::count(plane, PhaseKind::Queued) == 0
        })
        .await?;
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

/// The longest time, in seconds, in which no other task on the arbiter got a turn while a queue in
/// which nothing fits was scanned: by events, and in its regular scan, when every try counts.
async fn stall(scene: PlaneScene, jobs: usize) -> Result<f64> {
    // Not even the smallest of the jobs fits what is idle.
    let ids = scene
        .fill(jobs, |number| job(&[4 + (number * 7_919 % 1_000) as u32]))
        .await?;
    let last = *ids.last().context("a job")?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = scene.tries(last).await?;
    let mut longest = Duration::ZERO;
    for idle in [2, 3].repeat(5) {
        scene.sites.iter().for_each(|site| site.set_idle(idle));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(500) {
            let turn = Instant::now();
            tokio::task::yield_now().await;
            longest = longest.max(turn.elapsed());
        }
    }
    let counted = scene.tries(last).await? - before;
    ensure!(
        counted >= 2,
        "only {counted} whole scans were made of {jobs} jobs"
    );
    Ok(longest.as_secs_f64())
}

/// Builds a job of this size in this class.
fn classed(processors: u32, priority: Priority) -> Result<Arc<JobSpec>> {
    Ok(Arc::new(JobSpec {
        priority,
        ..JobSpec::clone(&*job(&[processors])?)
    }))
}

/// Seconds from the site's report until the placement of the one job that fits is durable. The job
/// may be of any class and anywhere in its queue. Jobs that are to fit are among the others from
/// the beginning, and stay frozen until their turn.
async fn freed(scene: PlaneScene, jobs: usize) -> Result<Vec<f64>> {
    let site = scene.sites.first().context("a site")?.clone();
    let mut chance = StdRng::seed_from_u64(1);
    let turns = TURNS.min(jobs / 2);
    let small = rand::seq::index::sample(&mut chance, jobs, turns).into_vec();
    let fits: BTreeSet<usize> = small.iter().copied().collect();
    let ids = scene
        .fill(jobs, |number| {
            let class = Priority::ALL[number * 7_919 % Priority::ALL.len()];
            classed(
                if fits.contains(&number) {
                    4
                } else {
                    8 + (number % 100) as u32
                },
                class,
            )
        })
        .await?;
    let small: Vec<JobId> = small
        .into_iter()
        .filter_map(|number| ids.get(number).copied())
        .collect();
    scene.ask(ApiRequest::Freeze(small.clone())).await?;
    let mut taken = Vec::new();
    for id in small {
        scene.ask(ApiRequest::Thaw(vec![id])).await?;
        let mut commits = scene.plane.shared().subscribe();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let begun = Instant::now();
        site.set_idle(4);
        PlaneScene::placed(&mut commits, id).await?;
        taken.push(begun.elapsed().as_secs_f64());
        site.set_idle(0);
        scene.ask(ApiRequest::Cancel(vec![id])).await?;
        scene
            .until("the job is cancelled", |plane: &ControlPlane| {
                plane.view().jobs.get(&id).is_none_or(|j| j.is_final())
            })
            .await?;
    }
    Ok(taken)
}

/// Jobs of three components per second, from submission until all payloads run.
async fn coalloc(scene: PlaneScene, jobs: usize) -> Result<f64> {
    let begun = Instant::now();
    for first in (0..jobs).step_by(BATCH) {
        let count = BATCH.min(jobs - first);
        scene
            .submit((0..count).map(|_| job(&[1, 1, 1])).collect::<Result<_>>()?)
            .await?;
    }
    scene
        .until("all run", |plane| {
            PlaneScene::count(plane, PhaseKind::Running) == jobs
        })
        .await?;
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

/// Seconds from submission to durable placement, for one job after the other, in the second half of
/// the run; at its beginning this many sites fall silent.
async fn one_by_one(scene: PlaneScene, jobs: usize, silent: usize) -> Result<Vec<f64>> {
    let mut taken = Vec::new();
    for number in 0..jobs {
        if number == jobs / 2 {
            let step = scene.sites.len() / silent.max(1);
            scene
                .sites
                .iter()
                .step_by(step)
                .take(silent)
                .for_each(|site| site.fall_silent());
        }
        let mut commits = scene.plane.shared().subscribe();
        let begun = Instant::now();
        let ids = scene.submit(vec![job(&[1])?]).await?;
        let id = *ids.first().context("a job")?;
        PlaneScene::placed(&mut commits, id).await?;
        if number >= jobs / 2 {
            taken.push(begun.elapsed().as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(taken)
}
