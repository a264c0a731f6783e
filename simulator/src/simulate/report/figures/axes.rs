//! Scales, their ticks, and frames around a plot.

use super::drawing::{FigureDrawing, PathText, PixelArea, TextAnchor};
use crate::simulate::report::number_format;
use crate::simulate::report::step_function::ReportSpan;

/// Least distance between two labels of the time axis, in pixels.
const TICK_GAP: f64 = 50.0;
/// The same for times with several units.
const CLOCK_GAP: f64 = 84.0;
/// Times of this many units and more are written with several units.
const PLAIN_TICKS: u64 = 1_000;
/// Lengths in milliseconds that a tick of the time axis may stand for.
const STEPS_MS: [u64; 27] = [
    1,
    10,
    100,
    1_000,
    2_000,
    5_000,
    10_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    1_200_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    14_400_000,
    21_600_000,
    43_200_000,
    86_400_000,
    172_800_000,
    604_800_000,
    1_209_600_000,
    2_592_000_000,
    7_776_000_000,
    31_536_000_000,
];
/// Units of the time axis with their milliseconds, from the largest.
const UNITS: [(u64, &str); 4] = [
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "min"),
    (1_000, "s"),
];

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisTick {
    /// Position in pixels.
    pub(super) position: f64,
    pub(super) label: String,
}

/// Time since the begin of a run, drawn from left to right.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeAxis {
    /// The part that is drawn, in milliseconds since the run began.
    from_ms: u64,
    length_ms: u64,
    left: f64,
    width: f64,
}

/// A logarithmic axis, drawn from left to right.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogAxis {
    least: f64,
    decades: f64,
    left: f64,
    width: f64,
}

impl TimeAxis {
    /// Height of the axis below its plot, in pixels.
    pub(super) const HEIGHT: f64 = 44.0;

    /// The axis over `shown`, a part of a run's `whole` time, across a plot.
    pub(super) fn new(shown: ReportSpan, whole: ReportSpan, plot: PixelArea) -> Self {
        Self {
            from_ms: shown.from.since(whole.from).0,
            length_ms: shown.length_ms().max(1),
            left: plot.left,
            width: plot.width,
        }
    }

    /// The position of an instant, given in milliseconds since the run began.
    pub(super) fn x(self, at_ms: u64) -> f64 {
        let offset = at_ms.saturating_sub(self.from_ms).min(self.length_ms);
        self.left + offset as f64 / self.length_ms as f64 * self.width
    }

    /// The unit of the ticks and the ticks themselves.
    pub(super) fn ticks(self) -> (&'static str, Vec<AxisTick>) {
        let end_ms = self.from_ms.saturating_add(self.length_ms);
        let (unit_ms, unit) = largest_unit(self.tick_step(TICK_GAP));
        if end_ms / unit_ms < PLAIN_TICKS {
            return (
                unit,
                self.make_ticks(self.tick_step(TICK_GAP), |at_ms: u64| {
                    format!("{}", at_ms as f64 / unit_ms as f64)
                }),
            );
        }
        let step = self.tick_step(CLOCK_GAP);
        let seconds = step < 60_000;
        let words = if seconds {
            "days, h:min:s"
        } else {
            "days, h:min"
        };
        (
            words,
            self.make_ticks(step, |at_ms| format_clock(at_ms, seconds)),
        )
    }

    /// The shortest step that leaves `gap` pixels between ticks.
    fn tick_step(self, gap: f64) -> u64 {
        let most = (self.width / gap).max(1.0);
        let longest = STEPS_MS[STEPS_MS.len() - 1];
        STEPS_MS
            .iter()
            .find(|step: &&u64| self.length_ms as f64 / **step as f64 <= most)
            .copied()
            .unwrap_or((self.length_ms / 2).max(longest))
    }

    /// A tick at each multiple of `step`.
    fn make_ticks(self, step: u64, label: impl Fn(u64) -> String) -> Vec<AxisTick> {
        let end = self.from_ms.saturating_add(self.length_ms) / step;
        (self.from_ms.div_ceil(step)..=end)
            .map(|n: u64| {
                let at_ms = n.saturating_mul(step);
                AxisTick {
                    position: self.x(at_ms),
                    label: label(at_ms),
                }
            })
            .collect()
    }

    /// Draws the axis with its words below a plot; takes [`TimeAxis::HEIGHT`].
    pub(super) fn draw_axis(self, drawing: &mut FigureDrawing, plot: PixelArea) {
        let (unit, ticks) = self.ticks();
        draw_base(drawing, plot, &ticks);
        let at = (plot.left + plot.width / 2.0, plot.bottom() + 34.0);
        let words = format!("time since the run began ({unit})");
        drawing.add_text(at, TextAnchor::Middle, "note", &words);
    }
}

