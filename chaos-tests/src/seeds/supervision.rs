//! Checks that the supervisor follows its automaton, as the chapter on the architecture has it: an
//! actor that dies is built anew after a pause that grows; one that dies too often within a minute
//! is held, or ends the process. The real lives of actors are compared with that, and this code
//! knows nothing of how the supervisor counts.

use std::collections::{BTreeMap, VecDeque};

use cospan_actors::supervision::{ActorId, ActorKind, Escalation};
use cospan_domain::ids::JobId;
use cospan_domain::units::{DurationMs, Timestamp};

use cospan_simulator::actor_lives::{RecordedActorEvent, RunActorLives};

/// Deaths count for so long.
const WINDOW: DurationMs = DurationMs(60_000);
/// Clocks of one machine differ by less: deaths that are a minute apart may count or not.
const TICK: DurationMs = DurationMs(5);
/// No pause before an actor is built anew is longer.
const PAUSE_MAX: DurationMs = DurationMs(10_000);
/// Time for which an actor is left alone that is held without a record that says so.
const ALONE: DurationMs = DurationMs(60_000);
/// Time by which it is tried again.
const TRIED_AGAIN: DurationMs = DurationMs(90_000);
/// By then it is written that a job is held, also to a slow disk.
const WRITTEN: DurationMs = DurationMs(60_000);

/// Returns the number of deaths within the window that is too many, and what follows.
fn death_limit(kind: ActorKind) -> (usize, Escalation) {
    match kind {
        ActorKind::Journal => (1, Escalation::Exit),
        ActorKind::Intake
        | ActorKind::Information
        | ActorKind::DataManager
        | ActorKind::CoAllocator
        | ActorKind::Reserver
        | ActorKind::Claimer
        | ActorKind::Notifier => (5, Escalation::Exit),
        ActorKind::Job | ActorKind::Transfer | ActorKind::ClaimTimer | ActorKind::Cluster => {
            (3, Escalation::Hold)
        }
    }
}

/// Times at which jobs were held (`true`) and released.
pub(super) type HeldTimes = BTreeMap<JobId, Vec<(Timestamp, bool)>>;

/// Deaths within the window: those that count, and these with those that may count or not.
#[derive(Debug, Clone, Copy)]
struct Count {
    surely: usize,
    perhaps: usize,
}

/// The state of one actor.
#[derive(Debug, Default)]
struct KnownActor {
    /// Deaths since anything followed from them but a new life.
    deaths: Vec<Timestamp>,
    /// Lives that it is owed: since when, and after how many deaths that counted.
    owed: VecDeque<(Timestamp, Count)>,
    /// The verdict that is to follow at once.
    due: Option<(Timestamp, Escalation)>,
    /// Either may follow: a death was just about a minute ago.
    either: bool,
    /// The last pause before a new life, and after how many deaths.
    paused: Option<(Count, DurationMs)>,
    held_at: Option<Timestamp>,
}

/// A run of the control plane, as it is gone through.
#[derive(Debug, Default)]
struct SupervisionJudge {
    actors: BTreeMap<ActorId, KnownActor>,
    /// A planted panic that has killed no actor yet.
    planted: Option<(Timestamp, Option<ActorKind>)>,
    deaths: u64,
    disk_failed: Option<Timestamp>,
    /// Until then the journal gets no answer from its disk.
    deaf_until: Timestamp,
    exit: Option<(Timestamp, ActorId)>,
    found: Vec<String>,
}

/// Lists where the supervisor did not do what it should.
pub(super) fn supervision_mistakes(
    control_plane_runs: &[RunActorLives],
    held: &HeldTimes,
    ended: &BTreeMap<JobId, Timestamp>,
) -> Vec<String> {
    let mut found = Vec::new();
    for plane_run in control_plane_runs {
        let mut judge = SupervisionJudge::default();
        plane_run
            .lived
            .iter()
            .for_each(|(at, lived)| judge.note_life(*at, lived));
        let over = plane_run.ended.unwrap_or(Timestamp(u64::MAX));
        judge.finish(over, plane_run);
        found.append(&mut judge.found);
        found.extend(not_held_jobs(plane_run, over, held, ended));
    }
    found
}

