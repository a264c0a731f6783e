//! Whole histories of the placement queues against a list of jobs: jobs arrive, are refused,
//! rise, are frozen, back off and leave, also while a scan is under way.

use proptest::prelude::*;

use super::plain::{PlainCycle, PlainQueues};
use super::*;
use crate::placement::tests::scenes::{a_job, any_history, grids};
use crate::queue::{QueueTurns, StarvationGuardParameters};
use crate::units::PerMillion;

const MINUTE: u64 = 60_000;

/// Something that happens to a job.
#[derive(Debug, Clone)]
enum WaitingJobChange {
    Waits {
        class: Priority,
        entered: u64,
        shape: usize,
        other: RareConditions,
    },
    WaitsAsBefore,
    Leaves,
    Ends,
    Answers,
    LosesItsPlan,
}

/// What is seldom so.
#[derive(Debug, Clone, Copy)]
struct RareConditions {
    frozen: bool,
    not_before: u64,
    max_tries: Option<u32>,
}

#[derive(Debug, Clone)]
enum HistoryStep {
    Change(u64, WaitingJobChange),
    Scan {
        trigger: ScanTrigger,
        grid: Arc<GridSnapshot>,
        slice: u32,
        /// What happens after each plan.
        meanwhile: Vec<(u64, WaitingJobChange)>,
        /// Who does as the scan says: takes its plan, rises, ends.
        obeys: u32,
    },
}

prop_compose! {
    fn waits()(
        class in prop::sample::select(Priority::ALL.to_vec()), entered in 0..6u64,
        shape in 0..60usize,
        frozen in prop::bool::weighted(0.1),
        not_before in prop_oneof![4 => Just(0), 1 => 0..20u64],
        max_tries in prop_oneof![4 => Just(None), 1 => (0..3u32).prop_map(Some)],
    ) -> WaitingJobChange {
        let other = RareConditions { frozen, not_before: not_before * MINUTE, max_tries };
        WaitingJobChange::Waits { class, entered: entered * MINUTE / 2, shape, other }
    }
}

fn any_change() -> impl Strategy<Value = (u64, WaitingJobChange)> {
    let what = prop_oneof![
        10 => waits(),
        2 => Just(WaitingJobChange::WaitsAsBefore),
        1 => Just(WaitingJobChange::Leaves),
        1 => Just(WaitingJobChange::Ends),
        1 => Just(WaitingJobChange::Answers),
        1 => Just(WaitingJobChange::LosesItsPlan),
    ];
    (0..12u64, what)
}

fn any_step() -> impl Strategy<Value = (HistoryStep, u64)> {
    let trigger = prop::sample::select(vec![
        ScanTrigger::Event,
        ScanTrigger::Interval,
        ScanTrigger::Interval,
    ]);
    let slice = prop::sample::select(vec![1, 7, 40, u32::MAX]);
    let meanwhile = prop_oneof![
        3 => Just(Vec::new()), 1 => prop::collection::vec(any_change(), 1..4)
    ];
    let scan = (trigger, grids(), slice, meanwhile, any::<u32>()).prop_map(
        |(trigger, grid, slice, meanwhile, obeys)| HistoryStep::Scan {
            trigger,
            grid: Arc::new(grid),
            slice,
            meanwhile,
            obeys,
        },
    );
    let what = prop_oneof![3 => any_change().prop_map(|(job, what)| HistoryStep::Change(job, what)), 2 => scan];
    (
        what,
        prop::sample::select(vec![0, MINUTE / 4, MINUTE, MINUTE, 2 * MINUTE]),
    )
}

prop_compose! {
    fn parameters()(
        (n1, n2, n3, n4) in (1..4u32, 1..4u32, 1..4u32, 1..4u32),
        (n_h, less) in (1..4u32, 0..3u32),
        promote_after in prop::option::of(1..3u32),
        max_placement_tries in prop_oneof![3 => Just(None), 1 => (1..4u32).prop_map(Some)],
        events in prop::bool::weighted(0.7),
        turn_processors in prop::sample::select(vec![1u32, 4, 16]),
        after in prop::option::of(0..4u64),
        share in prop::sample::select(vec![0u32, 300_000, 500_000, 1_000_000]),
        time in 1..5u64,
    ) -> QueueParameters {
        let starvation_guard = StarvationGuardParameters {
            after: after.map(|minutes| DurationMs(minutes * MINUTE)),
            share: PerMillion(share),
            time: DurationMs(time * MINUTE),
        };
        let n_l = n_h.saturating_sub(less).max(1);
        QueueParameters {
            n_h, n_l, n1, n2, n3, n4, promote_after, max_placement_tries, events, turn_processors,
            starvation_guard, ..QueueParameters::default()
        }
    }
}

