//! The output of `cospan simulate`: tables, figures and a page.
//!
//! [`render_report`] turns the records of runs into files held in memory;
//! [`write_report`] puts them into a folder. Nothing here reads a clock or
//! draws at random, so the same records give the same bytes.
//!
//! Figures are written as SVG by hand-made code: the usual plotting crate,
//! plotters, places everything on whole pixels and knows colours but no style
//! sheets, so that its pictures can neither follow a dark page nor carry
//! tooltips or words for those who cannot see them.

mod compare;
mod components_csv;
mod figures;
mod groups;
mod html_report;
mod jobs_csv;
mod local_days;
mod millis;
mod number_format;
mod output;
mod record;
mod stats;
mod step_function;
mod summary;
mod terminal_summary;

#[cfg(test)]
mod tests;

pub use compare::{
    ComparisonMetric, LabelComparison, LabelPair, MetricRow, PairedDifference, Significance,
};
pub use components_csv::{COMPONENT_COLUMNS, components_csv};
pub use figures::round_up as map_scale;
pub use figures::{MapPoint, ReportFigure, virtual_map};
pub use groups::JobGroupSummary;
pub use jobs_csv::{COLUMNS, CsvColumn, jobs_csv};
pub use local_days::LocalUserDay;
pub use output::{OutputFile, ReportError, ReportFiles, render_report, write_report};
pub use record::{
    AttemptRow, GanttBar, JobEnding, LoadKind, LoadUseStep, QueueStep, ReservationBar, RunJob,
    RunRecord, SLOWDOWN_THRESHOLD, SiteTrace,
};
pub use stats::{ConfidenceInterval, ValueDistribution, mean, quantile, t_975};
pub use summary::{JobCounts, LoadShares, RunSummary, SiteSummary};
pub use terminal_summary::terminal_summary;