impl SupervisionJudge {
    fn complain(&mut self, at: Timestamp, text: &str) {
        self.found.push(format!("{text}, at {}", at.0));
    }

    fn note_life(&mut self, at: Timestamp, lived: &RecordedActorEvent) {
        match lived {
            RecordedActorEvent::Planted(kind) => {
                self.use_up_panic();
                self.planted = Some((at, *kind));
            }
            RecordedActorEvent::Died(id) => self.note_death(at, id),
            RecordedActorEvent::Built(id, anew) => self.note_built(at, id, *anew),
            RecordedActorEvent::Judged(id, verdict) => self.note_verdict(at, id, *verdict),
            RecordedActorEvent::Stalled(ActorId::Journal, lasts, _) => {
                self.deaf_until = at + *lasts
            }
            RecordedActorEvent::Stalled(..) => {}
            RecordedActorEvent::DiskFailed => self.disk_failed = Some(at),
            RecordedActorEvent::Fatal(problem) => {
                let exits = self.exit.as_ref().is_some_and(|(exit, _)| *exit == at);
                let heard_late = self.deaf_until.0 + TICK.0 >= at.0;
                let of_disk = self
                    .disk_failed
                    .is_some_and(|failed| failed == at || heard_late);
                if !exits && !of_disk {
                    self.complain(at, &format!("the process ends without a reason: {problem}"));
                }
            }
        }
    }

    /// A panic in a handler kills the actor that handles.
    fn use_up_panic(&mut self) {
        if let Some((at, Some(kind))) = self.planted.take() {
            self.complain(at, &format!("nobody knows that a {} died", kind.as_str()));
        }
    }

    fn note_death(&mut self, at: Timestamp, id: &ActorId) {
        self.deaths += 1;
        match self.planted.take() {
            Some((then, kind)) if then == at && kind.is_none_or(|kind| kind == id.kind()) => {}
            _ => self.complain(at, &format!("{id} died of itself")),
        }
        let (most, verdict) = death_limit(id.kind());
        let actor = self.actors.entry(id.clone()).or_default();
        let overdue = actor.due.replace((at, verdict)).filter(|_| !actor.either);
        actor
            .deaths
            .retain(|death| at.since(*death).0 <= WINDOW.0 + TICK.0);
        actor.deaths.push(at);
        let ages = actor.deaths.iter().map(|death| at.since(*death).0);
        let surely = ages.clone().filter(|age| *age <= WINDOW.0 - TICK.0).count();
        let perhaps = ages.filter(|age| *age <= WINDOW.0 + TICK.0).count();
        actor.either = perhaps >= most && surely < most;
        if perhaps < most {
            actor.due = None;
        }
        if surely < most {
            actor.owed.push_back((at, Count { surely, perhaps }));
        }
        if let Some((then, verdict)) = overdue {
            self.complain(then, &describe_outstanding(id, verdict));
        }
    }

    fn note_built(&mut self, at: Timestamp, id: &ActorId, anew: bool) {
        let actor = self.actors.entry(id.clone()).or_default();
        let held_at = actor.held_at.take();
        let mut problem = None;
        if anew {
            match actor.owed.pop_front() {
                None => problem = Some("is built anew, and should not be".to_owned()),
                Some((died, count)) => {
                    let pause = at.since(died);
                    let before = actor.paused.replace((count, pause));
                    let shorter =
                        before.is_some_and(|(less, at)| less.perhaps < count.surely && pause <= at);
                    if pause == DurationMs::ZERO || pause > PAUSE_MAX || shorter {
                        let pause = pause.0;
                        let number = count.surely;
                        let pauses = format!("after {pause} ms, death {number} of a minute");
                        problem = Some(format!("is built anew {pauses}"));
                    }
                    if std::mem::take(&mut actor.either) {
                        actor.due = None;
                    }
                }
            }
        }
        let alone = matches!(id.kind(), ActorKind::Cluster | ActorKind::Transfer);
        if alone && held_at.is_some_and(|held| at.since(held).0 + TICK.0 < ALONE.0) {
            problem = Some("is not left alone for a minute".to_owned());
        }
        if let Some(problem) = problem {
            self.complain(at, &format!("{id} {problem}"));
        }
    }

