//! Reducing step functions to columns.

use cospan_domain::units::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

use crate::simulate::report::QueueStep;
use crate::simulate::report::step_function::{
    ReportSpan, column_lines, column_means, segments, time_means,
};

const SPAN: ReportSpan = ReportSpan {
    from: Timestamp(100),
    to: Timestamp(1_100),
};

fn steps() -> impl Strategy<Value = Vec<QueueStep>> {
    vec((0u64..1_300, 0u32..50), 0..200).prop_map(|mut steps| {
        steps.sort_by_key(|step| step.0);
        steps
            .iter()
            .map(|(at, waiting)| QueueStep {
                at: Timestamp(*at),
                waiting: *waiting,
            })
            .collect()
    })
}

/// The value at every millisecond of the span, by brute force.
fn each_ms(steps: &[QueueStep]) -> Vec<Option<u32>> {
    (SPAN.from.0..SPAN.to.0)
        .map(|ms: u64| {
            steps
                .iter()
                .rev()
                .find(|step| step.at.0 <= ms)
                .map(|step| step.waiting)
        })
        .collect()
}

#[test]
fn a_step_outside_the_span_is_cut_off() {
    let step = |at, waiting| QueueStep {
        at: Timestamp(at),
        waiting,
    };
    let steps = [step(0, 4), step(600, 8), step(2_000, 99)];
    let held: Vec<_> = segments(&steps, SPAN)
        .map(|(s, v)| (s.length_ms(), v.waiting))
        .collect();
    assert_eq!(held, [(500, 4), (500, 8)]);
    assert_eq!(time_means(&steps, SPAN, |step| [step.waiting]), [6.0]);
}

proptest! {
    #[test]
    fn columns_keep_the_area(steps in steps(), columns in 1usize..60) {
        let brute: u64 = each_ms(&steps).into_iter().flatten().map(u64::from).sum();
        let [mean] = time_means(&steps, SPAN, |step| [step.waiting]);
        let by_column = column_means(&steps, SPAN, columns, |step| [step.waiting]);
        let sum: f64 = by_column.iter().map(|column| column[0]).sum();
        prop_assert!((mean - brute as f64 / 1_000.0).abs() < 1e-6);
        prop_assert!((sum / columns as f64 - mean).abs() < 1e-6);
    }

    #[test]
    fn downsampling_keeps_the_extremes_of_every_column(steps in steps(), columns in 1usize..60) {
        let values = each_ms(&steps);
        let lines = column_lines(&steps, SPAN, columns, |step| step.waiting);
        for column in 0..columns {
            let bound = |n: usize| (n * 1_000).div_ceil(columns);
            let from = bound(column);
            let to = bound(column + 1);
            // The pen enters a column at the value of the column before.
            let seen: Vec<u32> =
                values[from.saturating_sub(1)..to].iter().copied().flatten().collect();
            let entered = from.checked_sub(1).and_then(|before| values[before]);
            let line = lines.iter().find(|line| line.column == column);
            let most = entered.into_iter().chain(line.map(|line| line.greatest)).max();
            let least = entered.into_iter().chain(line.map(|line| line.least)).min();
            prop_assert_eq!(most, seen.iter().copied().max());
            prop_assert_eq!(least, seen.iter().copied().min());
            prop_assert_eq!(line.map(|line| line.last).or(entered), seen.last().copied());
        }
        let most = lines.iter().map(|line| line.greatest).max();
        let least = lines.iter().map(|line| line.least).min();
        prop_assert_eq!(most, values.iter().copied().flatten().max());
        prop_assert_eq!(least, values.iter().copied().flatten().min());
    }
}
