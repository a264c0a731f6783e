//! The points of a chaos build.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cospan_domain::job::job_due;
use cospan_domain::job::job_state::Job;
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::units::Timestamp;

use super::CrashPoint;
use crate::supervision::ActorKind;

/// The length of a planted stall.
const STALL: Duration = Duration::from_millis(200);

/// An action at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrashPointAction {
    /// As sudden as kill -9: nothing is flushed, nothing is dropped.
    Crash,
    Panic,
    /// Everything else that comes in waits in mailboxes meanwhile.
    Stall,
}

/// An action that a chaos build takes at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PlantedAction {
    deed: CrashPointAction,
    point: String,
    effect: String,
    /// The action happens at this passage, counted from 1; a stall at this one and all after it.
    passage: u64,
    /// Passages with fewer jobs in flight do not count.
    load: usize,
    passed: u64,
}

#[derive(Debug, Default)]
struct PlantedActionPlan {
    planted: Vec<PlantedAction>,
    reached: BTreeSet<(&'static str, String)>,
    /// The file that gets a line for every point reached, once.
    coverage: Option<std::path::PathBuf>,
}

static PLAN: Mutex<Option<PlantedActionPlan>> = Mutex::new(None);

/// Jobs that are accepted and not ended.
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);

/// Returns true if a passage, given by its effect and point, is to panic.
type PassagePanicHook = Box<dyn FnMut(&str, CrashPoint) -> bool>;

thread_local! {
    static HOOK: RefCell<Option<PassagePanicHook>> = const { RefCell::new(None) };
}

/// Makes `hook` decide from now on which passages on this thread panic; `None` ends that.
pub fn set_panic_hook(hook: Option<PassagePanicHook>) {
    HOOK.set(hook);
}

/// Reads a plan such as `crash:before-effect:Submit:2,panic:decided::1:50`: kind, point, effect
/// (may be empty), passage, and the number of jobs that must be in flight for a passage to count
/// (may be left out). Kinds are `crash`, `panic` and `stall`. `coverage` is a file that gets a line
/// for every point that is reached for the first time. The plan before is dropped.
///
/// # Errors
///
/// A part of the plan is not of that form.
pub fn load_plan(text: &str, coverage: Option<std::path::PathBuf>) -> Result<(), String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let planted = parts
        .map(parse_action)
        .collect::<Result<Vec<PlantedAction>, String>>()?;
    *lock_plan() = Some(PlantedActionPlan {
        planted,
        reached: BTreeSet::new(),
        coverage,
    });
    Ok(())
}

fn parse_action(part: &str) -> Result<PlantedAction, String> {
    let fields: Vec<&str> = part.split(':').collect();
    let (fields, load) = match fields.as_slice() {
        [fields @ .., load] if fields.len() == 4 => (fields, *load),
        fields => (fields, "0"),
    };
    let &[kind, point, effect, passage] = fields else {
        return Err(format!(
            "{part:?} is not kind:point:effect:passage[:in-flight]"
        ));
    };
    let deed = match kind {
        "crash" => CrashPointAction::Crash,
        "panic" => CrashPointAction::Panic,
        "stall" => CrashPointAction::Stall,
        _ => {
            return Err(format!(
                "{kind:?} in {part:?} is none of crash, panic, stall"
            ));
        }
    };
    Ok(PlantedAction {
        deed,
        point: point.into(),
        effect: effect.into(),
        passage: passage
            .parse()
            .map_err(|_| format!("{passage:?} is not a number"))?,
        load: load
            .parse()
            .map_err(|_| format!("{load:?} is not a number"))?,
        passed: 0,
    })
}

fn lock_plan() -> MutexGuard<'static, Option<PlantedActionPlan>> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called when a handler of an actor of this kind is entered. An action planted at any handler
/// leaves out the journal's, which ends the process by design.
pub fn enter_handler(kind: ActorKind) {
    super::count_message();
    reach_for_effect(kind.as_str(), CrashPoint::HandlerEntry);
    if kind != ActorKind::Journal {
        reach_point(CrashPoint::HandlerEntry);
    }
}

/// Notes how many jobs are accepted and not ended.
pub fn note_jobs_in_flight(count: impl FnOnce() -> usize) {
    IN_FLIGHT.store(count(), Ordering::Relaxed);
}

/// Passes a point.
pub fn reach_point(point: CrashPoint) {
    reach_for_effect("", point);
}

/// Passes a point for each of these effects.
pub fn reach_for_effects(effects: &[&'static str], point: CrashPoint) {
    effects
        .iter()
        .for_each(|effect| reach_for_effect(effect, point));
}

/// Passes a point for an effect of this name.
pub fn reach_for_effect(effect: &str, point: CrashPoint) {
    if HOOK.with_borrow_mut(|hook: &mut Option<PassagePanicHook>| {
        hook.as_mut().is_some_and(|hook| hook(effect, point))
    }) {
        // Resumes instead of panicking, which keeps the panic hook quiet: there may be many.
        resume_unwind(Box::new("a planted panic"));
    }
    let in_flight = IN_FLIGHT.load(Ordering::Relaxed);
    let struck = {
        let mut plan = lock_plan();
        let Some(plan) = plan.as_mut() else { return };
        plan.note_reached_point(point, effect);
        plan.count_passage(point, effect, in_flight)
    };
    let Some(planted) = struck else { return };
    match planted.deed {
        CrashPointAction::Crash => std::process::abort(),
        CrashPointAction::Panic => {
            panic!("planted panic with {in_flight} jobs in flight at {planted:?}")
        }
        CrashPointAction::Stall => std::thread::sleep(STALL),
    }
}

impl PlantedAction {
    fn is_due(&self) -> bool {
        match self.deed {
            CrashPointAction::Stall => self.passed >= self.passage,
            CrashPointAction::Crash | CrashPointAction::Panic => self.passed == self.passage,
        }
    }
}

impl PlantedActionPlan {
    /// Counts this passage for each action planted here; returns the one that is due.
    fn count_passage(
        &mut self,
        point: CrashPoint,
        effect: &str,
        in_flight: usize,
    ) -> Option<PlantedAction> {
        let mut struck = None;
        for planted in &mut self.planted {
            let here = planted.point == point.as_str() && planted.effect == effect;
            if here && in_flight >= planted.load {
                planted.passed += 1;
                if planted.is_due() {
                    struck = Some(planted.clone());
                }
            }
        }
        struck
    }

    fn note_reached_point(&mut self, point: CrashPoint, effect: &str) {
        if self.reached.insert((point.as_str(), effect.to_owned()))
            && let Some(path) = &self.coverage
        {
            let file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path);
            let _ = file.and_then(|mut file| writeln!(file, "{}:{effect}", point.as_str()));
        }
    }
}

/// Lists the effects that a record makes due.
pub fn due_effect_names(job: &Job, now: Timestamp) -> Vec<&'static str> {
    let mut names: Vec<_> = job_due::due(job, now)
        .iter()
        .map(|effect| effect.kind.name())
        .collect();
    names.dedup();
    names
}

/// Names the call that a site is due next about shared reservations.
pub fn due_site_call_names(record: &SiteRecord) -> Vec<&'static str> {
    record
        .next_shared_call()
        .map(|(_, question)| question.name())
        .into_iter()
        .collect()
}
