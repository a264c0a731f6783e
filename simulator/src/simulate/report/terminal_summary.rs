//! The few lines that `cospan simulate` prints.

use super::compare::{LabelComparison, MetricRow};
use super::number_format;
use super::stats::ConfidenceInterval;
use super::summary::RunSummary;

/// Characters of a label that fit above a column.
const LABEL_CHARS: usize = 28;

/// Writes the figures by label, then the differences of labels that differ in one thing.
pub fn terminal_summary(runs: &[RunSummary], comparison: &LabelComparison) -> String {
    let mut table = vec![header_row(comparison)];
    table.extend(comparison.metrics.iter().map(mean_cells));
    let mut text = format!("{}\n\n{}", headline(runs, comparison), align_rows(&table));
    for (index, pair) in comparison.pairs.iter().enumerate() {
        let rows: Vec<_> = comparison
            .metrics
            .iter()
            .map(|row| difference_cells(row, index))
            .collect();
        let words = plain_words(&pair.words());
        text.push_str(&format!("\n{words}, per seed\n{}", align_rows(&rows)));
    }
    text
}

/// Describes the simulation.
fn headline(runs: &[RunSummary], comparison: &LabelComparison) -> String {
    let jobs = runs.iter().map(|run| run.jobs.submitted).sum();
    let done = runs.iter().map(|run| run.jobs.done).sum();
    let means = if runs.len() > comparison.labels.len() {
        "; means over seeds with 95 % confidence intervals"
    } else {
        ""
    };
    format!(
        "{}, {}, {} done{means}",
        number_format::count_noun(runs.len() as u64, "run"),
        number_format::count_noun(jobs, "job"),
        number_format::format_count(done),
    )
}

/// The first row.
fn header_row(comparison: &LabelComparison) -> Vec<String> {
    let labels = comparison.labels.iter().map(|label| one_line(label));
    std::iter::once(String::new()).chain(labels).collect()
}

/// A metric by label.
fn mean_cells(row: &MetricRow) -> Vec<String> {
    std::iter::once(row.metric.title().to_owned())
        .chain(row.means.iter().map(|mean: &Option<ConfidenceInterval>| {
            mean.as_ref()
                .map_or("-".to_owned(), number_format::format_interval)
        }))
        .collect()
}

/// The difference of a pair of labels in a metric.
fn difference_cells(row: &MetricRow, index: usize) -> Vec<String> {
    let Some(difference) = row.differences.get(index) else {
        return Vec::new();
    };
    let interval = difference
        .interval
        .as_ref()
        .map_or("-".to_owned(), number_format::format_difference);
    vec![
        row.metric.title().to_owned(),
        interval,
        difference.verdict.words().to_owned(),
    ]
}

/// A label without characters that would disturb a terminal.
fn one_line(label: &str) -> String {
    number_format::cut_text(&plain_words(label), LABEL_CHARS)
}

/// Words without characters that would disturb a terminal.
fn plain_words(words: &str) -> String {
    cospan_printing::terminal::on_one_line(words).into_owned()
}

/// Aligns the columns of rows.
fn align_rows(rows: &[Vec<String>]) -> String {
    rows.iter()
        .map(|row: &Vec<String>| {
            let cells = row.iter().enumerate();
            let padded = cells.map(|(column, cell)| {
                format!("{cell:<width$}", width = column_width(rows, column))
            });
            format!(
                "{}\n",
                padded.collect::<Vec<String>>().join("  ").trim_end()
            )
        })
        .collect()
}

fn column_width(rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
}
