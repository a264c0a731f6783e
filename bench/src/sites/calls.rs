//! The cost of calls to one cluster, beside the commands that they run. The process is separate and
//! runs as the user: nothing but the adapter is in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, InstanceId, JobId, SiteName};
use cospan_domain::job::spec::{ExecutableSource, Program};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;
use cospan_sites::exec::child::ChildProcessExecutor;
use cospan_sites::exec::ssh::{SshConfig, SshExecutor};
use cospan_sites::port::{AttemptSubmitRequest, Site};
use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::two_clusters::quantile;
use crate::measured_program::cospan_program;

/// Submissions under way at once.
const WIDTH: usize = 8;
/// Submissions of a block.
const BLOCK: usize = 40;
/// Polls that are timed.
const POLLS: usize = 20;
/// Clock ticks a second, as Linux counts processor time for every program.
const TICKS_PER_S: f64 = 100.0;

/// The settings of the measurement.
#[derive(Debug, Clone)]
pub struct CallBenchSettings {
    /// A directory for this process alone.
    pub root: PathBuf,
    /// Configuration of the cluster, whose partition is down.
    pub conf: PathBuf,
    /// SSH configuration for the login to `testbed`.
    pub ssh: PathBuf,
    /// Pairs of blocks.
    pub pairs: usize,
    /// Attempts that are polled.
    pub attempts: usize,
}

/// The result of the measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CallFigures {
    /// Submissions a second by the adapter over those of bare `sbatch`: the median of pairs.
    pub submit_ratio: f64,
    /// Bare `sbatch` a second: the median of blocks.
    pub sbatch_per_s: f64,
    /// Processor time of this process for one poll over SSH, in milliseconds.
    pub status_ms: f64,
    /// Median time of such a poll, in milliseconds.
    pub status_wall_ms: f64,
}

/// Measures the calls.
///
/// # Errors
/// The cluster does not do what it is asked.
pub fn measure_calls(plan: &CallBenchSettings) -> Result<CallFigures> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure_all(plan))
}

async fn measure_all(plan: &CallBenchSettings) -> Result<CallFigures> {
    let site = SlurmSite::new(
        site_config(plan)?,
        Arc::new(ChildProcessExecutor::with_process_environment()),
    )?;
    site.make_root().await?;
    let mut tags = (1..).map(tag_of);
    let mut submitted: Vec<AttemptTag> = tags.by_ref().take(1).collect();
    site.queue().submit(&attempt_request(submitted[0])).await?;
    let mut ratios = Vec::new();
    let mut raw = Vec::new();
    for _ in 0..plan.pairs {
        let block: Vec<AttemptTag> = tags.by_ref().take(BLOCK).collect();
        let ours = measure_rate(BLOCK, submit_all(&site, &block)).await?;
        let bare = measure_rate(BLOCK, sbatch_all(plan)).await?;
        submitted.extend(block);
        ratios.push(ours / bare);
        raw.push(bare);
    }
    let more: Vec<AttemptTag> = tags
        .take(plan.attempts.saturating_sub(submitted.len()))
        .collect();
    submit_all(&site, &more).await?;
    submitted.extend(more);
    let (status_ms, status_wall_ms) = time_status(plan, &submitted).await?;
    Ok(CallFigures {
        submit_ratio: quantile(&mut ratios, 0.5),
        sbatch_per_s: quantile(&mut raw, 0.5),
        status_ms,
        status_wall_ms,
    })
}

fn site_config(plan: &CallBenchSettings) -> Result<SlurmSiteConfig> {
    let total = Resources::processors(1_000_000);
    let agent = cospan_program()?.into();
    let mut config = SlurmSiteConfig::new(
        SiteName::new("alpha")?,
        plan.root.clone(),
        total,
        vec![agent],
    );
    config.slurm_conf = Some(plan.conf.clone());
    Ok(config)
}

fn tag_of(job: u64) -> AttemptTag {
    let instance = InstanceId::from_random(0xbe_0c);
    AttemptTag {
        instance,
        job: JobId(job),
        component: ComponentIndex(0),
        attempt: Attempt(1),
    }
}

fn attempt_request(tag: AttemptTag) -> AttemptSubmitRequest {
    let program = Program {
        executable: ExecutableSource::AtSite("/bin/true".into()),
        arguments: Vec::new(),
        environment: std::collections::BTreeMap::new(),
        directory: None,
        setup: Vec::new(),
    };
    AttemptSubmitRequest::with_one_processor(tag, program, DurationMs::from_secs(600))
}

async fn submit_all(site: &SlurmSite, tags: &[AttemptTag]) -> Result<()> {
    let orders: Vec<AttemptSubmitRequest> = tags.iter().map(|tag| attempt_request(*tag)).collect();
    let calls = orders.iter().map(|order| site.queue().submit(order));
    stream::iter(calls)
        .buffer_unordered(WIDTH)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok(())
}

/// Submits the adapter's script by `sbatch` alone.
async fn sbatch_all(plan: &CallBenchSettings) -> Result<()> {
    let stub = write_stub(&plan.root)?;
    let calls = (0..BLOCK).map(|_| sbatch_once(plan, &stub));
    stream::iter(calls)
        .buffer_unordered(WIDTH)
        .try_for_each(|()| async { Ok(()) })
        .await
}

async fn sbatch_once(plan: &CallBenchSettings, stub: &Path) -> Result<()> {
    let mut sbatch = tokio::process::Command::new("sbatch");
    sbatch.args(["--parsable", "-o", "/dev/null", "--export=NIL", "-t", "30"]);
    sbatch
        .arg(stub)
        .args(["/bin/true"])
        .env("SLURM_CONF", &plan.conf);
    let output = sbatch.output().await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output
        .status
        .success()
        .then_some(())
        .with_context(|| format!("sbatch: {said}"))
}

fn write_stub(root: &Path) -> Result<PathBuf> {
    let files = std::fs::read_dir(root)?
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    files
        .into_iter()
        .find(|path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("stub-"))
        })
        .context("the adapter left no script")
}

async fn measure_rate(count: usize, work: impl Future<Output = Result<()>>) -> Result<f64> {
    let begin = Instant::now();
    work.await?;
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

async fn time_status(plan: &CallBenchSettings, tags: &[AttemptTag]) -> Result<(f64, f64)> {
    let ssh = SshConfig {
        host: "testbed".into(),
        config: Some(plan.ssh.clone()),
        socket: plan.root.with_extension("ssh"),
        wanted: "sbatch",
        patience: Duration::from_secs(15),
    };
    let exec = SshExecutor::new(ssh).map_err(anyhow::Error::msg)?;
    let site = SlurmSite::with_remote_root(site_config(plan)?, Arc::new(exec))?;
    site.queue().status(tags).await?;
    let before = cpu_ticks()?;
    let mut walls = Vec::new();
    for _ in 0..POLLS {
        let begin = Instant::now();
        site.queue().status(tags).await?;
        walls.push(begin.elapsed().as_secs_f64() * 1_000.0);
    }
    let used = (cpu_ticks()? - before) as f64 / TICKS_PER_S * 1_000.0 / POLLS as f64;
    Ok((used, quantile(&mut walls, 0.5)))
}

/// Processor time of this process alone, in clock ticks.
fn cpu_ticks() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let rest = stat.rsplit_once(')').context("no stat")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let user = fields.get(11).and_then(|field| field.parse::<u64>().ok());
    let system = fields.get(12).and_then(|field| field.parse::<u64>().ok());
    Ok(user.context("no utime")? + system.context("no stime")?)
}
