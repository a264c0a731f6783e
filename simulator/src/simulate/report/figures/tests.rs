//! Scales, lanes, and the size of figures.

use std::collections::BTreeMap;

use cospan_domain::units::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

use super::axes::{LogAxis, TimeAxis, round_scale};
use super::drawing::{PixelArea, escape_xml, format_px};
use super::gantt_rows::{assign_processors, total_size};
use super::{all_figures, file_slug};
use crate::simulate::report::record::{
    GanttBar, LoadKind, LoadUseStep, QueueStep, RunRecord, SiteTrace,
};
use crate::simulate::report::step_function::ReportSpan;

const PLOT: PixelArea = PixelArea {
    left: 50.0,
    top: 0.0,
    width: 800.0,
    height: 100.0,
};

fn bar(from: u64, to: u64, processors: u32, job: u64) -> GanttBar {
    let from = Timestamp(from);
    let to = Timestamp(to);
    GanttBar {
        from,
        to,
        processors,
        kind: LoadKind::GridRun,
        job: Some(job),
        component: Some(0),
    }
}

fn bars() -> impl Strategy<Value = Vec<GanttBar>> {
    vec((0u64..300, 1u64..60, 1u32..10), 0..60).prop_map(|all| {
        let mut bars: Vec<GanttBar> = (0..)
            .zip(all)
            .map(|(job, (from, length, wide))| bar(from, from + length, wide, job / 2))
            .collect();
        bars.sort_by_key(|bar| bar.from);
        bars
    })
}

/// A run of one site with a new bar, load and queue each millisecond or faster.
fn crowded(bars: u64, sites: usize) -> RunRecord {
    RunRecord {
        label: "crowded".to_owned(),
        seed: 0,
        began: Timestamp(0),
        ended: Timestamp(bars),
        sites: (0..sites)
            .map(|n: usize| SiteTrace {
                name: format!("site {n}"),
                processors: 997,
                load: (0..bars)
                    .map(|at| LoadUseStep {
                        at: Timestamp(at),
                        running: (at * 7 % 300) as u32,
                        held: (at * 11 % 300) as u32,
                        local: (at * 13 % 300) as u32,
                        down: (at * 5 % 97) as u32,
                    })
                    .collect(),
                bars: (0..bars)
                    .map(|at| bar(at / 9, at / 9 + 3, (at % 41) as u32, at))
                    .collect(),
                bars_dropped: 3,
                bookings: Vec::new(),
                local_days: Vec::new(),
            })
            .collect(),
        attempts: Vec::new(),
        queue: (0..bars)
            .map(|at| QueueStep {
                at: Timestamp(at),
                waiting: (at * 31 % 1009) as u32,
            })
            .collect(),
        jobs: Vec::new(),
        counters: BTreeMap::new(),
    }
}

#[test]
fn figures_stay_small_however_much_happens() {
    for run in [crowded(20_000, 1), crowded(2_000, 40)] {
        for figure in all_figures(&[run]) {
            let bytes = figure.to_standalone_svg().len();
            assert!(bytes < 300_000, "{}: {bytes} bytes", figure.name);
        }
    }
}

#[test]
fn a_gantt_chart_stays_small_when_bars_fall_to_pieces_or_come_all_at_once() {
    let mut pieces = crowded(20, 1);
    pieces.ended = Timestamp(1_000);
    pieces.sites[0].processors = 400;
    pieces.sites[0].bars = (0..400).map(|n| bar(0, 10 + n % 2 * 990, 1, n)).collect();
    pieces.sites[0]
        .bars
        .extend((400..900).map(|n| bar(n, n + 1, 200, n)));
    let mut at_once = crowded(20, 16);
    at_once.sites.iter_mut().for_each(|site| {
        site.bars = (0..900).map(|n| bar(0, 20, 1, n)).collect();
    });
    for (run, left_out) in [(pieces, false), (at_once, true)] {
        let figures = all_figures(&[run]);
        let gantt = figures
            .iter()
            .find(|figure| figure.name.starts_with("gantt"))
            .unwrap();
        assert!(
            gantt.to_standalone_svg().len() < 300_000,
            "{} bytes",
            gantt.to_standalone_svg().len()
        );
        assert_eq!(
            gantt.description.contains("at the same time left out"),
            left_out
        );
    }
}

