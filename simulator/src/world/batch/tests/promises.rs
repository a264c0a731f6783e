//! What each discipline promises, whatever the trace.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::super::{BatchSystem, LrmJobId, QueueDiscipline};
use super::trace::{
    EventTrace, NODES, PER_NODE, TOTAL, TestedBatchSystem, TraceAction, TraceEvent, orderly_trace,
    play_trace, unruly_trace,
};

fn any_discipline() -> impl Strategy<Value = QueueDiscipline> {
    prop_oneof![
        Just(QueueDiscipline::Fcfs),
        Just(QueueDiscipline::Easy),
        Just(QueueDiscipline::Conservative),
    ]
}

fn play_on_batch_system(discipline: QueueDiscipline, trace: &EventTrace) -> Vec<TraceAction> {
    play_trace(trace, &mut BatchSystem::new(discipline, NODES, PER_NODE))
}

fn list_starts(deeds: &[TraceAction]) -> Vec<(u64, LrmJobId)> {
    let started = deeds.iter().filter_map(|deed| match deed {
        TraceAction::Started(at, id) => Some((*at, *id)),
        _ => None,
    });
    started.collect()
}

/// A site that checks after every scheduling that nothing is over-subscribed.
struct CheckedBatchSystem(BatchSystem, RefCell<BTreeMap<LrmJobId, u32>>);

impl TestedBatchSystem for CheckedBatchSystem {
    fn submit(&mut self, id: LrmJobId, processors: u32, estimate: u64, now: u64) {
        self.1.borrow_mut().insert(id, processors);
        TestedBatchSystem::submit(&mut self.0, id, processors, estimate, now);
    }
    fn end(&mut self, id: LrmJobId, now: u64) -> bool {
        TestedBatchSystem::end(&mut self.0, id, now)
    }
    fn node_down(&mut self, node: u32, now: u64) -> Vec<LrmJobId> {
        TestedBatchSystem::node_down(&mut self.0, node, now)
    }
    fn node_up(&mut self, node: u32, now: u64) -> bool {
        TestedBatchSystem::node_up(&mut self.0, node, now)
    }
    fn drain(&mut self, drained: bool) {
        TestedBatchSystem::drain(&mut self.0, drained);
    }
    fn schedule(&mut self, now: u64) -> Vec<LrmJobId> {
        let started = TestedBatchSystem::schedule(&mut self.0, now);
        let up = self.0.nodes.processors_in_service();
        let sizes = self.1.borrow();
        let running = sizes.iter().filter(|(id, _)| self.0.is_running(**id));
        assert_eq!(
            self.0.used_processors(),
            running.map(|(_, processors)| processors).sum::<u32>()
        );
        assert_eq!(
            self.0.used_processors() + self.0.idle_processors(),
            up,
            "every processor is used or idle"
        );
        assert!(up <= TOTAL);
        started
    }
    fn expected_start(&self, id: LrmJobId) -> Option<u64> {
        TestedBatchSystem::expected_start(&self.0, id)
    }
}

proptest! {
    #[test]
    fn processors_in_use_and_idle_add_up_to_those_in_service(
        trace in unruly_trace(), discipline in any_discipline(),
    ) {
        let site = BatchSystem::new(discipline, NODES, PER_NODE);
        play_trace(&trace, &mut CheckedBatchSystem(site, RefCell::default()));
    }

    #[test]
    fn every_job_starts_if_nothing_fails(trace in orderly_trace(), discipline in any_discipline()) {
        prop_assert_eq!(list_starts(&play_on_batch_system(discipline, &trace)).len(), trace.len());
    }

    #[test]
    fn fcfs_never_overtakes(trace in unruly_trace()) {
        let ids: Vec<_> = list_starts(&play_on_batch_system(QueueDiscipline::Fcfs, &trace)).iter().map(|s| s.1).collect();
        prop_assert!(ids.is_sorted());
    }

    /// EASY: the shadow time of a new head. Conservative: the first reservation.
    #[test]
    fn no_job_starts_later_than_it_was_first_expected_to(
        trace in orderly_trace(), easy in proptest::bool::ANY,
    ) {
        let discipline = if easy { QueueDiscipline::Easy } else { QueueDiscipline::Conservative };
        let mut first: BTreeMap<LrmJobId, u64> = BTreeMap::new();
        for deed in play_on_batch_system(discipline, &trace) {
            match deed {
                TraceAction::Expects(_, expected) => {
                    for (id, start) in (0..).map(LrmJobId).zip(expected) {
                        if let Some(start) = start {
                            first.entry(id).or_insert(start);
                        }
                    }
                }
                TraceAction::Started(at, id) => {
                    prop_assert!(first.get(&id).is_none_or(|promised| at <= *promised));
                }
                TraceAction::Killed(..) | TraceAction::Cancelled(..) => {}
            }
        }
    }

    #[test]
    fn conservative_gives_every_job_a_reservation_at_once(trace in orderly_trace()) {
        let submits = trace.iter().filter(|(_, h)| matches!(h, TraceEvent::Submit { .. })).count();
        let mut known = 0;
        for deed in play_on_batch_system(QueueDiscipline::Conservative, &trace) {
            if let TraceAction::Expects(_, expected) = deed {
                let all_known = expected.len() == known;
                prop_assert!(all_known || expected.last().is_some_and(Option::is_some));
                known = expected.len();
            }
        }
        prop_assert_eq!(known, submits);
    }
}
