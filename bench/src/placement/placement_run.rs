//! Placement through the actors: a whole control plane with its store on disk, and sites that are
//! tables in memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cospan_actors::actor_settings::ActorSettings;
use cospan_actors::api::ControlPlane;
use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRequest, JobSubmission};
use cospan_actors::clock::SteadyClock;
use cospan_actors::commits::CommittedChange;
use cospan_actors::journal::{JournalChange, view_of_records};
use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_actors::wiring::{self, ControlPlaneParts};
use cospan_domain::ids::{JobId, KeyName, PolicyName, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase, PhaseKind};
use cospan_domain::job::spec::{FlexibleBounds, JobSpec, Priority, RequestType};
use cospan_domain::placement::Policy;
use cospan_domain::placement::policy::POLICIES;
use cospan_domain::units::DurationMs;
use cospan_simulator::jobs::build_shared_job;
use cospan_simulator::settings::default_settings;
use cospan_sites::port::Site;
use cospan_storage::record::RecordLoader;
use cospan_storage::{EngineKind, StoreOptions};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::broadcast::Receiver;

use super::memory_site::{PROCESSORS, StubSite};
use crate::report::BenchReport;

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
    crate::print_progress("placements that become durable");
    let rate = run_scene(&place.join("durable"), 1, 0, move |s| {
        placement_rate(s, reduce_count(20_000, quick), || plain_job(&[1]))
    })?;
    report.add_figure("place_durable_per_s", rate, "1/s", ">= 10000");
    // Where sites bid, the number of sites counts: see `bids`.
    for policy in POLICIES
        .iter()
        .copied()
        .filter(|policy| !policy.takes_bids())
    {
        let at = place.join(policy.name());
        let rate = run_scene(&at, 1, 0, move |s| {
            placement_rate(s, reduce_count(5_000, quick), move || job_under(policy))
        })?;
        let name = format!("place_durable_per_s_{}", policy.name().replace('-', "_"));
        report.add_figure(name, rate, "1/s", "");
    }
    crate::print_progress("a scan beside which everybody else has a turn");
    let stall = run_scene_with(&place.join("stall"), frequent_scans(), 100, 3, move |s| {
        longest_stall(s, reduce_count(100_000, quick))
    })?;
    report.add_figure("arbiter_stall_max_ms", stall * 1e3, "ms", "<= 5");
    crate::print_progress("one job that fits among many that do not");
    let mut freed = run_scene(&place.join("freed"), 1, 0, move |s| {
        placement_delays(s, reduce_count(10_000, quick))
    })?;
    report.add_figure(
        "freed_to_placed_p50_ms",
        quantile_at(&mut freed, 0.5) * 1e3,
        "ms",
        "",
    );
    report.add_figure(
        "freed_to_placed_p99_ms",
        quantile_at(&mut freed, 0.99) * 1e3,
        "ms",
        "<= 10",
    );
    crate::print_progress("jobs of three components, until they run");
    let rate = run_scene(&place.join("coalloc"), 3, PROCESSORS, move |s| {
        coallocation_rate(s, reduce_count(2_000, quick))
    })?;
    report.add_figure("coalloc_3x_per_s", rate, "1/s", ">= 500");
    crate::print_progress("a thousand sites, of which a hundred fall silent");
    let count = reduce_count(400, quick);
    let well = median_placement_seconds(&place.join("well"), count, 0)?;
    let ill = median_placement_seconds(&place.join("ill"), count, 100)?;
    report.add_figure("place_1000_sites_ms", well * 1e3, "ms", "");
    report.add_figure("place_with_dead_sites_ratio", ill / well, "", "<= 1.1");
    Ok(())
}

fn reduce_count(count: usize, quick: bool) -> usize {
    if quick { count / 10 } else { count }
}

fn median_placement_seconds(place: &Path, jobs: usize, silent: usize) -> Result<f64> {
    let mut taken = run_scene(place, 1_000, 64, move |s| {
        sequential_delays(s, jobs, silent)
    })?;
    Ok(quantile_at(&mut taken, 0.5))
}

