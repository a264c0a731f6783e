//! The tree beside a model that writes down what is free at every instant.

use proptest::prelude::*;

use super::*;
use crate::units::DurationMs;

/// What is free at each instant; at the last one, for ever.
#[derive(Debug, Clone)]
struct TimelineModel {
    start: usize,
    free: Vec<ResourceAmounts>,
}

impl TimelineModel {
    fn add(&mut self, from: u64, to: u64, change: &ResourceAmounts) {
        let end = self.free.len();
        let to = usize::try_from(to).unwrap_or(end).min(end);
        for free in self.free[..to]
            .iter_mut()
            .skip(self.start.max(from as usize))
        {
            *free = free.plus(change);
        }
    }

    fn at(&self, at: u64) -> ResourceAmounts {
        self.free[(at as usize).clamp(self.start, self.free.len() - 1)]
    }

    fn free_bounds(&self, from: u64, to: u64) -> (ResourceAmounts, ResourceAmounts) {
        let last = to.min(self.free.len() as u64 + from);
        let all = (from + 1..last).map(|at| self.at(at));
        all.fold((self.at(from), self.at(from)), |(l, m), free| {
            (l.min(&free), m.max(&free))
        })
    }

    fn earliest_opening(&self, wanted: &OpeningRequest) -> Option<Timestamp> {
        let end = self.free.len() as u64;
        let last = wanted.before.0.min(end.max(wanted.from.0) + 1);
        (wanted.from.0..last)
            .find(|&at: &u64| {
                let to = at
                    .saturating_add(wanted.length.0)
                    .min(wanted.until.0)
                    .max(at + 1);
                self.free_bounds(at, to.min(end + at))
                    .0
                    .covers_need(&wanted.need)
            })
            .map(Timestamp)
    }

    /// By its definition: a span and its least number of processors, unless it could be longer.
    fn slots(&self, from: u64, to: u64) -> Vec<TimelineSlot> {
        let mut slots = Vec::new();
        for begin in from..to {
            for end in begin + 1..=to {
                let least = self.free_bounds(begin, end).0;
                let processors = least.free_processor_count();
                let grows = |at: u64| self.at(at).free_processor_count() >= processors;
                let is_longest = (begin == from || !grows(begin - 1)) && (end == to || !grows(end));
                if is_longest && processors > 0 {
                    let free = ResourceAmounts(least.0.map(|amount| amount.max(0)));
                    slots.push(TimelineSlot {
                        span: span(begin, end),
                        free,
                    });
                }
            }
        }
        slots
    }
}

fn span(from: u64, to: u64) -> TimeSpan {
    TimeSpan::new(Timestamp(from), Timestamp(to))
}

fn amounts(processors: i64, gpus: i64) -> ResourceAmounts {
    let mut amounts = ResourceAmounts::default();
    (amounts.0[0], amounts.0[1]) = (processors, gpus);
    amounts
}

fn capacity(processors: u32, gpus: u64) -> Resources {
    Resources {
        processors,
        others: [("gpus".into(), gpus)].into(),
    }
}

fn timeline_and_model(instants: usize) -> (Timeline, TimelineModel) {
    let timeline = Timeline::new(Timestamp(0), &capacity(20, 6)).unwrap();
    (
        timeline,
        TimelineModel {
            start: 0,
            free: vec![amounts(20, 6); instants],
        },
    )
}

#[derive(Debug, Clone, Copy)]
enum TimelineStep {
    Add(u64, u64, ResourceAmounts),
    Undo(usize),
    Advance(u64),
    Snapshot,
}

fn any_steps(instants: u64, count: usize) -> impl Strategy<Value = Vec<TimelineStep>> {
    let lengths = prop_oneof![8 => 0..instants / 8, 1 => 0..instants, 1 => Just(u64::MAX)];
    let add = (0..instants, lengths, -9i64..4, -3i64..2).prop_map(move |(from, length, p, g)| {
        // What lasts beyond the model's instants lasts for ever.
        let to = Some(from.saturating_add(length)).filter(|to| *to < instants);
        TimelineStep::Add(from, to.unwrap_or(u64::MAX), amounts(p, g))
    });
    let step = prop_oneof![
        12 => add,
        6 => any::<usize>().prop_map(TimelineStep::Undo),
        1 => (0..instants / 2).prop_map(TimelineStep::Advance),
        1 => Just(TimelineStep::Snapshot),
    ];
    prop::collection::vec(step, 1..count)
}

