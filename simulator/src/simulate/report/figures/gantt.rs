//! Gantt chart: the jobs that held or used processors of each site, over time.
//!
//! A long run has more bars than a picture can show. Then the time around the
//! longest queue is drawn, as much of it as the picture holds.

use cospan_domain::units::{DurationMs, Timestamp};

use super::axes::{self, TimeAxis, text_width};
use super::drawing::{FigureDrawing, PathText, PixelArea, ReportFigure, TextAnchor};
use super::gantt_rows::{self, ProcessorBlocks};
use super::{LabelRuns, WIDTH, legend};
use crate::simulate::report::number_format;
use crate::simulate::report::record::{GanttBar, LoadKind, ReservationBar, RunRecord, SiteTrace};
use crate::simulate::report::step_function::ReportSpan;

/// Most bars in a figure.
const BARS: usize = 1_000;
/// Most blocks that those bars may fall into.
const BLOCKS: usize = 2_500;
/// Most sites in a figure, those with the most bars.
const SITES: usize = 16;
/// Times that the window is cut by a fifth; after that it is below a millionth.
const CUTS: usize = 64;
/// Room left of a plot for its ticks and words.
const LEFT: f64 = 62.0;
/// Shades of one colour, which distinguish neighbouring jobs.
const SHADES: u64 = 3;

/// The bars of a site with their processors.
struct GanttRow<'a> {
    site: &'a SiteTrace,
    bars: Vec<(&'a GanttBar, ProcessorBlocks)>,
    bookings: Vec<(&'a ReservationBar, ProcessorBlocks)>,
}

/// The content of the chart.
struct GanttChart<'a> {
    window: ReportSpan,
    rows: Vec<GanttRow<'a>>,
}

/// The figure of a label's first run.
pub(super) fn gantt_figure(group: &LabelRuns<'_>, name: &str) -> ReportFigure {
    let run = group.shown_run();
    let chart = largest_chart(run);
    let title = describe_figure(group, &chart);
    let note = describe_run(group, &chart);
    let mut drawing = FigureDrawing::new(WIDTH, &title, &note);
    let mut kinds = legend::load_entries();
    kinds.extend(
        legend::reservation_entries()
            .into_iter()
            .filter(|_| chart.has_reservations()),
    );
    let mut top = legend::draw_legend(&mut drawing, &kinds, 50.0, WIDTH);
    let mut plot = PixelArea {
        left: LEFT,
        top,
        width: WIDTH - LEFT - 14.0,
        height: 0.0,
    };
    for row in &chart.rows {
        plot = PixelArea {
            top: top + 26.0,
            height: plot_height(row.site),
            ..plot
        };
        draw_row(
            &mut drawing,
            row,
            TimeAxis::new(chart.window, run.span(), plot),
            plot,
            run,
        );
        top = plot.bottom() + 8.0;
    }
    TimeAxis::new(chart.window, run.span(), plot).draw_axis(&mut drawing, plot);
    let description = format!("{title}. {note} Time runs to the right, processors upwards.");
    drawing.into_figure(name, &title, &description, plot.bottom() + TimeAxis::HEIGHT)
}

/// The largest window with as many bars as a picture holds.
fn largest_chart(run: &RunRecord) -> GanttChart<'_> {
    let centre = longest_queue(run);
    let mut window = run.span();
    for _ in 0..CUTS {
        if count_bars(run, window) <= BARS {
            let chart = place_bars(run, window, BARS);
            if chart.count_blocks() <= BLOCKS {
                return chart;
            }
        }
        window = window_around(centre, window.length_ms() / 5 * 4, run.span());
    }
    place_bars(run, window, BARS / run.sites.len().clamp(1, SITES))
}

/// Bars that fall into a window.
fn bars_within(site: &SiteTrace, window: ReportSpan) -> impl Iterator<Item = &GanttBar> {
    site.bars.iter().filter(move |bar| {
        bar.processors > 0 && bar.from < window.to && bar.to > window.from.max(bar.from)
    })
}

/// Counts the bars of all sites that fall into a window.
fn count_bars(run: &RunRecord, window: ReportSpan) -> usize {
    run.sites
        .iter()
        .map(|site| bars_within(site, window).count())
        .sum()
}

/// Assigns processors to the bars of a window, at most this many bars of each site.
fn place_bars(run: &RunRecord, window: ReportSpan, most: usize) -> GanttChart<'_> {
    let rows = run.sites.iter().map(|site| {
        let mut bars: Vec<&GanttBar> = bars_within(site, window).take(most).collect();
        bars.sort_by_key(|bar| bar.from);
        let blocks = gantt_rows::assign_processors(&bars, site.processors);
        let bars: Vec<_> = bars.into_iter().zip(blocks).collect();
        let bookings = place_reservations(site, &bars, window, most);
        GanttRow {
            site,
            bars,
            bookings,
        }
    });
    let mut rows: Vec<GanttRow<'_>> = rows.collect();
    if rows.len() > SITES {
        rows.sort_by_key(|row| std::cmp::Reverse(row.bars.len()));
        rows.truncate(SITES);
    }
    GanttChart { window, rows }
}