/// The value below which this share of the values lies.
fn quantile_at(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 - 1.0) * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// A control plane and its sites.
pub(crate) struct BenchControlPlane {
    pub(crate) plane: ControlPlane,
    pub(super) sites: Vec<Arc<StubSite>>,
}

struct SilentMessenger;

impl cospan_actors::notifier::NoticeSender for SilentMessenger {
    fn send(
        &self,
        _: &str,
        _: cospan_actors::notifier::OutgoingNotice,
    ) -> futures_util::future::BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// Settings that scan the queues each second, not only on events.
fn frequent_scans() -> ActorSettings {
    let mut settings = default_settings();
    settings.queue.scan_interval = DurationMs::from_secs(1);
    settings
}

/// Settings under which sites bid in messages.
pub(super) fn message_bids() -> ActorSettings {
    let mut settings = default_settings();
    settings.bids.in_messages = true;
    settings
}

/// Runs `work` with a control plane of this many sites, each with this many idle processors.
pub(super) fn run_scene<T: 'static, W: Future<Output = Result<T>> + 'static>(
    place: &Path,
    sites: usize,
    idle: u32,
    work: impl FnOnce(BenchControlPlane) -> W + 'static,
) -> Result<T> {
    run_scene_with(place, default_settings(), sites, idle, work)
}

/// Does the same with other settings.
pub(super) fn run_scene_with<T: 'static, W: Future<Output = Result<T>> + 'static>(
    place: &Path,
    settings: ActorSettings,
    sites: usize,
    idle: u32,
    work: impl FnOnce(BenchControlPlane) -> W + 'static,
) -> Result<T> {
    let stubs = named_sites(sites, |name| Ok(StubSite::new(name, idle)))?;
    run_scene_at(place, settings, stubs, work)
}

/// Does the same with sites that grant reservations.
pub(crate) fn run_granting_scene<T: 'static, W: Future<Output = Result<T>> + 'static>(
    place: &Path,
    sites: usize,
    work: impl FnOnce(BenchControlPlane) -> W + 'static,
) -> Result<T> {
    run_scene_at(
        place,
        default_settings(),
        named_sites(sites, StubSite::with_reservations)?,
        work,
    )
}

fn named_sites(
    sites: usize,
    stub: impl Fn(SiteName) -> Result<StubSite>,
) -> Result<Vec<Arc<StubSite>>> {
    (0..sites)
        .map(|index: usize| Ok(Arc::new(stub(SiteName::new(&format!("s{index:03}"))?)?)))
        .collect()
}

fn run_scene_at<T: 'static, W: Future<Output = Result<T>> + 'static>(
    place: &Path,
    settings: ActorSettings,
    sites: Vec<Arc<StubSite>>,
    work: impl FnOnce(BenchControlPlane) -> W + 'static,
) -> Result<T> {
    let place = place.to_owned();
    actix_web::rt::System::new().block_on(async move {
        let plane = start_plane(&place, settings, &sites)?;
        let scene = BenchControlPlane { plane, sites };
        scene
            .wait_until("all sites have answered", |plane| {
                scene.sites.iter().all(|site| {
                    plane
                        .shared()
                        .live
                        .site_report(site.name())
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

fn start_plane(
    place: &Path,
    settings: ActorSettings,
    sites: &[Arc<StubSite>],
) -> Result<ControlPlane> {
    let (sink, reports) = wiring::report_channel();
    let mut loader = RecordLoader::default();
    let mut damage = None;
    let options = StoreOptions::new(EngineKind::Sled);
    let opened = cospan_storage::open_and_load(place, &options, sink, &mut |stored| {
        if damage.is_none() {
            damage = loader.take_stored_value(stored).err();
        }
    })?;
    damage.map_or(Ok(()), Err)?;
    let mut loaded = loader.finish()?;
    let remains = std::mem::take(&mut loaded.remains);
    let parts = ControlPlaneParts {
        clock: SteadyClock::of_process(),
        seed: 1,
        settings,
        instance: opened.instance,
        former: opened.former,
        epoch: opened.epoch,
        view: view_of_records(loaded),
        metrics: Arc::new(ControlPlaneMetrics::new(&prometheus::Registry::new())?),
        sites: sites
            .iter()
            .map(|site| Arc::clone(site) as Arc<dyn Site>)
            .collect(),
        store: opened.journal,
        messenger: Arc::new(SilentMessenger),
        on_fatal: Box::new(|problem| {
            crate::print_progress(&format!("the control plane ended: {problem}"));
            std::process::exit(1);
        }),
    };
    Ok(wiring::start_control_plane(parts, remains, reports))
}

impl BenchControlPlane {
    pub(crate) async fn wait_until(
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
    pub(crate) fn count_in_phase(plane: &ControlPlane, phase: PhaseKind) -> usize {
        let gauge = plane
            .shared()
            .metrics
            .jobs
            .with_label_values(&[phase.as_str()]);
        usize::try_from(gauge.get()).unwrap_or(0)
    }

    /// Waits for the commit that places the job. It asks nothing meanwhile, so that the arbiter is
    /// as idle as it is for others.
    pub(crate) async fn await_placement(
        commits: &mut Receiver<CommittedChange>,
        id: JobId,
    ) -> Result<()> {
        let placed = async {
            loop {
                if let JournalChange::Job { new, .. } = &*commits.recv().await?.change
                    && new.id == id
                    && !is_waiting(new)
                {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(PATIENCE, placed)
            .await
            .context("a job was not placed in time")?
    }

    async fn ask_intake(&self, what: ApiRequest) -> Result<ApiAnswer> {
        let by = KeyName::new("bench")?;
        let answer = self.plane.execute_command(ApiCommand { by, what }).await;
        answer.map_err(|refusal| anyhow::anyhow!("refused: {refusal:?}"))
    }

    async fn submit_jobs(&self, specs: Vec<Arc<JobSpec>>) -> Result<Vec<JobId>> {
        let answer = self
            .ask_intake(ApiRequest::Submit(
                specs
                    .into_iter()
                    .map(|spec| JobSubmission {
                        allow_unplaceable: true,
                        ..JobSubmission::from_spec(spec)
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
    async fn failed_tries(&self, job: JobId) -> Result<u32> {
        Ok(self
            .plane
            .queue_standing(job)
            .await
            .context("the job does not wait")?
            .tries)
    }

    /// Submits this many jobs in batches and returns their numbers.
    pub(crate) async fn submit_many(
        &self,
        count: usize,
        job: impl Fn(usize) -> Result<Arc<JobSpec>>,
    ) -> Result<Vec<JobId>> {
        let mut ids = Vec::new();
        for first in (0..count).step_by(BATCH) {
            let numbers = first..count.min(first + BATCH);
            ids.extend(
                self.submit_jobs(numbers.map(&job).collect::<Result<_>>()?)
                    .await?,
            );
        }
        Ok(ids)
    }
}

pub(crate) fn plain_job(components: &[u32]) -> Result<Arc<JobSpec>> {
    build_shared_job(components, DurationMs::ZERO, WALL_TIME, 0)
}

/// Builds a job of one processor that this policy places.
fn job_under(policy: &dyn Policy) -> Result<Arc<JobSpec>> {
    let mut spec = JobSpec::clone(&*plain_job(&[1])?);
    let kinds = [
        RequestType::NonFixed,
        RequestType::Flexible(FlexibleBounds::default()),
    ];
    let kind = kinds.into_iter().find(|kind| policy.serves(kind));
    spec.request = kind.context("a policy that serves nothing")?;
    spec.policy = Some(PolicyName::new(policy.name())?);
    Ok(Arc::new(spec))
}

fn is_waiting(job: &Job) -> bool {
    matches!(job.phase, JobPhase::Queued { .. })
}

/// Jobs per second that leave their queue once there is room for all. Their submissions are never
/// answered, so that little else is done.
async fn placement_rate(
    scene: BenchControlPlane,
    jobs: usize,
    job: impl Fn() -> Result<Arc<JobSpec>>,
) -> Result<f64> {
    let site = scene.sites.first().context("a site")?.clone();
    site.swallow_submissions();
    scene.submit_many(jobs, |_| job()).await?;
    ensure!(
        BenchControlPlane::count_in_phase(&scene.plane, PhaseKind::Queued) == jobs,
        "nothing fits before its time"
    );
    let begun = Instant::now();
    site.set_idle(PROCESSORS);
    scene
        .wait_until("all are placed", |plane| {
            BenchControlPlane::count_in_phase(plane, PhaseKind::Queued) == 0
        })
        .await?;
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

/// The longest time, in seconds, in which no other task on the arbiter got a turn while a queue in
/// which nothing fits was scanned: by events, and in its regular scan, when every try counts.
async fn longest_stall(scene: BenchControlPlane, jobs: usize) -> Result<f64> {
    // Not even the smallest of the jobs fits what is idle.
    let ids = scene
        .submit_many(jobs, |number| {
            plain_job(&[4 + (number * 7_919 % 1_000) as u32])
        })
        .await?;
    let last = *ids.last().context("a job")?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = scene.failed_tries(last).await?;
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
    let counted = scene.failed_tries(last).await? - before;
    ensure!(
        counted >= 2,
        "only {counted} whole scans were made of {jobs} jobs"
    );
    Ok(longest.as_secs_f64())
}

/// Builds a job of this size in this class.
fn job_in_class(processors: u32, priority: Priority) -> Result<Arc<JobSpec>> {
    Ok(Arc::new(JobSpec {
        priority,
        ..JobSpec::clone(&*plain_job(&[processors])?)
    }))
}

/// Seconds from the site's report until the placement of the one job that fits is durable. The job
/// may be of any class and anywhere in its queue. Jobs that are to fit are among the others from
/// the beginning, and stay frozen until their turn.
async fn placement_delays(scene: BenchControlPlane, jobs: usize) -> Result<Vec<f64>> {
    let site = scene.sites.first().context("a site")?.clone();
    let mut chance = StdRng::seed_from_u64(1);
    let turns = TURNS.min(jobs / 2);
    let small = rand::seq::index::sample(&mut chance, jobs, turns).into_vec();
    let fits: BTreeSet<usize> = small.iter().copied().collect();
    let ids = scene
        .submit_many(jobs, |number| {
            let class = Priority::ALL[number * 7_919 % Priority::ALL.len()];
            job_in_class(
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
    scene.ask_intake(ApiRequest::Freeze(small.clone())).await?;
    let mut taken = Vec::new();
    for id in small {
        scene.ask_intake(ApiRequest::Thaw(vec![id])).await?;
        let mut commits = scene.plane.subscribe_to_changes();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let begun = Instant::now();
        site.set_idle(4);
        BenchControlPlane::await_placement(&mut commits, id).await?;
        taken.push(begun.elapsed().as_secs_f64());
        site.set_idle(0);
        scene.ask_intake(ApiRequest::Cancel(vec![id])).await?;
        scene
            .wait_until("the job is cancelled", |plane: &ControlPlane| {
                plane.view().jobs.get(&id).is_none_or(|j| j.is_final())
            })
            .await?;
    }
    Ok(taken)
}

/// Jobs of three components per second, from submission until all payloads run.
async fn coallocation_rate(scene: BenchControlPlane, jobs: usize) -> Result<f64> {
    let begun = Instant::now();
    for first in (0..jobs).step_by(BATCH) {
        let count = BATCH.min(jobs - first);
        scene
            .submit_jobs(
                (0..count)
                    .map(|_| plain_job(&[1, 1, 1]))
                    .collect::<Result<_>>()?,
            )
            .await?;
    }
    scene
        .wait_until("all run", |plane| {
            BenchControlPlane::count_in_phase(plane, PhaseKind::Running) == jobs
        })
        .await?;
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

/// Seconds from submission to durable placement, for one job after the other, in the second half of
/// the run; at its beginning this many sites fall silent.
async fn sequential_delays(
    scene: BenchControlPlane,
    jobs: usize,
    silent: usize,
) -> Result<Vec<f64>> {
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
        let mut commits = scene.plane.subscribe_to_changes();
        let begun = Instant::now();
        let ids = scene.submit_jobs(vec![plain_job(&[1])?]).await?;
        let id = *ids.first().context("a job")?;
        BenchControlPlane::await_placement(&mut commits, id).await?;
        if number >= jobs / 2 {
            taken.push(begun.elapsed().as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(taken)
}
