//! `report.html`: everything on one page that needs no other file.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;

use super::ReportError;
use super::compare::{
    ComparisonMetric, LabelComparison, LabelPair, PairedDifference, Significance,
};
use super::components_csv::COMPONENT_COLUMNS;
use super::figures::{ReportFigure, STYLE};
use super::groups::JobGroupSummary;
use super::jobs_csv::{COLUMNS, CsvColumn};
use super::number_format;
use super::record::{AttemptRow, RunJob};
use super::stats::{ConfidenceInterval, mean};
use super::summary::{LoadShares, RunSummary, SiteSummary};

/// Rows up to which the table of runs is shown unfolded.
const RUNS_UNFOLDED: usize = 12;

/// The values for the template.
#[derive(Template)]
#[template(path = "simulation_report.html")]
struct ReportPage<'a> {
    lead: String,
    setup: &'a [String],
    comparison: &'a LabelComparison,
    titles: Vec<(&'static str, &'static str)>,
    means: Vec<LabelRow>,
    differences: Vec<PairRow>,
    groups: [GroupTable; 2],
    several_seeds: bool,
    figures: &'a [ReportFigure],
    style: &'static str,
    runs: Vec<RunRow>,
    runs_unfolded: bool,
    sites: Vec<SiteRow>,
    counters: Vec<CounterRow>,
    columns: &'static [CsvColumn<RunJob>],
    component_columns: &'static [CsvColumn<AttemptRow>],
}

/// A label: the mean of each metric.
struct LabelRow {
    label: String,
    means: Vec<String>,
}

/// Two labels that differ in one thing: the difference in each metric.
struct PairRow {
    words: String,
    cells: Vec<DifferenceCell>,
}

/// Results of jobs of each kind.
struct GroupTable {
    title: &'static str,
    kind: &'static str,
    rows: Vec<GroupRow>,
}

/// Jobs of one kind under one label, over all seeds.
struct GroupRow {
    label: String,
    kind: String,
    cells: [String; 6],
}

/// A difference with its verdict.
struct DifferenceCell {
    interval: String,
    verdict: &'static str,
    class: &'static str,
}

/// A run.
struct RunRow {
    label: String,
    seed: u64,
    cells: Vec<String>,
}

/// A site under one label, as means over seeds.
struct SiteRow {
    label: String,
    name: String,
    processors: String,
    load: [String; 4],
}

/// A counter, as means over seeds by label.
struct CounterRow {
    name: String,
    means: Vec<String>,
}

/// Writes the page.
///
/// # Errors
///
/// [`ReportError::Page`] if the template refuses, which memory never makes it.
pub(super) fn write_page(
    setup: &[String],
    runs: &[RunSummary],
    comparison: &LabelComparison,
    figures: &[ReportFigure],
) -> Result<String, ReportError> {
    let page = ReportPage {
        lead: lead_sentence(runs, comparison),
        setup,
        comparison,
        titles: comparison
            .metrics
            .iter()
            .map(|row| metric_title(row.metric))
            .collect(),
        means: comparison
            .labels
            .iter()
            .enumerate()
            .map(|(at, label)| label_row(at, label, comparison))
            .collect(),
        differences: comparison
            .pairs
            .iter()
            .enumerate()
            .map(|(at, pair)| pair_row(at, pair, comparison))
            .collect(),
        groups: [
            group_table(
                "By number of components",
                "components",
                runs,
                comparison,
                |run| &run.by_components,
            ),
            group_table("By size", "processors", runs, comparison, |run| {
                &run.by_processors
            }),
        ],
        several_seeds: runs.len() > comparison.labels.len(),
        figures,
        style: STYLE,
        runs: runs.iter().map(run_row).collect(),
        runs_unfolded: runs.len() <= RUNS_UNFOLDED,
        sites: comparison
            .labels
            .iter()
            .flat_map(|label| site_rows(label, runs))
            .collect(),
        counters: counter_rows(runs, &comparison.labels),
        columns: &COLUMNS,
        component_columns: &COMPONENT_COLUMNS,
    };
    Ok(page.render()?)
}