/// Most requests are small and plain.
fn any_shapes() -> impl Strategy<Value = Vec<Arc<PlacementRequest>>> {
    let plain = prop::collection::vec(1..9u32, 1..3).prop_map(|parts| request_of_sizes(&parts));
    let shape = prop_oneof![2 => plain, 1 => a_job().prop_map(|job| job.build_request())];
    prop::collection::vec(shape.prop_map(Arc::new), 1..6)
}

/// The queues, and what they are to be.
struct ComparedQueues {
    queues: PlacementQueues,
    list: PlainQueues,
    shapes: Vec<Arc<PlacementRequest>>,
}

impl ComparedQueues {
    fn insert(&mut self, waiting: WaitingJob) {
        self.queues.insert(waiting.clone());
        self.list.insert(waiting);
    }

    fn remove(&mut self, job: JobId) {
        self.queues.remove(job);
        self.list.remove(job);
    }

    fn clear_decision(&mut self, job: JobId) {
        self.queues.clear_decision(job);
        self.list.clear_decision(job);
    }

    fn forget_job(&mut self, job: JobId) {
        self.queues.forget_job(job);
        self.list.forget_job(job);
    }

    fn change(&mut self, (job, what): (u64, WaitingJobChange)) {
        let job = JobId(job);
        match what {
            WaitingJobChange::WaitsAsBefore => {
                let known = self.list.jobs.get(&job).map(|job| job.waiting.clone());
                known.into_iter().for_each(|waiting| self.insert(waiting));
            }
            WaitingJobChange::Leaves => self.remove(job),
            WaitingJobChange::Ends => self.forget_job(job),
            WaitingJobChange::Answers => self.clear_decision(job),
            WaitingJobChange::LosesItsPlan => {
                self.queues.withdraw_proposal(job);
                self.list.withdraw_proposal(job);
            }
            WaitingJobChange::Waits {
                class: priority,
                entered,
                shape,
                other,
            } => {
                let request = Arc::clone(&self.shapes[shape % self.shapes.len()]);
                let entered = Timestamp(entered);
                let not_before = Timestamp(other.not_before);
                let RareConditions {
                    frozen, max_tries, ..
                } = other;
                self.insert(WaitingJob {
                    job,
                    priority,
                    entered,
                    not_before,
                    frozen,
                    max_tries,
                    request,
                });
            }
        }
    }

    fn compare_scan(&mut self, step: HistoryStep, now: Timestamp) -> Result<(), TestCaseError> {
        let HistoryStep::Scan {
            trigger,
            grid,
            slice,
            meanwhile,
            obeys,
        } = step
        else {
            return Ok(());
        };
        let mut scan = self.queues.begin_scan(trigger, Arc::clone(&grid), now);
        let mut round = self.list.begin_scan(trigger, grid, now);
        let mut meanwhile = meanwhile.into_iter();
        let mut placed = Vec::new();
        let mut left = ScanSliceBudget(slice);
        let report = loop {
            let expected = self.list.next_plan(&mut round);
            let told = loop {
                match self.queues.step_scan(&mut scan, &mut left) {
                    ScanStep::Placed(offer) => break Ok(offer),
                    ScanStep::Done(report) => break Err(report),
                    ScanStep::Announce(..) => panic!("no rounds are asked for"),
                    ScanStep::Yield => {
                        prop_assert_eq!(left, ScanSliceBudget(0), "it yields too early");
                        left = ScanSliceBudget(slice);
                    }
                }
            };
            prop_assert_eq!(scan.remaining(), &round.remaining);
            match told {
                Err(report) => {
                    prop_assert_eq!(None, expected);
                    break report;
                }
                Ok(offer) => {
                    placed.push(offer.job);
                    prop_assert_eq!(Some((offer.job, offer.plan, offer.by)), expected);
                }
            }
            meanwhile
                .next()
                .into_iter()
                .for_each(|what| self.change(what));
        };
        prop_assert_eq!(&report, &round.report);
        let mut obeys = (0..32).cycle().map(|bit| obeys >> bit & 1 == 1);
        for job in placed {
            match obeys.next() {
                Some(true) => self.remove(job),
                _ => self.change((job.0, WaitingJobChange::LosesItsPlan)),
            }
        }
        for decision in report
            .decisions
            .into_iter()
            .filter(|_| obeys.next() == Some(true))
        {
            match decision {
                QueueDecision::GiveUp { job, .. } => self.forget_job(job),
                QueueDecision::Promote { job, to } => {
                    let known = self.list.jobs.get(&job).map(|job| job.waiting.clone());
                    if let Some(waiting) = known {
                        self.insert(WaitingJob {
                            priority: to,
                            entered: now,
                            ..waiting
                        });
                    }
                    self.clear_decision(job);
                }
            }
        }
        Ok(())
    }

