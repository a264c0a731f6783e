//! Input is brought from the site that is nearest, as links are configured or measured. A copy is
//! looked at at times that follow from its age and its pace alone, and once more at the very end
//! that was predicted; it serves all jobs that come meanwhile, and goes when nobody has needed it
//! for the configured time.

use anyhow::Result;
use cospan_domain::ids::SiteName;
use cospan_domain::transfer::measured_bandwidth::BandwidthParameters;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::log::{OF_COPIES, TimedItem};
use super::stage::{SceneStage, StagedScene, fixed_at, site_name, with_input};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

/// Bandwidth of the far link, in bytes a millisecond.
const FAR: u64 = 1_000;

/// The drawn numbers of the story.
#[derive(Debug, Clone, Copy)]
struct CopyTale {
    /// Configured bandwidth of the link from the near site, in bytes a millisecond.
    said: u64,
    /// The real bandwidth of that link.
    carries: u64,
    /// Time that copies from the near site take.
    takes: DurationMs,
    /// Time for which copies are kept.
    keeps: DurationMs,
    /// Time for which measurements count.
    expiry: DurationMs,
    run: DurationMs,
}

impl CopyTale {
    fn draw_tale(chance: &mut StdRng) -> Self {
        let said = 1_000 * chance.random_range(2..=4);
        Self {
            said,
            carries: if chance.random_bool(0.5) { said } else { 500 },
            takes: DurationMs(8 * chance.random_range(20..2_500)),
            keeps: DurationMs(1_000 * chance.random_range(1..90)),
            expiry: DurationMs(1_000 * chance.random_range(100..400)),
            run: DurationMs(10 * chance.random_range(1..500)),
        }
    }

    fn size(&self) -> Bytes {
        Bytes(self.carries * self.takes.0)
    }

    /// Returns when a complete copy is seen: nobody reports it.
    fn seen_after(&self) -> DurationMs {
        DurationMs(look_times(self.takes.0).last().copied().unwrap_or_default())
    }

    /// Returns true if copies take long enough to be measured.
    fn is_measured(&self) -> bool {
        self.seen_after() >= BandwidthParameters::default().min_time
    }

    /// Returns the measured bandwidth of the near link, in bits a second.
    fn measured_bandwidth(&self) -> u64 {
        8_000 * self.size().0 / self.seen_after().0
    }

    /// Returns true if the far site is found to be nearer while the measurement counts.
    fn is_far_site_preferred(&self) -> bool {
        self.is_measured() && self.carries < FAR
    }
}

/// Returns the times of looks at a copy that begins at 0 and has all its bytes after `takes`: at
/// first, then after a quarter of its age, at least 100 ms and at most 5 s, but not past the
/// expected end.
pub(super) fn look_times(takes: u64) -> Vec<u64> {
    let mut looks = vec![0];
    while let Some(last) = looks.last().copied().filter(|last| *last < takes) {
        let left = if last == 0 { u64::MAX } else { takes - last };
        looks.push(last + (last / 4).min(left).clamp(100, 5_000));
    }
    looks
}

/// Lists the calls about a copy that begins at `from` and has these looks; then it is asked for,
/// for those who need it.
pub(super) fn copy_calls(from: u64, looks: &[u64]) -> Vec<TimedItem<&'static str>> {
    let looks: Vec<_> = looks.iter().map(|at| (from + at, "copy-status")).collect();
    let whole = looks.last().map(|(at, _)| (*at, "has-content"));
    [(from, "start-copy")]
        .into_iter()
        .chain(looks)
        .chain(whole)
        .collect()
}

