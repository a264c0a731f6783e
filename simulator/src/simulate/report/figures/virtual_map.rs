//! The virtual map of a job: sites as points, the job at the origin.

use super::axes::{self, AxisTick};
use super::drawing::{FigureDrawing, PathText, PixelArea, ReportFigure, TextAnchor};

const SIDE: f64 = 420.0;
const WIDTH: f64 = 640.0;
/// Half of the side of the square that stands for a site.
const HALF: f64 = 4.0;
/// Steps of each axis.
const STEPS: u32 = 4;

/// A site on a virtual map.
#[derive(Debug, Clone, PartialEq)]
pub struct MapPoint {
    pub name: String,
    /// The computation index: what the site lacks.
    pub x: f64,
    /// The data index: the cost of the job's input there.
    pub y: f64,
    /// True if the job goes there.
    pub is_chosen: bool,
    /// Further text, shown when the pointer rests on the point.
    pub tip: String,
}

/// Draws the map of a job. `note`: what is left out, or nothing.
pub fn virtual_map(title: &str, note: &str, points: &[MapPoint]) -> ReportFigure {
    let mut drawing = FigureDrawing::new(WIDTH, title, note);
    let plot = PixelArea {
        left: 62.0,
        top: 56.0,
        width: SIDE,
        height: SIDE,
    };
    let end_x = round_up(points.iter().map(|p| p.x).fold(0.0, f64::max));
    let end_y = round_up(points.iter().map(|p| p.y).fold(0.0, f64::max));
    let up = axis_ticks(end_y, |share| plot.bottom() - share * plot.height);
    let across = axis_ticks(end_x, |share| plot.left + share * plot.width);
    axes::draw_frame(&mut drawing, plot, &up);
    axes::draw_upright_lines(&mut drawing, plot, &across);
    axes::draw_base(&mut drawing, plot, &across);
    let below = (plot.left + plot.width / 2.0, plot.bottom() + 34.0);
    drawing.add_text(below, TextAnchor::Middle, "note", "x: what the site lacks");
    drawing.add_upward_text(
        (14.0, plot.top + plot.height / 2.0),
        "y: what the data costs",
    );
    drawing.add_text(
        (plot.left + 8.0, plot.bottom() - 8.0),
        TextAnchor::Start,
        "note",
        "the job",
    );
    for point in points {
        let at = (
            plot.left + point.x / end_x * plot.width,
            plot.bottom() - point.y / end_y * plot.height,
        );
        draw_site(&mut drawing, point, at);
    }
    let description = format!("{title}. {note} The nearer to the origin, the better the site.");
    drawing.into_figure("map", title, &description, plot.bottom() + 44.0)
}

fn draw_site(drawing: &mut FigureDrawing, point: &MapPoint, at: (f64, f64)) {
    let mut square = PathText::default();
    let side = 2.0 * HALF;
    square.add_rect_path(PixelArea {
        left: at.0 - HALF,
        top: at.1 - HALF,
        width: side,
        height: side,
    });
    let class = if point.is_chosen { "hold" } else { "run" };
    drawing.add_path(class, &square, Some(&point.tip));
    drawing.add_text(
        (at.0 + HALF + 4.0, at.1 + 4.0),
        TextAnchor::Start,
        "tick",
        &point.name,
    );
}

/// The end of an axis from 0 that shows `greatest`: 1, 2 or 5 times a power of 10.
pub fn round_up(greatest: f64) -> f64 {
    if greatest <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(greatest.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= greatest);
    factor.unwrap_or(10.0) * power
}

fn axis_ticks(end: f64, position: impl Fn(f64) -> f64) -> Vec<AxisTick> {
    (0..=STEPS)
        .map(|step: u32| {
            let share = f64::from(step) / f64::from(STEPS);
            AxisTick {
                position: position(share),
                label: crate::simulate::report::number_format::format_number(share * end),
            }
        })
        .collect()
}
