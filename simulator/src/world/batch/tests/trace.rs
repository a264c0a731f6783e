//! Random lives of a site: submissions, ends, cancels, failures and drains.

use std::collections::BTreeMap;

use cospan_domain::units::{DurationMs, Timestamp};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};

use super::super::{BatchSubmitError, BatchSystem, LrmJobId, QueueDiscipline};
use super::reference::ReferenceBatchSystem;

/// Nodes of the site in a trace.
pub(super) const NODES: u32 = 4;
/// Processors of each.
pub(super) const PER_NODE: u32 = 3;
/// Those of the site.
pub(super) const TOTAL: u32 = NODES * PER_NODE;

/// What may happen to a batch system.
pub(super) trait TestedBatchSystem {
    fn submit(&mut self, id: LrmJobId, processors: u32, estimate: u64, now: u64);
    fn end(&mut self, id: LrmJobId, now: u64) -> bool;
    fn node_down(&mut self, node: u32, now: u64) -> Vec<LrmJobId>;
    fn node_up(&mut self, node: u32, now: u64) -> bool;
    fn drain(&mut self, drained: bool);
    fn schedule(&mut self, now: u64) -> Vec<LrmJobId>;
    fn expected_start(&self, id: LrmJobId) -> Option<u64>;
}

impl TestedBatchSystem for BatchSystem {
    fn submit(&mut self, id: LrmJobId, processors: u32, estimate: u64, now: u64) {
        let done: Result<(), BatchSubmitError> =
            BatchSystem::submit(self, id, processors, DurationMs(estimate), Timestamp(now));
        done.unwrap();
    }

    fn end(&mut self, id: LrmJobId, now: u64) -> bool {
        BatchSystem::end_job(self, id, Timestamp(now))
    }

    fn node_down(&mut self, node: u32, now: u64) -> Vec<LrmJobId> {
        BatchSystem::node_down(self, node, Timestamp(now))
    }

    fn node_up(&mut self, node: u32, now: u64) -> bool {
        BatchSystem::node_up(self, node, Timestamp(now))
    }

    fn drain(&mut self, drained: bool) {
        if drained {
            BatchSystem::start_drain(self)
        } else {
            self.resume()
        }
    }

    fn schedule(&mut self, now: u64) -> Vec<LrmJobId> {
        BatchSystem::schedule(self, Timestamp(now))
    }

    fn expected_start(&self, id: LrmJobId) -> Option<u64> {
        BatchSystem::expected_start(self, id).map(|start| start.0)
    }
}

/// One happening.
#[derive(Debug, Clone)]
pub(super) enum TraceEvent {
    Submit {
        processors: u32,
        estimate: u64,
        run: u64,
    },
    Cancel {
        job: u64,
    },
    NodeDown {
        node: u32,
    },
    NodeUp {
        node: u32,
    },
    Drain {
        drained: bool,
    },
}

/// Happenings, each with the time since the one before it.
pub(super) type EventTrace = Vec<(u64, TraceEvent)>;

fn any_submission(overruns: bool) -> impl Strategy<Value = TraceEvent> {
    let top = if overruns { 3000_u64 } else { 1000 };
    (1..=TOTAL, 1..40_u64, 1..=top).prop_map(|(processors, estimate, share)| {
        let estimate = estimate * 100;
        TraceEvent::Submit {
            processors,
            estimate,
            run: (estimate * share / 1000).max(1),
        }
    })
}

/// Traces in which jobs end by their estimates and nothing fails.
pub(super) fn orderly_trace() -> impl Strategy<Value = EventTrace> {
    vec((0..2000_u64, any_submission(false)), 1..60)
}

/// Traces with everything in them.
pub(super) fn unruly_trace() -> impl Strategy<Value = EventTrace> {
    let happening = prop_oneof![
        12 => any_submission(true),
        2 => (0..60_u64).prop_map(|job| TraceEvent::Cancel { job }),
        1 => (0..NODES).prop_map(|node| TraceEvent::NodeDown { node }),
        1 => (0..NODES).prop_map(|node| TraceEvent::NodeUp { node }),
        1 => any::<bool>().prop_map(|drained| TraceEvent::Drain { drained }),
    ];
    vec((0..1200_u64, happening), 1..80)
}

/// What a site did, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TraceAction {
    Started(u64, LrmJobId),
    Killed(u64, LrmJobId),
    Cancelled(u64, LrmJobId, bool),
    /// Expected starts of all jobs submitted so far, after each scheduling.
    Expects(u64, Vec<Option<u64>>),
}

/// Plays a trace until the site is empty or nothing more can happen.
pub(super) fn play_trace(
    trace: &EventTrace,
    site: &mut impl TestedBatchSystem,
) -> Vec<TraceAction> {
    let mut deeds = Vec::new();
    let mut runs = Vec::new();
    let mut ends: BTreeMap<(u64, LrmJobId), ()> = BTreeMap::new();
    let mut happenings = Vec::new();
    let mut at = 0;
    for (gap, happening) in trace {
        at += gap;
        happenings.push((at, happening));
    }
    let mut next = 0;
    loop {
        let end = ends.keys().next().map(|(at, _)| *at);
        let happening = happenings.get(next).map(|(at, _)| *at);
        let Some(now) = [end, happening].into_iter().flatten().min() else {
            return deeds;
        };
        if end == Some(now) {
            let ((_, id), ()) = ends.pop_first().unwrap();
            site.end(id, now);
        } else {
            apply_event(
                happenings[next].1,
                now,
                site,
                &mut runs,
                &mut ends,
                &mut deeds,
            );
            next += 1;
        }
        for id in site.schedule(now) {
            ends.insert((now + runs[id.0 as usize], id), ());
            deeds.push(TraceAction::Started(now, id));
        }
        let expected = (0..runs.len() as u64).map(|id| site.expected_start(LrmJobId(id)));
        deeds.push(TraceAction::Expects(now, expected.collect()));
    }
}

fn apply_event(
    happening: &TraceEvent,
    now: u64,
    site: &mut impl TestedBatchSystem,
    runs: &mut Vec<u64>,
    ends: &mut BTreeMap<(u64, LrmJobId), ()>,
    deeds: &mut Vec<TraceAction>,
) {
    match *happening {
        TraceEvent::Submit {
            processors,
            estimate,
            run,
        } => {
            site.submit(LrmJobId(runs.len() as u64), processors, estimate, now);
            runs.push(run);
        }
        TraceEvent::Cancel { job } => {
            let id = LrmJobId(job);
            deeds.push(TraceAction::Cancelled(now, id, site.end(id, now)));
            ends.retain(|(_, ending), ()| *ending != id);
        }
        TraceEvent::NodeDown { node } => {
            for id in site.node_down(node, now) {
                ends.retain(|(_, ending), ()| *ending != id);
                deeds.push(TraceAction::Killed(now, id));
            }
        }
        TraceEvent::NodeUp { node } => {
            site.node_up(node, now);
        }
        TraceEvent::Drain { drained } => site.drain(drained),
    }
}

/// Plays a trace on both; they must do the same.
pub(super) fn assert_same_as_reference(discipline: QueueDiscipline, trace: &EventTrace) {
    let mut fast = BatchSystem::new(discipline, NODES, PER_NODE);
    let mut slow = ReferenceBatchSystem::new(discipline, NODES, PER_NODE);
    assert_eq!(play_trace(trace, &mut fast), play_trace(trace, &mut slow));
}