/// Describes the simulation in a sentence.
fn lead_sentence(runs: &[RunSummary], comparison: &LabelComparison) -> String {
    let jobs = runs.iter().map(|run| run.jobs.submitted).sum();
    let sites = runs.iter().map(|run| run.sites.len()).max().unwrap_or(0);
    let processors = runs.iter().map(|run| run.processors).max().unwrap_or(0);
    format!(
        "{} of {} with {} in all, on {} with {}.",
        number_format::count_noun(runs.len() as u64, "run"),
        number_format::count_noun(comparison.labels.len() as u64, "label"),
        number_format::count_noun(jobs, "job"),
        number_format::count_noun(sites as u64, "site"),
        number_format::count_noun(processors, "processor"),
    )
}

/// A metric with its unit, and the direction that is good.
fn metric_title(metric: ComparisonMetric) -> (&'static str, &'static str) {
    (
        metric.title(),
        if metric.more_is_better() {
            "more is better"
        } else {
            "less is better"
        },
    )
}

/// The means of a label.
fn label_row(at: usize, label: &str, comparison: &LabelComparison) -> LabelRow {
    let means = comparison
        .metrics
        .iter()
        .filter_map(|row| row.means.get(at))
        .map(|mean: &Option<ConfidenceInterval>| {
            mean.as_ref()
                .map_or("–".into(), number_format::format_interval)
        });
    LabelRow {
        label: label.to_owned(),
        means: means.collect(),
    }
}

/// The differences of a pair of labels.
fn pair_row(at: usize, pair: &LabelPair, comparison: &LabelComparison) -> PairRow {
    let cells = comparison
        .metrics
        .iter()
        .filter_map(|row| row.differences.get(at));
    PairRow {
        words: pair.words(),
        cells: cells.map(difference_cell).collect(),
    }
}

/// The classes of jobs under each label, as sums and means over its runs.
fn group_table(
    title: &'static str,
    kind: &'static str,
    runs: &[RunSummary],
    comparison: &LabelComparison,
    of: fn(&RunSummary) -> &Vec<JobGroupSummary>,
) -> GroupTable {
    let mut rows = Vec::new();
    for label in &comparison.labels {
        let runs = runs.iter().filter(|run| run.label == *label);
        let mut classes: BTreeMap<u32, Vec<&JobGroupSummary>> = BTreeMap::new();
        for group in runs.flat_map(of) {
            classes.entry(group.least).or_default().push(group);
        }
        rows.extend(
            classes
                .into_values()
                .map(|groups| group_row(label, &groups)),
        );
    }
    GroupTable { title, kind, rows }
}

fn group_row(label: &str, groups: &[&JobGroupSummary]) -> GroupRow {
    GroupRow {
        label: label.to_owned(),
        kind: groups
            .first()
            .map_or(String::new(), |group| group.describe()),
        cells: [
            number_format::format_count(groups.iter().map(|group| group.jobs).sum()),
            number_format::format_count(groups.iter().map(|group| group.started).sum()),
            show_mean(groups, |group| group.wait_s.if_any(group.wait_s.median)),
            show_mean(groups, |group| group.wait_s.if_any(group.wait_s.p95)),
            show_mean(groups, |group| {
                group.bounded_slowdown.if_any(group.bounded_slowdown.median)
            }),
            show_mean(groups, |group| {
                group.bounded_slowdown.if_any(group.bounded_slowdown.mean)
            }),
        ],
    }
}

fn show_mean(groups: &[&JobGroupSummary], value: fn(&JobGroupSummary) -> Option<f64>) -> String {
    let values: Vec<f64> = groups.iter().filter_map(|group| value(group)).collect();
    show_known(mean(&values))
}

fn show_known(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), number_format::format_number)
}

