//! Actors die, and are built anew from what is durable: soon after the first death, later after
//! each further one within a minute. After too many in a minute the job, site or copy is held, left
//! alone for a minute, or the process ends. Only a chaos build has actors that can be made to
//! panic; adapters of sites panic in any.

use anyhow::Result;
use cospan_actors::api::command::{ApiAnswer, ApiRefusal, ApiRequest, JobCommandOutcome};
use cospan_actors::supervision::{ActorId, ActorKind, Escalation};
use cospan_domain::ids::{Digest, JobId, RelPath};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::log::TimedItem;
use super::stage::{BEGINS, SceneStage, StagedScene, file_name, fixed_at, site_name, with_input};
use cospan_simulator::actor_lives::RecordedActorEvent;
use cospan_simulator::fault_kinds::FaultKind;
use cospan_simulator::jobs::build_job;

/// Intervals between the looks of an actor, which dies at one of them.
const TICKS: [u64; 4] = [30_000, 60_000, 60_001, 90_000];
/// Deaths count within this time.
const MINUTE: DurationMs = DurationMs(60_000);
/// Run time of the job that outlives them all.
const LONG: DurationMs = DurationMs(300_000);

/// The drawn numbers of the story.
#[derive(Debug, Clone)]
struct DeathTale {
    kind: ActorKind,
    who: ActorId,
    tick: u64,
    /// Number of deaths in a row, each time as it begins anew.
    times: usize,
}

pub(super) fn play_deaths(chance: &mut StdRng) -> Result<Vec<String>> {
    match chance.random_range(0..6) {
        0 => play_adapter_panics(chance),
        #[cfg(cospan_chaos)]
        1 => play_process_end(chance),
        _ => {
            let (stage, tale) = draw_tale(chance)?;
            stage.play_from_start(move |scene| async move { let_actor_die(&scene, &tale).await })
        }
    }
}

fn draw_tale(chance: &mut StdRng) -> Result<(SceneStage, DeathTale)> {
    let mut stage = SceneStage::with_processors(&[12, 12], chance.random())?;
    stage.hints = chance.random_bool(0.5);
    stage.settings.information_expiry = DurationMs::from_secs(86_400);
    stage.add_file(1_000, &[0])?;
    let tick = TICKS[chance.random_range(0..TICKS.len())];
    stage.settings.fallback_tick = Some(DurationMs(tick));
    let all = [
        (ActorKind::Intake, ActorId::Intake),
        (ActorKind::Information, ActorId::Information),
        (ActorKind::DataManager, ActorId::DataManager),
        (ActorKind::CoAllocator, ActorId::CoAllocator),
        (ActorKind::Reserver, ActorId::Reserver),
        (ActorKind::Claimer, ActorId::Claimer),
        (ActorKind::Notifier, ActorId::Notifier),
        (ActorKind::Cluster, ActorId::Cluster(site_name(0)?)),
        (ActorKind::Job, ActorId::Job(JobId(1))),
        (
            ActorKind::Transfer,
            ActorId::Transfer(Digest([1; 32]), site_name(1)?),
        ),
    ];
    let (kind, who) = all[chance.random_range(0..all.len())].clone();
    let tale = DeathTale {
        kind,
        who,
        tick,
        times: chance.random_range(1..=3),
    };
    Ok((stage, tale))
}

impl DeathTale {
    /// Returns the number of deaths within a minute that is too many, and what follows.
    fn death_limit(&self) -> (usize, Escalation) {
        match self.kind {
            ActorKind::Cluster | ActorKind::Job | ActorKind::Transfer => (3, Escalation::Hold),
            ActorKind::Journal => (1, Escalation::Exit),
            _ => (5, Escalation::Exit),
        }
    }

    /// Returns true if it gets messages only from users, and no ticks.
    fn is_asked(&self) -> bool {
        matches!(self.kind, ActorKind::Intake | ActorKind::Information)
    }

