//! Jobs that wait for placement, over time.

use cospan_domain::units::{DurationMs, Timestamp};

use super::axes::{self, TimeAxis};
use super::drawing::{FigureDrawing, PathText, PixelArea, ReportFigure, TextAnchor};
use super::{LABEL_CHARS, LabelRuns, WIDTH, legend};
use crate::simulate::report::number_format;
use crate::simulate::report::record::RunRecord;
use crate::simulate::report::step_function::{ColumnLine, ReportSpan, column_lines, time_means};

/// Height of the plot of a single label.
const ALONE_HEIGHT: f64 = 210.0;
/// Height of each plot of several labels.
const PLOT_HEIGHT: f64 = 110.0;
/// Most labels, so that the file stays small and the picture readable.
const PANELS: usize = 8;

/// The figure with a panel for each label, all of the same scales.
pub(super) fn queue_figure(groups: &[LabelRuns<'_>]) -> ReportFigure {
    let shown = &groups[..groups.len().min(PANELS)];
    let title = describe_figure(shown);
    let note = describe_runs(groups, shown.len());
    let mut drawing = FigureDrawing::new(WIDTH, &title, &note);
    let height = if shown.len() == 1 {
        ALONE_HEIGHT
    } else {
        PLOT_HEIGHT
    };
    let mut plot = PixelArea {
        left: 62.0,
        top: 70.0,
        width: WIDTH - 76.0,
        height,
    };
    let longest_ms = shown
        .iter()
        .map(|group| group.shown_run().span().length_ms())
        .max()
        .unwrap_or(0);
    let most = shown
        .iter()
        .map(|group| longest_queue(group.shown_run()))
        .max()
        .unwrap_or(0);
    for (index, group) in shown.iter().enumerate() {
        plot.top = 70.0 + index as f64 * (height + 34.0);
        draw_panel(&mut drawing, group, index, plot, (longest_ms, most));
    }
    let whole = ReportSpan {
        from: Timestamp(0),
        to: Timestamp(longest_ms),
    };
    TimeAxis::new(whole, whole, plot).draw_axis(&mut drawing, plot);
    let description = format!("{title}. {note} Time runs to the right, jobs waiting upwards.");
    drawing.into_figure(
        "queue",
        &title,
        &description,
        plot.bottom() + TimeAxis::HEIGHT,
    )
}

/// Draws the panel of a label. `scales` are the longest time in milliseconds and the longest queue
/// of all labels.
fn draw_panel(
    drawing: &mut FigureDrawing,
    group: &LabelRuns<'_>,
    index: usize,
    plot: PixelArea,
    (longest_ms, most): (u64, u32),
) {
    let run = group.shown_run();
    let [mean] = time_means(&run.queue, run.span(), |step| [step.waiting]);
    let heading = format!(
        "{}: {} on average, at most {}",
        group.label,
        number_format::format_number(mean),
        number_format::format_count(longest_queue(run).into())
    );
    drawing.add_text(
        (plot.left, plot.top - 8.0),
        TextAnchor::Start,
        "panel-title",
        &heading,
    );
    let (end, step) = axes::round_scale(u64::from(most), (plot.height / 30.0) as u64);
    axes::draw_frame(drawing, plot, &axes::upright_ticks(end, step, plot));
    drawing.add_upward_text((14.0, plot.top + plot.height / 2.0), "jobs waiting");
    let span = ReportSpan {
        from: run.began,
        to: run.began + DurationMs(longest_ms),
    };
    let share = run.span().length_ms() as f64 / longest_ms.max(1) as f64;
    let lines = column_lines(&run.queue, span, plot.width as usize, |step| step.waiting);
    let path = step_curve(
        &lines,
        plot.left,
        plot.left + share * plot.width,
        |jobs: u32| plot.bottom() - f64::from(jobs) / end as f64 * plot.height,
    );
    drawing.add_path(&legend::curve_classes(index), &path, Some(&heading));
    axes::draw_base(drawing, plot, &[]);
}

/// The path of a step function from its columns.
fn step_curve(lines: &[ColumnLine], left: f64, right: f64, y: impl Fn(u32) -> f64) -> PathText {
    let mut path = PathText::default();
    for (index, line) in lines.iter().enumerate() {
        let x = left + line.column as f64;
        match index {
            0 => path.move_to(x, y(line.first)),
            _ => {
                path.line_across(x);
                path.line_upright(y(line.first));
            }
        }
        if line.least < line.first.min(line.last) {
            path.line_upright(y(line.least));
        }
        if line.greatest > line.first.max(line.last) {
            path.line_upright(y(line.greatest));
        }
        if line.last != line.first || line.least != line.greatest {
            path.line_upright(y(line.last));
        }
    }
    if !lines.is_empty() {
        path.line_across(right);
    }
    path
}

/// Most jobs that waited at one time.
fn longest_queue(run: &RunRecord) -> u32 {
    run.queue.iter().map(|step| step.waiting).max().unwrap_or(0)
}

/// Describes what the figure shows.
fn describe_figure(groups: &[LabelRuns<'_>]) -> String {
    let peaks = groups.iter().map(|group| longest_queue(group.shown_run()));
    match groups {
        [only] => {
            let most = number_format::count_noun(longest_queue(only.shown_run()).into(), "job");
            format!("At most {most} waited for placement at once")
        }
        [first, second] => format!(
            "At most {} jobs waited for placement with {}, {} with {}",
            number_format::format_count(longest_queue(first.shown_run()).into()),
            number_format::cut_text(&first.label, LABEL_CHARS / 4 * 3),
            number_format::format_count(longest_queue(second.shown_run()).into()),
            number_format::cut_text(&second.label, LABEL_CHARS / 4 * 3),
        ),
        _ => format!(
            "At most {} to {} jobs waited for placement at once",
            number_format::format_count(peaks.clone().min().unwrap_or(0).into()),
            number_format::format_count(peaks.max().unwrap_or(0).into()),
        ),
    }
}

/// Describes the runs and the method.
fn describe_runs(groups: &[LabelRuns<'_>], curves: usize) -> String {
    let seeds = match groups {
        [only] => only.describe_shown_run(),
        _ => "The first seed of each label. ".to_owned(),
    };
    let left_out = match groups.len() - curves {
        0 => String::new(),
        more => format!(" {more} more labels are left out."),
    };
    format!("{seeds}Each column shows minimum to maximum.{left_out}")
}
