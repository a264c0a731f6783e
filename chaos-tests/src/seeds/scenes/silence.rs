//! A site falls silent while a job runs there. It is tried again, ever more seldom; once it has
//! failed to answer for long enough its administrator gets a message, all others are asked once,
//! and the job waits for it, or is run elsewhere when its patience ends.

use anyhow::Result;
use cospan_actors::actor_settings::ActorSettings;
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::JobId;
use cospan_domain::job::spec::UnreachableAction;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{BEGINS, SceneStage, StagedScene, site_name};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

/// Time for which a site that does not answer keeps its callers waiting.
const DEADLINE: u64 = 10_000;

/// Times of the calls to a silent site and of their failures, in milliseconds after the beginning.
pub(super) struct SilentTries {
    /// Each time at which it is asked while it is silent.
    pub(super) asked: Vec<u64>,
    /// Number of those calls that find out that it is unreachable.
    pub(super) until_lost: usize,
    /// Time at which the first of them has failed.
    pub(super) since: u64,
    /// Time from which on it counts as unreachable.
    pub(super) lost: u64,
    /// Time of the first call after it answers again.
    pub(super) back: u64,
}

impl SilentTries {
    /// Works out the tries of a site that is asked first at `first`, and answers from `ends` on:
    /// after a failure it is asked again after 1, 2, 4, 8, and then 15 seconds.
    pub(super) fn work_out_tries(first: u64, ends: u64, settings: &ActorSettings) -> Self {
        let takes = settings.information.query_timeout.0.min(DEADLINE);
        let since = first + takes;
        let mut lost = None;
        let mut asked = Vec::new();
        let mut next = first;
        let mut pause = 1_000;
        while next < ends || lost.is_none() {
            asked.push(next);
            let failed = next + takes;
            let long = failed - since >= settings.contact.unreachable_after.0;
            let often = asked.len() as u32 >= settings.contact.unreachable_failures;
            if long && often && lost.is_none() {
                lost = Some((asked.len(), failed));
            }
            next = failed + pause;
            pause = 15_000.min(2 * pause);
        }
        let (until_lost, lost) = lost.unwrap_or_default();
        Self {
            asked,
            until_lost,
            since,
            lost,
            back: next,
        }
    }
}

/// The behaviour of the job meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SilencePatience {
    Wait,
    Long,
    Short(DurationMs),
}

struct SilenceStory {
    processors: u32,
    run_time: DurationMs,
    patience: SilencePatience,
    silent_after: DurationMs,
    silent_for: DurationMs,
}

pub(super) fn play_silence(chance: &mut StdRng) -> Result<Vec<String>> {
    let processors = chance.random_range(2..=9);
    let mut stage = SceneStage::with_processors(&[processors + 1, processors, 1], chance.random())?;
    let settings = &mut stage.settings;
    settings.reconcile_interval = DurationMs::from_secs(86_400);
    settings.information_expiry = DurationMs::from_secs(7_200);
    settings.information.query_timeout = DurationMs(chance.random_range(1_000..=12_000));
    settings.contact.unreachable_after = DurationMs(chance.random_range(5_000..=60_000));
    settings.contact.unreachable_failures = chance.random_range(1..=5);
    let silent_for = DurationMs(chance.random_range(150_000..=260_000));
    let patience = match chance.random_range(0..3) {
        0 => SilencePatience::Wait,
        1 => SilencePatience::Long,
        _ => SilencePatience::Short(DurationMs(chance.random_range(1..=120_000))),
    };
    let story = SilenceStory {
        processors,
        run_time: DurationMs(chance.random_range(60_000..=600_000)),
        patience,
        silent_after: DurationMs(chance.random_range(11..=30_000)),
        silent_for,
    };
    let settings = settings.clone();
    stage.play_scene(move |scene| async move { play_story(&scene, &story, &settings).await })
}