fn any_opening(instants: u64) -> impl Strategy<Value = OpeningRequest> {
    let ends = || prop_oneof![2 => Just(u64::MAX), 1 => 0..instants + 9];
    let times = (0..instants + 5, ends(), ends());
    (times, 0u64..40, -1i64..22, -1i64..7).prop_map(|((from, before, until), length, p, g)| {
        OpeningRequest {
            need: amounts(p, g),
            length: DurationMs(length),
            from: Timestamp(from),
            before: Timestamp(before),
            until: Timestamp(until),
        }
    })
}

/// Runs a history on both; returns them as they were at the snapshots, and as they are.
fn run_steps(steps: &[TimelineStep], instants: usize) -> Vec<(Timeline, TimelineModel)> {
    let (mut timeline, mut model) = timeline_and_model(instants);
    let mut added = Vec::new();
    let mut kept = Vec::new();
    for step in steps {
        match *step {
            TimelineStep::Add(from, to, change) => {
                added.push((from, to, change));
                timeline.add_amounts(span(from, to), &change);
                model.add(from, to, &change);
            }
            TimelineStep::Undo(which) if !added.is_empty() => {
                let (from, to, change) = added.swap_remove(which % added.len());
                timeline.book(span(from, to), &change);
                model.add(from, to, &change.negated());
            }
            TimelineStep::Undo(_) => {}
            TimelineStep::Advance(now) => {
                timeline.forget_before(Timestamp(now));
                model.start = model.start.max(now as usize);
            }
            TimelineStep::Snapshot => kept.push((timeline.clone(), model.clone())),
        }
    }
    kept.push((timeline, model));
    kept
}

/// Each step of both, from the model's start on.
fn matches_model(timeline: &Timeline, model: &TimelineModel) -> bool {
    let start = model.start as u64;
    let end = model.free.len() as u64;
    let mut expected = Vec::new();
    let mut found = Vec::new();
    for at in start..end {
        if at == start || model.at(at) != model.at(at - 1) {
            expected.push((Timestamp(at), model.at(at)));
        }
    }
    let all = timeline.visit_steps(span(start, u64::MAX), |at, free| {
        found.push((at, free));
        ControlFlow::<()>::Continue(())
    });
    assert!(all.is_continue());
    expected == found
}

proptest! {
    #[test]
    fn any_history_leaves_what_a_plain_model_says_and_so_do_its_snapshots(
        steps in any_steps(300, 160)
    ) {
        for (timeline, model) in run_steps(&steps, 300) {
            prop_assert!(matches_model(&timeline, &model), "{timeline:?}");
        }
    }

    #[test]
    fn the_earliest_start_is_the_first_one_that_fits(
        steps in any_steps(300, 160), wanted in prop::collection::vec(any_opening(300), 8)
    ) {
        let (timeline, model) = run_steps(&steps, 300).pop().unwrap();
        for mut wanted in wanted {
            wanted.from = wanted.from.max(Timestamp(model.start as u64));
            prop_assert_eq!(timeline.earliest_start(&wanted), model.earliest_opening(&wanted), "{:?}", wanted);
        }
    }

    #[test]
    fn least_and_most_are_those_of_the_instants_between(
        steps in any_steps(300, 160), from in 0u64..310, length in 0u64..200
    ) {
        let (timeline, model) = run_steps(&steps, 300).pop().unwrap();
        let from = from.max(model.start as u64);
        let range = timeline.free_bounds(span(from, from + length));
        prop_assert_eq!(range, model.free_bounds(from, from + length));
    }

    #[test]
    fn slots_are_all_the_spans_that_cannot_be_longer(
        steps in any_steps(40, 40), from in 0u64..20, length in 0u64..20, most in 1usize..30
    ) {
        let (timeline, model) = run_steps(&steps, 40).pop().unwrap();
        let from = from.max(model.start as u64);
        let mut expected = model.slots(from, from + length);
        expected.truncate(most);
        prop_assert_eq!(timeline.slots(span(from, from + length), most), expected);
    }
}

