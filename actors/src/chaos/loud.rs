//! The points of a chaos build.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cospan_domain::job::due;
use cospan_domain::job::state::Job;
use cospan_domain::units::Timestamp;

use super::Point;

/// What a chaos build does at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Planted {
    point: String,
    effect: Option<String>,
    /// Strikes at this passage, from 1.
    passage: u64,
    panics: bool,
}

#[derive(Debug, Default)]
struct Plan {
    planted: Vec<Planted>,
    passages: BTreeMap<(String, String), u64>,
    /// Every point reached is appended here, once.
    coverage: Option<std::path::PathBuf>,
}

static PLAN: Mutex<Option<Plan>> = Mutex::new(None);

/// Reads a plan such as `crash:before-effect:Submit:2,panic:decided::1`:
/// kind, point, effect (may be empty) and passage. `coverage` is a file that
/// gets a line for every point that is reached for the first time. What was
/// planned before is forgotten.
///
/// # Errors
/// A part of the plan is not of that form.
pub fn plan(text: &str, coverage: Option<std::path::PathBuf>) -> Result<(), String> {
    let mut planted = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let fields: Vec<&str> = part.split(':').collect();
        let &[kind, point, effect, passage] = fields.as_slice() else {
            return Err(format!("{part:?} is not kind:point:effect:passage"));
        };
        planted.push(Planted {
            point: point.into(),
            effect: (!effect.is_empty()).then(|| effect.into()),
            passage: passage.parse().map_err(|_| format!("{passage:?} is not a number"))?,
            panics: kind == "panic",
        });
    }
    *lock() = Some(Plan { planted, passages: BTreeMap::new(), coverage });
    Ok(())
}

fn lock() -> MutexGuard<'static, Option<Plan>> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a point.
pub fn reach(point: Point) {
    reach_for("", point);
}

/// Passes a point for each of these effects.
pub fn reach_each(effects: &[&'static str], point: Point) {
    effects.iter().for_each(|effect| reach_for(effect, point));
}

/// Passes a point for an effect of this name.
pub fn reach_for(effect: &str, point: Point) {
    let struck = {
        let mut plan = lock();
        let Some(plan) = plan.as_mut() else { return };
        let key = (point.as_str().to_owned(), effect.to_owned());
        let count = plan.passages.entry(key).or_default();
        *count += 1;
        let count = *count;
        if count == 1
            && let Some(path) = &plan.coverage
        {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            let _ = file.and_then(|mut file| writeln!(file, "{}:{effect}", point.as_str()));
        }
        let hits = |planted: &&Planted| {
            planted.point == point.as_str()
                && planted.effect.as_deref().unwrap_or("") == effect
                && planted.passage == count
        };
        plan.planted.iter().find(hits).cloned()
    };
    match struck {
        Some(planted) if planted.panics => panic!("planted panic at {planted:?}"),
        // As sudden as kill -9: nothing is flushed, nothing is dropped.
        Some(_) => std::process::abort(),
        None => {}
    }
}

/// Effects that a record makes due.
pub fn effects_of(job: &Job, now: Timestamp) -> Vec<&'static str> {
    let mut names: Vec<_> = due::due(job, now).iter().map(|effect| effect.kind.name()).collect();
    names.dedup();
    names
}
