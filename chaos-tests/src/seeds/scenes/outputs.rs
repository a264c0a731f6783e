//! The output of a job is brought to the site that is to keep it as soon as the job is over, and
//! has its name once it is there; it stays until no name stands for it any more.

use anyhow::Result;
use cospan_actors::api::command::{ApiAnswer, ApiRequest};
use cospan_domain::ids::{ComponentIndex, Digest, JobId, LogicalName, RelPath};
use cospan_domain::job::spec::{JobSpec, OutputDestination, OutputSpec};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::copies::look_times;
use super::log::{OF_COPIES, TimedItem};
use super::stage::{SceneStage, StagedScene, fixed_at, site_name};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::OUTPUT_BYTES;
use cospan_simulator::world::copies::output_content;

/// Bandwidth of the links, in bytes a millisecond.
const RATE: u64 = 1_000;

pub(super) fn play_outputs(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[12, 12], chance.random())?;
    stage.hints = chance.random_bool(0.7);
    stage.settings.information_expiry = DurationMs::from_secs(86_400);
    let keeps = DurationMs(1_000 * chance.random_range(1..30));
    stage.settings.transfer.ready_keep = keeps;
    let to = chance.random_range(0..2);
    let run = DurationMs(chance.random_range(100..10_000));
    stage.play_from_start(move |scene| async move {
        scene.pass(DurationMs(100)).await;
        let first = check_leaves(&scene, to, run).await?;
        scene.pass(DurationMs(200_000)).await;
        let view = scene.plane_run.plane.view();
        scene.check_same(
            "copies",
            view.copies.values().filter(|copy| copy.is_ready()).count(),
            1,
        );
        // The name comes to stand for the output of the next one.
        let begun = scene.now();
        let second = check_leaves(&scene, to, run).await?;
        let over = scene.until_ended(&[second]).await?;
        check_goes(&scene, to, first, over, keeps).await?;
        let name = LogicalName::new("result")?;
        let begun_again = scene.now();
        let forgets = ApiRequest::RemoveFile {
            name,
            site: None,
            force: false,
            reaches_all: false,
        };
        scene.check_same("forgets", scene.ask(forgets).await, Ok(ApiAnswer::Done));
        check_goes(&scene, to, second, begun_again, keeps).await?;
        scene.check(scene.now() > begun, String::new);
        let view = scene.plane_run.plane.view();
        scene.check_same("left", (view.copies.len(), view.files.len()), (0, 0));
        Ok(())
    })
}

fn output_job(run: DurationMs, to: usize) -> Result<JobSpec> {
    let mut spec = fixed_at(build_job(&[1], run, run, 0)?, 1)?;
    let site = site_name(to)?;
    let register = LogicalName::new("result")?;
    let collect = OutputDestination::ToSite { site, register };
    spec.components[0].outputs.push(OutputSpec {
        path: RelPath::new("out")?,
        collect,
    });
    Ok(spec)
}

/// Returns the digest of a job's output.
fn output(scene: &StagedScene, id: JobId) -> Result<Digest> {
    let tag = scene
        .job_record(id)?
        .latest_tag(scene.plane_run.plane.instance(), ComponentIndex(0));
    Ok(output_content(tag, &RelPath::new("out")?).digest)
}

/// Checks a job that leaves an output, which is there as soon as it can be.
async fn check_leaves(scene: &StagedScene, to: usize, run: DurationMs) -> Result<JobId> {
    let begun = scene.now();
    let id = scene.submit(output_job(run, to)?).await?;
    let over = scene.until_ended(&[id]).await?.since(begun).0;
    let lived = scene.job_events(id, begun);
    let exited = lived
        .iter()
        .find(|(_, what)| *what == "AttemptEnded")
        .map(|(at, _)| *at);
    let exited = exited.unwrap_or_default();
    let looks = if to == 1 {
        vec![0]
    } else {
        look_times(OUTPUT_BYTES.0 / RATE)
    };
    let whole = exited + looks.last().copied().unwrap_or_default();
    scene.check_same("ends", over, whole);
    let mut calls: Vec<TimedItem<&str>> = looks
        .iter()
        .map(|at| (exited + at, "copy-status"))
        .collect();
    calls.extend([
        (exited, "start-copy"),
        (whole, "has-content"),
        (whole, "inspect"),
    ]);
    if to == 1 {
        // The site at which it was made was asked what it is.
        calls.push((exited, "inspect"));
    }
    calls.sort_unstable();
    let mut heard = scene.calls_at(&site_name(to)?, &OF_COPIES, begun);
    // Calls about the content that had the name until now are not checked here.
    heard.retain(|(_, call)| *call != "stop-copy" && *call != "delete-content");
    scene.check_same("calls", heard, calls);
    let file = scene
        .plane_run
        .plane
        .view()
        .files
        .get(&LogicalName::new("result")?)
        .cloned();
    let entry = file.and_then(|file| file.entry.clone());
    let place = FilePlace::Store(output(scene, id)?);
    let there = entry.map(|entry| (entry.content.digest, entry.replicas.to_vec()));
    scene.check_same(
        "registered",
        there,
        Some((output(scene, id)?, vec![(site_name(to)?, place)])),
    );
    Ok(id)
}

/// Checks that a job's output goes when it has had no name for long enough.
async fn check_goes(
    scene: &StagedScene,
    to: usize,
    id: JobId,
    since: Timestamp,
    keeps: DurationMs,
) -> Result<()> {
    scene.pass(keeps + DurationMs(1_000)).await;
    let digest = output(scene, id)?.0[0];
    let lived = scene
        .copy_states(&site_name(to)?, since)
        .into_iter()
        .filter(|(_, what): &TimedItem<String>| what.starts_with(&format!("{digest} ")));
    // Others may have happened in the same millisecond, before.
    let lived: Vec<_> = lived
        .skip_while(|(_, what)| !what.ends_with("unneeded"))
        .collect();
    let gone = keeps.0;
    let steps = [
        (0, "ready unneeded"),
        (gone, "deleting unneeded"),
        (gone, "deleting unneeded"),
    ];
    let steps = steps.into_iter().chain([(gone, "gone")]);
    let steps: Vec<_> = steps
        .map(|(at, what)| (at, format!("{digest} {what}")))
        .collect();
    scene.check_same("goes", lived, steps);
    Ok(())
}
