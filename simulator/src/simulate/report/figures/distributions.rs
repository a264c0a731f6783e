//! The distributions of waits, response times and slowdowns: empirical distribution functions, one
//! curve for each label.

use super::axes::{self, AxisTick, LogAxis};
use super::drawing::{FigureDrawing, PathText, PixelArea, ReportFigure, TextAnchor};
use super::legend::{self, LegendSign};
use super::{LabelRuns, WIDTH};
use crate::simulate::report::number_format;
use crate::simulate::report::record::{JobEnding, RunJob};
use crate::simulate::report::stats::quantile;

/// Most curves in a panel.
const CURVES: usize = 18;
/// Height of a plot.
const PLOT_HEIGHT: f64 = 220.0;
/// Room left of a plot for its ticks.
const LEFT: f64 = 48.0;
/// Shortest time that the axes show, in seconds.
const LEAST_SECONDS: f64 = 1.0;
/// Marks on an axis of times; if there is no room for all, the first stay.
const TIMES: [(f64, &str); 10] = [
    (1.0, "1 s"),
    (60.0, "1 min"),
    (3_600.0, "1 h"),
    (86_400.0, "1 d"),
    (10.0, "10 s"),
    (600.0, "10 min"),
    (36_000.0, "10 h"),
    (864_000.0, "10 d"),
    (8_640_000.0, "100 d"),
    (86_400_000.0, "1000 d"),
];
/// Marks on an axis of ratios, likewise.
const RATIOS: [(f64, &str); 10] = [
    (1.0, "1"),
    (10.0, "10"),
    (100.0, "100"),
    (1e3, "1000"),
    (1e4, "10⁴"),
    (1e5, "10⁵"),
    (1e6, "10⁶"),
    (2.0, "2"),
    (5.0, "5"),
    (20.0, "20"),
];

/// A panel.
struct DistributionPanel {
    heading: &'static str,
    words: &'static str,
    marks: &'static [(f64, &'static str)],
    value: fn(&RunJob) -> Option<f64>,
}

/// The panels from left to right.
const PANELS: [DistributionPanel; 3] = [
    DistributionPanel {
        heading: "Wait",
        words: "submission to start, jobs that started",
        marks: &TIMES,
        value: |job| Some(job.wait()?.as_secs_f64()),
    },
    DistributionPanel {
        heading: "Response time",
        words: "submission to end, jobs done",
        marks: &TIMES,
        value: |job| Some(if_done(job)?.response()?.as_secs_f64()),
    },
    DistributionPanel {
        heading: "Bounded slowdown",
        words: "ratio, threshold 10 s, jobs done",
        marks: &RATIOS,
        value: |job| if_done(job)?.bounded_slowdown(),
    },
];

