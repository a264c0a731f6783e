//! Calls to sites, as the control plane counts them.

use std::collections::BTreeMap;
use std::fmt;

use prometheus::IntCounterVec;
use prometheus::core::Collector;
use prometheus::proto::Metric;

/// Calls that follow from decisions, each made once. The number of queries of a site depends on how
/// long things take, and so do the others: a copy is verified once for all who need it at that
/// moment.
const WORK: [&str; 6] = [
    "submit",
    "find-by-tag",
    "decide-gate",
    "cancel",
    "inspect",
    "start-copy",
];

/// Repeated every few seconds until its end is seen, which takes as long as a process takes to die:
/// it counts whether it was called, not how often.
const UNTIL_SEEN: &str = "cancel";

/// The number of calls of each kind, by answer.
#[derive(Debug, Clone, Default)]
pub(super) struct CallCounts(BTreeMap<(String, String), u64>);

impl CallCounts {
    /// Reads the control plane's own counter.
    pub(super) fn from_counter(counter: &IntCounterVec) -> Self {
        let mut calls = Self::default();
        for family in counter.collect() {
            for metric in family.get_metric() {
                let count = metric.get_counter().get_value() as u64;
                *calls
                    .0
                    .entry((label_of(metric, "call"), label_of(metric, "outcome")))
                    .or_default() += count;
            }
        }
        calls
    }

    /// Parses the metrics that a server exports.
    pub(super) fn parse_metrics(text: &str) -> Self {
        let mut calls = Self::default();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("cospan_site_calls_total{") else {
                continue;
            };
            let Some((labels, count)) = rest.split_once("} ") else {
                continue;
            };
            let count = count.trim().parse().unwrap_or(0);
            *calls
                .0
                .entry((parse_label(labels, "call"), parse_label(labels, "outcome")))
                .or_default() += count;
        }
        calls
    }

    pub(super) fn add_calls(&mut self, other: &Self) {
        for (key, count) in &other.0 {
            *self.0.entry(key.clone()).or_default() += count;
        }
    }

    /// Returns the same for a control plane that was killed: requests to copy are repeated after a
    /// restart, and one made between the last count and the kill is counted nowhere.
    pub(super) fn work_across_restarts(&self) -> BTreeMap<(String, String), u64> {
        let mut work = self.comparable_calls();
        work.retain(|(call, _), _| call != "start-copy");
        work
    }

    /// Returns the calls that must be the same in both worlds, with their answers.
    pub(super) fn comparable_calls(&self) -> BTreeMap<(String, String), u64> {
        let work = self
            .0
            .iter()
            .filter(|((call, _), _)| WORK.contains(&call.as_str()));
        let made = work.filter(|(_, count)| **count > 0);
        made.map(|(key, &count)| {
            let compared = if key.0 == UNTIL_SEEN { 1 } else { count };
            (key.clone(), compared)
        })
        .collect()
    }
}

fn label_of(metric: &Metric, name: &str) -> String {
    let labels = metric.get_label().iter();
    let found = labels.into_iter().find(|label| label.name() == name);
    found
        .map(|label| label.value().to_owned())
        .unwrap_or_default()
}

fn parse_label(labels: &str, name: &str) -> String {
    let value = labels
        .split(',')
        .find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
    value
        .map(|value| value.trim_matches('"').to_owned())
        .unwrap_or_default()
}

/// Counts by kind of call, whatever the answer.
impl fmt::Display for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for ((call, _), count) in &self.0 {
            *all.entry(call).or_default() += count;
        }
        let mut others = 0;
        let mut comma = "";
        for (call, count) in all {
            if WORK.contains(&call) && count > 0 {
                write!(f, "{comma}{call} {count}")?;
                comma = ", ";
            } else {
                others += count;
            }
        }
        write!(f, "; others {others}")
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    #[test]
    fn what_is_exported_reads_as_what_is_counted() {
        let opts = Opts::new("cospan_site_calls_total", "Calls.");
        let counter = IntCounterVec::new(opts, &["call", "outcome"]).unwrap();
        counter.with_label_values(&["submit", "ok"]).inc_by(3);
        counter.with_label_values(&["submit", "full"]).inc();
        counter.with_label_values(&["status", "ok"]).inc_by(40);
        let registry = prometheus::Registry::new();
        registry.register(Box::new(counter.clone())).unwrap();
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        let counted = CallCounts::from_counter(&counter);
        let exported = CallCounts::parse_metrics(&text);
        assert_eq!(counted.comparable_calls(), exported.comparable_calls());
        counter.with_label_values(&["cancel", "ok"]).inc_by(2);
        let twice = CallCounts::from_counter(&counter).comparable_calls();
        counter.with_label_values(&["cancel", "ok"]).inc();
        assert_eq!(
            CallCounts::from_counter(&counter).comparable_calls(),
            twice,
            "a cancel that was given again"
        );
        assert_eq!(exported.to_string(), "submit 4; others 40");
    }
}