/// A difference as shown.
fn difference_cell(difference: &PairedDifference) -> DifferenceCell {
    DifferenceCell {
        interval: difference
            .interval
            .as_ref()
            .map_or("–".into(), number_format::format_difference),
        verdict: difference.verdict.words(),
        class: match difference.verdict {
            Significance::Better => "better",
            Significance::Worse => "worse",
            Significance::NoDifferenceShown | Significance::TooFewSeeds => "open",
        },
    }
}

/// A run as shown, in the order of the template's header.
fn run_row(run: &RunSummary) -> RunRow {
    let jobs = &run.jobs;
    RunRow {
        label: run.label.clone(),
        seed: run.seed,
        cells: vec![
            number_format::format_seconds(run.duration_s),
            number_format::format_count(jobs.submitted),
            number_format::format_count(jobs.done),
            number_format::format_count(jobs.failed),
            number_format::format_count(jobs.cancelled),
            number_format::format_count(jobs.unfinished),
            number_format::format_count(jobs.over_several_sites),
            show_known(run.wait_s.if_any(run.wait_s.mean)),
            show_known(run.wait_s.if_any(run.wait_s.p95)),
            show_known(run.response_s.if_any(run.response_s.mean)),
            show_known(run.bounded_slowdown.if_any(run.bounded_slowdown.mean)),
            number_format::format_percent(run.utilization()),
            number_format::format_number(run.wasted_processor_hours),
            number_format::format_count(u64::from(run.queue_max)),
        ],
    }
}

/// The sites of a label, each as the mean over its runs.
fn site_rows(label: &str, runs: &[RunSummary]) -> Vec<SiteRow> {
    let runs: Vec<&RunSummary> = runs.iter().filter(|run| run.label == label).collect();
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    first
        .sites
        .iter()
        .enumerate()
        .map(|(index, site): (usize, &SiteSummary)| {
            let loads: Vec<LoadShares> = runs
                .iter()
                .filter_map(|run| run.sites.get(index))
                .map(|site| site.load)
                .collect();
            SiteRow {
                label: label.to_owned(),
                name: site.name.clone(),
                processors: number_format::format_count(site.processors.into()),
                load: [
                    show_share(&loads, |load| load.grid_running),
                    show_share(&loads, |load| load.grid_held),
                    show_share(&loads, |load| load.local),
                    show_share(&loads, |load| load.down),
                ],
            }
        })
        .collect()
}

fn show_share(loads: &[LoadShares], part: fn(&LoadShares) -> f64) -> String {
    let shares: Vec<f64> = loads.iter().map(part).collect();
    number_format::format_percent(mean(&shares).unwrap_or(0.0))
}

/// All counters, those that every run has first.
fn counter_rows(runs: &[RunSummary], labels: &[String]) -> Vec<CounterRow> {
    let row = |name: &str, count: &dyn Fn(&RunSummary) -> f64| CounterRow {
        name: name.to_owned(),
        means: labels
            .iter()
            .map(|label| mean_of(runs, label, count))
            .collect(),
    };
    let mut rows = vec![
        row("attempts submitted to sites", &|run| run.attempts as f64),
        row("rounds of co-allocation", &|run| run.rounds as f64),
        row("errors answered by sites", &|run| run.site_errors as f64),
        row("gigabytes moved to sites", &|run| {
            run.transfer_bytes as f64 / 1e9
        }),
    ];
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.counters.keys()).collect();
    for name in names {
        rows.push(row(name, &|run| {
            run.counters.get(name).copied().unwrap_or(0) as f64
        }));
    }
    rows
}

/// Mean of a count over the runs of a label.
fn mean_of(runs: &[RunSummary], label: &str, count: impl Fn(&RunSummary) -> f64) -> String {
    let counts: Vec<f64> = runs
        .iter()
        .filter(|run| run.label == label)
        .map(count)
        .collect();
    mean(&counts).map_or("–".to_owned(), number_format::format_number)
}
