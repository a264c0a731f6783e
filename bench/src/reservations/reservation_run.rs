//! Jobs with a reserved start, through the actors and a store on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cospan_actors::commits::CommittedChange;
use cospan_actors::journal::JournalChange;
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::PhaseKind;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::labels::{LabelConstraint, LabelRule};
use cospan_domain::reservation::StartWindow;
use cospan_domain::reservation::coallocation::ReservationSearchStep;
use cospan_domain::units::{DurationMs, Timestamp};
use futures_util::future::join_all;
use tokio::sync::broadcast::Receiver;

use super::quantile;
use crate::placement::{BenchControlPlane, NAME_LABEL, PROCESSORS, plain_job, run_granting_scene};
use crate::report::BenchReport;

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const DAY: DurationMs = DurationMs::from_secs(86_400);
const YEAR: DurationMs = DurationMs::from_secs(365 * 86_400);
/// Numbers of clients for which jobs are measured.
const CLIENTS: [usize; 4] = [1, 3, 7, 15];
/// Longest wait for one co-allocation.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn bench(report: &mut BenchReport, place: &Path, quick: bool) -> Result<()> {
    crate::print_progress("jobs with one reservation each at one site");
    let rate = run_granting_scene(&place.join("one"), 1, move |s| {
        confirmed_rate(s, reduce_count(10_000, quick), &[1])
    })?;
    report.add_figure("reserve_jobs_per_min", rate * 60.0, "1/min", ">= 30000");
    for clients in CLIENTS {
        crate::print_progress(&format!("jobs of {clients} clients at a time"));
        let place = place.join(format!("of-{clients}"));
        let (rate, mean) = run_granting_scene(&place, 1, move |s| {
            reserved_start_rate(s, clients, reduce_count(2_000, quick))
        })?;
        report.add_figure(
            format!("reserve_per_min_{clients}_clients"),
            rate * 60.0,
            "1/min",
            "",
        );
        report.add_figure(
            format!("reserve_response_ms_{clients}_clients"),
            mean * 1e3,
            "ms",
            "",
        );
    }
    crate::print_progress("co-allocations of three components");
    let parts = &[1, 1, 1];
    let rate = run_granting_scene(&place.join("three"), 3, move |s| {
        confirmed_rate(s, reduce_count(2_000, quick), parts)
    })?;
    report.add_figure("coalloc_per_s", rate, "1/s", ">= 300");
    crate::print_progress("augmenting paths of length 3");
    let mut taken = run_granting_scene(&place.join("path"), 3, move |s| {
        augmenting_path_seconds(s, reduce_count(200, quick))
    })?;
    report.add_figure(
        "augment_ms",
        quantile(&mut taken, 0.99) * 1e3,
        "ms",
        "<= 10",
    );
    report.add_figure("augment_p50_ms", quantile(&mut taken, 0.5) * 1e3, "ms", "");
    Ok(())
}

fn reduce_count(count: usize, quick: bool) -> usize {
    if quick { count / 10 } else { count }
}

/// Jobs per second of this many clients, each of which submits its next job when the previous one
/// has its reserved start; and the mean time in seconds from submission to the reserved start.
async fn reserved_start_rate(
    scene: BenchControlPlane,
    clients: usize,
    jobs: usize,
) -> Result<(f64, f64)> {
    let begun = Instant::now();
    let each = jobs / clients;
    let waited = join_all((0..clients).map(|client| client_wait_seconds(&scene, client, each)))
        .await
        .into_iter()
        .sum::<Result<f64>>()?;
    let done = (each * clients) as f64;
    Ok((done / begun.elapsed().as_secs_f64(), waited / done))
}

