//! Judges the processor time that a job's record says was held in vain.
//!
//! A record counts from the time when the site started an attempt, as the site reports once the
//! attempt is at its gate, until its payload is seen to have begun, or the attempt to be over. The
//! world knows when it was started and when it no longer held anything in vain; reports of either
//! take their time, and the record is not wrong for that. So the sum that is stated for a job must
//! lie between two sums over its attempts that came to their gates:
//!
//! - at least from when each was seen at its gate until the counting ended, or until it truly no
//!   longer held anything in vain, whichever came first;
//! - at most from when each was truly started until the counting ended.
//!
//! Both are wider by as much as clocks were set meanwhile: the control plane's, and the site's, by
//! which it says since when it uses what.

use std::collections::BTreeMap;

use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, JobId};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::Job;
use cospan_domain::units::{DurationMs, Timestamp};

use super::seed_oracle::SeedEvidence;
use super::starts::clock_steps;
use cospan_simulator::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};

/// Times at which the control plane wrote about one attempt that it is at its gate, and that it no
/// longer is, in true time.
#[derive(Debug, Clone, Copy, Default)]
struct GateSpan {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// The records of the control plane about times at gates.
#[derive(Debug, Default)]
pub struct GateAccounts {
    counted: BTreeMap<(JobId, ComponentIndex, Attempt), GateSpan>,
}

impl GateAccounts {
    /// Records an event that became durable, of a job as it was before, written by a clock that is
    /// so far ahead. Much may become durable at once: a component that is seen to have begun may be
    /// seen to be over, and its job with it.
    pub(super) fn record_event(&mut self, job: &Job, event: &JobEvent, ahead_ms: i64) {
        let written = Timestamp(event.at.0.saturating_add_signed(-ahead_ms));
        match &event.what {
            JobEventKind::ComponentReady { component, .. } => {
                if let Some(counted) = self.current_count(job, *component) {
                    counted.from.get_or_insert(written);
                }
            }
            JobEventKind::AttemptEnded {
                component, attempt, ..
            } => {
                self.counted
                    .entry((job.id, *component, *attempt))
                    .or_default()
                    .end_count(written);
            }
            JobEventKind::ComponentBegan { component, .. } => {
                if let Some(counted) = self.current_count(job, *component) {
                    counted.end_count(written);
                }
            }
            _ => {}
        }
    }

