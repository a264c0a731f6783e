//! Use of the processors over time, by kind of load: all sites together, and
//! each site on its own.

use super::axes::{self, AxisTick, TimeAxis, text_width};
use super::drawing::{FigureDrawing, PathText, PixelArea, ReportFigure, TextAnchor};
use super::{LabelRuns, WIDTH, legend};
use crate::simulate::report::number_format;
use crate::simulate::report::record::{LoadKind, LoadUseStep, RunRecord, SiteTrace};
use crate::simulate::report::step_function::column_means;
use crate::simulate::report::summary::LoadShares;

/// Kinds of load.
const KINDS: usize = LoadKind::STACKED.len();
/// Sites that get a panel of their own, the largest ones.
const PANELS: usize = 24;
/// Panels in a row.
const IN_A_ROW: usize = 3;
/// Height of the plot for all sites.
const WHOLE_HEIGHT: f64 = 190.0;
/// Height of the plot for one site.
const SITE_HEIGHT: f64 = 92.0;
/// Room left of a plot for its ticks and words.
const LEFT: f64 = 62.0;

/// Width of a column of the areas, in pixels: single pixels would show noise.
const COLUMN: f64 = 2.0;

/// Room right of a plot for half a label.
const RIGHT: f64 = 14.0;

/// Processors by kind in each column.
type UtilizationStack = Vec<[f64; KINDS]>;

/// The figure of a label's first run.
pub(super) fn utilization_figure(group: &LabelRuns<'_>, name: &str) -> ReportFigure {
    let run = group.shown_run();
    let title = describe_figure(group);
    let note = describe_run(group, WIDTH - LEFT - RIGHT);
    let mut drawing = FigureDrawing::new(WIDTH, &title, &note);
    let top = legend::draw_legend(&mut drawing, &legend::load_entries(), 50.0, WIDTH);
    let plot = PixelArea {
        left: LEFT,
        top: top + 28.0,
        width: WIDTH - LEFT - RIGHT,
        height: WHOLE_HEIGHT,
    };
    let heading = format!(
        "All sites, {}",
        number_format::count_noun(run.processors(), "processor")
    );
    draw_panel(
        &mut drawing,
        plot,
        &heading,
        &stack_of_all_sites(run, plot),
        run.processors(),
    );
    time_axis(run, plot).draw_axis(&mut drawing, plot);
    let bottom = draw_sites(&mut drawing, run, plot.bottom() + TimeAxis::HEIGHT);
    let description = format!("{title}. {note} {}", describe_means(run));
    drawing.into_figure(name, &title, &description, bottom)
}

/// Draws the panels of single sites below `top`; returns where they end.
fn draw_sites(drawing: &mut FigureDrawing, run: &RunRecord, top: f64) -> f64 {
    let mut shown: Vec<&SiteTrace> = run.sites.iter().collect();
    if shown.len() > PANELS {
        shown.sort_by_key(|site| std::cmp::Reverse(site.processors));
        shown.truncate(PANELS);
    }
    if shown.len() < 2 {
        return top;
    }
    let row_height = SITE_HEIGHT + 62.0;
    let width = (WIDTH - RIGHT) / IN_A_ROW.min(shown.len()) as f64;
    for (index, site) in shown.iter().enumerate() {
        let row = index / IN_A_ROW;
        let column = index % IN_A_ROW;
        let plot = PixelArea {
            left: column as f64 * width + LEFT,
            top: top + row as f64 * row_height + 28.0,
            width: width - LEFT,
            height: SITE_HEIGHT,
        };
        draw_site(drawing, run, site, plot);
    }
    top + shown.len().div_ceil(IN_A_ROW) as f64 * row_height
}

/// Draws the panel of one site.
fn draw_site(drawing: &mut FigureDrawing, run: &RunRecord, site: &SiteTrace, plot: PixelArea) {
    let count = format!(
        ", {}",
        number_format::count_noun(site.processors.into(), "processor")
    );
    let room = plot.width - text_width(&count, 13.0);
    let heading = format!("{}{count}", axes::fit_text(&site.name, 13.0, room));
    let stack = column_means(
        &site.load,
        run.span(),
        column_count(plot),
        LoadUseStep::by_kind,
    );
    draw_panel(drawing, plot, &heading, &stack, site.processors.into());
    let (unit, mut ticks) = time_axis(run, plot).ticks();
    if let Some(last) = ticks.last_mut() {
        last.label = format!("{} {unit}", last.label);
    }
    axes::draw_base(drawing, plot, &ticks);
}