/// Seconds in all that a client waited for reserved starts.
async fn client_wait_seconds(scene: &BenchControlPlane, client: usize, jobs: usize) -> Result<f64> {
    let mut waited = 0.0;
    for _ in 0..jobs {
        let earliest = scene.plane.now() + HOUR + DurationMs(client as u64);
        let window = StartWindow::new(earliest, earliest + YEAR);
        let wish = ReservationTerms {
            window,
            ..ReservationTerms::default()
        };
        let mut spec = JobSpec::clone(&*plain_job(&[1])?);
        spec.run.reservation = Some(wish);
        let spec = Arc::new(spec);
        let mut commits = scene.plane.subscribe_to_changes();
        let begun = Instant::now();
        let id = scene
            .submit_many(1, |_| Ok(spec.clone()))
            .await?
            .into_iter()
            .next()
            .context("a job")?;
        BenchControlPlane::await_placement(&mut commits, id).await?;
        waited += begun.elapsed().as_secs_f64();
    }
    Ok(waited)
}

/// Jobs per second, from submission until all their reservations are confirmed.
async fn confirmed_rate(
    scene: BenchControlPlane,
    jobs: usize,
    components: &'static [u32],
) -> Result<f64> {
    let earliest = scene.plane.now() + HOUR;
    let begun = Instant::now();
    scene
        .submit_many(jobs, |number: usize| {
            let mut spec = JobSpec::clone(&*plain_job(components)?);
            let earliest = earliest + DurationMs(number as u64 * 1_000);
            spec.run.reservation = Some(ReservationTerms {
                window: StartWindow::new(earliest, earliest + DAY),
                ..ReservationTerms::default()
            });
            Ok(Arc::new(spec))
        })
        .await?;
    scene
        .wait_until("all are promised a start", |p| {
            BenchControlPlane::count_in_phase(p, PhaseKind::Placed) == jobs
        })
        .await?;
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

/// Seconds of each of the augmenting paths over three components: from the refusal that makes a
/// path necessary until each component has a reservation, with every step durable.
async fn augmenting_path_seconds(scene: BenchControlPlane, jobs: usize) -> Result<Vec<f64>> {
    let first = scene.plane.now() + HOUR;
    let mut taken = Vec::new();
    for number in 0..jobs {
        let spec = augmenting_path_job(first + DurationMs(number as u64 * 2 * DAY.0))?;
        let mut commits = scene.plane.subscribe_to_changes();
        let id = scene
            .submit_many(1, |_| Ok(spec.clone()))
            .await?
            .into_iter()
            .next()
            .context("a job")?;
        taken.push(tokio::time::timeout(PATIENCE, time_augmenting_path(&mut commits, id)).await??);
    }
    Ok(taken)
}

/// Builds a job each of whose components fills a site. The first may use sites 0 and 1, the second
/// 1 and 2, the third 0 alone, which the first has already: the first must move to where the second
/// is.
fn augmenting_path_job(start: Timestamp) -> Result<Arc<JobSpec>> {
    let mut spec = JobSpec::clone(&*plain_job(&[PROCESSORS; 3])?);
    let window = StartWindow::single_start(start);
    spec.run.reservation = Some(ReservationTerms {
        window,
        ..ReservationTerms::default()
    });
    let sites = [&["s000", "s001"][..], &["s001", "s002"], &["s000"]];
    for (component, sites) in spec.components.iter_mut().zip(sites) {
        let rule = LabelRule::OneOf(sites.iter().map(|site| (*site).into()).collect());
        component.constraints.push(LabelConstraint {
            key: NAME_LABEL.into(),
            rule,
        });
    }
    Ok(Arc::new(spec))
}

/// Seconds from the commit with which the job begins an augmenting path to that with which it has
/// all reservations.
async fn time_augmenting_path(commits: &mut Receiver<CommittedChange>, id: JobId) -> Result<f64> {
    let mut begun = None;
    loop {
        let committed = commits.recv().await?;
        let JournalChange::Job { new, .. } = &*committed.change else {
            continue;
        };
        let Some(reservation) = new.reservation.as_deref().filter(|_| new.id == id) else {
            continue;
        };
        let step = &reservation.search.step;
        match (step, begun) {
            (ReservationSearchStep::Augment { .. }, None) => begun = Some(Instant::now()),
            (ReservationSearchStep::Check { .. }, Some(begun)) => {
                return Ok(begun.elapsed().as_secs_f64());
            }
            (ReservationSearchStep::Release { .. }, _) => bail!("a job was not co-allocated"),
            _ => {}
        }
    }
}