    /// Returns the count for the current attempt of a component.
    fn current_count(&mut self, job: &Job, component: ComponentIndex) -> Option<&mut GateSpan> {
        let attempt = job.components.get(component.0 as usize)?.attempt;
        Some(
            self.counted
                .entry((job.id, component, attempt))
                .or_default(),
        )
    }
}

impl GateSpan {
    fn end_count(&mut self, written: Timestamp) {
        self.until.get_or_insert(written);
    }
}

/// The world's view of an attempt that came to its gate.
#[derive(Debug, Default, Clone, Copy)]
struct GatedAttempt {
    processors: u32,
    /// Start at its site.
    from: Option<Timestamp>,
    /// True once it came to its gate.
    ready: bool,
    /// Begin of its payload.
    began: Option<Timestamp>,
    /// Time at which it ran, or was over.
    until: Option<Timestamp>,
}

fn held_by_attempt(entries: &[WorldLedgerEntry]) -> BTreeMap<AttemptTag, GatedAttempt> {
    let mut held: BTreeMap<AttemptTag, GatedAttempt> = BTreeMap::new();
    for WorldLedgerEntry { at, tag, deed, .. } in entries {
        let held = held.entry(*tag).or_default();
        match deed {
            WorldLedgerEvent::Submitted { processors } => held.processors = *processors,
            WorldLedgerEvent::Started => drop(held.from.get_or_insert(*at)),
            WorldLedgerEvent::Ready => held.ready = true,
            WorldLedgerEvent::Began
            | WorldLedgerEvent::Voided
            | WorldLedgerEvent::HeldTooLong
            | WorldLedgerEvent::Left => {
                held.until.get_or_insert(*at);
                if matches!(deed, WorldLedgerEvent::Began) {
                    held.began = Some(*at);
                }
            }
            _ => {}
        }
    }
    held
}

/// Lists ended jobs whose record states an impossible sum, with the bounds.
pub(super) fn misstated_jobs(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let mut bounds: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
    for (tag, held) in held_by_attempt(evidence.world.ledger().entries()) {
        let ended = evidence
            .ended
            .get(&tag.job)
            .filter(|_| tag.instance == evidence.instance);
        let from = held.from.filter(|_| held.ready);
        let (Some(from), Some((_, ended))) = (from, ended) else {
            continue;
        };
        let key = (tag.job, tag.component, tag.attempt);
        let counted = evidence
            .accounts
            .counted
            .get(&key)
            .copied()
            .unwrap_or_default();
        let set = clock_steps(evidence.world, from, *ended);
        let doubt = DurationMs(COUNTS * evidence.clocks_apart.0) + set;
        let (least, most) = bounds_ms(counted, held, from, *ended, doubt);
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

/// The hold is counted from the record of the gate to the decision to start, and from that until
/// the payload begins: between any two of these a clock may be set.
const COUNTS: u64 = 3;

/// Returns the least and the most that may be counted for one attempt, where clocks leave so much
/// in doubt.
fn bounds_ms(
    counted: GateSpan,
    held: GatedAttempt,
    from: Timestamp,
    ended: Timestamp,
    doubt: DurationMs,
) -> (DurationMs, DurationMs) {
    let latest = held.began.unwrap_or(ended);
    let until = counted.until.unwrap_or(latest);
    let most = until.since(from) + doubt;
    let (Some(seen), Some(_)) = (counted.from, counted.until) else {
        return (DurationMs(0), most);
    };
    let least = held.until.map_or(until, |over| over.min(until)).since(seen);
    (DurationMs(least.0.saturating_sub(doubt.0)), most)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cospan_domain::ids::{KeyName, LrmId, Round};
    use cospan_domain::job::evolve::evolve;
    use cospan_domain::job::job_state::{
        AbortCause, AbortConsequence, AttemptEnding, AttemptState, Component, ComponentRestart,
        JobPhase, RestartStep, SetbackCounts,
    };

    use super::*;
    use cospan_simulator::jobs::build_shared_job;

    const ENDED: Timestamp = Timestamp(10_000);

    fn bounds(
        from: Option<u64>,
        until: Option<u64>,
        held: GatedAttempt,
        doubt_ms: u64,
    ) -> (u64, u64) {
        let counted = GateSpan {
            from: from.map(Timestamp),
            until: until.map(Timestamp),
        };
        let (least, most) = bounds_ms(counted, held, Timestamp(100), ENDED, DurationMs(doubt_ms));
        (least.0, most.0)
    }

    fn began_at(ms: u64) -> GatedAttempt {
        let began = Some(Timestamp(ms));
        GatedAttempt {
            began,
            until: began,
            ..GatedAttempt::default()
        }
    }

    #[test]
    fn as_much_is_in_doubt_as_news_were_late() {
        assert_eq!(bounds(Some(130), Some(200), began_at(220), 0), (70, 100));
        let lost = GatedAttempt {
            until: Some(Timestamp(150)),
            ..GatedAttempt::default()
        };
        assert_eq!(bounds(Some(130), Some(300), lost, 0), (20, 200));
    }

    #[test]
    fn as_much_is_in_doubt_as_the_clock_was_set() {
        let held = GatedAttempt {
            until: Some(Timestamp(900)),
            ..GatedAttempt::default()
        };
        assert_eq!(bounds(Some(130), Some(900), held, 50), (720, 850));
    }

    #[test]
    fn the_unseen_may_be_counted_until_the_gate_was_open_or_the_job_over() {
        assert_eq!(bounds(Some(130), None, began_at(220), 5), (0, 125));
        assert_eq!(bounds(None, Some(200), began_at(220), 5), (0, 105));
        assert_eq!(
            bounds(Some(130), None, GatedAttempt::default(), 5),
            (0, 9_905)
        );
    }

    const RESTARTED: ComponentIndex = ComponentIndex(0);

    /// One component, three processors; it runs, and its second attempt is on its way.
    fn restarted() -> Job {
        let spec = build_shared_job(&[3], DurationMs(60_000), DurationMs(60_000), 0).unwrap();
        let begun = Timestamp(10);
        let lrm_id = LrmId::new("1.delft").unwrap();
        let step = RestartStep::Staged;
        let restart = ComponentRestart {
            step,
            since: begun,
            tries: 0,
            not_before: begun,
        };
        let component = Component {
            attempt: Attempt(2),
            run: AttemptState::Submitted {
                lrm_id,
                at: begun,
                absences: 0,
                waits: None,
            },
            restart: Some(restart),
            ..Component::default()
        };
        Job {
            id: JobId(1),
            owner: KeyName::new("alice").unwrap(),
            idempotency: None,
            submitted_at: begun,
            priority: spec.priority,
            spec,
            frozen_by: None,
            held: None,
            phase: JobPhase::Running { since: begun },
            round: Round(1),
            inputs_here: true,
            start_at: Some(begun),
            components: vec![component],
            setbacks: SetbackCounts::default(),
            next_claim: None,
            preempting: Vec::new(),
            promoted: false,
            instants: Default::default(),
            placed_by: None,
            wish: Default::default(),
            reservation: None,
            told: Default::default(),
            revision: 1,
        }
    }

    /// What the record of a restarted component's job states, and what is in doubt, if it was
    /// seen at its gate at 100 and this became durable at once at 5000.
    fn stated(seen: &[JobEventKind]) -> (u64, (u64, u64)) {
        let mut job = restarted();
        let mut accounts = GateAccounts::default();
        let host = Arc::from("node");
        let ready = JobEventKind::ComponentReady {
            component: RESTARTED,
            host,
            clock: None,
            held_for: None,
        };
        let seen = seen.iter().map(|what| (5_000, what.clone()));
        for (at, what) in [(100, ready)].into_iter().chain(seen) {
            let event = JobEvent {
                at: Timestamp(at),
                what,
            };
            accounts.record_event(&job, &event, 0);
            evolve(&mut job, &event);
        }
        let counted = accounts.counted[&(JobId(1), RESTARTED, Attempt(2))];
        let ms = |at: Option<Timestamp>| at.map(|at| at.0);
        let truly = bounds(ms(counted.from), ms(counted.until), began_at(150), 0);
        (job.instants.wasted_processor_ms / 3, truly)
    }

    #[test]
    fn a_restart_that_is_seen_to_begin_and_end_at_once_was_counted_until_then() {
        let end = [
            JobEventKind::GateOpened {
                component: RESTARTED,
            },
            JobEventKind::ComponentBegan {
                component: RESTARTED,
                began_at: None,
            },
            JobEventKind::AttemptEnded {
                component: RESTARTED,
                attempt: Attempt(2),
                how: AttemptEnding::Succeeded,
            },
            JobEventKind::PayloadsSucceeded,
            JobEventKind::JobFinished,
        ];
        assert_eq!(stated(&end), (4_900, (50, 4_900)));
    }

    #[test]
    fn a_restart_whose_round_is_given_up_was_counted_until_then() {
        let then = AbortConsequence::Requeue {
            not_before: Timestamp(0),
        };
        let why = AbortCause::Unreachable {
            component: RESTARTED,
        };
        let over = JobEventKind::AttemptEnded {
            component: RESTARTED,
            attempt: Attempt(2),
            how: AttemptEnding::Killed,
        };
        let end = [JobEventKind::RoundAborted { why, then }, over];
        assert_eq!(stated(&end), (4_900, (50, 4_900)));
    }
}