/// Draws heading, ground and stacked areas. The highest sum is drawn first and the lower ones over
/// it, so that each area needs one outline only.
fn draw_panel(
    drawing: &mut FigureDrawing,
    plot: PixelArea,
    heading: &str,
    stack: &UtilizationStack,
    processors: u64,
) {
    drawing.add_text(
        (plot.left, plot.top - 8.0),
        TextAnchor::Start,
        "panel-title",
        heading,
    );
    axes::draw_frame(drawing, plot, &share_ticks(plot));
    if plot.left == LEFT {
        drawing.add_upward_text((14.0, plot.top + plot.height / 2.0), "% of processors");
    }
    for top in (0..KINDS).rev() {
        let sums = stack.iter().map(|parts| parts[..=top].iter().sum::<f64>());
        let shares: Vec<f64> = sums
            .map(|sum| (sum / processors.max(1) as f64).clamp(0.0, 1.0))
            .collect();
        let kind = LoadKind::STACKED[top];
        if stack.iter().any(|parts| parts[top] > 0.0) {
            drawing.add_path(
                legend::fill_class(kind),
                &area_outline(&shares, plot),
                Some(kind.words()),
            );
        }
    }
}

/// The outline of an area that stands on the bottom of the plot.
fn area_outline(shares: &[f64], plot: PixelArea) -> PathText {
    let width = plot.width / shares.len().max(1) as f64;
    let mut path = PathText::default();
    path.move_to(plot.left, plot.bottom());
    let mut height = plot.bottom();
    for (column, share) in shares.iter().enumerate() {
        let y = ((plot.bottom() - share * plot.height) * 10.0).round() / 10.0;
        if y != height {
            height = y;
            path.line_across(plot.left + column as f64 * width);
            path.line_upright(height);
        }
    }
    path.line_across(plot.right());
    path.line_upright(plot.bottom());
    path.close_path();
    path
}

/// Processors of all sites by kind in each column.
fn stack_of_all_sites(run: &RunRecord, plot: PixelArea) -> UtilizationStack {
    let columns = column_count(plot);
    let mut total = vec![[0.0; KINDS]; columns];
    for site in &run.sites {
        let stack = column_means(&site.load, run.span(), columns, LoadUseStep::by_kind);
        for (sum, part) in total.iter_mut().flatten().zip(stack.iter().flatten()) {
            *sum += part;
        }
    }
    total
}

/// Columns of a plot.
fn column_count(plot: PixelArea) -> usize {
    (plot.width / COLUMN) as usize
}

/// The time of the whole run.
fn time_axis(run: &RunRecord, plot: PixelArea) -> TimeAxis {
    TimeAxis::new(run.span(), run.span(), plot)
}

/// Ticks at quarters of the processors.
fn share_ticks(plot: PixelArea) -> Vec<AxisTick> {
    let steps = if plot.height < 120.0 { 2u32 } else { 4 };
    (0..=steps)
        .map(|n| {
            let share = f64::from(n) / f64::from(steps);
            AxisTick {
                position: plot.bottom() - share * plot.height,
                label: format!("{}", share * 100.0),
            }
        })
        .collect()
}

/// Describes what the figure shows.
fn describe_figure(group: &LabelRuns<'_>) -> String {
    let load = LoadShares::of_all(group.shown_run());
    let grid = number_format::format_percent(load.grid_running);
    let local = number_format::format_percent(load.local);
    format!(
        "{}: grid jobs used {grid} of the processors, local users {local}",
        group.label
    )
}

/// Describes the run and the method.
fn describe_run(group: &LabelRuns<'_>, width: f64) -> String {
    let run = group.shown_run();
    let left_out = match run.sites.len().saturating_sub(PANELS) {
        0 => String::new(),
        more => format!(" Only the {PANELS} largest sites are shown, {more} more are not."),
    };
    let mean_s = run.span().length_ms() as f64 / 1000.0 / (width / COLUMN);
    let mean = number_format::format_seconds(mean_s);
    format!(
        "{}Averaged over {mean} (single sites: longer).{left_out}",
        group.describe_shown_run()
    )
}

/// Describes the means of all kinds.
fn describe_means(run: &RunRecord) -> String {
    let load = LoadShares::of_all(run);
    let shares = [load.grid_running, load.grid_held, load.local, load.down];
    let parts: Vec<String> = LoadKind::STACKED
        .into_iter()
        .zip(shares)
        .map(|(kind, share): (LoadKind, f64)| {
            format!("{} {}", kind.words(), number_format::format_percent(share))
        })
        .collect();
    format!("Means of all sites: {}.", parts.join(", "))
}