    fn note_verdict(&mut self, at: Timestamp, id: &ActorId, verdict: Escalation) {
        let actor = self.actors.entry(id.clone()).or_default();
        let due = actor.due.take();
        if std::mem::take(&mut actor.either) {
            actor.owed.pop_back();
        }
        let count = actor
            .deaths
            .iter()
            .filter(|death| at.since(**death) <= WINDOW)
            .count();
        actor.deaths.clear();
        match verdict {
            Escalation::Hold => actor.held_at = Some(at),
            Escalation::Exit => self.exit = Some((at, id.clone())),
        }
        if due != Some((at, verdict)) {
            self.complain(
                at,
                &format!("{id} gets {verdict:?} for {count} deaths in a minute"),
            );
        }
    }

    fn finish(&mut self, over: Timestamp, plane_run: &RunActorLives) {
        if self.planted.is_some_and(|(at, _)| at < over) {
            self.use_up_panic();
        }
        let last = plane_run
            .lived
            .iter()
            .filter(|(at, lived)| *at == over && matches!(lived, RecordedActorEvent::Died(_)));
        // It may have missed deaths of actors that died as the process did.
        if plane_run.counted > self.deaths
            || plane_run.counted + (last.count() as u64) < self.deaths
        {
            let text = format!("{} actors died, it says {}", self.deaths, plane_run.counted);
            self.complain(over, &text);
        }
        if let Some((at, id)) = self.exit.take()
            && at < over
        {
            self.complain(at, &format!("{id} ends the process, and it goes on"));
        }
        for (id, actor) in std::mem::take(&mut self.actors) {
            if let Some((at, verdict)) = actor.due.filter(|(at, _)| *at < over && !actor.either) {
                self.complain(at, &describe_outstanding(&id, verdict));
            }
            let owed = actor
                .owed
                .front()
                .filter(|(at, _)| over.since(*at) > PAUSE_MAX);
            if let Some((at, _)) = owed {
                self.complain(*at, &format!("{id} is never built anew"));
            }
            let comes_back = !matches!(id.kind(), ActorKind::Job);
            let forgotten = actor
                .held_at
                .filter(|held| comes_back && over.since(*held) > TRIED_AGAIN);
            if let Some(at) = forgotten {
                self.complain(at, &format!("{id} is never tried again"));
            }
        }
    }
}

fn describe_outstanding(id: &ActorId, verdict: Escalation) -> String {
    let what = match verdict {
        Escalation::Hold => "is not held",
        Escalation::Exit => "does not end the process",
    };
    format!("{id} dies too often and {what}")
}

/// Lists jobs that were to be held, and whose records do not say so.
fn not_held_jobs(
    plane_run: &RunActorLives,
    over: Timestamp,
    held: &HeldTimes,
    ended: &BTreeMap<JobId, Timestamp>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (at, lived) in &plane_run.lived {
        let RecordedActorEvent::Judged(ActorId::Job(id), Escalation::Hold) = lived else {
            continue;
        };
        let by = *at + WRITTEN;
        let by = by + plane_run.stalled_time(*at, by, |id| *id == ActorId::Journal);
        let is_final = ended.get(id).is_some_and(|ended| *ended <= by);
        let turns = held.get(id).map_or(&[] as &[_], Vec::as_slice);
        let so_far = turns.iter().rev().find(|(turn, _)| turn < at);
        let written = turns
            .iter()
            .any(|(turn, held)| *held && *turn >= *at && *turn <= by);
        let is_held = written || so_far.is_some_and(|(_, held)| *held);
        if !is_final && !is_held && by < over {
            found.push(format!(
                "job {id} is held, and its record does not say so, at {}",
                at.0
            ));
        }
    }
    found
}

#[cfg(test)]
#[path = "supervision_tests.rs"]
mod tests;
