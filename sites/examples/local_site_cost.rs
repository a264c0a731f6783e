//! Measures what a local site costs its control plane: polling live attempts, and running attempts
//! from submission to exit through the whole adapter.
//!
//! `cargo run --release -p cospan-sites --example local_site_cost [seconds per figure]`

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cospan_domain::ids::{
    Attempt, AttemptTag, ComponentIndex, Epoch, InstanceId, JobId, Round, SiteName,
};
use cospan_domain::job::spec::{ExecutableSource, Program};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::local_site::{LocalSite, LocalSiteConfig};
use cospan_sites::port::{
    AttemptObservation, AttemptSubmitRequest, ExitCause, GateDecision, GoDecision, Site,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Attempts that are alive while polls are measured.
const LIVE: u64 = 64;
/// The pause between two polls.
const POLL_EVERY: Duration = Duration::from_millis(50);

fn tag(job: u64) -> AttemptTag {
    let component = ComponentIndex(0);
    let attempt = Attempt(1);
    AttemptTag {
        instance: InstanceId::from_random(2),
        job: JobId(job),
        component,
        attempt,
    }
}

fn attempt_order(
    tag: AttemptTag,
    executable: &str,
    argument: Option<&str>,
) -> AttemptSubmitRequest {
    let program = Program {
        executable: ExecutableSource::AtSite(executable.into()),
        arguments: argument.into_iter().map(Into::into).collect(),
        environment: std::collections::BTreeMap::new(),
        directory: None,
        setup: Vec::new(),
    };
    AttemptSubmitRequest::with_one_processor(tag, program, DurationMs::from_secs(600))
}

fn open_decision() -> GateDecision {
    GateDecision::Go(GoDecision {
        round: Round(1),
        epoch: Epoch(1),
        start_at: Timestamp(0),
        start_by: Timestamp(u64::MAX),
        rank: ComponentIndex(0),
        peers: Vec::new(),
    })
}

/// Polls, woken by hints, until the attempt is as awaited.
async fn await_seen(
    site: &LocalSite,
    tag: AttemptTag,
    awaited: impl Fn(&AttemptObservation) -> bool,
) -> Result<AttemptObservation> {
    let mut changes = site.monitor().changes().ok_or("no hints")?;
    loop {
        let status = site.queue().status(&[tag]).await?;
        let seen = status.attempts.get(&tag).ok_or("no answer")?;
        if awaited(seen) {
            return Ok(seen.clone());
        }
        let _ = tokio::time::timeout(POLL_EVERY, changes.changed()).await;
    }
}

async fn open_gate(site: &LocalSite, order: &AttemptSubmitRequest) -> Result<()> {
    site.queue().submit(order).await?;
    await_seen(site, order.tag, |seen| {
        matches!(seen, AttemptObservation::Ready(_))
    })
    .await?;
    site.gate().decide_gate(order.tag, &open_decision()).await?;
    Ok(())
}

async fn run_attempt(site: &LocalSite, tag: AttemptTag) -> Result<()> {
    open_gate(site, &attempt_order(tag, "/bin/true", None)).await?;
    match await_seen(site, tag, |seen| {
        matches!(seen, AttemptObservation::Exited(_))
    })
    .await?
    {
        AttemptObservation::Exited(exit) if exit.cause == ExitCause::Code(0) => Ok(()),
        other => Err(format!("{tag} ended as {other:?}").into()),
    }
}

/// Measures attempts per second, with `at_once` of them at a time.
async fn measure_rate(
    site: &Arc<LocalSite>,
    jobs: &Arc<AtomicU64>,
    at_once: usize,
    length: Duration,
) -> Result<f64> {
    let started = Instant::now();
    let runners: Vec<_> = (0..at_once)
        .map(|_| {
            let site = site.clone();
            let jobs = jobs.clone();
            tokio::spawn(async move {
                let mut done = 0_u32;
                while started.elapsed() < length {
                    run_attempt(&site, tag(jobs.fetch_add(1, Ordering::Relaxed))).await?;
                    done += 1;
                }
                Ok::<_, Box<dyn Error + Send + Sync>>(done)
            })
        })
        .collect();
    let mut done = 0;
    for runner in runners {
        done += runner.await??;
    }
    Ok(f64::from(done) / started.elapsed().as_secs_f64())
}

/// Returns the share of one core that this process uses while it polls `LIVE` attempts.
async fn polling_percent(site: &LocalSite, length: Duration) -> Result<f64> {
    let tags: Vec<AttemptTag> = (1_000_000..1_000_000 + LIVE).map(tag).collect();
    for tag in &tags {
        open_gate(site, &attempt_order(*tag, "/bin/sleep", Some("600"))).await?;
    }
    for tag in &tags {
        await_seen(site, *tag, |seen| {
            matches!(seen, AttemptObservation::Begun(_))
        })
        .await?;
    }
    let started = Instant::now();
    let before = cpu_time();
    while started.elapsed() < length {
        site.queue().status(&tags).await?;
        tokio::time::sleep(POLL_EVERY).await;
    }
    let used = cpu_time().saturating_sub(before).as_secs_f64() / started.elapsed().as_secs_f64();
    for tag in &tags {
        site.queue().cancel(*tag, None).await?;
    }
    for tag in &tags {
        await_seen(site, *tag, |seen| {
            matches!(seen, AttemptObservation::Exited(_))
        })
        .await?;
    }
    Ok(used * 100.0)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or(0),
        time.tv_nsec.try_into().unwrap_or(0),
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(3.0), |text| text.parse())?;
    let length = Duration::from_secs_f64(seconds);
    let place = tempfile::tempdir_in(".")?;
    let root = place.path().canonicalize()?;
    let name = SiteName::new("bench")?;
    let config = LocalSiteConfig::new(
        name,
        root,
        Resources::processors(128),
        vec!["/bin/false".into()],
    );
    let site = Arc::new(LocalSite::new(config)?);
    site.make_root()?;
    let jobs = Arc::new(AtomicU64::new(1));
    let percent = polling_percent(&site, length).await?;
    let mut figures = vec![
        json!({"name": "poll_64_live_percent", "value": percent, "unit": "%", "target": "< 2"}),
    ];
    for at_once in [1, 2, 4, 8] {
        let value = measure_rate(&site, &jobs, at_once, length).await?;
        let name = format!("attempts_at_once_{at_once}_per_s");
        figures.push(json!({"name": name, "value": value, "unit": "1/s", "target": "-"}));
    }
    println!(
        "{:#}",
        json!({"bench": "local_site_cost", "figures": figures, "floors": []})
    );
    Ok(())
}