/// The figure with all runs of each label together.
pub(super) fn distributions_figure(groups: &[LabelRuns<'_>]) -> ReportFigure {
    let shown = &groups[..groups.len().min(CURVES)];
    let title = describe_figure(shown);
    let note = describe_runs(groups, shown.len());
    let mut drawing = FigureDrawing::new(WIDTH, &title, &note);
    let mut top = 50.0;
    if shown.len() > 1 {
        let entries: Vec<_> = shown
            .iter()
            .enumerate()
            .map(|(index, group): (usize, &LabelRuns<'_>)| {
                (
                    LegendSign::Curve(legend::curve_classes(index)),
                    group.label.clone(),
                )
            })
            .collect();
        top = legend::draw_legend(&mut drawing, &entries, top, WIDTH) + 4.0;
    }
    let width = (WIDTH - 12.0) / PANELS.len() as f64;
    let mut facts = Vec::new();
    for (index, panel) in PANELS.iter().enumerate() {
        let left = index as f64 * width + LEFT;
        let plot = PixelArea {
            left,
            top: top + 26.0,
            width: width - LEFT - 8.0,
            height: PLOT_HEIGHT,
        };
        facts.extend(draw_panel(&mut drawing, panel, shown, plot));
    }
    let description = format!("{title}. {note} {}", facts.join(" "));
    drawing.into_figure(
        "distributions",
        &title,
        &description,
        top + 26.0 + PLOT_HEIGHT + 44.0,
    )
}

/// Draws a panel with all its curves; returns what they show in words.
fn draw_panel(
    drawing: &mut FigureDrawing,
    panel: &DistributionPanel,
    groups: &[LabelRuns<'_>],
    plot: PixelArea,
) -> Vec<String> {
    let values: Vec<Vec<f64>> = groups
        .iter()
        .map(|group| sorted_values(group, panel.value))
        .collect();
    let greatest = values
        .iter()
        .filter_map(|values| values.last())
        .fold(10.0, |a, b| b.max(a));
    let axis = LogAxis::new(LEAST_SECONDS, greatest, plot.left, plot.width);
    drawing.add_text(
        (plot.left, plot.top - 8.0),
        TextAnchor::Start,
        "panel-title",
        panel.heading,
    );
    axes::draw_frame(drawing, plot, &share_ticks(plot));
    let ticks = axis.ticks(panel.marks);
    axes::draw_upright_lines(drawing, plot, &ticks);
    if plot.left < LEFT + 1.0 {
        drawing.add_upward_text(
            (10.0, plot.top + plot.height / 2.0),
            "% of jobs at or below",
        );
    }
    let mut facts = Vec::new();
    for (index, (group, values)) in groups.iter().zip(&values).enumerate() {
        let fact = describe_curve(panel, group, values);
        drawing.add_path(
            &legend::curve_classes(index),
            &distribution_curve(values, axis, plot),
            Some(&fact),
        );
        facts.push(fact);
    }
    axes::draw_base(drawing, plot, &ticks);
    let at = (plot.left + plot.width / 2.0, plot.bottom() + 34.0);
    drawing.add_text(at, TextAnchor::Middle, "note", panel.words);
    facts
}

/// The distribution function of sorted values, one step for each pixel column.
fn distribution_curve(sorted: &[f64], axis: LogAxis, plot: PixelArea) -> PathText {
    let mut path = PathText::default();
    for (index, value) in sorted.iter().enumerate() {
        let here = (axis.x(*value) - plot.left).round();
        if index == 0 {
            path.move_to(plot.left + here, plot.bottom());
        }
        let is_last_here = sorted
            .get(index + 1)
            .is_none_or(|next| (axis.x(*next) - plot.left).round() > here);
        if is_last_here {
            path.line_across(plot.left + here);
            let share = (index + 1) as f64 / sorted.len() as f64;
            path.line_upright(plot.bottom() - share * plot.height);
        }
    }
    if !sorted.is_empty() {
        path.line_across(plot.right());
    }
    path
}

/// The values of a label's jobs in order.
fn sorted_values(group: &LabelRuns<'_>, value: fn(&RunJob) -> Option<f64>) -> Vec<f64> {
    let jobs = group.runs.iter().flat_map(|run| &run.jobs);
    let mut values: Vec<f64> = jobs.filter_map(value).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The job, if it ended well.
fn if_done(job: &RunJob) -> Option<&RunJob> {
    (job.ending == JobEnding::Done).then_some(job)
}

/// Ticks at quarters of the jobs.
fn share_ticks(plot: PixelArea) -> Vec<AxisTick> {
    (0..=4)
        .map(|quarter: u32| AxisTick {
            position: plot.bottom() - f64::from(quarter) / 4.0 * plot.height,
            label: (quarter * 25).to_string(),
        })
        .collect()
}

/// Describes a curve in words.
fn describe_curve(panel: &DistributionPanel, group: &LabelRuns<'_>, values: &[f64]) -> String {
    format!(
        "{}, {}: median {}, 95th percentile {} ({}).",
        panel.heading,
        group.label,
        show_value(panel, quantile(values, 0.5)),
        show_value(panel, quantile(values, 0.95)),
        number_format::count_noun(values.len() as u64, "job"),
    )
}

fn show_value(panel: &DistributionPanel, value: f64) -> String {
    if panel.marks == TIMES {
        number_format::format_seconds(value)
    } else {
        number_format::format_number(value)
    }
}

/// Describes what the figure shows.
fn describe_figure(groups: &[LabelRuns<'_>]) -> String {
    let medians: Vec<Option<f64>> = groups.iter().map(median_wait).collect();
    match (groups, &medians[..]) {
        ([_], [Some(median)]) => {
            format!(
                "Half of the jobs waited {} or less",
                number_format::format_seconds(*median)
            )
        }
        ([first, second], [Some(a), Some(b)]) => format!(
            "Half of the jobs waited at most {} with {}, {} with {}",
            number_format::format_seconds(*a),
            number_format::cut_text(&first.label, 24),
            number_format::format_seconds(*b),
            number_format::cut_text(&second.label, 24),
        ),
        _ => "Waits, response times and slowdowns of the jobs".to_owned(),
    }
}

/// Median wait of a label, if any of its jobs started.
fn median_wait(group: &LabelRuns<'_>) -> Option<f64> {
    let waits = sorted_values(group, PANELS[0].value);
    (!waits.is_empty()).then(|| quantile(&waits, 0.5))
}

/// Describes the runs and the method.
fn describe_runs(groups: &[LabelRuns<'_>], curves: usize) -> String {
    let runs: usize = groups.iter().map(|group| group.runs.len()).sum();
    let pooled = if runs > groups.len() {
        "Seeds of a label are pooled. "
    } else {
        ""
    };
    let left_out = match groups.len() - curves {
        0 => String::new(),
        more => format!(" {more} more labels are left out."),
    };
    let same = coinciding_labels(&groups[..curves]);
    format!(
        "{pooled}Logarithmic axes; values below one second are at the left end.{same}{left_out}"
    )
}

/// Names the labels whose curves coincide everywhere, in words.
fn coinciding_labels(groups: &[LabelRuns<'_>]) -> String {
    let mut classes: Vec<([Vec<f64>; 3], Vec<&str>)> = Vec::new();
    for group in groups {
        let values = PANELS
            .each_ref()
            .map(|panel| sorted_values(group, panel.value));
        match classes.iter_mut().find(|(of, _)| *of == values) {
            Some((_, labels)) => labels.push(group.label.as_str()),
            None => classes.push((values, vec![group.label.as_str()])),
        }
    }
    let several = classes.iter().filter(|(_, labels)| labels.len() > 1);
    several
        .map(|(_, labels)| format!(" {} coincide.", labels.join(" and ")))
        .collect()
}
