//! A thin layer over SVG text: elements, escaping, paths.

use std::fmt::Write;

/// Colours and fonts of all figures. Figures name classes only, so that one
/// sheet serves the files and the page, by day and by night. The colours of
/// data are those of Okabe and Ito, "Color Universal Design", 2008, which
/// colour-blind readers can tell apart, and a grey.
pub(crate) const STYLE: &str = include_str!("style.css");

/// Empty border of a figure that is a file of its own, in pixels.
const MARGIN: f64 = 16.0;

/// A finished figure.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportFigure {
    /// Name of its file, without the ending; unique in a report.
    pub name: String,
    /// Description in one line.
    pub title: String,
    /// Description in a few sentences, for those who cannot see the figure.
    pub description: String,
    width: f64,
    height: f64,
    body: String,
}

/// A figure in the making.
pub(super) struct FigureDrawing {
    width: f64,
    body: String,
}

/// The position of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextAnchor {
    /// To the right of it.
    Start,
    /// Centred on it.
    Middle,
    /// To the left of it.
    End,
}

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PixelArea {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl PixelArea {
    pub(super) fn right(self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(self) -> f64 {
        self.top + self.height
    }
}

impl ReportFigure {
    /// The figure as a file of its own, with its style and a background.
    pub fn to_standalone_svg(&self) -> String {
        let edge = format_px(-MARGIN);
        let width = format_px(self.width + 2.0 * MARGIN);
        let height = format_px(self.height + 2.0 * MARGIN);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}<style>{STYLE}</style>\
             <rect class=\"paper\" x=\"{edge}\" y=\"{edge}\" width=\"{width}\" \
             height=\"{height}\"/>{}</svg>\n",
            self.opening_tag(MARGIN),
            self.body
        )
    }

    /// The figure as a part of a page that has the style already.
    pub fn to_inline_svg(&self) -> String {
        format!("{}{}</svg>", self.opening_tag(0.0), self.body)
    }

    /// The root element's start, and the text for screen readers.
    fn opening_tag(&self, margin: f64) -> String {
        let width = format_px(self.width + 2.0 * margin);
        let height = format_px(self.height + 2.0 * margin);
        let edge = format_px(-margin);
        let name = escape_xml(&self.name);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" role=\"img\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"{edge} {edge} {width} {height}\" \
             aria-labelledby=\"{name}-title {name}-desc\">\
             <title id=\"{name}-title\">{}</title><desc id=\"{name}-desc\">{}</desc>",
            escape_xml(&self.title),
            escape_xml(&self.description)
        )
    }
}

impl FigureDrawing {
    /// An empty drawing of this width with a title and a line of explanation.
    pub(super) fn new(width: f64, title: &str, note: &str) -> Self {
        let mut drawing = Self {
            width,
            body: String::new(),
        };
        drawing.add_text((0.0, 18.0), TextAnchor::Start, "title", title);
        drawing.add_text((0.0, 37.0), TextAnchor::Start, "note", note);
        drawing
    }

    /// Adds a line of text with its baseline at a point.
    pub(super) fn add_text(&mut self, at: (f64, f64), anchor: TextAnchor, class: &str, text: &str) {
        let anchor = match anchor {
            TextAnchor::Start => "",
            TextAnchor::Middle => " text-anchor=\"middle\"",
            TextAnchor::End => " text-anchor=\"end\"",
        };
        let x = format_px(at.0);
        let y = format_px(at.1);
        self.push_line(&format!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>"
        ));
        self.push_line(&escape_xml(text));
        self.push_line("</text>");
    }

    /// Adds a text that reads upwards, centred on a point.
    pub(super) fn add_upward_text(&mut self, at: (f64, f64), text: &str) {
        let x = format_px(at.0);
        let y = format_px(at.1);
        self.push_line(&format!(
            "<text class=\"note\" text-anchor=\"middle\" transform=\"translate({x} {y}) rotate(-90)\">{}</text>",
            escape_xml(text)
        ));
    }

    /// Adds a filled rectangle.
    pub(super) fn add_rect(&mut self, class: &str, area: PixelArea) {
        let x = format_px(area.left);
        let y = format_px(area.top);
        let w = format_px(area.width);
        let h = format_px(area.height);
        self.push_line(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>"
        ));
    }

    /// Adds a path; `tip` shows when the pointer rests on it.
    pub(super) fn add_path(&mut self, class: &str, path: &PathText, tip: Option<&str>) {
        self.push_line(&format!("<path class=\"{class}\" d=\"{}\"", path.0));
        match tip {
            Some(tip) => self.push_line(&format!("><title>{}</title></path>", escape_xml(tip))),
            None => self.push_line("/>"),
        }
    }

    /// Finishes the drawing with this height.
    pub(super) fn into_figure(
        self,
        name: &str,
        title: &str,
        description: &str,
        height: f64,
    ) -> ReportFigure {
        ReportFigure {
            name: name.to_owned(),
            title: title.to_owned(),
            description: description.to_owned(),
            width: self.width,
            height,
            body: self.body,
        }
    }

    fn push_line(&mut self, text: &str) {
        self.body.push_str(text);
    }
}

/// The `d` of a path. Points are absolute; straight runs are merged.
#[derive(Debug, Clone, Default)]
pub(super) struct PathText(String);

impl PathText {
    /// Moves the pen.
    pub(super) fn move_to(&mut self, x: f64, y: f64) {
        self.push_command('M', &[x, y]);
    }

    /// Draws a horizontal line.
    pub(super) fn line_across(&mut self, x: f64) {
        self.push_command('H', &[x]);
    }

    /// Draws a vertical line.
    pub(super) fn line_upright(&mut self, y: f64) {
        self.push_command('V', &[y]);
    }

    /// Closes the path to its start.
    pub(super) fn close_path(&mut self) {
        self.0.push('Z');
    }

    /// Adds a rectangle.
    pub(super) fn add_rect_path(&mut self, area: PixelArea) {
        self.move_to(area.left, area.top);
        self.line_across(area.right());
        self.line_upright(area.bottom());
        self.line_across(area.left);
        self.close_path();
    }

    fn push_command(&mut self, letter: char, numbers: &[f64]) {
        self.0.push(letter);
        for (index, number) in numbers.iter().enumerate() {
            let gap = if index > 0 { " " } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(self.0, "{gap}{}", format_px(*number));
        }
    }
}

/// A coordinate with one decimal at most; a value that is no number becomes 0.
pub(super) fn format_px(value: f64) -> String {
    let tenths = if value.is_finite() {
        (value * 10.0).round() / 10.0
    } else {
        0.0
    };
    format!("{}", tenths + 0.0)
}

/// Escapes text for XML: its five special characters become entities, and those that XML 1.0 cannot
/// carry at all are replaced by a sign.
pub(super) fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' | '\r' => escaped.push(' '),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
