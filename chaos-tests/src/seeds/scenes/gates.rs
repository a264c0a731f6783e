//! Something comes between the gates of a round: the control plane dies, with its clock wrong at
//! its next start or not, or stops for a while with its calls under way; a site is cut off, or
//! answers at its gate late. However long that takes, no payload begins later than the grace after
//! another, and a job finishes with a round whose payloads began together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use cospan_domain::ids::{AttemptTag, JobId, Round};
use cospan_domain::job::job_parameters::JobParameters;
use cospan_domain::job::job_state::{Job, PhaseKind};
use cospan_domain::job::spec::{JobSpec, RequestType};
use cospan_domain::units::{DurationMs, Timestamp};
use futures_util::FutureExt;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{BEGINS, SceneStage, Set, StagedScene, site_name};
use cospan_simulator::call_faults::FaultRates;
use cospan_simulator::clock::count_runtime_rest;
use cospan_simulator::control_plane_run::{RunEnd, RunPlan};
use cospan_simulator::jobs::build_job;
use cospan_simulator::kill_switch::KillPoint;
use cospan_simulator::world::SimulatedWorld;
use cospan_simulator::world::site_faults::SiteFault;
use cospan_simulator::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};

/// The only job.
const ID: JobId = JobId(1);
const DAY: DurationMs = DurationMs(86_400_000);
const SECOND: u64 = 1_000;

/// The event between two gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// The control plane is killed; the clock of its next life is so far ahead.
    Death(i64),
    /// Nothing of it moves, as after SIGSTOP; calls under way go on afterwards.
    Stop,
    /// The site of the second gate answers no more.
    CutOff,
    /// The site has the request, and carries it out when it goes on.
    Late,
}

#[derive(Debug, Clone, Copy)]
struct GateStory {
    between: Between,
    /// True if it lasts longer than components of a round may begin apart.
    long: bool,
    lasts: DurationMs,
    run_time: DurationMs,
    /// Components, each at a site of its own.
    parts: usize,
}

pub(super) fn play_gates(chance: &mut StdRng) -> Result<Vec<String>> {
    const HOUR: i64 = 3_600_000;
    let between = match chance.random_range(0..5) {
        0 => Between::Death(0),
        1 => Between::Death(chance.random_range(-HOUR..=HOUR)),
        2 => Between::Stop,
        3 => Between::CutOff,
        _ => Between::Late,
    };
    Ok(play_story(between, chance)?.1)
}

/// Plays the story, and returns true if something did come between two gates, with what was found.
fn play_story(between: Between, chance: &mut StdRng) -> Result<(bool, Vec<String>)> {
    let long = chance.random_bool(0.7);
    let lasts = if long {
        31 * SECOND..=600 * SECOND
    } else {
        1..=10 * SECOND
    };
    let story = GateStory {
        between,
        long,
        lasts: DurationMs(chance.random_range(lasts)),
        run_time: DurationMs(chance.random_range(SECOND..=300 * SECOND)),
        parts: chance.random_range(2..=3),
    };
    let mut stage = SceneStage::with_processors(&vec![4; story.parts], chance.random())?;
    stage.hints = chance.random_bool(0.7);
    // Requests are on their way when the first gate has opened.
    let way_max = DurationMs(chance.random_range(SECOND..=2 * SECOND));
    stage.fault_rates = FaultRates {
        way_max,
        ..FaultRates::default()
    };
    let set = stage.set_up();
    let (job, mut found) = match between {
        Between::Death(clock_ahead_ms) => play_death(&set, story, clock_ahead_ms)?,
        _ => play_without_death(&set, story)?,
    };
    let struck = set.world().read(|world| {
        found.extend(judge_story(
            &job,
            &attempt_lives(world),
            story,
            is_apart(world, story),
        ));
        is_apart(world, story)
    });
    Ok((struck || !long, found))
}

/// Returns a job whose components are at a site each.
fn spread_job(story: GateStory) -> Result<JobSpec> {
    let mut spec = build_job(&vec![1; story.parts], story.run_time, story.run_time, 0)?;
    spec.request = RequestType::Fixed;
    for (number, component) in spec.components.iter_mut().enumerate() {
        component.site = Some(site_name(number)?);
    }
    Ok(spec)
}

/// A job when it had ended, and what was found until then.
type EndedJob = (Arc<Job>, Vec<String>);

fn play_death(set: &Set, story: GateStory, clock_ahead_ms: i64) -> Result<EndedJob> {
    let first = RunPlan {
        moment: Some(KillPoint::BetweenGates(1)),
        ..set.plan(BEGINS)
    };
    let end = set.run_planned(first, move |scene| async move {
        scene.check_same(
            "the number of the job",
            scene.submit(spread_job(story)?).await?,
            ID,
        );
        scene.pass(DAY).await;
        Ok(())
    })?;
    let RunEnd::Killed(at) = end else {
        bail!("it was never between two gates")
    };
    let next = RunPlan {
        clock_ahead_ms,
        ..set.plan(at + story.lasts)
    };
    expect_survival(set.run_planned(next, |scene| async move { await_end(&scene).await })?)
}

fn play_without_death(set: &Set, story: GateStory) -> Result<EndedJob> {
    expect_survival(set.run_planned(set.plan(BEGINS), move |scene| async move {
        scene.check_same(
            "the number of the job",
            scene.submit(spread_job(story)?).await?,
            ID,
        );
        match story.between {
            Between::CutOff => fault_last_site(&scene, SiteFault::Silent, story).await?,
            Between::Late => fault_last_site(&scene, SiteFault::Frozen, story).await?,
            Between::Stop | Between::Death(_) => {
                // Both may open within the same millisecond: then nothing came between them.
                await_world(&scene, |world| !gates_opened(world).is_empty()).await?;
                stop_plane(story.lasts);
            }
        }
        await_end(&scene).await
    })?)
}