    /// Returns when the next message comes to it.
    fn next_message(&self, at: Timestamp) -> Timestamp {
        let ticks = at.since(BEGINS).0 / self.tick + 1;
        if self.is_asked() {
            at
        } else {
            BEGINS + DurationMs(ticks * self.tick)
        }
    }
}

/// Returns the least pause after so many deaths that count; a quarter more at most.
fn least_pause(deaths: usize) -> u64 {
    (10 << (2 * deaths)).min(5_000)
}

/// A check of a life against the rules.
struct DeathJudge<'a> {
    scene: &'a StagedScene,
    tale: &'a DeathTale,
    /// Deaths that may still count.
    deaths: Vec<Timestamp>,
    all: u64,
}

impl DeathJudge<'_> {
    /// Plays so many deaths in a row, of which the first comes with the next message, and returns
    /// true if they were too many.
    async fn round(&mut self, times: usize) -> Result<bool> {
        let scene = self.scene;
        let tale = self.tale;
        let begun = scene.now();
        scene.make_actors_panic(tale.kind, times);
        let first = tale.next_message(begun);
        self.check_asks_in_vain().await?;
        scene.pass(DurationMs(first.since(begun).0 + 15_000)).await;
        let lived = scene
            .plane_run
            .lives
            .run_records()
            .pop()
            .map(|plane_run| plane_run.lived)
            .unwrap_or_default();
        let lived = lived.into_iter().filter(|(at, _)| *at >= begun);
        let mut lived = lived.filter(|(_, lived)| !matches!(lived, RecordedActorEvent::Planted(_)));
        let mut at = first;
        for _ in 0..times {
            self.check_lived(lived.next(), at, RecordedActorEvent::Died(tale.who.clone()));
            self.all += 1;
            self.deaths.push(at);
            self.deaths.retain(|death| at.since(*death) <= MINUTE);
            let (limit, verdict) = tale.death_limit();
            if self.deaths.len() >= limit {
                self.check_lived(
                    lived.next(),
                    at,
                    RecordedActorEvent::Judged(tale.who.clone(), verdict),
                );
                scene.check_same("no more", lived.next(), None);
                return Ok(true);
            }
            let least = least_pause(self.deaths.len());
            let built = lived.next();
            let told = format!("{built:?} after {least} from {at:?}");
            let Some((when, RecordedActorEvent::Built(who, true))) = built else {
                scene.check(false, || told);
                return Ok(false);
            };
            let spread = when.since(at).0;
            scene.check(
                who == tale.who && (least..least + least / 4).contains(&spread),
                || told,
            );
            at = when;
        }
        scene.check_same("no more", lived.next(), None);
        Ok(false)
    }

    fn check_lived(
        &self,
        found: Option<(Timestamp, RecordedActorEvent)>,
        at: Timestamp,
        lived: RecordedActorEvent,
    ) {
        self.scene.check_same("lived", found, Some((at, lived)));
    }

    /// Checks that a user who asked the dying actor is asked to come back.
    async fn check_asks_in_vain(&self) -> Result<()> {
        if !self.tale.is_asked() {
            return Ok(());
        }
        let busy = Err(ApiRefusal::Busy { retry_after_s: 1 });
        self.scene
            .check_same("asks", self.scene.ask(names()?).await, busy.clone());
        self.scene.pass(DurationMs(1)).await;
        self.scene
            .check_same("asks the dead", self.scene.ask(names()?).await, busy);
        Ok(())
    }
}

fn names() -> Result<ApiRequest> {
    let name = file_name(7)?;
    let site = site_name(0)?;
    let path = RelPath::new("path-0")?;
    Ok(ApiRequest::AddFile {
        name,
        site,
        path,
        replace: false,
        reaches_all: false,
    })
}

