//! Runs of several labels over the same seeds, side by side.
//!
//! A label's figure is the mean over its seeds. Labels are compared by the
//! differences per seed, not by those means: with a common workload per seed
//! the differences vary far less (common random numbers; Law, "Simulation
//! Modeling and Analysis", 5th ed., section 11.2).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::stats::ConfidenceInterval;
use super::summary::RunSummary;

/// A figure by which runs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonMetric {
    /// Mean wait in seconds.
    MeanWait,
    /// Median wait in seconds.
    MedianWait,
    /// Quantile 0.95 of the wait in seconds.
    P95Wait,
    /// Mean response time in seconds.
    MeanResponse,
    /// Mean bounded slowdown.
    MeanBoundedSlowdown,
    /// Percent of the processors that ran grid jobs or served local users.
    Utilization,
    /// Number of jobs that ended well.
    JobsDone,
    /// Processor-hours held without running.
    WastedProcessorHours,
}

/// The result of a paired difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Significance {
    /// Better than the baseline: the interval lies on the good side of zero.
    Better,
    /// Worse than the baseline: the interval lies on the bad side of zero.
    Worse,
    /// The interval contains zero.
    NoDifferenceShown,
    /// Fewer than two seeds in common.
    TooFewSeeds,
}

/// All labels of a report against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelComparison {
    /// The first label.
    pub baseline: String,
    /// Labels that differ in one thing, in the order of the differences of each metric.
    pub pairs: Vec<LabelPair>,
    /// All labels, in the order in which they first occur.
    pub labels: Vec<String>,
    /// A row for each metric.
    pub metrics: Vec<MetricRow>,
}

/// Two labels that differ in one thing alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelPair {
    /// The label under examination.
    pub label: String,
    /// The label it is compared with.
    pub against: String,
    /// The one thing in which they differ, as in "easy less fcfs".
    pub changed: String,
    /// The other varied values, which both have in common; empty if there are none.
    pub common: String,
}

/// A metric over all labels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricRow {
    /// The metric.
    pub metric: ComparisonMetric,
    /// For each label, its mean over seeds; `None` if no run has a value.
    pub means: Vec<Option<ConfidenceInterval>>,
    /// For each of [`LabelComparison::pairs`], the difference of the two labels.
    pub differences: Vec<PairedDifference>,
}

/// A label less another, per seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedDifference {
    /// Mean of the differences; `None` without a seed in common.
    pub interval: Option<ConfidenceInterval>,
    /// The result of the comparison.
    pub verdict: Significance,
}

impl ComparisonMetric {
    /// All of them, in the order of the tables.
    pub const ALL: [ComparisonMetric; 8] = [
        ComparisonMetric::MeanWait,
        ComparisonMetric::MedianWait,
        ComparisonMetric::P95Wait,
        ComparisonMetric::MeanResponse,
        ComparisonMetric::MeanBoundedSlowdown,
        ComparisonMetric::Utilization,
        ComparisonMetric::JobsDone,
        ComparisonMetric::WastedProcessorHours,
    ];

    /// Name with unit, for tables.
    pub fn title(self) -> &'static str {
        match self {
            ComparisonMetric::MeanWait => "mean wait (s)",
            ComparisonMetric::MedianWait => "median wait (s)",
            ComparisonMetric::P95Wait => "95th percentile of wait (s)",
            ComparisonMetric::MeanResponse => "mean response time (s)",
            ComparisonMetric::MeanBoundedSlowdown => "mean bounded slowdown",
            ComparisonMetric::Utilization => "utilization (%)",
            ComparisonMetric::JobsDone => "jobs done",
            ComparisonMetric::WastedProcessorHours => "wasted processor-hours",
        }
    }

    /// Returns true if more is better.
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            ComparisonMetric::Utilization | ComparisonMetric::JobsDone
        )
    }

    /// The value in a run; `None` if no job got far enough to have one.
    pub fn value_in(self, run: &RunSummary) -> Option<f64> {
        match self {
            ComparisonMetric::MeanWait => run.wait_s.if_any(run.wait_s.mean),
            ComparisonMetric::MedianWait => run.wait_s.if_any(run.wait_s.median),
            ComparisonMetric::P95Wait => run.wait_s.if_any(run.wait_s.p95),
            ComparisonMetric::MeanResponse => run.response_s.if_any(run.response_s.mean),
            ComparisonMetric::MeanBoundedSlowdown => {
                run.bounded_slowdown.if_any(run.bounded_slowdown.mean)
            }
            ComparisonMetric::Utilization => Some(run.utilization() * 100.0),
            ComparisonMetric::JobsDone => Some(run.jobs.done as f64),
            ComparisonMetric::WastedProcessorHours => Some(run.wasted_processor_hours),
        }
    }
}

