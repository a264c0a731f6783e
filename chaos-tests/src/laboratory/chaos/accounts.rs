//! Whether the processor time that a job's record says was held in vain was so held.
//!
//! A record counts from when an attempt is seen at its gate until the start is decided, or
//! the attempt is seen to be over. The world knows when it came to its gate and when it
//! held nothing any more; news of either take their time, and how long is not the record's
//! doing. So what is stated for a job must lie between two sums over its attempts:
//!
//! - at least from when each was seen at its gate until the counting ended, or until it
//!   truly held nothing any more, whichever came first;
//! - at most from when each truly came to its gate until the counting ended.
//!
//! If the control plane's clock was set meanwhile, both are wider by as much.

use std::collections::BTreeMap;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId, Tag};
use cospan_domain::job::event::{Happened, JobEvent};
use cospan_domain::job::state::{Job, Phase};
use cospan_domain::units::{DurationMs, Timestamp};

use super::oracle::Evidence;
use crate::world::ledger::{Deed, Entry};

/// When something was written, in true time, and how far the writer's clock was ahead of it.
#[derive(Debug, Clone, Copy)]
struct Written {
    at: Timestamp,
    ahead_ms: i64,
}

/// What the control plane wrote about the time of one attempt at its gate. What it wrote
/// right before a death is not known.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    from: Option<Written>,
    until: Option<Written>,
    /// It was seen past its gate: what comes later counts no more.
    passed: bool,
}

/// What the control plane wrote about times at gates.
#[derive(Debug, Default)]
pub struct Accounts {
    counted: BTreeMap<(JobId, ComponentIndex, Attempt), Counted>,
}

impl Accounts {
    /// Takes note of an event that became durable, of a job as it is afterwards, written by
    /// a clock that is so far ahead.
    pub(super) fn note(&mut self, job: &Job, event: &JobEvent, ahead_ms: i64) {
        let at = Timestamp(event.at.0.saturating_add_signed(-ahead_ms));
        let written = Written { at, ahead_ms };
        match &event.what {
            Happened::ComponentReady { component, .. } => {
                let Some(ready) = job.components.get(component.0 as usize) else { return };
                let key = (job.id, *component, ready.attempt);
                self.counted.entry(key).or_default().from.get_or_insert(written);
            }
            // What ends after its start was decided was counted then, seen or not; but for
            // what is started anew while the others run.
            Happened::AttemptEnded { component, attempt, .. }
                if job.start_at.is_none() || is_restarted(job, *component) =>
            {
                let counted = self.counted.entry((job.id, *component, *attempt)).or_default();
                if !counted.passed {
                    counted.until.get_or_insert(written);
                }
            }
            Happened::GateOpened { component } => {
                let Some(opened) = job.components.get(component.0 as usize) else { return };
                let key = (job.id, *component, opened.attempt);
                let counted = self.counted.entry(key).or_default();
                counted.passed = true;
                if is_restart(job, event.at) {
                    counted.until.get_or_insert(written);
                }
            }
            Happened::GoDecided { .. } => {
                for (index, component) in job.indexed() {
                    let key = (job.id, index, component.attempt);
                    self.counted.entry(key).or_default().until.get_or_insert(written);
                }
            }
            _ => {}
        }
    }
}

/// Whether a gate that is open now is that of a component that is started anew while the
/// others run. A job keeps the time of its last start when it is placed again.
fn is_restart(job: &Job, now: Timestamp) -> bool {
    let runs = matches!(job.phase, Phase::Running { .. });
    runs && job.instants.started.is_some_and(|started| started < now)
}

fn is_restarted(job: &Job, component: ComponentIndex) -> bool {
    job.components.get(component.0 as usize).is_some_and(|component| component.restart.is_some())
}

/// What the world knows of an attempt that came to its gate.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    processors: u32,
    from: Option<Timestamp>,
    /// Its gate was opened: its start had been decided by then.
    opened: Option<Timestamp>,
    /// It ran, or it was over.
    until: Option<Timestamp>,
}