#[test]
fn a_component_runs_where_it_was_held() {
    let mut bars = [
        bar(0, 10, 4, 1),
        bar(0, 10, 4, 2),
        bar(10, 20, 4, 2),
        bar(10, 20, 4, 1),
    ];
    bars[0].kind = LoadKind::GridHold;
    let places = assign_processors(&bars.iter().collect::<Vec<_>>(), 8);
    assert_eq!(places[0], places[3]);
    assert_eq!(places[1], places[2]);
}

#[test]
fn ticks_of_time_are_round_and_near_the_begin_of_a_run_plain() {
    let hours = |n: u64| Timestamp(n * 3_600_000);
    let day = ReportSpan {
        from: hours(0),
        to: hours(24),
    };
    let (unit, ticks) = TimeAxis::new(day, day, PLOT).ticks();
    let labels: Vec<&str> = ticks.iter().map(|tick| tick.label.as_str()).collect();
    assert_eq!((unit, &labels[..4]), ("h", &["0", "2", "4", "6"][..]));
    let late = ReportSpan {
        from: hours(500),
        to: hours(502),
    };
    let ticks = TimeAxis::new(
        late,
        ReportSpan {
            to: hours(600),
            ..day
        },
        PLOT,
    )
    .ticks()
    .1;
    assert_eq!(ticks[0].label, "20d 20:00");
}

#[test]
fn what_is_below_a_logarithmic_axis_lies_at_its_begin() {
    let axis = LogAxis::new(1.0, 1_000.0, 0.0, 300.0);
    assert_eq!(axis.x(0.0), 0.0);
    assert!((axis.x(10.0) - 100.0).abs() < 1e-9);
    assert!((axis.x(1e9) - 300.0).abs() < 1e-9);
    let ticks = axis.ticks(&[(1.0, "1"), (1.01, "1.01"), (1e6, "10⁶")]);
    assert_eq!(ticks.len(), 1, "no label over another or off the axis");
}

#[test]
fn names_and_numbers_suit_files_and_xml() {
    assert_eq!(file_slug("Worst fit / 30 s"), "worst-fit-30-s");
    assert_eq!(file_slug("../ö"), "run");
    assert_eq!(
        escape_xml("<a & \"b\">\u{1}"),
        "&lt;a &amp; &quot;b&quot;&gt;\u{fffd}"
    );
    assert_eq!(
        [
            format_px(1.0),
            format_px(1.26),
            format_px(-0.01),
            format_px(f64::NAN)
        ],
        ["1", "1.3", "0", "0"]
    );
}

proptest! {
    #[test]
    fn bars_of_one_time_never_share_a_processor(bars in bars(), processors in 1u32..60) {
        let bars: Vec<&GanttBar> = bars.iter().collect();
        let places = assign_processors(&bars, processors);
        for (index, (bar, blocks)) in bars.iter().zip(&places).enumerate() {
            let mut taken = vec![false; processors as usize];
            let before = (0..index).filter(|earlier| bars[*earlier].to > bar.from);
            for block in before.flat_map(|earlier| &places[earlier]).chain(blocks) {
                for processor in block.clone() {
                    prop_assert!(!taken[processor as usize], "two bars on {processor}");
                    taken[processor as usize] = true;
                }
            }
            let free = taken.iter().filter(|taken| !**taken).count() as u32;
            prop_assert!(total_size(blocks) == bar.processors || free == 0, "a bar found no room");
        }
    }

    #[test]
    fn a_scale_holds_its_greatest_value_in_few_steps(greatest: u64, most in 1u64..8) {
        let (end, step) = round_scale(greatest / 40, most);
        prop_assert!(end >= greatest / 40 && end / step <= most);
        prop_assert_eq!(end % step, 0);
    }
}
