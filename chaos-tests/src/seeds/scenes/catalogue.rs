//! Files get names, lose them, and are kept for the jobs that read them; every refusal says why. No
//! site is asked about a file more than once, and what was refused changes nothing.

use anyhow::Result;
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, ApiRequest};
use cospan_domain::ids::{LogicalName, RelPath};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{SceneStage, StagedScene, file_name, fixed_at, site_name, with_input};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

type CatalogueAnswer = Result<ApiAnswer, ApiRefusal>;

/// The answer to a successful command about a file.
const DONE: CatalogueAnswer = Ok(ApiAnswer::Done);

pub(super) fn play_catalogue(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[12, 12, 12], chance.random())?;
    stage.hints = chance.random_bool(0.7);
    // The same file at two sites, and another one at the first.
    stage.add_file(1_000 * chance.random_range(1..50), &[0, 1])?;
    stage.add_file(1_000 * chance.random_range(1..50), &[0])?;
    let counts = LiveCounts {
        waiting: chance.random_range(0..3),
        running: chance.random_range(0..3),
        others: chance.random_range(0..3),
        ended: chance.random_range(0..2),
    };
    stage.play_from_start(move |scene| async move {
        scene.pass(DurationMs(100)).await;
        check_refusals(&scene).await?;
        let needed = counts.submit(&scene).await?;
        check_last_replica(&scene, needed).await?;
        check_replaced(&scene).await?;
        check_simultaneous(&scene).await?;
        let depth = scene.plane_run.plane.shared().metrics.mailbox_depth.clone();
        scene.check_same("depth", depth.with_label_values(&["information"]).get(), 0);
        Ok(())
    })
}

/// Numbers of jobs that exist while the catalogue is changed.
#[derive(Debug, Clone, Copy)]
struct LiveCounts {
    /// Frozen, reading the first file.
    waiting: u32,
    /// Running, reading the first file.
    running: u32,
    /// Reading the second file.
    others: u32,
    /// Ended, having read the first file.
    ended: u32,
}

impl LiveCounts {
    /// Submits them all, and returns how many unfinished ones read the first file.
    async fn submit(self, scene: &StagedScene) -> Result<u32> {
        let mut ended = Vec::new();
        for _ in 0..self.ended {
            ended.push(scene.submit(reading_job(100, 0)?).await?);
        }
        scene.until_ended(&ended).await?;
        for _ in 0..self.waiting {
            let id = scene.submit(reading_job(100, 0)?).await?;
            scene.ask(ApiRequest::Freeze(vec![id])).await?;
        }
        for _ in 0..self.running {
            scene.submit(reading_job(500_000, 0)?).await?;
        }
        for _ in 0..self.others {
            scene.submit(reading_job(500_000, 1)?).await?;
        }
        scene.pass(DurationMs(20_000)).await;
        Ok(self.waiting + self.running)
    }
}

fn add_command(name: usize, site: usize, path: &str, replace: bool) -> Result<ApiRequest> {
    let name = file_name(name)?;
    let site = site_name(site)?;
    Ok(ApiRequest::AddFile {
        name,
        site,
        path: RelPath::new(path)?,
        replace,
        reaches_all: false,
    })
}

fn remove_command(name: &str, site: Option<usize>, force: bool) -> Result<ApiRequest> {
    let site = site.map(site_name).transpose()?;
    Ok(ApiRequest::RemoveFile {
        name: LogicalName::new(name)?,
        site,
        force,
        reaches_all: false,
    })
}

/// Checks a command: its answer, the number of calls to sites and the number of changes.
async fn check_command(
    scene: &StagedScene,
    what: ApiRequest,
    to: CatalogueAnswer,
    asked: usize,
    changes: usize,
) -> Result<()> {
    let asks = format!("{what:?}");
    let before = scene.changes().len();
    let now = scene.now();
    let seen = count_looks(scene);
    let answer = scene.ask(what).await;
    scene.check_same(&asks, answer, to);
    scene.check_same("asked", count_looks(scene) - seen, asked);
    scene.check_same("changes", scene.changes().len() - before, changes);
    scene.check_same("at once", scene.now(), now);
    Ok(())
}

fn reading_job(run: u64, file: usize) -> Result<JobSpec> {
    let run = DurationMs(run);
    with_input(fixed_at(build_job(&[1], run, run, 0)?, 2)?, file)
}

fn count_looks(scene: &StagedScene) -> usize {
    scene.call_counts().get("inspect").copied().unwrap_or(0)
}

fn conflict(text: String) -> CatalogueAnswer {
    Err(ApiRefusal::Conflict(text))
}

fn not_found(text: &str) -> CatalogueAnswer {
    Err(ApiRefusal::NotFound(text.into()))
}