impl Significance {
    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Significance::Better => "better",
            Significance::Worse => "worse",
            Significance::NoDifferenceShown => "no significant difference",
            Significance::TooFewSeeds => "too few seeds",
        }
    }

    /// The verdict on the differences of a metric.
    fn from_differences(metric: ComparisonMetric, differences: Option<ConfidenceInterval>) -> Self {
        match differences {
            Some(interval) if interval.half_width.is_some() => {
                let more = interval.mean > 0.0;
                match (interval.excludes_zero(), more == metric.more_is_better()) {
                    (false, _) => Significance::NoDifferenceShown,
                    (true, true) => Significance::Better,
                    (true, false) => Significance::Worse,
                }
            }
            _ => Significance::TooFewSeeds,
        }
    }
}

impl LabelComparison {
    /// Compares all runs of a report; a label and a seed occur together once at most.
    pub fn of_runs(runs: &[RunSummary]) -> Self {
        let labels = distinct_labels(runs.iter().map(|run| run.label.as_str()));
        let pairs = make_pairs(&labels);
        let metrics = ComparisonMetric::ALL
            .into_iter()
            .map(|metric| metric_row(metric, &labels, &pairs, runs))
            .collect();
        Self {
            baseline: labels.first().cloned().unwrap_or_default(),
            pairs,
            labels,
            metrics,
        }
    }
}

impl LabelPair {
    /// The comparison in words.
    pub fn words(&self) -> String {
        match self.common.as_str() {
            "" => self.changed.clone(),
            common => format!("{} ({common})", self.changed),
        }
    }
}

/// Separates the values of a label.
const BETWEEN: &str = ", ";

/// Pairs every label with each that has the first value in one place and else the same values.
/// Labels that do not name equally many values are compared with the first, as they are.
fn make_pairs(labels: &[String]) -> Vec<LabelPair> {
    let all: Vec<Vec<String>> = labels
        .iter()
        .map(|label: &String| {
            label
                .split(BETWEEN)
                .map(str::to_owned)
                .collect::<Vec<String>>()
        })
        .collect();
    let Some((first, others)) = all.split_first() else {
        return Vec::new();
    };
    if others.iter().any(|other| other.len() != first.len()) {
        return labels[1..]
            .iter()
            .map(|label| make_pair(&[&labels[0]], &[label], 0))
            .collect();
    }
    others
        .iter()
        .flat_map(|one: &Vec<String>| -> Vec<LabelPair> {
            let differs = (0..first.len()).filter(|at| one[*at] != first[*at]);
            let held = differs.filter_map(|at| {
                let mut against = one.clone();
                against[at].clone_from(&first[at]);
                all.contains(&against).then(|| make_pair(&against, one, at))
            });
            held.collect()
        })
        .collect()
}

/// The pair of two labels with these values, which differ in one place.
fn make_pair<T: AsRef<str>>(against: &[T], one: &[T], at: usize) -> LabelPair {
    let common = one.iter().enumerate().filter(|(place, _)| *place != at);
    LabelPair {
        label: join_values(one),
        against: join_values(against),
        changed: format!("{} less {}", one[at].as_ref(), against[at].as_ref()),
        common: common
            .map(|(_, value)| value.as_ref())
            .collect::<Vec<_>>()
            .join(BETWEEN),
    }
}

fn join_values<T: AsRef<str>>(values: &[T]) -> String {
    values
        .iter()
        .map(T::as_ref)
        .collect::<Vec<_>>()
        .join(BETWEEN)
}

/// Distinct labels in the order in which they first occur.
pub(super) fn distinct_labels<'a>(all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    all.filter(|label| seen.insert(*label))
        .map(str::to_owned)
        .collect()
}

/// The row of a metric over all labels.
fn metric_row(
    metric: ComparisonMetric,
    labels: &[String],
    pairs: &[LabelPair],
    runs: &[RunSummary],
) -> MetricRow {
    let by_label: BTreeMap<&str, BTreeMap<u64, f64>> = labels
        .iter()
        .map(|label| (label.as_str(), values_by_seed(metric, label, runs)))
        .collect();
    let mean = |values: &BTreeMap<u64, f64>| {
        ConfidenceInterval::of_values(&values.values().copied().collect::<Vec<f64>>())
    };
    MetricRow {
        metric,
        means: labels
            .iter()
            .map(|label| mean(&by_label[label.as_str()]))
            .collect(),
        differences: pairs
            .iter()
            .map(|pair: &LabelPair| {
                let one = &by_label[pair.label.as_str()];
                let against = &by_label[pair.against.as_str()];
                let pairs = one
                    .iter()
                    .filter_map(|(seed, value)| Some(value - against.get(seed)?));
                let interval = ConfidenceInterval::of_values(&pairs.collect::<Vec<f64>>());
                PairedDifference {
                    interval,
                    verdict: Significance::from_differences(metric, interval),
                }
            })
            .collect(),
    }
}

/// The values of a metric in the runs of a label, by seed.
fn values_by_seed(
    metric: ComparisonMetric,
    label: &str,
    runs: &[RunSummary],
) -> BTreeMap<u64, f64> {
    let labelled = runs.iter().filter(|run| run.label == label);
    labelled
        .filter_map(|run| Some((run.seed, metric.value_in(run)?)))
        .collect()
}