async fn play_story(
    scene: &StagedScene,
    story: &SilenceStory,
    settings: &ActorSettings,
) -> Result<()> {
    let mut spec = build_job(&[story.processors], story.run_time, story.run_time, 0)?;
    spec.on_unreachable = match story.patience {
        SilencePatience::Wait => UnreachableAction::Wait,
        SilencePatience::Long => UnreachableAction::RerunAfter(DurationMs::from_secs(3_600)),
        SilencePatience::Short(time) => UnreachableAction::RerunAfter(time),
    };
    let begun = scene.now().since(BEGINS).0;
    let id = scene.submit(spec).await?;
    let from = story.silent_after;
    let to = story.silent_after + story.silent_for;
    scene.plan_fault(from, 0, SiteFault::Silent(true))?;
    scene.plan_fault(to, 0, SiteFault::Silent(false))?;
    scene.pass(from).await;
    let first = first_poll(begun, story.silent_after.0, settings.poll_interval.0);
    let tries = SilentTries::work_out_tries(first, begun + to.0, settings);
    check_before(scene, id, &tries).await?;
    check_lost(scene, id, &tries, story)?;
    let given_up = match story.patience {
        SilencePatience::Short(time) => Some(tries.lost.max(tries.since + time.0)),
        SilencePatience::Wait | SilencePatience::Long => None,
    };
    match given_up.filter(|at| *at < tries.back) {
        Some(at) => check_goes_elsewhere(scene, id, story, (begun, at), &tries).await?,
        None => check_goes_on(scene, id, story, begun, &tries).await?,
    }
    check_tries(scene, begun, &tries)
}

/// Returns when the silent site is asked first: as it would be if it answered.
pub(super) fn first_poll(begun: u64, silent_after: u64, interval: u64) -> u64 {
    let mut poll = begun + 10;
    while poll < begun + silent_after {
        poll += interval;
    }
    poll
}

async fn wait_until(scene: &StagedScene, at: u64) {
    scene.plane_run.sleep_until(BEGINS + DurationMs(at)).await;
}

/// Checks that until it counts as unreachable nothing is different but what operators are shown
/// once it failed to answer twice.
async fn check_before(scene: &StagedScene, id: JobId, tries: &SilentTries) -> Result<()> {
    wait_until(scene, tries.lost - 1).await;
    let shown = if tries.until_lost > 2 {
        "silent"
    } else {
        "usable"
    };
    scene.check_shown_state("state before it is lost", 0, shown)?;
    let job = scene.job_record(id)?;
    let told = scene
        .plane_run
        .plane
        .explain_job(&job)
        .silence
        .warning(&job);
    scene.check_same("what is told before", told, None);
    wait_until(scene, tries.lost).await;
    scene.pass(DurationMs(1)).await;
    Ok(())
}

fn check_lost(
    scene: &StagedScene,
    id: JobId,
    tries: &SilentTries,
    story: &SilenceStory,
) -> Result<()> {
    scene.check_shown_state("state", 0, "unreachable")?;
    scene.check_same("isolation", scene.metrics().isolated.get(), 0);
    for other in [1, 2] {
        let asked = scene.call_times_since(BEGINS + DurationMs(1), other, "status")?;
        scene.check_same("the others are asked", asked, vec![tries.lost - 1]);
    }
    let site = site_name(0)?;
    let lost = BEGINS + DurationMs(tries.lost);
    let owed = scene
        .changes()
        .into_iter()
        .filter_map(|(at, change)| match &*change {
            JournalChange::Site { new, .. } if new.site == site && at <= lost => Some((
                at,
                new.owed.iter().map(|owed| owed.text.to_string()).collect(),
            )),
            _ => None,
        });
    let mut owed: Vec<(Timestamp, Vec<String>)> = owed.collect();
    owed.dedup();
    let text = format!("site {site} does not answer");
    scene.check_same("messages", owed, vec![(lost, vec![text]), (lost, vec![])]);
    let job = scene.job_record(id)?;
    if !matches!(story.patience, SilencePatience::Short(time) if tries.since + time.0 <= tries.lost)
    {
        let told = scene
            .plane_run
            .plane
            .explain_job(&job)
            .silence
            .warning(&job);
        let prospect = match job.spec.on_unreachable {
            UnreachableAction::Wait => String::new(),
            UnreachableAction::RerunAfter(time) => format!(", and is given up after {time}"),
        };
        let expected = format!(
            "component part-0 may still run at {site}, which does not answer; it goes on once \
             that site answers{prospect}"
        );
        scene.check_same("what is told", told, Some(expected));
    }
    Ok(())
}

/// Checks that the job is seen again at the very moment at which the site is, or ends later: then
/// its end is asked for at once, unless the site was asked just before.
async fn check_goes_on(
    scene: &StagedScene,
    id: JobId,
    story: &SilenceStory,
    begun: u64,
    tries: &SilentTries,
) -> Result<()> {
    let ends = begun + story.run_time.0;
    let over = scene.await_end(id).await?.since(BEGINS).0;
    let interval = scene.plane_run.plane.shared().settings.poll_interval.0;
    let polled = tries.back + ends.saturating_sub(tries.back) / interval * interval;
    let seen = if ends <= polled {
        polled
    } else {
        ends.max(polled + 10)
    };
    scene.check_by_next_call("the end of the job", over, seen);
    let course = scene.durable_course(id, BEGINS + DurationMs(begun));
    scene.check_same("changes of the job", course.len(), 5);
    scene.check_shown_state("state again", 0, "usable")?;
    let errors = &scene.metrics().site_errors;
    scene.check_same(
        "errors",
        errors.with_label_values(&[site_name(0)?.as_str()]).get(),
        0,
    );
    Ok(())
}

