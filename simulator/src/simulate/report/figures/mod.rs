//! Figures as SVG, for light and dark pages alike.
//!
//! The first run of each label (the one with the smallest seed) is drawn over time; the
//! distributions take all runs of a label together. Every figure stays below about 300 kB, whatever
//! the number of jobs.

mod axes;
mod distributions;
mod drawing;
mod gantt;
mod gantt_rows;
mod legend;
mod queue_figure;
mod utilization;
mod virtual_map;

#[cfg(test)]
mod tests;

pub use drawing::ReportFigure;
pub(super) use drawing::STYLE;
pub use virtual_map::round_up;
pub use virtual_map::{MapPoint, virtual_map};

use super::compare::distinct_labels;
use super::record::RunRecord;

/// Width of all figures, in pixels at their natural size.
const WIDTH: f64 = 960.0;
/// Labels that get their own figures over time.
const TIMELINES: usize = 6;
/// Characters of a label that fit into titles and legends.
const LABEL_CHARS: usize = 32;

/// The runs of one label.
pub(super) struct LabelRuns<'a> {
    /// The label, as drawn.
    label: String,
    /// Runs in order of their seeds; at least one.
    runs: Vec<&'a RunRecord>,
}

/// All figures of a report, in the order in which they should be read.
pub(super) fn all_figures(runs: &[RunRecord]) -> Vec<ReportFigure> {
    let groups = group_runs(runs);
    let mut figures = vec![
        distributions::distributions_figure(&groups),
        queue_figure::queue_figure(&groups),
    ];
    for (index, group) in groups.iter().take(TIMELINES).enumerate() {
        let suffix = if groups.len() == 1 {
            String::new()
        } else {
            format!("-{}", index + 1)
        };
        let slug = file_slug(&group.label);
        figures.push(utilization::utilization_figure(
            group,
            &format!("utilization{suffix}-{slug}"),
        ));
        figures.push(gantt::gantt_figure(group, &format!("gantt{suffix}-{slug}")));
    }
    figures
}

/// Runs by label, in the order of the labels' first occurrence.
fn group_runs(runs: &[RunRecord]) -> Vec<LabelRuns<'_>> {
    let labels = distinct_labels(runs.iter().map(|run| run.label.as_str()));
    labels
        .iter()
        .map(|label: &String| {
            let mut runs: Vec<_> = runs.iter().filter(|run| run.label == *label).collect();
            runs.sort_by_key(|run| run.seed);
            LabelRuns {
                label: super::number_format::cut_text(label, LABEL_CHARS),
                runs,
            }
        })
        .collect()
}

/// A label as part of a file's name.
fn file_slug(label: &str) -> String {
    let slug: String = label
        .chars()
        .map(|c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let parts: Vec<&str> = slug.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        "run".to_owned()
    } else {
        parts.join("-")
    }
}

impl LabelRuns<'_> {
    /// The run that is drawn over time.
    fn shown_run(&self) -> &RunRecord {
        self.runs[0]
    }

    /// Names the run that is drawn, if there are several.
    fn describe_shown_run(&self) -> String {
        match self.runs.len() {
            1 => String::new(),
            several => format!("Seed {}, the first of {several}. ", self.shown_run().seed),
        }
    }
}
