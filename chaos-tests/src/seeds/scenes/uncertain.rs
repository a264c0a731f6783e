//! A site hangs when a job is submitted to it, so that nobody knows whether it took it. It is
//! looked up at once, when that must have settled, and then at an interval, until it is found, or
//! was not there twice: then it is submitted again.

use anyhow::Result;
use cospan_actors::actor_settings::ActorSettings;
use cospan_domain::ids::JobId;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{SceneStage, StagedScene, site_name};
use cospan_simulator::jobs::build_job;
use cospan_simulator::world::site_faults::SiteFault;

/// Time for which a site that hangs keeps its callers waiting.
const DEADLINE: u64 = 10_000;
/// Time at which a site that hung goes on with its request, and time at which that is forgotten
/// again.
const THAWED: u64 = 5_000;
const FORGETS: u64 = 7_000;

pub(super) fn play_uncertain(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[4], chance.random())?;
    let settings = &mut stage.settings;
    settings.job.look_up_interval = DurationMs(chance.random_range(1_000..=20_000));
    let settle = DurationMs(chance.random_range(1_000..=60_000));
    settings.submit_settle.insert(site_name(0)?, settle);
    settings.information_expiry = DurationMs::from_secs(7_200);
    let forgets = chance.random_bool(0.7);
    let hangs = if forgets || chance.random_bool(0.5) {
        chance.random_range(1..=4_900)
    } else {
        chance.random_range(5_100..=9_000)
    };
    let settings = settings.clone();
    stage.play_scene(move |scene| async move {
        let begun = scene.now();
        scene.plan_fault(DurationMs::ZERO, 0, SiteFault::Frozen(true))?;
        scene.plan_fault(DurationMs(hangs), 0, SiteFault::Frozen(false))?;
        if forgets {
            let window = DurationMs(FORGETS - 100);
            scene.plan_fault(DurationMs::ZERO, 0, SiteFault::Drained(true))?;
            scene.plan_fault(
                DurationMs(FORGETS),
                0,
                SiteFault::Forgets { window, times: 0 },
            )?;
            scene.plan_fault(DurationMs(FORGETS + 100), 0, SiteFault::Drained(false))?;
        }
        let id = scene
            .submit(build_job(&[3], DurationMs(50_000), DurationMs(60_000), 0)?)
            .await?;
        scene.await_end(id).await?;
        if forgets {
            check_submitted_anew(&scene, id, begun, settle, &settings)
        } else {
            check_found(&scene, id, begun, hangs)
        }
    })
}

fn check_found(scene: &StagedScene, id: JobId, begun: Timestamp, hangs: u64) -> Result<()> {
    // A query that hung as well is made again a second after it failed.
    let ready = if hangs < THAWED {
        DEADLINE
    } else {
        THAWED + DEADLINE + 1_000
    };
    let started = if hangs < THAWED { DEADLINE } else { ready + 10 };
    let expected = vec![
        (0, vec!["JobPlaced", "ClaimBegun"]),
        (DEADLINE, vec!["SubmissionUncertain"]),
        (DEADLINE, vec!["AttemptSubmitted"]),
        (ready, vec!["ComponentReady", "GoDecided"]),
        (started, vec!["GateOpened", "ComponentBegan", "JobStarted"]),
        (
            ready + 50_000,
            vec!["AttemptEnded", "PayloadsSucceeded", "JobFinished"],
        ),
    ];
    scene.check_same("course", scene.durable_course(id, begun), expected);
    scene.check_same(
        "look-ups",
        scene.call_times_since(begun, 0, "find-by-tag")?,
        vec![DEADLINE],
    );
    scene.check_same(
        "submissions",
        scene.call_times_since(begun, 0, "submit")?,
        vec![0],
    );
    scene.check_same("unknown", scene.counted_calls("submit", "unknown"), 1);
    Ok(())
}

fn check_submitted_anew(
    scene: &StagedScene,
    id: JobId,
    begun: Timestamp,
    settle: DurationMs,
    settings: &ActorSettings,
) -> Result<()> {
    let settled = DEADLINE + settle.0;
    let interval = settings.job.look_up_interval.0;
    let mut looks = Vec::new();
    let mut next = DEADLINE;
    let mut absences = 0;
    while absences < 2 {
        looks.push(next);
        let counts = next >= settled;
        absences += u32::from(counts);
        // Nobody wakes again sooner than 5 ms after a look.
        next = if counts {
            next + interval
        } else {
            (next + interval).min(settled.max(next + 5))
        };
    }
    let last = looks.last().copied().unwrap_or_default();
    let mut expected = vec![
        (0, vec!["JobPlaced", "ClaimBegun"]),
        (DEADLINE, vec!["SubmissionUncertain"]),
    ];
    let absent = looks
        .iter()
        .take(looks.len() - 1)
        .map(|at| (*at, vec!["AttemptAbsent"]));
    expected.extend(absent);
    expected.push((last, vec!["AttemptRenewed"]));
    expected.push((last, vec!["AttemptSubmitted"]));
    let mut course = scene.durable_course(id, begun);
    let rest = course.split_off(expected.len().min(course.len()));
    scene.check_same("course", course, expected);
    let names: Vec<_> = rest.iter().map(|(_, names)| names[0]).collect();
    scene.check_same(
        "what follows",
        names,
        vec!["ComponentReady", "GateOpened", "AttemptEnded"],
    );
    // Something reported by a hint may be asked for with the one before.
    scene.check(
        rest.iter()
            .take(2)
            .all(|(at, _)| (last..=last + 20).contains(at)),
        || format!("it starts later than at {last}: {rest:?}"),
    );
    scene.check_same(
        "look-ups",
        scene.call_times_since(begun, 0, "find-by-tag")?,
        looks,
    );
    scene.check_same(
        "submissions",
        scene.call_times_since(begun, 0, "submit")?,
        vec![0, last],
    );
    // The old attempt's gate is shut before a new one is made.
    let gates = scene.call_times_since(begun, 0, "decide-gate")?;
    scene.check_same("gates", (gates.len(), gates[0]), (2, last));
    Ok(())
}
