//! Sweeps with a limit: draws them for users, and judges whether the sites ever had more runs at
//! once.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use cospan_domain::ids::{InstanceId, JobId, RunnerName};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::runner::{JobDescription, Sweep, SweepSource};
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::attempt_lives::refused_at_first;
use super::judge_holds::SeenHolds;
use super::rare_options::RareOptions;
use super::seed_scenario::{BEGINS, DrawnJob, HOUR, MINUTE, UserAction};
use super::users::UserState;
use cospan_simulator::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};

/// Number of the random stream.
const SWEEPS: u64 = 0x7377_6565_7073;
/// Most sweeps of one run, and most runs of one sweep.
const MANY: usize = 3;
const RUNS_MAX: usize = 10;

/// Jobs that are submitted as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawnSweep {
    pub first: usize,
    pub count: usize,
    /// At most so many of them are placed, held or running at once.
    pub at_once: u32,
}

impl DrawnSweep {
    /// Returns the numbers of its jobs.
    pub fn numbers(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }
}

/// Draws sweeps, each a description and what users do with its runs. Their jobs follow the
/// others.
pub(super) fn draw_sweeps(
    seed: u64,
    jobs: &mut Vec<DrawnJob>,
    files: usize,
    calm_at: Timestamp,
) -> (Vec<DrawnSweep>, Vec<(Timestamp, UserAction)>) {
    let mut chance = StdRng::seed_from_u64(seed ^ SWEEPS);
    let mut sweeps = Vec::new();
    let mut actions = Vec::new();
    if chance.random_bool(0.5) {
        return (sweeps, actions);
    }
    for _ in 0..chance.random_range(1..=MANY) {
        let count = chance.random_range(2..=RUNS_MAX);
        let at_once = chance.random_range(1..=3);
        let sweep = DrawnSweep {
            first: jobs.len(),
            count,
            at_once,
        };
        let job = draw_run(&mut chance, files);
        jobs.extend(std::iter::repeat_n(job, count));
        let at = BEGINS + DurationMs(chance.random_range(0..calm_at.since(BEGINS).0));
        actions.push((at, UserAction::Submit(sweep.first, 1)));
        let again = at + DurationMs(chance.random_range(0..=MINUTE));
        actions.push((again, UserAction::Submit(sweep.first, 1)));
        let froze = at + DurationMs(chance.random_range(0..=HOUR));
        let cancelled = at + DurationMs(chance.random_range(0..=HOUR));
        actions.push((
            cancelled,
            UserAction::Cancel(sweep.first + chance.random_range(0..count)),
        ));
        let frozen = sweep.first + chance.random_range(0..count);
        actions.push((froze, UserAction::Freeze(frozen, true)));
        actions.push((froze + DurationMs(HOUR), UserAction::Freeze(frozen, false)));
        sweeps.push(sweep);
    }
    (sweeps, actions)
}

fn draw_run(chance: &mut StdRng, files: usize) -> DrawnJob {
    let parts = chance.random_range(1..=2);
    let run_time = DurationMs(chance.random_range(MINUTE..=20 * MINUTE));
    let input = chance
        .random_bool(0.5)
        .then(|| chance.random_range(0..files));
    DrawnJob {
        components: (0..parts).map(|_| chance.random_range(1..=4)).collect(),
        flexible: None,
        run_time,
        wall_time: DurationMs(run_time.0 + MINUTE),
        code: 0,
        input,
        output: None,
        rare_options: RareOptions::default(),
    }
}

/// Returns the job of one run, as the sweep runner makes it.
pub(super) fn run_of(sweep: &DrawnSweep, number: usize, mut spec: JobSpec) -> Result<JobSpec> {
    spec.run.runner = Some(RunnerName::new("sweep")?);
    let over = SweepSource::Array(format!("1-{}", sweep.count).parse()?);
    let described = JobDescription {
        spec,
        sweep: Some(Sweep {
            over,
            at_once: Some(sweep.at_once),
        }),
        max_tasks: sweep.count,
        max_bytes: Bytes(u64::MAX),
    };
    described
        .into_jobs()?
        .into_iter()
        .nth(number - sweep.first)
        .context("a run of its sweep")
}