pub(super) fn play_copies(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[12, 12, 12], chance.random())?;
    let tale = CopyTale::draw_tale(chance);
    stage.hints = chance.random_bool(0.7);
    // Answers of sites count as new throughout.
    stage.settings.information_expiry = DurationMs::from_secs(86_400);
    stage.settings.transfer.ready_keep = tale.keeps;
    stage.settings.network.rates.expiry = tale.expiry;
    let near = site_name(0)?;
    let far = site_name(1)?;
    let here = site_name(2)?;
    let links = [(near, tale.said), (far, FAR)];
    for (from, rate) in links {
        stage
            .settings
            .links
            .insert((from, here.clone()), BitsPerSecond(8_000 * rate));
    }
    for _ in 0..3 {
        stage.add_file(tale.size().0, &[0, 1])?;
    }
    stage.play_from_start(move |scene| async move {
        let to = site_name(2)?;
        if tale.carries < tale.said {
            let bandwidth = BitsPerSecond(8_000 * tale.carries);
            scene.plan_fault(DurationMs(1), 0, SiteFault::Link { to, bandwidth })?;
        }
        scene.pass(DurationMs(100)).await;
        let (begun, measured_at) = shared_copy(&scene, tale).await?;
        check_measurement(&scene, tale, measured_at)?;
        let turns = tale.is_far_site_preferred() && scene.now() < measured_at + tale.expiry;
        check_comes_from(&scene, tale, 1, if turns { 1 } else { 0 }).await?;
        if tale.is_measured() {
            // Whatever was measured since then was measured of the other link, or of this one
            // again; both count no more.
            scene.pass(tale.expiry).await;
        }
        check_comes_from(&scene, tale, 2, 0).await?;
        check_metrics(&scene, begun, tale);
        Ok(())
    })
}

/// Lets two jobs read the same file, the second of which comes some time after the first.
async fn shared_copy(scene: &StagedScene, tale: CopyTale) -> Result<(Timestamp, Timestamp)> {
    let begun = scene.now();
    let here = site_name(2)?;
    let half = tale.takes.0 / 2;
    let looks = look_times(tale.takes.0);
    let whole = tale.seen_after().0;
    let spec = with_input(fixed_at(build_job(&[2], tale.run, tale.run, 0)?, 2)?, 0)?;
    let first = scene.submit(spec.clone()).await?;
    scene.pass(DurationMs(half)).await;
    check_progress(scene, begun, tale)?;
    let second = scene.submit(spec).await?;
    scene.check_same("sources", sources(scene, first)?, vec![site_name(0)?]);
    let ended = scene.until_ended(&[first, second]).await?.since(begun).0;
    scene.pass(tale.keeps + DurationMs(10_000)).await;
    let mut calls = copy_calls(0, &looks);
    let gone = ended + tale.keeps.0;
    calls.extend([(gone, "delete-content"), (gone, "stop-copy")]);
    calls.sort_unstable();
    // Because of the newcomer the actor of the copy looks at what is due, which is nothing.
    scene.check_same(
        "calls of a copy",
        scene.calls_at(&here, &OF_COPIES, begun),
        calls,
    );
    let from = "1 copying from amsterdam".to_owned();
    let copied = vec![
        (0, "1 waiting".into()),
        (0, from.clone()),
        (0, from),
        (whole, "1 ready".into()),
        (ended, "1 ready unneeded".into()),
        (gone, "1 deleting unneeded".into()),
        (gone, "1 deleting unneeded".into()),
        (gone, "1 gone".into()),
    ];
    scene.check_same("lives of a copy", scene.copy_states(&here, begun), copied);
    for (job, placed) in [(first, 0), (second, half)] {
        let arrived = scene
            .job_events(job, begun)
            .into_iter()
            .filter(|(_, what)| *what == "InputsArrived");
        let at: Vec<u64> = arrived.map(|(at, _)| at).collect();
        scene.check_same("arrival", at, vec![whole.max(placed)]);
    }
    Ok((begun, begun + DurationMs(whole)))
}

/// Returns where the input of a job comes from, as placed.
fn sources(scene: &StagedScene, id: cospan_domain::ids::JobId) -> Result<Vec<SiteName>> {
    let job = scene.job_record(id)?;
    let placed = job
        .components
        .iter()
        .flat_map(|component| &component.placement);
    Ok(placed
        .flat_map(|placement| &placement.sources)
        .map(|source| source.from.clone())
        .collect())
}

