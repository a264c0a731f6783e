//! All sites with work of ours fall silent at about the same time: the fault is ours. Nothing is
//! charged, placed or given up until the first of them answers, and then at once.

use anyhow::Result;
use cospan_domain::ids::JobId;
use cospan_domain::job::spec::UnreachableAction;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::silence::{SilentTries, first_poll};
use super::stage::{BEGINS, SceneStage, StagedScene, site_name};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

struct CutOffStory {
    apart: DurationMs,
    silent_after: DurationMs,
    silent_for: DurationMs,
    patience: DurationMs,
}

pub(super) fn play_cut_off(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[5, 4], chance.random())?;
    let settings = &mut stage.settings;
    settings.reconcile_interval = DurationMs::from_secs(86_400);
    settings.information_expiry = DurationMs::from_secs(7_200);
    settings.contact.unreachable_after = DurationMs(chance.random_range(20_000..=60_000));
    let story = CutOffStory {
        apart: DurationMs(chance.random_range(20..=3_000)),
        silent_after: DurationMs(chance.random_range(20..=30_000)),
        silent_for: DurationMs(chance.random_range(130_000..=200_000)),
        patience: DurationMs(chance.random_range(100_000..=250_000)),
    };
    let settings = settings.clone();
    stage.play_scene(move |scene| async move {
        let begun = scene.now().since(BEGINS).0;
        let first = scene.submit(long_job(2, story.patience)?).await?;
        scene.pass(story.apart).await;
        let second = scene.submit(long_job(2, story.patience)?).await?;
        for site in [0, 1] {
            scene.plan_fault(story.silent_after, site, SiteFault::Silent(true))?;
        }
        // The second comes back first.
        let ends = story.silent_after + story.silent_for;
        scene.plan_fault(ends, 1, SiteFault::Silent(false))?;
        let from = [begun, begun + story.apart.0];
        let silent_at = from[1] + story.silent_after.0;
        let tries = [
            first_poll(from[0], silent_at - from[0], settings.poll_interval.0),
            first_poll(from[1], silent_at - from[1], settings.poll_interval.0),
        ];
        let tries = [
            SilentTries::work_out_tries(tries[0], silent_at + 200_000, &settings),
            SilentTries::work_out_tries(tries[1], from[1] + ends.0, &settings),
        ];
        play_story(&scene, [first, second], &tries, &story).await
    })
}

fn long_job(processors: u32, patience: DurationMs) -> Result<cospan_domain::job::spec::JobSpec> {
    let time = DurationMs::from_secs(86_400);
    let mut spec = build_job(&[processors], time, time, 0)?;
    spec.on_unreachable = UnreachableAction::RerunAfter(patience);
    Ok(spec)
}

async fn wait_until(scene: &StagedScene, at: u64) {
    scene.plane_run.sleep_until(BEGINS + DurationMs(at)).await;
}

async fn play_story(
    scene: &StagedScene,
    jobs: [JobId; 2],
    tries: &[SilentTries; 2],
    story: &CutOffStory,
) -> Result<()> {
    let isolated = tries[0].lost.max(tries[1].lost);
    wait_until(scene, isolated - 1).await;
    scene.check_same("isolated before", scene.metrics().isolated.get(), 0);
    wait_until(scene, isolated).await;
    scene.pass(DurationMs(1)).await;
    scene.check_same("isolated", scene.metrics().isolated.get(), 1);
    scene.check_same(
        "isolated as told",
        scene.plane_run.plane.is_isolated(),
        true,
    );
    for number in [0, 1] {
        let job = scene.job_record(jobs[number])?;
        let told = scene
            .plane_run
            .plane
            .explain_job(&job)
            .silence
            .warning(&job);
        let expected = format!(
            "component part-0 may still run at {}, which does not answer; so many sites are silent \
             at once that the control plane takes itself to be isolated: nothing is given up, and \
             it goes on once that site answers",
            site_name(number)?
        );
        scene.check_same("what is told", told, Some(expected));
    }
    let waiting = scene
        .submit(build_job(&[1], DurationMs(1_000), DurationMs(1_000), 0)?)
        .await?;
    wait_until(scene, tries[1].back - 1).await;
    scene.check_same("still isolated", scene.metrics().isolated.get(), 1);
    for number in [0, 1] {
        scene.check_same("errors meanwhile", site_error_count(scene, number)?, 0);
        scene.check_same(
            "course meanwhile",
            scene.durable_course(jobs[number], BEGINS).len(),
            4,
        );
    }
    scene.check_same(
        "nothing is placed",
        scene.durable_course(waiting, BEGINS).len(),
        0,
    );
    check_after(scene, jobs, waiting, tries, story).await
}

fn site_error_count(scene: &StagedScene, site: usize) -> Result<u64> {
    Ok(scene
        .metrics()
        .site_errors
        .with_label_values(&[site_name(site)?.as_str()])
        .get())
}

/// Checks what follows when one site answers again: the other is silent by its own fault from then
/// on.
async fn check_after(
    scene: &StagedScene,
    jobs: [JobId; 2],
    waiting: JobId,
    tries: &[SilentTries; 2],
    story: &CutOffStory,
) -> Result<()> {
    let back = tries[1].back;
    scene.pass(DurationMs(2)).await;
    scene.check_same("isolated afterwards", scene.metrics().isolated.get(), 0);
    let placed = scene.first_event_at(waiting, "JobPlaced")?.since(BEGINS).0;
    scene.check_same("who waited is placed", placed, back);
    let given_up = back.max(tries[0].since + story.patience.0);
    wait_until(scene, given_up + 1).await;
    let aborted = scene
        .first_event_at(jobs[0], "RoundAborted")?
        .since(BEGINS)
        .0;
    scene.check_same("the job at the silent site is given up", aborted, given_up);
    scene.check_same("its site is charged", site_error_count(scene, 0)?, 1);
    scene.check_same("the other is not", site_error_count(scene, 1)?, 0);
    scene.check_same(
        "the other job goes on",
        scene.durable_course(jobs[1], BEGINS).len(),
        4,
    );
    Ok(())
}