/// The reservations of a window: where their components ran, else on the lowest processors.
fn place_reservations<'a>(
    site: &'a SiteTrace,
    bars: &[(&GanttBar, ProcessorBlocks)],
    window: ReportSpan,
    most: usize,
) -> Vec<(&'a ReservationBar, ProcessorBlocks)> {
    site.bookings
        .iter()
        .filter(|booking: &&ReservationBar| booking.from < window.to && booking.to > window.from)
        .take(most)
        .map(|booking: &'a ReservationBar| {
            let of = (Some(booking.job), Some(booking.component));
            let ran = bars.iter().rfind(|(bar, _)| (bar.job, bar.component) == of);
            let lowest = std::iter::once(0..booking.processors.min(site.processors)).collect();
            let blocks = ran
                .filter(|_| booking.left.is_none())
                .map(|(_, blocks)| blocks.clone());
            (booking, blocks.unwrap_or(lowest))
        })
        .collect()
}

/// The first time at which most jobs waited; the begin if none ever did.
fn longest_queue(run: &RunRecord) -> Timestamp {
    let first_longest = run.queue.iter().rev().max_by_key(|step| step.waiting);
    first_longest
        .filter(|step| step.waiting > 0)
        .map_or(run.began, |step| step.at)
}

/// A window of this length around an instant, moved into the run's time.
fn window_around(centre: Timestamp, length_ms: u64, whole: ReportSpan) -> ReportSpan {
    let half = DurationMs(length_ms / 2);
    let latest = (whole.to - DurationMs(length_ms)).max(whole.from);
    let from = (centre - half).clamp(whole.from, latest);
    ReportSpan {
        from,
        to: from + DurationMs(length_ms),
    }
}

/// Draws the panel of one site.
fn draw_row(
    drawing: &mut FigureDrawing,
    row: &GanttRow<'_>,
    axis: TimeAxis,
    plot: PixelArea,
    run: &RunRecord,
) {
    let heading = axes::fit_text(&row.site.name, 13.0, plot.width);
    drawing.add_text(
        (plot.left, plot.top - 7.0),
        TextAnchor::Start,
        "panel-title",
        &heading,
    );
    let processors = u64::from(row.site.processors);
    let step = axes::round_scale(processors, 4).1;
    axes::draw_frame(drawing, plot, &axes::upright_ticks(processors, step, plot));
    drawing.add_upward_text((14.0, plot.top + plot.height / 2.0), "processors");
    for (bar, blocks) in &row.bars {
        draw_bar(drawing, bar, blocks, row.site, axis, plot, run);
    }
    for (booking, blocks) in &row.bookings {
        let from = booking.from.max(run.began);
        let to = booking.to.min(run.ended);
        let path = block_outlines((from, to), blocks, row.site, axis, plot, run).1;
        let class = if booking.left.is_some() {
            "booking left"
        } else {
            "booking"
        };
        drawing.add_path(class, &path, Some(&reservation_tip(booking, run)));
    }
    axes::draw_base(drawing, plot, &[]);
}

/// Draws a bar, with its job's number where there is room.
fn draw_bar(
    drawing: &mut FigureDrawing,
    bar: &GanttBar,
    blocks: &ProcessorBlocks,
    site: &SiteTrace,
    axis: TimeAxis,
    plot: PixelArea,
    run: &RunRecord,
) {
    let (widest, path) = block_outlines((bar.from, bar.to), blocks, site, axis, plot, run);
    let shade = bar.job.map_or(0, |job| job % SHADES);
    let class = format!("bar {} shade{shade}", legend::fill_class(bar.kind));
    drawing.add_path(&class, &path, Some(&bar_tip(bar, run)));
    if let (Some(area), Some(job)) = (widest, bar.job) {
        draw_job_number(drawing, &job.to_string(), bar.kind, area);
    }
}

/// The outline of processors over some time: the largest block, and all of them.
fn block_outlines(
    (from, to): (Timestamp, Timestamp),
    blocks: &ProcessorBlocks,
    site: &SiteTrace,
    axis: TimeAxis,
    plot: PixelArea,
    run: &RunRecord,
) -> (Option<PixelArea>, PathText) {
    let left = axis.x(from.since(run.began).0);
    let right = axis.x(to.since(run.began).0);
    let scale = plot.height / f64::from(site.processors.max(1));
    let area = |block: &std::ops::Range<u32>| PixelArea {
        left,
        top: plot.bottom() - f64::from(block.end) * scale,
        width: (right - left).max(0.3),
        height: f64::from(block.end - block.start) * scale,
    };
    let mut path = PathText::default();
    blocks
        .iter()
        .for_each(|block| path.add_rect_path(area(block)));
    (
        blocks
            .iter()
            .max_by_key(|block| block.end - block.start)
            .map(area),
        path,
    )
}