/// Checks that in the middle of a copy everybody is shown what was there at the last look, and its
/// end.
fn check_progress(scene: &StagedScene, begun: Timestamp, tale: CopyTale) -> Result<()> {
    let now = scene.now().since(begun).0;
    // A look at this very moment may come before or after.
    let Some(last) = look_times(tale.takes.0)
        .into_iter()
        .rev()
        .find(|at| *at <= now)
    else {
        return Ok(());
    };
    if last == now {
        return Ok(());
    }
    let digest = cospan_domain::ids::Digest([1; 32]);
    let shown = scene.plane_run.plane.copy_progress(digest, &site_name(2)?);
    let shown = shown.map(|shown| (shown.done, shown.at, shown.expected));
    // Nothing had come at the first look: then the link's configured bandwidth is all that is
    // known.
    let promised = DurationMs(tale.size().0.div_ceil(tale.said));
    let end = if last == 0 { promised } else { tale.takes };
    let done = Bytes(last * tale.carries);
    scene.check_same(
        "progress",
        shown,
        Some((done, begun + DurationMs(last), begun + end)),
    );
    Ok(())
}

/// Checks what operators see of the link once the copy is complete.
fn check_measurement(scene: &StagedScene, tale: CopyTale, at: Timestamp) -> Result<()> {
    let counts = tale.is_measured() && scene.now() < at + tale.expiry;
    let links = scene.plane_run.plane.links_to(&site_name(2)?);
    let shown: Vec<_> = links
        .iter()
        .map(|link| {
            (
                link.from.clone(),
                link.bandwidth.0,
                link.configured.0,
                link.measured,
            )
        })
        .map(|(from, rate, said, measured)| {
            (
                from,
                rate,
                said,
                measured.map(|m| (m.bandwidth.0, m.at, m.transfers)),
            )
        })
        .collect();
    let rate = if counts {
        tale.measured_bandwidth()
    } else {
        8_000 * tale.said
    };
    let measured = counts.then_some((tale.measured_bandwidth(), at, 1));
    let near = (site_name(0)?, rate, 8_000 * tale.said, measured);
    scene.check_same(
        "links",
        shown,
        vec![near, (site_name(1)?, 8_000 * FAR, 8_000 * FAR, None)],
    );
    let gauge = &scene.plane_run.plane.shared().metrics.link_bandwidth;
    let gauge = gauge.with_label_values(&["amsterdam", "cracow"]).get();
    scene.check_same(
        "gauge",
        gauge,
        if tale.is_measured() {
            tale.measured_bandwidth() as i64 / 8
        } else {
            0
        },
    );
    Ok(())
}

/// Lets one more job read another file, and checks that it comes from there.
async fn check_comes_from(
    scene: &StagedScene,
    tale: CopyTale,
    file: usize,
    site: usize,
) -> Result<()> {
    let begun = scene.now();
    let spec = with_input(fixed_at(build_job(&[1], tale.run, tale.run, 0)?, 2)?, file)?;
    let id = scene.submit(spec).await?;
    scene.until_ended(&[id]).await?;
    scene.check_same("nearest", sources(scene, id)?, vec![site_name(site)?]);
    let takes = if site == 0 {
        tale.takes.0
    } else {
        tale.size().0 / FAR
    };
    let whole = look_times(takes).last().copied().unwrap_or_default();
    let came = scene
        .copy_states(&site_name(2)?, begun)
        .into_iter()
        .filter(|(_, what): &TimedItem<String>| what.starts_with(&format!("{}", file + 1)));
    let came: Vec<_> = came.take(4).collect();
    let from = format!("{} copying from {}", file + 1, site_name(site)?);
    let waiting = (0, format!("{} waiting", file + 1));
    let ready = (whole, format!("{} ready", file + 1));
    scene.check_same(
        "came",
        came,
        vec![waiting, (0, from.clone()), (0, from), ready],
    );
    Ok(())
}

/// Checks the metrics of copies.
fn check_metrics(scene: &StagedScene, _: Timestamp, tale: CopyTale) {
    let metrics = &scene.plane_run.plane.shared().metrics;
    scene.check_same("bytes", metrics.transferred_bytes.get(), 3 * tale.size().0);
    scene.check_same("copies", metrics.transfer_seconds.get_sample_count(), 3);
    for blame in ["source", "destination", "process", "stall"] {
        let failed = metrics.transfer_failures.with_label_values(&[blame]).get();
        scene.check_same(blame, failed, 0);
    }
}