async fn await_end(scene: &StagedScene) -> Result<Arc<Job>> {
    scene.until_ended(&[ID]).await?;
    scene.job_record(ID)
}

fn expect_survival(end: RunEnd<EndedJob>) -> Result<EndedJob> {
    match end {
        RunEnd::Done(_, ended) => Ok(ended),
        RunEnd::Killed(at) => bail!("the control plane ended by itself at {}", at.0),
    }
}

/// Lets the last site fall silent, or freeze, once the start is decided.
async fn fault_last_site(
    scene: &StagedScene,
    trouble: fn(bool) -> SiteFault,
    story: GateStory,
) -> Result<()> {
    scene
        .wait_for_change(DAY, |scene| {
            let job = scene.job_record(ID);
            job.is_ok_and(|job| job.phase.kind() == PhaseKind::Starting)
        })
        .await?;
    let site = story.parts - 1;
    scene.inject_fault(&site_name(site)?, trouble(true));
    scene.plan_fault(story.lasts, site, trouble(false))
}

/// Waits, to the millisecond, until a condition holds in the world.
async fn await_world(scene: &StagedScene, so: impl Fn(&SimulatedWorld) -> bool) -> Result<()> {
    let end = scene.now() + DAY;
    while !scene.plane_run.world.read(&so) {
        if scene.now() > end {
            bail!("what was waited for in the world did not come about");
        }
        scene.pass(DurationMs(1)).await;
    }
    Ok(())
}

/// Lets time pass, in which nobody here has a turn.
fn stop_plane(lasts: DurationMs) {
    let _ = tokio::time::advance(Duration::from_millis(lasts.0)).now_or_never();
    count_runtime_rest();
}

/// Returns the times at which gates of the first round were opened, until now.
fn gates_opened(world: &SimulatedWorld) -> Vec<Timestamp> {
    world
        .ledger()
        .entries()
        .iter()
        .filter(|entry: &&WorldLedgerEntry| {
            matches!(entry.deed, WorldLedgerEvent::Opened(Round(1), _))
        })
        .map(|entry| entry.at)
        .collect()
}

/// Returns true if the gates of the first round were not opened within the time that calls take.
fn is_apart(world: &SimulatedWorld, story: GateStory) -> bool {
    let opened = gates_opened(world);
    opened.len() < story.parts
        || opened
            .iter()
            .any(|at| at.since(opened[0]) > DurationMs(10 * SECOND))
}

/// The world's record of one attempt at its gate.
#[derive(Debug, Default)]
struct AdmittedAttempt {
    round: Round,
    began: Option<Timestamp>,
    exited: Option<i32>,
}

fn attempt_lives(world: &SimulatedWorld) -> BTreeMap<AttemptTag, AdmittedAttempt> {
    let mut lives: BTreeMap<AttemptTag, AdmittedAttempt> = BTreeMap::new();
    for entry in world.ledger().entries() {
        let life = lives.entry(entry.tag).or_default();
        match entry.deed {
            WorldLedgerEvent::Opened(round, _) => life.round = round,
            WorldLedgerEvent::Began => life.began = Some(entry.at),
            WorldLedgerEvent::Exited(code) => life.exited = Some(code),
            _ => {}
        }
    }
    lives.retain(|_, life| life.round != Round(0));
    lives
}

fn judge_story(
    job: &Job,
    lives: &BTreeMap<AttemptTag, AdmittedAttempt>,
    story: GateStory,
    struck: bool,
) -> Vec<String> {
    let mut found = torn(lives);
    let round = job.round;
    let succeeded = lives
        .values()
        .filter(|life: &&AdmittedAttempt| life.round == round && life.exited == Some(0))
        .count();
    // For a clock that was set, a moment may be an hour.
    let is_plain = !matches!(story.between, Between::Death(ahead) if ahead != 0);
    let checks = [
        (job.phase.kind() == PhaseKind::Finished, "it ended"),
        (succeeded == story.parts, "it ended without all payloads"),
        (!(struck && story.long) || round > Round(1), "it finished"),
        (
            story.long || !is_plain || round == Round(1),
            "it was given up in haste",
        ),
    ];
    for (holds, what) in checks {
        if !holds {
            found.push(format!(
                "{what}, in round {round} as {:?}: {story:?}",
                job.phase
            ));
        }
    }
    found
}

/// Lists rounds of which a payload began later than the grace after another.
fn torn(lives: &BTreeMap<AttemptTag, AdmittedAttempt>) -> Vec<String> {
    let grace = JobParameters::default().go_grace;
    let mut rounds: BTreeMap<Round, Vec<Timestamp>> = BTreeMap::new();
    for life in lives.values() {
        rounds.entry(life.round).or_default().extend(life.began);
    }
    let torn = rounds.iter().filter(|(_, began)| {
        let ends = began.iter().max().zip(began.iter().min());
        ends.is_some_and(|(last, first)| last.since(*first) > grace)
    });
    torn.map(|(round, began)| format!("payloads of round {round} began at {began:?}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn whatever_comes_between_two_gates_strikes_and_tears_nothing() {
        let all = [
            Between::Death(0),
            Between::Death(-3_000_000),
            Between::Death(3_000_000),
            Between::Stop,
            Between::CutOff,
            Between::Late,
        ];
        for between in all {
            let played = (0..12).map(|seed| {
                let (struck, found) =
                    play_story(between, &mut StdRng::seed_from_u64(seed)).unwrap();
                assert_eq!(found, Vec::<String>::new(), "{between:?}, seed {seed}");
                usize::from(struck)
            });
            assert!(
                played.sum::<usize>() >= 8,
                "{between:?} seldom comes between two gates"
            );
        }
    }
}