async fn check_refusals(scene: &StagedScene) -> Result<()> {
    let nowhere = ApiRequest::AddFile {
        name: file_name(0)?,
        site: site_name(3)?,
        path: RelPath::new("path-0")?,
        replace: false,
        reaches_all: false,
    };
    let sites = "no site is called delft; the sites are amsterdam, berlin, cracow";
    check_command(scene, nowhere, not_found(sites), 0, 0).await?;
    let known = "01".repeat(32);
    let given = "02".repeat(32);
    let other = format!(
        "file \"file-0\": the name stands for other content ({known}); \
         ask for replacement if it is to stand for {given}"
    );
    check_command(
        scene,
        add_command(0, 0, "path-1", false)?,
        conflict(other),
        1,
        0,
    )
    .await?;
    // The same once more changes nothing, whether it may replace something or not.
    check_command(scene, add_command(0, 1, "path-0", false)?, DONE, 1, 0).await?;
    check_command(scene, add_command(0, 1, "path-0", true)?, DONE, 1, 0).await?;
    let unknown = "file \"other\": no file is registered under this name";
    check_command(
        scene,
        remove_command("other", None, false)?,
        not_found(unknown),
        0,
        0,
    )
    .await?;
    check_command(
        scene,
        remove_command("other", Some(0), true)?,
        not_found(unknown),
        0,
        0,
    )
    .await?;
    let elsewhere = "file \"file-0\" has no replica at cracow";
    check_command(
        scene,
        remove_command("file-0", Some(2), true)?,
        not_found(elsewhere),
        0,
        0,
    )
    .await?;
    check_unreadable(scene).await
}

/// Checks a path that is not there, and a site that does not answer.
async fn check_unreadable(scene: &StagedScene) -> Result<()> {
    match scene.ask(add_command(1, 1, "path-1", false)?).await {
        Err(ApiRefusal::SiteRefused { problem, remedy }) => {
            scene.check(
                problem.starts_with("reading \"path-1\" at berlin: "),
                || problem,
            );
            let check = "check the path, which is taken below the site's file root";
            scene.check_same("remedy", remedy, check);
        }
        other => scene.check(false, || format!("{other:?}")),
    }
    scene.plan_fault(DurationMs(10), 1, SiteFault::Silent(true))?;
    scene.plan_fault(DurationMs(15_000), 1, SiteFault::Silent(false))?;
    scene.pass(DurationMs(20)).await;
    let begun = scene.now();
    match scene.ask(add_command(0, 1, "path-0", false)?).await {
        Err(ApiRefusal::Site(text)) => {
            scene.check(text.starts_with("reading \"path-0\" at berlin: "), || {
                text.clone()
            });
            scene.check(text.ends_with("; try again once the site answers"), || text);
        }
        other => scene.check(false, || format!("{other:?}")),
    }
    // The wait for the site, and no longer.
    scene.check_same("waited", scene.now(), begun + DurationMs(10_000));
    scene.pass(DurationMs(10_000)).await;
    Ok(())
}

/// Checks that the last replica stays while unfinished jobs read it, unless it is taken by force.
async fn check_last_replica(scene: &StagedScene, needed: u32) -> Result<()> {
    let text = format!(
        "file \"file-0\": {needed} unfinished jobs need it; \
         wait for them, cancel them, or force it"
    );
    let kept = if needed > 0 { conflict(text) } else { DONE };
    let is_kept = usize::from(needed == 0);
    check_command(scene, remove_command("file-0", Some(1), false)?, DONE, 0, 1).await?;
    check_command(
        scene,
        add_command(0, 0, "path-1", true)?,
        kept.clone(),
        1,
        is_kept,
    )
    .await?;
    if needed == 0 {
        check_command(scene, add_command(0, 0, "path-0", true)?, DONE, 1, 1).await?;
    }
    let removal = remove_command("file-0", Some(0), false)?;
    check_command(scene, removal, kept.clone(), 0, is_kept).await?;
    if needed > 0 {
        check_command(scene, remove_command("file-0", None, false)?, kept, 0, 0).await?;
        check_command(scene, remove_command("file-0", Some(0), true)?, DONE, 0, 1).await?;
    }
    let entry = file_places(scene, 0)?;
    scene.check_same("left", entry, Some(Vec::new()));
    // A name without a replica is still a name.
    check_command(scene, remove_command("file-0", None, true)?, DONE, 0, 1).await?;
    scene.check_same("forgotten", self::file_places(scene, 0)?, None);
    Ok(())
}

/// Returns the places of a file, if the name stands for anything.
fn file_places(scene: &StagedScene, name: usize) -> Result<Option<Vec<(String, FilePlace)>>> {
    let view = scene.plane_run.plane.view();
    let file = view.files.get(&file_name(name)?).cloned();
    let entry = file.and_then(|file| file.entry.clone());
    Ok(entry.map(|entry| {
        entry
            .replicas
            .iter()
            .map(
                |(site, place): &(cospan_domain::ids::SiteName, FilePlace)| {
                    (site.to_string(), place.clone())
                },
            )
            .collect()
    }))
}

/// Checks that a name that nobody reads stands for something else at once.
async fn check_replaced(scene: &StagedScene) -> Result<()> {
    check_command(scene, add_command(5, 0, "path-1", true)?, DONE, 1, 1).await?;
    check_command(scene, add_command(5, 0, "path-0", true)?, DONE, 1, 1).await?;
    let place = FilePlace::User(RelPath::new("path-0")?);
    scene.check_same(
        "replaced",
        file_places(scene, 5)?,
        Some(vec![("amsterdam".into(), place)]),
    );
    Ok(())
}

/// Checks that two who name the same file at the same time are both served, and both places count.
async fn check_simultaneous(scene: &StagedScene) -> Result<()> {
    let before = scene.changes().len();
    let first = scene.ask(add_command(6, 0, "path-0", false)?);
    let second = scene.ask(add_command(6, 1, "path-0", false)?);
    let (first, second) = tokio::join!(first, second);
    scene.check_same("first", first, DONE);
    scene.check_same("second", second, DONE);
    scene.check_same("together", scene.changes().len() - before, 2);
    let places = file_places(scene, 6)?.map(|places| places.len());
    scene.check_same("places", places, Some(2));
    Ok(())
}