/// Checks that it is given up, its site is charged, and it runs elsewhere; what still runs at its
/// first site is ended as soon as that answers.
async fn check_goes_elsewhere(
    scene: &StagedScene,
    id: JobId,
    story: &SilenceStory,
    (begun, given_up): (u64, u64),
    tries: &SilentTries,
) -> Result<()> {
    wait_until(scene, given_up - 1).await;
    let round = scene.job_record(id)?.round;
    scene.pass(DurationMs(2)).await;
    let parameters = &scene.plane_run.plane.shared().settings.job;
    let seed = id.0.wrapping_add(u64::from(round.0) << 32);
    let again = given_up + parameters.backoff_after(parameters.site_backoff, 1, seed).0;
    scene.await_end(id).await?;
    let expected = vec![
        (0, vec!["SiteCharged", "RoundAborted", "AttemptEnded"]),
        (0, vec!["ChargeRecorded", "JobRequeued"]),
        (again - given_up, vec!["JobPlaced", "ClaimBegun"]),
        (again - given_up, vec!["AttemptSubmitted"]),
        (again - given_up, vec!["ComponentReady", "GoDecided"]),
        (
            again - given_up + 10,
            vec!["GateOpened", "ComponentBegan", "JobStarted"],
        ),
    ];
    let mut course = scene.durable_course(id, BEGINS + DurationMs(given_up));
    // Something reported by a hint is asked for along with what was reported just before.
    let (at, events) = course.pop().unwrap_or_default();
    let expected_end = again - given_up + story.run_time.0;
    scene.check((expected_end..expected_end + 10).contains(&at), || {
        format!("it ended at {at}")
    });
    scene.check_same(
        "the end",
        events,
        vec!["AttemptEnded", "PayloadsSucceeded", "JobFinished"],
    );
    scene.check_same("course of the job", course, expected);
    let site = site_name(0)?;
    let errors = &scene.metrics().site_errors;
    scene.check_same(
        "errors",
        errors.with_label_values(&[site.as_str()]).get(),
        1,
    );
    let aborted = scene
        .metrics()
        .rounds_aborted
        .with_label_values(&["unreachable"])
        .get();
    scene.check_same("rounds aborted", aborted, 1);
    scene.check_same(
        "submissions",
        scene.call_times_since(BEGINS, 1, "submit")?,
        vec![again],
    );
    wait_until(scene, tries.back + 1).await;
    let lives = begun + story.run_time.0 > tries.back;
    let ended = if lives { vec![tries.back] } else { Vec::new() };
    scene.check_same(
        "strays are ended",
        scene.call_times_since(BEGINS, 0, "cancel")?,
        ended.clone(),
    );
    let gates = std::iter::once(begun).chain(ended).collect();
    scene.check_same(
        "gates",
        scene.call_times_since(BEGINS, 0, "decide-gate")?,
        gates,
    );
    Ok(())
}

/// Checks that a site that has not answered lately is asked for its description first.
fn check_tries(scene: &StagedScene, begun: u64, tries: &SilentTries) -> Result<()> {
    let since = BEGINS + DurationMs(begun + 11);
    let status: Vec<u64> = scene
        .call_times_since(since, 0, "status")?
        .into_iter()
        .map(|at| at + begun + 11)
        .collect();
    let status: Vec<u64> = status
        .into_iter()
        .filter(|at| *at >= tries.asked[0])
        .collect();
    let described: Vec<u64> = scene
        .call_times_since(since, 0, "describe")?
        .into_iter()
        .map(|at| at + begun + 11)
        .collect();
    let (as_usual, as_lost) = tries.asked.split_at(tries.until_lost);
    scene.check_same("asked as usual", &status[..as_usual.len()], as_usual);
    scene.check_same("asked next", status.get(as_usual.len()), Some(&tries.back));
    scene.check_same("asked what it is", &described[..as_lost.len()], as_lost);
    scene.check_same(
        "asked what it is next",
        described.get(as_lost.len()),
        Some(&tries.back),
    );
    scene.check_same(
        "swept",
        scene
            .call_times_since(BEGINS + DurationMs(1), 0, "list-attempts")?
            .first(),
        Some(&(tries.back - 1)),
    );
    Ok(())
}