/// Numbers in no order, the same every time.
fn pseudo_random_numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 7u64;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn a_tree_of_many_levels_holds_what_the_model_holds() {
    let mut draw = pseudo_random_numbers();
    let instants = 31_000;
    let (mut timeline, mut model) = timeline_and_model(instants);
    let mut booked = Vec::new();
    for turn in 0..6_000 {
        let from = draw(30_000);
        let length = 1 + draw(300);
        let when = (from, from + length);
        let what = amounts(draw(9) as i64, draw(3) as i64);
        timeline.book(span(when.0, when.1), &what);
        model.add(when.0, when.1, &what.negated());
        booked.push((when, what));
        if turn % 1_000 == 999 {
            assert!(matches_model(&timeline, &model), "after {turn} bookings");
        }
    }
    while let Some((when, what)) = booked.pop() {
        timeline.release(span(when.0, when.1), &what);
        model.add(when.0, when.1, &what);
        if booked.len() % 1_000 == 0 {
            assert!(
                matches_model(&timeline, &model),
                "with {} bookings left",
                booked.len()
            );
        }
    }
    let second = timeline.visit_steps(span(0, u64::MAX), |at, _| {
        if at > Timestamp(0) {
            ControlFlow::Break(at)
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(
        second.break_value(),
        None,
        "what is given back leaves no trace"
    );
    assert_eq!(timeline.root.depth(), 1);
}

#[test]
fn a_booking_costs_at_most_250_bytes() {
    let mut draw = pseudo_random_numbers();
    let kinds = Resources {
        others: [("gpus".into(), 6), ("memory".into(), 99)].into(),
        ..capacity(20, 0)
    };
    let mut timeline = Timeline::new(Timestamp(0), &kinds).unwrap();
    let mut booked = Vec::new();
    for turn in 0..30_000u64 {
        // As time goes by, the oldest go and new ones come.
        let from = turn * 100 + draw(1_000_000);
        let when = span(from, from + 1 + draw(50_000));
        timeline.book(when, &amounts(1, 1));
        booked.push(when);
        if turn >= 10_000 {
            timeline.release(booked.swap_remove(draw(10_000) as usize), &amounts(1, 1));
        }
    }
    let bytes = timeline.root.memory_bytes() / booked.len();
    assert!(bytes <= 250, "{bytes} bytes a booking");
}

#[test]
fn what_the_site_does_not_have_is_no_amount_of_its_timeline() {
    let timeline = Timeline::new(Timestamp(0), &capacity(8, 2)).unwrap();
    let memory = Resources {
        processors: 1,
        others: [("memory".into(), 1)].into(),
    };
    let error = timeline.to_amounts(&memory).unwrap_err();
    assert_eq!(error.to_string(), "the site has no memory");
    let none = Resources {
        processors: 1,
        others: [("memory".into(), 0)].into(),
    };
    assert_eq!(
        timeline.to_amounts(&none),
        Ok(amounts(1, 0)),
        "none of it is no need"
    );
    assert!(matches!(
        timeline.to_amounts(&capacity(1, u64::MAX)),
        Err(ResourceKindsError::TooMuch { .. })
    ));
    let many = (0..KINDS_MAX)
        .map(|kind| (kind.to_string().into(), 1))
        .collect();
    let many = Resources {
        processors: 1,
        others: many,
    };
    assert!(matches!(
        Timeline::new(Timestamp(0), &many),
        Err(ResourceKindsError::TooMany { count: 9 })
    ));
    assert_eq!(
        timeline.kinds().to_resources(&amounts(-1, 2)),
        capacity(0, 2)
    );
}

#[test]
fn a_need_of_nothing_is_met_where_more_is_promised_than_there_is() {
    let mut timeline = Timeline::new(Timestamp(0), &capacity(8, 2)).unwrap();
    timeline.add_amounts(span(0, u64::MAX), &amounts(0, -5));
    let wanted = OpeningRequest::after(Timestamp(3), amounts(8, 0), DurationMs(1_000));
    assert_eq!(timeline.earliest_start(&wanted), Some(Timestamp(3)));
    assert_eq!(
        timeline.earliest_start(&OpeningRequest {
            need: amounts(8, 1),
            ..wanted
        }),
        None
    );
}