/// Describes a reservation in words.
fn reservation_tip(booking: &ReservationBar, run: &RunRecord) -> String {
    let left = booking
        .left
        .map(|at| format!(", given back at {}", at.since(run.began)));
    format!(
        "job {}, component {}: reserved, {}, {} to {}, since {}{}",
        booking.job,
        booking.component,
        number_format::count_noun(booking.processors.into(), "processor"),
        booking.from.since(run.began),
        booking.to.since(run.began),
        booking.made.since(run.began),
        left.unwrap_or_default()
    )
}

/// Writes a job's number in the middle of its bar, if it fits.
fn draw_job_number(drawing: &mut FigureDrawing, job: &str, kind: LoadKind, area: PixelArea) {
    if area.height < 10.0 || area.width < text_width(job, 10.0) + 2.0 {
        return;
    }
    let class = if kind == LoadKind::GridHold {
        "tag-hold"
    } else {
        "tag"
    };
    let at = (
        area.left + area.width / 2.0,
        area.top + area.height / 2.0 + 3.5,
    );
    drawing.add_text(at, TextAnchor::Middle, class, job);
}

/// Describes a bar in words.
fn bar_tip(bar: &GanttBar, run: &RunRecord) -> String {
    let job = bar.job.map_or(String::new(), |job| format!("job {job}"));
    let component = bar
        .component
        .map_or(String::new(), |c| format!(", component {c}"));
    let gap = if job.is_empty() { "" } else { ": " };
    format!(
        "{job}{component}{gap}{}, {}, {} to {}",
        bar.kind.words(),
        number_format::count_noun(bar.processors.into(), "processor"),
        bar.from.since(run.began),
        bar.to.since(run.began)
    )
}

/// Height of a site's plot: larger sites get more, within bounds.
fn plot_height(site: &SiteTrace) -> f64 {
    (f64::from(site.processors) * 1.2).clamp(70.0, 150.0)
}

impl GanttChart<'_> {
    /// Number of blocks of all bars.
    fn count_blocks(&self) -> usize {
        self.rows
            .iter()
            .flat_map(|row| &row.bars)
            .map(|(_, blocks)| blocks.len())
            .sum()
    }

    fn has_reservations(&self) -> bool {
        self.rows.iter().any(|row| !row.bookings.is_empty())
    }

    /// Number of bars that found fewer processors than they take.
    fn count_squeezed(&self) -> usize {
        let bars = self.rows.iter().flat_map(|row| &row.bars);
        bars.filter(|(bar, blocks)| gantt_rows::total_size(blocks) < bar.processors)
            .count()
    }
}

/// Describes what the figure shows.
fn describe_figure(group: &LabelRuns<'_>, chart: &GanttChart<'_>) -> String {
    let run = group.shown_run();
    if chart.window == run.span() {
        return format!("{}: where jobs were held and ran", group.label);
    }
    let shown = number_format::format_seconds(chart.window.length_ms() as f64 / 1000.0);
    format!(
        "{}: where jobs were held and ran in the {shown} around the longest queue",
        group.label
    )
}

/// Describes the run, and what is missing.
fn describe_run(group: &LabelRuns<'_>, chart: &GanttChart<'_>) -> String {
    let run = group.shown_run();
    let mut notes = vec![
        group.describe_shown_run(),
        "A number names the job. ".to_owned(),
    ];
    if chart.window != run.span() {
        notes.push("The whole run has too many bars to draw. ".into());
    }
    let more_sites = run.sites.len() - chart.rows.len();
    if more_sites > 0 {
        notes.push(format!(
            "{} left out. ",
            number_format::count_noun(more_sites as u64, "quieter site")
        ));
    }
    let more: usize = chart
        .rows
        .iter()
        .map(|row: &GanttRow<'_>| bars_within(row.site, chart.window).count() - row.bars.len())
        .sum();
    if more > 0 {
        notes.push(format!(
            "{} at the same time left out. ",
            number_format::count_noun(more as u64, "bar")
        ));
    }
    let dropped: u64 = run.sites.iter().map(|site| site.bars_dropped).sum();
    if dropped > 0 {
        notes.push(format!(
            "{} not kept. ",
            number_format::count_noun(dropped, "bar")
        ));
    }
    let squeezed = chart.count_squeezed();
    if squeezed > 0 {
        notes.push(format!(
            "{} found no room. ",
            number_format::count_noun(squeezed as u64, "bar")
        ));
    }
    notes.concat().trim_end().to_owned()
}