async fn let_actor_die(scene: &StagedScene, tale: &DeathTale) -> Result<()> {
    // It runs, and needs a copy, for as long as the scene lasts.
    let id = scene
        .submit(with_input(
            fixed_at(build_job(&[1], LONG, LONG, 0)?, 1)?,
            0,
        )?)
        .await?;
    scene.pass(DurationMs(20_000)).await;
    if !scene.make_actors_panic(tale.kind, 0) {
        return Ok(());
    }
    let mut judge = DeathJudge {
        scene,
        tale,
        deaths: Vec::new(),
        all: 0,
    };
    let mut held = judge.round(tale.times).await?;
    if !held {
        held = judge.round(1).await?;
    }
    let metrics = &scene.plane_run.plane.shared().metrics;
    let shown = metrics
        .actor_restarts
        .with_label_values(&[tale.kind.as_str()])
        .get();
    scene.check_same("deaths", shown, judge.all);
    if held {
        let died = judge.deaths.last().copied().unwrap_or_default();
        check_held(scene, tale, id, died).await?;
    }
    // The actor that died works as before.
    let begun = scene.now();
    scene.check_same("names", scene.ask(names()?).await, Ok(ApiAnswer::Done));
    let run = DurationMs(100);
    let next = scene
        .submit(with_input(fixed_at(build_job(&[1], run, run, 0)?, 1)?, 0)?)
        .await?;
    scene.until_ended(&[next]).await?;
    let lived: Vec<TimedItem<&str>> = scene.job_events(next, begun);
    let now = ["JobPlaced", "InputsArrived", "ClaimBegun"]
        .map(|what| (0, what))
        .to_vec();
    scene.check_same("goes on", lived.into_iter().take(3).collect(), now);
    scene.until_ended(&[id]).await?;
    scene.check_same("held", metrics.held.get(), 0);
    Ok(())
}

/// Checks that a job waits for an operator to release it; a site and a copy have another life after
/// a minute.
async fn check_held(
    scene: &StagedScene,
    tale: &DeathTale,
    id: JobId,
    died: Timestamp,
) -> Result<()> {
    let held = scene.plane_run.plane.shared().metrics.held.get();
    scene.check_same("held jobs", held, i64::from(tale.kind == ActorKind::Job));
    if tale.kind == ActorKind::Job {
        let reason = "the actor that works on it died again and again; see the log, then `cospan \
                      release` or `cospan cancel`";
        let job = scene.job_record(id)?;
        let told = job
            .held
            .as_ref()
            .map(|held| format!("{held:?}").contains(reason));
        scene.check_same("reason", told, Some(true));
        let done = Ok(ApiAnswer::Jobs(vec![(id, JobCommandOutcome::Done)]));
        scene.check_same(
            "release",
            scene.ask(ApiRequest::Release(vec![id])).await,
            done,
        );
        return Ok(());
    }
    if tale.kind == ActorKind::Cluster {
        let known = scene
            .plane_run
            .plane
            .site_overview(&site_name(0)?)
            .map(|site| site.report.idle.clone());
        scene.check_same("known of the site", known, Some(None));
    }
    scene.pass(MINUTE).await;
    let lived = scene
        .plane_run
        .lives
        .run_records()
        .pop()
        .map(|plane_run| plane_run.lived)
        .unwrap_or_default();
    let after: Vec<_> = lived.into_iter().filter(|(at, _)| *at > died).collect();
    let again = (
        died + MINUTE,
        RecordedActorEvent::Built(tale.who.clone(), false),
    );
    scene.check_same("another life", after, vec![again]);
    Ok(())
}

