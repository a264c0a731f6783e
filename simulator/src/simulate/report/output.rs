//! All files of a report, in memory and on disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::compare::LabelComparison;
use super::components_csv::components_csv;
use super::figures::{self, ReportFigure};
use super::html_report;
use super::jobs_csv::jobs_csv;
use super::local_days::local_csv;
use super::record::RunRecord;
use super::summary::RunSummary;
use super::terminal_summary::terminal_summary;

/// Version of the layout of `summary.json`; raised when a field changes its meaning or disappears.
const SUMMARY_FORMAT: u32 = 2;

/// A file of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// The path below the folder of the report.
    pub path: PathBuf,
    pub content: Vec<u8>,
}

/// A finished report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFiles {
    /// The content of `summary.json`.
    pub summary: serde_json::Value,
    pub files: Vec<OutputFile>,
    /// A short summary for the terminal, in several lines.
    pub text: String,
}

/// The reason why there is no report.
#[derive(Debug, Error)]
pub enum ReportError {
    /// There is nothing to report.
    #[error("no run to report: simulate at least one")]
    NoRuns,
    /// Two runs cannot be told apart.
    #[error("two runs have label {label:?} and seed {seed}: give each its own label or seed")]
    DuplicateRun { label: String, seed: u64 },
    /// The end of a run lies before its begin.
    #[error("run {label:?} with seed {seed} ends before it begins: correct its record")]
    EndsBeforeItBegins { label: String, seed: u64 },
    /// A row could not be written.
    #[error("cannot write a table: {0}; report this as a bug")]
    Csv(#[from] csv::Error),
    /// `summary.json` could not be written.
    #[error("cannot write summary.json: {0}; report this as a bug")]
    Json(#[from] serde_json::Error),
    /// The page could not be written.
    #[error("cannot write report.html: {0}; report this as a bug")]
    Page(#[from] askama::Error),
    /// The disk refused a file.
    #[error("cannot write {}: {source}; name another directory or make room", path.display())]
    Write {
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The content of `summary.json`.
#[derive(Serialize)]
struct SummaryFile<'a> {
    format: u32,
    setup: &'a [String],
    runs: &'a [RunSummary],
    comparison: &'a LabelComparison,
}

/// Makes all files of a report on these runs. `setup` describes the simulation in lines for people,
/// so that it can be repeated.
///
/// # Errors
///
/// [`ReportError`] if there is no run, if two share label and seed, or if one
/// ends before it begins.
pub fn render_report(setup: &[String], runs: &[RunRecord]) -> Result<ReportFiles, ReportError> {
    check_runs(runs)?;
    let summaries: Vec<RunSummary> = runs.iter().map(RunSummary::of_run).collect();
    let comparison = LabelComparison::of_runs(&summaries);
    let figures = figures::all_figures(runs);
    let format = SUMMARY_FORMAT;
    let summary = SummaryFile {
        format,
        setup,
        runs: &summaries,
        comparison: &comparison,
    };
    let mut json = serde_json::to_vec_pretty(&summary)?;
    json.push(b'\n');
    let html = html_report::write_page(setup, &summaries, &comparison, &figures)?;
    let mut files = vec![
        OutputFile {
            path: "summary.json".into(),
            content: json,
        },
        OutputFile {
            path: "jobs.csv".into(),
            content: jobs_csv(runs)?,
        },
        OutputFile {
            path: "components.csv".into(),
            content: components_csv(runs)?,
        },
        OutputFile {
            path: "local.csv".into(),
            content: local_csv(runs)?,
        },
        OutputFile {
            path: "report.html".into(),
            content: html.into_bytes(),
        },
    ];
    files.extend(figures.iter().map(figure_file));
    let text = terminal_summary(&summaries, &comparison);
    Ok(ReportFiles {
        summary: serde_json::to_value(&summary)?,
        files,
        text,
    })
}

/// Makes the report and writes it into `folder`, which is created if necessary. No file of an
/// earlier report stays there; other files do.
///
/// # Errors
///
/// [`ReportError`], as [`render_report`]; [`ReportError::Write`] if the disk refuses.
pub fn write_report(
    folder: &Path,
    setup: &[String],
    runs: &[RunRecord],
) -> Result<ReportFiles, ReportError> {
    let report = render_report(setup, runs)?;
    let figures = folder.join("figures");
    fs::create_dir_all(&figures)
        .and_then(|()| remove_figures(&figures))
        .map_err(|source| ReportError::Write {
            path: figures,
            source,
        })?;
    for file in &report.files {
        let path = folder.join(&file.path);
        fs::write(&path, &file.content).map_err(|source| ReportError::Write { path, source })?;
    }
    Ok(report)
}

/// The names of other files are the same in each report: they are overwritten.
fn remove_figures(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Refuses runs that cannot be reported on.
fn check_runs(runs: &[RunRecord]) -> Result<(), ReportError> {
    if runs.is_empty() {
        return Err(ReportError::NoRuns);
    }
    let mut seen = BTreeSet::new();
    for RunRecord {
        label,
        seed,
        began,
        ended,
        ..
    } in runs
    {
        let label = label.clone();
        let seed = *seed;
        if ended < began {
            return Err(ReportError::EndsBeforeItBegins { label, seed });
        }
        if !seen.insert((label.clone(), seed)) {
            return Err(ReportError::DuplicateRun { label, seed });
        }
    }
    Ok(())
}

/// A figure as a file of its own.
fn figure_file(figure: &ReportFigure) -> OutputFile {
    let path = Path::new("figures").join(format!("{}.svg", figure.name));
    OutputFile {
        path,
        content: figure.to_standalone_svg().into_bytes(),
    }
}