/// Lists sweeps of which the sites had more runs at once than they allow. A run is there while an
/// attempt of it is at its gate or runs. One that was refused, and whose request was granted when it
/// came once more, is nobody's turn.
pub(super) fn over_limit(
    sweeps: &[DrawnSweep],
    known: &UserState,
    holds: &SeenHolds,
    ledger: &[WorldLedgerEntry],
    instance: InstanceId,
) -> Vec<String> {
    let spans = spans_at_sites(holds, ledger, instance);
    let judged = sweeps.iter().filter_map(|sweep| {
        let ids = sweep
            .numbers()
            .filter_map(|number| known.acknowledged.get(&number));
        let ids: BTreeSet<JobId> = ids.copied().collect();
        let own: Vec<&SweepRunSpan> = spans.iter().filter(|span| ids.contains(&span.0)).collect();
        let crowded = own.iter().find_map(|(_, at, _)| {
            let there = own
                .iter()
                .filter(|(_, from, until)| from <= at && at < until);
            let there: BTreeSet<JobId> = there.map(|(job, ..)| *job).collect();
            (there.len() > sweep.at_once as usize).then_some((*at, there))
        });
        let (at, there) = crowded?;
        Some(format!(
            "at {} runs {there:?} of a sweep of {} at once",
            at.0, sweep.at_once
        ))
    });
    judged.collect()
}

/// A run, and from when until when an attempt of it was at a site.
type SweepRunSpan = (JobId, Timestamp, Timestamp);

fn spans_at_sites(
    holds: &SeenHolds,
    ledger: &[WorldLedgerEntry],
    instance: InstanceId,
) -> Vec<SweepRunSpan> {
    let refused = refused_at_first(ledger.iter());
    let mut spans = BTreeMap::new();
    for WorldLedgerEntry { at, tag, deed, .. } in
        ledger.iter().filter(|e| e.tag.instance == instance)
    {
        let part = (tag.job, tag.component, tag.attempt);
        match deed {
            WorldLedgerEvent::Ready if !holds.is_abandoned(&part) && !refused.contains(tag) => {
                spans.insert(part, (tag.job, *at, Timestamp(u64::MAX)));
            }
            WorldLedgerEvent::Voided | WorldLedgerEvent::HeldTooLong | WorldLedgerEvent::Left => {
                if let Some((.., until)) = spans.get_mut(&part) {
                    *until = (*until).min(*at);
                }
            }
            _ => {}
        }
    }
    spans.into_values().collect()
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, SiteName};

    use super::*;

    fn entry(at: u64, job: u64, deed: WorldLedgerEvent) -> WorldLedgerEntry {
        let component = ComponentIndex(0);
        let attempt = Attempt(1);
        let instance = InstanceId::from_random(7);
        let tag = AttemptTag {
            instance,
            job: JobId(job),
            component,
            attempt,
        };
        WorldLedgerEntry {
            at: Timestamp(at),
            site: SiteName::new("delft").unwrap(),
            tag,
            deed,
        }
    }

    #[test]
    fn a_run_counts_from_its_gate_until_its_batch_job_is_over() {
        let sweep = DrawnSweep {
            first: 0,
            count: 2,
            at_once: 1,
        };
        let mut known = UserState::default();
        known.acknowledged = [(0, JobId(1)), (1, JobId(2))].into();
        let judged = |second_at: u64| {
            let ledger = [
                entry(10, 1, WorldLedgerEvent::Ready),
                entry(50, 1, WorldLedgerEvent::Left),
                entry(second_at, 2, WorldLedgerEvent::Ready),
            ];
            let holds = SeenHolds::default();
            over_limit(
                &[sweep],
                &known,
                &holds,
                &ledger,
                InstanceId::from_random(7),
            )
        };
        assert_eq!(judged(50), Vec::<String>::new());
        assert_eq!(judged(49).len(), 1);
    }

    #[test]
    fn a_run_that_was_refused_and_came_once_more_takes_no_turn() {
        let ledger = [
            entry(5, 1, WorldLedgerEvent::Refused),
            entry(9, 1, WorldLedgerEvent::Submitted { processors: 1 }),
            entry(10, 1, WorldLedgerEvent::Ready),
        ];
        let spans = |ledger| {
            spans_at_sites(&SeenHolds::default(), ledger, InstanceId::from_random(7)).len()
        };
        assert_eq!(spans(&ledger), 0);
        assert_eq!(spans(&ledger[1..]), 1, "it was not refused");
    }
}
