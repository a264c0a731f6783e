//! Legends: the meaning of colours and lines.

use super::axes::text_width;
use super::drawing::{FigureDrawing, PathText, PixelArea, TextAnchor};
use crate::simulate::report::record::LoadKind;

/// Height of a row, in pixels.
const ROW: f64 = 18.0;
/// Colours of curves, after which they repeat, with other dashes.
const COLOURS: usize = 6;
/// Kinds of dashes, the first being none. Each curve has another, so that of curves that coincide
/// each is visible through the gaps of the next.
const DASHES: usize = 7;

/// The sign beside an entry's words.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LegendSign {
    /// A filled square of this class.
    Fill(&'static str),
    /// A piece of a curve of this class.
    Curve(String),
}

/// The class of the areas of a kind of load.
pub(super) fn fill_class(kind: LoadKind) -> &'static str {
    match kind {
        LoadKind::GridRun => "run",
        LoadKind::GridHold => "hold",
        LoadKind::Local => "local",
        LoadKind::Down => "down",
    }
}

/// The classes of the curve with this index.
pub(super) fn curve_classes(index: usize) -> String {
    match index % DASHES {
        0 => format!("curve s{}", index % COLOURS),
        dash => format!("curve s{} dash{dash}", index % COLOURS),
    }
}

/// The entries of all kinds of load, for figures that fill areas by them.
pub(super) fn load_entries() -> Vec<(LegendSign, String)> {
    LoadKind::STACKED
        .into_iter()
        .map(|kind: LoadKind| (LegendSign::Fill(fill_class(kind)), kind.words().to_owned()))
        .collect()
}

/// The entries of the outlines of reservations.
pub(super) fn reservation_entries() -> [(LegendSign, String); 2] {
    [
        (LegendSign::Fill("booking"), "reserved".to_owned()),
        (
            LegendSign::Fill("booking left"),
            "reserved until moved".to_owned(),
        ),
    ]
}

/// Draws entries in as many rows as they need below `top`; returns where the next thing may begin.
pub(super) fn draw_legend(
    drawing: &mut FigureDrawing,
    entries: &[(LegendSign, String)],
    top: f64,
    width: f64,
) -> f64 {
    let mut x = 0.0;
    let mut y = top;
    for (sign, words) in entries {
        let wide = 26.0 + text_width(words, 12.0) + 18.0;
        if x > 0.0 && x + wide > width {
            x = 0.0;
            y += ROW;
        }
        match sign {
            LegendSign::Fill(class) => {
                drawing.add_rect(
                    class,
                    PixelArea {
                        left: x,
                        top: y + 2.0,
                        width: 18.0,
                        height: 11.0,
                    },
                );
            }
            LegendSign::Curve(class) => {
                let mut line = PathText::default();
                line.move_to(x, y + 8.0);
                line.line_across(x + 20.0);
                drawing.add_path(class, &line, None);
            }
        }
        drawing.add_text((x + 26.0, y + 12.0), TextAnchor::Start, "label", words);
        x += wide;
    }
    y + ROW
}
