//! Splits that must keep bounds, and the choice between shapes.

use proptest::prelude::*;

use super::tests::{job_shape, meta_job, site, timeline};
use super::*;
use crate::placement::bounded_split::split_largest_first;
use crate::units::Timestamp;

fn planned_sizes(job: &MetaJob, free: &[u32], turn: usize) -> Option<Vec<u32>> {
    let names: Vec<_> = (0..free.len()).map(|at| site(&format!("s{at}"))).collect();
    let sites: Vec<_> = free
        .iter()
        .map(|free| timeline(64, &[(64 - free, 0, 1_000)]))
        .collect();
    let offers: Vec<_> = names
        .iter()
        .zip(&sites)
        .map(|(name, time)| OfferingSite { name, time })
        .collect();
    let plan = plan_in_shape(job, 0, &offers, turn, Timestamp(0))?;
    Some(names.iter().map(|name| plan.processors_at(name)).collect())
}

#[test]
fn f_14_a_part_is_not_smaller_than_its_least_and_there_are_no_more_than_allowed() {
    let bounded = |least, most| MetaJob {
        latest: Timestamp(0),
        bounds: SplitBounds { least, most },
        ..meta_job(12, 10, 0, 0)
    };
    assert_eq!(
        planned_sizes(&bounded(1, 9), &[10, 4, 6], 0),
        Some(vec![10, 2, 0])
    );
    assert_eq!(
        planned_sizes(&bounded(4, 9), &[10, 4, 6], 0),
        Some(vec![8, 4, 0])
    );
    assert_eq!(
        planned_sizes(&bounded(1, 2), &[3, 5, 7, 8], 0),
        Some(vec![0, 0, 7, 5]),
        "the largest"
    );
    assert_eq!(planned_sizes(&bounded(1, 2), &[3, 5, 6, 5], 0), None);
    assert_eq!(planned_sizes(&bounded(7, 2), &[10, 10], 0), None);
}

#[test]
fn the_shape_that_is_complete_first_is_chosen_and_then_that_on_fewer_sites() {
    let mut job = meta_job(8, 100, 20, 0);
    job.shapes.push(job_shape(4, 150));
    let a = site("A");
    let b = site("B");
    let chosen = |taken: u64| {
        let left = timeline(4, &[]);
        let right = timeline(4, &[(4, 0, taken)]);
        let offers = [
            OfferingSite {
                name: &a,
                time: &left,
            },
            OfferingSite {
                name: &b,
                time: &right,
            },
        ];
        let plan = plan_best_shape(&job, &offers, 0, Timestamp(0)).unwrap();
        (plan.shape, plan.completion)
    };
    assert_eq!(chosen(0), (0, Timestamp(120)));
    assert_eq!(chosen(30), (1, Timestamp(150)), "as early on fewer sites");
    assert_eq!(chosen(60), (1, Timestamp(150)));
}

#[test]
fn what_sites_keep_beside_the_run_time_has_no_overhead() {
    let job = MetaJob {
        beside: crate::units::DurationMs(7),
        ..meta_job(8, 100, 20, 0)
    };
    assert_eq!(job.run_time_on(&job.shapes[0], 1).0, 107);
    assert_eq!(job.run_time_on(&job.shapes[0], 2).0, 127);
    assert_eq!(job.longest_run().0, 127);
}

#[test]
fn a_site_offers_no_more_than_may_be_had_and_nothing_before_input_is_there() {
    let name = site("A");
    let time = LimitedFreeTime {
        time: timeline(10, &[(3, 0, 20)]),
        processors: 8,
        from: Timestamp(40),
    };
    let offers = [OfferingSite {
        name: &name,
        time: &time,
    }];
    let start = |processors| {
        plan_in_shape(&meta_job(processors, 10, 0, 0), 0, &offers, 0, Timestamp(0))
            .map(|plan| plan.start)
    };
    assert_eq!(start(8), Some(Timestamp(40)));
    assert_eq!(start(9), None);
}

proptest! {
    /// Cluster Minimization finds a split exactly when there is one.
    #[test]
    fn a_split_within_bounds_is_found_exactly_when_there_is_one(
        total in 1..60u32, least in 1..8u32, most in 1..6usize, turn in 0..5usize,
        free in prop::collection::vec(0..30u32, 1..6),
    ) {
        let bounds = SplitBounds { least, most };
        let job = MetaJob { latest: Timestamp(0), bounds, ..meta_job(total, 10, 0, 0) };
        let found = planned_sizes(&job, &free, turn);
        let mut usable = free.clone();
        usable.sort_unstable_by(|a, b| b.cmp(a));
        let in_one = usable[0] >= total;
        let expected = in_one || !split_largest_first(total, least, most, &usable).is_empty();
        prop_assert_eq!(found.is_some(), expected, "{:?}", found);
        if let Some(parts) = found.filter(|_| !in_one) {
            prop_assert_eq!(parts.iter().sum::<u32>(), total);
            let given: Vec<_> = parts.iter().zip(&free).filter(|(part, _)| **part > 0).collect();
            prop_assert!(given.len() <= most);
            prop_assert!(given.iter().all(|(part, free)| **part >= least && part <= free));
        }
    }
}