impl LogAxis {
    /// The axis from the decade at or below `least` (above 0) to `greatest`.
    pub(super) fn new(least: f64, greatest: f64, left: f64, width: f64) -> Self {
        let least = 10f64.powf(least.log10().floor());
        let decades = (greatest / least).log10().max(1.0);
        Self {
            least,
            decades,
            left,
            width,
        }
    }

    /// The position of a value; one below the axis lies at its begin.
    pub(super) fn x(self, value: f64) -> f64 {
        let decades = (value.max(self.least) / self.least)
            .log10()
            .min(self.decades);
        self.left + decades / self.decades * self.width
    }

    /// Ticks at those of `values` that lie on the axis and leave room for their labels; earlier
    /// ones take precedence.
    pub(super) fn ticks(self, values: &[(f64, &str)]) -> Vec<AxisTick> {
        let mut ticks: Vec<AxisTick> = Vec::new();
        for (value, label) in values {
            let decades = (value / self.least).log10();
            let position = self.x(*value);
            let room = text_width(label, 11.0) + 4.0;
            let is_free = ticks.iter().all(|tick| {
                let other = text_width(&tick.label, 11.0);
                (tick.position - position).abs() >= (room + other) / 2.0
            });
            if is_free && (-1e-9..=self.decades + 1e-9).contains(&decades) {
                ticks.push(AxisTick {
                    position,
                    label: (*label).to_owned(),
                });
            }
        }
        ticks
    }
}

/// The largest unit of which `step` is a whole number, if it is not below a second.
fn largest_unit(step_ms: u64) -> (u64, &'static str) {
    UNITS
        .into_iter()
        .find(|(ms, _)| *ms <= step_ms)
        .unwrap_or(UNITS[UNITS.len() - 1])
}

/// A time in days, hours and minutes, perhaps with seconds.
fn format_clock(at_ms: u64, seconds: bool) -> String {
    let s = at_ms / 1000;
    let minutes = format!("{}d {:02}:{:02}", s / 86_400, s / 3_600 % 24, s / 60 % 60);
    if seconds {
        format!("{minutes}:{:02}", s % 60)
    } else {
        minutes
    }
}

/// Approximate width of a text, in pixels.
pub(super) fn text_width(text: &str, font_px: f64) -> f64 {
    text.chars().count() as f64 * font_px * 0.6
}

/// `text` cut to what fits into `width` pixels.
pub(super) fn fit_text(text: &str, font_px: f64, width: f64) -> String {
    number_format::cut_text(text, (width / (font_px * 0.6)) as usize)
}

/// The end of a scale from 0 that shows `greatest`, and its whole step.
pub(super) fn round_scale(greatest: u64, most_steps: u64) -> (u64, u64) {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            let steps = greatest.div_ceil(step).max(1);
            if steps <= most_steps || step > u64::MAX / 20 {
                return (steps.saturating_mul(step), step);
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Ticks of a scale from 0 to `end`, from the bottom of a plot to its top.
pub(super) fn upright_ticks(end: u64, step: u64, plot: PixelArea) -> Vec<AxisTick> {
    (0..=end / step.max(1))
        .map(|n: u64| {
            let value = n * step;
            let position = plot.bottom() - value as f64 / end.max(1) as f64 * plot.height;
            AxisTick {
                position,
                label: number_format::format_count(value),
            }
        })
        .collect()
}

/// The ground of a plot, with a line and a label at each tick of its height.
pub(super) fn draw_frame(drawing: &mut FigureDrawing, plot: PixelArea, upright: &[AxisTick]) {
    drawing.add_rect("plot", plot);
    let mut lines = PathText::default();
    for tick in upright {
        lines.move_to(plot.left, tick.position);
        lines.line_across(plot.right());
        let at = (plot.left - 6.0, tick.position + 4.0);
        drawing.add_text(at, TextAnchor::End, "tick", &tick.label);
    }
    drawing.add_path("grid", &lines, None);
}

/// Draws a vertical line in the plot at each tick.
pub(super) fn draw_upright_lines(
    drawing: &mut FigureDrawing,
    plot: PixelArea,
    across: &[AxisTick],
) {
    let mut lines = PathText::default();
    for tick in across {
        lines.move_to(tick.position, plot.top);
        lines.line_upright(plot.bottom());
    }
    drawing.add_path("grid", &lines, None);
}

/// Draws the axis below a plot. It comes after the data, which it should cut off.
pub(super) fn draw_base(drawing: &mut FigureDrawing, plot: PixelArea, across: &[AxisTick]) {
    let mut lines = PathText::default();
    lines.move_to(plot.left, plot.bottom());
    lines.line_across(plot.right());
    for tick in across {
        lines.move_to(tick.position, plot.bottom());
        lines.line_upright(plot.bottom() + 4.0);
        let at = (tick.position, plot.bottom() + 16.0);
        drawing.add_text(at, TextAnchor::Middle, "tick", &tick.label);
    }
    drawing.add_path("axis", &lines, None);
}