fn held(entries: &[Entry]) -> BTreeMap<Tag, Held> {
    let mut held: BTreeMap<Tag, Held> = BTreeMap::new();
    for Entry { at, tag, deed, .. } in entries {
        let held = held.entry(*tag).or_default();
        match deed {
            Deed::Submitted { processors } => held.processors = *processors,
            Deed::Ready => held.from = Some(*at),
            Deed::Opened(..) | Deed::Voided | Deed::HeldTooLong | Deed::Left => {
                held.until.get_or_insert(*at);
                if matches!(deed, Deed::Opened(..)) {
                    held.opened = Some(*at);
                }
            }
            _ => {}
        }
    }
    held
}

/// Ended jobs of which the record states what cannot be, with the bounds.
pub(super) fn misstated(evidence: &Evidence<'_>) -> Vec<String> {
    let mut bounds: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
    for (tag, held) in held(evidence.world.ledger().entries()) {
        let ended = evidence.ended.get(&tag.job).filter(|_| tag.instance == evidence.instance);
        let (Some(from), Some((_, ended))) = (held.from, ended) else { continue };
        let key = (tag.job, tag.component, tag.attempt);
        let counted = evidence.accounts.counted.get(&key).copied().unwrap_or_default();
        let (least, most) = bounds_ms(counted, held, from, *ended, evidence.clocks_apart);
        let (low, high) = bounds.entry(tag.job).or_default();
        *low += u64::from(held.processors) * least.0;
        *high += u64::from(held.processors) * most.0;
    }
    let ended = evidence.ended.keys().filter_map(|id| evidence.jobs.get(id));
    let stated = ended.map(|job| (job.id, job.instants.wasted_processor_ms));
    let wrong = stated.filter_map(|(id, stated)| {
        let (low, high) = bounds.get(&id).copied().unwrap_or_default();
        let text = format!("job {id} states {stated} processor-ms, not {low} to {high}");
        (!(low..=high).contains(&stated)).then_some(text)
    });
    wrong.collect()
}

/// The least and the most that may be counted for one attempt.
fn bounds_ms(
    counted: Counted,
    held: Held,
    from: Timestamp,
    ended: Timestamp,
    clocks_apart: DurationMs,
) -> (DurationMs, DurationMs) {
    let latest = held.opened.unwrap_or(ended);
    let until = counted.until.map_or(latest, |written| written.at);
    let (Some(seen), Some(end)) = (counted.from, counted.until) else {
        return (DurationMs(0), until.since(from) + clocks_apart);
    };
    let set = DurationMs(end.ahead_ms.abs_diff(seen.ahead_ms));
    let least = held.until.map_or(until, |over| over.min(until)).since(seen.at);
    (DurationMs(least.0.saturating_sub(set.0)), until.since(from) + set)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDED: Timestamp = Timestamp(10_000);

    fn bounds(from: Option<Written>, until: Option<Written>, held: Held) -> (u64, u64) {
        let counted = Counted { from, until, passed: false };
        let (least, most) = bounds_ms(counted, held, Timestamp(100), ENDED, DurationMs(5));
        (least.0, most.0)
    }

    fn at(ms: u64, ahead_ms: i64) -> Option<Written> {
        Some(Written { at: Timestamp(ms), ahead_ms })
    }

    #[test]
    fn as_much_is_in_doubt_as_news_were_late() {
        let opened = Some(Timestamp(220));
        let started = Held { opened, until: opened, ..Held::default() };
        assert_eq!(bounds(at(130, 0), at(200, 0), started), (70, 100));
        let lost = Held { until: Some(Timestamp(150)), ..Held::default() };
        assert_eq!(bounds(at(130, 0), at(300, 0), lost), (20, 200));
    }

    #[test]
    fn as_much_is_in_doubt_as_the_clock_was_set() {
        let held = Held { until: Some(Timestamp(900)), ..Held::default() };
        assert_eq!(bounds(at(130, 0), at(900, -50), held), (720, 850));
    }

    #[test]
    fn what_a_death_hid_may_have_been_counted_until_the_gate_was_open_or_the_job_over() {
        let opened = Some(Timestamp(220));
        let started = Held { opened, until: opened, ..Held::default() };
        assert_eq!(bounds(at(130, 0), None, started), (0, 125));
        assert_eq!(bounds(None, at(200, 0), started), (0, 105));
        assert_eq!(bounds(at(130, 0), None, Held::default()), (0, 9_905));
    }
}