/// Lets an actor on which all depends die too often: the process ends, and names it.
#[cfg(cospan_chaos)]
fn play_process_end(chance: &mut StdRng) -> Result<Vec<String>> {
    let (stage, mut tale) = draw_tale(chance)?;
    let kinds = [
        (ActorKind::Journal, ActorId::Journal),
        (ActorKind::DataManager, ActorId::DataManager),
        (ActorKind::CoAllocator, ActorId::CoAllocator),
        (ActorKind::Reserver, ActorId::Reserver),
        (ActorKind::Claimer, ActorId::Claimer),
        (ActorKind::Notifier, ActorId::Notifier),
    ];
    (tale.kind, tale.who) = kinds[chance.random_range(0..kinds.len())].clone();
    let kind = tale.kind;
    let tick = tale.tick;
    let times = tale.death_limit().0;
    let (at, lived) = stage.play_to_death(move |scene| async move {
        scene.pass(DurationMs(20_000)).await;
        scene.make_actors_panic(kind, times);
        if kind == ActorKind::Journal {
            scene.ask(names()?).await?;
        }
        scene.pass(DurationMs(tick + 30_000)).await;
        Ok(())
    })?;
    let text = format!("{}: died too often", kind.as_str());
    let last = [
        RecordedActorEvent::Died(tale.who.clone()),
        RecordedActorEvent::Judged(tale.who.clone(), Escalation::Exit),
        RecordedActorEvent::Fatal(text),
    ];
    let last = last.map(|lived| (at, lived)).to_vec();
    let end = lived[lived.len().saturating_sub(3)..].to_vec();
    let mut wrong = Vec::new();
    if end != last {
        wrong.push(format!("ends with {end:?}, not {last:?}"));
    }
    let deaths = lived
        .iter()
        .filter(|(_, lived)| matches!(lived, RecordedActorEvent::Died(_)))
        .count();
    if deaths != times {
        wrong.push(format!("ends after {deaths} deaths, not {times}"));
    }
    Ok(wrong)
}

/// Lets the adapters of all sites panic for a while: each call is the death of the site's actor.
fn play_adapter_panics(chance: &mut StdRng) -> Result<Vec<String>> {
    let mut stage = SceneStage::with_processors(&[12], chance.random())?;
    stage.hints = chance.random_bool(0.5);
    stage
        .fault_rates
        .faults
        .insert(FaultKind::AdapterPanics, 1_000_000);
    let panics = [20, 130, 1_000][chance.random_range(0..3)];
    stage.play_from_start(move |scene| async move {
        scene.pass(DurationMs(panics)).await;
        scene.plane_run.call_faults.stop_faults();
        scene.pass(DurationMs(90_000)).await;
        let lived = scene
            .plane_run
            .lives
            .run_records()
            .pop()
            .map(|plane_run| plane_run.lived)
            .unwrap_or_default();
        let cluster = ActorId::Cluster(site_name(0)?);
        let died = lived
            .iter()
            .filter(|(_, l)| *l == RecordedActorEvent::Died(cluster.clone()))
            .count();
        let times = [20, 130, 1_000]
            .into_iter()
            .position(|at| at == panics)
            .unwrap_or(0)
            + 1;
        scene.check_same("deaths of a site", died, times);
        let born = lived
            .iter()
            .rev()
            .find(|(_, l)| matches!(l, RecordedActorEvent::Built(id, _) if *id == cluster));
        let born = born.map(|(at, lived)| (*at, lived.clone()));
        let last = lived
            .iter()
            .rev()
            .find(|(_, l)| *l == RecordedActorEvent::Died(cluster.clone()));
        let last = last.map(|(at, _)| *at).unwrap_or_default();
        if times == 3 {
            let again = (
                last + MINUTE,
                RecordedActorEvent::Built(cluster.clone(), false),
            );
            scene.check_same("left alone", born.clone(), Some(again));
        }
        let born = born.map(|(at, _)| at).unwrap_or_default();
        let asked = scene.calls_at(&site_name(0)?, &["describe", "status"], born);
        let asks = vec![(0, "describe"), (0, "status")];
        scene.check_same("asked", asked.into_iter().take(2).collect(), asks);
        let begun = scene.now();
        let id = scene
            .submit(build_job(&[1], DurationMs(10), DurationMs(10), 0)?)
            .await?;
        scene.until_ended(&[id]).await?;
        scene.check_same(
            "placed",
            scene.job_events(id, begun).first().copied(),
            Some((0, "JobPlaced")),
        );
        Ok(())
    })
}