    fn check_equal(&self) -> Result<(), TestCaseError> {
        let queues = &self.queues;
        let list = &self.list;
        for class in Priority::ALL {
            let line = list.jobs_of_class(class);
            prop_assert_eq!(
                queues.jobs_of_class(class).collect::<Vec<_>>(),
                line.clone()
            );
            prop_assert_eq!(queues.count_waiting(class), line.len());
            for (ahead, id) in line.into_iter().enumerate() {
                let job = &list.jobs[&id];
                let standing = QueueStanding {
                    priority: class,
                    ahead,
                    condition: job.condition,
                    tries: list.tries(id),
                    refusal: list.refusals.get(&job.waiting.request).cloned(),
                };
                prop_assert_eq!(queues.standing_of(id), Some(standing), "{}", id);
            }
        }
        let wakes = list.jobs.values().filter_map(|job| match job.condition {
            WaitingCondition::BackedOff(until) => Some(until),
            _ => None,
        });
        prop_assert_eq!(queues.next_wake(), wakes.min());
        let requests = list.jobs.values().map(|job| &job.waiting.request);
        let shapes: std::collections::BTreeSet<_> = requests.collect();
        prop_assert_eq!(queues.shape_count(), shapes.len());
        let mut conditions = list.jobs.values().map(|job| job.condition);
        prop_assert_eq!(
            queues.has_jobs_without_proposal(),
            conditions.any(|c| c != WaitingCondition::Offered)
        );
        prop_assert_eq!(queues.history(), &list.history);
        prop_assert_eq!(queues.active_withholding(), list.starvation_guard.as_ref());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Every plan, what is left after it, what is withheld and for whom, every report, and where
    /// each job stands.
    #[test]
    fn queues_go_the_way_of_a_list_of_jobs(
        parameters in parameters(), history in any_history(), shapes in any_shapes(),
        first in prop::collection::vec(any_change(), 0..12),
        steps in prop::collection::vec(any_step(), 1..24),
    ) {
        parameters.validate().unwrap();
        let queues = PlacementQueues::new(parameters.clone(), history.clone());
        let mut both = ComparedQueues { queues, list: PlainQueues::new(parameters, history), shapes };
        first.into_iter().for_each(|what| both.change(what));
        let mut now = Timestamp(3 * MINUTE);
        for (step, pause) in steps {
            now.0 += pause;
            match step {
                HistoryStep::Change(job, what) => both.change((job, what)),
                scan @ HistoryStep::Scan { .. } => both.compare_scan(scan, now)?,
            }
            both.check_equal()?;
        }
    }

    #[test]
    fn turns_are_those_of_the_cycle_written_out(
        parameters in parameters(),
        steps in prop::collection::vec((0..4usize, 1..25u64, prop::option::of(0..16u32)), 1..24),
    ) {
        let mut turns = QueueTurns::new(&parameters);
        let mut cycle = PlainCycle::new(&parameters);
        for (class, processors, occupied) in steps {
            let class = Priority::ALL[class];
            if let Some(occupied) = occupied {
                let has = |class: Priority| occupied >> class as u32 & 1 == 1;
                prop_assert_eq!(turns.take_turn_of_occupied(&parameters, has), cycle.take_turn(has));
            } else {
                turns.charge_placed(&parameters, class, processors);
                cycle.charge_placed(class, processors);
            }
            prop_assert_eq!(turns.current_class(&parameters), cycle.current_class());
            prop_assert_eq!(turns.upcoming_order(&parameters).to_vec(), cycle.upcoming_order());
            for class in Priority::ALL {
                let told = turns.has_credit(&parameters, class);
                prop_assert_eq!(told, cycle.has_credit(class), "{}", class);
            }
        }
    }
}
